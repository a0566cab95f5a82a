"""Reads one venue for as long as the collector leads: readings, account shares, liquidations."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import chain

from barograph.collector.jobs.job import Sleep
from barograph.collector.judge import Conclusion, Judge
from barograph.collector.listening import Listening
from barograph.errors import InvalidReply, UnknownToUpstream, UpstreamError
from barograph.kit.clock import Clock
from barograph.kit.timestamps import SECOND
from barograph.markets.exchange import Exchange
from barograph.markets.records import MAJORS, Perpetuals, majors_first
from barograph.settings import Settings

log = logging.getLogger(__name__)

Write = Callable[[Callable[[int], Sequence[Conclusion]]], Awaitable[None]]
"""Calls a function with the time, and stores what it concludes; one venue at a time."""


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
    ) -> None:
        self._settings = settings
        self._exchange = exchange
        self._judge = judge
        self._market = judge.of(exchange.venue.name)
        self._write = write
        self._clock = clock
        self._sleep = sleep
        self._contracts: list[str] = []
        self._first_reading = asyncio.Event()
        self._last_as_of: int | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Start everything that the venue publishes."""
        tasks.create_task(self._poll())
        tasks.create_task(self._exchange.keep_up())
        if self._exchange.venue.has_long_accounts:
            tasks.create_task(self._rotate_long_accounts())
        if self._exchange.venue.liquidations != "none":
            tasks.create_task(self._listen())

    async def _poll(self) -> None:
        """Read all perpetuals every few seconds."""
        failing, venue = False, self._exchange.venue.name
        while True:
            started = self._clock()
            try:
                reading = await self._exchange.perpetuals()
                self._check_progress(reading)
                await self._list_contracts(reading)
            except UpstreamError as error:
                if not failing:
                    why = {"venue": venue, "kind": error.kind, "why": str(error)}
                    log.warning("exchange fails", extra=why)
                failing = True
                await self._write(partial(self._failed, error))
            else:
                if failing:
                    log.info("exchange answers again", extra={"venue": venue})
                failing = False
                await self._write(partial(self._succeeded, reading))
            spent = (self._clock() - started) / SECOND
            # A clock that was set back must not make the pause longer.
            pause = min(self._settings.poll_seconds, self._settings.poll_seconds - spent)
            await self._sleep(max(0.0, pause))

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
            for each in listed if self._exchange.venue.has_long_accounts else ():
                if each.base in MAJORS:
                    await self._sample(each.contract)
            self._first_reading.set()

    async def _rotate_long_accounts(self) -> None:
        """Sample one contract after the other, within the exchange's rate limit."""
        await self._first_reading.wait()
        while True:
            for contract in list(self._contracts):
                await self._sleep(1 / self._settings.long_accounts_calls_per_second)
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
