"""The body of `/api/status`."""

from typing import Annotated, Literal

from pydantic import Field

from barograph.kit.wire import WireModel

Condition = Literal["ok", "degraded", "down"]
CheckStatus = Literal["ok", "degraded", "down", "not_configured", "warming_up"]


class FeedStatus(WireModel):
    """The market feed. It is `down` when its data is past the bound, where reads answer 502."""

    status: Condition
    source: Annotated[str | None, Field(description="The venue in use; null before any reading.")]
    last_update: Annotated[str | None, Field(description="Timestamp of the newest reading.")]
    age_seconds: Annotated[float | None, Field(description="Age of the newest reading.")]
    max_age_seconds: Annotated[float, Field(description="The freshness bound.")]
    liquidation_coverage_pct: Annotated[
        float | None, Field(description="How much of the last 24 hours was watched.")
    ]


class ApiStatus(WireModel):
    """The API itself, as this worker sees it."""

    status: Condition
    version: str
    started_at: str
    uptime_seconds: float


class Check(WireModel):
    """One part. `not_configured` and `warming_up` (`detail` says until when) are not failures."""

    name: str
    status: CheckStatus
    detail: str


class ServiceStatus(WireModel):
    """`down` when the market feed or the database is down; `degraded` when another check fails."""

    status: Condition
    as_of: str
    feed: FeedStatus
    api: ApiStatus
    checks: list[Check]
    notice: str
