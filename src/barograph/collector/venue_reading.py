"""Reads one venue for as long as the collector leads: readings, account shares, liquidations.

When the list of contracts changes, old and new connections for liquidations overlap. We close the
old ones once they have proved that they were alive until the new ones subscribed, so that no second
is unwatched.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import chain

from barograph.collector.jobs.job import Sleep
from barograph.collector.judge import Conclusion, Judge
from barograph.errors import InvalidReply, LeaseLost, UnknownToUpstream, UpstreamError
from barograph.kit.clock import Clock
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.timestamps import SECOND
from barograph.settings import Settings
from barograph.venues.exchange import Exchange, LiquidationWatcher
from barograph.venues.records import Liquidation, Perpetuals, majors_first, majors_of

LASTING_POLLS = 3
"""The collector subscribes again after the listing has changed for this many polls."""

OVERLAP_POLLS = 24
"""How many polls the old and the new connections may overlap."""


class Listening:
    """Keeps one subscription open to the contracts that are listed."""

    def __init__(
        self,
        exchange: Exchange,
        watcher: LiquidationWatcher,
        listed: Callable[[], Sequence[str]],
        poll_seconds: float,
    ) -> None:
        """`listed` returns the contracts that are listed now."""
        self._exchange = exchange
        self._watcher = watcher
        self._listed = listed
        self._poll_seconds = poll_seconds
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Listen until cancelled; raises what the subscription raises."""
        try:
            current = self._subscribe()
            while True:
                await self._until_listing_changes(current)
                current = await self._replace(current)
        finally:
            # Also the new one, if this ends while the old one is being closed.
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    def _subscribe(self) -> "_Subscription":
        new = _Subscription(self._exchange, self._listed(), self._watcher)
        self._tasks = [*(task for task in self._tasks if not task.done()), new.task]
        return new

    async def _until_listing_changes(self, current: "_Subscription") -> None:
        """Wait for a change that lasts; a contract can be missing from a single reading."""
        changed = 0
        while changed < LASTING_POLLS:
            await self._poll(current)
            changed = changed + 1 if set(self._listed()) != current.contracts else 0

    async def _replace(self, old: "_Subscription") -> "_Subscription":
        """Open a new subscription and close the old one.

        If the new one can't connect, the old one stays.
        """
        new = self._subscribe()
        for _ in range(OVERLAP_POLLS):
            await self._poll(old, new)
            if new.follows(old):
                break
        kept, left = (old, new) if new.since is None else (new, old)
        await left.close()
        return kept

    async def _poll(self, *subscriptions: "_Subscription") -> None:
        tasks = [subscription.task for subscription in subscriptions]
        done, _ = await asyncio.wait(
            tasks, timeout=self._poll_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            task.result()
            raise RuntimeError("the exchange stopped listening without being cancelled")


class _Subscription:
    """Passes on what one subscription reports, and remembers the time that it has covered."""

    def __init__(
        self, exchange: Exchange, contracts: Sequence[str], watcher: LiquidationWatcher
    ) -> None:
        self.contracts = set(contracts)
        self.since: int | None = None
        self.until = 0
        self._watcher = watcher
        self.task = asyncio.create_task(exchange.listen(contracts, self))

    def liquidated(self, liquidations: Sequence[Liquidation]) -> None:
        self._watcher.liquidated(liquidations)

    def watched(self, start: int, end: int) -> None:
        self.since = start if self.since is None else self.since
        self.until = max(self.until, end)
        self._watcher.watched(start, end)

    def follows(self, older: "_Subscription") -> bool:
        """Whether the older one has covered the time until this one began."""
        return self.since is not None and self.since <= older.until

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


log = logging.getLogger(__name__)

Write = Callable[[Callable[[int], Sequence[Conclusion]]], Awaitable[None]]
"""Calls a function with the time, and stores what it concludes; one venue at a time."""


SHARE_SECONDS = 0.25
"""Between two calls for long-account shares. The exchange allows 120 calls per second in total."""


class VenueReading:
    """Reads one venue, and gives what it finds to the judge."""

    def __init__(
        self,
        settings: Settings,
        exchange: Exchange,
        judge: Judge,
        write: Write,
        *,
        clock: Clock,
        sleep: Sleep,
        share_seconds: float = SHARE_SECONDS,
    ) -> None:
        self._settings = settings
        self._share_seconds = share_seconds
        self._exchange = exchange
        self._judge = judge
        self._market = judge.of(exchange.venue.name)
        self._write = write
        self._clock = clock
        self._sleep = sleep
        self._contracts: list[str] = []
        self._first_reading = asyncio.Event()
        self._last_as_of: int | None = None
        self._failing: set[str] = set()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Start everything that the venue publishes."""
        tasks.create_task(self._repeat(self._poll))
        tasks.create_task(self._repeat(self._exchange.keep_up))
        if self._exchange.venue.has_long_accounts:
            tasks.create_task(self._repeat(self._rotate_long_accounts))
        if self._exchange.venue.liquidations != "none":
            tasks.create_task(self._repeat(self._listen))

    async def _repeat(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do work that never ends, and again if it fails, which must not stop other venues.

        Raises:
            LeaseLost: another collector leads.
            DatabaseUnavailable: the collector has to load its state again.
        """
        while True:
            try:
                await work()
            except (LeaseLost, DatabaseUnavailable):
                raise
            except Exception:
                log.exception("venue failed", extra={"venue": self._exchange.venue.name})
            await self._sleep(self._settings.poll_seconds)

    async def _poll(self) -> None:
        while True:
            started = self._clock()
            try:
                reading = await self._exchange.perpetuals()
                self._check_progress(reading)
                self._market.check(reading)
                await self._list_contracts(reading)
                await self._write(partial(self._succeeded, reading))
            except (LeaseLost, DatabaseUnavailable):
                raise
            except Exception as error:  # noqa: BLE001
                await self._fail(error)
            else:
                if self._failing:
                    log.info("exchange answers again", extra={"venue": self._market.venue})
                self._failing.clear()
            spent = (self._clock() - started) / SECOND
            # A clock that was set back must not make the pause longer.
            pause = min(self._settings.poll_seconds, self._settings.poll_seconds - spent)
            await self._sleep(max(0.0, pause))

    async def _fail(self, error: Exception) -> None:
        """Record a failure, and log each kind of a run of failures once.

        An error that no adapter foresaw is logged with its traceback.
        """
        known = error if isinstance(error, UpstreamError) else UpstreamError(f"{error!r:.200}")
        if known.kind not in self._failing:
            why = {"venue": self._market.venue, "kind": known.kind, "why": str(known)}
            log.warning("exchange fails", extra=why, exc_info=None if known is error else error)
        self._failing.add(known.kind)
        await self._write(partial(self._failed, known))

    def _failed(self, error: UpstreamError, now: int) -> list[Conclusion]:
        return [self._judge.conclude_failure(self._exchange.venue.name, error, now)]

    def _succeeded(self, reading: Perpetuals, now: int) -> list[Conclusion]:
        return [self._judge.conclude(reading, now)]

    def _check_progress(self, reading: Perpetuals) -> None:
        """Check that a reading is not the last one again.

        Raises:
            InvalidReply: it is.
        """
        if reading.as_of == self._last_as_of:
            raise InvalidReply("the exchange repeats an old reading")
        self._last_as_of = reading.as_of

    async def _list_contracts(self, reading: Perpetuals) -> None:
        """List the contracts, and sample the majors before anything is published."""
        listed = majors_first(reading)
        # A contract whose values were rejected still has liquidations.
        refused = chain.from_iterable(reading.refused.values())
        self._contracts = list(dict.fromkeys([*(each.contract for each in listed), *refused]))
        if not self._first_reading.is_set():
            if self._exchange.venue.has_long_accounts:
                for major in majors_of(reading).values():
                    await self._sample(major.contract)
            self._first_reading.set()

    async def _rotate_long_accounts(self) -> None:
        """Sample one contract after the other, within the exchange's rate limit."""
        await self._first_reading.wait()
        while True:
            for contract in list(self._contracts):
                await self._sleep(self._share_seconds)
                await self._sample(contract)

    async def _sample(self, contract: str) -> None:
        """Read one long-account share; a failure leaves the last one until it expires."""
        try:
            self._market.sampled(await self._exchange.long_accounts(contract))
        except UnknownToUpstream:
            log.debug("no long-account share", extra={"contract": contract})
        except UpstreamError as error:
            log.debug("long-account share failed", extra={"kind": error.kind})

    async def _listen(self) -> None:
        """Listen to liquidations, also of contracts that are added later."""
        await self._first_reading.wait()
        seconds = self._settings.poll_seconds
        await Listening(self._exchange, self._market, lambda: self._contracts, seconds).run()
