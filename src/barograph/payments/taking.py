"""Taking a payment: nothing that went out is unpaid, nothing that failed is charged for.

The order is fixed: look the proof up in the journal, verify, claim, produce, note that it is being
settled, settle, note that it is settled together with the grant, release the body. Wherever that
stops, the journal says how far it came, and nothing is asked to move before the journal says so.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from barograph.kit.clock import Clock
from barograph.kit.database import DatabaseUnavailable
from barograph.payments.journal import (
    AlreadyClaimed,
    Grant,
    Journal,
    WrongTransition,
    signature_digest,
)
from barograph.payments.ports import (
    AlreadyUsed,
    Facilitator,
    FacilitatorUnavailable,
    InProgress,
    InvalidProof,
    PaymentError,
    PaymentRefused,
    SettlementPending,
)
from barograph.payments.proof import require_timely
from barograph.payments.records import NotSettled, Payment, Proof, Settled

log = logging.getLogger(__name__)

T = TypeVar("T")

NOT_PRODUCED = "not_produced"
NOT_SERVED = "not_served"
UNAVAILABLE = "facilitator_unavailable"


class Taken(NamedTuple, Generic[T]):
    """What was paid for, and the payment."""

    body: T
    payment: Payment


class Till:
    """Takes payments at every paid door."""

    def __init__(self, journal: Journal, facilitator: Facilitator, clock: Clock) -> None:
        self._journal = journal
        self._facilitator = facilitator
        self._clock = clock
        self._charging: set[asyncio.Task[Payment]] = set()

    async def take(
        self,
        proof: Proof,
        door: str,
        produce: Callable[[], Awaitable[T]],
        grant: Grant | None = None,
        *,
        before_verify: Callable[[], Awaitable[None]] | None = None,
    ) -> Taken[T]:
        """Produce what a proof pays for, charge it, and give it away: once.

        `before_verify` may refuse what is about to cost a question to the facilitator. Who paid
        and was cut off before the body went out gets it at the same door without a charge, also
        with a proof that has expired meanwhile.

        Raises:
            InvalidProof: it cannot be used now, or the facilitator says no. Nothing was charged.
            PaymentRefused: the facilitator would not settle it. Nothing was charged.
            AlreadyUsed: it was charged before, for a body that went out.
            InProgress: another request is being served with it.
            SettlementPending: whether it was charged is being found out.
            FacilitatorUnavailable: nobody could be asked. Nothing was charged.
            DatabaseUnavailable: nothing was charged, or it was and the body can be had again.
            Exception: what `before_verify` or `produce` raised. Nothing was charged.
        """
        try:
            payment = await self._admit(proof, door, before_verify)
        except AlreadyClaimed as error:
            return await self._resume(error.payment, proof, door, produce)
        body = await self._produce(payment, produce)
        return Taken(body, await self._deliver(await self._charge(payment, proof, grant)))

    async def close(self) -> None:
        """Wait for whatever is being charged, whose callers may be gone."""
        await asyncio.gather(*self._charging, return_exceptions=True)

    async def _admit(
        self, proof: Proof, door: str, before_verify: Callable[[], Awaitable[None]] | None
    ) -> Payment:
        await self._require_unclaimed(proof)
        require_timely(proof, self._clock())
        if before_verify is not None:
            await before_verify()
        try:
            await self._facilitator.verify(proof)
        except InvalidProof:
            # What was charged while we asked is no reason to ask for another payment.
            await self._require_unclaimed(proof)
            raise
        return await self._claim(proof, door)

    async def _require_unclaimed(self, proof: Proof) -> None:
        standing = await self._journal.find(proof.key)
        if standing is not None and standing.state != "released":
            raise AlreadyClaimed(standing)

    async def _resume(
        self, payment: Payment, proof: Proof, door: str, produce: Callable[[], Awaitable[T]]
    ) -> Taken[T]:
        """Whoever shows the very proof that was charged gets what did not go out yet."""
        if payment.state != "settled":
            raise _standing_in_the_way(payment)
        known = (payment.door, payment.signature_digest)
        if payment.released_at is not None or known != (door, signature_digest(proof)):
            raise AlreadyUsed("the payment was used already", payment)
        return Taken(await produce(), await self._deliver(payment))

    async def _claim(self, proof: Proof, door: str) -> Payment:
        claiming = asyncio.ensure_future(self._journal.claim(proof, door))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            # It is written nevertheless, and would keep the proof from coming again.
            await asyncio.wait([claiming])
            if not claiming.cancelled() and claiming.exception() is None:
                await self._let_go(claiming.result(), NOT_SERVED)
            raise

    async def _produce(self, payment: Payment, produce: Callable[[], Awaitable[T]]) -> T:
        try:
            return await produce()
        except BaseException:
            await self._let_go(payment, NOT_PRODUCED)
            raise

    async def _charge(self, payment: Payment, proof: Proof, grant: Grant | None) -> Payment:
        """Charge to the end, whether or not the caller waits for it."""
        charging = asyncio.ensure_future(self._settle(payment, proof, grant))
        self._charging.add(charging)
        charging.add_done_callback(self._charging.discard)
        # The failure of one whose caller went away is nobody's to retrieve.
        charging.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(charging)

    async def _settle(self, payment: Payment, proof: Proof, grant: Grant | None) -> Payment:
        await self._announce(payment)
        outcome = await self._ask(payment, proof)
        try:
            if isinstance(outcome, NotSettled):
                payment = await self._journal.failed(payment.id, outcome.reason)
            else:
                payment = await self._journal.settled(payment.id, outcome.transaction, grant)
        except WrongTransition:
            # Whoever reconciles was there first, and asked the chain.
            payment = await self._journal.get(payment.id)
        except Exception as error:
            log.exception(
                "end of a payment not noted",
                extra={
                    "payment": payment.id,
                    "outcome": type(outcome).__name__,
                    **outcome._asdict(),
                },
            )
            raise SettlementPending("the payment is being looked into", payment) from error
        if payment.state != "settled":
            raise _standing_in_the_way(payment)
        log.info("payment settled", extra={"payment": payment.id, "door": payment.door})
        return payment

    async def _announce(self, payment: Payment) -> None:
        """Nobody is asked to move anything before the journal says that they are."""
        try:
            await self._journal.settling(payment.id, claimed_at=payment.claimed_at)
        except WrongTransition as error:
            # It took so long that it was let go, and may be another request's by now.
            raise InProgress("the payment was let go meanwhile", payment) from error
        except BaseException:
            await self._let_go(payment, NOT_SERVED)
            raise

    async def _ask(self, payment: Payment, proof: Proof) -> Settled | NotSettled:
        try:
            return await self._facilitator.settle(proof)
        except FacilitatorUnavailable:
            await self._let_go(payment, UNAVAILABLE)
            raise
        except BaseException as error:
            # Also a settlement that was cut off, and one that failed in a way nobody foresaw.
            await self._lose_sight(payment, type(error).__name__)
            if not isinstance(error, Exception):
                raise
            raise SettlementPending("the payment is being looked into", payment) from error

    async def _deliver(self, payment: Payment) -> Payment:
        try:
            return await self._journal.mark_released(payment.id)
        except WrongTransition as error:
            raise AlreadyUsed("the payment was used already", payment) from error

    async def _let_go(self, payment: Payment, reason: str) -> None:
        try:
            await self._journal.release(payment.id, reason, claimed_at=payment.claimed_at)
        except (DatabaseUnavailable, WrongTransition) as error:
            _log_not_noted(payment, error)

    async def _lose_sight(self, payment: Payment, reason: str) -> None:
        log.warning("settlement unknown", extra={"payment": payment.id, "reason": reason})
        try:
            await self._journal.unknown(payment.id, reason)
        except (DatabaseUnavailable, WrongTransition) as error:
            _log_not_noted(payment, error)


def _log_not_noted(payment: Payment, error: Exception) -> None:
    """The row stays as it is, which is found and looked into after a while."""
    log.warning(
        "step of a payment not noted",
        extra={"payment": payment.id, "reason": type(error).__name__},
    )


def _standing_in_the_way(payment: Payment) -> PaymentError:
    match payment.state:
        case "failed":
            return PaymentRefused("the facilitator refused to settle the payment", payment)
        case "unknown":
            return SettlementPending("the payment is being looked into", payment)
        case _:
            return InProgress("the payment is being served already", payment)
