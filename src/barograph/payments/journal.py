"""The journal: every payment that was taken seriously, and every step of it.

    claimed ──▶ settling ──▶ settled
       │           │  ├────▶ failed
       ▼           ▼  └────▶ unknown ──▶ settled or failed, as the chain tells
    released ◀─────┘
       └──▶ claimed again, at any door

A proof of a wallet that is buying the same with another one is `failed` from the start.

A step is one guarded UPDATE: of two that try, one succeeds. It leaves an entry in the payment's
trail in the same transaction, and the database refuses to change that trail.
"""

from base64 import b32encode
from collections.abc import Awaitable, Callable
from hashlib import sha256
from secrets import token_bytes

from barograph.errors import BarographError
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.timestamps import SECOND
from barograph.payments.records import (
    ANOTHER_PURCHASE,
    Order,
    Payment,
    PaymentKey,
    Proof,
    Purchases,
    ShownProof,
    State,
    TrailStep,
    in_the_way,
)

Grant = Callable[[Transaction, Payment], Awaitable[str | None]]
"""Grants what a payment is for, in its transaction; returns the entitlement's id, if there is one.

Like every part of a transaction it may await only statements of that transaction."""

ID_BYTES = 10
PLAIN_ORDER = Order()

_Payments = list[Payment]


class UnknownPayment(BarographError):
    """There is no payment with that id."""


class WrongTransition(BarographError):
    """The payment is not in a state from which that step can be made; nothing was changed."""


class AlreadyClaimed(BarographError):
    """The authorization is a payment already, and not one that was let go."""

    def __init__(self, payment: Payment) -> None:
        super().__init__("the payment was claimed already")
        self.payment = payment


class Journal:
    """Every payment of this instance."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def purchases(self, network: str, asset: str, payer: str, door: str) -> Purchases:
        """What a wallet has bought at a door so far.

        Raises:
            DatabaseUnavailable: nobody can tell.
        """

        async def work(tx: Transaction) -> Purchases:
            return await _purchases(tx, network, asset, payer, door)

        return await self._database.read(work)

    async def find(self, key: PaymentKey) -> Payment | None:
        """The payment of an authorization, if it was ever claimed.

        Raises:
            DatabaseUnavailable: nobody can tell.
        """

        async def work(tx: Transaction) -> Payment | None:
            rows = await tx.fetch(_BY_KEY, *key)
            return Payment(*rows[0]) if rows else None

        return await self._database.read(work)

    async def claim(self, proof: Proof, door: str, order: Order = PLAIN_ORDER) -> Payment:
        """Begin to serve a proof that was verified; nobody else can until it is let go.

        Raises:
            AlreadyClaimed: it is being served, or was, or another proof came with the same key.
            PurchaseOpen: the wallet bought the same with another proof since its request arrived,
                or is buying it. That is noted, so that this proof can never be claimed.
            DatabaseUnavailable: nothing was claimed.
        """
        now = self._clock()
        new = _new_payment(proof, door, now, order)

        async def work(tx: Transaction) -> Payment:
            await _require_new_key(tx, new)
            first = await _is_first(tx, new, order)
            entry = new if first else new._replace(state="failed", reason=ANOTHER_PURCHASE)
            rows = await tx.fetch(_CLAIM, *entry)
            if not rows:
                raise AlreadyClaimed(Payment(*(await tx.fetch(_BY_KEY, *proof.key))[0]))
            kept = Payment(*rows[0])
            await _note(tx, kept.id, TrailStep(kept.state, now, kept.reason or door))
            return kept

        kept = await self._database.write(work)
        if kept.state != "claimed":
            raise in_the_way(kept)
        return kept

    async def settling(self, payment_id: str, *, claimed_at: int | None = None) -> Payment:
        """Note that the facilitator is about to be asked to move the money.

        With `claimed_at` only that very claim counts: one that slept until it was let go must not
        go on with the claim of somebody else.

        Raises:
            WrongTransition: it is not claimed, or not by that claim any more.
            DatabaseUnavailable: it was not noted, so nobody may be asked.
        """
        return await self._step(payment_id, "settling", None, claimed_at)

    async def settled(
        self,
        payment_id: str,
        transaction: str | None,
        grant: Grant | None = None,
        *,
        reason: str | None = None,
    ) -> Payment:
        """Note that the money moved, and grant what it is for: both, or neither.

        Raises:
            WrongTransition: it was not being settled, or it has ended already.
            DatabaseUnavailable: neither was written.
        """
        now = self._clock()

        async def work(tx: Transaction) -> Payment:
            step = TrailStep("settled", now, reason)
            payment = await _move(tx, payment_id, step, transaction=transaction)
            entitlement_id = None if grant is None else await grant(tx, payment)
            if entitlement_id is not None:
                await tx.execute(_NAME_GRANT, entitlement_id, payment_id)
            return payment._replace(entitlement_id=entitlement_id)

        return await self._database.write(work)

    async def failed(self, payment_id: str, reason: str) -> Payment:
        """Note that the money did not move, and never will by this authorization.

        Raises:
            WrongTransition: it was not being settled, or it has ended already.
        """
        return await self._step(payment_id, "failed", reason)

    async def unknown(self, payment_id: str, reason: str) -> Payment:
        """Note that nobody can say whether the money moved.

        Raises:
            WrongTransition: it is not being settled.
        """
        return await self._step(payment_id, "unknown", reason)

    async def release(
        self, payment_id: str, reason: str, *, claimed_at: int | None = None
    ) -> Payment:
        """Let a proof go with which nothing was asked to move: it may come again.

        Raises:
            WrongTransition: it is neither claimed nor being settled, or not by that claim.
        """
        return await self._step(payment_id, "released", reason, claimed_at)

    async def abandon(self, payment: Payment, reason: str) -> Payment:
        """Let a claim go that nobody seems to go on with, unless somebody does by now.

        Who sees only the journal cannot tell whether a payment that is being settled was asked
        to move, so such a one is never let go here.

        Raises:
            WrongTransition: it is not claimed any more, or by another claim.
        """
        step = TrailStep("released", self._clock(), reason)

        async def work(tx: Transaction) -> Payment:
            rows = await tx.fetch(_ABANDON, step.at, reason, payment.id, payment.claimed_at)
            if not rows:
                raise WrongTransition("only a claim can be abandoned")
            await _note(tx, payment.id, step)
            return Payment(*rows[0])

        return await self._database.write(work)

    async def mark_released(self, payment_id: str) -> Payment:
        """Note that the body goes out now; of two that try, one may send it.

        Raises:
            WrongTransition: it was not settled, or the body went out already.
            DatabaseUnavailable: it was not noted.
        """
        now = self._clock()

        async def work(tx: Transaction) -> Payment:
            rows = await tx.fetch(_DELIVER, now, payment_id)
            if not rows:
                raise WrongTransition("the body of this payment is not to be sent")
            await _note(tx, payment_id, TrailStep("delivered", now, None))
            return Payment(*rows[0])

        return await self._database.write(work)

    async def take_back(self, payment: Payment) -> Payment:
        """Note that a body did not go out after all: the same proof gets it later.

        Raises:
            WrongTransition: it is not noted as sent, or was sent at another time.
            DatabaseUnavailable: it was not noted.
        """
        now = self._clock()

        async def work(tx: Transaction) -> Payment:
            rows = await tx.fetch(_TAKE_BACK, payment.id, payment.released_at)
            if not rows:
                raise WrongTransition("the body of this payment was not sent then")
            await _note(tx, payment.id, TrailStep("undelivered", now, None))
            return Payment(*rows[0])

        return await self._database.write(work)

    async def get(self, payment_id: str) -> Payment:
        """One payment.

        Raises:
            UnknownPayment: there is none with that id.
        """

        async def work(tx: Transaction) -> Payment:
            return await _one(tx, payment_id)

        return await self._database.read(work)

    async def trail(self, payment_id: str) -> list[TrailStep]:
        """Every step of a payment, in the order in which they were made."""

        async def work(tx: Transaction) -> list[TrailStep]:
            return [TrailStep(*row) for row in await tx.fetch(_TRAIL, payment_id)]

        return await self._database.read(work)

    async def open_payments(self, before: int, limit: int) -> _Payments:
        """Those without an end whose last step is older, those of a crash first.

        What only the chain can tell comes last: however many of these wait, they keep nothing
        else from being looked at.
        """

        async def work(tx: Transaction) -> _Payments:
            return [Payment(*row) for row in await tx.fetch(_OPEN, before, limit)]

        return await self._database.read(work)

    async def list(
        self, *, state: State | None = None, payer: str | None = None, limit: int = 100
    ) -> _Payments:
        """The payments that fit, the newest first."""
        payer = None if payer is None else payer.lower()

        async def work(tx: Transaction) -> _Payments:
            return [Payment(*row) for row in await tx.fetch(_LIST, state, payer, limit)]

        return await self._database.read(work)

    async def _step(
        self, payment_id: str, to: State, reason: str | None, claimed_at: int | None = None
    ) -> Payment:
        step = TrailStep(to, self._clock(), reason)

        async def work(tx: Transaction) -> Payment:
            return await _move(tx, payment_id, step, claimed_at=claimed_at)

        return await self._database.write(work)


def _new_payment(proof: Proof, door: str, now: int, order: Order) -> Payment:
    return Payment(
        f"pay_{b32encode(token_bytes(ID_BYTES)).decode().lower()}",
        *proof.key,
        door=door,
        pay_to=proof.requirements.pay_to,
        amount=str(proof.requirements.amount),
        valid_before=proof.valid_before * SECOND,
        state="claimed",
        claimed_at=now,
        updated_at=now,
        transaction=None,
        entitlement_id=None,
        reason=None,
        released_at=None,
        signature_digest=signature_digest(proof),
        key_digest=_key_digest(order.key),
        item=order.item,
    )


def signature_digest(proof: Proof | ShownProof) -> str:
    """What the journal keeps of a signature, which must not lie anywhere while it is money."""
    return sha256(proof.signature.encode()).hexdigest()


def is_paid_with(
    payment: Payment, proof: Proof | ShownProof, door: str, key: str | None = None
) -> bool:
    """Whether this proof made the payment, at this door and with this idempotency key."""
    return (payment.door, payment.signature_digest) == (door, signature_digest(proof)) and (
        payment.key_digest in {None, _key_digest(key)}
    )


def _key_digest(key: str | None) -> str | None:
    return None if key is None else sha256(key.encode()).hexdigest()


async def _require_new_key(tx: Transaction, new: Payment) -> None:
    """Refuse a claim that would charge a wallet twice for one request."""
    of = new.network, new.asset, new.payer, new.door
    if rows := await tx.fetch(_SAME_KEY, *of, new.nonce, new.key_digest):
        raise AlreadyClaimed(Payment(*rows[0]))


async def _is_first(tx: Transaction, new: Payment, order: Order) -> bool:
    """Whether the wallet has not bought anything else since its request arrived."""
    if order.settled_before is None:
        return True
    now = await _purchases(tx, new.network, new.asset, new.payer, new.door)
    return now == Purchases(is_open=False, settled=order.settled_before)


async def _purchases(tx: Transaction, *of: str) -> Purchases:
    ((open_, settled),) = await tx.fetch(_PURCHASES, *of)
    return Purchases(bool(open_), settled)


async def _move(
    tx: Transaction,
    payment_id: str,
    step: TrailStep,
    *,
    claimed_at: int | None = None,
    transaction: str | None = None,
) -> Payment:
    values = (step.at, step.detail, transaction, payment_id, claimed_at)
    rows = await tx.fetch(_MOVES[step.step], *values)
    if not rows:
        standing = await _one(tx, payment_id)
        raise WrongTransition(f"a payment that is {standing.state} cannot become {step.step}")
    detail = " ".join(each for each in (transaction, step.detail) if each is not None)
    await _note(tx, payment_id, step._replace(detail=detail or None))
    return Payment(*rows[0])


async def _note(tx: Transaction, payment_id: str, step: TrailStep) -> None:
    await tx.execute(_NOTE, payment_id, *step)


async def _one(tx: Transaction, payment_id: str) -> Payment:
    rows = await tx.fetch(_ONE, payment_id)
    if not rows:
        raise UnknownPayment("there is no such payment")
    return Payment(*rows[0])


_COLUMNS = (
    "id, network, asset, payer, nonce, door, pay_to, amount, valid_before, state, claimed_at, "
    "updated_at, transaction_hash, entitlement_id, reason, released_at, signature_digest, "
    "key_digest, item"
)
_ORIGINS = {
    "settling": "'claimed'",
    "settled": "'settling', 'unknown'",
    "failed": "'settling', 'unknown'",
    "unknown": "'settling'",
    "released": "'claimed', 'settling'",
}
_MOVES = {
    to: f"""
UPDATE payments SET state = '{to}', updated_at = $1, reason = $2, transaction_hash = $3
WHERE id = $4 AND state IN ({origins}) AND claimed_at = coalesce($5, claimed_at)
RETURNING {_COLUMNS}
"""  # noqa: S608 - our own words only
    for to, origins in _ORIGINS.items()
}
_CLAIM = f"""
INSERT INTO payments ({_COLUMNS})
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
ON CONFLICT (network, asset, payer, nonce) DO UPDATE SET
    door = excluded.door, pay_to = excluded.pay_to, amount = excluded.amount,
    valid_before = excluded.valid_before, state = excluded.state,
    claimed_at = excluded.claimed_at, updated_at = excluded.updated_at,
    reason = excluded.reason, signature_digest = excluded.signature_digest,
    key_digest = excluded.key_digest, item = excluded.item, older_open = 0
WHERE payments.state = 'released'
RETURNING {_COLUMNS}
"""  # noqa: S608 - the names of our own columns
_ABANDON = f"""
UPDATE payments SET state = 'released', updated_at = $1, reason = $2
WHERE id = $3 AND claimed_at = $4 AND state = 'claimed' RETURNING {_COLUMNS}
"""  # noqa: S608 - the names of our own columns
_NAME_GRANT = "UPDATE payments SET entitlement_id = $1 WHERE id = $2"
_DELIVER = f"""
UPDATE payments SET released_at = $1
WHERE id = $2 AND state = 'settled' AND released_at IS NULL RETURNING {_COLUMNS}
"""  # noqa: S608 - the names of our own columns
_TAKE_BACK = f"""
UPDATE payments SET released_at = NULL WHERE id = $1 AND released_at = $2 RETURNING {_COLUMNS}
"""  # noqa: S608 - the names of our own columns
_PURCHASES = """
SELECT count(*) FILTER (WHERE state IN ('claimed', 'settling', 'unknown')),
    count(*) FILTER (WHERE state = 'settled')
FROM payments WHERE network = $1 AND asset = $2 AND payer = $3 AND door = $4
"""
_SAME_KEY = f"""
SELECT {_COLUMNS} FROM payments
WHERE network = $1 AND asset = $2 AND payer = $3 AND door = $4 AND nonce <> $5
    AND key_digest = $6 AND state NOT IN ('released', 'failed') LIMIT 1
"""  # noqa: S608 - the names of our own columns
_BY_KEY = f"""
SELECT {_COLUMNS} FROM payments WHERE network = $1 AND asset = $2 AND payer = $3 AND nonce = $4
"""  # noqa: S608 - the names of our own columns
_ONE = f"SELECT {_COLUMNS} FROM payments WHERE id = $1"  # noqa: S608
_OPEN = f"""
SELECT {_COLUMNS} FROM payments
WHERE state IN ('claimed', 'settling', 'unknown') AND updated_at < $1
ORDER BY state, updated_at, id LIMIT $2
"""  # noqa: S608 - the names of our own columns
_LIST = f"""
SELECT {_COLUMNS} FROM payments
WHERE state = coalesce($1, state) AND payer = coalesce($2, payer)
ORDER BY claimed_at DESC, id LIMIT $3
"""  # noqa: S608 - the names of our own columns
_NOTE = """
INSERT INTO payment_trail (sequence, payment_id, step, at, detail)
VALUES ((SELECT coalesce(max(sequence), 0) + 1 FROM payment_trail), $1, $2, $3, $4)
"""
_TRAIL = "SELECT step, at, detail FROM payment_trail WHERE payment_id = $1 ORDER BY sequence"
