"""Carries the demo's past through the collector's own record, judge and publish functions.

What the simulated exchange said comes from `replay_glimpses`, as it would come live.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from urllib.parse import parse_qsl

import httpx2

from barograph.board.board import latest_snapshot
from barograph.collector.app import macro_sources
from barograph.collector.jobs import MacroJob, SettlementJob
from barograph.collector.judge import Conclusion, Judge, write_conclusions
from barograph.collector.leader import collector_lease
from barograph.demo.replay.observations import Glimpse, glimpses
from barograph.demo.servers.macro_files import answer as answer_publisher
from barograph.demo.servers.rest import answer as answer_exchange
from barograph.demo.world.macro import MacroWorld
from barograph.demo.world.world import World, corrections
from barograph.errors import ConfigurationError
from barograph.history.ledger import Ledger
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.records import Perpetuals
from barograph.markets.settlements import REVISION_DELAY
from barograph.markets.view import PERPETUALS
from barograph.settings import Settings
from barograph.stances.funding import KIND as FUNDING
from barograph.stances.issue import StanceIssuer
from barograph.stances.revise import revision_of
from barograph.upstream.bybit import BybitExchange
from barograph.upstream.files import FileClient

STANCE_DAYS = 31
"""Stances are carried for so many days, figures for as long as they need before that."""

SETTLEMENT_HOURS = 8
FILE_SECONDS = 20.0
REVISED_EVERY = 25
"""Of so many funding stances a simulated operator decides one anew."""


class PastRecord:
    """Figures and stances of the past, at the instants at which something changed."""

    def __init__(
        self, settings: Settings, world: World, database: Database, history: Database, lease: Lease
    ) -> None:
        self._world = world
        self._figures = MacroWorld(world)
        self._lease = lease
        self._at = 0
        self._begun = False
        files = FileClient(
            seconds=FILE_SECONDS, clock=self._clock, transport=_Publishers(self._figures, self)
        )
        sources = macro_sources(settings, files, clock=self._clock)
        self._ledger = Ledger(history, self._clock)
        self._macro = MacroJob(sources, database, seconds=1, clock=self._clock)
        self._desk = StanceIssuer(settings, database, self._ledger, self._clock)
        self._files = files
        self._exchange = BybitExchange(
            settings, clock=self._clock, transport=_Exchange(world, self)
        )
        self._settlements = SettlementJob(self._exchange, database, clock=self._clock)

    @property
    def at(self) -> int:
        """The instant that is being carried."""
        return self._at

    def is_due(self, since: int, at: int, now: int) -> bool:
        """Whether stances are to be issued at `at`, which comes after `since`."""
        if at < now - STANCE_DAYS * DAY:
            return False
        if not self._begun or self._figures.releases(since, at):
            return True
        stood = corrections(self._world.seed, since - REVISION_DELAY, at - REVISION_DELAY)
        return bool(stood) or self._is_reported(since, at)

    async def issue(self, since: int, at: int) -> None:
        """Read what came out since then and issue what follows from it."""
        self._at = at
        if not self._begun:
            await self._ledger.announce_leader(self._lease.token)
        if not self._begun or self._figures.releases(since, at):
            await self._macro.run_once(self._lease)
        if not self._begun or self._is_reported(since, at):
            await self._settlements.run_once(self._lease)
        self._begun = True
        await self._desk.issue(self._lease)
        await self._decide_anew()

    async def close(self) -> None:
        """Let the publishers and the exchange go."""
        await self._files.close()
        await self._exchange.close()

    def _is_reported(self, since: int, at: int) -> bool:
        """Whether the exchange reports a new settlement since then, or an old one anew."""
        interval = SETTLEMENT_HOURS * HOUR
        return since // interval != at // interval or bool(corrections(self._world.seed, since, at))

    async def _decide_anew(self) -> None:
        """Now and then somebody decides otherwise on the same evidence, as an operator would."""
        newest = await self._ledger.newest_versions(FUNDING, 1)
        if newest and newest[0].sequence % REVISED_EVERY == 0 and newest[0].revision == 1:
            proposal = revision_of(
                newest,
                FUNDING,
                label="stand-aside",
                why="A simulated operator stands aside until the next settlement.",
                by="operator (demo)",
                now=self._at,
            )
            await self._ledger.append(proposal, expected_head=newest[0].history_digest)

    def _clock(self) -> int:
        return self._at


class _Publishers(httpx2.AsyncBaseTransport):
    """The simulated publishers without a network between."""

    def __init__(self, figures: MacroWorld, past: PastRecord) -> None:
        self._figures = figures
        self._past = past

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        found = answer_publisher(self._figures, request.url.path, _query(request), self._past.at)
        fields = {"content-type": found.content_type}
        return httpx2.Response(int(found.status), headers=fields, content=found.body)


class _Exchange(httpx2.AsyncBaseTransport):
    """The simulated exchange without a network between."""

    def __init__(self, world: World, past: PastRecord) -> None:
        self._world = world
        self._past = past

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        status, body = answer_exchange(
            self._world, request.url.path, _query(request), self._past.at
        )
        return httpx2.Response(status, headers={"content-type": "application/json"}, content=body)


def _query(request: httpx2.Request) -> dict[str, str]:
    return dict(parse_qsl(request.url.query.decode(), keep_blank_values=True))


MAX_ROWS = 5_000
"""No transaction is larger: beside a huge one every small write would wait."""

FINE_MS = 2 * DAY
"""The last two days are carried in steps of five minutes, everything before by the hour."""

Databases = tuple[Database, Database]
"""The service's own and the record of stances."""

Progress = Callable[[int, int], None]
"""Told how many moments are done, and of how many."""


def moments(start: int, now: int) -> Iterator[int]:
    """The instants to carry after `start`: by the hour, then by five minutes, at last `now`."""
    at = start
    while at < now:
        step = 5 * MINUTE if at >= now - FINE_MS else HOUR
        at = min(at // step * step + step, now)
        yield at


async def replay(
    settings: Settings,
    world: World,
    databases: Databases,
    clock: Clock,
    progress: Progress,
) -> int:
    """Carry what the record lacks, up to now; return how many moments that was.

    Raises:
        ConfigurationError: a collector is at work on this record.
    """
    database, history = databases
    lease = collector_lease(settings, database, clock)
    await _lead(lease, settings)
    record = PastRecord(settings, world, database, history, lease)
    try:
        newest = await database.read(_newest)
        start = world.epoch if newest is None else newest
        past = _Past(settings, world, start)
        await past.desk.load(database, start)
        writer = _Writer(database, lease, record)
        carried = await _carry(past, writer, clock, progress)
    finally:
        await record.close()
        await lease.release()
    return carried


async def _carry(past: "_Past", writer: "_Writer", clock: Clock, progress: Progress) -> int:
    """Carry and store every moment from where the past stands; return how many there were."""
    now = clock()
    instants = list(moments(past.at, now))
    async with aclosing(glimpses(past.world, past.at, instants, clock)) as stretches:
        async for done, newest in stretches:
            for glimpse in newest:
                await writer.add(past.carry(glimpse))
                if await writer.issue(glimpse.since, glimpse.at, now):
                    await past.desk.refresh(writer.database, glimpse.at)
            progress(done, len(instants))
    await writer.flush()
    return len(instants)


async def _lead(lease: Lease, settings: Settings) -> None:
    """Take the lease, waiting for one that a killed collector left to run out.

    Raises:
        ConfigurationError: a living collector has it.
    """
    deadline = asyncio.get_running_loop().time() + settings.lease_seconds + 1
    while not await lease.acquire():
        if asyncio.get_running_loop().time() > deadline:
            raise ConfigurationError("a collector is at work on this folder: stop it first")
        await asyncio.sleep(settings.lease_seconds / 10)


class _Past:
    """The desk, looking at the exchange as it was."""

    def __init__(self, settings: Settings, world: World, start: int) -> None:
        self.world = world
        self.at = start
        self._source = settings.exchange_source
        self.desk = Judge(settings)

    def carry(self, glimpse: Glimpse) -> Conclusion:
        """Measure and judge one instant."""
        self.at = glimpse.at
        self.desk.watched(glimpse.since, glimpse.at)
        self.desk.liquidated(glimpse.liquidations)
        for share in glimpse.shares:
            self.desk.sampled(share)
        reading = Perpetuals(glimpse.at, self._source, glimpse.perpetuals)
        conclusion = self.desk.conclude(reading)
        self.desk.written(conclusion)
        return conclusion


class _Writer:
    """Stores conclusions, as many in one transaction as may be."""

    def __init__(self, database: Database, lease: Lease, record: PastRecord) -> None:
        self.database = database
        self._lease = lease
        self._record = record
        self._batch: list[Conclusion] = []
        self._rows = 0

    async def add(self, conclusion: Conclusion) -> None:
        if self._rows + conclusion.row_count > MAX_ROWS:
            await self.flush()
        self._batch.append(conclusion)
        self._rows += conclusion.row_count

    async def issue(self, since: int, at: int, now: int) -> bool:
        """Let stances be issued when something came that they rest on; tell whether it did."""
        if not self._record.is_due(since, at, now):
            return False
        await self.flush()
        await self._record.issue(since, at)
        return True

    async def flush(self) -> None:
        await self._lease.renew()
        await write_conclusions(self.database, self._lease, self._batch)
        self._batch, self._rows = [], 0


async def _newest(tx: Transaction) -> int | None:
    """When the last published reading was taken."""
    newest = await latest_snapshot(tx, PERPETUALS)
    return None if newest is None else newest.as_of
