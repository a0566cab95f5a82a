"""Back-fills the record from the exchange's own history, at the first start and after any gap.

It fills only hours without a measured row, and requests each span of a contract once. One
transaction stores one contract, so if a leader is killed, the next one continues where it stopped.
If a part other than the prices can't be read, the rest is stored and the span requested again.
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Awaitable, Sequence
from typing import NamedTuple, TypeVar

from barograph.board.board import latest_snapshot, publish
from barograph.board.feeds import Feed, Publication
from barograph.collector.jobs.job import FencedDatabase, Job, Sleep, logged
from barograph.errors import LeaseLost, Throttled, UnknownToUpstream, UpstreamError
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.markets.settlements import LONGEST_INTERVAL_HOURS, interval_hours
from barograph.markets.store import (
    ReadingRow,
    hours_to_fill,
    newest_of,
    newest_reading,
    record_backfill,
    record_settlement_reports,
)
from barograph.markets.view import BACKFILL, EXCHANGE_HEALTH
from barograph.venues.exchange import MarketHistory, PastValue
from barograph.venues.records import (
    MAJORS,
    BackfillProgress,
    ContractName,
    Perpetual,
    Perpetuals,
    SettledRate,
    majors_first,
)
from barograph.venues.registry import BYBIT

log = logging.getLogger(__name__)

T = TypeVar("T")

BACKFILL_DAYS = 30
"""How far back the record is filled, by the hour."""

CHECK_SECONDS = 5.0
HISTORY_DELAY = 15 * MINUTE
"""An hour is filled this long after its start. By then a live reading is too late for it, and the
exchange has had time to publish its own values. Before the next hour, because a missing hour makes
signals unknown."""

ATTEMPTS = 2
"""Attempts per contract before we go on to the next one."""

MAX_FAILED_IN_A_ROW = 3
"""After this many failed contracts the exchange is at fault, and we start over with the majors."""

PAUSES = (5.0, 15.0, 60.0, 300.0)
"""Seconds to wait after the first, second, third and any further failure in a row."""


class PastHours(NamedTuple):
    """The history of one contract."""

    prices: Sequence[PastValue]
    open_interest: Sequence[PastValue]
    long_accounts: Sequence[PastValue]
    settlements: Sequence[SettledRate]


class BackfillState(NamedTuple):
    """The progress of one pass over the contracts."""

    total: int
    lacking: frozenset[str]
    """The contracts that still lack hours."""

    started_at: int
    majors_filled_at: int | None = None
    filled_contracts: int = 0
    filled_rows: int = 0
    failure: str | None = None
    failing_since: int | None = None

    @classmethod
    def begun(
        cls,
        contracts: Sequence[Perpetual],
        lacking: Sequence[Perpetual],
        last: BackfillProgress | None,
        now: int,
    ) -> "BackfillState":
        """The state at the start of a pass; a run of failures continues from the last pass."""
        state = cls(len(contracts), frozenset(each.contract for each in lacking), now)
        if last is None:
            return state
        state = state._replace(majors_filled_at=last.majors_filled_at)
        if not lacking:
            return state
        return state._replace(failure=last.failure, failing_since=last.failing_since)

    def filled(
        self, perpetual: Perpetual, rows: int, now: int, missing: UpstreamError | None = None
    ) -> "BackfillState":
        """The state after a contract was filled; `missing` is how a part of its history failed."""
        state = self._replace(
            majors_filled_at=now if perpetual.base in MAJORS else self.majors_filled_at,
            filled_rows=self.filled_rows + rows,
        )
        if missing is not None:
            return state.failed(missing.kind, now)
        return state._replace(
            lacking=self.lacking - {perpetual.contract},
            filled_contracts=self.filled_contracts + 1,
            failure=None,
            failing_since=None,
        )

    def failed(self, failure: str, now: int) -> "BackfillState":
        """The state after a contract could not be filled."""
        since = now if self.failing_since is None else self.failing_since
        return self._replace(failure=failure, failing_since=since)

    def progress(self, now: int) -> BackfillProgress:
        """The progress as published."""
        left, ready_at = len(self.lacking), None
        if left and self.filled_contracts:
            ready_at = now + round((now - self.started_at) / self.filled_contracts * left)
        return BackfillProgress(
            as_of=now,
            total=self.total,
            done=self.total - left,
            ready_at=ready_at,
            failure=self.failure,
            failing_since=self.failing_since,
            majors_filled_at=self.majors_filled_at,
        )

    def counts(self, now: int) -> dict[str, object]:
        """The progress as logged."""
        return {
            "contracts": self.filled_contracts,
            "rows": self.filled_rows,
            "left": len(self.lacking),
            "seconds": round((now - self.started_at) / SECOND, 1),
        }


class BackfillJob(Job):
    """Fills the missing hours of every contract in the newest reading, the majors first."""

    def __init__(
        self,
        history: MarketHistory,
        database: Database,
        venue: str = BYBIT,
        feed: Feed[BackfillProgress] = BACKFILL,
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        super().__init__(CHECK_SECONDS, sleep)
        self._venue = venue
        self._feed = feed
        self._history = history
        self._database = database
        self._clock = clock
        self._led_since = 0
        self._complete_until: int | None = None
        self._failures = 0
        self._failing: set[str] = set()
        self._in_part: set[str] = set()
        """Contracts that lack a part of their history."""

        self._state = BackfillState(0, frozenset(), 0)

    async def __call__(self, lease: Lease) -> None:
        """Run until the lease is lost."""
        self._led_since, self._complete_until = self._clock(), None
        await super().__call__(lease)

    async def run_once(self, lease: Lease) -> None:
        """Fill what is missing; once per hour, unless something failed."""
        end = self._end()
        if end == self._complete_until:
            return
        with logged("back-fill failed"):
            reading = await self._database.read(self._live_reading)
            if reading is not None and await self._fill(reading, lease):
                self._complete_until = end

    async def _live_reading(self, tx: Transaction) -> Perpetuals | None:
        """The newest reading, unless live polling fails or this collector has not read yet.

        Only a reading of this process can prove how the exchange counts open interest.
        """
        health = await newest_of(tx, EXCHANGE_HEALTH, self._venue)
        if health is None or health.failure is not None or health.as_of < self._led_since:
            return None
        return await newest_reading(tx, self._venue)

    async def _fill(self, reading: Perpetuals, lease: Lease) -> bool:
        """Try every contract that lacks hours; return whether nothing is left to fill."""
        contracts = majors_first(reading)
        lacking = [perpetual for perpetual in contracts if await self._missing(perpetual.contract)]
        # Contracts that failed before must not keep the others waiting.
        again = frozenset(self._in_part)
        lacking.sort(key=lambda each: each.base not in MAJORS and each.contract in self._failing)
        lacking.sort(key=lambda each: each.contract in again)
        last = await latest_snapshot(self._database, self._feed)
        self._state = BackfillState.begun(contracts, lacking, last, self._clock())
        if lacking:
            log.info("back-fill starts", extra={"contracts": len(lacking)})
        await self._publish(self._state.progress(self._clock()), lease)
        majors = sum(each.base in MAJORS and each.contract not in again for each in lacking)
        failed_in_a_row = 0
        for number, each in enumerate(lacking, start=1):
            failed_in_a_row = 0 if await self._try(each, lease) else failed_in_a_row + 1
            if failed_in_a_row == MAX_FAILED_IN_A_ROW:
                return False
            if each.contract in again & self._in_part:
                return True  # the same part is still missing: ask again in the next hour
            if number == majors:
                log.info("majors are back-filled", extra=self._state.counts(self._clock()))
        if lacking:
            log.info("back-fill ends", extra=self._state.counts(self._clock()))
        return not self._state.lacking

    async def _try(self, perpetual: Perpetual, lease: Lease) -> bool:
        """Fill one contract; wait after each failure."""
        self._in_part.discard(perpetual.contract)
        for _ in range(ATTEMPTS):
            failure = await self._attempt(perpetual, lease)
            if failure is None:
                self._failures = 0
                self._failing.discard(perpetual.contract)
                return True
            self._failures += 1
            now = self._clock()
            self._state = self._state.failed(failure.kind, now)
            with logged("back-fill progress not published"):
                await self._publish(self._state.progress(now), lease)
            await self._sleep(self._pause_after(failure))
        self._failing.add(perpetual.contract)
        return False

    def _pause_after(self, failure: UpstreamError) -> float:
        pause = PAUSES[min(self._failures, len(PAUSES)) - 1]
        return max(pause, failure.retry_after) if isinstance(failure, Throttled) else pause

    async def _attempt(self, perpetual: Perpetual, lease: Lease) -> UpstreamError | None:
        """Fill one contract; return how that failed."""
        why = {"contract": perpetual.contract}
        try:
            await self._fill_contract(perpetual, lease)
        except LeaseLost:
            raise
        except UpstreamError as error:
            fields = why | {"kind": error.kind, "why": str(error)}
            log.warning("contract not back-filled", extra=fields)
            return error
        except DatabaseUnavailable as error:
            log.warning("contract not back-filled", extra=why | {"reason": str(error)})
        except Exception:
            log.exception("contract not back-filled", extra=why)
        else:
            return None
        return UpstreamError()

    async def _fill_contract(self, perpetual: Perpetual, lease: Lease) -> None:
        contract = perpetual.contract
        hours = await self._missing(contract)
        if not hours:  # they left the window, or live readings filled them
            self._state = self._state.filled(perpetual, 0, self._clock())
            return
        asked = (hours[0], hours[-1] + HOUR)
        past, missing = await self._ask(contract, *asked)
        rows = past_rows(contract, hours, past)
        now = self._clock()
        state = self._state.filled(perpetual, len(rows), now, missing)

        async def work(tx: Transaction) -> None:
            span = asked if missing is None else None
            await record_backfill(tx, ContractName(self._venue, contract), rows, span, now)
            await record_settlement_reports(tx, self._venue, past.settlements, now)
            await publish(tx, [Publication.of(self._feed, state.progress(now))])

        await FencedDatabase(self._database, lease).write(work)
        self._state = state
        if missing is not None:
            if not self._in_part:
                fields = {"contract": contract, "kind": missing.kind, "why": str(missing)}
                log.warning("contracts are back-filled in part", extra=fields)
            self._in_part.add(contract)

    def _end(self) -> int:
        return (self._clock() - HISTORY_DELAY) // HOUR * HOUR + HOUR

    async def _missing(self, contract: str) -> list[int]:
        end = self._end()
        start = end - BACKFILL_DAYS * DAY
        return await self._database.read(
            lambda tx: hours_to_fill(tx, self._venue, contract, start, end)
        )

    async def _ask(
        self, contract: str, start: int, end: int
    ) -> tuple[PastHours, UpstreamError | None]:
        """Read the history of a span of hours; also returns how a part of it failed, if one did.

        The exchange's adapter paces the requests. Settlements start a day earlier, because the
        first hour needs the rate before it.
        """
        history, span = self._history, (contract, start, end)
        longer = (contract, start - DAY, self._clock())
        missing: list[UpstreamError] = []
        # Not a TaskGroup: that of Python 3.11 can forget a cancellation when a task fails.
        tasks = (
            asyncio.ensure_future(_known(history.past_prices(*span))),
            asyncio.ensure_future(_known(history.past_open_interest(*span), missing)),
            asyncio.ensure_future(_known(history.past_long_accounts(*span), missing)),
            asyncio.ensure_future(_known(history.past_settlements(*longer), missing)),
        )
        try:
            past = PastHours(*await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
        return past, missing[0] if missing else None

    async def _publish(self, progress: BackfillProgress, lease: Lease) -> None:
        publications = [Publication.of(self._feed, progress)]
        await FencedDatabase(self._database, lease).write(lambda tx: publish(tx, publications))


async def _known(
    asked: Awaitable[Sequence[T]], missing: list[UpstreamError] | None = None
) -> Sequence[T]:
    """The reply, or nothing if the exchange has no such history of the contract.

    Any other failure is added to `missing`, except throttling, which concerns every part.
    """
    try:
        return await asked
    except UnknownToUpstream:
        return ()
    except UpstreamError as error:
        if missing is None or isinstance(error, Throttled):
            raise
        missing.append(error)
        return ()


def past_rows(contract: str, hours: Sequence[int], past: PastHours) -> list[ReadingRow]:
    """The rows of the hours that have a price; None for what the history lacks (pure)."""
    prices = {each.at: each.value for each in past.prices}
    interest = {each.at: each.value for each in past.open_interest}
    shares = {account.at: account.value for account in past.long_accounts}
    rates = _SettledRates(past.settlements)
    rows = []
    for at in hours:
        price, coins = prices.get(at), interest.get(at)
        if price is not None:
            usd = None if coins is None else coins * price
            row = ReadingRow("hour", contract, at, price, *rates.at(at), usd, shares.get(at), coins)
            rows.append(row)
    return rows


class _SettledRates:
    """The settled rate that was known at an hour, with its interval."""

    def __init__(self, settlements: Sequence[SettledRate]) -> None:
        self._rates = {settlement.at: settlement.funding_rate_pct for settlement in settlements}
        self._times = sorted(self._rates)
        self._intervals = interval_hours(self._times)

    def at(self, hour: int) -> tuple[float | None, float | None]:
        """The last rate settled at or before an hour; None if a later settlement is missing."""
        place = bisect_right(self._times, hour) - 1
        if place < 0 or hour - self._times[place] >= LONGEST_INTERVAL_HOURS * HOUR:
            return None, None
        settled_at = self._times[place]
        return self._rates[settled_at], self._intervals[settled_at]
