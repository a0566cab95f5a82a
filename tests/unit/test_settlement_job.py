"""Reading settled funding: whatever fails, it is tried again, and only a lost lease ends it."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from barograph.board.board import publish
from barograph.board.feeds import Publication
from barograph.collector.jobs.market_data import SETTLEMENT_SECONDS, SettlementJob
from barograph.errors import InvalidReply, LeaseLost, Unreachable
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.timestamps import HOUR, SECOND
from barograph.markets.settlements import SettledRate, SettlementReport
from barograph.markets.store import newest_settlement_reports
from barograph.markets.view import PERPETUALS
from support.clock import START
from support.jobs import FailingDatabase, Leader, Rounds, Stopped
from support.markets import BTC, changed, reading

T = TypeVar("T")
AT = START // (8 * HOUR) * 8 * HOUR


class History:
    """An exchange that reports or does what the script says, the last of it for ever."""

    def __init__(self, *script: Sequence[SettledRate] | Exception) -> None:
        self._script = list(script)
        self.asked: list[str] = []

    async def settlements(self, contract: str) -> Sequence[SettledRate]:
        self.asked.append(contract)
        now = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if isinstance(now, Exception):
            raise now
        return now


class Office(Leader):
    """A leader that reads settled funding."""

    def read(self, history: History, rounds: int, database: Database | None = None) -> list[float]:
        """Run the job for some rounds; return its pauses."""
        pause = Rounds(rounds, self.clock)
        used = self.database if database is None else database
        job = SettlementJob(history, used, clock=self.clock, sleep=pause)
        with pytest.raises(Stopped):
            self.run(job(self.lease))
        return pause.pauses

    def kept(self, contract: str = "BTCUSDT") -> list[SettlementReport]:
        return self.run(
            self.database.read(lambda tx: newest_settlement_reports(tx, "bybit", contract, 100))
        )


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with asyncio.Runner() as runner:
        office = Office(tmp_path, runner)
        yield office
        office.close()


def rates(*values: float, contract: str = "BTCUSDT") -> list[SettledRate]:
    return [SettledRate(contract, AT - back * 8 * HOUR, each) for back, each in enumerate(values)]


def test_the_report_is_read_once_a_minute_and_each_rate_kept_once(office: Office) -> None:
    history = History(rates(0.01, 0.02), rates(0.01, 0.02), rates(0.01, 0.025))

    assert office.read(history, rounds=3) == [SETTLEMENT_SECONDS] * 3 == [60.0] * 3
    assert office.kept() == [
        SettlementReport("BTCUSDT", AT - 8 * HOUR, 2, 0.025, START + 120 * SECOND, "backfilled"),
        SettlementReport("BTCUSDT", AT, 1, 0.01, START, "backfilled"),
    ]


def test_the_contract_is_the_one_that_was_published(office: Office) -> None:
    history = History(rates(0.01, contract="BTCPERP"))
    office.read(history, rounds=1)

    async def work(tx: Transaction) -> None:
        bitcoin = changed(BTC, contract="BTCPERP")
        await publish(tx, [Publication.of(PERPETUALS, reading(contracts=(bitcoin,)))])

    office.run(office.database.write(work))
    office.read(history, rounds=1)

    assert history.asked == ["BTCUSDT", "BTCPERP"]
    assert len(office.kept("BTCPERP")) == 1


@pytest.mark.parametrize(
    "failure",
    [Unreachable("away"), InvalidReply("odd"), RuntimeError("a defect"), rates(float("nan"))],
    ids=["away", "odd", "defect", "no number"],
)
@pytest.mark.outcome(
    "The exchange's report of settled funding is unreadable",
    "The collector keeps collecting and retries. No funding stance is issued until then.",
)
def test_failed_settlement_report_is_requested_again(
    office: Office, failure: Exception | list[SettledRate], caplog: pytest.LogCaptureFixture
) -> None:
    history = History(failure, rates(0.01))

    office.read(history, rounds=2)

    assert len(history.asked) == 2
    assert len(office.kept()) == 1
    assert caplog.messages == ["settlements not read"]


@pytest.mark.parametrize(
    "failure", [DatabaseUnavailable("full"), RuntimeError("a defect")], ids=["away", "defect"]
)
def test_a_report_that_cannot_be_stored_is_read_again(office: Office, failure: Exception) -> None:
    office.read(History(rates(0.01)), rounds=2, database=FailingDatabase(office.database, failure))

    assert [(each.at, each.read_at) for each in office.kept()] == [(AT, START + 60 * SECOND)]


def test_a_lost_lease_ends_it_and_stores_nothing(office: Office) -> None:
    office.lose_the_lease()

    with pytest.raises(LeaseLost):
        office.read(History(rates(0.01)), rounds=1)

    assert office.kept() == []
