"""Filling the record from the exchange's own history: once, in order, and never over a reading."""

import asyncio
import logging
import signal
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from barograph.board.board import latest_snapshot, publish
from barograph.board.feeds import Publication
from barograph.collector.backfill import (
    BACKFILL_DAYS,
    CHECK_SECONDS,
    HISTORY_DELAY,
    PAUSES,
    BackfillJob,
    PastHours,
    past_rows,
)
from barograph.collector.judge import Judge
from barograph.collector.leader import LEASE
from barograph.errors import (
    Forbidden,
    InvalidReply,
    LeaseLost,
    Throttled,
    UnknownToUpstream,
    Unreachable,
)
from barograph.kit.database import Database
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.markets.settlements import SettlementReport
from barograph.markets.store import ReadingRow, record_rows, settled_rates
from barograph.markets.view import BACKFILL, EXCHANGE_HEALTH, PERPETUALS
from barograph.settings import Settings
from barograph.venues.exchange import PastValue
from barograph.venues.records import (
    BackfillProgress,
    ContractName,
    ExchangeHealth,
    LongAccounts,
    Perpetual,
    SettledRate,
)
from support.backends import StartPython
from support.clock import START
from support.jobs import Rounds, Stopped
from support.markets import BTC, ETH, MARKET, PEPE, SOL, reading
from support.past import SETTLED_EVERY, ScriptedHistory, hour_number, rate_at
from support.steps import Steps

END = START // HOUR * HOUR + HOUR  # the hour that began 20 minutes ago is filled too
OLDEST = END - BACKFILL_DAYS * DAY
HOURS = BACKFILL_DAYS * 24
FROM_BTC_TO_PEPE = [each.contract for each in (BTC, ETH, SOL, PEPE)]


class Record(Steps):
    """A leader that fills its record."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        super().__init__(database, runner)
        self.lease = self.lead()
        self.show()

    def lead(self) -> Lease:
        lease = Lease(self.database, LEASE, "leader", clock=self.clock, milliseconds=SECOND)
        self.run(lease.release())
        assert self.run(lease.acquire())
        return lease

    def show(self, *contracts: Perpetual, failure: str | None = None) -> None:
        """Publish a live reading of now."""
        now = self.clock()
        health = ExchangeHealth(now, failure, None if failure is None else now)
        publications = [
            Publication.of(PERPETUALS, reading(now, contracts or MARKET)),
            Publication.of(EXCHANGE_HEALTH, health),
        ]
        self.write(lambda tx: publish(tx, publications))

    def keep(self, *rows: ReadingRow) -> None:
        self.write(lambda tx: record_rows(tx, "bybit", readings=rows))

    def fill(self, history: ScriptedHistory, rounds: int = 1) -> list[float]:
        """Run the job until it has paused so often, the last time between two checks."""
        pause = Rounds(rounds, self.clock)
        job = BackfillJob(history, self.database, clock=self.clock, sleep=pause)
        with pytest.raises(Stopped):
            self.run(job(self.lease))
        return pause.pauses

    def counts(self, origin: str = "backfilled") -> dict[str, int]:
        sql = f"SELECT contract, count(*) FROM readings WHERE origin = '{origin}' GROUP BY 1"
        return dict(self.fetch(sql))

    def reports(self, contract: str) -> list[SettlementReport]:
        name = ContractName("bybit", contract)
        return self.read(lambda tx: settled_rates(tx, name, 0, self.clock()))

    def progress(self) -> BackfillProgress:
        progress = self.run(latest_snapshot(self.database, BACKFILL))
        assert progress is not None
        return progress


@pytest.fixture
def record(database: Database, runner: asyncio.Runner) -> Record:
    return Record(database, runner)


def measured(at: int, contract: str = "BTCUSDT") -> ReadingRow:
    return ReadingRow("hour", contract, at, 1.0, 0.5, 4, 2.0, 3.0, 4.0)


@pytest.mark.outcome(
    "A new instance starts",
    "The collector back-fills 30 days, BTC, ETH and SOL first, and marks them as back-filled.",
)
def test_a_new_record_gets_thirty_days_of_every_contract_the_majors_first(record: Record) -> None:
    history = ScriptedHistory()

    record.fill(history)

    assert history.asked == [(each, OLDEST, END) for each in FROM_BTC_TO_PEPE]
    assert record.counts() == dict.fromkeys(FROM_BTC_TO_PEPE, HOURS)
    done = BackfillProgress(START, total=4, done=4, majors_filled_at=START)
    assert record.progress() == done
    record.fill(history, rounds=3)
    assert len(history.asked) == 4


def test_a_backfilled_hour_says_only_what_was_known_at_that_hour(record: Record) -> None:
    record.fill(ScriptedHistory())

    at = END - 3 * HOUR
    (row,) = record.fetch(f"SELECT * FROM readings WHERE contract = 'ETHUSDT' AND at = {at}")
    coins, price = 10 + hour_number(at), 100 + hour_number(at)
    settled = at // SETTLED_EVERY * SETTLED_EVERY
    figures = (price, rate_at(settled), 8.0, coins * price, 50 + hour_number(at), coins)
    assert row == ("bybit", "hour", "ETHUSDT", at, *figures, "backfilled", "", *[None] * 4)
    for contract in ("BTCUSDT", "SOLUSDT", "1000PEPEUSDT"):
        reports = record.reports(contract)
        assert 90 <= len(reports) <= 94
        assert {report.origin for report in reports} <= {"backfilled"}


def test_hours_lost_in_a_gap_are_filled_and_measured_ones_stay(record: Record) -> None:
    gap = range(END - 30 * HOUR, END - 20 * HOUR, HOUR)
    hours = [at for at in range(OLDEST, END, HOUR) if at not in gap]
    record.keep(*(measured(at) for at in hours))
    record.show(BTC)
    history = ScriptedHistory()

    record.fill(history)

    assert history.asked == [("BTCUSDT", gap.start, gap.stop)]
    filled = record.fetch("SELECT at FROM readings WHERE origin = 'backfilled' ORDER BY at")
    assert filled == [(at,) for at in gap]
    kept = record.fetch("SELECT DISTINCT last_price FROM readings WHERE origin = 'measured'")
    assert (kept, record.counts("measured")) == ([(1.0,)], {"BTCUSDT": len(hours)})


@pytest.mark.parametrize(("passed", "hours"), [(HISTORY_DELAY - 1, 0), (HISTORY_DELAY, 1)])
def test_the_running_hour_is_filled_once_its_history_is_known(
    record: Record, passed: int, hours: int
) -> None:
    history = ScriptedHistory()
    record.clock.pass_seconds((END + passed - START) / SECOND)
    record.show(BTC)

    record.fill(history)

    assert [asked[2] for asked in history.asked] == [END + hours * HOUR]


def test_an_hour_that_a_running_collector_missed_is_filled_in_that_hour(record: Record) -> None:
    history = ScriptedHistory()
    record.show(BTC)

    record.fill(history, rounds=2 * 3600 // int(CHECK_SECONDS))

    later = [(END + each * HOUR, END + (each + 1) * HOUR) for each in (0, 1)]
    assert [asked[1:] for asked in history.asked] == [(OLDEST, END), *later]


def test_a_settled_rate_has_the_interval_of_its_own_time() -> None:
    hours = [0, 8, 16, 20, 24, 25, 26, 28]
    rates = [SettledRate("BTCUSDT", OLDEST + each * HOUR, each / 100) for each in hours]
    prices = [PastValue(OLDEST + each * HOUR, 1.0) for each in range(-1, 37)]
    past = PastHours(prices, [], [], rates)

    rows = past_rows("BTCUSDT", [each.at for each in prices], past)

    found = {(row.at - OLDEST) // HOUR: row.funding_interval_hours for row in rows}
    assert (found[-1], found[36]) == (None, None)  # before the first, and too long after the last
    expected = [8, 8, 8, 4, 4, 1, 1, 2]
    assert [found[each] for each in hours] == expected
    assert [found[each + 1] for each in (8, 19, 23, 34)] == [8, 4, 4, 2]


def test_what_the_history_lacks_is_unknown_and_not_asked_for_again(record: Record) -> None:
    history = ScriptedHistory(SOLUSDT=[UnknownToUpstream("no such contract")])
    history.launches["ETHUSDT"] = END - 50 * HOUR
    history.unproven.add("BTCUSDT")

    record.fill(history)
    record.fill(history)

    assert history.contracts == FROM_BTC_TO_PEPE
    assert record.counts() == {"BTCUSDT": HOURS, "ETHUSDT": 50, "1000PEPEUSDT": HOURS}
    sql = "SELECT count(open_interest_usd), count(open_interest_coins), count(last_price)"
    assert record.fetch(f"{sql} FROM readings WHERE contract = 'BTCUSDT'") == [(0, 0, HOURS)]


@pytest.mark.outcome(
    "The exchange throttles the back-fill",
    "The collector waits as long as it asks, longer after each failure. Live polling goes on.",
)
@pytest.mark.parametrize("seconds", [1.0, 600.0])
def test_throttled_backfill_waits_as_long_as_it_is_told(record: Record, seconds: float) -> None:
    history = ScriptedHistory(ETHUSDT=[Throttled("slow down", seconds)])

    pauses = record.fill(history, rounds=2)

    assert history.contracts == ["BTCUSDT", "ETHUSDT", "ETHUSDT", "SOLUSDT", "1000PEPEUSDT"]
    assert pauses == [max(PAUSES[0], seconds), CHECK_SECONDS]
    assert (record.progress().done, record.progress().failure) == (4, None)


@pytest.mark.parametrize("failure", [InvalidReply("odd"), RuntimeError("a defect")])
def test_a_contract_that_keeps_failing_stops_no_other(record: Record, failure: Exception) -> None:
    history = ScriptedHistory(BTCUSDT=[failure])
    history.fails_for_ever.add("BTCUSDT")

    record.fill(history, rounds=3)

    assert history.contracts == ["BTCUSDT", *FROM_BTC_TO_PEPE]
    assert record.counts() == dict.fromkeys(FROM_BTC_TO_PEPE[1:], HOURS)
    record.show()
    record.fill(history, rounds=3)
    progress = record.progress()
    assert (progress.done, progress.total) == (3, 4)
    assert progress.failure == getattr(failure, "kind", "failed")
    assert progress.failing_since is not None


def test_contracts_that_keep_failing_together_come_last_in_the_next_pass(record: Record) -> None:
    names = ["AUSDT", "BUSDT", "CUSDT", "DUSDT"]
    others = [replace(PEPE, contract=each, base=each[:1]) for each in names]
    history = ScriptedHistory(**{each: [InvalidReply("odd")] for each in names[:3]})
    history.fails_for_ever.update(names[:3])
    record.show(BTC, *others)

    record.fill(history, rounds=14)

    assert record.counts() == dict.fromkeys(["BTCUSDT", "DUSDT"], HOURS)


def test_majors_come_first_again_after_an_outage_of_the_exchange(record: Record) -> None:
    history = ScriptedHistory(**{each: [Unreachable("away")] * 2 for each in FROM_BTC_TO_PEPE})

    pauses = record.fill(history, rounds=10)

    first_pass = ["BTCUSDT"] * 2 + ["ETHUSDT"] * 2 + ["SOLUSDT"] * 2
    assert history.contracts[:9] == [*first_pass, "BTCUSDT", "ETHUSDT", "SOLUSDT"]
    assert pauses[:7] == [*PAUSES[:3], *[PAUSES[3]] * 3, CHECK_SECONDS]


@pytest.mark.outcome(
    "The exchange refuses one part of its history, such as settled funding",
    "The collector back-fills the rest, and retries hourly. `/api/status` names the failure.",
)
@pytest.mark.parametrize("failure", [Forbidden("blocked"), InvalidReply("odd")])
def test_failed_part_is_asked_for_again_in_the_next_hour(
    record: Record, failure: Exception
) -> None:
    history = ScriptedHistory()
    history.without_rates = failure
    known = "SELECT count(last_price), count(long_account_pct), count(funding_rate_pct)"
    totals = f"{known} FROM readings WHERE contract = 'SOLUSDT'"

    record.fill(history, rounds=3600 // int(CHECK_SECONDS) + 1)

    assert history.contracts == [*FROM_BTC_TO_PEPE, "BTCUSDT", "BTCUSDT"]
    assert record.fetch(totals) == [(HOURS, HOURS, 0)]
    progress = record.progress()
    assert (progress.done, progress.failing_since) == (0, START)
    assert progress.failure == failure.kind  # type: ignore[attr-defined]
    history.without_rates = None
    record.show()
    record.fill(history)
    assert record.fetch(totals) == [(HOURS + 1, HOURS + 1, HOURS)]  # one hour left the window
    assert (record.progress().done, record.progress().failure) == (4, None)


def test_nothing_is_asked_before_a_live_reading_or_while_live_readings_fail(record: Record) -> None:
    history = ScriptedHistory()
    record.clock.pass_seconds(1)
    record.fill(history)
    record.show(failure="unreachable")
    record.fill(history)

    assert history.asked == []


def test_a_leader_that_lost_its_lease_fills_nothing(record: Record) -> None:
    lost, record.lease = record.lease, record.lead()
    job = BackfillJob(ScriptedHistory(), record.database, clock=record.clock)

    with pytest.raises(LeaseLost):
        record.run(job(lost))

    assert record.counts() == {}


DIES_AT_SOL = f"""
import asyncio, os, signal, sys
sys.path[:0] = ["tests"]
from barograph.collector.backfill import BackfillJob
from barograph.kit.lease import Lease
from support.past import ScriptedHistory

class Dying(ScriptedHistory):
    async def past_long_accounts(self, contract, start, end):
        if contract == "SOLUSDT":
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().past_long_accounts(contract, start, end)

async def main():
    clock = lambda: {START}
    lease = Lease(database, "{LEASE}", "dying", clock=clock, milliseconds=1000)
    assert await lease.acquire()
    await BackfillJob(Dying(), database, clock=clock)(lease)

asyncio.run(main())
"""


@pytest.mark.outcome(
    "The collector is killed during the back-fill",
    "The next collector continues with the contract that was not finished.",
)
def test_a_killed_backfill_continues_where_it_stopped(
    record: Record,
    start_python: StartPython,
    assert_sound: Callable[[], None],
) -> None:
    record.run(record.lease.release())
    assert start_python(DIES_AT_SOL).wait(60) == -signal.SIGKILL
    assert record.counts() == {"BTCUSDT": HOURS, "ETHUSDT": HOURS}
    record.clock.pass_seconds(2)
    record.lease = record.lead()
    record.show()
    history = ScriptedHistory()

    record.fill(history)

    assert history.contracts == ["SOLUSDT", "1000PEPEUSDT"]
    assert record.counts() == dict.fromkeys(FROM_BTC_TO_PEPE, HOURS)
    assert_sound()


def test_signals_are_known_in_the_minute_after_the_majors_are_filled(
    record: Record, caplog: pytest.LogCaptureFixture
) -> None:
    judge = Judge(Settings.model_validate({}))
    record.run(judge.load(record.database, START))

    def labels(at: int) -> dict[str, str]:
        record.run(judge.refresh(record.database, at))
        judge.of("bybit").sampled(LongAccounts("BTCUSDT", 61.5, at))
        conclusion = judge.conclude(reading(at), at)
        assert conclusion.signals is not None
        judge.written(conclusion)
        return {each.key: each.label for each in conclusion.signals.signals.signals}

    young = {"btc-long-accounts", "btc-realised-volatility"}
    before = labels(START)
    with caplog.at_level(logging.INFO):
        record.fill(ScriptedHistory())
    after = labels(START + MINUTE)

    assert {key for key, label in before.items() if label == "unknown"} >= young
    assert not {key for key, label in after.items() if label == "unknown"} & young
    said = [each.message for each in caplog.records]
    assert said == ["back-fill starts", "majors are back-filled", "back-fill ends"]
