"""Reading settled funding: whatever fails, it is tried again, and only a lost lease ends it."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from barograph.board.board import latest_snapshot, publish
from barograph.board.feeds import Publication
from barograph.collector.jobs.market_data import SETTLEMENT_SECONDS, SettlementJob
from barograph.errors import InvalidReply, LeaseLost, Unreachable
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.markets.settlements import (
    COMPARED_SPAN,
    SettledSums,
    SettledWindows,
    SettlementReport,
)
from barograph.markets.store import record_backfill, settled_rates
from barograph.markets.view import PERPETUALS, SETTLED
from barograph.venues.records import ContractName, Perpetual, SettledRate
from support.clock import START
from support.jobs import FailingDatabase, Leader, Rounds, Stopped
from support.markets import BTC, ETH, PEPE, SOL, changed, reading
from support.past import ScriptedHistory

T = TypeVar("T")
AT = START // (8 * HOUR) * 8 * HOUR


class History(ScriptedHistory):
    """An exchange whose reports the script replaces, the last of it for ever."""

    def __init__(self, *script: Sequence[SettledRate] | Exception) -> None:
        super().__init__()
        self._reports = list(script)

    async def past_settlements(self, contract: str, start: int, end: int) -> Sequence[SettledRate]:
        self.asked.append((contract, start, end))
        now = self._reports.pop(0) if len(self._reports) > 1 else self._reports[0]
        if isinstance(now, Exception):
            raise now
        return [each._replace(contract=contract) for each in now if start <= each.at < end]


class Office(Leader):
    """A leader that reads settled funding."""

    def show(self, *contracts: Perpetual, settles: int = AT + 8 * HOUR) -> None:
        """Publish a reading of these contracts, which settle every eight hours."""
        funding = {"next_funding_time": settles, "funding_interval_hours": 8.0}
        listed = tuple(changed(each, **funding) for each in contracts)
        published = [Publication.of(PERPETUALS, reading(contracts=listed))]
        self.run(self.database.write(lambda tx: publish(tx, published)))

    def backfilled(self, contract: str) -> None:
        name, span = ContractName("bybit", contract), (AT - 30 * DAY, AT + DAY)
        self.run(self.database.write(lambda tx: record_backfill(tx, name, [], span, AT)))

    def read(self, history: History, rounds: int, database: Database | None = None) -> list[float]:
        """Run the job for some rounds; return its pauses."""
        pause = Rounds(rounds, self.clock)
        used = self.database if database is None else database
        job = SettlementJob(history, used, clock=self.clock, sleep=pause)
        with pytest.raises(Stopped):
            self.run(job(self.lease))
        return pause.pauses

    def kept(self, contract: str = "BTCUSDT") -> list[SettlementReport]:
        name = ContractName("bybit", contract)
        return self.run(self.database.read(lambda tx: settled_rates(tx, name, 0, 2 * AT)))

    def settled(self) -> SettledWindows:
        published = self.run(latest_snapshot(self.database, SETTLED.of("bybit")))
        assert published is not None
        return published


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with asyncio.Runner() as runner:
        office = Office(tmp_path, runner)
        office.show(BTC)
        yield office
        office.close()


def rates(*values: float, contract: str = "BTCUSDT") -> list[SettledRate]:
    return [SettledRate(contract, AT - back * 8 * HOUR, each) for back, each in enumerate(values)]


def test_a_major_is_read_every_five_minutes_and_each_rate_kept_once(office: Office) -> None:
    history = History(rates(0.01, 0.02), rates(0.01, 0.02), rates(0.01, 0.025))

    assert office.read(history, rounds=11) == [SETTLEMENT_SECONDS] * 11 == [60.0] * 11
    starts = [start for _, start, _ in history.asked]
    later = [START + minutes * MINUTE - COMPARED_SPAN - DAY for minutes in (5, 10)]
    assert starts == [START - 31 * DAY, *later], "the window before only once the others are known"
    assert office.kept() == [
        SettlementReport("BTCUSDT", AT - 8 * HOUR, 2, 0.025, START + 600 * SECOND, "backfilled"),
        SettlementReport("BTCUSDT", AT, 1, 0.01, START, "backfilled"),
    ]
    assert office.settled().contracts == {"BTCUSDT": (SettledSums(AT, 0.01),)}


def test_a_major_whose_report_is_late_is_read_every_minute(office: Office) -> None:
    history = History([], rates(0.01, 0.02)[1:], rates(0.01))

    office.read(history, rounds=4)

    assert len(history.asked) == 3


def test_a_report_is_read_when_it_arrives_not_when_it_was_asked_for(office: Office) -> None:
    class Slow(History):
        async def past_settlements(
            self, contract: str, start: int, end: int
        ) -> Sequence[SettledRate]:
            office.clock.now += 40 * SECOND  # the back-fill goes first
            return await super().past_settlements(contract, start, end)

    office.read(Slow(rates(0.01)), rounds=1)
    assert [report.read_at for report in office.kept()] == [START + 40 * SECOND]


def test_another_contract_is_read_once_it_has_settled_and_its_month_once(office: Office) -> None:
    office.show(BTC, PEPE, changed(PEPE, contract="NEWUSDT"))
    office.backfilled(PEPE.contract)
    history = History(rates(0.01, 0.02, 0.03))
    office.read(history, rounds=5)

    assert history.contracts == ["BTCUSDT", PEPE.contract]  # the back-fill reads the new one first
    starts_of = [start for _, start, _ in history.asked]
    assert starts_of == [START - 31 * DAY, START - 31 * DAY]

    office.show(PEPE, settles=AT + 16 * HOUR)
    now = office.clock.now = AT + 8 * HOUR + 2 * MINUTE
    office.read(history, rounds=6)  # the exchange has no newer report

    starts = ((now, now - 31 * DAY), (now + 5 * MINUTE, AT - DAY))
    assert history.asked[2:] == [(PEPE.contract, start, at + 1) for at, start in starts]


def test_a_failing_exchange_is_asked_for_three_contracts_and_the_last_windows_stay(
    office: Office,
) -> None:
    contracts = [changed(PEPE, contract=f"C{number}USDT") for number in range(8)]
    office.show(BTC, ETH, SOL, *contracts)
    for each in contracts:
        office.backfilled(each.contract)
    sums = (SettledSums(AT, 0.01), SettledSums(AT - DAY, 0.02))
    published = [Publication.of(SETTLED.of("bybit"), SettledWindows({"C7USDT": sums}))]
    office.run(office.database.write(lambda tx: publish(tx, published)))
    history = History(Unreachable("away"))

    office.read(history, rounds=2)

    assert len(history.asked) == 2 * (3 + 3)
    assert office.settled() == SettledWindows({"C7USDT": sums[:1]})


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
