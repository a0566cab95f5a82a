"""Status results per minute, and the incidents that follow from them (pure).

Every minute each part gets one result. Two consecutive results that are not ok open an incident;
two that are ok close it. Results further apart than `MAX_GAP` are not consecutive: the time
between them counts neither as an outage nor as health.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.status.rules import Condition, ServiceStatus

API: Final = "api"
"""The name of the API among the checks."""

MAX_GAP = 3 * MINUTE
"""The longest time between consecutive results: another worker may need so long to take over."""

INCIDENT_RULE = (
    "An incident begins when a part fails two checks in a row, one minute apart, and ends when it "
    "passes two in a row."
)
"""What `updated_incident` does, in words for readers."""

KEPT_FOR = 90 * DAY
HOURS_SHOWN = 24
DAYS_SHOWN = 60
INCIDENTS_SHOWN = 50

Resolution = Literal["hour", "day"]
SPANS: Final[dict[Resolution, int]] = {"hour": HOUR, "day": DAY}
_ORDER: Final[dict[Condition, int]] = {"ok": 0, "degraded": 1, "down": 2}


class CheckResult(NamedTuple):
    """The condition of a part in one minute."""

    name: str
    condition: Condition
    detail: str


class ConditionCount(NamedTuple):
    """How many minutes of an hour or day a part was in each condition."""

    resolution: Resolution
    name: str
    at: int
    """Where the hour or day begins."""

    ok: int
    degraded: int
    down: int

    @property
    def recorded(self) -> int:
        """How many minutes have a result."""
        return self.ok + self.degraded + self.down

    @property
    def worst(self) -> Condition | None:
        """The worst condition; None without a result."""
        if self.down:
            return "down"
        if self.degraded:
            return "degraded"
        return "ok" if self.ok else None


class Run(NamedTuple):
    """Consecutive results that are all ok, or all not ok."""

    name: str
    started_at: int
    last_at: int
    worst: Condition
    detail: str
    """That of the first result."""

    @property
    def is_ok(self) -> bool:
        """Whether the results are ok."""
        return self.worst == "ok"

    @property
    def is_certain(self) -> bool:
        """Whether there is more than one result."""
        return self.last_at > self.started_at


class Incident(NamedTuple):
    """A time in which a part was not ok."""

    name: str
    started_at: int
    ended_at: int | None
    worst: Condition
    detail: str
    """That of the first result."""

    unwatched_from: int | None = None
    unwatched_until: int | None = None
    unwatched_ms: int = 0
    """How much of the time between those two has no result."""


class StatusHistory(NamedTuple):
    """The last hours and days, and the newest incidents first."""

    now: int
    """When it was read."""

    counts: Sequence[ConditionCount]
    incidents: Sequence[Incident]
    last_at: Mapping[str, int]
    """The last minute with a result, by part."""


def check_results(status: ServiceStatus) -> list[CheckResult]:
    """The results of a status: the API, and every part that can fail now.

    Parts that are not configured or warming up have no result.
    """
    checks = [
        CheckResult(check.name, check.status, check.detail)
        for check in status.checks
        if check.status != "not_configured" and check.status != "warming_up"  # noqa: PLR1714 - types
    ]
    # Only the database makes the API less than ok.
    why = "; ".join(f"{check.name} {check.detail}" for check in checks if check.name == "database")
    return [CheckResult(API, status.api.status, why), *checks]


def counts(result: CheckResult, at: int) -> list[ConditionCount]:
    """What one result adds to its hour and its day."""
    ok, degraded, down = (int(name == result.condition) for name in _ORDER)
    return [
        ConditionCount(each, result.name, at // span * span, ok, degraded, down)
        for each, span in SPANS.items()
    ]


def is_due(last: Run | None, at: int, *, is_late: bool = False) -> bool:
    """Whether a part still needs a result for this minute.

    A result far ahead came from a clock that ran fast, so it is ignored. A late write keeps it,
    because another worker may have recorded the same minute.
    """
    if last is None or at > last.last_at:
        return True
    return not is_late and at < last.last_at - MAX_GAP


def extended_run(last: Run | None, result: CheckResult, at: int) -> Run:
    """The last run with this result, or a new run."""
    is_ok = result.condition == "ok"
    if last is None or last.is_ok != is_ok or not _are_consecutive(last.last_at, at):
        return Run(result.name, at, at, result.condition, result.detail)
    return last._replace(last_at=at, worst=_worse(last.worst, result.condition))


def updated_incident(incident: Incident | None, last: Run | None, run: Run) -> Incident | None:
    """The open incident of a part, if any, once `run` follows `last`.

    An incident begins and ends with the first of the two results that prove it.
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


def abandoned_incident(incident: Incident, last: Run | None) -> Incident:
    """An incident of a part that is no longer checked, ended at its last result."""
    seen = incident.started_at if last is None else last.last_at
    return incident._replace(ended_at=max(seen, incident.started_at))


def _with_gap(incident: Incident, last: Run | None, run: Run) -> Incident:
    if last is None or run.last_at < last.last_at or _are_consecutive(last.last_at, run.last_at):
        return incident
    since = last.last_at + MINUTE
    return incident._replace(
        unwatched_from=since if incident.unwatched_from is None else incident.unwatched_from,
        unwatched_until=run.last_at,
        unwatched_ms=incident.unwatched_ms + run.last_at - since,
    )


def _are_consecutive(before: int, after: int) -> bool:
    return 0 <= after - before <= MAX_GAP


def _worse(one: Condition, other: Condition) -> Condition:
    return max(one, other, key=_ORDER.__getitem__)
