"""The record: each fact once, the first of its minute or hour, for as long as set."""

import asyncio

import pytest

from barograph.collector.judge import Conclusion, Judge, write_conclusions
from barograph.errors import LeaseLost, Unreachable
from barograph.kit.database import ConstraintViolated, Database, Row, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.records import Liquidation, Origin
from barograph.markets.regime import RegimeChange
from barograph.markets.store import (
    FORGET_ROWS,
    ReadingRow,
    Resolution,
    forget_old,
    recent_liquidations,
    recent_watched,
    record_rows,
)
from barograph.markets.view import LIQUIDATIONS
from barograph.settings import Settings
from support.clock import START, HandClock
from support.markets import reading, shares

SETTINGS = Settings.model_validate({})
LONG = Liquidation(START - 1_000, "BTCUSDT", "long", 2.0, 50_000.0)


def row(
    at: int = START,
    resolution: Resolution = "minute",
    contract: str = "BTCUSDT",
    price: float = 1.0,
) -> ReadingRow:
    return ReadingRow(resolution, contract, at, price, 0.01, 8, 5.0, None)


class Record:
    """The verbs of the record, each in a transaction of its own."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        self.database = database
        self.runner = runner

    def fetch(self, sql: str) -> list[Row]:
        async def work(tx: Transaction) -> list[Row]:
            return await tx.fetch(sql)

        return self.runner.run(self.database.read(work))

    def count(self, table: str, condition: str = "1 = 1") -> int:
        return int(self.fetch(f"SELECT count(*) FROM {table} WHERE {condition}")[0][0])

    def readings(self, *rows: ReadingRow, origin: Origin = "measured") -> None:
        async def work(tx: Transaction) -> None:
            await record_rows(tx, "bybit", readings=rows, origin=origin)

        self.runner.run(self.database.write(work))

    def liquidations(self, *events: Liquidation) -> None:
        async def work(tx: Transaction) -> None:
            await record_rows(tx, "bybit", liquidations=events)

        self.runner.run(self.database.write(work))

    def watched(self, *spans: tuple[int, int]) -> None:
        async def work(tx: Transaction) -> None:
            await record_rows(tx, "bybit", watched=spans)

        self.runner.run(self.database.write(work))

    def regime_change(self, change: RegimeChange) -> None:
        async def work(tx: Transaction) -> None:
            await record_rows(tx, "bybit", regime_changes=[change])

        self.runner.run(self.database.write(work))

    def forget(self, now: int) -> None:
        async def work(tx: Transaction) -> None:
            await forget_old(tx, now)

        self.runner.run(self.database.write(work))

    def recent(self, now: int) -> tuple[list[Liquidation], list[tuple[int, int]]]:
        async def work(tx: Transaction) -> tuple[list[Liquidation], list[tuple[int, int]]]:
            return await recent_liquidations(tx, "bybit", now), await recent_watched(
                tx, "bybit", now
            )

        return self.runner.run(self.database.read(work))


@pytest.fixture
def record(database: Database, runner: asyncio.Runner) -> Record:
    return Record(database, runner)


def published_totals(conclusion: Conclusion) -> LiquidationTotals:
    payload = next(
        each.payload for each in conclusion.market.publications if each.feed == LIQUIDATIONS.name
    )
    totals = LIQUIDATIONS.decode(payload)
    assert totals is not None
    return totals


def test_the_first_reading_of_a_minute_stays_whoever_comes_later(record: Record) -> None:
    record.readings(row(price=1.0))
    record.readings(row(price=2.0), row(START + MINUTE, price=3.0))

    stored = record.fetch("SELECT at, last_price FROM readings ORDER BY at")
    assert stored == [(START, 1.0), (START + MINUTE, 3.0)]


def test_a_measured_reading_replaces_a_backfilled_one_and_never_the_reverse(record: Record) -> None:
    record.readings(row(price=1.0), origin="backfilled")
    record.readings(row(price=2.0))
    record.readings(row(price=3.0), origin="backfilled")

    assert record.fetch("SELECT last_price, origin FROM readings") == [(2.0, "measured")]


def test_a_minute_and_an_hour_and_two_contracts_do_not_stand_in_each_others_way(
    record: Record,
) -> None:
    record.readings(row(), row(resolution="hour"), row(contract="ETHUSDT"))

    assert record.count("readings") == 3


def test_a_reading_is_stored_whole_with_null_for_what_is_not_known(record: Record) -> None:
    known = ReadingRow("hour", "SOLUSDT", START, 180.1, -0.0125, 4, 0.0, 0.0, 2.5)
    record.readings(known, ReadingRow("hour", "X", START, 180.1, None, None, None, None))

    assert record.fetch("SELECT * FROM readings ORDER BY contract") == [
        ("bybit", "hour", "SOLUSDT", START, 180.1, -0.0125, 4, 0.0, 0.0, 2.5, "measured"),
        ("bybit", "hour", "X", START, 180.1, None, None, None, None, None, "measured"),
    ]


def test_an_unknown_resolution_is_refused(record: Record) -> None:
    with pytest.raises(ConstraintViolated):
        record.readings(row()._replace(resolution="week"))  # type: ignore[arg-type]

    assert record.count("readings") == 0


def test_a_liquidation_is_stored_once_however_often_it_comes(record: Record) -> None:
    other = Liquidation(LONG.at, LONG.contract, "short", LONG.size, LONG.price)
    record.liquidations(LONG, LONG)
    record.liquidations(LONG, other)

    assert record.count("liquidations") == 2


def test_a_span_grows_in_place_and_never_shrinks(record: Record) -> None:
    record.watched((START, START + 10))
    record.watched((START, START + 30), (START + 50, START + 60))
    record.watched((START, START + 20))

    spans = [(START, START + 30), (START + 50, START + 60)]
    assert record.fetch("SELECT start_at, end_at FROM watched_spans ORDER BY 1") == spans


def test_the_first_change_of_the_regime_at_an_instant_stays(record: Record) -> None:
    record.regime_change(RegimeChange(START, "neutral", 0.01))
    record.regime_change(RegimeChange(START, "long-leaning", 0.02))
    record.regime_change(RegimeChange(START + 1, "unknown", None))

    assert record.fetch("SELECT * FROM regime_changes ORDER BY at") == [
        ("bybit", START, "neutral", 0.01, "measured"),
        ("bybit", START + 1, "unknown", None, "measured"),
    ]


def test_recent_liquidations_are_those_of_the_last_24_hours_in_order(record: Record) -> None:
    at = [START, START - DAY - 1, START - 5, START - DAY]
    record.liquidations(*(Liquidation(each, "BTCUSDT", "long", 1.5, 2.5) for each in at))

    liquidations, _ = record.recent(START)

    assert [each.at for each in liquidations] == [START - DAY, START - 5, START]
    assert liquidations[0] == Liquidation(START - DAY, "BTCUSDT", "long", 1.5, 2.5)


def test_recent_spans_are_those_that_reach_into_the_last_24_hours(record: Record) -> None:
    gone = (START - 3 * DAY, START - DAY - 1)
    reaching = (START - 2 * DAY, START - DAY)
    inside = (START - 500, START - 400)
    record.watched(inside, gone, reaching)

    assert record.recent(START)[1] == [reaching, inside]


@pytest.mark.parametrize(("resolution", "days"), [("minute", 30), ("hour", 730)])
def test_readings_are_dropped_only_when_older_than_their_retention(
    record: Record, resolution: Resolution, days: int
) -> None:
    oldest = START - days * DAY
    record.readings(*(row(at, resolution) for at in (oldest - 1, oldest, START)))

    record.forget(START)

    assert record.fetch("SELECT at FROM readings ORDER BY at") == [(oldest,), (START,)]


def test_minutes_are_dropped_long_before_hours(record: Record) -> None:
    old = START - 31 * DAY
    record.readings(row(old, "minute"), row(old, "hour"))

    record.forget(START)

    assert record.fetch("SELECT resolution FROM readings") == [("hour",)]


def test_watched_spans_are_kept_as_long_as_the_liquidations_they_vouch_for(record: Record) -> None:
    oldest = START - 90 * DAY
    kept = [Liquidation(at, "BTCUSDT", "long", 1.0, 1.0) for at in (oldest, START)]
    record.liquidations(Liquidation(oldest - 1, "BTCUSDT", "long", 1.0, 1.0), *kept)
    record.watched((oldest - DAY, oldest - 1), (oldest - HOUR, oldest))

    record.forget(START)

    assert record.fetch("SELECT at FROM liquidations ORDER BY at") == [(oldest,), (START,)]
    assert record.fetch("SELECT start_at FROM watched_spans") == [(oldest - HOUR,)]


def test_a_clean_up_drops_a_bounded_number_of_rows_and_the_next_goes_on(record: Record) -> None:
    rows = FORGET_ROWS + 500
    very_old = START - 1_000 * DAY
    record.readings(*(row(very_old + number) for number in range(rows)), row())
    record.liquidations(
        *(Liquidation(very_old + number, "X", "long", 1.0, 1.0) for number in range(rows)), LONG
    )

    record.forget(START)
    assert (record.count("readings"), record.count("liquidations")) == (501, 501)
    record.forget(START)
    assert (record.count("readings"), record.count("liquidations")) == (1, 1)
    record.forget(START)
    assert (record.count("readings"), record.count("liquidations")) == (1, 1)


class Office:
    """A judge and the lease under which its conclusions are stored."""

    def __init__(self, record: Record, clock: HandClock) -> None:
        self._record = record
        self._clock = clock
        self.judge = Judge(SETTINGS)
        self.lease = Lease(record.database, "desk", "test", clock=clock, milliseconds=15_000)
        self.leads = record.runner.run(self.lease.acquire())

    def load(self) -> None:
        self._record.runner.run(self.judge.load(self._record.database, self._clock()))

    def store(self) -> None:
        conclusion = self.judge.conclude(reading(self._clock()))
        self._record.runner.run(write_conclusions(self._record.database, self.lease, [conclusion]))
        self.judge.written(conclusion)


def test_a_conclusion_is_recorded_and_published_together(record: Record) -> None:
    office = Office(record, HandClock())
    office.judge.of("bybit").liquidated([LONG])
    office.judge.of("bybit").watched(START - MINUTE, START)

    office.store()

    assert record.count("readings", "resolution = 'minute'") == 3
    assert record.count("readings", "resolution = 'hour'") == 4
    assert record.count("liquidations") == record.count("watched_spans") == 1
    assert record.count("regime_changes") == 1
    assert record.count("snapshots", "version = 1") == 10


def test_a_conclusion_of_who_lost_the_lease_leaves_no_trace(record: Record) -> None:
    clock = HandClock()
    old = Office(record, clock)
    clock.pass_seconds(15)
    new = Office(record, clock)
    assert new.leads
    old.judge.of("bybit").liquidated([LONG])

    with pytest.raises(LeaseLost):
        old.store()

    for table in ("readings", "liquidations", "regime_changes", "snapshots"):
        assert record.count(table) == 0


def test_a_desk_that_takes_over_continues_the_earlier_record(record: Record) -> None:
    clock = HandClock()
    first = Office(record, clock)
    first.judge.of("bybit").liquidated([LONG])
    first.judge.of("bybit").watched(START - DAY // 4, START)
    for share in shares():
        first.judge.of("bybit").sampled(share)
    first.store()
    clock.pass_seconds(30)
    second = Office(record, clock)
    second.load()
    second.judge.of("bybit").watched(START, START + 30_000)

    conclusion = second.judge.conclude(reading(clock()))

    totals = published_totals(conclusion)
    assert totals.total_usd == 100_000.0
    assert totals.watched_pct == 25.03
    assert list(conclusion.market.liquidations) == []
    assert list(conclusion.market.regime_changes) == []
    assert {each.long_account_pct for each in conclusion.market.readings} == {61.5, 55.0, 0.0, None}
    second.judge.of("bybit").liquidated([LONG])
    second.store()
    assert record.count("liquidations") == 1
    assert record.count("regime_changes") == 1
    assert record.count("readings", f"resolution = 'minute' AND at = {START}") == 3


def test_a_failure_right_after_taking_over_still_names_the_top_asset_by_its_base(
    record: Record,
) -> None:
    clock = HandClock()
    first = Office(record, clock)
    first.judge.of("bybit").liquidated([LONG])
    first.store()
    clock.pass_seconds(30)
    second = Office(record, clock)
    second.load()

    conclusion = second.judge.conclude_failure("bybit", Unreachable("down"), clock())

    assert published_totals(conclusion).top_asset == "BTC"
