"""Taking a payment: nothing that went out is unpaid, nothing that failed is charged for.

The order is fixed: look the proof up in the journal, verify, claim, produce, note that it is being
settled, settle, note that it is settled together with the grant, release the body. Wherever that
stops, the journal says how far it came, and nothing is asked to move before the journal says so.

A response can be lost on its way to the payer. A payer who sent an idempotency key with the first
request can repeat it for a short while: one charge, one payer, the same body. Without a key only a
body that was never sent can be read again, because anybody can rebuild the proof from the chain.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Generic, NamedTuple, TypeVar

from barograph.kit.clock import Clock
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.timestamps import MINUTE
from barograph.payments.journal import (
    PLAIN_ORDER,
    AlreadyClaimed,
    Grant,
    Journal,
    WrongTransition,
    is_paid_with,
)
from barograph.payments.proof import require_timely
from barograph.payments.records import (
    CallerGone,
    Facilitator,
    FacilitatorUnavailable,
    InProgress,
    InvalidProof,
    NotSettled,
    Order,
    Payment,
    PaymentError,
    Proof,
    Settled,
    SettlementPending,
    ShownProof,
    in_the_way,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

IsGone = Callable[[], bool]
"""Whether whoever asked does not wait for the answer any more."""

Pause = Callable[[float], Awaitable[None]]

NOT_PRODUCED = "not_produced"
NOT_SERVED = "not_served"
UNAVAILABLE = "facilitator_unavailable"

REPEAT_MS: Final = MINUTE
"""So long after a body went out the same proof gets it again, also one that has expired by then."""

NOTING_PAUSES: Final = (0.1, 0.3, 1.0, 2.0, 4.0)
"""Seconds between the attempts to note how a payment ended, which nobody else knows."""


class Verified(NamedTuple):
    """A proof that the facilitator has just found valid."""

    proof: Proof


class Taken(NamedTuple, Generic[T]):
    """What was paid for, and the payment."""

    body: T
    payment: Payment


def stays() -> bool:
    """An `IsGone` of somebody who waits however long it takes."""
    return False


class Till:
    """Takes payments at every paid door."""

    def __init__(
        self,
        journal: Journal,
        facilitator: Facilitator,
        clock: Clock,
        *,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._journal = journal
        self._facilitator = facilitator
        self._clock = clock
        self._pause = pause
        self._charging: set[asyncio.Task[Payment]] = set()

    async def resume(
        self,
        shown: ShownProof | Proof,
        door: str,
        produce: Callable[[Payment], Awaitable[T]],
        key: str | None = None,
        *,
        is_gone: IsGone = stays,
    ) -> Taken[T] | None:
        """Give away what a proof was charged for before; None where nobody has claimed it.

        This comes before anything else is asked about a proof: neither other prices nor an
        entitlement of its payer may turn what was charged into a demand. A payer who was cut off
        before the body went out gets it at any later time. One who sent an idempotency key with
        the first request can read it again for a while.

        Raises:
            AlreadyUsed: it was charged, and the body went out, or is for another door, signer or
                idempotency key.
            InProgress: another request is being served with it.
            CallerGone: the caller is; it can be had later.
            SettlementPending: whether it was charged is being found out.
            PaymentRefused: the facilitator would not settle it. Nothing was charged.
            DatabaseUnavailable: nobody can tell.
            Exception: what `produce` raised. The body can be had later.
        """
        payment = await self._journal.find(shown.key)
        if payment is None or payment.state == "released":
            return None
        if payment.state != "settled" or not is_paid_with(payment, shown, door, key):
            raise in_the_way(payment)
        if payment.released_at is None:
            body = await produce(payment)
            # Without a key this may be an observer of the chain: the payer must still get the body.
            deliver = self._deliver if payment.key_digest is not None else _require_present
            return Taken(body, await deliver(payment, is_gone))
        last = max(payment.valid_before, payment.released_at + REPEAT_MS)
        if payment.key_digest is None or self._clock() >= last:
            raise in_the_way(payment)
        return Taken(await produce(payment), payment)

    async def verify(
        self, proof: Proof, before_verify: Callable[[], Awaitable[None]] | None = None
    ) -> Verified:
        """Ask the facilitator to verify a proof that nobody has claimed yet.

        `before_verify` may refuse the proof before we ask the facilitator.

        Raises:
            InvalidProof: it cannot be used now, or the facilitator says no. Nothing was charged.
            PaymentError: it was claimed meanwhile.
            FacilitatorUnavailable: it did not answer. Nothing was charged.
            Exception: what `before_verify` raised. Nothing was charged.
        """
        require_timely(proof, self._clock())
        if before_verify is not None:
            await before_verify()
        try:
            await self._facilitator.verify(proof)
        except InvalidProof:
            # If it was charged while we asked, don't ask for another payment.
            standing = await self._journal.find(proof.key)
            if standing is not None and standing.state != "released":
                raise _overtaken_by(standing, proof) from None
            raise
        return Verified(proof)

    async def take(
        self,
        verified: Verified,
        door: str,
        produce: Callable[[], Awaitable[T]],
        grant: Grant | None = None,
        order: Order = PLAIN_ORDER,
        *,
        is_gone: IsGone = stays,
    ) -> Taken[T]:
        """Produce what a proof pays for, charge the proof, and return the body.

        Raises:
            PaymentRefused: the facilitator would not settle it. Nothing was charged.
            InProgress: another request was quicker with it.
            AlreadyUsed: another proof paid for the request with this idempotency key.
            PurchaseOpen: the wallet bought the same with another proof. This one is never charged.
            CallerGone: the caller is. Nothing was charged, or the same proof gets the body later.
            SettlementPending: whether it was charged is being found out.
            FacilitatorUnavailable: nobody could be asked. Nothing was charged.
            DatabaseUnavailable: nothing was charged, or it was and the body can be had again.
            Exception: what `produce` raised. Nothing was charged.
        """
        payment = await self._claim(verified.proof, door, order)
        body = await self._produce(payment, produce, is_gone)
        charged = await self._charge(payment, verified.proof, grant)
        return Taken(body, await self._deliver(charged, is_gone))

    async def close(self) -> None:
        """Wait for whatever is being charged, whose callers may be gone."""
        await asyncio.gather(*self._charging, return_exceptions=True)

    async def _claim(self, proof: Proof, door: str, order: Order) -> Payment:
        try:
            return await _to_the_end(self._journal.claim(proof, door, order), self._not_served)
        except AlreadyClaimed as error:
            raise _overtaken_by(error.payment, proof) from error

    async def _not_served(self, claimed: Payment) -> None:
        """Let a claim go that would keep the proof from coming again."""
        await self._let_go(claimed, NOT_SERVED)

    async def _produce(
        self, payment: Payment, produce: Callable[[], Awaitable[T]], is_gone: IsGone
    ) -> T:
        try:
            body = await produce()
        except BaseException:
            await self._let_go(payment, NOT_PRODUCED)
            raise
        if is_gone():
            await self._let_go(payment, NOT_SERVED)
            raise CallerGone("nobody waits for the body; nothing was charged", payment)
        return body

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
            payment = await self._note_end(payment, outcome, grant)
        except BaseException as error:
            # With this line an operator can say so: `barograph payments settle` or `fail`.
            log.exception(
                "end of a payment not noted",
                extra={
                    "payment": payment.id,
                    "outcome": type(outcome).__name__,
                    **outcome._asdict(),
                },
            )
            if not isinstance(error, Exception):
                raise
            raise SettlementPending("the payment is being looked into", payment) from error
        if payment.state != "settled":
            raise in_the_way(payment)
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

    async def _note_end(
        self, payment: Payment, outcome: Settled | NotSettled, grant: Grant | None
    ) -> Payment:
        """Note what only we know, and not give up at the first failure of the database."""
        for seconds in NOTING_PAUSES:
            try:
                return await self._try_to_note(payment, outcome, grant)
            except DatabaseUnavailable as error:
                _log_not_noted(payment, error)
                await self._pause(seconds)
        return await self._try_to_note(payment, outcome, grant)

    async def _try_to_note(
        self, payment: Payment, outcome: Settled | NotSettled, grant: Grant | None
    ) -> Payment:
        try:
            if isinstance(outcome, NotSettled):
                return await self._journal.failed(payment.id, outcome.reason)
            return await self._journal.settled(payment.id, outcome.transaction, grant)
        except WrongTransition:
            # Whoever reconciles was there first, and asked the chain.
            return await self._journal.get(payment.id)

    async def _deliver(self, payment: Payment, is_gone: IsGone) -> Payment:
        await _require_present(payment, is_gone)
        try:
            return await _to_the_end(self._journal.mark_released(payment.id), self._take_back)
        except WrongTransition as error:
            raise InProgress("another request sends the body", payment) from error

    async def _take_back(self, payment: Payment) -> None:
        try:
            await self._journal.take_back(payment)
        except (DatabaseUnavailable, WrongTransition) as error:
            _log_not_noted(payment, error)

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


async def _to_the_end(
    write: Coroutine[Any, Any, Payment], undo: Callable[[Payment], Awaitable[None]]
) -> Payment:
    """Write something that would be false if the caller left meanwhile; then it is undone."""
    writing = asyncio.ensure_future(write)
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        # It is written nevertheless.
        await asyncio.wait([writing])
        if not writing.cancelled() and writing.exception() is None:
            await undo(writing.result())
        raise


async def _require_present(payment: Payment, is_gone: IsGone) -> Payment:
    if is_gone():
        raise CallerGone("the caller disconnected; the same proof gets the body later", payment)
    return payment


def _log_not_noted(payment: Payment, error: Exception) -> None:
    """The row stays as it is, which is found and looked into after a while."""
    log.warning(
        "step of a payment not noted",
        extra={"payment": payment.id, "reason": type(error).__name__},
    )


def _overtaken_by(payment: Payment, proof: Proof) -> PaymentError:
    """The error for a request that another one has overtaken."""
    if payment.state == "settled" and payment.nonce == proof.nonce:
        return InProgress("the payment was charged meanwhile", payment)
    return in_the_way(payment)
