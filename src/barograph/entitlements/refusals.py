"""Errors of the endpoints that need Feed, and the Feed entry resource (pure).

PrivateError
├── FeedIdentityRequired            401
├── PaymentRequired                 402
│   └── FeedEntitlementRequired     with the Feed entry resource
└── FeedEntryClosed                 404, while Feed x402 is disabled
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from barograph.errors import PrivateError
from barograph.payments.offers import PaymentRequired, payment_required
from barograph.payments.records import Listing, Requirements

ENTITLEMENT_REQUIRED = "Active verified Feed entitlement required"
RESERVE_PRICE_USD = 149
FEED_PATH = "/api/x402/feed"
PRICING_PATH = "/pricing"

_DESCRIPTION = (
    "This endpoint needs Barograph Feed. Do not pay again automatically: if you have already paid, "
    "first check whether your entitlement is active."
)
_EXAMPLE = {"tier": "feed", "ends_at": "2026-12-15T10:00:00.000Z"}


class FeedEntry(NamedTuple):
    """The Feed entry resource: where to buy Feed."""

    base_url: str
    requirements: Requirements | None = None
    """The x402 price; None if Feed x402 is disabled."""

    terms: Callable[[], str] = str
    """What the description also says; by default nothing."""

    def document(self, error: str = ENTITLEMENT_REQUIRED) -> bytes:
        """The x402 v2 payment-required object."""
        listing = feed_listing(self.base_url)
        if self.requirements is None:
            listing = Listing(f"{self.base_url}{PRICING_PATH}", _DESCRIPTION, "text/html")
        return payment_required(self.requirements, listing.saying(self.terms()), error)


def feed_listing(base_url: str) -> Listing:
    """The Feed entry resource in words."""
    return Listing(f"{base_url}{FEED_PATH}", _DESCRIPTION, output_example=_EXAMPLE)


class FeedIdentityRequired(PrivateError):
    """The bearer token or payment proof does not verify."""

    status = 401
    code = "verified_feed_identity_required"
    text = "the bearer token or payment proof does not verify, or its user has no confirmed e-mail"

    def fields(self) -> Sequence[tuple[bytes, bytes]]:
        """How to authenticate."""
        return [(b"www-authenticate", b'Bearer realm="Barograph Feed"')]


class FeedEntitlementRequired(PaymentRequired):
    """The caller has no active Feed entitlement."""

    code = ENTITLEMENT_REQUIRED

    def __init__(self, entry: FeedEntry) -> None:
        super().__init__(entry.document())


class FeedEntryClosed(PrivateError):
    """The request has no credential that counts here, and Feed x402 is disabled."""

    status = 404
    code = "not_found"
    text = "this instance does not sell Feed by x402; if you have Feed, send your bearer token"
