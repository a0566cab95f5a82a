"""Workers that share one file: exact counts, no addresses in it, and a bounded size."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest

from barograph.kit.timestamps import HOUR, SECOND
from barograph.limits.rate_limits import ANONYMOUS, PERSONAL, RateLimit, Usage
from barograph.limits.sqlite_store import SWEEP_EVERY, SWEEP_ROWS, SQLiteStore
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


@contextmanager
def worker(*arguments: object) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def stamps_of_workers(*arguments: object) -> list[int]:
    """Let workers loose at the same moment; the stamps of what they were granted, in order."""
    with ExitStack() as stack:
        workers = [stack.enter_context(worker(*arguments)) for _ in range(WORKERS)]
        for each in workers:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        for each in workers:
            assert each.stdin is not None
            each.stdin.write("\n")
            each.stdin.flush()
        printed = [each.communicate(timeout=60)[0] for each in workers]
        assert [each.returncode for each in workers] == [0] * WORKERS
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


def spend(store: SQLiteStore, limit: RateLimit, *callers: str) -> Usage:
    async def all_of_them() -> Usage:
        return [await store.count(limit, caller) for caller in callers][-1]

    return asyncio.run(all_of_them())


def rows(path: Path) -> list[Any]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    found = connection.execute("SELECT caller FROM hits").fetchall()
    connection.close()
    return found


def test_workers_go_on_with_what_the_last_ones_counted(tmp_path: Path) -> None:
    clock, path = HandClock(), tmp_path / "limits.sqlite3"
    first = SQLiteStore(path, clock, b"secret")
    spend(first, ANONYMOUS, *["a"] * 100)
    asyncio.run(first.close())
    assert spend(SQLiteStore(path, clock, b"secret"), ANONYMOUS, "a").remaining == 19


def test_rate_limit_file_contains_no_address_or_key_id(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "limits.sqlite3", HandClock(), b"secret")
    spend(store, ANONYMOUS, "203.0.113.7", "2001:db8:1:2::/64")
    spend(store, PERSONAL, "0123456789abcdef")
    content = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert content
    for name in (b"203.0.113.7", b"2001:db8", b"0123456789abcdef"):
        assert name not in content


def test_instances_with_different_secrets_store_the_same_caller_differently(tmp_path: Path) -> None:
    for name in ("one", "two"):
        spend(SQLiteStore(tmp_path / name, HandClock(), name.encode()), ANONYMOUS, "203.0.113.7")
    assert rows(tmp_path / "one") != rows(tmp_path / "two")


def test_idle_callers_leave_the_file(tmp_path: Path) -> None:
    clock, path = HandClock(), tmp_path / "limits.sqlite3"
    store = SQLiteStore(path, clock, b"secret")
    for crowd in range(6):
        spend(store, ANONYMOUS, *[f"{crowd}-{number}" for number in range(300)] * 2)
        clock.now += HOUR
    assert len(rows(path)) <= 2 * 2 * 300


def test_forgetting_a_busy_caller_takes_many_short_looks(tmp_path: Path) -> None:
    clock, path = HandClock(), tmp_path / "limits.sqlite3"
    store = SQLiteStore(path, clock, b"secret")
    spend(store, PERSONAL, *["busy"] * 1_000)
    clock.now += HOUR + SECOND

    sizes = [len(rows(path))]
    while sizes[-1] > SWEEP_EVERY and len(sizes) < 100:
        spend(store, ANONYMOUS, *[f"new-{len(sizes)}"] * SWEEP_EVERY)
        sizes.append(len(rows(path)) - SWEEP_EVERY * len(sizes))

    drops = [before - after for before, after in pairwise(sizes)]
    assert max(drops) == SWEEP_ROWS
    assert sizes[-1] == 0


def test_caller_that_comes_back_while_it_is_forgotten_starts_again(tmp_path: Path) -> None:
    clock, path = HandClock(), tmp_path / "limits.sqlite3"
    store = SQLiteStore(path, clock, b"secret")
    spend(store, PERSONAL, *["busy"] * 1_000)
    clock.now += HOUR + SECOND
    spend(store, ANONYMOUS, *["other"] * SWEEP_EVERY)
    assert 0 < len(rows(path)) - SWEEP_EVERY < 1_000

    assert spend(store, PERSONAL, "busy").remaining == 999
    clock.now += 1
    assert spend(store, PERSONAL, *["busy"] * 998).remaining == 1
    clock.now += HOUR - 1
    assert spend(store, PERSONAL, "busy").remaining == 1


def test_callers_in_the_window_stay_in_the_file(tmp_path: Path) -> None:
    clock, path = HandClock(), tmp_path / "limits.sqlite3"
    store = SQLiteStore(path, clock, b"secret")
    spend(store, ANONYMOUS, "early")
    clock.now += HOUR - 1
    spend(store, ANONYMOUS, *map(str, range(300)))
    assert spend(store, ANONYMOUS, "early").remaining == 118
    assert len(set(rows(path))) == 301


def test_changed_limit_starts_again(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "limits.sqlite3", HandClock(), b"secret")
    spend(store, RateLimit("anon", 5, HOUR), *["a"] * 5)
    assert spend(store, RateLimit("anon", 7, HOUR), "a").remaining == 6
