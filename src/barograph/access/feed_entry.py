"""The Feed entry resource: what somebody without Feed is shown (pure)."""

from typing import NamedTuple

from barograph.payments.offers import payment_required
from barograph.payments.records import Requirements

ENTITLEMENT_REQUIRED = "Active verified Feed entitlement required"
RESERVE_PRICE_USD = 149
FEED_PATH = "/api/x402/feed"
PRICING_PATH = "/pricing"

_DESCRIPTION = (
    "Barograph Feed is needed here. Do not pay again automatically: if you have paid already, "
    "look first whether your entitlement is active."
)
_EXAMPLE = {"tier": "feed", "ends_at": "2026-12-15T10:00:00.000Z"}


class FeedEntry(NamedTuple):
    """Where Feed is to be had."""

    base_url: str
    requirements: Requirements | None = None
    """How it is paid for by x402; None where that is disabled."""

    def document(self, error: str = ENTITLEMENT_REQUIRED) -> bytes:
        """The x402 v2 payment-required object."""
        if self.requirements is None:
            url = f"{self.base_url}{PRICING_PATH}"
            return payment_required(
                None, url=url, description=_DESCRIPTION, mime_type="text/html", error=error
            )
        return payment_required(
            self.requirements,
            url=f"{self.base_url}{FEED_PATH}",
            description=_DESCRIPTION,
            error=error,
            output_example=_EXAMPLE,
        )
