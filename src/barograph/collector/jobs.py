"""What the leading collector repeats besides measuring.

Daily figures, settled funding, files of liquidations, stances and their accuracy, unfinished
payments, mails, webhooks and cosignatures. A job logs what fails and tries again, so it never stops
the measuring. Only a lost lease ends it.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from barograph.accuracy.assess import publish_accuracy
from barograph.board.board import latest_snapshot, publish
from barograph.board.feeds import Publication
from barograph.errors import LeaseLost, UpstreamError
from barograph.events.store import append_events
from barograph.history.checkpoint import ALL_LOGS, log_path
from barograph.history.cosigning import Cosigner
from barograph.history.ledger import Ledger
from barograph.history.reader import HistoryReader
from barograph.keys.outbox import MailSender, deliver_due
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Row, Transaction, Value, Work
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
from barograph.payments.reconcile import Reconciler
from barograph.settings import Settings
from barograph.stances.issue import StanceIssuer
from barograph.stances.version_events import VersionEvents
from barograph.webhooks.delivery import Deliveries
from barograph.webhooks.records import Webhook
from barograph.webhooks.store import due_webhooks

log = logging.getLogger(__name__)

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

SETTLEMENT_SECONDS = 60.0
ISSUE_SECONDS = 15.0
VERSION_SECONDS = 2.0
ACCURACY_SECONDS = 60.0
RECONCILE_SECONDS = 60.0
MAIL_SECONDS = 1.0
FILE_SECONDS = 30.0
FILES_PER_RUN = 5
WEBHOOK_SECONDS = 1.0
BUSY_WEBHOOK_SECONDS = 0.05
UNRECORDED_SECONDS = 60.0
WITNESS_SECONDS = 3.0

MAX_WEBHOOKS_AT_ONCE = 16
MAX_FAILING_AT_ONCE = 8
"""How many endpoints get messages at a time, and how many of them may have failed last time."""

MAX_READINGS = 5_000
"""Limit of one transaction: every small write would wait for a huge one."""


class Job(ABC):
    """Repeats its work for as long as the collector leads."""

    def __init__(self, seconds: float, sleep: Sleep) -> None:
        self._seconds = seconds
        self._sleep = sleep

    async def __call__(self, lease: Lease) -> None:
        """Run until the lease is lost."""
        while True:
            await self.run_once(lease)
            await self._sleep(self._seconds)

    @abstractmethod
    async def run_once(self, lease: Lease) -> None:
        """Do the work once.

        Raises:
            LeaseLost: another collector leads.
        """


class MacroJob(Job):
    """Reads every source of daily figures and stores what is new."""

    def __init__(
        self,
        sources: Sequence[MacroSource],
        database: Database,
        *,
        seconds: float,
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
        with logged("figures not stored"):
            await self._publish_configured(lease)
        for source in self._sources:
            readings, failure = await _read(source, self._metrics)
            with logged("figures not stored", source=source.name):
                await self._store(source.name, readings, failure, lease)
                if isinstance(source, RemembersDays):
                    source.kept(readings)

    async def _store(
        self, name: str, readings: Sequence[Figure], failure: str | None, lease: Lease
    ) -> None:
        """Store the oldest days first, and the health of the source with the newest days.

        Those two are one transaction, so nothing is judged by half of the new figures.
        """
        now = self._clock()
        older, newest = readings[:-MAX_READINGS], readings[-MAX_READINGS:]
        for start in range(0, len(older), MAX_READINGS):
            part = older[start : start + MAX_READINGS]
            await self._database.write(partial(_record, lease, part, now))
        newest_day = max((each.day for each in newest), default=None)

        async def last(tx: Transaction) -> None:
            await _record(lease, newest, now, tx)
            health = await latest_snapshot(tx, MACRO_HEALTH) or MacroHealth({})
            before = health.sources.get(name, SourceHealth(now))
            after = _health_after(before, now, failure, newest_day)
            sources = {**health.sources, name: after}
            await publish(tx, [Publication.of(MACRO_HEALTH, MacroHealth(sources))])

        await self._database.write(last)

    async def _publish_configured(self, lease: Lease) -> None:
        """Publish which sources are configured, if an earlier collector had others."""
        now = self._clock()
        health = await latest_snapshot(self._database, MACRO_HEALTH)
        known = {} if health is None else health.sources
        sources = {each.name: known.get(each.name, SourceHealth(now)) for each in self._sources}

        async def work(tx: Transaction) -> None:
            await lease.fence(tx)
            await publish(tx, [Publication.of(MACRO_HEALTH, MacroHealth(sources))])

        if not sources or (health is not None and sources.keys() != known.keys()):
            await self._database.write(work)


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


async def _record(lease: Lease, readings: Sequence[Figure], now: int, tx: Transaction) -> None:
    await lease.fence(tx)
    await record_figures(tx, readings, now)


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

            async def work(tx: Transaction) -> None:
                await lease.fence(tx)
                await record_settlement_reports(tx, self._venue, rates, now)

            await self._database.write(work)


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
            await lease.fence(tx)
            await store_file(tx, self._venue, made, body, self._clock())
            await append_events(tx, [file_event(self._venue, made, self._clock())])

        await self._database.write(work)


class StanceJob(Job):
    """Issues a stance whenever its evidence has changed."""

    def __init__(
        self, issuer: StanceIssuer, ledger: Ledger, *, sleep: Sleep = asyncio.sleep
    ) -> None:
        super().__init__(ISSUE_SECONDS, sleep)
        self._issuer = issuer
        self._ledger = ledger
        self._announced: int | None = None

    async def run_once(self, lease: Lease) -> None:
        """Announce a new leader to the history, then issue every kind once."""
        if self._announced != lease.token:
            with logged("the history cannot be written"):
                await self._announce(lease)
        with logged("stances not issued"):
            try:
                await self._issuer.issue(lease)
            except LeaseLost:
                await lease.renew()  # raises if the lease is really lost

    async def _announce(self, lease: Lease) -> None:
        """Keep earlier leaders from recording anything."""
        try:
            await self._ledger.announce_leader(lease.token)
        except LeaseLost:
            await lease.renew()  # raises if the lease is really lost
            log.critical("the history has a later leader than us; stances are not durable")
        else:
            self._announced = lease.token


class VersionEventJob(Job):
    """Adds recorded stance versions, including an operator's, to the log of events."""

    def __init__(self, versions: VersionEvents, *, sleep: Sleep = asyncio.sleep) -> None:
        super().__init__(VERSION_SECONDS, sleep)
        self._versions = versions

    async def run_once(self, lease: Lease) -> None:
        """Announce what was recorded since the last time."""
        with logged("stance versions not announced"):
            await self._versions.announce(lease)


class AccuracyJob(Job):
    """Publishes what followed the revealed stances."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        history: HistoryReader,
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(ACCURACY_SECONDS, sleep)
        self._settings = settings
        self._database = database
        self._history = history
        self._clock = clock

    async def run_once(self, lease: Lease) -> None:
        """Publish it, if stances are revealed and an hour has passed."""
        fenced = _FencedDatabase(self._database, lease)
        with logged("accuracy not published"):
            await publish_accuracy(self._settings, fenced, self._history, self._clock)


class ReconcileJob(Job):
    """Resolves payments whose result is not known."""

    def __init__(
        self,
        database: Database,
        build: Callable[[Database], Reconciler],
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """`build` makes a reconciler that writes to a database."""
        super().__init__(RECONCILE_SECONDS, sleep)
        self._database = database
        self._build = build

    async def run_once(self, lease: Lease) -> None:
        """Go through all unfinished payments once."""
        with logged("payments not reconciled"):
            await self._build(_FencedDatabase(self._database, lease)).once()


class _FencedDatabase:
    """A database to which only the holder of the lease writes."""

    def __init__(self, database: Database, lease: Lease) -> None:
        self._database = database
        self._lease = lease
        self.engine = database.engine

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        return await self._database.fetch(sql, *values)

    async def read(self, work: Work[T]) -> T:
        return await self._database.read(work)

    async def write(self, work: Work[T]) -> T:
        async def fenced(tx: Transaction) -> T:
            await self._lease.fence(tx)
            return await work(tx)

        return await self._database.write(fenced)

    async def close(self) -> None:
        await self._database.close()


class WitnessJob(Job):
    """Has one witness cosign every log: a slow one delays no other."""

    def __init__(
        self, database: Database, cosigner: Cosigner, *, sleep: Sleep = asyncio.sleep
    ) -> None:
        super().__init__(WITNESS_SECONDS, sleep)
        self._database = database
        self._cosigner = cosigner

    async def run_once(self, lease: Lease) -> None:
        """Ask for each log whose newest cosignature is not of its current round."""
        fenced = _FencedDatabase(self._database, lease)
        for log in ALL_LOGS:
            with logged("log not cosigned", witness=self._cosigner.name, log=log_path(log)):
                await self._cosigner.ask(log, fenced)


class MailJob(Job):
    """Sends the mails in the outbox."""

    def __init__(
        self,
        database: Database,
        sender: MailSender,
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(MAIL_SECONDS, sleep)
        self._database = database
        self._sender = sender
        self._clock = clock

    async def run_once(self, lease: Lease) -> None:
        """Send every mail that is due."""
        with logged("mails cannot be sent"):
            await deliver_due(self._database, lease, self._sender, self._clock)


class WebhookJob(Job):
    """Sends events to webhooks, each endpoint in a task of its own: a slow one delays no other."""

    def __init__(
        self,
        database: Database,
        deliveries: Deliveries,
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(WEBHOOK_SECONDS, sleep)
        self._database = database
        self._deliveries = deliveries
        self._clock = clock
        self._sending: set[str] = set()
        self._tasks = asyncio.TaskGroup()

    async def __call__(self, lease: Lease) -> None:
        """Run until the lease is lost, which cancels the requests under way."""
        self._sending.clear()
        async with asyncio.TaskGroup() as self._tasks:
            await super().__call__(lease)

    async def run_once(self, lease: Lease) -> None:
        """Start to send to the endpoints that have messages due."""
        with logged("webhooks not read"):
            # Those being sent to are still due, so ask for enough others.
            limit = 2 * MAX_WEBHOOKS_AT_ONCE
            due = await due_webhooks(self._database, self._clock(), limit)
            self._seconds = WEBHOOK_SECONDS if len(due) < limit else BUSY_WEBHOOK_SECONDS
            for each in due:
                room = MAX_FAILING_AT_ONCE if each.failures else MAX_WEBHOOKS_AT_ONCE
                if each.id not in self._sending and len(self._sending) < room:
                    self._sending.add(each.id)
                    self._tasks.create_task(self._send(each, lease))

    async def _send(self, webhook: Webhook, lease: Lease) -> None:
        try:
            with logged("webhook not recorded", webhook=webhook.id):
                await self._deliveries.take_turn(webhook, lease)
                return
            # Otherwise the endpoint would get the same message every second.
            await self._sleep(UNRECORDED_SECONDS)
        finally:
            self._sending.discard(webhook.id)


@contextmanager
def logged(event: str, **fields: str) -> Iterator[None]:
    """Log any failure and go on, unless the lease is lost."""
    try:
        yield
    except LeaseLost:
        raise
    except UpstreamError as error:
        log.warning(event, extra={**fields, "kind": error.kind, "why": str(error)})
    except DatabaseUnavailable as error:
        log.warning(event, extra={**fields, "reason": str(error)})
    except Exception:
        log.exception(event, extra=fields)
