"""The collector judges by the recorded daily figures, and by none that came later."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from barograph.collector.judge import Conclusion, Judge, known_figures
from barograph.errors import Throttled
from barograph.kit.database import Database, DatabaseUnavailable, Row, Value, Work
from barograph.kit.timestamps import DAY, MINUTE
from barograph.macro.evidence import MacroEvidence
from barograph.macro.records import (
    OPERATOR_AUM,
    OPERATOR_BTC,
    OPERATOR_FLOW,
    US3M,
    US10Y,
    Figure,
    fund_series,
)
from barograph.macro.series import EtfSeries
from barograph.macro.store import record_figures
from barograph.settings import Settings
from support.clock import START
from support.databases import DatabaseDouble
from support.figures import last_days
from support.markets import SOURCE, reading
from support.steps import Steps

SETTINGS = Settings.model_validate({"exchange_source": SOURCE, "etf_fund": "IBIT"})
DAYS = last_days(62)
T = TypeVar("T")


def rates(days: Sequence[str] = DAYS) -> list[Figure]:
    return [Figure(series, day, 4.0, "treasury") for series in (US10Y, US3M) for day in days]


def fund(days: Sequence[str] = DAYS) -> list[Figure]:
    values = {"shares": 100.0, "nav": 10.0, "btc": 1.0, "aum": 1000.0}
    return [
        Figure(fund_series("IBIT", figure), day, value, "issuer")  # type: ignore[arg-type]
        for figure, value in values.items()
        for day in days
    ]


def operator(days: Sequence[str] = DAYS) -> list[Figure]:
    values = {OPERATOR_FLOW: 2.0, OPERATOR_AUM: 1000.0, OPERATOR_BTC: 1.0}
    return [
        Figure(series, day, value, "operator") for series, value in values.items() for day in days
    ]


class Plug(DatabaseDouble):
    """A database that can be pulled out."""

    is_out = False
    reads = 0

    async def read(self, work: Work[T]) -> T:
        self.reads += 1
        if self.is_out:
            raise DatabaseUnavailable("the plug is pulled")
        return await super().read(work)

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        return await self._database.fetch(sql, *values)


class Room(Steps):
    """A desk, and the record that it looks at."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        super().__init__(database, runner)
        self.plug = Plug(database)
        self.desk = Judge(SETTINGS)

    def keep(self, readings: Sequence[Figure], at: int = START) -> None:
        self.write(lambda tx: record_figures(tx, readings, at))

    def load(self) -> None:
        self.run(self.desk.load(self.database, START))

    def refresh(self, now: int) -> None:
        self.run(self.desk.refresh(self.plug, now))

    def known(self, at: int, settings: Settings = SETTINGS) -> MacroEvidence:
        return self.read(lambda tx: known_figures(tx, settings, at))

    def labels(self, at: int) -> tuple[str, str]:
        conclusion = self.desk.conclude(reading(at))
        self.desk.written(conclusion)
        return figures_of(conclusion)


def figures_of(conclusion: Conclusion) -> tuple[str, str]:
    assert conclusion.signals is not None
    labels = {each.key: each.label for each in conclusion.signals.signals.signals}
    return labels["btc-etf-flow"], labels["us-rates"]


@pytest.fixture
def room(database: Database, runner: asyncio.Runner) -> Room:
    return Room(database, runner)


def test_a_desk_takes_up_the_figures_of_the_record(room: Room) -> None:
    room.load()
    assert room.labels(START) == ("unknown", "unknown")
    room.keep([*rates(), *fund()])
    room.load()
    assert room.labels(START + MINUTE) == ("mixed", "consolidation")
    assert room.labels(START + 14 * DAY) == ("unknown", "unknown")


def test_new_figures_are_seen_when_the_desk_looks_again_once_a_minute(room: Room) -> None:
    room.load()
    room.keep([*rates(), *fund()])
    room.refresh(START + MINUTE - 1)
    assert (room.labels(START), room.plug.reads) == (("unknown", "unknown"), 0)

    room.refresh(START + MINUTE)
    room.refresh(START + 2 * MINUTE - 1)

    assert room.labels(START + MINUTE) == ("mixed", "consolidation")
    assert room.plug.reads == 1


def test_figures_that_cannot_be_read_again_count_on(room: Room) -> None:
    room.keep(rates())
    room.load()
    room.keep(fund())
    room.plug.is_out = True
    room.refresh(START + MINUTE)
    assert room.labels(START + MINUTE) == ("unknown", "consolidation")

    room.plug.is_out = False
    room.refresh(START + MINUTE + 5_000)

    assert room.labels(START + 2 * MINUTE) == ("mixed", "consolidation")


def test_nothing_is_known_before_it_was_read(room: Room) -> None:
    room.keep(rates(DAYS[:-1]), START)
    room.keep(rates(), START + DAY)

    assert room.known(START - 1).us10y == []
    assert room.known(START).us10y[-1].day == DAYS[-2]
    assert room.known(START + DAY).us10y[-1].day == DAYS[-1]


def test_of_etfs_the_operators_own_figures_count_while_they_keep_a_file(room: Room) -> None:
    with_file = SETTINGS.model_copy(update={"etf_file": Path("flows.csv")})
    room.keep(fund())
    assert room.known(START, with_file).etf == EtfSeries("operator's data", ())  # not read yet

    room.keep(operator())
    for settings, coverage, source in (
        (with_file, "operator's data", "operator"),
        (SETTINGS, "IBIT only", "issuer"),
    ):
        known = room.known(START, settings)
        assert (known.etf.coverage, known.sources) == (coverage, [source])


def test_a_failure_of_the_exchange_keeps_the_signals_of_figures(room: Room) -> None:
    room.keep([*rates(), *fund()])
    room.load()

    conclusion = room.desk.conclude_failure("bybit", Throttled("slow down", 5.0), START)

    assert figures_of(conclusion) == ("mixed", "consolidation")
    assert conclusion.signals is not None
    assert conclusion.signals.signals.source == f"{SOURCE}; issuer; treasury"
    assert conclusion.row_count > 2
    room.desk.written(conclusion)
    again = room.desk.conclude_failure("bybit", Throttled("slow down", 5.0), START + 5_000)
    assert again.signals is None
