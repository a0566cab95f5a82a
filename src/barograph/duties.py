"""What the leading collector does beside reading the exchange: daily figures and stances.

A duty runs for as long as its collector leads. Whatever fails in it is logged and tried again: it
must never end measuring.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from barograph.board.snapshots import Publication, latest, publish
from barograph.errors import LeaseLost, UpstreamError
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.lease import Lease
from barograph.macro.feeds import MACRO_HEALTH
from barograph.macro.health import MacroHealth, SourceHealth
from barograph.macro.ports import MacroSource
from barograph.macro.records import Reading
from barograph.macro.store import record_readings
from barograph.stances.issuing import StanceDesk
from barograph.stances.ledger import Ledger

log = logging.getLogger(__name__)

Sleep = Callable[[float], Awaitable[None]]
Duty = Callable[[Lease], Awaitable[None]]

ISSUE_SECONDS = 15.0


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
        for source in self._sources:
            await self._read(source, lease)

    async def _read(self, source: MacroSource, lease: Lease) -> None:
        readings: list[Reading] = []
        failure: str | None = None
        try:
            readings = await source.read()
        except UpstreamError as error:
            failure = error.kind
            log.warning("figures not read", extra={"from": source.name, "kind": error.kind})
        except Exception:
            failure = UpstreamError.kind
            log.exception("figures not read", extra={"from": source.name})
        try:
            await self._keep(source.name, readings, failure, lease)
        except LeaseLost:
            raise
        except DatabaseUnavailable as error:
            log.warning("figures not stored", extra={"reason": str(error)})
        except Exception:
            log.exception("figures not stored", extra={"from": source.name})

    async def _keep(
        self, name: str, readings: Sequence[Reading], failure: str | None, lease: Lease
    ) -> None:
        now = self._clock()

        async def work(tx: Transaction) -> None:
            await lease.fence(tx)
            await record_readings(tx, readings, now)
            health = await latest(tx, MACRO_HEALTH) or MacroHealth({})
            before = health.sources.get(name, SourceHealth(now))
            days = [before.newest_day, *(each.day for each in readings)]
            since = before.failing_since
            after = SourceHealth(
                as_of=now,
                failure=failure,
                failing_since=None if failure is None else now if since is None else since,
                newest_day=max((day for day in days if day is not None), default=None),
            )
            changed = MacroHealth({**health.sources, name: after})
            await publish(tx, [Publication.of(MACRO_HEALTH, changed)])

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
