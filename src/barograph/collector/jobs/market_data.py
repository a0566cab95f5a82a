"""Daily figures, settled funding and the files of liquidations."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from functools import partial

from barograph.board.board import latest_snapshot, publish
from barograph.board.feeds import Publication
from barograph.collector.jobs.job import FencedDatabase, Job, Sleep, logged
from barograph.errors import Throttled, UnknownToUpstream, UpstreamError
from barograph.events.store import append_events
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.lease import Lease
from barograph.kit.metrics import NO_METRICS, Metrics
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.macro.records import (
    MACRO_HEALTH,
    Figure,
    MacroHealth,
    MacroSource,
    RemembersDays,
    SourceHealth,
)
from barograph.macro.store import record_figures
from barograph.markets.liquidation_files import (
    FileTooLarge,
    days_to_make,
    file_event,
    make_file,
    store_file,
)
from barograph.markets.settlements import (
    COMPARED_SPAN,
    LONGEST_WINDOW,
    SHORTEST_WINDOW,
    SettledSums,
    SettledWindows,
    SettlementReport,
    last_settlement,
    settled_windows,
    window_sums,
)
from barograph.markets.store import (
    hours_to_fill,
    newest_reading,
    recent_settled_rates,
    record_settlement_reports,
)
from barograph.markets.view import SETTLED
from barograph.venues.exchange import MarketHistory
from barograph.venues.records import MAJORS, ContractName, Perpetual, majors_first
from barograph.venues.registry import BYBIT

log = logging.getLogger(__name__)

MACRO_SECONDS = 1_800.0
DEMO_MACRO_SECONDS = 20.0
"""A demo's publishers are asked often, so that their faults show soon."""
SETTLEMENT_SECONDS = 60.0
SETTLEMENT_PAUSE = 5 * MINUTE
"""Contracts that lack a report are asked for again after this time. Exchanges report a settlement
within seconds to minutes."""

MAX_FAILED_IN_A_ROW = 3
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

    async def run_once(self, lease: Lease, names: Collection[str] | None = None) -> None:
        """Read every source once, or only those with these names."""
        fenced = FencedDatabase(self._database, lease)
        with logged("figures not stored"):
            await self._publish_configured(fenced)
        for source in self._sources:
            if names is not None and source.name not in names:
                continue
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
    """Reads a venue's reports of settled funding, for every contract that settled since its last.

    BTC, ETH and SOL come first: 30 days, and then every few minutes the last 60 days again, because
    stances and carry are built on them and an exchange may revise a rate. Of the others, the last
    day before the newest report is read again, or 30 days once if a report in them is missing. The
    exchange's adapter paces the calls.
    """

    def __init__(
        self,
        history: MarketHistory,
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
        self._newest: dict[str, int] = {}
        """The newest report of each contract."""

        self._asked_at: dict[str, int] = {}
        self._read_before: set[str] = set()
        self._sums: dict[str, tuple[SettledSums, ...]] = {}
        self._published: SettledWindows | None = None

    async def run_once(self, lease: Lease) -> None:
        """Read the reports that are due, and publish what was settled."""
        with logged("settlements not read"):
            if self._published is None:  # what an earlier collector knew, until it is read again
                known = await latest_snapshot(self._database, SETTLED.of(self._venue))
                self._published = SettledWindows({}) if known is None else known
                self._sums |= self._published.contracts
            reading = await newest_reading(self._database, self._venue)
            contracts = [] if reading is None else majors_first(reading)
            majors, rest = contracts[: len(MAJORS)], contracts[len(MAJORS) :]
            for part in (*([major] for major in majors), rest):
                failed_in_a_row = 0
                for perpetual in part:
                    is_read = await self._read(perpetual, lease)
                    failed_in_a_row = 0 if is_read else failed_in_a_row + 1
                    if failed_in_a_row == MAX_FAILED_IN_A_ROW:
                        break
                await self._publish({each.contract for each in contracts}, lease)

    async def _read(self, perpetual: Perpetual, lease: Lease) -> bool:
        """Read the reports of one contract if they are due; return False if that failed."""
        now, contract, is_major = self._clock(), perpetual.contract, perpetual.base in MAJORS
        is_late = self._newest.get(contract, 0) < last_settlement(perpetual, now - MINUTE)
        waits = now - self._asked_at.get(contract, 0) < SETTLEMENT_PAUSE
        if not (is_late or is_major) or (waits and not (is_late and is_major)):
            return True
        name = ContractName(self._venue, contract)
        known = await recent_settled_rates(self._database, name, now, COMPARED_SPAN)
        self._note(contract, known, now)
        is_late = self._newest.get(contract, 0) < last_settlement(perpetual, now - MINUTE)
        if not known and not is_major and await self._is_filled_later(contract, now):
            self._asked_at[contract] = now
        elif is_late or is_major:
            month = (each.pct_30d for each in self._sums.get(contract, ()))
            is_whole = contract in self._read_before or any(pct is not None for pct in month)
            # At first without the window before: at some venues that takes a minute per contract.
            has_month = is_major and contract in self._read_before
            span = COMPARED_SPAN if has_month else LONGEST_WINDOW
            start = known[-1].at if known and is_whole and not is_major else now - span
            return await self._ask(name, start - DAY, lease)
        return True

    async def _is_filled_later(self, contract: str, now: int) -> bool:
        """Whether the back-fill will read the past of a contract anyway."""
        end = now // HOUR * HOUR
        return bool(
            await self._database.read(
                lambda tx: hours_to_fill(tx, self._venue, contract, end - HOUR, end)
            )
        )

    async def _ask(self, name: ContractName, start: int, lease: Lease) -> bool:
        self._asked_at[name.contract] = now = self._clock()
        try:
            rates = await self._history.past_settlements(name.contract, start, now + 1)
        except UnknownToUpstream:
            return True
        except Throttled as error:
            log.warning("settlements not read", extra={"kind": error.kind, "why": str(error)})
            await self._sleep(error.retry_after)
            return False
        except UpstreamError as error:
            why = {"contract": name.contract, "kind": error.kind, "why": str(error)}
            log.warning("settlements not read", extra=why)
            return False
        now = self._clock()  # the adapter may have waited for its turn
        await FencedDatabase(self._database, lease).write(
            lambda tx: record_settlement_reports(tx, self._venue, rates, now)
        )
        known = await recent_settled_rates(self._database, name, now, COMPARED_SPAN)
        self._note(name.contract, known, now)
        self._read_before.add(name.contract)
        return True

    def _note(self, contract: str, reports: Sequence[SettlementReport], now: int) -> None:
        if reports:
            self._newest[contract] = reports[-1].at
            self._sums[contract] = window_sums(settled_windows(reports, now), now)

    async def _publish(self, listed: set[str], lease: Lease) -> None:
        oldest = self._clock() - 2 * SHORTEST_WINDOW  # as `window_sums`
        known = ((name, sums) for name, sums in self._sums.items() if name in listed)
        settled = SettledWindows(
            {name: tuple(each for each in sums if each.end > oldest) for name, sums in known}
        )
        if settled != self._published:
            published = [Publication.of(SETTLED.of(self._venue), settled)]
            await FencedDatabase(self._database, lease).write(lambda tx: publish(tx, published))
            self._published = settled


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
