"""The payment journal: one row per payment, and a trail of its steps.

    claimed ──▶ settling ──▶ settled
       │           │  ├────▶ failed
       ▼           ▼  └────▶ unknown ──▶ settled or failed, as the chain shows
    released ◀─────┘
       └──▶ claimed again, at any paid endpoint

A proof of a wallet that is buying the same with another proof becomes `failed` at once.

A step is one guarded UPDATE: if two processes try, one succeeds. The same transaction adds an entry
to the payment's trail, and the database refuses to change that trail.
"""

from base64 import b32encode
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from hashlib import sha256
from secrets import token_bytes

from barograph.errors import BarographError
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Queryable, Statement, Transaction, Value
from barograph.kit.metrics import NO_METRICS, PAYMENT_STEPS, Metrics
from barograph.kit.timestamps import SECOND
from barograph.payments.records import (
    ANOTHER_PURCHASE,
    DecodedProof,
    OpenCount,
    Order,
    Payment,
    PaymentKey,
    Proof,
    Purchases,
    State,
    TrailStep,
    conflict_error,
)

Grant = Callable[[Transaction, Payment], Awaitable[str | None]]
"""Grants what a payment is for, in its transaction, and returns the entitlement's id, if any.

Like every part of a transaction it may await only statements of that transaction."""

ID_BYTES = 10
PLAIN_ORDER = Order()


class UnknownPayment(BarographError):
    """There is no payment with that id."""


class WrongTransition(BarographError):
    """The payment's state does not allow that step; nothing was changed."""


class AlreadyClaimed(BarographError):
    """The proof is a payment already, and was not released."""

    def __init__(self, payment: Payment) -> None:
        super().__init__("the payment was claimed already")
        self.payment = payment


class Journal:
    """Every payment of this instance.

    A step raises WrongTransition if the payment's state, or a newer claim, does not allow it. A
    method that raises DatabaseUnavailable changed nothing.
    """

    def __init__(self, database: Database, clock: Clock, metrics: Metrics = NO_METRICS) -> None:
        self._metrics = metrics
        self._database = database
        self._clock = clock

    async def find(self, key: PaymentKey) -> Payment | None:
        """The payment of a proof, if it was ever claimed."""
        return await _BY_KEY.first(self._database, *key)

    async def get(self, payment_id: str) -> Payment:
        """One payment; raises `UnknownPayment` if there is none with that id."""
        return await _one(self._database, payment_id)

    async def search(
        self, *, state: State | None = None, payer: str | None = None, limit: int = 100
    ) -> list[Payment]:
        """The payments that match, newest first."""
        return await _SEARCH.fetch(self._database, state, payer and payer.lower(), limit)

    async def open_payments(self, before: int, limit: int) -> list[Payment]:
        """Unfinished payments whose last step is older than `before`.

        Unknown ones come last: however many wait for the chain, the others are handled first.
        """
        return await _OPEN.fetch(self._database, before, limit)

    async def open_counts(self) -> list[OpenCount]:
        """The unfinished payments by state."""
        return await _COUNT_OPEN.fetch(self._database)

    async def purchases(self, network: str, asset: str, payer: str, path: str) -> Purchases:
        """What a wallet has bought at an endpoint so far."""
        return await _purchases(self._database, network, asset, payer, path)

    async def trail(self, payment_id: str) -> list[TrailStep]:
        """Every step of a payment in order."""
        return await _TRAIL.fetch(self._database, payment_id)

    async def claim(self, proof: Proof, path: str, order: Order = PLAIN_ORDER) -> Payment:
        """Claim a verified proof; no other request can claim it until it is released.

        Raises:
            AlreadyClaimed: it was claimed before, or another proof came with the same key.
            PurchaseOpen: the wallet has bought the same with another proof since its request
                arrived, or is buying it. That is recorded, so this proof can never be claimed.
        """
        now = self._clock()
        new = _new_payment(proof, path, now, order)

        async def work(tx: Transaction) -> Payment:
            buyer = new.network, new.asset, new.payer, new.path
            # One request with its key must not charge a wallet twice.
            earlier = await _SAME_KEY.first(tx, *buyer, new.nonce, new.key_digest)
            if earlier is not None:
                raise AlreadyClaimed(earlier)
            first = await _is_first(tx, new, order)
            entry = new if first else new._replace(state="failed", reason=ANOTHER_PURCHASE)
            claimed = await _CLAIM.first(tx, *entry)
            if claimed is None:
                (other,) = await _BY_KEY.fetch(tx, *proof.key)
                raise AlreadyClaimed(other)
            step = TrailStep(claimed.state, now, claimed.reason or path)
            await tx.execute(_ADD_TO_TRAIL, claimed.id, *step)
            return claimed

        claimed = await self._counted(self._database.write(work))
        if claimed.state != "claimed":
            raise conflict_error(claimed)
        return claimed

    async def mark_settling(self, payment_id: str, *, claimed_at: int | None = None) -> Payment:
        """Record that we are about to ask the facilitator to settle.

        With `claimed_at` only that very claim counts: a slow request whose claim was released must
        not continue with the claim of another request.
        """
        return await self._step(payment_id, "settling", None, claimed_at)

    async def mark_settled(
        self,
        payment_id: str,
        transaction: str | None,
        grant: Grant | None = None,
        *,
        reason: str | None = None,
    ) -> Payment:
        """Record that the money moved, and grant what it is for: both, or neither."""
        now = self._clock()

        async def work(tx: Transaction) -> Payment:
            step = TrailStep("settled", now, reason)
            payment = await _move(tx, payment_id, step, transaction=transaction)
            entitlement_id = None if grant is None else await grant(tx, payment)
            if entitlement_id is not None:
                await tx.execute(_NAME_GRANT, entitlement_id, payment_id)
            return payment._replace(entitlement_id=entitlement_id)

        return await self._counted(self._database.write(work))

    async def mark_failed(self, payment_id: str, reason: str) -> Payment:
        """Record that the money did not move, and never will by this proof."""
        return await self._step(payment_id, "failed", reason)

    async def mark_unknown(
        self, payment_id: str, reason: str, transaction: str | None = None
    ) -> Payment:
        """Record that we don't know whether the money moved, perhaps in this transaction."""
        return await self._step(payment_id, "unknown", reason, transaction=transaction)

    async def release(
        self, payment_id: str, reason: str, *, claimed_at: int | None = None
    ) -> Payment:
        """Release a proof that the facilitator was not asked to settle: it can be claimed again."""
        return await self._step(payment_id, "released", reason, claimed_at)

    async def abandon(self, payment: Payment, reason: str) -> Payment:
        """Release a claim that no request seems to continue.

        The journal can't show whether the facilitator was asked about a payment that is being
        settled, so this never releases one.
        """
        step = TrailStep("released", self._clock(), reason)
        values = (step.at, reason, payment.id, payment.claimed_at)
        return await self._counted(
            self._database.write(lambda tx: _update(tx, _ABANDON, values, payment.id, step))
        )

    async def mark_delivered(self, payment_id: str) -> Payment:
        """Record the delivery of the body; if two requests try, one may deliver it."""
        step = TrailStep("delivered", self._clock(), None)
        values = (step.at, payment_id)
        return await self._database.write(
            lambda tx: _update(tx, _DELIVER, values, payment_id, step)
        )

    async def mark_undelivered(self, payment: Payment) -> Payment:
        """Record that the body was not delivered after all: the same proof gets it later."""
        step = TrailStep("undelivered", self._clock(), None)
        values = (payment.id, payment.released_at)
        return await self._database.write(
            lambda tx: _update(tx, _UNDELIVER, values, payment.id, step)
        )

    async def _counted(self, stepping: Awaitable[Payment]) -> Payment:
        payment = await stepping
        self._metrics.count(PAYMENT_STEPS, payment.state)
        return payment

    async def _step(
        self,
        payment_id: str,
        to: State,
        reason: str | None,
        claimed_at: int | None = None,
        transaction: str | None = None,
    ) -> Payment:
        step = TrailStep(to, self._clock(), reason)
        move = partial(_move, claimed_at=claimed_at, transaction=transaction)
        return await self._counted(self._database.write(lambda tx: move(tx, payment_id, step)))


def _new_payment(proof: Proof, path: str, now: int, order: Order) -> Payment:
    return Payment(
        f"pay_{b32encode(token_bytes(ID_BYTES)).decode().lower()}",
        *proof.key,
        path=path,
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


def signature_digest(proof: Proof | DecodedProof) -> str:
    """The stored form of a signature: the signature itself is money until the proof expires."""
    return sha256(proof.signature.encode()).hexdigest()


def is_by_payer(payment: Payment, key: str | None) -> bool:
    """Whether a repeat is the payer's: by the key of the first request, or not delivered yet."""
    if payment.key_digest is None:
        return payment.released_at is None
    return payment.key_digest == _key_digest(key)


def _key_digest(key: str | None) -> str | None:
    return None if key is None else sha256(key.encode()).hexdigest()


async def _is_first(tx: Transaction, new: Payment, order: Order) -> bool:
    """Whether the wallet has not bought anything else since its request arrived."""
    if order.settled_before is None:
        return True
    now = await _purchases(tx, new.network, new.asset, new.payer, new.path)
    return now == Purchases(is_open=False, settled=order.settled_before)


async def _purchases(queryable: Queryable, *buyer: str) -> Purchases:
    ((open_, settled),) = await queryable.fetch(_PURCHASES, *buyer)
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
    detail = " ".join(word for word in (transaction, step.detail) if word is not None)
    entry = step._replace(detail=detail or None)
    return await _update(tx, _MOVES[step.step], values, payment_id, entry)


async def _update(
    tx: Transaction,
    sql: Statement[Payment],
    values: Sequence[Value],
    payment_id: str,
    step: TrailStep,
) -> Payment:
    updated = await sql.first(tx, *values)
    if updated is None:
        payment = await _one(tx, payment_id)
        raise WrongTransition(f"a payment that is {payment.state} cannot become {step.step}")
    await tx.execute(_ADD_TO_TRAIL, payment_id, *step)
    return updated


async def _one(queryable: Queryable, payment_id: str) -> Payment:
    payment = await _ONE.first(queryable, payment_id)
    if payment is None:
        raise UnknownPayment("there is no such payment")
    return payment


def _payments(sql: str) -> Statement[Payment]:
    return Statement(Payment, sql, path="door", transaction="transaction_hash")


_ORIGINS = {
    "settling": "'claimed'",
    "settled": "'settling', 'unknown'",
    "failed": "'settling', 'unknown'",
    "unknown": "'settling'",
    "released": "'claimed', 'settling'",
}
_MOVES = {
    to: _payments(f"""
UPDATE payments SET state = '{to}', updated_at = $1, reason = $2,
    transaction_hash = coalesce($3, transaction_hash)
WHERE id = $4 AND state IN ({origins}) AND claimed_at = coalesce($5, claimed_at)
RETURNING {{columns}}
""")  # noqa: S608 - our own words only
    for to, origins in _ORIGINS.items()
}
_CLAIM = _payments("""
INSERT INTO payments
    (id, network, asset, payer, nonce, door, pay_to, amount, valid_before, state, claimed_at,
    updated_at, transaction_hash, entitlement_id, reason, released_at, signature_digest,
    key_digest, item)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
ON CONFLICT (network, asset, payer, nonce) DO UPDATE SET
    door = excluded.door, pay_to = excluded.pay_to, amount = excluded.amount,
    valid_before = excluded.valid_before, state = excluded.state,
    claimed_at = excluded.claimed_at, updated_at = excluded.updated_at,
    reason = excluded.reason, signature_digest = excluded.signature_digest,
    key_digest = excluded.key_digest, item = excluded.item, older_open = 0
WHERE payments.state = 'released'
RETURNING {columns}
""")
_ABANDON = _payments("""
UPDATE payments SET state = 'released', updated_at = $1, reason = $2
WHERE id = $3 AND claimed_at = $4 AND state = 'claimed' RETURNING {columns}
""")
_NAME_GRANT = "UPDATE payments SET entitlement_id = $1 WHERE id = $2"
_DELIVER = _payments("""
UPDATE payments SET released_at = $1
WHERE id = $2 AND state = 'settled' AND released_at IS NULL RETURNING {columns}
""")
_UNDELIVER = _payments("""
UPDATE payments SET released_at = NULL WHERE id = $1 AND released_at = $2 RETURNING {columns}
""")
_PURCHASES = """
SELECT count(*) FILTER (WHERE state IN ('claimed', 'settling', 'unknown')),
    count(*) FILTER (WHERE state = 'settled')
FROM payments WHERE network = $1 AND asset = $2 AND payer = $3 AND door = $4
"""
_SAME_KEY = _payments("""
SELECT {columns} FROM payments
WHERE network = $1 AND asset = $2 AND payer = $3 AND door = $4 AND nonce <> $5
    AND key_digest = $6 AND state NOT IN ('released', 'failed') LIMIT 1
""")
_BY_KEY = _payments("""
SELECT {columns} FROM payments WHERE network = $1 AND asset = $2 AND payer = $3 AND nonce = $4
""")
_ONE = _payments("SELECT {columns} FROM payments WHERE id = $1")
_OPEN = _payments("""
SELECT {columns} FROM payments
WHERE state IN ('claimed', 'settling', 'unknown') AND updated_at < $1
ORDER BY state, updated_at, id LIMIT $2
""")
_COUNT_OPEN = Statement(
    OpenCount,
    """
SELECT {columns} FROM payments WHERE state IN ('claimed', 'settling', 'unknown') GROUP BY state
""",
    payments="count(*)",
    oldest_step_at="min(updated_at)",
)
_SEARCH = _payments("""
SELECT {columns} FROM payments
WHERE state = coalesce($1, state) AND payer = coalesce($2, payer)
ORDER BY claimed_at DESC, id LIMIT $3
""")
_ADD_TO_TRAIL = """
INSERT INTO payment_trail (sequence, payment_id, step, at, detail)
VALUES ((SELECT coalesce(max(sequence), 0) + 1 FROM payment_trail), $1, $2, $3, $4)
"""
_TRAIL = Statement(
    TrailStep, "SELECT {columns} FROM payment_trail WHERE payment_id = $1 ORDER BY sequence"
)
