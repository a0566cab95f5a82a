"""The board holds the newest snapshots in memory and never forgets because a database is away."""

import asyncio
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextvars import Context
from typing import TypeVar, TypeVarTuple, Unpack, cast

import msgspec
import pytest

from barograph.board.board import POLL_SECONDS, Board, publish, read_payload, read_versions
from barograph.board.feeds import Feed, Publication
from barograph.kit.database import Database, DatabaseUnavailable, Row, Transaction, Value, Work
from barograph.kit.documents import Document, HotKey
from support.clock import START, HandClock
from support.databases import DatabaseDouble

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Weather(msgspec.Struct, frozen=True):
    degrees: float


class Tide(msgspec.Struct, frozen=True):
    metres: float


WEATHER = Feed("weather", Weather)
TIDE = Feed("tide", Tide)


class HurriedLoop(asyncio.SelectorEventLoop):
    """A loop on which nobody sleeps: every pause is over at once."""

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        # Only pauses of the board: a driver has deadlines.
        delay = 0 if delay in POLL_SECONDS.values() else delay
        return super().call_later(delay, callback, *args, context=context)


class PluggedDatabase(DatabaseDouble):
    """A real database whose plug can be pulled, and which tells what was asked for."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.pulled = False
        self.refused = 0
        self.asked: list[tuple[str, tuple[Value, ...]]] = []

    async def read(self, work: Work[T]) -> T:
        if self.pulled:
            self.refused += 1
            raise DatabaseUnavailable("the plug is pulled")

        async def watched(tx: Transaction) -> T:
            return await work(cast("Transaction", _Watched(tx, self.asked)))

        return await self._database.read(watched)


class _Watched:
    def __init__(self, tx: Transaction, asked: list[tuple[str, tuple[Value, ...]]]) -> None:
        self._tx = tx
        self._asked = asked

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        self._asked.append((sql, values))
        return await self._tx.fetch(sql, *values)


class Rendered:
    """A renderer that makes one document and counts how often it is asked to."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, board: Board, now: int) -> Mapping[HotKey, Document]:
        self.times += 1
        return {("/weather", b""): Document(repr(board.latest(WEATHER)).encode())}


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=HurriedLoop) as runner:
        yield runner


@pytest.fixture
def plugged(database: Database) -> PluggedDatabase:
    return PluggedDatabase(database)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def rendered() -> Rendered:
    return Rendered()


@pytest.fixture
def board(plugged: PluggedDatabase, rendered: Rendered, clock: HandClock) -> Board:
    return Board(plugged, [WEATHER, TIDE], clock=clock, render=rendered)


async def put(database: Database, *publications: Publication) -> None:
    await database.write(lambda tx: publish(tx, list(publications)))


def weather(degrees: float) -> Publication:
    return Publication.of(WEATHER, Weather(degrees))


def tide(metres: float) -> Publication:
    return Publication.of(TIDE, Tide(metres))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110, only a poll can change it
            await asyncio.sleep(0)


async def until_shown(board: Board, degrees: float) -> None:
    await until(lambda: board.latest(WEATHER) == Weather(degrees))


async def test_each_publication_gets_the_next_version_of_its_own_feed(database: Database) -> None:
    await put(database, weather(1), tide(1))
    await put(database, weather(2))
    await put(database, weather(-2.5))

    assert await database.read(read_versions) == {"weather": 3, "tide": 1}
    newest = await database.read(lambda tx: read_payload(tx, "weather"))
    assert newest is not None
    assert (newest[0], WEATHER.decode(newest[1])) == (3, Weather(-2.5))
    assert await database.read(lambda tx: read_payload(tx, "none")) is None


async def test_new_board_is_empty_and_rendered(board: Board, rendered: Rendered) -> None:
    assert (board.latest(WEATHER), board.polled_at, rendered.times) == (None, None, 1)
    assert await board.refresh() is False
    assert (board.polled_at, rendered.times) == (START, 1)


async def test_refresh_brings_the_newest_documents(board: Board, database: Database) -> None:
    await put(database, weather(1))
    await put(database, Publication("of-a-newer-version", "not even JSON"), weather(2))

    assert await board.refresh() is True
    assert board.latest(WEATHER) == Weather(2)
    assert board.hot["/weather", b""].body == b"Weather(degrees=2.0)"


async def test_only_what_changed_is_loaded(
    board: Board, plugged: PluggedDatabase, rendered: Rendered
) -> None:
    await put(plugged, weather(1), tide(1))
    await board.refresh()
    kept = board.latest(TIDE)
    plugged.asked.clear()

    await put(plugged, weather(2))
    assert await board.refresh() is True
    assert [values for _, values in plugged.asked] == [(), (), ("weather",)]
    assert board.latest(TIDE) is kept

    plugged.asked.clear()
    assert await board.refresh() is False
    assert len(plugged.asked) == 1
    assert "payload" not in plugged.asked[0][0]
    assert rendered.times == 3


async def test_feeds_published_together_are_seen_together(board: Board, database: Database) -> None:
    async def write() -> None:
        for number in range(40):
            await put(database, weather(number), tide(number))

    writing = asyncio.create_task(write())
    seen = set()
    while not writing.done():
        await board.refresh()
        seen.add((board.latest(WEATHER), board.latest(TIDE)))
    await writing
    for sky, sea in seen - {(None, None)}:
        assert sky is not None
        assert sea is not None
        assert sky.degrees == sea.metres


async def test_a_database_that_is_away_leaves_the_memory_as_it_is(
    board: Board, plugged: PluggedDatabase, clock: HandClock
) -> None:
    await put(plugged, weather(1))
    await board.refresh()
    hot = board.hot
    plugged.pulled = True
    clock.pass_seconds(5)

    with pytest.raises(DatabaseUnavailable):
        await board.refresh()

    assert board.latest(WEATHER) == Weather(1)
    assert board.hot is hot
    assert board.polled_at == START


async def test_following_outlives_a_database_that_goes_away_and_complains_once(
    board: Board,
    plugged: PluggedDatabase,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await put(plugged, weather(1))
    following = asyncio.create_task(board.follow())
    await until_shown(board, 1)
    for times, degrees in ((1, 2), (2, 3)):
        plugged.pulled, plugged.refused = True, 0
        await until(lambda: plugged.refused > 3)
        assert len(caplog.records) == times
        await put(plugged, weather(degrees))
        plugged.pulled = False
        await until_shown(board, degrees)
    following.cancel()
    await asyncio.wait([following])

    assert {each.message for each in caplog.records} == {"board cannot read snapshots"}


async def test_following_outlives_a_snapshot_it_cannot_read(
    board: Board, database: Database
) -> None:
    await put(database, weather(1), tide(1))
    following = asyncio.create_task(board.follow())
    await until(lambda: board.latest(TIDE) == Tide(1))
    await put(database, Publication("weather", '{"kelvin": 280}'))
    await put(database, tide(2))
    await until(lambda: board.latest(TIDE) == Tide(2) or following.done())
    assert not following.done(), "it stopped following"
    assert board.latest(WEATHER) == Weather(1)
    await put(database, weather(3))
    await until_shown(board, 3)
    following.cancel()
    await asyncio.wait([following])


READER = """
import asyncio
import msgspec
from barograph.board.board import Board
from barograph.board.feeds import Feed

class Weather(msgspec.Struct):
    degrees: float

async def main():
    feed = Feed("weather", Weather)
    board = Board(database, [feed], clock=lambda: 0, render=lambda board, now: {})
    while True:
        await board.refresh()
        print(board.latest(feed), flush=True)
        input()

asyncio.run(main())
"""


async def test_another_process_sees_the_new_snapshot(
    database: Database,
    start_python: Callable[[str], "subprocess.Popen[str]"],
) -> None:
    reader = start_python(READER)
    assert reader.stdin is not None
    assert reader.stdout is not None
    seen = [reader.stdout.readline()]
    for degrees in (1, 2):
        await put(database, weather(degrees))
        reader.stdin.write("again\n")
        reader.stdin.flush()
        seen.append(reader.stdout.readline())

    assert seen == ["None\n", "Weather(degrees=1.0)\n", "Weather(degrees=2.0)\n"]
