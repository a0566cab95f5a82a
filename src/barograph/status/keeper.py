"""Keeps the record of the status: looks once a minute, whether or not anybody asks."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from secrets import token_hex

from barograph.access.contact import Watched
from barograph.errors import LeaseLost
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.lease import Lease
from barograph.kit.letting_go import within
from barograph.kit.timestamps import MINUTE, SECOND
from barograph.status.recording import sightings
from barograph.status.store import record
from barograph.status.wire import Status

log = logging.getLogger(__name__)

Sleep = Callable[[float], Awaitable[None]]
LEASE = "status"
LEASE_MS = 90 * SECOND
PROBE_SECONDS = 10.0
PAST_THE_MINUTE = 0.1
"""Seconds after a minute began: a timer that fires early must not find the minute before."""


class Keeper:
    """One in each web worker.

    All of them probe, because a worker knows only what it asked itself; the one that holds the
    lease records.
    """

    def __init__(
        self,
        database: Database,
        read: Callable[[int], Status],
        watched: Sequence[Watched],
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._database = database
        self._read = read
        self._watched = watched
        self._clock = clock
        self._sleep = sleep
        self._failing = False
        holder = f"{socket.gethostname()}:{os.getpid()}:{token_hex(4)}"
        self._lease = Lease(database, LEASE, holder, clock=clock, milliseconds=LEASE_MS)

    async def run(self) -> None:
        """Look at the beginning of every minute, until cancelled."""
        try:
            await self.probe()
            while True:
                into_minute = self._clock() % MINUTE
                await self._sleep((MINUTE - into_minute) / SECOND + PAST_THE_MINUTE)
                await self.look()
        finally:
            await self._let_go()

    async def look(self) -> None:
        """Ask those outside, then record how everything is; whatever fails, nothing is raised."""
        await self.probe()
        try:
            await self._record()
        except LeaseLost:
            log.info("the status is recorded by another worker")
        except DatabaseUnavailable as error:
            if not self._failing:
                log.warning("status not recorded", extra={"reason": str(error)})
            self._failing = True
        except Exception:
            log.exception("status not recorded")
        else:
            self._failing = False

    async def probe(self) -> None:
        """Ask everybody outside at once; each notes for itself how that went."""
        asking = (within(PROBE_SECONDS, each.probe()) for each in self._watched)
        for outcome in await asyncio.gather(*asking, return_exceptions=True):
            if isinstance(outcome, Exception):
                # Only the name: who knows what the text of an unexpected error holds.
                log.warning("probe failed", extra={"reason": type(outcome).__name__})

    async def _record(self) -> None:
        if not await self._leads():
            return
        now = self._clock()
        seen = sightings(self._read(now))

        async def work(tx: Transaction) -> None:
            await self._lease.fence(tx)
            await record(tx, seen, now // MINUTE * MINUTE)

        await self._database.write(work)

    async def _leads(self) -> bool:
        try:
            await self._lease.renew()
        except LeaseLost:
            return await self._lease.acquire()
        return True

    async def _let_go(self) -> None:
        """Let another worker in at once."""
        try:
            await self._lease.release()
        except DatabaseUnavailable:
            log.info("lease not released; it will run out")
