"""What a payment for Feed grants: a period for the wallet that paid, in the same transaction."""

from barograph.access.entitlements import FEED, Entitlements, Holder
from barograph.access.feed_entry import FEED_PATH
from barograph.kit.clock import Clock
from barograph.kit.database import Transaction
from barograph.kit.timestamps import DAY
from barograph.payments.journal import Grant
from barograph.payments.records import Payment

SOURCE = "x402"


class FeedGrants:
    """Grants Feed to wallets, and tells which payments are for it."""

    def __init__(self, entitlements: Entitlements, clock: Clock, *, period_days: int) -> None:
        self._entitlements = entitlements
        self._clock = clock
        self._period_ms = period_days * DAY

    def grant_for(self, payment: Payment) -> Grant | None:
        """What the door of a payment grants, if it grants anything."""
        return self.grant if payment.door == FEED_PATH else None

    async def grant(self, tx: Transaction, payment: Payment) -> str:
        """Add a period to what the paying wallet has; the id of its entitlement."""
        entitlement = await self._entitlements.grant_period(
            tx,
            Holder("wallet", payment.payer),
            FEED,
            period_ms=self._period_ms,
            source=SOURCE,
            by=SOURCE,
            why=f"payment {payment.id}",
            now=self._clock(),
        )
        return entitlement.id
