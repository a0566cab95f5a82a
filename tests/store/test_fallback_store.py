"""Whatever happens to the shared file, every worker keeps limiting, and they share again."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest

from barograph.kit.timestamps import HOUR, SECOND
from barograph.limits.rate_limits import LimitsUnavailable, RateLimit, Usage
from barograph.limits.sqlite_store import MAX_MEGABYTES, SQLiteStore
from barograph.limits.stores import RETRY, FallbackStore, MemoryStore
from support.clock import HandClock

SMALL = RateLimit("small", 5, HOUR)
NOBODY_ID = 65_534


class Worker:
    """One worker's stores; several of them share a file and a clock."""

    def __init__(self, path: Path, clock: HandClock, tries: int = 2) -> None:
        shared = SQLiteStore(path, clock, b"secret", tries=tries)
        self.store = FallbackStore(shared, MemoryStore(clock), clock)

    def count(self, caller: str = "a") -> Usage:
        return asyncio.run(self.store.count(SMALL, caller))

    def accepted_of(self, attempts: int, caller: str = "a") -> int:
        return sum(self.count(caller).accepted for _ in range(attempts))


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "limits.sqlite3"


def assert_counted_together(first: Worker, second: Worker, caller: str) -> None:
    turns = [each.count(caller).accepted for _ in range(SMALL.requests) for each in (first, second)]
    assert turns == [True] * SMALL.requests + [False] * SMALL.requests
    assert [each.store.failing_since for each in (first, second)] == [None, None]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


async def test_event_loop_turns_while_a_peer_holds_the_lock(path: Path, clock: HandClock) -> None:
    store = Worker(path, clock, tries=10_000).store
    await store.count(SMALL, "a")
    with locked(path):
        spending = asyncio.create_task(store.count(SMALL, "a"))
        for _ in range(20):
            await asyncio.sleep(0)

    assert (await spending).remaining == 3
    assert store.failing_since is None


async def test_requests_of_one_worker_wait_for_a_locked_file_together(path: Path) -> None:
    read: list[int] = []

    def clock() -> int:  # read at each try
        read.append(len(read))
        return 0

    store = SQLiteStore(path, clock, b"secret", tries=5)
    await store.count(SMALL, "a")
    read.clear()
    with locked(path):
        asked = [store.count(SMALL, "a") for _ in range(100)]
        ends = await asyncio.gather(*asked, return_exceptions=True)

    assert {type(end) for end in ends} == {LimitsUnavailable}
    assert len(read) == 5


@pytest.mark.outcome(
    "The rate-limit file is locked for more than 50 ms",
    "Each worker counts for itself and retries every second; `/api/status` reports it.",
)
def test_locked_file_leaves_each_worker_limiting_by_itself(
    path: Path, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first, second = Worker(path, clock), Worker(path, clock)
    assert [first.count().remaining, second.count().remaining] == [4, 3]
    with locked(path):
        assert [first.accepted_of(8), second.accepted_of(8)] == [4, 3]
        assert first.store.failing_since == clock.now
        assert len(caplog.records) == 2
        clock.now += RETRY
        assert first.store.failing_since == clock.now - RETRY
    assert [first.count().remaining, second.count().remaining] == [2, 1]
    assert [each.store.failing_since for each in (first, second)] == [None, None]
    assert len(caplog.records) == 4
    assert "limits" not in "".join(str(vars(record).get("reason")) for record in caplog.records)


def test_a_worker_continues_from_what_all_workers_counted(path: Path, clock: HandClock) -> None:
    first, second = Worker(path, clock), Worker(path, clock)
    assert [first.accepted_of(2), second.accepted_of(1)] == [2, 1]
    with locked(path):
        assert [second.accepted_of(8), second.accepted_of(8, "b")] == [2, SMALL.requests]
    clock.now += RETRY
    assert [first.accepted_of(8), second.accepted_of(8)] == [2, 0]
    with locked(path):
        assert [first.accepted_of(8), second.accepted_of(8)] == [0, 0]
        assert first.store.failing_since == clock.now
        clock.now += HOUR
        assert first.accepted_of(8) == SMALL.requests


@pytest.mark.outcome(
    "A power cut leaves rows missing in the rate-limit file",
    "Counts are lost. No request fails.",
)
@pytest.mark.parametrize("lost", ["clock", "hits", "hits WHERE number = 2"])
def test_missing_rows_only_lose_counts(path: Path, clock: HandClock, lost: str) -> None:
    first, second = Worker(path, clock), Worker(path, clock)
    assert first.accepted_of(SMALL.requests) == SMALL.requests
    connection = apsw.Connection(str(path))
    connection.execute(f"DELETE FROM {lost}")
    connection.close()

    assert second.accepted_of(2 * SMALL.requests) <= SMALL.requests
    clock.now += HOUR
    assert_counted_together(first, second, "a")


def delete_all(path: Path) -> None:
    for file in path.parent.glob("limits.sqlite3*"):
        file.unlink()


def replace(path: Path) -> None:
    other = path.with_name("other")
    connection = apsw.Connection(str(other))
    connection.execute("CREATE TABLE state (weather TEXT)")
    connection.close()
    other.rename(path)


FAULTS: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "deleted with its log": delete_all,
    "robbed of its log": lambda path: Path(f"{path}-wal").unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "cut in half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "overwritten with garbage": lambda path: path.write_bytes(b"garbage!" * 4_096),
    "replaced by another database": replace,
}


@pytest.mark.outcome(
    "The rate-limit file is deleted, truncated, emptied or overwritten",
    "The workers share a new one within a second. Counts are lost.",
)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_workers_share_a_new_file_after_the_old_one_is_lost(
    path: Path, clock: HandClock, fault: Callable[[Path], object], is_checkpointed: bool
) -> None:
    first, second = Worker(path, clock), Worker(path, clock)
    for number in range(50):
        first.count(f"before-{number}")
        second.count(f"before-{number}")
    if is_checkpointed:
        connection = apsw.Connection(str(path))
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
    fault(path)
    third = Worker(path, clock)
    for worker in (first, second, third):
        assert worker.accepted_of(8, "during") <= SMALL.requests
    clock.now += SECOND
    for worker in (first, second, third):
        worker.count("again")
    assert_counted_together(first, second, "after")
    assert_counted_together(second, third, "at last")


@pytest.mark.parametrize(
    "content", [b"", b"garbage!" * 4_096, b"SQLite format 3\0" + b"\0" * 5_000]
)
def test_file_that_is_no_database_is_replaced(path: Path, clock: HandClock, content: bytes) -> None:
    path.write_bytes(content)
    Path(f"{path}-wal").write_bytes(content)
    assert_counted_together(Worker(path, clock), Worker(path, clock), "a")


async def test_file_that_is_full_is_replaced(path: Path, clock: HandClock) -> None:
    store = SQLiteStore(path, clock, b"secret")
    await store.count(SMALL, "a")
    assert store._cursor is not None
    pragma = store._cursor.connection.pragma
    assert pragma("max_page_count") * pragma("page_size") == MAX_MEGABYTES * 1024 * 1024
    pragma("max_page_count", pragma("page_count"))
    for number in range(1_000):
        await store.count(SMALL, f"new-{number}")

    assert (await store.count(SMALL, "a")).remaining == 4


@contextmanager
def without_rights() -> Iterator[None]:
    """Be nobody for a while: what is read-only is not so for root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY_ID)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that nobody in particular can reach and write in."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


@pytest.mark.outcome(
    "The rate-limit file is read-only, or its folder is missing",
    "Each worker counts for itself and retries every second; `/api/status` reports it.",
)
@pytest.mark.parametrize("mode", [0o777, 0o555])
def test_worker_limits_by_itself_on_a_read_only_file(
    open_folder: Path, clock: HandClock, mode: int
) -> None:
    path = open_folder / "limits.sqlite3"
    Worker(path, clock).count("before")
    for file in open_folder.iterdir():
        file.chmod(0o444)
    open_folder.chmod(mode)
    worker = Worker(path, clock)
    with without_rights():
        assert worker.accepted_of(8) == SMALL.requests
        assert worker.store.failing_since == clock.now
    open_folder.chmod(0o777)
    for file in open_folder.iterdir():
        file.chmod(0o666)
    clock.now += RETRY
    with without_rights():
        assert worker.count().remaining == 4
    assert worker.store.failing_since is None


@pytest.mark.parametrize("is_folder", [True, False])
def test_path_that_cannot_be_a_file_leaves_the_worker_limiting_by_itself(
    tmp_path: Path, clock: HandClock, is_folder: bool
) -> None:
    path = tmp_path / "data" / "limits.sqlite3"
    if is_folder:
        path.mkdir(parents=True)
    worker = Worker(path, clock)
    assert worker.accepted_of(8) == SMALL.requests
    assert worker.store.failing_since == clock.now


class BrokenStore:
    """A store that fails until it is mended, and counts who asked."""

    def __init__(self, clock: HandClock) -> None:
        self._mended = MemoryStore(clock)
        self.is_broken = True
        self.hangs: asyncio.Event | None = None
        self.asked = 0

    async def count(self, limit: RateLimit, caller: str) -> Usage:
        self.asked += 1
        if self.hangs is not None:
            await self.hangs.wait()
        if self.is_broken:
            raise LimitsUnavailable("broken")
        return await self._mended.count(limit, caller)

    async def close(self) -> None:
        await self._mended.close()


async def test_only_one_request_a_second_waits_for_a_store_that_fails(clock: HandClock) -> None:
    shared = BrokenStore(clock)
    store = FallbackStore(shared, MemoryStore(clock), clock)
    for passed, is_broken, asked in (
        (0, True, 1),
        (RETRY - 1, True, 1),
        (1, True, 2),
        (-HOUR, True, 3),
        (RETRY, False, 13),
    ):
        clock.now += passed
        shared.is_broken = is_broken
        for _ in range(10):
            await store.count(SMALL, "a")
        assert shared.asked == asked
    assert store.failing_since is None


async def test_requests_that_arrive_during_a_retry_do_not_wait_for_it(clock: HandClock) -> None:
    shared = BrokenStore(clock)
    store = FallbackStore(shared, MemoryStore(clock), clock)
    await store.count(SMALL, "a")
    clock.now += RETRY
    shared.hangs = asyncio.Event()
    trying = asyncio.create_task(store.count(SMALL, "a"))
    await asyncio.sleep(0)
    assert [(await store.count(SMALL, "a")).remaining for _ in range(3)] == [3, 2, 1]
    shared.hangs.set()
    assert (await trying).remaining == 0
    assert shared.asked == 2
