"""Daily figures, settled funding and the files of liquidations."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from barograph.board.board import latest_snapshot, publish
from barograph.board.feeds import Publication
from barograph.collector.jobs.job import FencedDatabase, Job, Sleep, logged
from barograph.errors import UpstreamError
from barograph.events.store import append_events
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.lease import Lease
from barograph.kit.metrics import NO_METRICS, Metrics
from barograph.macro.records import (
    MACRO_HEALTH,
    Figure,
    MacroHealth,
    MacroSource,
    RemembersDays,
    SourceHealth,
)
from barograph.macro.store import record_figures
from barograph.markets.exchange import SettlementHistory
from barograph.markets.liquidation_files import (
    FileTooLarge,
    days_to_make,
    file_event,
    make_file,
    store_file,
)
from barograph.markets.settlements import bitcoin_contract
from barograph.markets.store import newest_reading, record_settlement_reports
from barograph.markets.venues import BYBIT

log = logging.getLogger(__name__)

MACRO_SECONDS = 1_800.0
DEMO_MACRO_SECONDS = 20.0
"""A demo's publishers are asked often, so that their faults show soon."""
SETTLEMENT_SECONDS = 60.0
FILE_SECONDS = 30.0
FILES_PER_RUN = 5

MAX_READINGS = 5_000
"""Limit of one transaction: every small write would wait for a huge one."""


class MacroJob(Job):
    """Reads every source of daily figures and stores what is new."""

    def __init__(
        self,
        sources: Sequence[MacroSource],
        database: Database,
        *,
        seconds: float = MACRO_SECONDS,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
        metrics: Metrics = NO_METRICS,
    ) -> None:
        super().__init__(seconds, sleep)
        self._metrics = metrics
        self._sources = sources
        self._database = database
        self._clock = clock

    async def run_once(self, lease: Lease) -> None:
        """Read every source once."""
        fenced = FencedDatabase(self._database, lease)
        with logged("figures not stored"):
            await self._publish_configured(fenced)
        for source in self._sources:
            readings, failure = await _read(source, self._metrics)
            with logged("figures not stored", source=source.name):
                await self._store(source.name, readings, failure, fenced)
                if isinstance(source, RemembersDays):
                    source.kept(readings)

    async def _store(
        self, name: str, readings: Sequence[Figure], failure: str | None, fenced: FencedDatabase
    ) -> None:
        """Store the oldest days first, and the health of the source with the newest days.

        Those two are one transaction, so nothing is judged by half of the new figures.
        """
        now = self._clock()
        older, newest = readings[:-MAX_READINGS], readings[-MAX_READINGS:]
        for start in range(0, len(older), MAX_READINGS):
            part = older[start : start + MAX_READINGS]
            await fenced.write(partial(record_figures, figures=part, observed_at=now))
        newest_day = max((figure.day for figure in newest), default=None)

        async def last(tx: Transaction) -> None:
            await record_figures(tx, newest, now)
            health = await latest_snapshot(tx, MACRO_HEALTH) or MacroHealth({})
            before = health.sources.get(name, SourceHealth(now))
            after = _health_after(before, now, failure, newest_day)
            sources = {**health.sources, name: after}
            await publish(tx, [Publication.of(MACRO_HEALTH, MacroHealth(sources))])

        await fenced.write(last)

    async def _publish_configured(self, fenced: FencedDatabase) -> None:
        """Publish which sources are configured, if an earlier collector had others."""
        now = self._clock()
        health = await latest_snapshot(self._database, MACRO_HEALTH)
        known = {} if health is None else health.sources
        names = [source.name for source in self._sources]
        sources = {name: known.get(name, SourceHealth(now)) for name in names}
        if not sources or (health is not None and sources.keys() != known.keys()):
            configured = [Publication.of(MACRO_HEALTH, MacroHealth(sources))]
            await fenced.write(lambda tx: publish(tx, configured))


async def _read(source: MacroSource, metrics: Metrics) -> tuple[list[Figure], str | None]:
    """The readings of a source, and the kind of its failure."""
    try:
        with metrics.call(source.name):
            return await source.read(), None
    except UpstreamError as error:
        why = {"source": source.name, "kind": error.kind, "why": str(error)}
        log.warning("figures not read", extra=why)
        return [], error.kind
    except Exception:
        log.exception("figures not read", extra={"source": source.name})
        return [], UpstreamError.kind


def _health_after(
    before: SourceHealth, now: int, failure: str | None, newest_day: str | None
) -> SourceHealth:
    since = before.failing_since
    days = [day for day in (before.newest_day, newest_day) if day is not None]
    return SourceHealth(
        as_of=now,
        failure=failure,
        failing_since=None if failure is None else now if since is None else since,
        newest_day=max(days, default=None),
    )


class SettlementJob(Job):
    """Reads an exchange's report of its BTC perpetual's settled funding."""

    def __init__(
        self,
        history: SettlementHistory,
        database: Database,
        venue: str = BYBIT,
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(SETTLEMENT_SECONDS, sleep)
        self._venue = venue
        self._history = history
        self._database = database
        self._clock = clock

    async def run_once(self, lease: Lease) -> None:
        """Read the report once and store what is new in it."""
        with logged("settlements not read"):
            newest = await newest_reading(self._database, self._venue)
            rates = await self._history.settlements(bitcoin_contract(newest, self._venue))
            now = self._clock()
            await FencedDatabase(self._database, lease).write(
                lambda tx: record_settlement_reports(tx, self._venue, rates, now)
            )


class LiquidationFilesJob(Job):
    """Makes missing daily files of a venue's liquidations, a few per run."""

    def __init__(
        self,
        database: Database,
        venue: str = BYBIT,
        *,
        source: str,
        history_days: int,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(FILE_SECONDS, sleep)
        self._venue = venue
        self._database = database
        self._source = source
        self._history_days = history_days
        self._clock = clock
        self._refused: set[int] = set()

    async def __call__(self, lease: Lease) -> None:
        """Run until the lease is lost; the first readings come before the archive."""
        await self._sleep(self._seconds)
        await super().__call__(lease)

    async def run_once(self, lease: Lease) -> None:
        """Make the oldest missing files."""
        with logged("liquidation files not made"):
            days = await days_to_make(
                self._database, self._venue, self._clock(), self._history_days
            )
            for start in [day for day in days if day not in self._refused][:FILES_PER_RUN]:
                await self._make(start, lease)

    async def _make(self, start: int, lease: Lease) -> None:
        try:
            made, body = await make_file(self._database, self._venue, start, self._source)
        except FileTooLarge:
            log.exception("liquidation file not made")
            self._refused.add(start)
            return

        async def work(tx: Transaction) -> None:
            await store_file(tx, self._venue, made, body, self._clock())
            await append_events(tx, [file_event(self._venue, made, self._clock())])

        await FencedDatabase(self._database, lease).write(work)
