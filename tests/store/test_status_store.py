"""The recorded status in a real database, and who records it."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

import pytest

from barograph import NOTICE
from barograph.kit.database import Database, DatabaseUnavailable, Row, Work
from barograph.kit.dependency_health import DependencyHealth
from barograph.kit.timestamps import DAY, HOUR, MINUTE, iso_timestamp
from barograph.status.incidents import (
    KEPT_FOR,
    CheckResult,
    ConditionCount,
    Incident,
    StatusHistory,
)
from barograph.status.recorder import (
    LEASE_MS,
    MAX_UNWRITTEN,
    SPREAD_SECONDS,
    StatusRecorder,
    read_status_history,
    record_results,
)
from barograph.status.rules import ApiStatus, Check, Condition, FeedStatus, ServiceStatus
from support.clock import START, HandClock
from support.databases import DatabaseDouble

T = TypeVar("T")
T0 = START // DAY * DAY + 23 * HOUR + 58 * MINUTE
"""Two minutes before midnight."""


def status(condition: Condition, now: int) -> ServiceStatus:
    """A status whose only check is so."""
    return ServiceStatus(
        status=condition,
        as_of=iso_timestamp(now),
        feed=FeedStatus(
            status="ok",
            source=None,
            last_update=None,
            age_seconds=None,
            max_age_seconds=30,
            liquidation_coverage_pct=None,
        ),
        api=ApiStatus(status="ok", version="1", started_at=iso_timestamp(now), uptime_seconds=0),
        checks=[Check(name="database", status=condition, detail=f"so at {iso_timestamp(now)}")],
        notice=NOTICE,
    )


class Book:
    """The record, written by hand and read back."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        self.database = database
        self.run = runner.run

    def write(self, at: int, *found: tuple[str, Condition]) -> None:
        seen = [CheckResult(name, condition, f"{name} so") for name, condition in found]

        self.run(self.database.write(lambda tx: record_results(tx, seen, at)))

    def read(self, now: int) -> StatusHistory:
        return self.run(self.database.read(lambda tx: read_status_history(tx, now)))

    def rows(self, sql: str) -> list[Row]:
        return self.run(self.database.read(lambda tx: tx.fetch(sql)))


@pytest.fixture
def book(database: Database, runner: asyncio.Runner) -> Book:
    return Book(database, runner)


def test_minutes_are_counted_by_the_hour_and_by_the_day(book: Book) -> None:
    found: list[Condition] = ["ok", "degraded", "down"]
    for number, condition in enumerate(found):
        book.write(T0 + number * MINUTE, ("feed", condition))
    midnight = T0 + 2 * MINUTE

    assert set(book.read(midnight).counts) == {
        ConditionCount("hour", "feed", midnight - HOUR, 1, 1, 0),
        ConditionCount("hour", "feed", midnight, 0, 0, 1),
        ConditionCount("day", "feed", midnight - DAY, 1, 1, 0),
        ConditionCount("day", "feed", midnight, 0, 0, 1),
    }
    assert book.read(midnight).last_at == {"feed": midnight}


def test_the_same_minute_counts_once_for_each_part(book: Book) -> None:
    book.write(T0, ("feed", "ok"))
    book.write(T0, ("feed", "down"), ("api", "ok"))
    book.write(T0 - MINUTE, ("feed", "down"))

    hours = [each for each in book.read(T0).counts if each.resolution == "hour"]
    assert {(each.name, each.ok, each.down) for each in hours} == {("feed", 1, 0), ("api", 1, 0)}


def test_an_incident_is_opened_grown_and_closed_in_place(book: Book) -> None:
    def incidents() -> list[Incident]:
        return list(book.read(T0 + HOUR).incidents)

    book.write(T0, ("feed", "degraded"), ("api", "ok"))
    assert incidents() == []
    book.write(T0 + MINUTE, ("feed", "degraded"), ("api", "ok"))
    opened = Incident("feed", T0, None, "degraded", "feed so")
    assert incidents() == [opened]
    book.write(T0 + 2 * MINUTE, ("feed", "down"), ("api", "ok"))
    assert incidents() == [opened._replace(worst="down")]
    book.write(T0 + 3 * MINUTE, ("feed", "ok"), ("api", "ok"))
    assert incidents() == [opened._replace(worst="down")]
    book.write(T0 + 4 * MINUTE, ("feed", "ok"), ("api", "ok"))
    assert incidents() == [opened._replace(worst="down", ended_at=T0 + 3 * MINUTE)]


def test_incidents_come_newest_first_and_only_those_of_the_days_that_are_shown(book: Book) -> None:
    for start in (T0, T0 + DAY, T0 + 61 * DAY):
        for number, condition in enumerate(("degraded", "degraded", "ok", "ok")):
            book.write(start + number * MINUTE, ("feed", condition))  # type: ignore[arg-type]
    now = T0 + 61 * DAY + HOUR

    assert [each.started_at for each in book.read(now).incidents] == [T0 + 61 * DAY]
    assert [each.started_at for each in book.read(T0 + 2 * DAY).incidents] == [
        T0 + 61 * DAY,
        T0 + DAY,
        T0,
    ]


def test_only_the_last_day_of_hours_and_sixty_days_are_read(book: Book) -> None:
    for days in (0, 59, 60):
        book.write(T0 + days * DAY, ("feed", "ok"))
    counts = book.read(T0 + 60 * DAY).counts

    assert [each.at for each in counts if each.resolution == "hour"] == [
        (T0 + 60 * DAY) // HOUR * HOUR
    ]
    assert [each.at // DAY - T0 // DAY for each in counts if each.resolution == "day"] == [59, 60]


def test_what_is_older_than_ninety_days_is_dropped_but_an_incident_that_lasts_is_not(
    book: Book,
) -> None:
    for number, (one, other) in enumerate([("down", "down"), ("down", "down"), ("ok", "down")] * 2):
        book.write(T0 + number * MINUTE, ("a", one), ("b", other))  # type: ignore[arg-type]
    book.write(T0 + 6 * MINUTE, ("a", "ok"), ("b", "down"))
    for number in range(2):
        book.write(T0 + KEPT_FOR + DAY + number * MINUTE, ("b", "down"), ("c", "ok"))

    assert book.rows("SELECT DISTINCT name FROM status_counts ORDER BY 1") == [("b",), ("c",)]
    assert book.rows("SELECT name, ended_at FROM status_incidents") == [("b", None)]
    assert book.rows("SELECT name FROM status_runs ORDER BY 1") == [("b",), ("c",)]


def test_an_incident_of_a_part_that_is_not_looked_at_any_more_ends_when_it_was_seen_last(
    book: Book,
) -> None:
    for number in range(3):
        book.write(T0 + number * MINUTE, ("gone", "down"), ("feed", "ok"))
    book.write(T0 + 3 * MINUTE, ("feed", "ok"))

    (incident,) = book.read(T0 + HOUR).incidents
    assert (incident.name, incident.ended_at) == ("gone", T0 + 2 * MINUTE)


def test_three_months_of_records_stay_small(book: Book) -> None:
    names = [(f"part {number}", "ok") for number in range(12)]
    for hours in range(0, 100 * 24, 24):
        book.write(T0 + hours * HOUR, *names)  # type: ignore[arg-type]

    ((rows,),) = book.rows("SELECT count(*) FROM status_counts")
    assert rows <= 12 * 2 * 92


class Room:
    """Web workers that keep one record, on a clock held by hand."""

    def __init__(self, open_database: Callable[[], Database], runner: asyncio.Runner) -> None:
        self.clock = HandClock(T0)
        self.run = runner.run
        self.found: Condition = "ok"
        self.open = open_database
        self.looked: list[str] = []

    def recorder(self, name: str = "", database: Database | None = None) -> StatusRecorder:
        def read(now: int) -> ServiceStatus:
            self.looked.append(name)
            return status(self.found, now)

        return StatusRecorder(database or self.open(), read, [], clock=self.clock)


@pytest.fixture
def room(database: Database, open_database: Callable[[], Database], runner: asyncio.Runner) -> Room:
    return Room(open_database, runner)


def test_of_two_recorders_one_records_each_minute_once(room: Room, book: Book) -> None:
    one, other = room.recorder("one"), room.recorder("other")

    async def together() -> None:
        await asyncio.gather(one.record_minute(), other.record_minute())

    for _ in range(3):
        room.run(together())
        room.clock.pass_seconds(60)

    assert len(set(room.looked)) == 1
    days = [each for each in book.read(T0 + HOUR).counts if each.resolution == "day"]
    assert sum(each.recorded for each in days if each.name == "database") == 3


def test_another_recorder_takes_over_when_the_first_is_gone(room: Room, book: Book) -> None:
    one, other = room.recorder("one"), room.recorder("other")
    room.run(one.record_minute())
    for _ in range(2):
        room.clock.now += MINUTE
        room.run(other.record_minute())

    assert room.looked == ["one", "other"]
    assert LEASE_MS < 2 * MINUTE
    room.clock.now += MINUTE
    room.run(one.record_minute())
    assert room.looked == ["one", "other"]


def test_a_recorder_that_is_stopped_lets_the_next_one_in_at_once(room: Room, book: Book) -> None:
    one, other = room.recorder("one"), room.recorder("other")

    async def start_and_stop() -> None:
        await one.record_minute()
        running = asyncio.create_task(one.run())
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])

    room.run(start_and_stop())
    room.clock.now += MINUTE
    room.run(other.record_minute())

    assert room.looked == ["one", "other"]


def test_the_recorder_looks_right_after_every_minute_began(room: Room) -> None:
    pauses: list[float] = []
    room.clock.pass_seconds(12.5)

    class Stopped(Exception):
        pass

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise Stopped
        room.clock.pass_seconds(seconds)

    def read(now: int) -> ServiceStatus:
        room.looked.append(iso_timestamp(now)[14:])
        return status("ok", now)

    recorder = StatusRecorder(room.open(), read, [], clock=room.clock, sleep=sleep, offset=0)
    with pytest.raises(Stopped):
        room.run(recorder.run())

    assert room.looked == ["59:00.100Z", "00:00.100Z"]
    assert pauses == [47.6, 60.0, 60.0]


def test_recorders_look_at_different_times_of_the_minute(room: Room) -> None:
    class Stopped(Exception):
        pass

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        raise Stopped

    pauses: list[float] = []
    for _ in range(8):
        recorder = StatusRecorder(
            room.open(), lambda now: status("ok", now), [], clock=room.clock, sleep=sleep
        )
        with pytest.raises(Stopped):
            room.run(recorder.run())

    # The clock stands where a minute begins, which is past for nobody but who looks right then.
    assert len(set(pauses)) > 1
    assert all(pause <= SPREAD_SECONDS + 1 or pause > 60 for pause in pauses)


class Away(DatabaseDouble):
    """A database that is out of reach until told otherwise."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.is_away = True

    async def write(self, work: Work[T]) -> T:
        if self.is_away:
            raise DatabaseUnavailable("the database cannot be used (IOError)")
        return await self._database.write(work)


@pytest.mark.outcome(
    "The database fails while status checks are recorded",
    "Up to three hours of checks are recorded afterwards.",
)
def test_checks_made_during_a_database_failure_are_recorded_afterwards(
    room: Room, book: Book, caplog: pytest.LogCaptureFixture
) -> None:
    away = Away(room.open())
    recorder = room.recorder(database=away)
    with caplog.at_level(logging.INFO):
        for _ in range(5):
            room.run(recorder.record_minute())
            room.clock.now += MINUTE
    assert [line.message for line in caplog.records] == ["status not recorded"]
    assert book.read(T0 + HOUR).counts == []

    away.is_away = False
    for _ in range(2):
        room.run(recorder.record_minute())
    assert book.read(T0 + HOUR).last_at["database"] == T0 + 5 * MINUTE
    assert recorded(book) == 6


def recorded(book: Book) -> int:
    """How many minutes of the database's condition are in the record."""
    days = [each for each in book.read(T0 + DAY).counts if each.resolution == "day"]
    return sum(each.recorded for each in days if each.name == "database")


def test_an_outage_of_the_database_is_an_incident_of_the_record(room: Room, book: Book) -> None:
    away = Away(room.open())
    recorder = room.recorder(database=away)
    for minute in range(6):
        away.is_away = minute in (1, 2)
        room.found = "down" if away.is_away else "ok"
        room.run(recorder.record_minute())
        room.clock.now += MINUTE

    (incident,) = book.read(T0 + HOUR).incidents
    assert (incident.started_at, incident.ended_at) == (T0 + MINUTE, T0 + 3 * MINUTE)


def test_minutes_in_which_nobody_looked_stay_unrecorded(room: Room, book: Book) -> None:
    away = Away(room.open())
    recorder = room.recorder(database=away)
    room.run(recorder.record_minute())
    room.clock.now += 10 * MINUTE
    away.is_away = False
    room.run(recorder.record_minute())

    assert recorded(book) == 2


def test_only_so_many_unwritten_minutes_are_kept(room: Room, book: Book) -> None:
    away = Away(room.open())
    recorder = room.recorder(database=away)
    for _ in range(MAX_UNWRITTEN + 5):
        room.run(recorder.record_minute())
        room.clock.now += MINUTE
    away.is_away = False
    room.run(recorder.record_minute())

    assert recorded(book) == MAX_UNWRITTEN


def test_what_two_recorders_saw_while_the_database_failed_counts_once(
    room: Room, book: Book
) -> None:
    aways = [Away(room.open()) for _ in range(2)]
    one, other = (room.recorder(database=away) for away in aways)
    for _ in range(5):
        room.run(one.record_minute())
        room.run(other.record_minute())
        room.clock.now += MINUTE
    aways[0].is_away = False
    room.run(one.record_minute())
    room.clock.now += LEASE_MS
    aways[1].is_away = False
    room.run(other.record_minute())

    assert recorded(book) == 7


def test_a_recorder_that_finds_another_one_recording_forgets_what_it_saw(
    room: Room, book: Book
) -> None:
    away = Away(room.open())
    other = room.recorder(database=away)
    room.run(other.record_minute())
    away.is_away = False
    room.clock.now += MINUTE
    room.run(room.recorder().record_minute())
    room.run(other.record_minute())
    room.clock.now += LEASE_MS
    room.run(other.record_minute())

    assert recorded(book) == 2


class Outside:
    """Somebody outside who fails in an unexpected way, or hangs."""

    def __init__(self, clock: HandClock, error: Exception | None = None) -> None:
        self.health = (DependencyHealth(clock),)
        self.probed = 0
        self._error = error

    async def probe(self) -> None:
        self.probed += 1
        if self._error is not None:
            raise self._error


def test_those_outside_are_asked_by_every_recorder_whatever_one_of_them_does(
    room: Room, book: Book, caplog: pytest.LogCaptureFixture
) -> None:
    bad = Outside(room.clock, RuntimeError("https://secret.example"))
    good = Outside(room.clock)
    recorders = [
        StatusRecorder(room.open(), lambda now: status("ok", now), [bad, good], clock=room.clock)
        for _ in range(2)
    ]
    for recorder in recorders:
        room.run(recorder.record_minute())

    assert (bad.probed, good.probed) == (2, 2)
    assert book.read(T0).last_at["database"] == T0
    assert "secret" not in caplog.text
