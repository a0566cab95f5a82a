"""How somebody is refused who neither has Feed nor pays.

PrivateError
├── InvalidIdempotencyKey           400
├── FeedIdentityRequired            401
├── PaymentRequired                 402, with what is asked for
│   └── FeedEntitlementRequired     with the Feed entry resource
├── FeedEntryClosed                 404, while nothing can be paid for by x402
├── PaymentUsed                     409: it was charged, and nothing is asked for
├── TooManyProofs                   429
├── PaymentPending                  503: never pay again, ask again
│   └── PurchasePending             another proof of the wallet came first
└── PaymentUnavailable              503: nothing was charged
"""

from collections.abc import Sequence
from typing import NamedTuple

from barograph.errors import PrivateError
from barograph.payments.offers import payment_required
from barograph.payments.records import Requirements
from barograph.payments.refusals import PaymentRequired

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


class FeedIdentityRequired(PrivateError):
    """An identity was presented, and it cannot be verified."""

    status = 401
    code = "verified_feed_identity_required"

    def __init__(self) -> None:
        super().__init__(
            "the bearer token or payment proof does not verify, or its user has no confirmed e-mail"
        )

    def fields(self) -> Sequence[tuple[bytes, bytes]]:
        """How to present an identity."""
        return [(b"www-authenticate", b'Bearer realm="Barograph Feed"')]


class FeedEntitlementRequired(PaymentRequired):
    """Whoever calls has no active Feed entitlement."""

    code = ENTITLEMENT_REQUIRED

    def __init__(self, entry: FeedEntry) -> None:
        super().__init__(entry.document())


class FeedEntryClosed(PrivateError):
    """Nothing was presented that counts, and nothing can be paid for by x402 here."""

    status = 404
    code = "not_found"

    def __init__(self) -> None:
        super().__init__(
            "Feed cannot be bought by x402 here; with Feed, send a bearer token to what it opens"
        )
