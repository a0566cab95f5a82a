"""Records the status once per minute, and reads that history."""

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
from barograph.events.records import NewEvent
from barograph.events.store import append_events
from barograph.kit.clock import Clock
from barograph.kit.database import Database, DatabaseUnavailable, Statement, Transaction
from barograph.kit.documents import FOREVER
from barograph.kit.lease import Lease, ServerClock
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.status.incidents import (
    DAYS_SHOWN,
    HOURS_SHOWN,
    INCIDENTS_SHOWN,
    KEPT_FOR,
    CheckResult,
    ConditionCount,
    Incident,
    Run,
    StatusHistory,
    abandoned_incident,
    check_results,
    counts,
    extended_run,
    is_due,
    updated_incident,
)
from barograph.status.rules import ServiceStatus

log = logging.getLogger(__name__)

Sleep = Callable[[float], Awaitable[None]]
LEASE = "status"
LEASE_MS = 90 * SECOND
PROBE_SECONDS = 10.0
PAST_THE_MINUTE = 0.1
"""Seconds after a minute began, because a timer that fires early would find the minute before."""

SPREAD_SECONDS = 30.0
"""Recorders probe at different times of the minute, to spread the load on outside services."""

MAX_UNWRITTEN = 180
"""Minutes that are kept while the database is unavailable; the oldest are dropped first."""


class MinuteResults(NamedTuple):
    """The results of the minute that begins at `at`."""

    at: int
    results: Sequence[CheckResult]


class Probed(Protocol):
    """A part whose health is known only by calling it."""

    async def probe(self) -> None:
        """Call it with a timeout; the part notes the outcome itself."""


class StatusRecorder:
    """Records the status once per minute; there is one in each web worker.

    Every worker probes, because it knows only its own calls. The worker with the lease records.
    """

    def __init__(
        self,
        database: Database,
        read: Callable[[int], ServiceStatus],
        probed: Sequence[Probed],
        *,
        events: Callable[[int], Sequence[NewEvent]] = lambda _: (),
        clock: Clock,
        server: ServerClock | None = None,
        sleep: Sleep = asyncio.sleep,
        offset: float | None = None,
    ) -> None:
        """Take the parts; `offset` is the second of the minute, random by default.

        `events` returns what to add to the log of events.
        """
        self._events = events
        self._database = database
        self._read = read
        self._probed = probed
        self._clock = clock
        self._sleep = sleep
        chance = random.uniform(0, SPREAD_SECONDS)
        self._offset_ms = int((chance if offset is None else offset) * SECOND)
        self._failing = False
        self._unwritten: deque[MinuteResults] = deque(maxlen=MAX_UNWRITTEN)
        holder = f"{socket.gethostname()}:{os.getpid()}:{token_hex(4)}"
        self._lease = Lease(
            database, LEASE, holder, clock=clock, milliseconds=LEASE_MS, server=server
        )

    async def run(self) -> None:
        """Record every minute until cancelled."""
        try:
            await self.probe()
            while True:
                into_minute = (self._clock() - self._offset_ms) % MINUTE
                await self._sleep((MINUTE - into_minute) / SECOND + PAST_THE_MINUTE)
                await self.record_minute()
        finally:
            await self._release()

    async def record_minute(self) -> None:
        """Probe, then record the status; failures are logged, never raised."""
        await self.probe()
        try:
            await self._record()
        except LeaseLost:
            self._unwritten.clear()
            log.info("another worker records the status")
        except DatabaseUnavailable as error:
            if not self._failing:
                log.warning("status not recorded", extra={"reason": str(error)})
            self._failing = True
        except Exception:
            self._unwritten.clear()  # it may be the cause
            log.exception("status not recorded")
        else:
            self._failing = False

    async def probe(self) -> None:
        """Call all outside services at once."""
        log.debug("probing outside services")
        calls = (asyncio.wait_for(each.probe(), PROBE_SECONDS) for each in self._probed)
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(outcome, Exception):
                # Only the type: the text of an unexpected error may hold a secret.
                log.warning("probe failed", extra={"reason": type(outcome).__name__})

    async def _record(self) -> None:
        """Record this minute, after the minutes that could not be written before.

        While the database is unavailable nobody knows who leads, so every worker keeps its
        results; the next leader writes its own.
        """
        try:
            leads = await self._leads()
        except DatabaseUnavailable:
            self._keep_minute()
            raise
        if not leads:
            self._unwritten.clear()
            return
        self._keep_minute()
        minutes, events = list(self._unwritten), self._events(self._clock())

        async def work(tx: Transaction) -> None:
            await self._lease.fence(tx)
            for minute in minutes:
                is_late = minute is not minutes[-1]
                await record_results(tx, minute.results, minute.at, is_late=is_late)
            await append_events(tx, events)

        await self._database.write(work)
        self._unwritten.clear()

    def _keep_minute(self) -> None:
        now = self._clock()
        results = check_results(self._read(now))
        self._unwritten.append(MinuteResults(now // MINUTE * MINUTE, results))

    async def _leads(self) -> bool:
        try:
            await self._lease.renew()
        except LeaseLost:
            return await self._lease.acquire()
        return True

    async def _release(self) -> None:
        """Let another worker take over at once."""
        try:
            await self._lease.release()
        except DatabaseUnavailable:
            log.info("lease not released; it will expire")


async def record_results(
    tx: Transaction, results: Sequence[CheckResult], at: int, *, is_late: bool = False
) -> None:
    """Record the results of the minute that begins at `at`, and delete old ones."""
    runs = {run.name: run for run in await _RUNS.fetch(tx)}
    incidents = {incident.name: incident for incident in await _OPEN_INCIDENTS.fetch(tx)}
    for result in results:
        last = runs.get(result.name)
        if not is_due(last, at, is_late=is_late):
            continue
        run = extended_run(last, result, at)
        incident = updated_incident(incidents.get(result.name), last, run)
        await tx.execute_many(_ADD_COUNT, counts(result, at))
        await tx.execute(_KEEP_RUN, *run)
        if incident is not None:
            await tx.execute(_KEEP_INCIDENT, *incident)
    for name in incidents.keys() - {each.name for each in results}:
        await tx.execute(_KEEP_INCIDENT, *abandoned_incident(incidents[name], runs.get(name)))
    for statement in _DELETE_OLD:
        await tx.execute(statement, at - KEPT_FOR)


async def read_status_history(
    tx: Transaction,
    now: int,
    since: int | None = None,
    *,
    name: str = "",
    after: tuple[int, str] = (FOREVER, ""),
    count: int = INCIDENTS_SHOWN,
) -> StatusHistory:
    """Read what the status page shows; or all since another time, with the incidents of a part.

    `after` is the start and the name of the last incident of the page before.
    """
    hours = await _COUNTS.fetch(tx, "hour", now // HOUR * HOUR - (HOURS_SHOWN - 1) * HOUR, now)
    since = now // DAY * DAY - (DAYS_SHOWN - 1) * DAY if since is None else since
    days = await _COUNTS.fetch(tx, "day", since // DAY * DAY, now)
    incidents = await _INCIDENTS.fetch(tx, since, *after, name, count)
    last_at = await tx.fetch("SELECT name, last_at FROM status_runs")
    return StatusHistory(now, [*hours, *days], incidents, dict(last_at))


_RUNS = Statement(Run, "SELECT {columns} FROM status_runs")
_COUNTS = Statement(
    ConditionCount,
    "SELECT {columns} FROM status_counts WHERE resolution = $1 AND at >= $2 AND at <= $3",
)
_OPEN_INCIDENTS = Statement(
    Incident, "SELECT {columns} FROM status_incidents WHERE ended_at IS NULL"
)
_INCIDENTS = Statement(
    Incident,
    """
SELECT {columns} FROM status_incidents WHERE (ended_at IS NULL OR ended_at >= $1)
    AND (started_at < $2 OR started_at = $2 AND name > $3) AND ($4 = '' OR name = $4)
ORDER BY started_at DESC, name LIMIT $5
""",
)
_ADD_COUNT = """
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
_DELETE_OLD = (
    "DELETE FROM status_counts WHERE resolution IN ('hour', 'day') AND at < $1",
    "DELETE FROM status_incidents WHERE started_at < $1 AND ended_at < $1",
    "DELETE FROM status_runs WHERE last_at < $1",
)
