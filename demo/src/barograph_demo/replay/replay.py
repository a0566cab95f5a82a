"""Replays the demo's past through the collector's own code: record, judge, publish."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import aclosing
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

from barograph.accuracy.assess import record_definition
from barograph.board.board import latest_snapshot
from barograph.collector.app import macro_sources
from barograph.collector.jobs.market_data import MacroJob
from barograph.collector.jobs.stances import AccuracyJob
from barograph.collector.judge import Conclusion, Judge, write_conclusions
from barograph.collector.leader import LEASE_SECONDS, collector_lease
from barograph.errors import ConfigurationError, UnknownToUpstream
from barograph.history.ledger import Ledger
from barograph.history.records import KINDS
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, HOUR
from barograph.macro.evidence import day_of
from barograph.macro.store import import_figures
from barograph.markets.judge import MarketConclusion
from barograph.markets.settlements import REVISION_DELAY
from barograph.markets.store import record_settlement_reports
from barograph.markets.view import PERPETUALS
from barograph.settings import Settings
from barograph.stances.funding import KIND as FUNDING
from barograph.stances.issue import StanceIssuer
from barograph.stances.log_entries import LogEntries
from barograph.stances.revise import revision_of
from barograph.upstream.etf import decode_history
from barograph.upstream.files import FileClient
from barograph.venues.records import MAJORS, Perpetuals
from barograph.venues.registry import BYBIT, VENUES
from barograph_demo.replay.observations import FINE_MS, MarketObservation, observe, settled_rates_of
from barograph_demo.replay.other_venues import VenuePast
from barograph_demo.servers.macro_files import answer as answer_publisher
from barograph_demo.servers.macro_files import fund_history
from barograph_demo.world.macro import MacroWorld
from barograph_demo.world.world import World, corrections

FUND_DAYS = 30
"""Days of the fund before the first stance. Its issuer publishes only the newest day, so the demo
imports them, as an operator would."""

SETTLEMENT_HOURS = 8
REVISED_EVERY = 25
"""A simulated operator revises one of this many funding stances."""

MAX_ROWS = 5_000
"""The largest transaction. Small writes would have to wait for a larger one."""

JUDGED_EVERY = 4 * HOUR
"""How often the whole market is judged before the last day: the grid of the longest chart. The
collector back-fills the hours between, except for BTC, ETH and SOL."""

Databases = tuple[Database, Database]
"""The service database and the history."""

Progress = Callable[[int, int], None]
"""Called with the number of moments done and their total."""


def moments(start: int, now: int, news: Collection[int] = ()) -> list[int]:
    """When to judge after `start`: every four hours, every hour of the last day, `news` and now."""
    coarse = now - FINE_MS - JUDGED_EVERY
    hours = range(start // HOUR * HOUR + HOUR, now, HOUR)
    judged = {at for at in hours if at > coarse or at % JUDGED_EVERY == 0}
    return sorted({*judged, *(at for at in news if start < at < now), *[now][: now > start]})


async def replay(
    settings: Settings,
    world: World,
    databases: Databases,
    clock: Clock,
    progress: Progress,
    wait_seconds: float = LEASE_SECONDS + 1,
) -> int:
    """Replay what the databases lack, up to now; return the number of moments.

    Raises:
        ConfigurationError: a collector is running on these databases.
    """
    database, history = databases
    lease = collector_lease(database, clock)
    await wait_until(lease.acquire, wait_seconds)
    stances = StanceReplay(settings, world, database, history, lease)
    writer, others = (_Writer(database, lease, stances) for _ in range(2))
    try:
        newest = await database.read(_newest)
        start = world.epoch if newest is None else newest
        past = _MarketReplay(settings, world, start)
        await past.judge.load(database, start)
        count = await _replay(past, writer, others, clock, progress)
        await stances.assess(clock())
        return count
    finally:
        await writer.stop()
        # A replay that goes on later begins at the newest reading of Bybit.
        await others.flush()
        await others.finish()
        await stances.close()
        await lease.release()


async def _replay(
    past: "_MarketReplay", writer: "_Writer", others: "_Writer", clock: Clock, progress: Progress
) -> int:
    """Write what the other venues recorded only in large batches, as nothing waits for it."""
    now = clock()
    instants = moments(past.start, now, _corrected(past.world, now))
    async with aclosing(observe(past.world, past.start, instants, clock)) as batches:
        async for done, newest in batches:
            for seen in newest:
                for conclusion in (*past.conclude_parts(seen), past.conclude(seen)):
                    await writer.add(conclusion)
                for other in seen.others:
                    await others.add(_of_other(other))
                if await writer.issue(seen.since, seen.at):
                    await past.judge.refresh(writer.database, seen.at)
                await asyncio.sleep(0)  # lets the running write continue
            progress(done, len(instants))
    await writer.flush()
    await writer.finish()
    return len(instants)


def _corrected(world: World, now: int) -> list[int]:
    """When a settled rate is corrected, and when it counts again."""
    corrected = corrections(world.seed, world.epoch, now)
    return [time for at in corrected for time in (at, at + REVISION_DELAY)]


def _of_other(past: VenuePast) -> Conclusion:
    """What the readings of a venue that wasn't in use recorded."""
    return Conclusion(
        MarketConclusion(past.venue, (), past.readings, frames=past.frames, listings=past.listings)
    )


async def wait_until(
    is_free: Callable[[], Awaitable[bool]], seconds: float = LEASE_SECONDS + 1
) -> None:
    """Wait for the lease; one that a killed collector left behind has to expire first.

    Raises:
        ConfigurationError: a running collector has it.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    while not await is_free():
        if asyncio.get_running_loop().time() > deadline:
            raise ConfigurationError("a demo is running on these databases: stop it first")
        await asyncio.sleep(seconds / 20)


class _MarketReplay:
    """Judges the market's past."""

    def __init__(self, settings: Settings, world: World, start: int) -> None:
        self.world = world
        self.start = start
        self._source = settings.exchange_source
        # The past of the other venues is recorded as it is, and judged by nothing.
        self.judge = Judge(settings.model_copy(update={"venues": BYBIT}))

    def conclude_parts(self, seen: MarketObservation) -> Iterator[Conclusion]:
        """Judge bitcoin and the liquidations before the whole market."""
        market, since = self.judge.of(BYBIT), seen.since
        for at, bitcoin, rows, frames in seen.between:
            market.watched(since, at)
            market.liquidated([each for each in seen.liquidations if since <= each.at < at])
            since = at
            known = Conclusion(MarketConclusion(BYBIT, (), rows, frames=frames))
            self.judge.written(known)  # first, because 24-hour changes need frames of all contracts
            yield known
            conclusion = self.judge.conclude_part(Perpetuals(at, self._source, (bitcoin,)))
            if conclusion is not None:
                self.judge.written(conclusion)
                if conclusion.events:
                    yield conclusion

    def conclude(self, seen: MarketObservation) -> Conclusion:
        market = self.judge.of(BYBIT)
        market.watched(seen.since, seen.at)
        since = seen.between[-1].at if seen.between else seen.since
        market.liquidated([each for each in seen.liquidations if each.at >= since])
        for share in seen.shares:
            market.sampled(share)
        reading = Perpetuals(seen.at, self._source, seen.perpetuals)
        conclusion = self.judge.conclude(reading)
        self.judge.written(conclusion)
        return conclusion


class _Writer:
    """Stores conclusions, many per transaction, while the next ones are judged.

    A server such as PostgreSQL works at the same time as this process.
    """

    def __init__(self, database: Database, lease: Lease, stances: "StanceReplay") -> None:
        self.database = database
        self._lease = lease
        self._stances = stances
        self._batch: list[Conclusion] = []
        self._rows = 0
        self._writing: asyncio.Task[None] | None = None

    async def add(self, conclusion: Conclusion) -> None:
        if self._rows + conclusion.row_count > MAX_ROWS:
            await self.flush()
        self._batch.append(conclusion)
        self._rows += conclusion.row_count

    async def issue(self, since: int, at: int) -> bool:
        """Read settled funding and issue stances if there is news; return whether there is."""
        if not self._stances.is_due(since, at):
            return False
        await self.flush()
        await self.finish()
        await self._stances.issue(since, at)
        return True

    async def flush(self) -> None:
        """Start to write the batch as soon as the one before is written."""
        await self.finish()
        self._writing = asyncio.create_task(self._write(self._batch))
        self._batch, self._rows = [], 0

    async def finish(self) -> None:
        """Wait until everything that was flushed is written."""
        if self._writing is not None:
            await self._writing

    async def stop(self) -> None:
        """Cancel a write that nobody waits for any more."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _write(self, batch: list[Conclusion]) -> None:
        await self._lease.renew()
        await write_conclusions(self.database, self._lease, batch)


async def _newest(tx: Transaction) -> int | None:
    """The time of the last published reading."""
    newest = await latest_snapshot(tx, PERPETUALS)
    return None if newest is None else newest.as_of


class StanceReplay:
    """Issues the stances of the past, whenever their evidence changed."""

    def __init__(
        self, settings: Settings, world: World, database: Database, history: Database, lease: Lease
    ) -> None:
        self._settings = settings
        self._database = database
        self._world = world
        self._figures = MacroWorld(world)
        self._lease = lease
        self._at = 0
        self._begun = False
        files = _DirectFiles(self._figures, self._clock)
        self._sources = macro_sources(settings, files, clock=self._clock)
        self._ledger = Ledger(history, self._clock)
        self._macro = MacroJob(self._sources, database, seconds=1, clock=self._clock)
        self._issuer = StanceIssuer(
            settings, database, self._ledger, self._clock, define=record_definition
        )
        self._entries = LogEntries(database, self._ledger, settings.base_url, self._clock)
        self._accuracy = AccuracyJob(settings, database, self._ledger, clock=self._clock)
        self._files = files
        self._settled_until: int | None = None

    def is_due(self, since: int, at: int) -> bool:
        """Whether the evidence changed between `since` and `at`."""
        if not self._begun or self._figures.releases(since, at):
            return True
        settled = corrections(self._world.seed, since - REVISION_DELAY, at - REVISION_DELAY)
        return bool(settled) or self._is_reported(since, at)

    async def issue(self, since: int, at: int) -> None:
        """Read what was published since then and issue stances on it."""
        self._at = at
        if self._settled_until is None or self._is_reported(since, at):
            await self._read_settlements()
        if not self._begun:
            await self._ledger.announce_leader(self._lease.token)
            await self._database.write(self._import_fund)
        released = set().union(*self._figures.releases(since, at).values())
        names = {each.name for each in self._sources if each.name.partition("-")[0] in released}
        if not self._begun or names:
            await self._macro.run_once(self._lease, names if self._begun else None)
        await self._issuer.issue(self._lease, KINDS if not self._begun or names else (FUNDING,))
        self._begun = True
        await self._revise_some()
        await self._entries.append(self._lease)

    async def assess(self, now: int) -> None:
        """Publish what followed the stances."""
        self._at = now
        await self._accuracy.run_once(self._lease)

    async def _read_settlements(self) -> None:
        """Read the reports of BTC, ETH and SOL; the collector back-fills those of the others."""
        until = self._world.epoch if self._settled_until is None else self._settled_until
        since = until - 2 * DAY  # an exchange may correct a rate a day later
        names = [VENUES[BYBIT].contract(base) for base in MAJORS]
        majors = [each for each in self._world.perpetuals if each.symbol in names]
        reports = [settled_rates_of(self._world, each, since, self._at) for each in majors]

        async def work(tx: Transaction) -> None:
            await self._lease.fence(tx)
            for rates in reports:
                await record_settlement_reports(tx, BYBIT, rates, self._at)

        await self._database.write(work)
        self._settled_until = self._at

    async def _import_fund(self, tx: Transaction) -> None:
        await self._lease.fence(tx)
        body = fund_history(self._figures, self._at, FUND_DAYS)
        fund, present = self._settings.etf_fund, day_of(self._at)
        figures = decode_history(body, fund, self._settings.macro_source, present)
        await import_figures(tx, fund, figures, self._at)

    async def close(self) -> None:
        """Close the connections."""
        await self._files.close()

    def _is_reported(self, since: int, at: int) -> bool:
        """Whether the exchange has settled or corrected funding since then."""
        interval = SETTLEMENT_HOURS * HOUR
        return since // interval != at // interval or bool(corrections(self._world.seed, since, at))

    async def _revise_some(self) -> None:
        """Sometimes revise the decision on the same evidence, as an operator would."""
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


class _DirectFiles(FileClient):
    """Calls the simulated publishers directly; an HTTP client would take longer than they do."""

    def __init__(self, figures: MacroWorld, clock: Clock) -> None:
        super().__init__(seconds=0, clock=clock)
        self._figures = figures
        self._now = clock

    async def get(
        self,
        address: str,
        params: Mapping[str, str] | None = None,
        *,
        only_attempt: float | None = None,  # noqa: ARG002 -- it always answers at once
    ) -> bytes:
        url = urlsplit(address)
        query = dict(parse_qsl(url.query)) | dict(params or {})
        status, _, body = answer_publisher(self._figures, url.path, query, self._now())
        if status != HTTPStatus.OK:
            raise UnknownToUpstream(f"the publisher has no file {url.path}")
        return body
