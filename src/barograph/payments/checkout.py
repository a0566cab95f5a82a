"""Charges payments: every delivered body is paid for, and no failed request is charged.

The order is fixed: look the proof up in the journal, verify it, claim it, produce the body, record
`settling`, settle, record `settled` together with the grant, deliver the body. If a step fails, the
journal shows how far the payment came. We record `settling` before we ask the facilitator.

A response can be lost on its way to the payer, so the same proof gets the same body again, at any
time and without another charge. Anyone can rebuild a settled proof from the chain. Where a repeat
must come from the payer, it needs the idempotency key of the first request.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Generic, NamedTuple, TypeVar

from barograph.kit.clock import Clock
from barograph.kit.database import DatabaseUnavailable
from barograph.payments.journal import (
    PLAIN_ORDER,
    AlreadyClaimed,
    Grant,
    Journal,
    WrongTransition,
    signature_digest,
)
from barograph.payments.proof import require_timely
from barograph.payments.records import (
    DecodedProof,
    Facilitator,
    FacilitatorUnavailable,
    InvalidProof,
    NotSettled,
    Order,
    Payment,
    PaymentError,
    PaymentUnfinished,
    Proof,
    ProofVerifier,
    Settled,
    SettlementUnknown,
    conflict_error,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

IsDisconnected = Callable[[], bool]
"""Whether the client no longer waits for the response."""

Pause = Callable[[float], Awaitable[None]]

NOT_PRODUCED = "not_produced"
NOT_SERVED = "not_served"
UNAVAILABLE = "facilitator_unavailable"

RETRY_PAUSES: Final = (0.1, 0.3, 1.0, 2.0, 4.0)
"""Seconds between attempts to record the outcome of a settlement, which only we know."""


class Verified(NamedTuple):
    """A proof that the facilitator has just verified."""

    proof: Proof


class Delivery(NamedTuple, Generic[T]):
    """A body and the payment that paid for it."""

    body: T
    payment: Payment


def never_disconnected() -> bool:
    """An `IsDisconnected` for a client that always waits."""
    return False


def is_paid_with(payment: Payment, proof: Proof | DecodedProof, path: str) -> bool:
    """Whether this proof made the payment, at this endpoint."""
    return (payment.path, payment.signature_digest) == (path, signature_digest(proof))


class ProofChecker:
    """Has the facilitator verify proofs; it can't settle one."""

    def __init__(self, facilitator: ProofVerifier, journal: Journal, clock: Clock) -> None:
        self._facilitator = facilitator
        self._journal = journal
        self._clock = clock

    async def require_unclaimed(self, proof: Proof) -> None:
        """Check that a proof is not a payment already.

        Raises:
            AlreadyClaimed: it is, and it was not released.
        """
        payment = await self._journal.find(proof.key)
        if payment is not None and payment.state != "released":
            raise AlreadyClaimed(payment)

    async def verify(
        self, proof: Proof, before_verify: Callable[[], Awaitable[None]] | None = None
    ) -> Verified:
        """Have the facilitator verify a proof; `before_verify` may refuse it before that.

        Raises:
            InvalidProof: it can't be used now, or the facilitator says that it is invalid.
            AlreadyClaimed: it was claimed meanwhile.
            FacilitatorUnavailable: the facilitator did not answer.
            Exception: what `before_verify` raised.
        """
        require_timely(proof, self._clock())
        if before_verify is not None:
            await before_verify()
        try:
            await self._facilitator.verify(proof)
        except InvalidProof:
            # If it was charged while we asked, don't ask for another payment.
            await self.require_unclaimed(proof)
            raise
        return Verified(proof)


class Cashier:
    """Charges payments for every paid endpoint."""

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
        self._checker = ProofChecker(facilitator, journal, clock)
        self._clock = clock
        self._pause = pause
        self._settling: set[asyncio.Task[Payment]] = set()

    async def redeliver(
        self,
        proof: DecodedProof | Proof,
        path: str,
        produce: Callable[[Payment], Awaitable[T]],
        *,
        may_repeat: Callable[[Payment], bool] = lambda _: True,
        is_disconnected: IsDisconnected = never_disconnected,
    ) -> Delivery[T] | None:
        """Deliver what a proof was charged for before; None if it was never claimed.

        Call this before any other check of a proof: neither a new price nor an entitlement of its
        payer may turn a charged payment into a new demand for payment.

        Raises:
            AlreadyUsed: the body is for another endpoint or signature, or `may_repeat` says no.
            PaymentUnfinished: the same proof gets the body later.
            PaymentRefused: the facilitator refused to settle it. Nothing was charged.
            DatabaseUnavailable: the journal is unavailable.
            Exception: what `produce` raised. The same proof gets the body later.
        """
        payment = await self._journal.find(proof.key)
        if payment is None or payment.state == "released":
            return None
        is_theirs = is_paid_with(payment, proof, path) and may_repeat(payment)
        if payment.state != "settled" or not is_theirs:
            raise conflict_error(payment)
        try:
            body = await produce(payment)
        except DatabaseUnavailable as error:
            log.warning("charged body unavailable", extra={"payment": payment.id})
            raise PaymentUnfinished("what the payment bought is unavailable", payment) from error
        # Without a key this may be an observer of the chain: the payer must still get the body.
        is_first = payment.released_at is None and payment.key_digest is not None
        deliver = self._deliver if is_first else _require_connected
        return Delivery(body, await deliver(payment, is_disconnected))

    async def verify(
        self, proof: Proof, before_verify: Callable[[], Awaitable[None]] | None = None
    ) -> Verified:
        """Verify a proof with `ProofChecker.verify`.

        Raises:
            PaymentError: it was claimed meanwhile.
        """
        try:
            return await self._checker.verify(proof, before_verify)
        except AlreadyClaimed as error:
            raise _overtaken_by(error.payment, proof) from error

    async def charge(
        self,
        verified: Verified,
        path: str,
        produce: Callable[[], Awaitable[T]],
        grant: Grant | None = None,
        order: Order = PLAIN_ORDER,
        *,
        is_disconnected: IsDisconnected = never_disconnected,
    ) -> Delivery[T]:
        """Produce what a proof pays for, charge the proof, and deliver the body.

        Raises:
            PaymentRefused: the facilitator refused to settle it. Nothing was charged.
            PaymentUnfinished: nothing was charged, or the same proof gets the body later.
            AlreadyUsed: another proof paid for the request with this idempotency key.
            PurchaseOpen: the wallet bought the same with another proof. This one is never charged.
            FacilitatorUnavailable: the facilitator was not asked. Nothing was charged.
            DatabaseUnavailable: nothing was charged, or the same proof gets the body later.
            Exception: what `produce` raised. Nothing was charged.
        """
        payment = await self._claim(verified.proof, path, order)
        body = await self._produce(payment, produce, is_disconnected)
        settled = await self._settle_shielded(payment, verified.proof, grant)
        return Delivery(body, await self._deliver(settled, is_disconnected))

    async def close(self) -> None:
        """Wait for running settlements, whose clients may have disconnected."""
        await asyncio.gather(*self._settling, return_exceptions=True)

    async def _claim(self, proof: Proof, path: str, order: Order) -> Payment:
        async def release(claimed: Payment) -> None:
            await self._release(claimed, NOT_SERVED)

        try:
            return await _finish_or_undo(self._journal.claim(proof, path, order), release)
        except AlreadyClaimed as error:
            raise _overtaken_by(error.payment, proof) from error

    async def _produce(
        self,
        payment: Payment,
        produce: Callable[[], Awaitable[T]],
        is_disconnected: IsDisconnected,
    ) -> T:
        try:
            body = await produce()
        except BaseException:
            await self._release(payment, NOT_PRODUCED)
            raise
        if is_disconnected():
            await self._release(payment, NOT_SERVED)
            raise PaymentUnfinished("the client disconnected; nothing was charged", payment)
        return body

    async def _settle_shielded(
        self, payment: Payment, proof: Proof, grant: Grant | None
    ) -> Payment:
        """Settle to the end, even if the request is cancelled."""
        task = asyncio.ensure_future(self._settle(payment, proof, grant))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        # If the request was cancelled, nothing else retrieves the task's exception.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _settle(self, payment: Payment, proof: Proof, grant: Grant | None) -> Payment:
        await self._mark_settling(payment)
        outcome = await self._ask_facilitator(payment, proof)
        try:
            payment = await self._record_outcome(payment, outcome, grant)
        except BaseException as error:
            # An operator can repair this from the log: `barograph payments settle` or `fail`.
            fields = {"payment": payment.id, "outcome": type(outcome).__name__}
            log.exception("payment outcome not recorded", extra={**fields, **outcome._asdict()})
            if not isinstance(error, Exception):
                raise
            raise PaymentUnfinished("the outcome of the payment is unknown", payment) from error
        if payment.state != "settled":
            raise conflict_error(payment)
        log.info("payment settled", extra={"payment": payment.id, "path": payment.path})
        return payment

    async def _mark_settling(self, payment: Payment) -> None:
        try:
            await self._journal.mark_settling(payment.id, claimed_at=payment.claimed_at)
        except WrongTransition as error:
            # It was released as stale, and another request may have claimed it.
            raise PaymentUnfinished("the payment was released meanwhile", payment) from error
        except BaseException:
            await self._release(payment, NOT_SERVED)
            raise

    async def _ask_facilitator(self, payment: Payment, proof: Proof) -> Settled | NotSettled:
        try:
            return await self._facilitator.settle(proof)
        except FacilitatorUnavailable:
            await self._release(payment, UNAVAILABLE)
            raise
        except BaseException as error:
            # Also a cancelled settlement, and any unexpected failure.
            named = error.transaction if isinstance(error, SettlementUnknown) else None
            await self._mark_unknown(payment, type(error).__name__, named)
            if not isinstance(error, Exception):
                raise
            raise PaymentUnfinished("the outcome of the payment is unknown", payment) from error

    async def _record_outcome(
        self, payment: Payment, outcome: Settled | NotSettled, grant: Grant | None
    ) -> Payment:
        """Record what only we know; retry while the database is unavailable."""
        for seconds in RETRY_PAUSES:
            try:
                return await self._try_record(payment, outcome, grant)
            except DatabaseUnavailable as error:
                _log_not_recorded(payment, error)
                await self._pause(seconds)
        return await self._try_record(payment, outcome, grant)

    async def _try_record(
        self, payment: Payment, outcome: Settled | NotSettled, grant: Grant | None
    ) -> Payment:
        try:
            if isinstance(outcome, NotSettled):
                return await self._journal.mark_failed(payment.id, outcome.reason)
            return await self._journal.mark_settled(payment.id, outcome.transaction, grant)
        except WrongTransition:
            # The reconciler was first, and asked the chain.
            return await self._journal.get(payment.id)

    async def _deliver(self, payment: Payment, is_disconnected: IsDisconnected) -> Payment:
        await _require_connected(payment, is_disconnected)
        marking = self._journal.mark_delivered(payment.id)
        try:
            return await _finish_or_undo(marking, self._mark_undelivered)
        except WrongTransition as error:
            raise PaymentUnfinished("another request delivers the body", payment) from error

    async def _mark_undelivered(self, payment: Payment) -> None:
        await _try_step(payment, self._journal.mark_undelivered(payment))

    async def _release(self, payment: Payment, reason: str) -> None:
        step = self._journal.release(payment.id, reason, claimed_at=payment.claimed_at)
        await _try_step(payment, step)

    async def _mark_unknown(self, payment: Payment, reason: str, transaction: str | None) -> None:
        log.warning("settlement unknown", extra={"payment": payment.id, "reason": reason})
        await _try_step(payment, self._journal.mark_unknown(payment.id, reason, transaction))


async def _finish_or_undo(
    write: Coroutine[Any, Any, Payment], undo: Callable[[Payment], Awaitable[None]]
) -> Payment:
    """Finish a write although the request is cancelled, and then undo it."""
    writing = asyncio.ensure_future(write)
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.wait([writing])
        if not writing.cancelled() and writing.exception() is None:
            await undo(writing.result())
        raise


async def _require_connected(payment: Payment, is_disconnected: IsDisconnected) -> Payment:
    if is_disconnected():
        raise PaymentUnfinished(
            "the client disconnected; the same proof gets the body later", payment
        )
    return payment


async def _try_step(payment: Payment, step: Coroutine[Any, Any, Payment]) -> None:
    """Record a step if possible; otherwise the reconciler finds the payment later."""
    try:
        await step
    except (DatabaseUnavailable, WrongTransition) as error:
        _log_not_recorded(payment, error)


def _log_not_recorded(payment: Payment, error: Exception) -> None:
    fields = {"payment": payment.id, "reason": type(error).__name__}
    log.warning("payment step not recorded", extra=fields)


def _overtaken_by(payment: Payment, proof: Proof) -> PaymentError:
    """The error for a request that another one has overtaken."""
    if payment.state == "settled" and payment.nonce == proof.nonce:
        return PaymentUnfinished("the payment was charged meanwhile", payment)
    return conflict_error(payment)
