"""Workers that share one file: exact counts, no addresses in it, and a bounded size."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest

from barograph.kit.timestamps import HOUR, SECOND
from barograph.limits.rate_limits import ANONYMOUS, PERSONAL, RateLimit, Usage
from barograph.limits.sqlite_store import SWEEP_EVERY, SWEEP_ROWS, SQLiteStore
from support.backends import run_together, start_python
from support.clock import HandClock

WORKERS = 4

WORKER = """
import asyncio, sys
from pathlib import Path
from barograph.limits.rate_limits import RateLimit
from barograph.limits.sqlite_store import SQLiteStore
from barograph.kit.clock import system_clock

path, requests, window, attempts, until_accepted = sys.argv[1], *map(int, sys.argv[2:])
read = []  # the last reading during a request is the one under the lock: its stamp

def clock():
    read[:] = [system_clock()]
    return read[0]

async def work():
    store = SQLiteStore(Path(path), clock, b"secret", tries=10_000)  # the machine may be busy
    stamps, left = [], attempts
    while left > 0 or len(stamps) < until_accepted:
        usage = await store.count(RateLimit("small", requests, window), "203.0.113.7")
        left -= 1
        stamps += read if usage.accepted else []
    await store.close()
    print(*stamps)

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(work())
"""


def stamps_of_workers(*arguments: object) -> list[int]:
    """Let workers loose at the same moment; the stamps of what they were granted, in order."""
    printed = run_together(start_python(WORKER, *arguments) for _ in range(WORKERS))
    return sorted(int(stamp) for text in printed for stamp in text.split())


@pytest.mark.contract("limits.signals.anonymous")
def test_four_workers_at_once_accept_exactly_120_of_800(tmp_path: Path) -> None:
    granted = stamps_of_workers(tmp_path / "limits.sqlite3", 120, HOUR, 200, 0)
    assert len(granted) == 120


@pytest.mark.thorough
def test_four_workers_keep_every_short_window_exact_as_it_moves(tmp_path: Path) -> None:
    requests, window = 20, 200
    granted = stamps_of_workers(tmp_path / "limits.sqlite3", requests, window, 0, 20)
    assert len(granted) >= WORKERS * 20
    for first, beyond in zip(granted, granted[requests:], strict=False):
        assert beyond - first >= window


class Worker:
    """A store in a file, with a manual clock."""

    def __init__(self, path: Path, secret: bytes = b"secret") -> None:
        self.path, self.clock = path, HandClock()
        self.store = SQLiteStore(path, self.clock, secret)

    def spend(self, limit: RateLimit, *callers: str) -> Usage:
        async def all_of_them() -> Usage:
            return [await self.store.count(limit, caller) for caller in callers][-1]

        return asyncio.run(all_of_them())

    def rows(self) -> list[Any]:
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        callers = connection.execute("SELECT caller FROM hits").fetchall()
        connection.close()
        return callers


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    return Worker(tmp_path / "limits.sqlite3")


def test_workers_go_on_with_what_the_last_ones_counted(worker: Worker) -> None:
    worker.spend(ANONYMOUS, *["a"] * 100)
    asyncio.run(worker.store.close())
    assert Worker(worker.path).spend(ANONYMOUS, "a").remaining == 19


def test_rate_limit_file_contains_no_address_or_key_id(worker: Worker) -> None:
    worker.spend(ANONYMOUS, "203.0.113.7", "2001:db8:1:2::/64")
    worker.spend(PERSONAL, "0123456789abcdef")
    content = b"".join(file.read_bytes() for file in worker.path.parent.iterdir())
    assert content
    for name in (b"203.0.113.7", b"2001:db8", b"0123456789abcdef"):
        assert name not in content


def test_instances_with_different_secrets_store_the_same_caller_differently(tmp_path: Path) -> None:
    one, two = (Worker(tmp_path / name, name.encode()) for name in ("one", "two"))
    for worker in (one, two):
        worker.spend(ANONYMOUS, "203.0.113.7")
    assert one.rows() != two.rows()


def test_idle_callers_leave_the_file(worker: Worker) -> None:
    for crowd in range(6):
        worker.spend(ANONYMOUS, *[f"{crowd}-{number}" for number in range(300)] * 2)
        worker.clock.now += HOUR
    assert len(worker.rows()) <= 2 * 2 * 300


def test_forgetting_a_busy_caller_takes_many_short_looks(worker: Worker) -> None:
    worker.spend(PERSONAL, *["busy"] * 1_000)
    worker.clock.now += HOUR + SECOND

    sizes = [len(worker.rows())]
    while sizes[-1] > SWEEP_EVERY and len(sizes) < 100:
        worker.spend(ANONYMOUS, *[f"new-{len(sizes)}"] * SWEEP_EVERY)
        sizes.append(len(worker.rows()) - SWEEP_EVERY * len(sizes))

    drops = [before - after for before, after in pairwise(sizes)]
    assert max(drops) == SWEEP_ROWS
    assert sizes[-1] == 0


def test_caller_that_comes_back_while_it_is_forgotten_starts_again(worker: Worker) -> None:
    worker.spend(PERSONAL, *["busy"] * 1_000)
    worker.clock.now += HOUR + SECOND
    worker.spend(ANONYMOUS, *["other"] * SWEEP_EVERY)
    assert 0 < len(worker.rows()) - SWEEP_EVERY < 1_000

    assert worker.spend(PERSONAL, "busy").remaining == 999
    worker.clock.now += 1
    assert worker.spend(PERSONAL, *["busy"] * 998).remaining == 1
    worker.clock.now += HOUR - 1
    assert worker.spend(PERSONAL, "busy").remaining == 1


def test_callers_in_the_window_stay_in_the_file(worker: Worker) -> None:
    worker.spend(ANONYMOUS, "early")
    worker.clock.now += HOUR - 1
    worker.spend(ANONYMOUS, *map(str, range(300)))
    assert worker.spend(ANONYMOUS, "early").remaining == 118
    assert len(set(worker.rows())) == 301


def test_changed_limit_starts_again(worker: Worker) -> None:
    worker.spend(RateLimit("anon", 5, HOUR), *["a"] * 5)
    assert worker.spend(RateLimit("anon", 7, HOUR), "a").remaining == 6
