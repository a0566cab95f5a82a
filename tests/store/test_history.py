"""The record: each fact once, the first of its minute or hour, for as long as set."""

import asyncio

import pytest

from barograph.kit.database import ConstraintViolated, Database
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.regime import RegimeChange
from barograph.markets.store import (
    FORGET_ROWS,
    ReadingRow,
    Resolution,
    disputed_sides,
    forget_old,
    recent_liquidations,
    recent_watched,
    record_rows,
)
from barograph.venues.records import Liquidation, Origin
from support.clock import START
from support.steps import Steps

LONG = Liquidation(START - 1_000, "BTCUSDT", "long", 2.0, 50_000.0)


def row(
    at: int = START,
    resolution: Resolution = "minute",
    contract: str = "BTCUSDT",
    price: float = 1.0,
) -> ReadingRow:
    return ReadingRow(resolution, contract, at, price, 0.01, 8, 5.0, None)


class Record(Steps):
    """The verbs of the record, each in a transaction of its own."""

    def count(self, table: str, condition: str = "1 = 1") -> int:
        return int(self.fetch(f"SELECT count(*) FROM {table} WHERE {condition}")[0][0])

    def readings(self, *rows: ReadingRow, origin: Origin = "measured") -> None:
        self.write(lambda tx: record_rows(tx, "bybit", readings=rows, origin=origin))

    def liquidations(self, *events: Liquidation) -> None:
        self.write(lambda tx: record_rows(tx, "bybit", liquidations=events))

    def watched(self, *spans: tuple[int, int]) -> None:
        self.write(lambda tx: record_rows(tx, "bybit", watched=spans))

    def regime_change(self, change: RegimeChange) -> None:
        self.write(lambda tx: record_rows(tx, "bybit", regime_changes=[change]))

    def forget(self) -> None:
        self.write(lambda tx: forget_old(tx, START))


@pytest.fixture
def record(database: Database, runner: asyncio.Runner) -> Record:
    return Record(database, runner)


def test_the_first_reading_of_a_minute_stays_whoever_comes_later(record: Record) -> None:
    record.readings(row(price=1.0))
    record.readings(row(price=2.0), row(START + MINUTE, price=3.0))
    record.readings(row(resolution="hour"), row(contract="ETHUSDT"))

    sql = "SELECT at, last_price FROM readings WHERE contract = 'BTCUSDT' AND resolution = 'minute'"
    assert record.fetch(f"{sql} ORDER BY at") == [(START, 1.0), (START + MINUTE, 3.0)]
    assert record.count("readings") == 4


def test_a_measured_reading_replaces_a_backfilled_one_and_never_the_reverse(record: Record) -> None:
    record.readings(row(price=1.0), origin="backfilled")
    record.readings(row(price=2.0))
    record.readings(row(price=3.0), origin="backfilled")

    assert record.fetch("SELECT last_price, origin FROM readings") == [(2.0, "measured")]


def test_a_reading_is_stored_whole_with_null_for_what_is_not_known(record: Record) -> None:
    more = (180.0, 180.2, 9e6, 5e4)
    known = ReadingRow("hour", "SOLUSDT", START, 180.1, -0.0125, 4, 0.0, 0.0, 2.5, "", *more)
    record.readings(known, ReadingRow("hour", "X", START, 180.1, None, None, None, None))

    assert record.fetch("SELECT * FROM readings ORDER BY contract") == [
        (
            "bybit",
            "hour",
            "SOLUSDT",
            START,
            180.1,
            -0.0125,
            4,
            0.0,
            0.0,
            2.5,
            "measured",
            "",
            *more,
        ),
        ("bybit", "hour", "X", START, 180.1, *[None] * 5, "measured", "", *[None] * 4),
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

    old = START - 1_000 * DAY
    sides = [(old, old + 10), (old, old + 30), (old, old + 20)]
    record.write(lambda tx: record_rows(tx, "bybit", disputed_sides=sides))
    record.forget()  # but not these: they mark sums and files that are kept for good
    disputed = record.read(lambda tx: disputed_sides(tx, "bybit", old + 5, START))
    assert disputed == [(old + 5, old + 30)]


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
    events = [Liquidation(each, "BTCUSDT", "long", 1.5, 2.5) for each in at]
    record.liquidations(*events)

    recent = record.read(lambda tx: recent_liquidations(tx, "bybit", START))
    assert recent == [events[3], events[2], events[0]]


def test_recent_spans_are_those_that_reach_into_the_last_24_hours(record: Record) -> None:
    gone = (START - 3 * DAY, START - DAY - 1)
    reaching = (START - 2 * DAY, START - DAY)
    inside = (START - 500, START - 400)
    record.watched(inside, gone, reaching)

    recent = record.read(lambda tx: recent_watched(tx, "bybit", START))
    assert recent == [reaching, inside]


def test_readings_are_dropped_only_when_older_than_their_retention(record: Record) -> None:
    oldest: dict[Resolution, int] = {"minute": START - 30 * DAY, "hour": START - 730 * DAY}
    for resolution, at in oldest.items():
        record.readings(*(row(each, resolution) for each in (at - 1, at, START)))

    record.forget()

    for resolution, at in oldest.items():
        sql = f"SELECT at FROM readings WHERE resolution = '{resolution}' ORDER BY at"
        assert record.fetch(sql) == [(at,), (START,)]


def test_watched_spans_are_kept_as_long_as_the_liquidations_they_vouch_for(record: Record) -> None:
    oldest = START - 90 * DAY
    kept = [Liquidation(at, "BTCUSDT", "long", 1.0, 1.0) for at in (oldest, START)]
    record.liquidations(Liquidation(oldest - 1, "BTCUSDT", "long", 1.0, 1.0), *kept)
    record.watched((oldest - DAY, oldest - 1), (oldest - HOUR, oldest))

    record.forget()

    assert record.fetch("SELECT at FROM liquidations ORDER BY at") == [(oldest,), (START,)]
    assert record.fetch("SELECT start_at FROM watched_spans") == [(oldest - HOUR,)]


def test_a_clean_up_drops_a_bounded_number_of_rows_and_the_next_goes_on(record: Record) -> None:
    old = range(START - 1_000 * DAY, START - 1_000 * DAY + FORGET_ROWS + 500)
    record.readings(*map(row, old), row())
    record.liquidations(*(Liquidation(at, "X", "long", 1.0, 1.0) for at in old), LONG)

    for left in (501, 1, 1):
        record.forget()
        assert (record.count("readings"), record.count("liquidations")) == (left, left)
