"""The leader's loop: measure, record, judge and publish for as long as it holds the lease.

One collector leads. Any number of others wait and take over when its lease expires.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from secrets import token_hex

from barograph.alerts.store import forget_messages
from barograph.collector.jobs.job import Job, Sleep
from barograph.collector.judge import Conclusion, Judge, write_conclusions
from barograph.collector.venue_reading import SHARE_SECONDS, VenueReading
from barograph.errors import LeaseLost
from barograph.keys.registration import forget_registrations
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.lease import HostClock, Lease, server_clock
from barograph.kit.timestamps import SECOND
from barograph.markets.store import forget_old
from barograph.settings import Settings
from barograph.venues.exchange import Exchange

log = logging.getLogger(__name__)

LEASE = "collector"
HOUSEKEEPING_SECONDS = 600

LEASE_SECONDS = 15.0
"""Without a heartbeat for this long, another collector takes over."""


class Collector:
    """Collects whenever it holds the lease."""

    def __init__(
        self,
        settings: Settings,
        exchanges: Sequence[Exchange],
        database: Database,
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
        jobs: Sequence[Job] = (),
        lease_seconds: float = LEASE_SECONDS,
        share_seconds: float = SHARE_SECONDS,
    ) -> None:
        self._settings = settings
        self._exchanges = exchanges
        self._database = database
        self._clock = clock
        self._sleep = sleep
        self._jobs = jobs
        self._lease_seconds = lease_seconds
        self._share_seconds = share_seconds
        self._lease = collector_lease(database, clock, lease_seconds)
        self._host_clock = HostClock(database, clock)
        self._judge = Judge(settings)
        self._writing = asyncio.Lock()

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
                await self._sleep(self._lease_seconds / 3)
        finally:
            await self._stop()

    async def _lead(self) -> None:
        self._judge = Judge(self._settings)
        try:
            await self._judge.load(self._database, self._clock())
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_lease())
                tasks.create_task(self._delete_old())
                for exchange in self._exchanges:
                    self._reading(exchange).start(tasks)
                for job in self._jobs:
                    tasks.create_task(job(self._lease))
        except* LeaseLost:
            log.warning("collector lost the lease")
        except* DatabaseUnavailable as errors:
            log.warning(
                "collector cannot use the database", extra={"reason": str(errors.exceptions[0])}
            )

    async def _keep_lease(self) -> None:
        """Renew the lease three times before it can expire."""
        while True:
            await self._sleep(self._lease_seconds / 3)
            try:
                if not await self._has_right_clock():
                    await self._lease.release()
                await self._lease.renew()  # raises if it was released
            except DatabaseUnavailable as error:
                # It is ours until another collector takes it.
                log.warning("lease not renewed", extra={"reason": str(error)})

    async def _delete_old(self) -> None:
        async def work(tx: Transaction) -> None:
            await self._lease.fence(tx)
            await forget_old(tx, self._clock())
            await forget_registrations(tx, self._clock())
            await forget_messages(tx, self._clock())

        while True:
            try:
                await self._database.write(work)
            except DatabaseUnavailable as error:
                log.warning("old rows not deleted", extra={"reason": str(error)})
            await self._sleep(HOUSEKEEPING_SECONDS)

    def _reading(self, exchange: Exchange) -> VenueReading:
        return VenueReading(
            self._settings,
            exchange,
            self._judge,
            self._write,
            clock=self._clock,
            sleep=self._sleep,
            share_seconds=self._share_seconds,
        )

    async def _write(self, conclude: Callable[[int], Sequence[Conclusion]]) -> None:
        """Conclude and store; one at a time, because a conclusion includes what is not stored.

        What the judge reads again must not overtake a write either.
        """
        async with self._writing:
            if self._lease.is_held:
                await self._judge.refresh(self._database, self._clock())
            conclusions = [each for each in conclude(self._clock()) if each.row_count]
            if not conclusions:
                return
            try:
                await write_conclusions(self._database, self._lease, conclusions)
            except DatabaseUnavailable as error:
                log.warning(
                    "reading not stored; its liquidations go with the next",
                    extra={"reason": str(error)},
                )
            else:
                for conclusion in conclusions:
                    self._judge.written(conclusion)

    async def _try_acquire(self) -> bool:
        try:
            return await self._has_right_clock() and await self._lease.acquire()
        except DatabaseUnavailable as error:
            log.warning("lease not acquired", extra={"reason": str(error)})
            return False

    async def _has_right_clock(self) -> bool:
        await self._host_clock.probe()
        if self._host_clock.problem is not None:
            log.error("collector doesn't lead", extra={"reason": self._host_clock.problem})
        return self._host_clock.problem is None

    async def _stop(self) -> None:
        """Store the liquidations since the last reading, and release the lease."""
        try:
            with suppress(LeaseLost):
                await self._write(lambda _: self._judge.conclude_stop())
            await self._lease.release()
        except DatabaseUnavailable:
            log.warning("lease not released; it will expire")


def collector_lease(database: Database, clock: Clock, seconds: float = LEASE_SECONDS) -> Lease:
    """The lease that makes one collector the leader."""
    return Lease(
        database,
        LEASE,
        f"{socket.gethostname()}:{os.getpid()}:{token_hex(4)}",
        clock=clock,
        milliseconds=int(seconds * SECOND),
        server=server_clock(database),
    )
