"""Looking after payments beside measuring: whatever fails, only a lost lease ends it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.collector.jobs.deliveries import RECONCILE_SECONDS, ReconcileJob
from barograph.errors import LeaseLost
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.timestamps import SECOND
from barograph.payments.journal import Journal
from barograph.payments.reconcile import STALE_MS, Reconciler
from barograph.payments.records import Payment
from support.jobs import FailingDatabase, Leader, Rounds, Stopped
from support.payments import proof

PATH = "/api/x402/rates-desk"


class Office(Leader):
    """A database, the lease of a leader, and one unfinished payment."""

    def __init__(self, folder: Path, runner: asyncio.Runner) -> None:
        super().__init__(folder, runner)
        self.journal = Journal(self.database, self.clock)
        self.payment = self.run(self.journal.claim(proof(), PATH))
        self.clock.now += STALE_MS + SECOND

    def reconcile(self, rounds: int, *errors: Exception) -> list[float]:
        """Run the job for some rounds while the database first fails so; return its pauses."""
        pause = Rounds(rounds, self.clock)

        def reconciler(database: Database) -> Reconciler:
            journal = Journal(database, self.clock)
            return Reconciler(journal, None, self.clock, lambda _payment: None)

        database = FailingDatabase(self.database, *errors)
        job = ReconcileJob(database, reconciler, sleep=pause)
        with pytest.raises(Stopped):
            self.run(job(self.lease))
        return pause.pauses

    def now(self) -> Payment:
        return self.run(self.journal.get(self.payment.id))


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with asyncio.Runner() as runner:
        office = Office(tmp_path, runner)
        yield office
        office.close()


def test_payments_are_looked_after_once_a_minute(office: Office) -> None:
    assert office.reconcile(2) == [RECONCILE_SECONDS] * 2 == [60.0] * 2
    assert office.now().state == "released"


@pytest.mark.parametrize(
    "failure", [DatabaseUnavailable("full"), RuntimeError("a defect")], ids=["away", "defect"]
)
def test_a_round_that_fails_is_made_up_for_by_the_next(
    office: Office, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    office.reconcile(2, failure)

    assert "payments not reconciled" in caplog.messages
    assert office.now().state == "released"


def test_a_lost_lease_ends_it_and_changes_no_payment(office: Office) -> None:
    office.lose_the_lease()

    with pytest.raises(LeaseLost):
        office.reconcile(1)

    assert office.now() == office.payment
