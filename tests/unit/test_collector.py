"""The collector measures, records, judges and publishes while it leads, and only then."""

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from barograph.board.board import read_payload, read_versions
from barograph.board.feeds import Feed
from barograph.collector.jobs.deliveries import MailJob
from barograph.collector.jobs.job import Job
from barograph.collector.leader import HOUSEKEEPING_SECONDS, Collector, collector_lease
from barograph.errors import (
    InvalidReply,
    LeaseLost,
    Throttled,
    UnknownToUpstream,
    Unreachable,
    UpstreamError,
)
from barograph.events.records import EVENTS
from barograph.keys.outbox import Mail, MailSender, put_mail
from barograph.kit.database import Database, DatabaseUnavailable, Row, Work
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import DAY
from barograph.markets.disputes import DISPUTES
from barograph.markets.market_events import LISTINGS, MAX_NEW
from barograph.markets.view import (
    BACKFILL,
    EXCHANGE_HEALTH,
    FEEDS,
    LAST_KNOWN,
    LONG_ACCOUNTS,
    PERPETUALS,
)
from barograph.settings import Settings
from barograph.signals.records import SIGNALS
from barograph.venues.exchange import Exchange, LiquidationWatcher
from barograph.venues.records import (
    ExchangeHealth,
    Liquidation,
    LongAccounts,
    Perpetual,
    Perpetuals,
)
from barograph.venues.registry import BYBIT, VENUES
from support.clock import START, HandClock
from support.databases import DatabaseDouble
from support.markets import BTC, ETH, MARKET, PEPE, SOL, SOURCE, changed, reading

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)

POLL = 5
LIQUIDATION = Liquidation(START - 1_000, "BTCUSDT", "long", 2.0, 50_000.0)
LATER = Liquidation(START - 500, "ETHUSDT", "short", 1.0, 3_000.0)
NEW = changed(PEPE, contract="NEWUSDT", base="NEW")
JUDGED = [
    *(SIGNALS.name, EVENTS.name, LISTINGS.name, DISPUTES.name),
    *(each.name for each in FEEDS if each is not BACKFILL),
    LAST_KNOWN.of(BYBIT).name,
]
"""The feeds of a reading."""


class ScriptedExchange:
    """An exchange that shows, hears and fails as it is told."""

    def __init__(self, clock: HandClock, venue: str = BYBIT) -> None:
        self.venue = VENUES[venue]
        self._clock = clock
        self._contracts: tuple[Perpetual, ...] = MARKET
        self._seconds = 0.0
        self.frozen: Perpetuals | None = None
        self.refused: dict[str, list[str]] = {}
        self._failure: Exception | None = None
        self._share_failure: UpstreamError | None = None
        self._watcher: LiquidationWatcher | None = None
        self._crash: asyncio.Future[None] | None = None
        self._listens = asyncio.Condition()
        self.calls: list[str] = []
        self.listened: list[tuple[str, ...]] = []

    @property
    def source(self) -> str:
        return SOURCE

    def lists(self, *contracts: Perpetual) -> None:
        self._contracts = contracts

    def fails_with(self, error: Exception) -> None:
        self._failure = error

    def takes_seconds(self, seconds: float) -> None:
        self._seconds = seconds

    def answers_again(self) -> None:
        self._failure = self._share_failure = None

    def has_no_shares(self, error: UpstreamError) -> None:
        self._share_failure = error

    def hears(self, *liquidations: Liquidation) -> None:
        assert self._watcher is not None, "nobody listens"
        self._watcher.liquidated(liquidations)

    def stops_listening_with(self, error: Exception) -> None:
        assert self._crash is not None, "nobody listens"
        self._crash.set_exception(error)

    async def is_listened_to(self, times: int) -> None:
        async with asyncio.timeout(30), self._listens:
            await self._listens.wait_for(lambda: len(self.listened) >= times)

    async def perpetuals(self) -> Perpetuals:
        self.calls.append("perpetuals")
        self._clock.pass_seconds(self._seconds)
        if self._failure is not None:
            raise self._failure
        now = self.frozen or reading(self._clock(), self._contracts)
        return msgspec.structs.replace(now, refused=self.refused, venue=self.venue.name)

    async def keep_up(self) -> None:
        await asyncio.Event().wait()

    async def long_accounts(self, contract: str) -> LongAccounts:
        self.calls.append(contract)
        if self._share_failure is not None:
            raise self._share_failure
        return LongAccounts(contract, 60.0, self._clock())

    async def listen(self, contracts: Sequence[str], watcher: LiquidationWatcher) -> None:
        self._watcher = watcher
        self._crash = asyncio.get_running_loop().create_future()
        async with self._listens:
            self.listened.append(tuple(contracts))
            self._listens.notify_all()
        await self._crash

    async def close(self) -> None:
        return


class PluggedDatabase(DatabaseDouble):
    """The real database, whose plug can be pulled, and which knows when nobody uses it."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.pulled = False
        self.at_work: set[asyncio.Future[Any]] = set()

    async def read(self, work: Work[T]) -> T:
        return await self._use(self._database.read, work)

    async def write(self, work: Work[T]) -> T:
        return await self._use(self._database.write, work)

    async def _use(self, verb: Callable[[Work[T]], Awaitable[T]], work: Work[T]) -> T:
        if self.pulled:
            raise DatabaseUnavailable("the plug is pulled")
        using = asyncio.ensure_future(verb(work))
        self.at_work.add(using)
        using.add_done_callback(self.at_work.discard)
        return await asyncio.shield(using)


class Sleepers:
    """Those who sleep by the hand clock; a frozen process is one whose sleepers are not woken."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock
        self._order = count()
        self._asleep: list[tuple[int, int, asyncio.Future[None]]] = []

    async def sleep(self, seconds: float) -> None:
        waking = asyncio.get_running_loop().create_future()
        due = self._clock() + round(seconds * 1000)
        heapq.heappush(self._asleep, (due, next(self._order), waking))
        await waking

    def wake_next(self, until: int) -> bool:
        """Wake who is due first, by `until` at the latest; tell whether anybody was."""
        while self._asleep and self._asleep[0][0] <= until:
            due, _, waking = heapq.heappop(self._asleep)
            if not waking.done():
                self._clock.now = max(self._clock.now, due)
                waking.set_result(None)
                return True
        return False


class World:
    """A clock, a database, an exchange, any number of collectors and what they log."""

    def __init__(self, folder: Path, logs: pytest.LogCaptureFixture, **settings: Any) -> None:
        self._times = {
            "lease_seconds": settings.pop("lease_seconds", 60),
            "share_seconds": settings.pop("share_seconds", 5),
        }
        self.settings = Settings.model_validate({"data": folder, "poll_seconds": POLL, **settings})
        self.clock = HandClock()
        self.database = PluggedDatabase(SQLiteDatabase(self.settings.database_path))
        self.exchanges = [ScriptedExchange(self.clock, each) for each in self.settings.venue_names]
        self.exchange = self.exchanges[0]
        self.rival = collector_lease(self.database, self.clock, self._times["lease_seconds"])
        self.logs = logs
        self._running: list[asyncio.Task[None]] = []

    async def start(self, mail: MailSender | None = None) -> tuple[Sleepers, "asyncio.Task[None]"]:
        """Start a collector and let it come to rest."""
        sleepers = Sleepers(self.clock)
        ports: Sequence[Exchange] = self.exchanges
        sleep, jobs = sleepers.sleep, list[Job]()
        if mail is not None:
            jobs.append(MailJob(self.database, mail, clock=self.clock, sleep=sleep))
        collector = Collector(
            self.settings,
            ports,
            self.database,
            clock=self.clock,
            sleep=sleep,
            jobs=jobs,
            **self._times,
        )
        running = asyncio.create_task(collector.run())
        self._running.append(running)
        await self.settle()
        return sleepers, running

    async def settle(self) -> None:
        """Let everybody go on until all of them wait for time to pass."""
        quiet = 0
        while quiet < 30:
            if self.database.at_work:
                await asyncio.wait(set(self.database.at_work))
                quiet = 0
            await asyncio.sleep(0)
            quiet += 1

    async def pass_seconds(self, seconds: float, *awake: Sleepers) -> None:
        end = self.clock.now + round(seconds * 1000)
        while any(each.wake_next(end) for each in awake):
            await self.settle()
        self.clock.now = max(self.clock.now, end)

    async def stop(self) -> None:
        self.database.pulled = False
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self.settle()
        await self.database.close()

    async def put_mail(self, subject: str) -> None:
        now = self.clock()

        await self.database.write(
            lambda tx: put_mail(tx, "a@b.example", subject, "text", now=now, give_up_at=now + DAY)
        )

    async def versions(self) -> dict[str, int]:
        return await self.database.read(read_versions)

    async def published(self, feed: Feed[R]) -> R:
        snapshot = await self.database.read(lambda tx: read_payload(tx, feed.name))
        assert snapshot is not None
        published = feed.decode(snapshot[1])
        assert published is not None
        return published

    async def fetch(self, sql: str) -> list[Row]:
        return await self.database.read(lambda tx: tx.fetch(sql))


class ScriptedServer:
    """A mail server that fails as it is told, then takes every mail."""

    def __init__(self, *failures: Exception) -> None:
        self._failures = list(failures)
        self.taken: list[str] = []

    async def send(self, mail: Mail) -> None:
        if self._failures:
            raise self._failures.pop(0)
        self.taken.append(mail.subject)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def world(
    tmp_path: Path,
    runner: asyncio.Runner,
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
) -> Iterator[World]:
    """A new world, with the settings that the test names."""
    world = World(tmp_path, caplog, **getattr(request, "param", {}))
    runner.run(upgrade(world.database, packaged_migrations(), world.clock))
    yield world
    runner.run(world.stop())


def settings(**values: Any) -> pytest.MarkDecorator:
    """Run a test in a world with these settings."""
    return pytest.mark.parametrize("world", [values], indirect=True, ids=["settings"])


async def test_the_majors_are_sampled_before_anything_is_published(world: World) -> None:
    other = msgspec.structs.replace(MARKET[0], contract="BTC2USDT")
    world.exchange.lists(other, *MARKET)  # a base that two contracts share is sampled once
    await world.start()

    assert world.exchange.calls == ["perpetuals", "BTCUSDT", "ETHUSDT", "SOLUSDT"]
    assert await world.versions() == dict.fromkeys(JUDGED, 1)
    shares = await world.published(LONG_ACCOUNTS)
    assert sorted(shares.shares) == ["BTCUSDT", "ETHUSDT", "SOLUSDT"]


@pytest.mark.parametrize("error", [UnknownToUpstream("no ratio"), Throttled("slow down", 5.0)])
@pytest.mark.outcome(
    "A contract has no long-account share, or one past its freshness limit",
    "`longAccountPct` is null. The other fields stay.",
)
async def test_the_market_is_published_without_shares(world: World, error: UpstreamError) -> None:
    world.exchange.has_no_shares(error)
    sleepers, _ = await world.start()
    await world.pass_seconds(20, sleepers)

    shares = await world.published(LONG_ACCOUNTS)
    assert shares.shares == {}
    assert await world.published(PERPETUALS) == reading(START + 20_000)


async def test_time_spent_on_a_reading_shortens_the_pause_after_it(world: World) -> None:
    world.exchange.takes_seconds(3)
    sleepers, _ = await world.start()
    assert world.clock() == START + 3_000
    await world.pass_seconds(2, sleepers)
    assert world.exchange.calls.count("perpetuals") == 2


@settings(share_seconds=1, poll_seconds=3)
async def test_shares_are_sampled_one_after_the_other_with_the_majors_first(world: World) -> None:
    world.exchange.lists(PEPE, NEW, SOL, ETH, BTC)
    sleepers, _ = await world.start()
    world.exchange.calls.clear()
    await world.pass_seconds(6, sleepers)

    sampled = [call for call in world.exchange.calls if call != "perpetuals"]
    names = ["BTCUSDT", "ETHUSDT", "SOLUSDT", "1000PEPEUSDT", "NEWUSDT"]
    assert sampled == [*names, "BTCUSDT"]


@pytest.mark.parametrize("is_frozen", [True, False])
async def test_a_reading_that_does_not_move_on_or_has_too_many_new_contracts_is_a_failure(
    world: World, is_frozen: bool
) -> None:
    sleepers, _ = await world.start()
    if is_frozen:
        world.exchange.frozen = await world.published(PERPETUALS)
    invented = (changed(NEW, contract=f"N{number}USDT") for number in range(MAX_NEW + 1))
    world.exchange.lists(*MARKET, *invented)
    await world.pass_seconds(POLL, sleepers)

    health = await world.published(EXCHANGE_HEALTH)
    assert health.failure == InvalidReply.kind == "invalid reply"
    assert await world.published(PERPETUALS) == reading(START)
    assert await world.fetch("SELECT id FROM events WHERE type = 'contract.listed'") == []


async def test_a_failing_exchange_is_published_as_health_until_it_answers(world: World) -> None:
    world.logs.set_level(logging.INFO)
    sleepers, _ = await world.start()
    world.exchange.fails_with(Unreachable("no answer"))
    before = await world.versions()
    await world.pass_seconds(4 * POLL, sleepers)

    health = ExchangeHealth(world.clock(), "unreachable", START + POLL * 1_000)
    assert await world.published(EXCHANGE_HEALTH) == health
    after = await world.versions()
    for feed in ("perpetuals", "long-accounts", "regime"):
        assert after[feed] == before[feed]

    world.exchange.answers_again()
    await world.pass_seconds(POLL, sleepers)
    assert await world.published(EXCHANGE_HEALTH) == ExchangeHealth(world.clock())
    assert await world.published(PERPETUALS) == reading(world.clock())
    for event in ("exchange fails", "exchange answers again"):
        assert world.logs.messages.count(event) == 1


async def test_a_collector_that_starts_in_an_outage_publishes_later(world: World) -> None:
    world.exchange.fails_with(Throttled("slow down", 5.0))
    sleepers, _ = await world.start()
    assert sorted(await world.versions()) == ["exchange-health", "liquidations"]
    world.exchange.answers_again()
    await world.pass_seconds(POLL, sleepers)

    shares = await world.published(LONG_ACCOUNTS)
    assert len(shares.shares) == 3
    assert await world.published(PERPETUALS) == reading(world.clock())


@pytest.mark.outcome(
    "The database rejects a write of the collector",
    "The collector keeps the data and stores it with the next reading.",
)
async def test_data_of_a_failed_write_is_stored_by_the_next_write(world: World) -> None:
    sleepers, _ = await world.start()
    world.exchange.hears(LIQUIDATION, LIQUIDATION)
    world.exchange.hears(LIQUIDATION)
    world.database.pulled = True
    await world.pass_seconds(2 * POLL, sleepers)
    world.exchange.hears(LATER)
    world.database.pulled = False
    assert await world.fetch("SELECT at FROM liquidations") == []
    await world.pass_seconds(POLL, sleepers)

    stored = await world.fetch("SELECT at FROM liquidations ORDER BY at")
    assert stored == [(LIQUIDATION.at,), (LATER.at,)]
    assert await world.published(PERPETUALS) == reading(world.clock())
    assert world.logs.messages == ["reading not stored; its liquidations go with the next"] * 2


SLOW = {"poll_seconds": 59, "feed_max_age_seconds": 70, "lease_seconds": 300, "share_seconds": 1000}


@pytest.mark.parametrize(
    ("world", "seconds"),
    [({}, 20), (SLOW, HOUSEKEEPING_SECONDS)],
    indirect=["world"],
    ids=["a renewal", "a clean-up"],
)
async def test_what_was_heard_survives_a_database_outage(world: World, seconds: float) -> None:
    sleepers, _ = await world.start()
    await world.pass_seconds(seconds - 1, sleepers)
    world.exchange.hears(LIQUIDATION)
    world.database.pulled = True
    await world.pass_seconds(2, sleepers)
    world.database.pulled = False
    await world.pass_seconds(60, sleepers)

    assert await world.fetch("SELECT at FROM liquidations") == [(LIQUIDATION.at,)]


@settings(**SLOW | {"poll_seconds": 60})
async def test_what_is_past_its_retention_is_dropped_by_the_leader(world: World) -> None:
    old = Liquidation(START - 91 * DAY, "BTCUSDT", "long", 1.0, 1.0)
    sleepers, _ = await world.start()
    world.exchange.hears(old, LIQUIDATION)
    await world.pass_seconds(60, sleepers)
    assert len(await world.fetch("SELECT at FROM liquidations")) == 2
    await world.pass_seconds(HOUSEKEEPING_SECONDS, sleepers)

    assert await world.fetch("SELECT at FROM liquidations") == [(LIQUIDATION.at,)]


@settings(lease_seconds=15, poll_seconds=20)
async def test_a_leader_keeps_its_lease_for_as_long_as_it_runs(world: World) -> None:
    sleepers, _ = await world.start()
    for _ in range(20):
        await world.pass_seconds(10, sleepers)
        assert not await world.rival.acquire()


@pytest.mark.outcome(
    "The leading collector freezes, or can't reach PostgreSQL",
    "Another takes over when the lease expires. The old one writes nothing when it is back, "
    "and goes on standby.",
)
async def test_frozen_leader_writes_nothing_on_waking_and_can_lead_again(world: World) -> None:
    sleepers, running = await world.start()
    world.clock.pass_seconds(60)
    assert await world.rival.acquire()
    before = await world.versions()
    world.exchange.hears(LIQUIDATION)

    await world.pass_seconds(50, sleepers)
    assert not running.done()
    assert await world.versions() == before
    assert await world.fetch("SELECT at FROM liquidations") == []

    await world.rival.release()
    await world.pass_seconds(30, sleepers)
    assert (await world.versions())["perpetuals"] > before["perpetuals"]
    assert not await world.rival.acquire()


async def test_who_stands_by_asks_the_exchange_nothing(world: World) -> None:
    await world.rival.acquire()
    sleepers, _ = await world.start()
    await world.pass_seconds(50, sleepers)

    assert world.exchange.calls == []
    assert world.exchange.listened == []
    assert await world.versions() == {}


async def test_a_second_collector_continues_the_record_of_a_frozen_one(world: World) -> None:
    first, _ = await world.start()
    world.exchange.hears(LIQUIDATION)
    await world.pass_seconds(POLL, first)
    second, _ = await world.start()
    before = await world.versions()
    await world.pass_seconds(59, second)
    assert await world.versions() == before
    await world.pass_seconds(31, second)

    after = await world.versions()
    assert after["perpetuals"] > before["perpetuals"]
    assert await world.fetch("SELECT count(*) FROM regime_changes") == [(1,)]

    await world.pass_seconds(POLL, first)
    assert await world.versions() == after
    assert await world.fetch("SELECT count(*) FROM liquidations") == [(1,)]


@pytest.mark.outcome(
    "The leading collector is stopped",
    "It releases the lease, and another collector leads as soon as it asks.",
)
async def test_a_second_collector_takes_over_when_the_first_is_stopped(world: World) -> None:
    _, running = await world.start()
    second, _ = await world.start()
    running.cancel()
    await world.settle()
    before = await world.versions()
    await world.pass_seconds(20, second)

    assert (await world.versions())["perpetuals"] > before["perpetuals"]


async def test_a_collector_can_be_stopped_while_the_database_is_away(world: World) -> None:
    _, running = await world.start()
    world.database.pulled = True
    running.cancel()
    await asyncio.wait([running])

    assert running.cancelled()
    assert world.logs.records[-1].message == "lease not released; it will expire"


async def test_a_collector_started_without_a_database_leads_once_it_is_there(world: World) -> None:
    world.database.pulled = True
    sleepers, running = await world.start()
    await world.pass_seconds(60, sleepers)
    assert not running.done()
    world.database.pulled = False
    await world.pass_seconds(20, sleepers)

    assert await world.versions() == dict.fromkeys(JUDGED, 1)


@pytest.mark.parametrize(
    ("listed", "refused", "listened"),
    [
        pytest.param(
            (PEPE, changed(NEW, open_interest_usd=9e9), SOL, ETH, BTC),
            {},
            ("BTCUSDT", "ETHUSDT", "SOLUSDT", "NEWUSDT", "1000PEPEUSDT"),
            id="the largest first",
        ),
        pytest.param(
            (ETH, SOL),
            {"lastPrice": ["BTCUSDT"]},
            ("ETHUSDT", "SOLUSDT", "BTCUSDT"),
            id="also one whose price is refused",
        ),
    ],
)
async def test_every_contract_is_listened_to(
    world: World,
    listed: tuple[Perpetual, ...],
    refused: dict[str, list[str]],
    listened: tuple[str, ...],
) -> None:
    world.exchange.lists(*listed)
    world.exchange.refused = refused
    await world.start()
    await world.exchange.is_listened_to(1)

    assert world.exchange.listened == [listened]


@settings(poll_seconds=0.01)
async def test_listening_starts_anew_when_a_contract_is_added(world: World) -> None:
    sleepers, _ = await world.start()
    await world.exchange.is_listened_to(1)
    world.exchange.lists(*MARKET, NEW)
    await world.pass_seconds(0.01, sleepers)
    await world.exchange.is_listened_to(2)

    assert "NEWUSDT" not in world.exchange.listened[0]
    assert "NEWUSDT" in world.exchange.listened[1]
    world.exchange.hears(LIQUIDATION)
    await world.pass_seconds(0.01, sleepers)
    assert await world.fetch("SELECT at FROM liquidations") == [(LIQUIDATION.at,)]


async def test_listening_starts_again_after_a_crash_which_is_logged(world: World) -> None:
    sleepers, _ = await world.start()
    await world.exchange.is_listened_to(1)
    crash = ZeroDivisionError("a mistake")
    world.exchange.stops_listening_with(crash)
    await world.settle()
    await world.pass_seconds(POLL, sleepers)
    await world.exchange.is_listened_to(2)

    assert [record.exc_info[1] for record in world.logs.records if record.exc_info] == [crash]
    assert await world.published(PERPETUALS) == reading(START + POLL * 1_000)


@settings(venues="bybit,binance")
async def test_a_venue_that_fails_unexpectedly_stops_no_other(world: World) -> None:
    unstorable = Liquidation(START, "BTC\0USDT", "long", 1.0, 1.0)
    sleepers, running = await world.start()
    standby = world.exchanges[1]
    await standby.is_listened_to(1)
    standby.lists(changed(BTC, contract="BTC\0USDT"))
    standby.hears(unstorable)
    await world.pass_seconds(3 * POLL, sleepers)

    assert await world.published(PERPETUALS) == reading(world.clock())
    assert not running.done()
    assert {record.message for record in world.logs.records if record.exc_info} == {
        "exchange fails",
        "venue failed",
    }


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (LeaseLost("another one leads"), "collector lost the lease"),
        (DatabaseUnavailable("the plug is pulled"), "collector cannot use the database"),
    ],
)
async def test_a_lost_lease_or_database_is_no_failure_of_a_venue(
    world: World, error: Exception, logged: str
) -> None:
    sleepers, running = await world.start()
    world.exchange.fails_with(error)
    await world.pass_seconds(POLL, sleepers)

    assert world.logs.messages == [logged]
    assert not running.done()


@pytest.mark.outcome(
    "Sending an e-mail fails unexpectedly",
    "The collector keeps collecting and retries the e-mail a minute later.",
)
async def test_unexpected_mail_failure_does_not_stop_collecting(world: World) -> None:
    server = ScriptedServer(ZeroDivisionError("a mistake"))
    sleepers, running = await world.start(server)
    await world.put_mail("first")
    await world.pass_seconds(1, sleepers)
    await world.put_mail("second")
    await world.pass_seconds(POLL, sleepers)

    assert server.taken == ["second"]
    assert [record.message for record in world.logs.records if record.exc_info] == [
        "mails cannot be sent"
    ]
    assert not running.done()
    assert await world.published(PERPETUALS) == reading(START + POLL * 1_000)
    await world.pass_seconds(60, sleepers)
    assert server.taken == ["second", "first"]


async def test_a_lease_that_is_lost_while_mails_are_sent_ends_the_leading(world: World) -> None:
    sleepers, running = await world.start(ScriptedServer(LeaseLost("another one leads")))
    await world.put_mail("first")
    await world.pass_seconds(1, sleepers)

    assert world.logs.messages == ["collector lost the lease"]
    assert not running.done()
