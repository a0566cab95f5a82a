"""Looking after payments beside measuring: whatever fails, only a lost lease ends it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.collector.jobs import RECONCILE_SECONDS, ReconcileJob
from barograph.errors import LeaseLost
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.lease import Lease
from barograph.kit.timestamps import SECOND
from barograph.payments.journal import Journal
from barograph.payments.reconcile import STALE_MS, Reconciled, Reconciler
from barograph.payments.records import Payment
from support.clock import HandClock
from support.databases import upgraded_database
from support.payments import proof

DOOR = "/api/x402/rates-desk"


class Stopped(Exception):
    """The test has seen enough."""


class Failing(Reconciler):
    """Fails at first so many times."""

    errors: list[Exception]

    async def once(self) -> Reconciled:
        if self.errors:
            raise self.errors.pop(0)
        return await super().once()


class Office:
    """A database, the lease of a leader, and one payment that was left behind."""

    def __init__(self, folder: Path, runner: asyncio.Runner) -> None:
        self.run = runner.run
        self.clock = HandClock()
        self.database = upgraded_database(folder / "barograph.sqlite3")
        self.journal = Journal(self.database, self.clock)
        self.payment = self.run(self.journal.claim(proof(), DOOR))
        self.clock.now += STALE_MS + SECOND
        self.lease = self.new_lease("first")
        assert self.run(self.lease.acquire())

    def new_lease(self, holder: str) -> Lease:
        return Lease(self.database, "collector", holder, clock=self.clock, milliseconds=SECOND)

    def job(self, rounds: int, *errors: Exception) -> tuple[ReconcileJob, list[float]]:
        pauses: list[float] = []
        left = list(errors)

        async def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == rounds:
                raise Stopped

        def reconciler(database: Database) -> Reconciler:
            journal = Journal(database, self.clock)
            made = Failing(journal, None, self.clock, lambda _payment: None)
            made.errors = left
            return made

        return ReconcileJob(self.database, reconciler, sleep=pause), pauses

    def now(self) -> Payment:
        return self.run(self.journal.get(self.payment.id))


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with asyncio.Runner() as runner:
        office = Office(tmp_path, runner)
        yield office
        runner.run(office.database.close())


def test_payments_are_looked_after_once_a_minute(office: Office) -> None:
    job, pauses = office.job(2)
    with pytest.raises(Stopped):
        office.run(job(office.lease))

    assert pauses == [RECONCILE_SECONDS] * 2 == [60.0] * 2
    assert office.now().state == "released"


@pytest.mark.parametrize(
    "failure", [DatabaseUnavailable("full"), RuntimeError("a defect")], ids=["away", "defect"]
)
def test_a_round_that_fails_is_made_up_for_by_the_next(
    office: Office, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    job, _ = office.job(2, failure)
    with pytest.raises(Stopped):
        office.run(job(office.lease))

    assert "payments not reconciled" in caplog.messages
    assert office.now().state == "released"


def test_a_lost_lease_ends_it_and_changes_no_payment(office: Office) -> None:
    office.clock.pass_seconds(2)
    assert office.run(office.new_lease("other").acquire())
    job, _ = office.job(1)

    with pytest.raises(LeaseLost):
        office.run(job(office.lease))

    assert office.now() == office.payment
