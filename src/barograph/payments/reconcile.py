"""An operator's word about a payment of which the journal cannot learn the end otherwise."""

import logging
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from barograph.errors import BarographError, LeaseLost
from barograph.kit.clock import Clock
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.timestamps import MINUTE, iso_timestamp
from barograph.payments.journal import Grant, Journal, WrongTransition
from barograph.payments.records import Chain, ChainFinding, ChainUnavailable, Payment

log = logging.getLogger(__name__)

GrantFor = Callable[[Payment], Grant | None]
"""What the door of a payment grants, if it grants anything."""

STALE_MS: Final = 2 * MINUTE
"""Producing a body and settling take less, by far; who has not gone on by then is gone."""

MAX_PAYMENTS = 500
"""So many are looked at in one go."""

MAX_FAILURES = 5
"""After so many questions in a row that the chain did not answer, the others wait."""

SETTLED: Final = "settled"
FAILED: Final = "failed"
WAITING: Final = "waiting"

ABANDONED: Final = "abandoned"
CUT_OFF: Final = "cut_off"
FOUND: Final = "found on chain"
EXPIRED: Final = "expired unused"
SPENT: Final = "nonce spent on something else"


class Reconciled(NamedTuple):
    """What one round did, and what it leaves."""

    released: int = 0
    lost: int = 0
    """Were being settled, and are now unknown."""

    settled: int = 0
    failed: int = 0
    waiting: int = 0
    """Still unknown."""

    busy: int = 0
    """Being served, or cut off so lately that nobody can say yet."""


class Reconciler:
    """Looks after the payments of a journal; any number may do so at once."""

    def __init__(
        self,
        journal: Journal,
        chain: Chain | None,
        clock: Clock,
        grant_for: GrantFor,
        *,
        random: Random | None = None,
    ) -> None:
        self._journal = journal
        self._chain = chain
        self._clock = clock
        self._grant_for = grant_for
        self._random = Random() if random is None else random

    async def once(self) -> Reconciled:
        """Go through all open payments once.

        Raises:
            DatabaseUnavailable: the journal cannot be used; what was done by then stays done.
        """
        stale = await self._journal.open_payments(self._clock() - STALE_MS, MAX_PAYMENTS)
        released = sum([await self._abandon(each) for each in stale])
        lost = sum([await self._lose_sight(each) for each in stale])
        unknown = await self._journal.list(state="unknown", limit=MAX_PAYMENTS)
        ended = await self._ask_chain(unknown)
        waiting = len(unknown) - ended[SETTLED] - ended[FAILED]
        still_open = await self._journal.open_payments(self._clock() + 1, MAX_PAYMENTS)
        busy = sum(each.state in {"claimed", "settling"} for each in still_open)
        return Reconciled(released, lost, ended[SETTLED], ended[FAILED], waiting, busy)

    async def _abandon(self, payment: Payment) -> bool:
        if payment.state != "claimed":
            return False
        try:
            await self._journal.abandon(payment, ABANDONED)
        except WrongTransition:
            return False  # somebody went on with it
        log.info("payment let go", extra={"payment": payment.id, "door": payment.door})
        return True

    async def _lose_sight(self, payment: Payment) -> bool:
        if payment.state != "settling":
            return False
        try:
            await self._journal.unknown(payment.id, CUT_OFF)
        except WrongTransition:
            return False
        log.warning("settlement unknown", extra={"payment": payment.id, "reason": CUT_OFF})
        return True

    async def _ask_chain(self, unknown: list[Payment]) -> Counter[str]:
        """Settle or fail what the chain can tell; how many of each."""
        ended: Counter[str] = Counter()
        silent = 0
        # In any order: a few of which the chain never tells must not keep the others waiting.
        for payment in self._random.sample(unknown, len(unknown)):
            if self._chain is None or silent == MAX_FAILURES:
                break
            try:
                found = await self._chain.authorization(payment)
            except ChainUnavailable as error:
                _log_waiting(payment, str(error))
                silent += 1
            else:
                silent = 0
                ended[await self._conclude(payment, found)] += 1
        return ended

    async def _conclude(self, payment: Payment, found: ChainFinding) -> str:
        try:
            match found.word:
                case "used":
                    return await self._settle(payment, found.transaction)
                case "expired":
                    return await self._fail(payment, EXPIRED)
                case "spent":
                    return await self._fail(payment, SPENT)
                case "unused":
                    pass
        except WrongTransition:
            log.debug("payment ended elsewhere", extra={"payment": payment.id})
        except (DatabaseUnavailable, LeaseLost):
            raise
        except Exception:
            # What cannot be granted must not keep the others from it.
            log.exception("payment not concluded", extra={"payment": payment.id})
        return WAITING

    async def _settle(self, payment: Payment, transaction: str | None) -> str:
        grant = self._grant_for(payment)
        await self._journal.settled(payment.id, transaction, grant, reason=FOUND)
        log.info("payment found on the chain", extra={"payment": payment.id, "door": payment.door})
        return SETTLED

    async def _fail(self, payment: Payment, reason: str) -> str:
        await self._journal.failed(payment.id, reason)
        log.info("payment did not come", extra={"payment": payment.id, "reason": reason})
        return FAILED


def _log_waiting(payment: Payment, reason: str) -> None:
    log.warning("payment waits for the chain", extra={"payment": payment.id, "reason": reason})


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
