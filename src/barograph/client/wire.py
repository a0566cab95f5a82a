"""What the service answers, as frozen records in its own names.

Zero, null and missing are three things: 0 is a number, None was sent as null (it is not known), and
UNSET was not sent at all. Members that are not known here are passed over, so that an older client
reads a newer service.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Number = float | UnsetType | None
"""A figure, None where it is not known, UNSET where nothing was said about it."""

Integer = int | UnsetType | None
Text = str | UnsetType | None


class Endpoint(Struct, frozen=True):
    """One free endpoint."""

    method: str
    path: str
    description: str


class IndexEndpoints(Struct, frozen=True):
    """The free endpoints under `/api/agent`."""

    briefs: Endpoint
    derivatives: Endpoint
    market: Endpoint
    market_state: Endpoint
    guides: Endpoint


class Index(Struct, frozen=True):
    """What there is to read."""

    name: str
    description: str
    site: str
    mcp: str
    endpoints: IndexEndpoints
    notice: str


class Brief(Struct, frozen=True):
    """One brief."""

    headline: str
    category: str
    coins: tuple[str, ...]
    summary: str
    url: str
    publishedAt: str


class Briefs(Struct, frozen=True):
    """The newest briefs, newest first."""

    source: str
    notice: str
    count: int
    briefs: tuple[Brief, ...]


class Derivatives(Struct, frozen=True):
    """One perpetual. When `available` is false every number is None."""

    source: str
    notice: str
    symbol: str
    available: bool
    lastPrice: Number = UNSET
    fundingRatePct: Number = UNSET
    nextFundingTime: Integer = UNSET
    openInterestUsd: Number = UNSET
    longAccountPct: Number = UNSET


class Asset(Struct, frozen=True):
    """One of BTC, ETH and SOL. When `available` is false every number is None."""

    symbol: str
    available: bool
    lastPrice: Number = UNSET
    fundingRatePct: Number = UNSET
    openInterestUsd: Number = UNSET
    longAccountPct: Number = UNSET
    source: str | UnsetType = UNSET
    """Sent in the market state only."""


class Market(Struct, frozen=True):
    """The funding and price snapshot."""

    source: str
    notice: str
    assets: tuple[Asset, ...]


class Liq24h(Struct, frozen=True):
    """Liquidations of one venue in the last 24 hours; None when too little of them was watched."""

    available: bool
    totalNotional: Number = UNSET
    longPct: Number = UNSET
    topAsset: Text = UNSET


class Regime(Struct, frozen=True):
    """The regime of the market and what it rests on."""

    label: str
    basis: str
    note: str


class MarketState(Struct, frozen=True):
    """Everything known about the market at `as_of`."""

    as_of: str
    source: str
    citation: str
    notice: str
    assets: tuple[Asset, ...]
    liq24h: Liq24h
    regime: Regime


class Guide(Struct, frozen=True):
    """One paid guide."""

    slug: str
    title: str
    description: str
    tags: tuple[str, ...]
    pages: int
    price: int | float
    url: str


class Guides(Struct, frozen=True):
    """The whole catalog."""

    source: str
    notice: str
    count: int
    guides: tuple[Guide, ...]


class Signal(Struct, frozen=True):
    """One regime signal; its label is `unknown` when its input is stale."""

    key: str
    name: str
    label: str
    value: str
    url: str


class Signals(Struct, frozen=True):
    """Every signal."""

    ok: bool
    version: str
    source: str
    updatedAt: str
    signals: tuple[Signal, ...]
    attribution: str
    docs: str


class FeedStatus(Struct, frozen=True):
    """The market feed: `down` is when market reads answer 502."""

    status: str
    source: Text = UNSET
    last_update: Text = UNSET
    age_seconds: Number = UNSET
    max_age_seconds: Number = UNSET
    liquidation_coverage_pct: Number = UNSET


class ApiStatus(Struct, frozen=True):
    """The API itself."""

    status: str
    version: str
    started_at: str
    uptime_seconds: float


class Check(Struct, frozen=True):
    """The state of one part: a state of `Status`, `not_configured` or `warming_up`."""

    name: str
    status: str
    detail: str


class Status(Struct, frozen=True):
    """The state of the service: `ok`, `degraded` or `down` (no market feed, or no database)."""

    status: str
    as_of: str
    feed: FeedStatus
    api: ApiStatus
    checks: tuple[Check, ...]
    notice: str


class Reference(Struct, frozen=True):
    """What a caller keeps of a recorded version, exactly as it came."""

    leg_id: Annotated[str, Meta(min_length=1, max_length=200)]
    revision: Annotated[int, Meta(ge=1, le=2_147_483_647)]
    history_digest: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    issued_at: str


class TapeEntry(Struct, frozen=True):
    """The newest stance of a kind; only a durable one can be referred to."""

    kind: str
    href: str
    leg_id: str
    revision: int
    issued_at: str
    history_durable: bool
    state: str
    history_digest: Text = UNSET


class Tape(Struct, frozen=True):
    """The newest stance of each kind."""

    stance_tape: tuple[TapeEntry, ...]


class FeedNow(Struct, frozen=True):
    """The feed; market and briefs are None while there is nothing fresh to show."""

    as_of: str
    tape: Tape
    notice: str
    market_state: MarketState | UnsetType | None = UNSET
    briefs: tuple[Brief, ...] | UnsetType | None = UNSET


class Decision(Struct, frozen=True):
    """A decision as it was recorded."""

    label: str
    confidence: str
    rationale: str
    by: str


class Evidence(Struct, frozen=True):
    """What a stance rests on; this digest is not the `history_digest`."""

    digest: str
    source: str
    observed_at: str
    inputs: dict[str, Any]


class Leg(Struct, frozen=True):
    """One period of one kind."""

    period: dict[str, str]
    levels: dict[str, Any]
    decision: Decision
    conditions: tuple[Any, ...]
    method: str
    evidence: Evidence


class StanceEvent(Struct, frozen=True):
    """What happened to a stance."""

    type: str
    at: str
    evidence_digest: Text = UNSET


class Stance(Struct, frozen=True):
    """A delivered stance."""

    schema: Literal["stance-v1"]
    kind: str
    leg_id: str
    revision: int
    issued_at: str
    expires_at: str
    state: str
    history_durable: bool
    leg: Leg
    events: tuple[StanceEvent, ...]
    notice: str
    history_digest: Text = UNSET
    salt: Text = UNSET


class NumericChange(Struct, frozen=True):
    """A level whose value differs; None where it is absent."""

    path: str
    unit: str
    threshold: float
    material: bool
    before: Number = UNSET
    after: Number = UNSET
    delta: Number = UNSET


class Condition(Struct, frozen=True):
    """A condition of the later version on the levels of both; None where that cannot be known."""

    text: str
    met_before: bool | UnsetType | None = UNSET
    met_after: bool | UnsetType | None = UNSET


class RecordedDecisions(Struct, frozen=True):
    """Both decisions, as context."""

    before: Decision
    after: Decision


class Presence(Struct, frozen=True):
    """Which of three paths only one of the two retained inputs has; never a value."""

    added: tuple[str, ...]
    absent_in_after: tuple[str, ...]


class Assessment(Struct, frozen=True):
    """What changed, or why that is not told."""

    status: str
    reasons: tuple[str, ...]
    change: str | None
    same_source_evidence: bool | None
    numeric_changes: tuple[NumericChange, ...]
    conditions: tuple[Condition, ...] | str
    recorded_decisions: RecordedDecisions | None
    ready_for_paid_delivery: bool
    evidence_field_presence: Presence | UnsetType = UNSET
    """UNSET says nothing about presence; it does not mean that nothing changed."""


class Comparison(Struct, frozen=True):
    """The latest two recorded versions of one kind, compared."""

    schema: Literal["feed-material-change-v1"]
    kind: str
    before: Reference
    after: Reference
    compared_at: str
    assessment: Assessment
    notice: str
