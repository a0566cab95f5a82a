"""A process that takes one payment and kills itself at a named point."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from barograph.entitlements.purchases import FeedGrants
from barograph.entitlements.store import Entitlements
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.payments.checkout import Cashier
from barograph.payments.journal import PLAIN_ORDER, Journal
from barograph.payments.records import (
    ChainFinding,
    InvalidProof,
    NotSettled,
    Order,
    Payment,
    PaymentKey,
    Proof,
    Settled,
)
from support.clock import HandClock
from support.payments import FEED, proof, show

PATH = "/api/x402/feed"
PERIOD_DAYS = 30
KEY = "0123456789abcdef"

POINTS = [
    "before",
    "looked up",
    "limited",
    "verified",
    "claimed",
    "produced",
    "settling",
    "asked",
    "charged",
    "answered",
    "granted",
    "settled",
    "delivered",
]
"""In the order in which they are reached; `granted` is inside the transaction."""


def proof_of(point: str) -> Proof:
    """A different proof and payer for each point."""
    number = POINTS.index(point) + 1
    return proof(number, offer=FEED, payer=f"0x{number:040x}")


class Ledger:
    """A facilitator and its chain as a file, so charges survive a crash."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.clock = clock

    def charges(self) -> list[str]:
        """The nonces that moved money, once per charge."""
        return self.path.read_text().split() if self.path.exists() else []

    async def verify(self, proof: Proof) -> None:
        if proof.nonce in self.charges():
            raise InvalidProof("nonce_used")

    async def settle(self, proof: Proof) -> Settled | NotSettled:
        with self.path.open("a") as file:
            file.write(proof.nonce + "\n")
            file.flush()
            os.fsync(file.fileno())
        return Settled("0x" + "ab" * 32)

    async def authorization(self, payment: Payment) -> ChainFinding:
        if payment.nonce in self.charges():
            return ChainFinding("used", "0x" + "ab" * 32)
        return ChainFinding("expired" if self.clock() >= payment.valid_before else "unused")

    async def close(self) -> None:
        """Nothing to release."""


class Death:
    """Kills the process at one point."""

    def __init__(self, point: str) -> None:
        self.point = point

    def at(self, point: str) -> None:
        if point == self.point:
            os.kill(os.getpid(), signal.SIGKILL)


class MortalJournal(Journal):
    """Dies right after a step is committed."""

    def __init__(self, database: Database, clock: Clock, death: Death) -> None:
        super().__init__(database, clock)
        self._death = death

    async def find(self, key: PaymentKey) -> Payment | None:
        found = await super().find(key)
        self._death.at("looked up")
        return found

    async def claim(self, proof: Proof, path: str, order: Order = PLAIN_ORDER) -> Payment:
        claimed = await super().claim(proof, path, order)
        self._death.at("claimed")
        return claimed

    async def mark_settling(self, payment_id: str, **how: Any) -> Payment:
        payment = await super().mark_settling(payment_id, **how)
        self._death.at("settling")
        return payment

    async def mark_settled(self, *given: Any, **how: Any) -> Payment:
        payment = await super().mark_settled(*given, **how)
        self._death.at("settled")
        return payment

    async def mark_delivered(self, payment_id: str) -> Payment:
        payment = await super().mark_delivered(payment_id)
        self._death.at("delivered")
        return payment


class MortalLedger(Ledger):
    """Dies before or after its answers."""

    def __init__(self, path: Path, clock: Clock, death: Death) -> None:
        super().__init__(path, clock)
        self._death = death

    async def verify(self, proof: Proof) -> None:
        await super().verify(proof)
        self._death.at("verified")

    async def settle(self, proof: Proof) -> Settled | NotSettled:
        self._death.at("asked")
        outcome = await super().settle(proof)
        self._death.at("charged")
        await asyncio.sleep(0)
        self._death.at("answered")
        return outcome


def take_and_die(database: Database, charges: Path, point: str) -> None:
    """Take a payment and die at that point."""
    clock, death = HandClock(), Death(point)
    cashier = Cashier(
        MortalJournal(database, clock, death), MortalLedger(charges, clock, death), clock
    )
    grants = FeedGrants(Entitlements(database, clock), clock, PERIOD_DAYS)

    async def limit() -> None:
        death.at("limited")

    async def produce() -> bytes:
        await asyncio.sleep(0)
        death.at("produced")
        return b"{}"

    async def mortal_grant(tx: Transaction, payment: Payment) -> str | None:
        granted = await grants.grant(tx, payment)
        death.at("granted")
        return granted

    death.at("before")
    of = proof_of(point)
    asyncio.run(show(cashier, of, PATH, produce, mortal_grant, before_verify=limit, key=KEY))
