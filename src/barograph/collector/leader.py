"""The leader's loop: measure, record, judge and publish for as long as it holds the lease.

One collector leads. Any number of others wait and take over when its lease expires.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from secrets import token_hex

from barograph.collector.jobs import Job, Sleep
from barograph.collector.judge import Conclusion, Judge, write_conclusions
from barograph.collector.listening import Listening
from barograph.errors import InvalidReply, LeaseLost, UnknownToUpstream, UpstreamError
from barograph.keys.registration import forget_registrations
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import SECOND
from barograph.markets.exchange import Exchange
from barograph.markets.records import MAJORS, Perpetuals, majors_first
from barograph.markets.store import forget_old
from barograph.settings import Settings

log = logging.getLogger(__name__)

LEASE = "collector"
HOUSEKEEPING_SECONDS = 600


class Collector:
    """Collects whenever it holds the lease."""

    def __init__(
        self,
        settings: Settings,
        exchange: Exchange,
        database: Database,
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
        jobs: Sequence[Job] = (),
    ) -> None:
        self._settings = settings
        self._exchange = exchange
        self._database = database
        self._clock = clock
        self._sleep = sleep
        self._jobs = jobs
        self._lease = collector_lease(settings, database, clock)
        self._judge = Judge(settings)
        self._contracts: list[str] = []
        self._first_reading = asyncio.Event()
        self._last_as_of: int | None = None

    @property
    def is_leading(self) -> bool:
        """Whether it has the lease; without the database, only until that expires."""
        return self._lease.is_held

    async def run(self) -> None:
        """Lead whenever possible, until cancelled."""
        try:
            is_waiting = False
            while True:
                if await self._try_acquire():
                    log.info("collector leads")
                    await self._lead()
                elif not is_waiting:
                    log.info("collector waits for the lease")
                is_waiting = True
                await self._sleep(self._settings.lease_seconds / 3)
        finally:
            await self._stop()

    async def _lead(self) -> None:
        """Run all the tasks of a leader until the lease is lost."""
        self._judge = Judge(self._settings)
        self._first_reading.clear()
        try:
            await self._judge.load(self._database, self._clock())
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_lease())
                tasks.create_task(self._poll())
                tasks.create_task(self._rotate_long_accounts())
                tasks.create_task(self._listen())
                tasks.create_task(self._delete_old())
                for job in self._jobs:
                    tasks.create_task(job(self._lease))
        except* LeaseLost:
            log.warning("collector lost the lease")
        except* DatabaseUnavailable as errors:
            log.warning(
                "collector cannot use the database", extra={"reason": str(errors.exceptions[0])}
            )

    async def _poll(self) -> None:
        """Read all perpetuals every few seconds."""
        failing = False
        while True:
            started = self._clock()
            await self._judge.refresh(self._database, started)
            try:
                reading = await self._exchange.perpetuals()
                self._check_progress(reading)
                await self._list_contracts(reading)
            except UpstreamError as error:
                if not failing:
                    log.warning("exchange fails", extra={"kind": error.kind, "why": str(error)})
                failing = True
                await self._write(self._judge.conclude_failure(error, self._clock()))
            else:
                if failing:
                    log.info("exchange answers again")
                failing = False
                await self._write(self._judge.conclude(reading, self._clock()))
            spent = (self._clock() - started) / SECOND
            # A clock that was set back must not make the pause longer.
            pause = min(self._settings.poll_seconds, self._settings.poll_seconds - spent)
            await self._sleep(max(0.0, pause))

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
            for each in listed:
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
            self._judge.sampled(await self._exchange.long_accounts(contract))
        except UnknownToUpstream:
            log.debug("no long-account share", extra={"contract": contract})
        except UpstreamError as error:
            log.debug("long-account share failed", extra={"kind": error.kind})

    async def _listen(self) -> None:
        """Listen to liquidations, also of contracts that are added later."""
        await self._first_reading.wait()
        seconds = self._settings.poll_seconds
        await Listening(self._exchange, self._judge, lambda: self._contracts, seconds).run()

    async def _keep_lease(self) -> None:
        """Renew the lease three times before it can expire."""
        while True:
            await self._sleep(self._settings.lease_seconds / 3)
            try:
                await self._lease.renew()
            except DatabaseUnavailable as error:
                # It is ours until another collector takes it.
                log.warning("lease not renewed", extra={"reason": str(error)})

    async def _delete_old(self) -> None:
        """Delete what is past its retention."""

        async def work(tx: Transaction) -> None:
            await self._lease.fence(tx)
            await forget_old(tx, self._settings, self._clock())
            await forget_registrations(tx, self._clock())

        while True:
            try:
                await self._database.write(work)
            except DatabaseUnavailable as error:
                log.warning("old rows not deleted", extra={"reason": str(error)})
            await self._sleep(HOUSEKEEPING_SECONDS)

    async def _write(self, conclusion: Conclusion) -> None:
        if conclusion.row_count == 0:
            return
        try:
            await write_conclusions(self._database, self._lease, [conclusion])
        except DatabaseUnavailable as error:
            log.warning(
                "reading not stored; its liquidations go with the next",
                extra={"reason": str(error)},
            )
        else:
            self._judge.written(conclusion)

    async def _try_acquire(self) -> bool:
        try:
            return await self._lease.acquire()
        except DatabaseUnavailable as error:
            log.warning("lease not acquired", extra={"reason": str(error)})
            return False

    async def _stop(self) -> None:
        """Store the liquidations since the last reading, and release the lease."""
        try:
            with suppress(LeaseLost):
                await self._write(self._judge.conclude_stop())
            await self._lease.release()
        except DatabaseUnavailable:
            log.warning("lease not released; it will expire")


def collector_lease(settings: Settings, database: Database, clock: Clock) -> Lease:
    """The lease that makes one collector the leader."""
    return Lease(
        database,
        LEASE,
        f"{socket.gethostname()}:{os.getpid()}:{token_hex(4)}",
        clock=clock,
        milliseconds=int(settings.lease_seconds * SECOND),
    )
