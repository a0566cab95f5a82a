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
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.status.incidents import (
    DAYS_SHOWN,
    HOURS_SHOWN,
    INCIDENTS_SHOWN,
    KEPT_FOR,
    Count,
    Incident,
    Record,
    Run,
    Sighting,
    abandoned,
    counts,
    extended,
    is_due,
    judged,
    sightings,
)
from barograph.status.wire import ServiceStatus


async def record(
    tx: Transaction, seen: Sequence[Sighting], at: int, *, is_late: bool = False
) -> None:
    """Record how every part was found in the minute that begins at `at`, and forget the old."""
    runs = {row[0]: Run(*row) for row in await tx.fetch(_RUNS)}
    incidents = {row[0]: Incident(*row) for row in await tx.fetch(_OPEN)}
    for sighting in seen:
        last = runs.get(sighting.name)
        if not is_due(last, at, is_late=is_late):
            continue
        run = extended(last, sighting, at)
        incident = judged(incidents.get(sighting.name), last, run)
        await tx.execute_many(_COUNT, counts(sighting, at))
        await tx.execute(_KEEP_RUN, *run)
        if incident is not None:
            await tx.execute(_KEEP_INCIDENT, *incident)
    for name in incidents.keys() - {each.name for each in seen}:
        await tx.execute(_KEEP_INCIDENT, *abandoned(incidents[name], runs.get(name)))
    for statement in _FORGET:
        await tx.execute(statement, at - KEPT_FOR)


async def read_record(tx: Transaction, now: int) -> Record:
    """Read what a page shows."""
    hours = await tx.fetch(_COUNTS, "hour", now // HOUR * HOUR - (HOURS_SHOWN - 1) * HOUR, now)
    first_day = now // DAY * DAY - (DAYS_SHOWN - 1) * DAY
    days = await tx.fetch(_COUNTS, "day", first_day, now)
    incidents = await tx.fetch(_INCIDENTS, first_day, INCIDENTS_SHOWN)
    last_at = await tx.fetch(_LAST)
    return Record(
        now,
        [Count(*row) for row in (*hours, *days)],
        [Incident(*row) for row in incidents],
        dict(last_at),
    )


_RUNS = "SELECT name, started_at, last_at, worst, detail FROM status_runs"
_LAST = "SELECT name, last_at FROM status_runs"
_COUNTS = """
SELECT resolution, name, at, ok, degraded, down FROM status_counts
WHERE resolution = $1 AND at >= $2 AND at <= $3
"""
_INCIDENT = """
SELECT name, started_at, ended_at, worst, detail, unwatched_from, unwatched_until, unwatched_ms
FROM status_incidents
"""
_OPEN = f"{_INCIDENT} WHERE ended_at IS NULL"
_INCIDENTS = f"""
{_INCIDENT} WHERE ended_at IS NULL OR ended_at >= $1 ORDER BY started_at DESC, name LIMIT $2
"""
_COUNT = """
INSERT INTO status_counts (resolution, name, at, ok, degraded, down)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (resolution, name, at) DO UPDATE SET
    ok = status_counts.ok + excluded.ok,
    degraded = status_counts.degraded + excluded.degraded,
    down = status_counts.down + excluded.down
"""
_KEEP_RUN = """
INSERT INTO status_runs (name, started_at, last_at, worst, detail) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (name) DO UPDATE SET
    started_at = excluded.started_at,
    last_at = excluded.last_at,
    worst = excluded.worst,
    detail = excluded.detail
"""
_KEEP_INCIDENT = """
INSERT INTO status_incidents (
    name, started_at, ended_at, worst, detail, unwatched_from, unwatched_until, unwatched_ms
) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (name, started_at) DO UPDATE SET
    ended_at = excluded.ended_at,
    worst = excluded.worst,
    unwatched_from = excluded.unwatched_from,
    unwatched_until = excluded.unwatched_until,
    unwatched_ms = excluded.unwatched_ms
"""
_FORGET = (
    "DELETE FROM status_counts WHERE resolution IN ('hour', 'day') AND at < $1",
    "DELETE FROM status_incidents WHERE started_at < $1 AND ended_at < $1",
    "DELETE FROM status_runs WHERE last_at < $1",
)


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
        asking = (asyncio.wait_for(each.probe(), PROBE_SECONDS) for each in self._watched)
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
