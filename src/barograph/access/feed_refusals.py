"""How somebody without Feed is refused.

PrivateError
├── FeedIdentityRequired      401
├── FeedEntitlementRequired   402, with the Feed entry resource
└── FeedEntryClosed           404, while Feed cannot be paid for by x402
"""

from barograph.access.feed_entry import ENTITLEMENT_REQUIRED, FeedEntry
from barograph.errors import PrivateError


class FeedIdentityRequired(PrivateError):
    """An identity was presented, and it cannot be verified."""

    status = 401
    code = "verified_feed_identity_required"

    def __init__(self) -> None:
        super().__init__(
            "the bearer token or payment proof does not verify, or its user has no confirmed e-mail"
        )


class FeedEntitlementRequired(PrivateError):
    """Whoever calls has no active Feed entitlement."""

    status = 402
    code = ENTITLEMENT_REQUIRED

    def __init__(self, entry: FeedEntry) -> None:
        super().__init__(ENTITLEMENT_REQUIRED)
        self.entry = entry


class FeedEntryClosed(PrivateError):
    """Nothing was presented that counts, and Feed cannot be paid for by x402 here."""

    status = 404
    code = "not_found"

    def __init__(self) -> None:
        super().__init__("there is nothing here without an active Feed entitlement")
