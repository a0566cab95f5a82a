"""Jobs: nothing that fails in them ends measuring; only a lost lease ends them."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from barograph.board.board import latest_snapshot
from barograph.collector.app import macro_sources
from barograph.collector.jobs.market_data import MAX_READINGS, MacroJob
from barograph.collector.jobs.stances import ISSUE_SECONDS, StanceJob
from barograph.errors import InvalidReply, LeaseLost, Unreachable
from barograph.history.ledger import Ledger
from barograph.history.records import Stances
from barograph.kit.database import Database, DatabaseUnavailable, Transaction, Work
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import SECOND
from barograph.macro.records import MACRO_HEALTH, Figure, RecordedFigure, SourceHealth
from barograph.macro.store import latest_figures
from barograph.settings import Settings
from barograph.stances.issue import StanceIssuer
from barograph.stances.reader import STANCES
from barograph.upstream.files import FileClient
from support.clock import START, HandClock
from support.jobs import FailingDatabase, Leader, Rounds, Stopped
from support.stances import make_history, proposal

T = TypeVar("T")


class Source:
    """A publisher that gives or does whatever the script says, the last of it for ever."""

    def __init__(self, name: str, *script: list[Figure] | Exception) -> None:
        self.name = name
        self._script = list(script)
        self.asked = 0

    async def read(self) -> list[Figure]:
        self.asked += 1
        now = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if isinstance(now, Exception):
            raise now
        return now


class HistoryLeader(Leader):
    """Two databases and the lease of a leader."""

    def __init__(self, folder: Path, runner: asyncio.Runner) -> None:
        super().__init__(folder, runner)
        self.history = SQLiteDatabase(folder / "history.sqlite3")
        self.run(make_history(self.history))

    def collect(
        self, *sources: Source, rounds: int = 1, database: FailingDatabase | None = None
    ) -> Rounds:
        pause = Rounds(rounds, self.clock)
        used = self.database if database is None else database
        job = MacroJob(sources, used, seconds=60, clock=self.clock, sleep=pause)
        with pytest.raises(Stopped):
            self.run(job(self.lease))
        return pause

    def issue(self, rounds: int, **failing: FailingDatabase) -> Rounds:
        pause = Rounds(rounds, self.clock)
        ledger = Ledger(failing.get("history", self.history), self.clock)
        used = failing.get("database", self.database)
        issuer = StanceIssuer(Settings.model_validate({}), used, ledger, self.clock)
        with pytest.raises(Stopped):
            self.run(StanceJob(issuer, ledger, sleep=pause)(self.lease))
        return pause

    def healths(self) -> dict[str, SourceHealth]:
        found = self.run(self.database.read(lambda tx: latest_snapshot(tx, MACRO_HEALTH)))
        assert found is not None
        return found.sources

    def health(self, name: str) -> SourceHealth:
        return self.healths()[name]

    def figures(self, series: str) -> list[RecordedFigure]:
        return self.run(self.database.read(lambda tx: latest_figures(tx, series, 100)))

    def stances(self) -> Stances | None:
        return self.run(self.database.read(lambda tx: latest_snapshot(tx, STANCES)))

    def close(self) -> None:
        self.run(self.history.close())
        super().close()


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[HistoryLeader]:
    with asyncio.Runner() as runner:
        leader = HistoryLeader(tmp_path, runner)
        yield leader
        leader.close()


def sofr(value: float, day: str = "2026-11-05") -> Figure:
    return Figure("sofr", day, value, "files")


FAILURES = [Unreachable("away"), InvalidReply("odd"), RuntimeError("a defect"), KeyError("x")]


def test_figures_are_kept_with_each_revision_once(leader: HistoryLeader) -> None:
    source = Source("sofr", [sofr(3.9)], [sofr(3.9)], [sofr(3.95)])

    pause = leader.collect(source, rounds=4)

    assert pause.pauses == [60] * 4
    assert [(each.revision, each.value) for each in leader.figures("sofr")] == [(2, 3.95)]
    assert leader.health("sofr") == SourceHealth(START + 180_000, newest_day="2026-11-05")


@pytest.mark.parametrize("failure", FAILURES, ids=lambda each: type(each).__name__)
@pytest.mark.outcome(
    "A publisher of daily figures fails",
    "The collector reads the others and retries. `/api/status` shows the kind of failure and "
    "its start.",
)
def test_a_source_that_fails_holds_up_no_other(leader: HistoryLeader, failure: Exception) -> None:
    failing, fine = Source("bad", failure), Source("sofr", [sofr(3.9)])

    leader.collect(failing, fine, rounds=3)

    assert (failing.asked, fine.asked) == (3, 3)
    assert len(leader.figures("sofr")) == 1
    kind = getattr(failure, "kind", "failed")
    assert leader.health("bad") == SourceHealth(START + 120_000, kind, failing_since=START)
    assert leader.health("sofr").failure is None


def test_a_source_that_recovers_remembers_its_newest_day(leader: HistoryLeader) -> None:
    source = Source("sofr", [sofr(3.9)], Unreachable("away"), [])
    leader.collect(source, rounds=2)
    assert leader.health("sofr").newest_day == "2026-11-05"
    assert leader.health("sofr").failing_since == START + 60_000

    leader.collect(source)

    assert leader.health("sofr") == SourceHealth(START + 120_000, newest_day="2026-11-05")


def test_a_source_that_is_no_longer_configured_is_forgotten(leader: HistoryLeader) -> None:
    leader.collect(Source("gone", Unreachable("away")), Source("sofr", []))
    leader.collect(Source("sofr", []))
    assert list(leader.healths()) == ["sofr"]

    leader.collect()
    assert leader.healths() == {}


def test_figures_that_no_database_takes_hold_up_no_others(leader: HistoryLeader) -> None:
    odd = Figure("odd", "2026-11-05", object(), "files")  # type: ignore[arg-type]
    source, fine = Source("odd", [odd]), Source("sofr", [sofr(3.9)])

    leader.collect(source, fine, rounds=2)

    assert len(leader.figures("sofr")) == 1


class Remembering(Source):
    """A publisher that is told what was stored."""

    def __init__(self, name: str, *script: list[Figure] | Exception) -> None:
        super().__init__(name, *script)
        self.told: list[list[Figure]] = []

    def kept(self, readings: Sequence[Figure]) -> None:
        self.told.append(list(readings))


@pytest.mark.parametrize(
    "failure", [DatabaseUnavailable("full"), RuntimeError("a defect")], ids=["away", "defect"]
)
def test_a_source_is_told_only_what_was_stored(leader: HistoryLeader, failure: Exception) -> None:
    source = Remembering("sofr", [sofr(3.9)], [sofr(3.95)], Unreachable("away"))

    # The job reads the sources' health first, then it stores figures.
    database = FailingDatabase(leader.database, failure, failure)
    leader.collect(source, rounds=3, database=database)

    assert source.told == [[sofr(3.95)], []]


class Transactions(FailingDatabase):
    """A database that notes how many figures are known after each transaction."""

    def __init__(self, database: Database, *, most: int = 100) -> None:
        super().__init__(database)
        self._most = most
        self.figures: list[int] = []
        self.days: list[str | None] = []

    async def write(self, work: Work[T]) -> T:
        if len(self.figures) == self._most:
            raise DatabaseUnavailable("full")

        async def counted(tx: Transaction) -> T:
            result = await work(tx)
            ((count,),) = await tx.fetch("SELECT count(*) FROM observations")
            health = await latest_snapshot(tx, MACRO_HEALTH)
            self.figures.append(count)
            self.days.append(None if health is None else health.sources["many"].newest_day)
            return result

        return await super().write(counted)


def many_days(count: int) -> list[Figure]:
    first = date(1990, 1, 1)
    return [sofr(1.0, (first + timedelta(days=each)).isoformat()) for each in range(count)]


def test_a_long_file_is_kept_in_small_transactions_and_health_comes_with_the_newest_days(
    leader: HistoryLeader,
) -> None:
    readings = many_days(2 * MAX_READINGS + 1)
    source, database = Remembering("many", readings), Transactions(leader.database)

    leader.collect(source, database=database)

    assert MAX_READINGS == 5_000
    assert database.figures == [MAX_READINGS, MAX_READINGS + 1, 2 * MAX_READINGS + 1]
    assert database.days == [None, None, readings[-1].day]
    assert source.told == [readings]


def test_a_long_file_of_which_a_part_was_stored_is_not_kept_yet(leader: HistoryLeader) -> None:
    readings = many_days(MAX_READINGS + 1)
    source = Remembering("many", readings)
    leader.collect(source, database=Transactions(leader.database, most=1))
    assert source.told == []

    leader.collect(source)

    assert source.told == [readings]
    assert leader.health("many").newest_day == readings[-1].day


def test_a_lost_lease_ends_reading_and_keeps_nothing(leader: HistoryLeader) -> None:
    source = Source("sofr", [sofr(3.9)])
    job = MacroJob([source], leader.database, seconds=1, clock=leader.clock)
    leader.lose_the_lease()

    with pytest.raises(LeaseLost):
        leader.run(job(leader.lease))

    assert leader.figures("sofr") == []


def test_stances_are_issued_again_and_again(leader: HistoryLeader) -> None:
    pause = leader.issue(3)

    stances = leader.stances()
    assert stances is not None
    assert stances.as_of == START + 2 * int(ISSUE_SECONDS * SECOND)
    assert pause.pauses == [ISSUE_SECONDS] * 3


@pytest.mark.parametrize(
    "failure", [DatabaseUnavailable("away"), RuntimeError("a defect")], ids=["away", "defect"]
)
@pytest.mark.parametrize("where", ["database", "history"])
def test_a_failed_round_is_no_end(leader: HistoryLeader, failure: Exception, where: str) -> None:
    broken = FailingDatabase(leader.database if where == "database" else leader.history, failure)
    leader.issue(3, **{where: broken})

    assert leader.stances() is not None


def test_a_leader_that_could_not_announce_itself_does_so_later(leader: HistoryLeader) -> None:
    broken = FailingDatabase(leader.history, *[DatabaseUnavailable("away")] * 4)
    ledger = Ledger(leader.history, leader.clock)

    leader.issue(2, history=broken)

    with pytest.raises(LeaseLost):
        leader.run(ledger.append(proposal(), token=leader.lease.token - 1))


def test_a_lost_lease_ends_issuing_and_publishes_nothing(leader: HistoryLeader) -> None:
    leader.lose_the_lease()

    with pytest.raises(LeaseLost):
        leader.issue(2)

    assert leader.stances() is None


@pytest.mark.outcome(
    "Another leader has written to the history, but the collector holds the lease",
    "The collector keeps collecting, records no stance and logs it.",
)
def test_later_lease_token_in_the_history_does_not_stop_collecting(leader: HistoryLeader) -> None:
    leader.run(Ledger(leader.history, leader.clock).announce_leader(leader.lease.token + 1_000))

    leader.issue(2)


async def test_only_sources_with_an_address_are_read(tmp_path: Path) -> None:
    files = FileClient(seconds=1, clock=HandClock())

    def sources(**values: object) -> list[str]:
        settings = Settings.model_validate(values)
        return [source.name for source in macro_sources(settings, files, clock=HandClock())]

    assert sources() == ["treasury", "sofr", "effr", "etf-ibit"]
    assert sources(rates_url="", etf_url="") == []
    own = tmp_path / "flows.csv"
    assert sources(rates_url="", etf_file=own) == ["etf-operator"]
    await files.close()
