"""Well-formed payment proofs, and a facilitator that tests control."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from barograph.payments.checkout import Cashier, Delivery, IsDisconnected, never_disconnected
from barograph.payments.journal import Grant, Journal, is_by_payer
from barograph.payments.proof import wire_payload
from barograph.payments.records import (
    FacilitatorUnavailable,
    InvalidProof,
    NotSettled,
    Order,
    Payment,
    Proof,
    Requirements,
    Settled,
    SettlementUnknown,
    State,
)
from support.clock import START

T = TypeVar("T")

STANCE = Requirements(
    network="eip155:84532",
    asset="0x" + "a5" * 20,
    pay_to="0x" + "be" * 20,
    amount=250_000,
    max_timeout_seconds=60,
    name="USDC",
    version="2",
)
FEED = replace(STANCE, amount=25_000_000)
PAYER = "0x" + "c4" * 20
SIGNATURE = "0x" + "1f" * 32 + "2e" * 32 + "1b"
NOW_SECONDS = START // 1000
PAYMENTS = {
    "x402_facilitator_url": "http://127.0.0.1:1",
    "x402_network": STANCE.network,
    "x402_asset": STANCE.asset,
    "x402_pay_to": STANCE.pay_to,
}
"""The settings of a service that takes payments."""


def proof(
    number: int = 1,
    *,
    offer: Requirements = STANCE,
    payer: str = PAYER,
    signature: str = SIGNATURE,
    now_seconds: int = NOW_SECONDS,
) -> Proof:
    """A different proof for each number."""
    return Proof(
        requirements=offer,
        payer=payer,
        valid_after=0,
        valid_before=now_seconds + offer.max_timeout_seconds,
        nonce=f"0x{number:064x}",
        signature=signature,
    )


def payment(of: Proof, now: int = START, **changes: Any) -> Payment:
    """The unknown payment of a proof; `changes` are made to its record."""
    unknown = Payment(
        "pay_1",
        *of.key,
        path="/api/x402/feed",
        pay_to=of.requirements.pay_to,
        amount=str(of.requirements.amount),
        valid_before=of.valid_before * 1_000,
        state="unknown",
        claimed_at=now,
        updated_at=now,
        transaction=None,
        entitlement_id=None,
        reason=None,
        released_at=None,
        signature_digest="",
    )
    return unknown._replace(**changes)


def payload(of: Proof | None = None) -> dict[str, Any]:
    """The payload of a proof, which a test may change."""
    return wire_payload(of or proof())


def header(content: object) -> str:
    """The value of `PAYMENT-SIGNATURE`."""
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return b64encode(text).decode()


TRANSACTION = "0x" + "ab" * 32


async def bring(journal: Journal, payment: Payment, state: State) -> Payment:
    """Take a claimed payment through the steps that lead to a state."""
    if state == "released":
        return await journal.release(payment.id, "why")
    if state != "claimed":
        payment = await journal.mark_settling(payment.id)
    match state:
        case "settled":
            payment = await journal.mark_settled(payment.id, TRANSACTION)
        case "failed":
            payment = await journal.mark_failed(payment.id, "why")
        case "unknown":
            payment = await journal.mark_unknown(payment.id, "why")
    return payment


async def show(
    cashier: Cashier,
    of: Proof,
    path: str,
    produce: Callable[[], Awaitable[T]],
    grant: Grant | None = None,
    *,
    before_verify: Callable[[], Awaitable[None]] | None = None,
    key: str | None = None,
    is_disconnected: IsDisconnected = never_disconnected,
) -> Delivery[T]:
    """Send a proof as `/api/x402/feed` does: redeliver what it paid for, or take a new payment."""
    resumed = await cashier.redeliver(
        of,
        path,
        lambda _: produce(),
        may_repeat=lambda payment: is_by_payer(payment, key),
        is_disconnected=is_disconnected,
    )
    if resumed is not None:
        return resumed
    verified = await cashier.verify(of, before_verify)
    return await cashier.charge(
        verified, path, produce, grant, Order(key=key), is_disconnected=is_disconnected
    )


class HandFacilitator:
    """Settles each nonce once, unless a test sets another behaviour."""

    def __init__(self) -> None:
        self.shown: list[Proof] = []
        """Every proof that it was asked to verify or settle."""

        self.verified: list[str] = []
        self.asked: list[str] = []
        """The nonces that it was asked to settle."""

        self.charged: list[str] = []
        """The nonces that moved money."""

        self.on_verify: Exception | None = None
        self.on_settle: Exception | NotSettled | None = None
        self.settles_before_failing = False
        self.before_settling: Callable[[], Awaitable[None]] | None = None
        self.before_verifying: Callable[[], Awaitable[None]] | None = None

    def refuse(self) -> None:
        """Reject every proof."""
        self.on_verify = InvalidProof("insufficient_funds")

    def go_away(self) -> None:
        """Be unreachable for verifying and settling."""
        self.on_verify = self.on_settle = FacilitatorUnavailable("unreachable")

    def fall_silent(self, *, after_charging: bool) -> None:
        """Never answer a settlement."""
        self.on_settle = SettlementUnknown("no answer")
        self.settles_before_failing = after_charging

    async def verify(self, proof: Proof) -> None:
        self.shown.append(proof)
        self.verified.append(proof.nonce)
        if self.before_verifying is not None:
            await self.before_verifying()
        if self.on_verify is not None:
            raise self.on_verify
        if proof.nonce in self.charged:
            raise InvalidProof("nonce_used")

    async def settle(self, proof: Proof) -> Settled | NotSettled:
        self.shown.append(proof)
        self.asked.append(proof.nonce)
        if self.before_settling is not None:
            await self.before_settling()
        await asyncio.sleep(0)
        if self.settles_before_failing or self.on_settle is None:
            self.charged.append(proof.nonce)
        if isinstance(self.on_settle, Exception):
            raise self.on_settle
        return self.on_settle or Settled("0x" + proof.nonce[-2:] * 32)

    async def close(self) -> None:
        """Nothing to release."""
