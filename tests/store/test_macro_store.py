"""Daily figures: each value once, every revision kept, nothing ever changed."""

import asyncio

import pytest

from barograph.kit.database import ConstraintViolated, Database, Row
from barograph.kit.timestamps import HOUR
from barograph.macro.records import EFFR, SOFR, Figure, RecordedFigure
from barograph.macro.store import as_known_at, latest_figures, record_figures
from support.backends import StartPython, on_engines, run_together
from support.clock import START
from support.steps import Steps

SOURCE = "a publisher"
INTO = "INTO observations"
MONDAY, TUESDAY, WEDNESDAY = "2026-11-02", "2026-11-03", "2026-11-04"


def read(day: str, value: float, series: str = SOFR) -> Figure:
    return Figure(series, day, value, SOURCE)


def seen(
    day: str, revision: int, value: float, observed_at: int = START, series: str = SOFR
) -> RecordedFigure:
    return RecordedFigure(series, day, revision, value, SOURCE, observed_at)


class Figures(Steps):
    """The verbs of the table, each in a transaction of its own."""

    def record(self, *readings: Figure, at: int = START) -> list[RecordedFigure]:
        return self.write(lambda tx: record_figures(tx, readings, at))

    def latest(self, days: int = 100, series: str = SOFR) -> list[RecordedFigure]:
        return self.read(lambda tx: latest_figures(tx, series, days))

    def known_at(self, at: int) -> list[RecordedFigure]:
        return self.read(lambda tx: as_known_at(tx, SOFR, at, 1_000))

    def rows(self) -> list[Row]:
        return self.fetch("SELECT * FROM observations ORDER BY series, day, revision")


@pytest.fixture
def figures(database: Database, runner: asyncio.Runner) -> Figures:
    return Figures(database, runner)


def test_each_value_is_kept_with_when_it_was_first_read(figures: Figures) -> None:
    readings = [read(TUESDAY, 3.9), read(MONDAY, 0.0), read(MONDAY, 3.88, EFFR)]
    tuesday, monday = seen(TUESDAY, 1, 3.9), seen(MONDAY, 1, 0.0)

    assert figures.record(*readings) == [tuesday, monday, seen(MONDAY, 1, 3.88, series=EFFR)]
    assert figures.record(*readings, at=START + HOUR) == []
    assert figures.latest() == [monday, tuesday]


def test_another_value_is_the_next_revision_also_when_it_is_an_old_one(figures: Figures) -> None:
    figures.record(read(MONDAY, 3.9))
    figures.record(read(MONDAY, 3.92), at=START + HOUR)
    figures.record(read(MONDAY, 3.9), at=START + 2 * HOUR)

    assert figures.latest() == [seen(MONDAY, 3, 3.9, START + 2 * HOUR)]
    assert [row[2:4] for row in figures.rows()] == [(1, 3.9), (2, 3.92), (3, 3.9)]


def test_latest_gives_the_newest_days_oldest_first(figures: Figures) -> None:
    figures.record(read(TUESDAY, 2.0), read(WEDNESDAY, 3.0), read(MONDAY, 1.0))
    figures.record(read(TUESDAY, 2.5), at=START + HOUR)

    assert figures.latest(2) == [seen(TUESDAY, 2, 2.5, START + HOUR), seen(WEDNESDAY, 1, 3.0)]
    assert figures.latest(0) == []
    assert figures.latest(series="unknown") == []


def test_what_was_known_at_an_instant_is_without_what_came_later(figures: Figures) -> None:
    figures.record(read(MONDAY, 1.0))
    figures.record(read(MONDAY, 1.5), read(TUESDAY, 2.0), at=START + HOUR)

    assert figures.known_at(START - 1) == []
    assert figures.known_at(START) == [seen(MONDAY, 1, 1.0)]
    assert figures.known_at(START + HOUR - 1) == [seen(MONDAY, 1, 1.0)]
    assert figures.known_at(START + HOUR) == [
        seen(MONDAY, 2, 1.5, START + HOUR),
        seen(TUESDAY, 1, 2.0, START + HOUR),
    ]


def test_revision_is_never_older_than_what_it_revises(figures: Figures) -> None:
    figures.record(read(MONDAY, 1.0))
    figures.record(read(MONDAY, 2.0), at=START - HOUR)

    assert figures.latest() == [seen(MONDAY, 2, 2.0, START)]
    assert figures.known_at(START - 1) == []


def test_a_batch_is_kept_whole_or_not_at_all(figures: Figures) -> None:
    for broken in (float("nan"), float("inf")):
        with pytest.raises(ConstraintViolated):
            figures.record(read(MONDAY, 1.0), read(TUESDAY, broken))
    assert figures.rows() == []


@pytest.mark.parametrize(
    ("engine", "sql"),
    on_engines(
        "UPDATE observations SET value = 9",
        "UPDATE observations SET observed_at = 0 WHERE revision = 1",
        "DELETE FROM observations",
        "TRUNCATE observations",
        f"REPLACE {INTO} VALUES ('sofr', '2026-11-02', 1, 9, 's', 0)",
        f"INSERT OR REPLACE {INTO} VALUES ('sofr', '2026-11-02', 1, 9, 's', 0)",
        f"INSERT {INTO} VALUES ('sofr', '2026-11-02', 1, 9, 's', 0) ON CONFLICT "
        "(series, day, revision) DO UPDATE SET value = 9",
        f"REPLACE {INTO} (rowid, series, day, revision, value, source, observed_at) "
        "VALUES (1, 'sofr', '2026-11-09', 1, 9, 's', 0)",
        f"INSERT {INTO} VALUES ('sofr', '2026-11-02', 3, 9, 's', 0)",
        f"INSERT {INTO} VALUES ('sofr', '2026-11-02', NULL, 9, 's', 0)",
        f"INSERT {INTO} VALUES ('sofr', '2026-11-03', 0, 9, 's', 0)",
    ),
    indirect=["engine"],
)
def test_database_refuses_what_is_not_the_next_revision(figures: Figures, sql: str) -> None:
    figures.record(read(MONDAY, 3.9))
    before = figures.rows()

    with pytest.raises(ConstraintViolated):
        figures.execute(sql)
    assert figures.rows() == before


READER = f"""
import asyncio, sys
from barograph.macro.records import Figure
from barograph.macro.store import record_figures

async def main():
    for day in range(1, 29):
        readings = [Figure("sofr", f"2026-10-{{day:02d}}", 1.0, "s")]
        added = await database.write(lambda tx: record_figures(tx, readings, {START}))
        print(len(added))
    await database.close()

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(main())
"""


@pytest.mark.thorough
def test_two_processes_record_a_value_once(figures: Figures, start_python: StartPython) -> None:
    printed = run_together(start_python(READER) for _ in range(2))

    added = zip(*(text.split() for text in printed), strict=True)
    assert [int(one) + int(other) for one, other in added] == [1] * 28
    recorded = [(f"2026-10-{day:02d}", 1, 1.0) for day in range(1, 29)]
    assert [row[1:4] for row in figures.rows()] == recorded
