"""The recorded status: small, counted by the hour and the day, and dropped after some months."""

from collections.abc import Sequence

from barograph.kit.database import Transaction
from barograph.kit.timestamps import DAY, HOUR
from barograph.status.recording import (
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
)


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
