"""An operator's word about a payment of which the journal cannot learn the end otherwise."""

from barograph.errors import BarographError
from barograph.kit.clock import Clock
from barograph.kit.timestamps import iso_timestamp
from barograph.payments.journal import Journal
from barograph.payments.reconciling import STALE_MS, GrantFor
from barograph.payments.records import Payment

OPEN = frozenset({"settling", "unknown"})
"""What has no end yet, and was asked to move."""


class TooEarly(BarographError):
    """The payment may still end by itself; the message says when to come again."""


class ByHand:
    """Ends payments as an operator says, who has looked at the chain; the trail says who."""

    def __init__(self, journal: Journal, clock: Clock, grant_for: GrantFor) -> None:
        self._journal = journal
        self._clock = clock
        self._grant_for = grant_for

    async def settle(self, payment_id: str, transaction: str, *, by: str, why: str) -> Payment:
        """Note that the money moved, and grant what its door grants.

        Raises:
            UnknownPayment: there is no such payment.
            TooEarly: somebody is settling it right now.
            WrongTransition: it is neither being settled nor unknown.
        """
        payment = await self._journal.get(payment_id)
        self._require_left_behind(payment)
        grant = self._grant_for(payment)
        return await self._journal.settled(
            payment_id, transaction.lower(), grant, reason=f"by {by}: {why}"
        )

    async def fail(self, payment_id: str, *, by: str, why: str) -> Payment:
        """Note that the money did not move, and never will by this authorization.

        Raises:
            UnknownPayment: there is no such payment.
            TooEarly: somebody is settling it right now, or it can still be used.
            WrongTransition: it is neither being settled nor unknown.
        """
        payment = await self._journal.get(payment_id)
        self._require_left_behind(payment)
        # A block that was made in time may be seen a little later.
        last = payment.valid_before + STALE_MS
        if payment.state in OPEN and self._clock() <= last:
            until = iso_timestamp(last)
            raise TooEarly(f"the authorization can still move the money until {until}")
        return await self._journal.failed(payment_id, f"by {by}: {why}")

    def _require_left_behind(self, payment: Payment) -> None:
        """Refuse to decide about what a request is about to learn by itself."""
        free_at = payment.updated_at + STALE_MS
        if payment.state == "settling" and self._clock() < free_at:
            raise TooEarly(f"it is being settled; come again after {iso_timestamp(free_at)}")
