"""Series from the record: on a grid, with their gaps, and quickly."""

import asyncio
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from typing import Any, Literal, TypeVar, cast

import pytest
from msgspec.structs import replace

from barograph.kit.database import Database, DatabaseUnavailable, Transaction, Work
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.markets import liquidation_store, series
from barograph.markets.disputes import Dispute
from barograph.markets.frames import frame_of, stored
from barograph.markets.liquidation_store import (
    contract_liquidations,
    known_liquidations,
    liquidation_columns,
    liquidation_series,
    newest_liquidations,
    watched_shares,
)
from barograph.markets.liquidations import LiquidationHour, LiquidationTracker
from barograph.markets.regime import RegimeChange
from barograph.markets.samples import (
    DAYS,
    GRACE,
    NOT_RECORDED,
    LiquidationColumn,
    LiquidationSeries,
    Measure,
    PastRegime,
    Point,
    Series,
)
from barograph.markets.series import (
    KEPT_SERIES,
    SeriesReader,
    reading_series,
    recorded_contract,
    regimes_at,
)
from barograph.markets.store import (
    ReadingRow,
    Resolution,
    frames_between,
    mark_disputed,
    recent_record,
    record_rows,
)
from barograph.venues.records import ContractName, Liquidation, Origin, Side
from barograph.venues.spans import Span, WatchedSpans
from support.backends import on_sqlite
from support.clock import START, HandClock
from support.databases import DatabaseDouble
from support.markets import BTC
from support.steps import Steps

T = TypeVar("T")

NOW = START
THIS_HOUR = NOW // HOUR * HOUR
MIN_WATCHED = 95.0
BITCOIN, ETHER = (ContractName("bybit", each) for each in ("BTCUSDT", "ETHUSDT"))


def a_reading(
    at: int,
    resolution: Resolution = "hour",
    contract: str = "BTCUSDT",
    *,
    price: float = 100.0,
    rate_pct: float = 0.01,
    interval_hours: float = 8,
    interest: float = 5.0,
    long_pct: float | None = None,
) -> ReadingRow:
    return ReadingRow(resolution, contract, at, price, rate_pct, interval_hours, interest, long_pct)


class Record(Steps):
    """Writes the record and reads series from it, each in a transaction of its own."""

    def keep(self, readings: Iterable[ReadingRow], origin: Origin = "measured") -> None:
        rows = list(readings)
        self.write(lambda tx: record_rows(tx, "bybit", readings=rows, origin=origin))

    def keep_hours(self, *hours: LiquidationHour) -> None:
        self.write(lambda tx: record_rows(tx, "bybit", liquidation_hours=hours))

    def watch(self, *spans: Span) -> None:
        self.write(lambda tx: record_rows(tx, "bybit", watched=spans))

    def change_regime(self, *changes: RegimeChange) -> None:
        self.write(lambda tx: record_rows(tx, "bybit", regime_changes=changes))

    def liquidate(self, at: int, side: Side, usd: float) -> None:
        event = Liquidation(at, "BTCUSDT", side, 2.0, usd / 2)
        self.write(lambda tx: record_rows(tx, "bybit", liquidations=[event]))

    def series(
        self, measure: Measure = "price", days: int = 7, now: int = NOW, contract: str = "BTCUSDT"
    ) -> Series:
        name = ContractName("bybit", contract)
        return self.read(lambda tx: reading_series(tx, name, measure, days, now))

    def liquidations(self, days: int = 1, now: int = NOW) -> LiquidationSeries:
        return self.read(lambda tx: liquidation_series(tx, "bybit", days, now, MIN_WATCHED))

    def regimes(self, *instants: int, contract: str = "BTCUSDT") -> list[PastRegime]:
        return self.read(lambda tx: regimes_at(tx, "bybit", contract, instants))

    def plan(self, sql: str, *values: str | int) -> str:
        return str(self.fetch(f"EXPLAIN QUERY PLAN {sql}", *values))


@pytest.fixture
def record(database: Database, runner: asyncio.Runner) -> Record:
    return Record(database, runner)


def known(series: Series) -> list[Point]:
    return [point for point in series.points if point.value is not None]


def missing(series: Series) -> list[int]:
    return [point.at for point in series.points if point.value is None]


def hours_back(count: int, price: float = 100.0) -> list[ReadingRow]:
    return [a_reading(THIS_HOUR - each * HOUR, price=price) for each in range(count)]


@pytest.mark.parametrize(
    ("days", "step", "count"),
    [(1, HOUR, 25), (7, HOUR, 169), (30, 2 * HOUR, 361), (60, 4 * HOUR, 361)],
)
def test_each_span_has_its_own_grid(record: Record, days: int, step: int, count: int) -> None:
    record.keep(hours_back(61 * 24))
    found = record.series(days=days)
    assert (found.interval, len(found.points), missing(found)) == (step, count, [])
    assert [point.at for point in found.points] == list(
        range(found.points[0].at, found.points[0].at + count * step, step)
    )
    assert all(point.at % step == 0 for point in found.points)
    assert found.points[-1].at == NOW // step * step


@pytest.mark.parametrize(
    ("measure", "fair"),
    [("price", None), ("funding", (5.0, None)), ("open-interest", (None, 0.01))],
)
def test_readings_since_an_error_began_are_marked_and_no_rule_sees_them(
    record: Record,
    measure: Literal["price", "funding", "open-interest"],
    fair: tuple[float | None, ...] | None,
) -> None:
    first, second, third = (THIS_HOUR - DAY - back * HOUR for back in (2, 1, 0))
    record.keep([a_reading(at) for at in (first, third)])
    record.keep([a_reading(second)], origin="backfilled")
    frames = [stored(frame_of(at, (BTC,))) for at in (second, third)]
    record.write(lambda tx: record_rows(tx, "bybit", frames=frames))
    dispute = Dispute("bybit", measure, second + 30 * MINUTE, "it doubled")
    for _ in range(2):  # a repeated write marks nothing twice
        record.write(lambda tx: mark_disputed(tx, dispute))
        record.write(lambda tx: mark_disputed(tx, replace(dispute, venue="binance", since=0)))

    marked = [(point.at, point.is_disputed) for point in known(record.series(measure))]
    assert marked == [(first, False), (second, False), (third, True)]
    rows = record.fetch("SELECT disputed FROM readings ORDER BY at")
    assert rows == [("",), ("",), (measure,)]
    trailing = record.read(lambda tx: recent_record(tx, "bybit", {"BTCUSDT": "BTC"}, NOW))
    hours = [(hour.open_interest_usd, hour.funding_8h_pct) for hour in trailing.hours("BTC")]
    assert hours == [(5.0, 0.01)] * 2 + ([] if fair is None else [fair])
    assert record.read(lambda tx: frames_between(tx, "bybit", 0, NOW)) == frames[:1]


def test_an_hour_without_a_reading_is_a_gap_and_is_not_filled(record: Record) -> None:
    unread = THIS_HOUR - 5 * HOUR
    record.keep(each for each in hours_back(7 * 24 + 1) if each.at != unread)
    series = record.series()
    assert (missing(series), len(series.points)) == ([unread], 7 * 24 + 1)
    unknown = record.series(contract="GONEUSDT")
    assert len(missing(unknown)) == len(unknown.points) > 0


def test_each_measure_is_read_in_its_unit(record: Record) -> None:
    reading = a_reading(THIS_HOUR, price=67_000.5, rate_pct=-0.01, interval_hours=4)
    record.keep([reading._replace(open_interest_usd=9e9, long_account_pct=61.5)])
    values: dict[Measure, float] = {"price": 67_000.5, "funding": -0.02, "open-interest": 9e9}
    values["long-accounts"] = 61.5
    for measure, value in values.items():
        assert known(record.series(measure)) == [Point(THIS_HOUR, value)]


def test_a_backfilled_hour_says_so_of_the_values_it_has(record: Record) -> None:
    past = a_reading(THIS_HOUR - HOUR)._replace(funding_rate_pct=None)
    record.keep([past], "backfilled")
    record.keep([a_reading(THIS_HOUR)])

    backfilled = Point(THIS_HOUR - HOUR, 100.0, is_backfilled=True)
    assert known(record.series()) == [backfilled, Point(THIS_HOUR, 100.0)]
    unknown = Point(THIS_HOUR - HOUR, None)
    assert record.series("funding").points[-2:] == (unknown, Point(THIS_HOUR, 0.01))


def test_zero_is_a_value_and_a_share_that_was_not_known_is_a_gap(record: Record) -> None:
    on_grid = THIS_HOUR // (4 * HOUR) * 4 * HOUR
    record.keep([a_reading(on_grid, rate_pct=0.0, interest=0.0)])
    record.keep(a_reading(on_grid - hours * HOUR) for hours in (1, 3))  # between two points
    for measure, values in (("funding", [0.0]), ("open-interest", [0.0]), ("long-accounts", [])):
        points = known(record.series(cast("Measure", measure), days=60))
        assert points == [Point(on_grid, value) for value in values]


def test_a_day_is_drawn_from_every_fifth_minute_where_there_are_minutes(record: Record) -> None:
    hours = hours_back(30, price=1.0)
    record.keep(hours[:5] + hours[6:])
    record.keep(hours[5:6], "backfilled")  # it was read, but too late for its point
    record.keep(a_reading(NOW - each * MINUTE, "minute", price=2.0) for each in range(24 * 60 + 1))
    found = record.series(days=1)
    assert (found.interval, len(found.points), missing(found)) == (5 * MINUTE, 289, [])
    assert {point.value for point in found.points} == {2.0}


@pytest.mark.parametrize(("measured_hours", "minutes"), [(25, 0), (25, 60), (23, 23 * 60)])
def test_minutes_of_a_part_do_not_hide_hours(
    record: Record, measured_hours: int, minutes: int
) -> None:
    past = hours_back(25)
    record.keep(past[:measured_hours])
    record.keep(past[measured_hours:], "backfilled")
    record.keep([a_reading(NOW, "minute", "ETHUSDT")])
    record.keep(a_reading(NOW - each * MINUTE, "minute") for each in range(minutes))
    series = record.series(days=1)
    assert (series.interval, missing(series)) == (HOUR, [])


def test_a_sample_is_awaited_for_a_while_before_it_is_missing(record: Record) -> None:
    record.keep([a_reading(THIS_HOUR - HOUR), a_reading(THIS_HOUR + 2 * HOUR)])  # a clock set back
    assert record.series(now=THIS_HOUR + GRACE - 1).points[-1].at == THIS_HOUR - HOUR
    assert record.series(now=THIS_HOUR + GRACE).points[-1] == Point(THIS_HOUR, None)


@pytest.mark.parametrize(("days", "hours"), [(1, 1), (7, 6), (30, 24), (60, 24)])
def test_liquidation_columns_lie_on_a_grid(record: Record, days: int, hours: int) -> None:
    record.keep_hours(
        *(LiquidationHour(THIS_HOUR - each * HOUR, 2.0, 1.0, 100.0) for each in range(1, 62 * 24))
    )
    found = record.liquidations(days)
    assert (found.interval, len(found.columns)) == (hours * HOUR, days * 24 // hours)
    assert all(column.at % found.interval == 0 for column in found.columns)
    assert found.columns[0] == LiquidationColumn(
        found.columns[0].at, 2.0 * hours, 1.0 * hours, 100.0, partial=False
    )
    assert found.columns[-1].at <= NOW < found.columns[-1].at + found.interval


def test_a_column_that_was_watched_too_little_is_partial(record: Record) -> None:
    record.keep_hours(
        LiquidationHour(THIS_HOUR - 3 * HOUR, 5.0, 4.0, 94.99),
        LiquidationHour(THIS_HOUR - 2 * HOUR, 3.0, 0.0, 95.0),
        LiquidationHour(THIS_HOUR - HOUR, 0.0, 0.0, 0.0),
    )
    *_, unknown, partial, whole, unwatched, _ = record.liquidations().columns
    assert partial == LiquidationColumn(THIS_HOUR - 3 * HOUR, 5.0, 4.0, 94.99, partial=True)
    assert whole == LiquidationColumn(THIS_HOUR - 2 * HOUR, 3.0, 0.0, 95.0, partial=False)
    assert unwatched == LiquidationColumn(THIS_HOUR - HOUR, None, None, 0.0, partial=True)
    assert unknown == LiquidationColumn(THIS_HOUR - 4 * HOUR, None, None, 0.0, partial=True)


def test_a_column_of_many_hours_counts_every_moment_that_nobody_watched(record: Record) -> None:
    day = NOW // DAY * DAY - DAY
    whole = [LiquidationHour(day + each * HOUR, 1.5, 0.5, 100.0) for each in range(23)]

    def column() -> LiquidationColumn:
        return next(each for each in record.liquidations(30).columns if each.at == day)

    record.keep_hours(*whole[:12])
    assert column() == LiquidationColumn(day, 18.0, 6.0, 50.0, partial=True)
    record.keep_hours(*whole[12:], LiquidationHour(day + 23 * HOUR, 1.0, 1.0, 99.99))
    assert column().watched_pct == 99.99


def test_a_day_is_not_over_however_much_of_it_was_watched_already(record: Record) -> None:
    today = NOW // DAY * DAY
    early = range(today, THIS_HOUR, HOUR)
    record.keep_hours(*(LiquidationHour(at, 1.0, 1.0, 100.0) for at in early))
    last = record.liquidations(30).columns[-1]
    assert (last.at, last.partial) == (today, True)
    share = 100 * (THIS_HOUR - today) / (NOW - today)
    assert last.watched_pct == pytest.approx(share, abs=0.01)

    late = range(THIS_HOUR, today + 23 * HOUR, HOUR)
    record.keep_hours(*(LiquidationHour(at, 1.0, 1.0, 100.0) for at in late))
    for now, watched, is_partial in (
        (today + 23 * HOUR + GRACE, 99.63, True),
        (today + DAY, 95.83, False),
    ):
        last = record.liquidations(30, now=now).columns[-1]
        assert (last.at, last.watched_pct, last.partial) == (today, watched, is_partial)


@pytest.mark.parametrize("days", DAYS)
def test_running_interval_ends_with_the_newest_watched_minute(record: Record, days: int) -> None:
    last_hours = range(THIS_HOUR - 23 * HOUR, THIS_HOUR, HOUR)
    record.keep_hours(*(LiquidationHour(at, 1.0, 0.5, 100.0) for at in last_hours))
    newest = NOW - 2 * MINUTE
    record.watch((THIS_HOUR - HOUR, newest + 30 * SECOND))
    record.liquidate(THIS_HOUR, "long", 100.0)
    record.liquidate(newest - 1, "short", 20.0)
    record.liquidate(newest, "short", 7.0)  # after the newest minute that is over
    found = record.liquidations(days)
    last = found.columns[-1]

    before = [at for at in last_hours if at >= last.at]
    assert found.as_of == newest
    assert last == LiquidationColumn(
        last.at, 100.0 + len(before), 20.0 + 0.5 * len(before), 100.0, partial=True
    )
    assert last.at <= newest < last.at + found.interval


def test_missed_time_of_the_running_hour_counts_against_what_has_passed(record: Record) -> None:
    record.watch((THIS_HOUR, THIS_HOUR + 5 * MINUTE), (NOW - 5 * MINUTE, NOW))
    assert NOW - THIS_HOUR == 20 * MINUTE
    assert record.liquidations().columns[-1].watched_pct == 50.0


def test_the_series_says_when_watching_began_if_its_columns_start_earlier(record: Record) -> None:
    assert record.liquidations().watched_since is None
    begun = NOW - 2 * DAY
    record.watch((begun, NOW - DAY), (NOW - HOUR, NOW))
    assert [record.liquidations(days).watched_since for days in (1, 7)] == [None, begun]
    # Spans were once kept for two days only; the hours know more.
    record.keep_hours(
        LiquidationHour(THIS_HOUR - 4 * DAY, 0.0, 0.0, 0.0),
        LiquidationHour(THIS_HOUR - 3 * DAY, 1.0, 1.0, 50.0),
    )
    assert record.liquidations(7).watched_since == THIS_HOUR - 3 * DAY


def test_an_hour_that_has_ended_and_is_not_summed_up_yet_is_counted(record: Record) -> None:
    record.keep_hours(LiquidationHour(THIS_HOUR - 2 * HOUR, 1.0, 1.0, 100.0))
    record.watch((THIS_HOUR - 2 * HOUR, THIS_HOUR + MINUTE))
    record.liquidate(THIS_HOUR - HOUR, "long", 3.0)
    *_, ended, running = record.liquidations(now=THIS_HOUR + MINUTE).columns

    assert ended == LiquidationColumn(THIS_HOUR - HOUR, 3.0, 0.0, 100.0, partial=False)
    assert running == LiquidationColumn(THIS_HOUR, 0.0, 0.0, 100.0, partial=True)


def test_an_hour_that_is_summed_up_is_not_counted_again(record: Record) -> None:
    ended = LiquidationColumn(THIS_HOUR - HOUR, 3.0, 0.0, 100.0, partial=False)
    record.keep_hours(LiquidationHour(ended.at, 3.0, 0.0, 100.0))
    record.watch((THIS_HOUR - 2 * HOUR, THIS_HOUR))
    record.liquidate(ended.at, "long", 3.0)
    assert record.liquidations(now=THIS_HOUR).columns[-1] == ended


def test_time_that_nobody_watches_is_a_gap_up_to_now(record: Record) -> None:
    record.watch((THIS_HOUR - 3 * HOUR, NOW - GRACE))
    found = record.liquidations()

    assert found.as_of == NOW
    assert found.columns[-1].watched_pct == 75.0
    assert record.liquidations(now=NOW + HOUR).columns[-1] == LiquidationColumn(
        THIS_HOUR + HOUR, None, None, 0.0, partial=True
    )


@pytest.mark.both_engines
def test_past_hours_have_their_sums_and_the_time_nobody_watched(record: Record) -> None:
    end = NOW // MINUTE * MINUTE
    record.liquidate(end - DAY, "long", 3.0)
    record.liquidate(end - 4 * HOUR, "long", 2.0)
    record.liquidate(end - 1, "short", 4.0)
    record.liquidate(end, "short", 8.0)
    record.watch((end - 2 * DAY, end - 5 * HOUR), (end - 3 * HOUR, end))
    reader = SeriesReader(record.database, HandClock(NOW), MIN_WATCHED, ["bybit"])
    spans = record.run(reader.past_hours("bybit"))

    assert [(each.hours, each.unwatched, each.by_contract["BTCUSDT"]) for each in spans] == [
        (1, 0, (0.0, 4.0)),
        (4, HOUR, (2.0, 4.0)),
        (12, 2 * HOUR, (2.0, 4.0)),
        (24, 2 * HOUR, (5.0, 4.0)),
    ]
    assert {each.until for each in spans} == {end}


@pytest.mark.both_engines
def test_newest_liquidations_are_of_a_size_a_side_and_a_contract(record: Record) -> None:
    record.liquidate(NOW - 3, "long", 3.0)
    record.liquidate(NOW - 2, "long", 2.0)
    record.liquidate(NOW - 1, "short", 4.0)

    def newest(**given: Any) -> list[float]:
        read = partial(newest_liquidations, venue="bybit", since=NOW - HOUR, limit=2, **given)
        return [row.size * row.price for row in record.read(read)]

    assert newest() == [4.0, 2.0]
    assert newest(side="long") == [2.0, 3.0]
    assert newest(least_usd=2.5) == [4.0, 3.0]
    assert newest(contract="ETHUSDT") == []


def test_past_regime_has_the_label_and_the_rate_of_its_time(record: Record) -> None:
    record.change_regime(
        RegimeChange(NOW - 8 * DAY, "long-leaning", 0.02),
        RegimeChange(NOW - DAY, "unknown", None),
        RegimeChange(NOW - HOUR, "neutral", 0.01),
    )
    record.keep(
        a_reading(THIS_HOUR - days * DAY, rate_pct=0.001 * days, interval_hours=4)
        for days in (0, 1, 7, 30)
    )

    assert record.regimes(NOW, NOW - DAY, NOW - 7 * DAY, NOW - 30 * DAY) == [
        PastRegime("neutral", 0.0, THIS_HOUR),
        PastRegime("unknown", 0.002, THIS_HOUR - DAY),
        PastRegime("long-leaning", 0.014, THIS_HOUR - 7 * DAY),
        PastRegime(None, 0.06, THIS_HOUR - 30 * DAY),
    ]


def test_a_label_tells_nothing_about_an_hour_that_nobody_measured(record: Record) -> None:
    record.change_regime(RegimeChange(NOW - 8 * DAY, "long-leaning", 0.02))
    record.keep([a_reading(THIS_HOUR - 2 * HOUR), a_reading(THIS_HOUR, contract="ETHUSDT")])
    record.keep([a_reading(THIS_HOUR - DAY)], "backfilled")

    measured = PastRegime("long-leaning", 0.01, THIS_HOUR - 2 * HOUR)
    at_its_end, after = THIS_HOUR - HOUR - 1, THIS_HOUR - HOUR
    past = record.regimes(at_its_end, after, NOW)
    assert past == [measured, NOT_RECORDED, NOT_RECORDED]
    assert record.regimes(NOW, contract="ETHUSDT") == [PastRegime("long-leaning", 0.01, THIS_HOUR)]
    backfilled = PastRegime(None, 0.01, THIS_HOUR - DAY, is_backfilled=True)
    assert record.regimes(NOW - DAY) == [backfilled]


def test_a_delisted_contract_is_found_by_its_asset(record: Record) -> None:
    record.keep([a_reading(THIS_HOUR, contract="GONEUSDT")])
    name = record.read(lambda tx: recorded_contract(tx, "bybit", {}, "gone"))
    assert name == "GONEUSDT"


def test_the_watched_share_is_that_of_stored_hours_and_then_of_spans(record: Record) -> None:
    hours = [LiquidationHour(THIS_HOUR - back * HOUR, 0.0, 0.0, 50.0) for back in (3, 2)]
    spans = [(THIS_HOUR - 4 * HOUR, THIS_HOUR - HOUR // 4), (THIS_HOUR, THIS_HOUR + 90_000)]
    record.write(lambda tx: record_rows(tx, "bybit", liquidation_hours=hours, watched=spans))

    def shares(start: int, step: int, count: int) -> list[float | None]:
        grid = range(start, start + count * step, step)
        now = THIS_HOUR + 30 * MINUTE
        read = partial(liquidation_store.watched_shares, venue="bybit", grid=grid, now=now)
        watched = record.read(read)
        return [watched.get(at) for at in grid]

    assert shares(THIS_HOUR - 4 * HOUR, HOUR, 6) == [0.0, 50.0, 50.0, 75.0, 5.0, None]
    assert shares(THIS_HOUR - MINUTE, MINUTE, 4) == [0.0, 100.0, 50.0, 0.0]
    assert shares(THIS_HOUR // DAY * DAY, DAY, 1) == [8.25]


@pytest.mark.parametrize("step", [HOUR, 4 * HOUR, DAY])
@pytest.mark.parametrize("after", [0, 3 * HOUR], ids=["running", "stopped 3 hours ago"])
def test_an_interval_has_one_watched_share_in_every_read(
    record: Record, step: int, after: int
) -> None:
    start, end = THIS_HOUR // DAY * DAY - DAY, THIS_HOUR + 20 * MINUTE
    gaps = [start, *range(start + 7 * MINUTE, end - HOUR, 3 * HOUR), end]
    spans = [(since + 1_234, until) for since, until in pairwise(gaps)]
    tracker = LiquidationTracker(MIN_WATCHED, spans=spans)
    record.keep_hours(*tracker.closed_hours(start + DAY, start - HOUR))
    record.keep_hours(*tracker.closed_hours(end, start + DAY - HOUR))
    record.watch(*spans)

    async def shares(tx: Transaction) -> list[list[float]]:
        known = await known_liquidations(tx, "bybit", end + after)
        grid, kept = range(start, known.until, step), (start, known.until)
        columns = [
            await liquidation_columns(tx, "bybit", known, grid, MIN_WATCHED),
            await contract_liquidations(tx, "bybit", ["BTCUSDT"], kept, grid),
        ]
        readings = await watched_shares(tx, "bybit", grid, end + after)
        watched = await liquidation_store.watched_between(tx, "bybit", start, start + DAY)
        day = WatchedSpans(watched).pct_within(start, start + DAY)
        if step == DAY:
            assert readings[start] == day < 100
        return [*([each.watched_pct for each in read] for read in columns), [*readings.values()]]

    of_all, of_one, of_readings = record.read(shares)
    assert of_all == of_one == of_readings


@on_sqlite
def test_every_statement_finds_its_rows_by_an_index(record: Record) -> None:
    store, plan = liquidation_store, record.plan
    by_time = "(venue=? AND at<?)"
    by_span = "(venue=? AND at>? AND at<?)"
    of_contract = "(venue=? AND resolution=? AND contract=? AND "
    covered = "USING COVERING INDEX sqlite_autoindex_liquidations_1 (venue=? AND at>?"
    prices = series._READINGS.format(column="last_price", disputed="FALSE")
    readings = plan(prices, "bybit", "hour", "BTCUSDT", 0, NOW, HOUR)
    regime = plan(series._REGIME, "bybit", NOW)
    begun = plan(store._FIRST_SPAN, "bybit") + plan(store._FIRST_WATCHED_HOUR, "bybit")
    columns = [plan(sql, "bybit", 0, NOW, HOUR) for sql in (store._WATCHED_HOURS, store._COLUMNS)]
    hour = plan(store._NEWEST_HOUR, "bybit", NOW)
    rate = plan(series._RATE.sql, "bybit", "BTCUSDT", THIS_HOUR)

    assert f"{of_contract}at>? AND at<?)" in readings
    assert f"{of_contract}at=?)" in rate
    assert covered in plan(store._BY_CONTRACT, "bybit", 0, NOW)
    assert covered in plan(store._BY_AGE, "bybit", 0, NOW, 3, 2, 1)
    newest = plan(store._filtered(store._NEWEST, 5).sql, "bybit", 0, 0, 20)
    assert covered in newest
    assert "TEMP B-TREE" not in newest
    assert by_time in hour
    assert by_time in regime
    assert all(by_span in each for each in columns)
    assert "SCAN" not in str([readings, *columns, hour, regime, rate, begun])
    assert "TEMP B-TREE" not in readings + regime + begun


class Counted(DatabaseDouble):
    """A database that counts its reads and can be away."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.reads = 0
        self.away = False

    async def read(self, work: Work[T]) -> T:
        self.reads += 1
        if self.away:
            raise DatabaseUnavailable("away")
        return await self._database.read(work)


@pytest.fixture
def counted(database: Database) -> Counted:
    return Counted(database)


async def test_a_crowd_of_readers_costs_one_read_a_minute(counted: Counted) -> None:
    clock = HandClock()
    reader = SeriesReader(counted, clock, MIN_WATCHED, ["bybit"])

    async def crowd() -> list[Series]:
        asked = [reader.reading(BITCOIN, "price", 7) for _ in range(50)]
        return await asyncio.gather(*asked)

    first = await crowd()
    assert counted.reads == 1
    assert all(each is first[0] for each in first)
    clock.pass_seconds(59)
    await crowd()
    assert counted.reads == 1
    clock.pass_seconds(1)
    assert (await crowd())[0].as_of == START + MINUTE
    assert counted.reads == 2


async def test_series_regimes_and_liquidations_are_kept_apart(counted: Counted) -> None:
    reader = SeriesReader(counted, HandClock(), MIN_WATCHED, ["bybit"])
    for _ in range(2):
        for days in DAYS:
            assert (await reader.reading(BITCOIN, "price", days)).days == days
            assert (await reader.liquidations(days)).days == days
        for contract, past in ((BITCOIN, (1, 7)), (BITCOIN, (1,)), (ETHER, (1,))):
            assert await reader.regimes(contract, past) == [NOT_RECORDED] * len(past)
    assert counted.reads == 2 * len(DAYS) + 3


async def test_a_failed_read_is_not_kept(counted: Counted) -> None:
    reader = SeriesReader(counted, HandClock(), MIN_WATCHED, ["bybit"])
    counted.away = True
    with pytest.raises(DatabaseUnavailable):
        await reader.reading(BITCOIN, "price", 7)
    counted.away = False
    assert (await reader.reading(BITCOIN, "price", 7)).days == 7


async def test_no_more_series_are_kept_than_there_is_room_for(counted: Counted) -> None:
    reader = SeriesReader(counted, HandClock(), MIN_WATCHED, ["bybit"])

    async def ask(names: Iterable[int]) -> None:
        for name in names:
            await reader.reading(ContractName("bybit", f"C{name}USDT"), "price", 1)

    await ask(range(KEPT_SERIES + 1))
    assert counted.reads == KEPT_SERIES + 1
    await ask(range(1, KEPT_SERIES + 1))  # the newest are still there
    assert counted.reads == KEPT_SERIES + 1
    await ask([0])
    assert counted.reads == KEPT_SERIES + 2
