"""Finishes payments that a crash or an outage left open: by the chain, or by an operator."""

import logging
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from barograph.errors import LeaseLost
from barograph.kit.clock import Clock
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.timestamps import MINUTE, iso_timestamp
from barograph.payments.journal import Grant, Journal, WrongTransition
from barograph.payments.records import Chain, ChainFinding, ChainUnavailable, Payment

log = logging.getLogger(__name__)

GrantFor = Callable[[Payment], Grant | None]
"""The grant of a payment, if it bought anything that is granted."""

STALE_MS: Final = 2 * MINUTE
"""After this time without a step a request was cut off; producing and settling take less."""

MAX_PAYMENTS = 500
"""How many payments one round handles."""

MAX_FAILURES = 5
"""After this many failed calls to the chain in a row, the remaining payments wait."""

SETTLED: Final = "settled"
FAILED: Final = "failed"
WAITING: Final = "waiting"

ABANDONED: Final = "abandoned"
CUT_OFF: Final = "cut_off"
FOUND: Final = "found on chain"
EXPIRED: Final = "expired unused"
SPENT: Final = "nonce spent on something else"


class Reconciled(NamedTuple):
    """How many payments one round finished, and how many are left."""

    released: int = 0
    lost: int = 0
    """Were `settling`, and are now `unknown`."""

    settled: int = 0
    failed: int = 0
    waiting: int = 0
    """Still unknown."""

    busy: int = 0
    """In use by a request, or cut off less than `STALE_MS` ago."""


class Reconciler:
    """Finishes open payments of a journal; several processes may run one at once."""

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
        """Handle all open payments once.

        Raises:
            DatabaseUnavailable: the journal is unavailable; payments finished before stay so.
        """
        stale = await self._journal.open_payments(self._clock() - STALE_MS, MAX_PAYMENTS)
        released = sum([await self._abandon(payment) for payment in stale])
        lost = sum([await self._mark_unknown(payment) for payment in stale])
        unknown = await self._journal.search(state="unknown", limit=MAX_PAYMENTS)
        ended = await self._ask_chain(unknown)
        waiting = len(unknown) - ended[SETTLED] - ended[FAILED]
        still_open = await self._journal.open_payments(self._clock() + 1, MAX_PAYMENTS)
        busy = sum(payment.state in {"claimed", "settling"} for payment in still_open)
        return Reconciled(released, lost, ended[SETTLED], ended[FAILED], waiting, busy)

    async def _abandon(self, payment: Payment) -> bool:
        if payment.state != "claimed":
            return False
        try:
            await self._journal.abandon(payment, ABANDONED)
        except WrongTransition:
            return False  # its request continued
        log.info("payment released", extra={"payment": payment.id, "path": payment.path})
        return True

    async def _mark_unknown(self, payment: Payment) -> bool:
        if payment.state != "settling":
            return False
        try:
            await self._journal.mark_unknown(payment.id, CUT_OFF)
        except WrongTransition:
            return False
        log.warning("settlement unknown", extra={"payment": payment.id, "reason": CUT_OFF})
        return True

    async def _ask_chain(self, unknown: list[Payment]) -> Counter[str]:
        """Settle or fail payments as the chain shows; returns how many of each."""
        ended: Counter[str] = Counter()
        failures = 0
        # In random order: payments that the chain never answers must not block the others.
        for payment in self._random.sample(unknown, len(unknown)):
            if self._chain is None or failures == MAX_FAILURES:
                break
            try:
                finding = await self._chain.authorization(payment)
            except ChainUnavailable as error:
                fields = {"payment": payment.id, "reason": str(error)}
                log.warning("payment waits for the chain", extra=fields)
                failures += 1
            else:
                failures = 0
                ended[await self._conclude(payment, finding)] += 1
        return ended

    async def _conclude(self, payment: Payment, finding: ChainFinding) -> str:
        try:
            match finding.word:
                case "used":
                    return await self._settle(payment, finding.transaction)
                case "expired":
                    return await self._fail(payment, EXPIRED)
                case "spent":
                    return await self._fail(payment, SPENT)
                case "unused":
                    pass
        except WrongTransition:
            log.debug("payment finished elsewhere", extra={"payment": payment.id})
        except (DatabaseUnavailable, LeaseLost):
            raise
        except Exception:
            # A grant that fails must not block the other payments.
            log.exception("payment not concluded", extra={"payment": payment.id})
        return WAITING

    async def _settle(self, payment: Payment, transaction: str | None) -> str:
        grant = self._grant_for(payment)
        await self._journal.mark_settled(payment.id, transaction, grant, reason=FOUND)
        log.info("payment found on the chain", extra={"payment": payment.id, "path": payment.path})
        return SETTLED

    async def _fail(self, payment: Payment, reason: str) -> str:
        await self._journal.mark_failed(payment.id, reason)
        log.info("payment failed", extra={"payment": payment.id, "reason": reason})
        return FAILED


class ManualReconciler:
    """Finishes payments by an operator's decision; the trail names the operator."""

    def __init__(self, journal: Journal, clock: Clock, grant_for: GrantFor) -> None:
        self._journal = journal
        self._clock = clock
        self._grant_for = grant_for

    async def settle(self, payment_id: str, transaction: str, *, by: str, why: str) -> Payment:
        """Record that the money moved, and grant what it bought.

        Raises:
            UnknownPayment: there is no such payment.
            WrongTransition: it is neither `settling` nor `unknown`, or a request is settling it.
        """
        payment = await self._journal.get(payment_id)
        self._require_stale(payment)
        grant = self._grant_for(payment)
        return await self._journal.mark_settled(
            payment_id, transaction.lower(), grant, reason=f"by {by}: {why}"
        )

    async def fail(self, payment_id: str, *, by: str, why: str) -> Payment:
        """Record that the money did not move, and never will by this proof.

        Raises:
            UnknownPayment: there is no such payment.
            WrongTransition: it is neither `settling` nor `unknown`, a request is settling it, or
                the proof can still be used.
        """
        payment = await self._journal.get(payment_id)
        self._require_stale(payment)
        # A block may arrive a little after its time.
        last = payment.valid_before + STALE_MS
        if payment.state in {"settling", "unknown"} and self._clock() <= last:
            raise WrongTransition(f"the proof can still move the money until {iso_timestamp(last)}")
        return await self._journal.mark_failed(payment_id, f"by {by}: {why}")

    def _require_stale(self, payment: Payment) -> None:
        """Refuse a payment whose request may still record the outcome."""
        free_at = payment.updated_at + STALE_MS
        if payment.state == "settling" and self._clock() < free_at:
            raise WrongTransition(f"it is being settled; try again after {iso_timestamp(free_at)}")
