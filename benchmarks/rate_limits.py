"""Rate limits: how many requests a worker counts per second of its CPU time."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import psutil

from barograph.kit.clock import system_clock
from barograph.kit.timestamps import HOUR
from barograph.limits.rate_limits import (
    ANONYMOUS,
    LimitStore,
    RateLimit,
    RateLimiter,
    rate_limit_fields,
)
from barograph.limits.sqlite_store import SQLiteStore
from barograph.limits.stores import MemoryStore
from barograph.limits.valkey_store import ValkeyStore
from benchmarks import bench
from support.valkey import Valkey, running_valkey

TITLE = "Rate limits: operations per CPU-second, median of the rounds"
OPERATIONS = 5_000
AT_ONCE = 50
SERVER_ROUNDS = 4
HIGH = RateLimit("high", 1_000_000, HOUR)
ONE = ("203.0.113.7",)
MANY = tuple(f"198.18.{number >> 8}.{number & 255}" for number in range(2_000))


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Count in memory, in the shared file and in Valkey, and pass the whole limiter."""
    with running_valkey() as valkey:
        return bench.Section(TITLE, asyncio.run(_measure(plan.rounds, folder, valkey)))


async def _measure(rounds: int, folder: Path, valkey: Valkey) -> list[bench.Figure]:
    stores: dict[str, LimitStore] = {
        "in memory": MemoryStore(system_clock),
        "in the shared file": SQLiteStore(folder / "limits.sqlite3", system_clock, b"secret"),
        "in Valkey": ValkeyStore(f"{valkey.url}?socket_timeout=5", b"secret"),
    }
    cases: tuple[tuple[str, RateLimit, Sequence[str]], ...] = (
        ("one caller, accepted", HIGH, ONE),
        (f"{len(MANY):,} callers, accepted", HIGH, MANY),
        ("one caller, refused", ANONYMOUS, ONE),
    )
    figures, medians = [], {}
    for place, store in stores.items():
        for name, limit, callers in cases:
            rates = [await _spend(store, limit, callers) for _ in range(rounds)]
            figures.append(_figure(f"{place}: {name}", rates))
            medians[place] = median(rates)
    at_once = [await _spend_at_once(stores["in Valkey"]) for _ in range(rounds)]
    figures.append(_figure(f"in Valkey: {AT_ONCE} requests at once, accepted", at_once))
    figures.append(await _server_cost(stores["in Valkey"], psutil.Process(valkey.process.pid)))
    ratio = medians["in the shared file"] / medians["in Valkey"]
    figures.append(
        bench.Figure("CPU time per refused request, Valkey / shared file", f"{ratio:.1f}")
    )
    rates = [await _admit(MemoryStore(system_clock)) for _ in range(rounds)]
    figures.append(_figure("keyless request with its header fields", rates))
    for store in stores.values():
        await store.close()
    return figures


async def _spend_at_once(store: LimitStore) -> float:
    started = time.process_time()
    for _ in range(OPERATIONS // AT_ONCE):
        await asyncio.gather(*(store.count(HIGH, caller) for caller in MANY[:AT_ONCE]))
    return OPERATIONS / (time.process_time() - started)


async def _server_cost(store: LimitStore, process: psutil.Process) -> bench.Figure:
    """CPU time of the server, which all hosts share."""
    before = bench.cpu_seconds([process])
    for _ in range(SERVER_ROUNDS):
        await _spend_at_once(store)
    spent = bench.cpu_seconds([process]) - before
    return _figure("in Valkey: the server's own time", [SERVER_ROUNDS * OPERATIONS / spent])


async def _spend(store: LimitStore, limit: RateLimit, callers: Sequence[str]) -> float:
    started = time.process_time()
    for number in range(OPERATIONS):
        await store.count(limit, callers[number % len(callers)])
    return OPERATIONS / (time.process_time() - started)


async def _admit(store: LimitStore) -> float:
    limiter = RateLimiter(store, _no_key, ())
    headers = [(b"host", b"barograph.example"), (b"accept", b"*/*"), (b"user-agent", b"benchmark")]
    scopes = [{"headers": headers, "client": (caller, 40_000)} for caller in MANY]
    started = time.process_time()
    for number in range(OPERATIONS):
        usage = await limiter.admit(scopes[number % len(scopes)])
        rate_limit_fields(usage, system_clock())
    return OPERATIONS / (time.process_time() - started)


async def _no_key(_: str) -> str | None:
    return None


def _figure(name: str, rates: Sequence[float]) -> bench.Figure:
    rate = median(rates)
    return bench.Figure(name, f"{rate:,.0f} ({1_000_000 / rate:.1f} µs each)")
