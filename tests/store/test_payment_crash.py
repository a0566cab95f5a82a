"""A process that is killed while it takes a payment: no charge is lost, none is made twice."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from barograph.entitlements.purchases import FeedGrants
from barograph.entitlements.store import Entitlements
from barograph.kit.database import Database
from barograph.kit.timestamps import DAY
from barograph.payments.checkout import Cashier
from barograph.payments.journal import Journal
from barograph.payments.reconcile import Reconciler
from barograph.payments.records import InvalidProof, PaymentRefused, PaymentUnfinished
from support.backends import TESTS, StartPython
from support.payment_victim import KEY, PATH, PERIOD_DAYS, POINTS, Ledger, proof_of
from support.payments import show
from support.steps import Steps

pytestmark = pytest.mark.thorough

VICTIM = f"""
import sys
sys.path.insert(0, {TESTS!r})
from support.payment_victim import take_and_die
take_and_die(database, Path(CHARGES), POINT)
"""


class Left(NamedTuple):
    """What there is of a payment."""

    state: str | None
    charges: int
    periods: int


NOTHING = Left(None, 0, 0)
CLAIMED = Left("claimed", 0, 0)
RELEASED = Left("released", 0, 0)
WHOLE = Left("settled", 1, 1)

# At the crash; after the payer came again at once; after it was reconciled.
EXPECTED: dict[str, tuple[Left, Left, Left]] = {
    "before": (NOTHING, WHOLE, WHOLE),
    "looked up": (NOTHING, WHOLE, WHOLE),
    "limited": (NOTHING, WHOLE, WHOLE),
    "verified": (NOTHING, WHOLE, WHOLE),
    "claimed": (CLAIMED, CLAIMED, RELEASED),
    "produced": (CLAIMED, CLAIMED, RELEASED),
    "settling": (Left("settling", 0, 0), Left("settling", 0, 0), Left("failed", 0, 0)),
    "asked": (Left("settling", 0, 0), Left("settling", 0, 0), Left("failed", 0, 0)),
    "charged": (Left("settling", 1, 0), Left("settling", 1, 0), WHOLE),
    "answered": (Left("settling", 1, 0), Left("settling", 1, 0), WHOLE),
    "granted": (Left("settling", 1, 0), Left("settling", 1, 0), WHOLE),
    "settled": (WHOLE, WHOLE, WHOLE),
    "delivered": (WHOLE, WHOLE, WHOLE),
}


class Aftermath(Steps):
    """What the victims left behind, seen and used by who comes after them."""

    def __init__(self, database: Database, charges: Path, runner: asyncio.Runner) -> None:
        super().__init__(database, runner)
        self.ledger = Ledger(charges, self.clock)
        self.journal = Journal(database, self.clock)
        self.entitlements = Entitlements(database, self.clock)
        self.grant = FeedGrants(self.entitlements, self.clock, PERIOD_DAYS).grant
        self.cashier = Cashier(self.journal, self.ledger, self.clock)

    def left(self) -> dict[str, Left]:
        charges = Counter(self.ledger.charges())
        periods: Counter[str] = Counter()
        for granted in self.run(self.entitlements.find()):
            periods[granted.holder] += (granted.ends_at - granted.starts_at) // (PERIOD_DAYS * DAY)
        left = {}
        for point in POINTS:
            proof = proof_of(point)
            payment = self.run(self.journal.find(proof.key))
            state = None if payment is None else payment.state
            left[point] = Left(state, charges[proof.nonce], periods[proof.payer])
        return left

    def come_again(self) -> dict[str, str]:
        """Every payer with the same proof; what each is told."""

        async def produce() -> bytes:
            return b"{}"

        told = {}
        for point in POINTS:
            of = proof_of(point)
            try:
                self.run(show(self.cashier, of, PATH, produce, self.grant, key=KEY))
                told[point] = "body"
            except (PaymentUnfinished, InvalidProof, PaymentRefused) as error:
                told[point] = type(error).__name__
        return told

    def reconcile(self) -> None:
        self.clock.pass_seconds(180)
        reconciler = Reconciler(self.journal, self.ledger, self.clock, lambda _: self.grant)
        for _ in range(2):
            self.run(reconciler.once())


@pytest.fixture
def aftermath(
    database: Database, tmp_path: Path, runner: asyncio.Runner, start_python: StartPython
) -> Aftermath:
    charges = tmp_path / "charges"
    victims = [
        start_python(VICTIM.replace("CHARGES", repr(str(charges))).replace("POINT", repr(point)))
        for point in POINTS
    ]
    for victim in victims:
        assert victim.wait(60) == -signal.SIGKILL
    return Aftermath(database, charges, runner)


def test_killed_process_charges_and_grants_once_or_not_at_all(
    aftermath: Aftermath, assert_sound: Callable[[], None]
) -> None:
    crashed, again, reconciled = (
        {point: left[time] for point, left in EXPECTED.items()} for time in range(3)
    )
    body = dict.fromkeys(("before", "looked up", "limited", "verified"), "body")
    body |= dict.fromkeys(("settled", "delivered"), "body")

    assert aftermath.left() == crashed
    told = aftermath.come_again()
    assert told == dict.fromkeys(POINTS[4:11], "PaymentUnfinished") | body
    assert aftermath.left() == again
    aftermath.reconcile()
    assert aftermath.left() == reconciled

    body |= dict.fromkeys(("charged", "answered", "granted"), "body")
    refused = dict.fromkeys(("settling", "asked"), "PaymentRefused")
    released = dict.fromkeys(("claimed", "produced"), "InvalidProof")
    assert aftermath.come_again() == body | refused | released
    assert aftermath.left() == reconciled
    assert_sound()
