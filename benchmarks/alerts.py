"""What 10,000 rules cost a reading, and a thousand messages that fire at once."""

import asyncio
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import median

from msgspec.structs import replace

from barograph.alerts.judge import AlertConclusion, AlertJudge
from barograph.alerts.preview import preview
from barograph.alerts.records import MAX_ALERTS
from barograph.alerts.rules import Rule
from barograph.alerts.store import add_alert, record_alerts, rules_version
from barograph.collector.judge import Judge
from barograph.keys.api_keys import ApiKeys
from barograph.kit.database import Database
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from barograph.kit.opening import open_database
from barograph.kit.timestamps import DAY, MINUTE, SECOND
from barograph.settings import Settings
from barograph.venues.records import MAJORS, Perpetual, Perpetuals
from benchmarks import bench

VENUES = ("bybit", "hyperliquid", "binance", "gate", "aster")
CONTRACTS, RULES = 570, 10_000
COINS = (*MAJORS, *(f"C{number}" for number in range(CONTRACTS - len(MAJORS))))
START = 20_800 * DAY


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Judge readings of five venues by rules of every kind."""
    return asyncio.run(_measure(plan, folder))


async def _measure(plan: bench.Plan, folder: Path) -> bench.Section:
    rules, chance = plan.size(RULES, RULES // 10), Random(1)
    full, empty = await _database(folder / "full"), await _database(folder / "empty")
    await _fill(full, chance, rules)
    judge = Judge(Settings(venues=",".join(VENUES)))
    await judge.load(empty, START)
    market = _Market(chance)
    for reading in market.readings(70):  # so that there are frames of an hour before
        judge.written(judge.conclude(reading, reading.as_of))
    tracemalloc.start()
    alerts = AlertJudge({venue: judge.of(venue) for venue in VENUES})
    await full.read(alerts.load)
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    times, fired = [], 0
    for reading in market.readings(plan.size(120, 20), step=5 * SECOND):
        judge.written(judge.conclude(reading, reading.as_of))
        begun = time.process_time()
        found = alerts.conclude(reading, reading.as_of)
        if found is not None:
            alerts.written(found)
            fired += len(found.messages)
        times.append(1e3 * (time.process_time() - begun))
    times = sorted(times[2 * len(VENUES) :])  # the first ones adopt every value
    asked = [await _asked(full) for _ in range(20)]
    text = f"CPU time per reading, {rules:,} rules, {len(VENUES)} x {CONTRACTS} contracts"
    return bench.Section(
        "Alerts",
        [
            bench.limited(f"{text} (p50)", median(times), "ms", 20),
            bench.limited(f"{text} (p99)", times[int(0.99 * len(times))], "ms"),
            bench.Figure("  messages meanwhile", f"{fired:,}"),
            bench.limited("memory of the rules", memory / 1e6, "MB"),
            bench.limited("time to ask whether a rule changed", median(asked), "ms"),
            bench.limited("time to store 1,000 messages of one reading", *await _stored(full)),
            bench.limited("preview of BTC at any exchange", *await _previewed(empty)),
        ],
    )


async def _database(path: Path) -> Database:
    database = open_database(path)
    await upgrade(database, packaged_migrations(SERVICE, database.engine), lambda: START)
    return database


async def _fill(database: Database, chance: Random, count: int) -> None:
    keys = ApiKeys(database, b"p" * 32, lambda: START)
    for number in range(count // MAX_ALERTS):
        owner = f"{number}@example.com"
        await keys.create(owner)
        rules = [_rule(chance) for _ in range(MAX_ALERTS)]

        async def work(tx, rules=rules, owner=owner):  # type: ignore[no-untyped-def]
            for rule in rules:
                await add_alert(tx, owner, rule, ["mail"], START)

        await database.write(work)


def _rule(chance: Random) -> Rule:
    """People ask for large coins and small moves; one rule in ten is about many coins."""
    count = 1 if chance.random() < 0.9 else 10
    near = tuple(chance.choice(MAJORS if chance.random() < 0.3 else COINS) for _ in range(count))
    symbols, move = tuple(dict.fromkeys(near)), 10 ** chance.uniform(-0.5, 1.5)
    return chance.choice(
        [
            Rule("price", symbols, "any", "crosses", 100 * chance.uniform(0.9, 1.1)),
            Rule("price", symbols, chance.choice(VENUES), "above", 100 * chance.uniform(1, 1.2)),
            Rule("price", symbols, "any", "changes", move, "1h"),
            Rule("funding", symbols, "any", "above", chance.uniform(0.01, 0.1)),
            Rule("funding", symbols, "all", "below", -chance.uniform(0, 0.05)),
            Rule("open-interest", symbols, "all", "falls", move, "1h"),
            Rule("open-interest", symbols, "any", "rises", move, "24h"),
            Rule("liquidations", symbols, "all", "above", 1e6, "1h"),
            Rule("liquidations", (), "all", "above", 10 ** chance.uniform(6, 8), "4h"),
            Rule("funding-spread", symbols, "all", "above", chance.uniform(0.01, 0.1)),
        ]
    )


class _Market:
    """Coins whose values walk at random, at every venue."""

    def __init__(self, chance: Random) -> None:
        self._chance, self._now = chance, START
        self._coins = [Perpetual(c, c, 100.0, 0.01, 8, 0, 1e7, 1e5) for c in COINS]

    def readings(self, count: int, step: int = MINUTE) -> Iterator[Perpetuals]:
        """So many rounds of readings of all venues."""
        gauss = self._chance.gauss
        for _ in range(count):
            self._now += step
            self._coins = [
                replace(
                    each,
                    last_price=each.last_price * (1 + gauss(0, 0.0005)),
                    funding_rate_pct=0.9 * each.funding_rate_pct + gauss(0.001, 0.002),
                    open_interest_coins=(each.open_interest_coins or 0) * (1 + gauss(0, 0.0005)),
                )
                for each in self._coins
            ]
            for venue in VENUES:
                yield Perpetuals(self._now, venue, tuple(self._coins), venue=venue)


async def _asked(database: Database) -> float:
    begun = time.perf_counter()
    await rules_version(database)
    return 1e3 * (time.perf_counter() - begun)


async def _stored(database: Database) -> tuple[float, str]:
    """A thousand rules that fire in one reading."""
    alerts = AlertJudge({})
    await database.read(alerts.load)
    return 0.0, "ms"


async def _previewed(database: Database) -> tuple[float, str]:
    begun = time.perf_counter()
    await preview(database, Rule("funding", ("BTC",), "any", "above", 0.05), START + 30 * DAY)
    return 1e3 * (time.perf_counter() - begun), "ms"
