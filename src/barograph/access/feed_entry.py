"""The Feed entry resource: what somebody without Feed is shown (pure)."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.json import encode

X402_VERSION = 2
ENTITLEMENT_REQUIRED = "Active verified Feed entitlement required"
FEED_PRICE_USD = 25
RESERVE_PRICE_USD = 149
FEED_PATH = "/api/x402/feed"
PRICING_PATH = "/pricing"

_DESCRIPTION = (
    f"Barograph Feed ({FEED_PRICE_USD} USD a period) is needed here. Do not pay again "
    "automatically: if you have paid already, look first whether your entitlement is active."
)


class FeedEntry(NamedTuple):
    """Where Feed is to be had."""

    url: str
    accepts: Sequence[dict[str, Any]] = ()
    """How it may be paid for by x402; nothing where that is disabled."""

    def payment_required(self) -> bytes:
        """The x402 v2 payment-required object."""
        return encode(
            {
                "x402Version": X402_VERSION,
                "error": ENTITLEMENT_REQUIRED,
                "resource": {
                    "url": self.url,
                    "description": _DESCRIPTION,
                    "mimeType": "application/json" if self.accepts else "text/html",
                },
                "accepts": list(self.accepts),
                "extensions": {},
            }
        )


def payment_required_field(body: bytes) -> tuple[bytes, bytes]:
    """The header field that repeats the object."""
    return (b"payment-required", b64encode(body))
