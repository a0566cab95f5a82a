"""Fills the record from the exchange's own history: at the first start, and after any gap.

Only hours without a row are filled, and each span of a contract is asked for once. One transaction
stores one contract, so the next leader goes on where a killed one stopped.
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Awaitable, Sequence
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from barograph.board.board import latest_snapshot, publish
from barograph.board.feeds import Publication
from barograph.collector.jobs import Job, Sleep, logged
from barograph.errors import LeaseLost, UnknownToUpstream, UpstreamError
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, HOUR, SECOND
from barograph.markets.exchange import MarketHistory, PastValue
from barograph.markets.records import (
    MAJORS,
    BackfillProgress,
    Perpetual,
    Perpetuals,
    majors_first,
)
from barograph.markets.settlements import LONGEST_INTERVAL_HOURS, SettledRate, interval_hours
from barograph.markets.store import (
    ReadingRow,
    hours_to_fill,
    record_backfill,
    record_settlement_reports,
)
from barograph.markets.view import BACKFILL, EXCHANGE_HEALTH, PERPETUALS

log = logging.getLogger(__name__)

T = TypeVar("T")

BACKFILL_DAYS = 30
"""How far back the record is filled, by the hour."""

CHECK_SECONDS = 5.0
ATTEMPTS = 2
"""How often a contract is tried before the next one."""

FAILURES_IN_A_ROW = 3
"""After this many failed contracts the exchange is at fault, and we start over with the majors."""

PAUSES = (5.0, 15.0, 60.0, 300.0)
"""Seconds to wait after the first, second, third and any further failure in a row."""


class PastHours(NamedTuple):
    """What an exchange's history says about one contract."""

    prices: Sequence[PastValue]
    open_interest: Sequence[PastValue]
    long_accounts: Sequence[PastValue]
    settlements: Sequence[SettledRate]


class BackfillJob(Job):
    """Fills the hours that every contract of the newest reading lacks, the majors first."""

    def __init__(
        self,
        history: MarketHistory,
        database: Database,
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(CHECK_SECONDS, sleep)
        self._history = history
        self._database = database
        self._clock = clock
        self._led_since = 0
        self._complete_hour: int | None = None
        self._failures = 0

    async def __call__(self, lease: Lease) -> None:
        """Run until the lease is lost."""
        self._led_since, self._complete_hour = self._clock(), None
        await super().__call__(lease)

    async def run_once(self, lease: Lease) -> None:
        """Fill what is missing; once per hour, unless something failed."""
        hour = self._clock() // HOUR
        if hour == self._complete_hour:
            return
        with logged("the record is not back-filled"):
            reading = await self._database.read(self._live_reading)
            if reading is not None and await self._fill(reading, lease):
                self._complete_hour = hour

    async def _live_reading(self, tx: Transaction) -> Perpetuals | None:
        """The newest reading, unless live polling fails or this collector has not read yet.

        Only a reading of this process can prove how the exchange counts open interest.
        """
        health = await latest_snapshot(tx, EXCHANGE_HEALTH)
        if health is None or health.failure is not None or health.as_of < self._led_since:
            return None
        return await latest_snapshot(tx, PERPETUALS)

    async def _fill(self, reading: Perpetuals, lease: Lease) -> bool:
        """Fill every contract once; return whether nothing is left."""
        contracts = majors_first(reading)
        lacking = [each for each in contracts if await self._missing(each.contract)]
        last = await self._database.read(lambda tx: latest_snapshot(tx, BACKFILL))
        filling = _Filling(len(contracts), lacking, self._clock(), last)
        if lacking:
            log.info("back-fill starts", extra={"contracts": len(lacking)})
        await self._publish(filling.progress(self._clock()), lease)
        failed = 0
        for each in lacking:
            is_filled = await self._try(each, filling, lease)
            failed = 0 if is_filled else failed + 1
            if failed == FAILURES_IN_A_ROW:
                return False
        if lacking:
            log.info("back-fill ends", extra=filling.counts(self._clock()))
        return not filling.lacking

    async def _try(self, perpetual: Perpetual, filling: "_Filling", lease: Lease) -> bool:
        """Fill one contract, and wait after a failure."""
        for _ in range(ATTEMPTS):
            failure = await self._attempt(perpetual, filling, lease)
            if failure is None:
                self._failures = 0
                return True
            self._failures += 1
            with logged("progress not published"):
                await self._publish(filling.failed(failure, self._clock()), lease)
            await self._sleep(PAUSES[min(self._failures, len(PAUSES)) - 1])
        return False

    async def _attempt(
        self, perpetual: Perpetual, filling: "_Filling", lease: Lease
    ) -> str | None:
        """Fill one contract; return the kind of its failure."""
        why = {"contract": perpetual.contract}
        try:
            await self._fill_contract(perpetual, filling, lease)
        except LeaseLost:
            raise
        except UpstreamError as error:
            log.warning("not back-filled", extra=why | {"kind": error.kind, "why": str(error)})
            return error.kind
        except DatabaseUnavailable as error:
            log.warning("not back-filled", extra=why | {"reason": str(error)})
            return UpstreamError.kind
        except Exception:
            log.exception("not back-filled", extra=why)
            return UpstreamError.kind
        return None

    async def _fill_contract(
        self, perpetual: Perpetual, filling: "_Filling", lease: Lease
    ) -> None:
        contract, is_major = perpetual.contract, perpetual.base in MAJORS
        hours = await self._missing(contract)
        asked = (hours[0], hours[-1] + HOUR)
        past = await self._ask(contract, *asked)
        rows = past_rows(contract, hours, past)
        now = self._clock()
        after = filling.after(perpetual, len(rows), now)

        async def work(tx: Transaction) -> None:
            await lease.fence(tx)
            await record_backfill(tx, contract, rows, asked, now)
            if is_major:
                await record_settlement_reports(tx, past.settlements, now)
            await publish(tx, [Publication.of(BACKFILL, after.progress(now))])

        await self._database.write(work)
        filling.take(after)
