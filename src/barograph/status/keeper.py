"""Keeps the record of the status: looks once a minute, whether or not anybody asks."""

import asyncio
import logging
import os
import random
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from secrets import token_hex
from typing import NamedTuple, Protocol

from barograph.errors import LeaseLost
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Transaction
from barograph.kit.lease import Lease
from barograph.kit.letting_go import within
from barograph.kit.timestamps import MINUTE, SECOND
from barograph.status.recording import Sighting, sightings
from barograph.status.store import record
from barograph.status.wire import ServiceStatus

log = logging.getLogger(__name__)

Sleep = Callable[[float], Awaitable[None]]
LEASE = "status"
LEASE_MS = 90 * SECOND
PROBE_SECONDS = 10.0
PAST_THE_MINUTE = 0.1
"""Seconds after a minute began: a timer that fires early must not find the minute before."""

SPREAD_SECONDS = 30.0
"""Keepers look at different times of the minute, so that not all ask those outside at once."""

MOST_UNWRITTEN = 180
"""So many minutes are kept while the database is away; the oldest go first."""


class Minute(NamedTuple):
    """How everything was found in the minute that begins at `at`."""

    at: int
    seen: Sequence[Sighting]


class Probed(Protocol):
    """A part whose health is known only by asking it."""

    async def probe(self) -> None:
        """Ask it, in bounded time; the part records the result itself."""


class Keeper:
    """One in each web worker.

    All of them probe, because a worker knows only what it asked itself; the one that holds the
    lease records.
    """

    def __init__(
        self,
        database: Database,
        read: Callable[[int], ServiceStatus],
        watched: Sequence[Probed],
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
        offset: float | None = None,
    ) -> None:
        """Take who is asked; `offset` is where in the minute it looks, by chance unless given."""
        self._database = database
        self._read = read
        self._watched = watched
        self._clock = clock
        self._sleep = sleep
        chance = random.uniform(0, SPREAD_SECONDS)
        self._offset_ms = int((chance if offset is None else offset) * SECOND)
        self._failing = False
        self._unwritten: deque[Minute] = deque(maxlen=MOST_UNWRITTEN)
        holder = f"{socket.gethostname()}:{os.getpid()}:{token_hex(4)}"
        self._lease = Lease(database, LEASE, holder, clock=clock, milliseconds=LEASE_MS)

    async def run(self) -> None:
        """Look once in every minute, until cancelled."""
        try:
            await self.probe()
            while True:
                into_minute = (self._clock() - self._offset_ms) % MINUTE
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
            self._unwritten.clear()
            log.info("the status is recorded by another worker")
        except DatabaseUnavailable as error:
            if not self._failing:
                log.warning("status not recorded", extra={"reason": str(error)})
            self._failing = True
        except Exception:
            self._unwritten.clear()  # it may be why
            log.exception("status not recorded")
        else:
            self._failing = False

    async def probe(self) -> None:
        """Ask everybody outside at once; each notes for itself how that went."""
        log.debug("probing those outside")
        asking = (within(PROBE_SECONDS, each.probe()) for each in self._watched)
        for outcome in await asyncio.gather(*asking, return_exceptions=True):
            if isinstance(outcome, Exception):
                # Only the name: who knows what the text of an unexpected error holds.
                log.warning("probe failed", extra={"reason": type(outcome).__name__})

    async def _record(self) -> None:
        """Record what is found now, after what could not be written before.

        While the database is away nobody can tell who leads, so every keeper keeps what it finds;
        the one that leads afterwards writes its own.
        """
        try:
            leads = await self._leads()
        except DatabaseUnavailable:
            self._find()
            raise
        if not leads:
            self._unwritten.clear()
            return
        self._find()
        found = list(self._unwritten)

        async def work(tx: Transaction) -> None:
            await self._lease.fence(tx)
            for minute in found:
                await record(tx, minute.seen, minute.at, is_late=minute is not found[-1])

        await self._database.write(work)
        self._unwritten.clear()

    def _find(self) -> None:
        now = self._clock()
        self._unwritten.append(Minute(now // MINUTE * MINUTE, sightings(self._read(now))))

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
