"""What the leading collector does beside measuring.

Daily figures, settled funding, stances, and payments that nobody finished.

A duty runs for as long as its collector leads. Whatever fails in it is logged and tried again: it
must never end measuring.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from barograph.board.feeds import Publication
from barograph.board.snapshots import latest, publish
from barograph.errors import LeaseLost, UpstreamError
from barograph.history.ledger import Ledger
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Transaction, Work
from barograph.kit.lease import Lease
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
from barograph.markets.settlements import bitcoin_contract
from barograph.markets.store import record_settlement_reports
from barograph.markets.view import PERPETUALS
from barograph.payments.reconcile import Reconciler
from barograph.stances.issue import StanceDesk

log = logging.getLogger(__name__)

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]
Duty = Callable[[Lease], Awaitable[None]]

ISSUE_SECONDS = 15.0
SETTLEMENT_SECONDS = 60.0
RECONCILING_SECONDS = 60.0

MAX_READINGS = 5_000
"""No transaction keeps more: beside a huge one every small write would wait."""


class MacroDuty:
    """Reads every source of daily figures again and again, and keeps what is new."""

    def __init__(
        self,
        sources: Sequence[MacroSource],
        database: Database,
        *,
        seconds: float,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._sources = sources
        self._database = database
        self._seconds = seconds
        self._clock = clock
        self._sleep = sleep

    async def __call__(self, lease: Lease) -> None:
        """Read for as long as the lease lasts."""
        while True:
            await self.read_once(lease)
            await self._sleep(self._seconds)

    async def read_once(self, lease: Lease) -> None:
        """Read every source once."""
        if not self._sources:
            await self._publish_none(lease)
        for source in self._sources:
            await self._read(source, lease)

    async def _read(self, source: MacroSource, lease: Lease) -> None:
        readings: list[Figure] = []
        failure: str | None = None
        try:
            readings = await source.read()
        except UpstreamError as error:
            failure = error.kind
            why = {"from": source.name, "kind": error.kind, "why": str(error)}
            log.warning("figures not read", extra=why)
        except Exception:
            failure = UpstreamError.kind
            log.exception("figures not read", extra={"from": source.name})
        try:
            await self._keep(source.name, readings, failure, lease)
            if isinstance(source, RemembersDays):
                source.kept(readings)
        except LeaseLost:
            raise
        except DatabaseUnavailable as error:
            log.warning("figures not stored", extra={"reason": str(error)})
        except Exception:
            log.exception("figures not stored", extra={"from": source.name})

    async def _keep(
        self, name: str, readings: Sequence[Figure], failure: str | None, lease: Lease
    ) -> None:
        """Store what was read, the oldest days first, and how the source is with the newest.

        Those are one transaction: nobody judges by new figures that are half there.
        """
        now = self._clock()
        older, newest = readings[:-MAX_READINGS], readings[-MAX_READINGS:]
        for start in range(0, len(older), MAX_READINGS):
            part = older[start : start + MAX_READINGS]
            await self._database.write(partial(_keep_part, lease, part, now))
        newest_day = max((each.day for each in newest), default=None)

        async def last(tx: Transaction) -> None:
            await _keep_part(lease, newest, now, tx)
            health = await latest(tx, MACRO_HEALTH) or MacroHealth({})
            before = health.sources.get(name, SourceHealth(now))
            after = _health_after(before, now, failure, newest_day)
            configured = {each.name for each in self._sources}
            others = {key: value for key, value in health.sources.items() if key in configured}
            changed = MacroHealth({**others, name: after})
            await publish(tx, [Publication.of(MACRO_HEALTH, changed)])

        await self._database.write(last)

    async def _publish_none(self, lease: Lease) -> None:
        """Publish that no source is configured, even if one was before."""

        async def work(tx: Transaction) -> None:
            await lease.fence(tx)
            await publish(tx, [Publication.of(MACRO_HEALTH, MacroHealth({}))])

        try:
            await self._database.write(work)
        except DatabaseUnavailable as error:
            log.warning("figures not stored", extra={"reason": str(error)})


class SettlementDuty:
    """Reads again and again what the exchange reports of the BTC perpetual's settled funding."""

    def __init__(
        self,
        history: SettlementHistory,
        database: Database,
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._history = history
        self._database = database
        self._clock = clock
        self._sleep = sleep

    async def __call__(self, lease: Lease) -> None:
        """Read for as long as the lease lasts."""
        while True:
            await self.read_once(lease)
            await self._sleep(SETTLEMENT_SECONDS)

    async def read_once(self, lease: Lease) -> None:
        """Read the report once and keep what is new in it."""
        try:
            await self._read(lease)
        except LeaseLost:
            raise
        except UpstreamError as error:
            log.warning("settlements not read", extra={"kind": error.kind})
        except DatabaseUnavailable as error:
            log.warning("settlements not stored", extra={"reason": str(error)})
        except Exception:
            log.exception("settlements not read")

    async def _read(self, lease: Lease) -> None:
        newest = await self._database.read(lambda tx: latest(tx, PERPETUALS))
        rates = await self._history.settlements(bitcoin_contract(newest))
        now = self._clock()

        async def work(tx: Transaction) -> None:
            await lease.fence(tx)
            await record_settlement_reports(tx, rates, now)

        await self._database.write(work)


class StanceDuty:
    """Issues stances whenever their evidence asks for it."""

    def __init__(self, desk: StanceDesk, ledger: Ledger, *, sleep: Sleep = asyncio.sleep) -> None:
        self._desk = desk
        self._ledger = ledger
        self._sleep = sleep

    async def __call__(self, lease: Lease) -> None:
        """Issue for as long as the lease lasts; an earlier leader can record nothing from now."""
        announced = False
        while True:
            announced = announced or await self._announce(lease)
            await self._issue(lease)
            await self._sleep(ISSUE_SECONDS)

    async def _announce(self, lease: Lease) -> bool:
        try:
            await self._ledger.take(lease.token)
        except LeaseLost:
            await lease.renew()  # really lost: that ends leading
            log.critical("the record was led with a later token than ours; stances are not durable")
        except DatabaseUnavailable as error:
            log.warning("the record cannot be written", extra={"reason": str(error)})
        except Exception:
            log.exception("the record cannot be written")
        else:
            return True
        return False

    async def _issue(self, lease: Lease) -> None:
        try:
            await self._desk.issue(lease)
        except LeaseLost:
            await lease.renew()  # really lost: that ends leading
        except DatabaseUnavailable as error:
            log.warning("stances not issued", extra={"reason": str(error)})
        except Exception:
            log.exception("stances not issued")


class ReconcilingDuty:
    """Finds out again and again what became of payments that nobody finished."""

    def __init__(
        self,
        database: Database,
        reconciler: Callable[[Database], Reconciler],
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Take the database, and how a reconciler is made that writes to one."""
        self._database = database
        self._reconciler = reconciler
        self._sleep = sleep

    async def __call__(self, lease: Lease) -> None:
        """Reconcile for as long as the lease lasts."""
        reconciler = self._reconciler(_Fenced(self._database, lease))
        while True:
            await self._reconcile(reconciler)
            await self._sleep(RECONCILING_SECONDS)

    @staticmethod
    async def _reconcile(reconciler: Reconciler) -> None:
        try:
            await reconciler.once()
        except LeaseLost:
            raise
        except DatabaseUnavailable as error:
            log.warning("payments not reconciled", extra={"reason": str(error)})
        except Exception:
            log.exception("payments not reconciled")


class _Fenced:
    """A database to which only the holder of the lease writes."""

    def __init__(self, database: Database, lease: Lease) -> None:
        self._database = database
        self._lease = lease

    async def read(self, work: Work[T]) -> T:
        return await self._database.read(work)

    async def write(self, work: Work[T]) -> T:
        async def fenced(tx: Transaction) -> T:
            await self._lease.fence(tx)
            return await work(tx)

        return await self._database.write(fenced)

    async def close(self) -> None:
        await self._database.close()


async def _keep_part(lease: Lease, readings: Sequence[Figure], now: int, tx: Transaction) -> None:
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
