"""The body of `/api/status`."""

from typing import Annotated, Literal

from pydantic import Field

from barograph.kit.wire import WireModel

Condition = Literal["ok", "degraded", "down"]
CheckStatus = Literal["ok", "degraded", "down", "not_configured", "warming_up"]


class FeedStatus(WireModel):
    """The market feed. It is `down` if its data is past the freshness limit; reads return 502."""

    status: Condition
    source: Annotated[
        str | None, Field(description="The venue in use; null before the first reading.")
    ]
    last_update: Annotated[str | None, Field(description="Time of the newest reading.")]
    age_seconds: Annotated[float | None, Field(description="Age of the newest reading.")]
    max_age_seconds: Annotated[float, Field(description="The freshness limit.")]
    liquidation_coverage_pct: Annotated[
        float | None, Field(description="Share of the last 24 hours that was covered, in percent.")
    ]


class ApiStatus(WireModel):
    """The API of this worker."""

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
    """`down` if the market feed or the database is down; `degraded` if another check fails."""

    status: Condition
    as_of: str
    feed: FeedStatus
    api: ApiStatus
    checks: list[Check]
    notice: str
