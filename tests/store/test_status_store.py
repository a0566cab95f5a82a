"""The recorded status in a real database, and who records it."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from barograph import NOTICE
from barograph.kit.database import Database, DatabaseUnavailable, Work
from barograph.kit.dependency_health import DependencyHealth
from barograph.kit.timestamps import DAY, HOUR, MINUTE, iso_timestamp
from barograph.status.incidents import (
    KEPT_FOR,
    CheckResult,
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
from support.jobs import Rounds, Stopped
from support.steps import Steps

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


class Book(Steps):
    """The record, written by hand and read back."""

    def note(self, at: int, **conditions: Condition) -> None:
        seen = [
            CheckResult(name, condition, f"{name} so") for name, condition in conditions.items()
        ]
        self.write(lambda tx: record_results(tx, seen, at))

    def history(self, now: int) -> StatusHistory:
        return self.read(lambda tx: read_status_history(tx, now))

    def incidents(self, now: int = T0 + HOUR) -> list[Incident]:
        return list(self.history(now).incidents)

    def recorded(self) -> int:
        """How many minutes of the database's condition are in the record."""
        days = [each for each in self.history(T0 + DAY).counts if each.resolution == "day"]
        return sum(each.recorded for each in days if each.name == "database")


@pytest.fixture
def book(database: Database, runner: asyncio.Runner) -> Book:
    return Book(database, runner)


def test_an_incident_is_opened_grown_and_closed_in_place(book: Book) -> None:
    opened = Incident("feed", T0, None, "degraded", "feed so")
    worse = opened._replace(worst="down")
    steps: list[tuple[Condition, list[Incident]]] = [
        ("degraded", []),
        ("degraded", [opened]),
        ("down", [worse]),
        ("ok", [worse]),
        ("ok", [worse._replace(ended_at=T0 + 3 * MINUTE)]),
    ]
    for number, (condition, incidents) in enumerate(steps):
        book.note(T0 + number * MINUTE, feed=condition, api="ok")
        assert book.incidents() == incidents


def test_incidents_come_newest_first_and_only_those_of_the_days_that_are_shown(book: Book) -> None:
    starts = [T0, T0 + DAY, T0 + 61 * DAY]
    conditions: list[Condition] = ["degraded", "degraded", "ok", "ok"]
    for start in starts:
        for number, condition in enumerate(conditions):
            book.note(start + number * MINUTE, feed=condition)

    last = [each.started_at for each in book.incidents(starts[2] + HOUR)]
    every = [each.started_at for each in book.incidents(T0 + 2 * DAY)]
    assert (last, every) == ([starts[2]], starts[::-1])


def test_only_the_last_day_of_hours_and_sixty_days_are_read(book: Book) -> None:
    for days in (0, 59, 60):
        book.note(T0 + days * DAY, feed="ok")
    counts = book.history(T0 + 60 * DAY).counts

    hours = [each.at for each in counts if each.resolution == "hour"]
    assert hours == [(T0 + 60 * DAY) // HOUR * HOUR]
    assert [each.at // DAY - T0 // DAY for each in counts if each.resolution == "day"] == [59, 60]


def test_records_end_after_ninety_days_but_no_incident_that_lasts(book: Book) -> None:
    conditions: list[Condition] = ["down", "down", "ok", "down", "down", "ok", "ok"]
    for number, condition in enumerate(conditions):
        book.note(T0 + number * MINUTE, a=condition, b="down")
    for number in range(2):
        book.note(T0 + KEPT_FOR + DAY + number * MINUTE, b="down", c="ok")

    assert book.fetch("SELECT DISTINCT name FROM status_counts ORDER BY 1") == [("b",), ("c",)]
    assert book.fetch("SELECT name, ended_at FROM status_incidents") == [("b", None)]
    assert book.fetch("SELECT name FROM status_runs ORDER BY 1") == [("b",), ("c",)]


def test_incident_of_a_removed_check_ends_when_it_was_last_seen(book: Book) -> None:
    for number in range(3):
        book.note(T0 + number * MINUTE, gone="down", feed="ok")
    book.note(T0 + 3 * MINUTE, feed="ok")

    (incident,) = book.incidents()
    assert (incident.name, incident.ended_at) == ("gone", T0 + 2 * MINUTE)


class Room:
    """Web workers that keep one record, on a clock held by hand."""

    def __init__(self, open_database: Callable[[], Database], runner: asyncio.Runner) -> None:
        self.clock = HandClock(T0)
        self.run = runner.run
        self.condition: Condition = "ok"
        self.open = open_database
        self.looked: list[str] = []

    def recorder(
        self, name: str = "", database: Database | None = None, **parts: Any
    ) -> StatusRecorder:
        def read(now: int) -> ServiceStatus:
            self.looked.append(name or iso_timestamp(now)[14:])
            return status(self.condition, now)

        outside = parts.pop("outside", [])
        return StatusRecorder(database or self.open(), read, outside, clock=self.clock, **parts)

    def record(self, *recorders: StatusRecorder, minutes: int = 1) -> None:
        """Let recorders look in each of the next minutes."""
        for _ in range(minutes):
            for recorder in recorders:
                self.run(recorder.record_minute())
            self.clock.now += MINUTE


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
    assert book.recorded() == 3


def test_another_recorder_takes_over_when_the_first_is_gone(room: Room) -> None:
    one, other = room.recorder("one"), room.recorder("other")
    room.record(one)
    room.record(other, minutes=2)

    assert room.looked == ["one", "other"]
    assert LEASE_MS < 2 * MINUTE
    room.record(one)
    assert room.looked == ["one", "other"]


def test_a_recorder_that_is_stopped_lets_the_next_one_in_at_once(room: Room) -> None:
    one, other = room.recorder("one"), room.recorder("other")

    async def start_and_stop() -> None:
        await one.record_minute()
        running = asyncio.create_task(one.run())
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])

    room.run(start_and_stop())
    room.clock.now += MINUTE
    room.record(other)

    assert room.looked == ["one", "other"]


def test_the_recorder_looks_right_after_every_minute_began(room: Room) -> None:
    room.clock.pass_seconds(12.5)
    pause = Rounds(3, room.clock)
    with pytest.raises(Stopped):
        room.run(room.recorder(sleep=pause, offset=0).run())

    assert room.looked == ["59:00.100Z", "00:00.100Z"]
    assert pause.pauses == [47.6, 60.0, 60.0]


def test_recorders_look_at_different_times_of_the_minute(room: Room) -> None:
    pauses = []
    for _ in range(8):
        pause = Rounds(1, HandClock())
        with pytest.raises(Stopped):
            room.run(room.recorder(sleep=pause).run())
        pauses += pause.pauses

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


@pytest.fixture
def away(room: Room) -> Away:
    return Away(room.open())


@pytest.mark.outcome(
    "The database fails while status checks are recorded",
    "Up to three hours of checks are recorded afterwards.",
)
def test_checks_made_during_a_database_failure_are_recorded_afterwards(
    room: Room, book: Book, away: Away, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = room.recorder(database=away)
    with caplog.at_level(logging.INFO):
        room.record(recorder, minutes=5)
    assert [line.message for line in caplog.records] == ["status not recorded"]
    assert book.history(T0 + HOUR).counts == []

    away.is_away = False
    room.record(recorder, recorder)
    assert book.history(T0 + HOUR).last_at["database"] == T0 + 5 * MINUTE
    assert book.recorded() == 6


def test_outage_of_the_database_is_an_incident(room: Room, book: Book, away: Away) -> None:
    recorder = room.recorder(database=away)
    for minute in range(6):
        away.is_away = minute in (1, 2)
        room.condition = "down" if away.is_away else "ok"
        room.record(recorder)

    (incident,) = book.incidents()
    assert (incident.started_at, incident.ended_at) == (T0 + MINUTE, T0 + 3 * MINUTE)


def test_minutes_in_which_nobody_looked_stay_unrecorded(room: Room, book: Book, away: Away) -> None:
    recorder = room.recorder(database=away)
    room.record(recorder)
    room.clock.now += 9 * MINUTE
    away.is_away = False
    room.record(recorder)

    assert book.recorded() == 2


def test_only_so_many_unwritten_minutes_are_kept(room: Room, book: Book, away: Away) -> None:
    recorder = room.recorder(database=away)
    room.record(recorder, minutes=MAX_UNWRITTEN + 5)
    away.is_away = False
    room.record(recorder)

    assert book.recorded() == MAX_UNWRITTEN


def test_what_two_recorders_saw_during_a_failure_counts_once(room: Room, book: Book) -> None:
    aways = [Away(room.open()) for _ in range(2)]
    one, other = (room.recorder(database=away) for away in aways)
    room.record(one, other, minutes=5)
    aways[0].is_away = False
    room.run(one.record_minute())
    room.clock.now += LEASE_MS
    aways[1].is_away = False
    room.run(other.record_minute())

    assert book.recorded() == 7


def test_recorder_that_finds_another_forgets_what_it_saw(
    room: Room, book: Book, away: Away
) -> None:
    other = room.recorder(database=away)
    room.record(other)
    away.is_away = False
    room.run(room.recorder().record_minute())
    room.run(other.record_minute())
    room.clock.now += LEASE_MS
    room.run(other.record_minute())

    assert book.recorded() == 2


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
    room.record(*(room.recorder(outside=[bad, good]) for _ in range(2)))

    assert (bad.probed, good.probed) == (2, 2)
    assert book.history(T0).last_at["database"] == T0
    assert "secret" not in caplog.text
