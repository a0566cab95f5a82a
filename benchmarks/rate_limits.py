"""Rate limits: how many requests a worker counts per second of its CPU time."""

import asyncio
import time
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
OPERATIONS = 2_000
AT_ONCE = 50
HIGH = RateLimit("high", 1_000_000, HOUR)
CALLERS = tuple(f"198.18.{number >> 8}.{number & 255}" for number in range(2_000))


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
    figures = []
    for place, store in stores.items():
        for name, limit in (("accepted", HIGH), ("refused", ANONYMOUS)):
            rates = [await _spend(store, limit) for _ in range(rounds)]
            figures.append(bench.rate(f"{place}: {name}", median(rates)))
    server = psutil.Process(valkey.process.pid)
    before = bench.cpu_seconds([server])
    at_once = [await _spend_at_once(stores["in Valkey"]) for _ in range(rounds)]
    spent = bench.cpu_seconds([server]) - before
    figures += [
        bench.rate(f"in Valkey: {AT_ONCE} requests at once, accepted", median(at_once)),
        # All hosts share it.
        bench.rate("in Valkey: the server's own time", rounds * OPERATIONS / max(spent, 0.01)),
    ]
    admitted = [await _admit(MemoryStore(system_clock)) for _ in range(rounds)]
    figures.append(bench.rate("keyless request with its header fields", median(admitted)))
    for store in stores.values():
        await store.close()
    return figures


async def _spend_at_once(store: LimitStore) -> float:
    started = time.process_time()
    for _ in range(OPERATIONS // AT_ONCE):
        await asyncio.gather(*(store.count(HIGH, caller) for caller in CALLERS[:AT_ONCE]))
    return OPERATIONS / (time.process_time() - started)


async def _spend(store: LimitStore, limit: RateLimit) -> float:
    started = time.process_time()
    for _ in range(OPERATIONS):
        await store.count(limit, CALLERS[0])
    return OPERATIONS / (time.process_time() - started)


async def _admit(store: LimitStore) -> float:
    limiter = RateLimiter(store, _no_key, ())
    headers = [(b"host", b"barograph.example"), (b"accept", b"*/*"), (b"user-agent", b"benchmark")]
    scopes = [{"headers": headers, "client": (caller, 40_000)} for caller in CALLERS]
    started = time.process_time()
    for number in range(OPERATIONS):
        usage = await limiter.admit(scopes[number % len(scopes)])
        rate_limit_fields(usage, system_clock())
    return OPERATIONS / (time.process_time() - started)


async def _no_key(_: str) -> str | None:
    return None
