"""What 10,000 rules cost a reading, and a thousand messages that fire at once."""

import asyncio
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from random import Random
from statistics import median

from msgspec.structs import replace

from barograph.alerts.judge import AlertJudge
from barograph.alerts.records import MAX_ALERTS
from barograph.alerts.rules import Rule
from barograph.alerts.store import add_alert, rules_version
from barograph.collector.jobs.alerts import AlertJob, alert_mails
from barograph.collector.jobs.deliveries import MailJob
from barograph.collector.judge import Judge, write_conclusions
from barograph.keys.api_keys import ApiKeys
from barograph.keys.outbox import Mail
from barograph.kit.clock import system_clock
from barograph.kit.database import Database, Transaction
from barograph.kit.lease import Lease
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from barograph.kit.opening import open_database
from barograph.kit.timestamps import DAY, MINUTE, SECOND
from barograph.settings import Settings
from barograph.venues.records import MAJORS, Perpetual, Perpetuals
from benchmarks import bench

VENUES = ("bybit", "hyperliquid", "binance", "gate", "aster")
CONTRACTS, RULES = 700, 10_000
COINS = (*MAJORS, *(f"C{number}" for number in range(CONTRACTS - len(MAJORS))))
START = 20_800 * DAY


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Judge readings of five venues by rules of every kind."""
    return asyncio.run(_measure(plan, folder))


async def _measure(plan: bench.Plan, folder: Path) -> bench.Section:
    rules, chance = plan.size(RULES, RULES // 10), Random(1)
    full, empty = await _database(folder / "full"), await _database(folder / "empty")
    await _fill(full, [_rule(chance) for _ in range(rules)])
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
            alerts.written(found.states)
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
            *await _burst(await _database(folder / "burst"), plan.size(1_000, 100)),
        ],
    )


async def _database(path: Path) -> Database:
    database = open_database(path)
    await upgrade(database, packaged_migrations(SERVICE, database.engine), lambda: START)
    return database


async def _fill(database: Database, rules: Iterable[Rule]) -> None:
    """Store rules, as many for each owner as one may have."""
    keys, left = ApiKeys(database, b"p" * 32, lambda: START), iter(rules)
    for number in count():
        owner, own = f"{number}@example.com", [*islice(left, MAX_ALERTS)]
        if not own:
            return
        await keys.create(owner)

        async def work(tx: Transaction, owner: str = owner, own: Sequence[Rule] = own) -> None:
            for rule in own:
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
        self.coins = [Perpetual(c, c, 100.0, 0.01, 8, 0, 1e7, 1e5) for c in COINS]

    def readings(self, count: int, step: int = MINUTE) -> Iterator[Perpetuals]:
        """So many rounds of readings of all venues."""
        gauss = self._chance.gauss
        for _ in range(count):
            self._now += step
            self.coins = [
                replace(
                    each,
                    last_price=each.last_price * (1 + gauss(0, 0.0005)),
                    funding_rate_pct=0.9 * each.funding_rate_pct + gauss(0.001, 0.002),
                    open_interest_coins=(each.open_interest_coins or 0) * (1 + gauss(0, 0.0005)),
                )
                for each in self.coins
            ]
            for venue in VENUES:
                yield Perpetuals(self._now, venue, tuple(self.coins), venue=venue)


async def _asked(database: Database) -> float:
    begun = time.perf_counter()
    await rules_version(database)
    return 1e3 * (time.perf_counter() - begun)


class _Sender:
    """A mail server that answers at once."""

    def __init__(self) -> None:
        self.times: list[int] = []
        self.has_sent = asyncio.Event()

    async def send(self, _: Mail) -> None:
        self.times.append(system_clock())
        self.has_sent.set()


async def _steady(
    read: Callable[[float], Awaitable[float]], sender: _Sender, prices: Iterable[int]
) -> list[float]:
    """The seconds from a reading that fires one rule until its mail is sent."""
    delays = []
    for price in prices:
        sender.has_sent.clear()
        at = system_clock()
        await read(float(price))
        await sender.has_sent.wait()
        delays.append((sender.times[-1] - at) / SECOND)
        await asyncio.sleep(Random(price).random())
    return sorted(delays)


async def _burst(database: Database, messages: int) -> list[bench.Figure]:
    """Many rules that fire in one reading, and the readings while their mails are sent."""
    limits = [*range(101, 101 + messages // 10), *[250] * messages][:messages]
    await _fill(
        database, [Rule("price", ("BTC",), "bybit", "above", each - 0.5) for each in limits]
    )
    judge, sender, clock = Judge(Settings()), _Sender(), system_clock
    lease = Lease(database, "collector", "here", clock=clock, milliseconds=600 * SECOND)
    await lease.acquire()
    await judge.load(database, clock())
    fields = Perpetual("BTC", "BTC", 100.0, 0.01, 8, 0, 1e7, 1e5), *_Market(Random(2)).coins[3:]

    async def read(price: float) -> float:
        at, begun = clock(), time.perf_counter()
        contracts = (replace(fields[0], last_price=price), *fields[1:])
        await judge.refresh(database, at)
        conclusion = judge.conclude(Perpetuals(at, "bybit", contracts), at)
        await write_conclusions(database, lease, [conclusion])
        judge.written(conclusion)
        return 1e3 * (time.perf_counter() - begun)

    jobs = (
        AlertJob(database, "https://example.com", clock=clock),
        MailJob(database, sender, clock=clock, alerts=alert_mails(database, clock)),
    )
    tasks = [asyncio.create_task(job(lease)) for job in jobs]
    before = [await read(100.0) for _ in range(10)]
    steady = await _steady(read, sender, range(101, 101 + messages // 10))
    fired_at, fired = clock(), await read(300.0)
    during = []
    sender.times.clear()
    while len(sender.times) < messages - len(steady):
        during.append(await read(300.0))
        await asyncio.sleep(0.5)
    for task in tasks:
        task.cancel()
    delays = sorted((at - fired_at) / SECOND for at in sender.times)
    return [
        bench.limited("from a reading to the mail, one at a time (p50)", median(steady), "s"),
        bench.limited("  (p99)", steady[int(0.99 * len(steady))], "s"),
        bench.limited("reading judged and stored", median(before[1:]), "ms"),
        bench.limited(f"  that fires {messages:,} messages", fired, "ms"),
        bench.limited("  while they are sent (p50)", median(during), "ms"),
        bench.limited(
            f"from a reading to the mail, {messages:,} at once (p50)", median(delays), "s"
        ),
        bench.limited("  (p99)", delays[int(0.99 * len(delays))], "s"),
    ]
