"""A process that takes one payment and kills itself at a named point."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from barograph.entitlements.purchases import FeedGrants
from barograph.entitlements.store import Entitlements
from barograph.kit.clock import Clock
from barograph.kit.database import Database
from barograph.payments.checkout import Cashier
from barograph.payments.journal import Journal
from barograph.payments.records import (
    ChainFinding,
    InvalidProof,
    NotSettled,
    Payment,
    Proof,
    Settled,
)
from support.clock import HandClock
from support.payments import FEED, proof, show

T = TypeVar("T")
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

    def after(
        self, step: Callable[..., Coroutine[Any, Any, T]], point: str
    ) -> Callable[..., Coroutine[Any, Any, T]]:
        """The same step, with this point at its end."""

        async def mortal(*given: Any, **how: Any) -> T:
            result = await step(*given, **how)
            self.at(point)
            return result

        return mortal


COMMITTED = {
    "find": "looked up",
    "claim": "claimed",
    "mark_settling": "settling",
    "mark_settled": "settled",
    "mark_delivered": "delivered",
}
"""The point right after each step of the journal."""


class MortalLedger(Ledger):
    """Dies before or after it settles."""

    def __init__(self, path: Path, clock: Clock, death: Death) -> None:
        super().__init__(path, clock)
        self._death = death

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
    journal, ledger = Journal(database, clock), MortalLedger(charges, clock, death)
    for step, reached in COMMITTED.items():
        setattr(journal, step, death.after(getattr(journal, step), reached))
    ledger.verify = death.after(ledger.verify, "verified")  # type: ignore[method-assign]
    grants = FeedGrants(Entitlements(database, clock), clock, PERIOD_DAYS)

    async def limit() -> None:
        death.at("limited")

    async def produce() -> bytes:
        await asyncio.sleep(0)
        death.at("produced")
        return b"{}"

    grant = death.after(grants.grant, "granted")
    death.at("before")
    of, cashier = proof_of(point), Cashier(journal, ledger, clock)
    asyncio.run(show(cashier, of, PATH, produce, grant, before_verify=limit, key=KEY))
