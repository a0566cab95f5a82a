"""What is recorded of the status, and what follows from the records (pure).

Every minute the condition of each part becomes one record. Two records that are not ok, one after
the other, open an incident; two that are ok close it. Records that lie far apart do not follow each
other: nobody watched between them, and that counts neither as an outage nor as health.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.status.wire import Condition, ServiceStatus

API: Final = "api"
"""The name under which the API itself is recorded, beside the checks."""

WATCHED_APART = 3 * MINUTE
"""Records up to so far apart follow each other: so long the next worker may take to step in."""

INCIDENT_RULE = (
    "An incident begins when a part is found not ok at two looks in a row, which are a minute "
    "apart, and ends when it is found ok at two in a row."
)
"""What `judged` does, in words for who reads its outcome."""

KEPT_FOR = 90 * DAY
HOURS_SHOWN = 24
DAYS_SHOWN = 60
INCIDENTS_SHOWN = 50

Resolution = Literal["hour", "day"]
SPANS: Final[dict[Resolution, int]] = {"hour": HOUR, "day": DAY}
_ORDER: Final[dict[Condition, int]] = {"ok": 0, "degraded": 1, "down": 2}


class Sighting(NamedTuple):
    """How a part was found."""

    name: str
    condition: Condition
    detail: str


class Count(NamedTuple):
    """How many minutes of an hour or a day a part was found in each condition."""

    resolution: Resolution
    name: str
    at: int
    """Where the hour or day begins."""

    ok: int
    degraded: int
    down: int

    @property
    def recorded(self) -> int:
        """How many minutes somebody looked."""
        return self.ok + self.degraded + self.down

    @property
    def worst(self) -> Condition | None:
        """The worst that was found; None where nothing was."""
        if self.down:
            return "down"
        if self.degraded:
            return "degraded"
        return "ok" if self.ok else None


class Run(NamedTuple):
    """Records that follow each other and are all ok, or all not."""

    name: str
    started_at: int
    last_at: int
    worst: Condition
    detail: str
    """What the first of them said."""

    @property
    def is_ok(self) -> bool:
        """Whether the part was well all the time."""
        return self.worst == "ok"

    @property
    def is_certain(self) -> bool:
        """Whether it is more than one record, which may be chance."""
        return self.last_at > self.started_at


class Incident(NamedTuple):
    """A time in which a part was not ok."""

    name: str
    started_at: int
    ended_at: int | None
    worst: Condition
    detail: str
    """What was said when it began."""

    unwatched_from: int | None = None
    unwatched_until: int | None = None
    unwatched_ms: int = 0
    """So much of the time between those two nobody looked."""


class Record(NamedTuple):
    """What was recorded lately: the last hours and days, newest incidents first."""

    now: int
    """When it was read."""

    counts: Sequence[Count]
    incidents: Sequence[Incident]
    last_at: Mapping[str, int]
    """The last minute in which a part was recorded, by its name."""


def sightings(status: ServiceStatus) -> list[Sighting]:
    """What there is to record of a status: the API, and every check that can fail now.

    A part that is not configured or still warming up is neither healthy nor failing.
    """
    checks = [
        Sighting(each.name, each.status, each.detail)
        for each in status.checks
        if each.status != "not_configured" and each.status != "warming_up"  # noqa: PLR1714 - types
    ]
    # Nothing but the database makes the API less than ok.
    why = "; ".join(f"{each.name} {each.detail}" for each in checks if each.name == "database")
    return [Sighting(API, status.api.status, why), *checks]


def counts(sighting: Sighting, at: int) -> list[Count]:
    """What one record adds to its hour and its day."""
    found = {name: int(name == sighting.condition) for name in _ORDER}
    return [
        Count(each, sighting.name, at // span * span, found["ok"], found["degraded"], found["down"])
        for each, span in SPANS.items()
    ]


def is_due(last: Run | None, at: int, *, is_late: bool = False) -> bool:
    """Whether a part can be recorded at this minute: each minute counts once.

    A record that lies far ahead was written by a clock that ran ahead, and is no reason to wait;
    but to what is written late it may be another keeper's, who saw the same minute.
    """
    if last is None or at > last.last_at:
        return True
    return not is_late and at < last.last_at - WATCHED_APART


def extended(last: Run | None, sighting: Sighting, at: int) -> Run:
    """The run that a record continues, or the new one that it begins."""
    is_ok = sighting.condition == "ok"
    if last is None or last.is_ok != is_ok or not _follow(last.last_at, at):
        return Run(sighting.name, at, at, sighting.condition, sighting.detail)
    return last._replace(last_at=at, worst=_worse(last.worst, sighting.condition))


def judged(incident: Incident | None, last: Run | None, run: Run) -> Incident | None:
    """What becomes of a part's open incident, if it has one, when `run` comes after `last`.

    An incident begins and ends with the first of the two records that prove it.
    """
    if incident is None:
        if run.is_ok or not run.is_certain:
            return None
        return Incident(run.name, run.started_at, None, run.worst, run.detail)
    incident = _with_gap(incident, last, run)
    if run.is_ok:
        ended = max(run.started_at, incident.started_at) if run.is_certain else None
        return incident._replace(ended_at=ended)
    return incident._replace(worst=_worse(incident.worst, run.worst))


def abandoned(incident: Incident, last: Run | None) -> Incident:
    """How the incident of a part ends that is not looked at any more: when it was seen last."""
    seen = incident.started_at if last is None else last.last_at
    return incident._replace(ended_at=max(seen, incident.started_at))


def _with_gap(incident: Incident, last: Run | None, run: Run) -> Incident:
    if last is None or run.last_at < last.last_at or _follow(last.last_at, run.last_at):
        return incident
    since = last.last_at + MINUTE
    return incident._replace(
        unwatched_from=since if incident.unwatched_from is None else incident.unwatched_from,
        unwatched_until=run.last_at,
        unwatched_ms=incident.unwatched_ms + run.last_at - since,
    )


def _follow(before: int, after: int) -> bool:
    return 0 <= after - before <= WATCHED_APART


def _worse(one: Condition, other: Condition) -> Condition:
    return max(one, other, key=_ORDER.__getitem__)
