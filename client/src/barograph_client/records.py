"""What the service answers, as frozen records in the service's own names.

Zero, null and missing are three different things: 0 is a number, None means that the service sent
null because it doesn't know, and UNSET means that it didn't send the member. Unknown members are
ignored, so that an older client can read a newer service.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from barograph_client.decode import UNSET, Constraint, UnsetType, record

Number = float | UnsetType | None
"""A figure: None if unknown, UNSET if the service didn't send it."""

Integer = int | UnsetType | None
Text = str | UnsetType | None

_LONGEST_LEG_ID = 200
_HIGHEST_REVISION = 2**31 - 1
_DIGEST = re.compile("[0-9a-f]{64}")


def _is_leg_id(text: str) -> bool:
    return 1 <= len(text) <= _LONGEST_LEG_ID


def _is_revision(number: int) -> bool:
    return 1 <= number <= _HIGHEST_REVISION


def _is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


@record
class Endpoint:
    """One free endpoint."""

    method: str
    path: str
    description: str


@record
class IndexEndpoints:
    """The free endpoints under `/api/agent`."""

    briefs: Endpoint
    derivatives: Endpoint
    market: Endpoint
    market_state: Endpoint
    guides: Endpoint


@record
class Index:
    """The list of free endpoints."""

    name: str
    description: str
    site: str
    mcp: str
    endpoints: IndexEndpoints
    notice: str


@record
class Brief:
    """One brief."""

    headline: str
    category: str
    coins: tuple[str, ...]
    summary: str
    url: str
    publishedAt: str


@record
class Briefs:
    """The newest briefs, newest first."""

    source: str
    notice: str
    count: int
    briefs: tuple[Brief, ...]


@record
class Derivatives:
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


@record
class Asset:
    """One of BTC, ETH and SOL. When `available` is false every number is None."""

    symbol: str
    available: bool
    lastPrice: Number = UNSET
    fundingRatePct: Number = UNSET
    openInterestUsd: Number = UNSET
    longAccountPct: Number = UNSET
    source: str | UnsetType = UNSET
    """Sent in the market state only."""


@record
class Market:
    """The funding and price snapshot."""

    source: str
    notice: str
    assets: tuple[Asset, ...]


@record
class Liq24h:
    """Liquidations of one venue in the last 24 hours; None if we watched too little of them."""

    available: bool
    totalNotional: Number = UNSET
    longPct: Number = UNSET
    topAsset: Text = UNSET


@record
class Regime:
    """The market regime and what it is based on."""

    label: str
    basis: str
    note: str


@record
class MarketState:
    """The market at `as_of`."""

    as_of: str
    source: str
    citation: str
    notice: str
    assets: tuple[Asset, ...]
    liq24h: Liq24h
    regime: Regime


@record
class Guide:
    """One paid guide."""

    slug: str
    title: str
    description: str
    tags: tuple[str, ...]
    pages: int
    price: int | float
    url: str


@record
class Guides:
    """The whole catalog."""

    source: str
    notice: str
    count: int
    guides: tuple[Guide, ...]


@record
class Signal:
    """One regime signal; its label is `unknown` if its input is stale."""

    key: str
    name: str
    label: str
    value: str
    url: str


@record
class Signals:
    """Every signal."""

    ok: bool
    version: str
    source: str
    updatedAt: str
    signals: tuple[Signal, ...]
    attribution: str
    docs: str


@record
class FeedStatus:
    """The market feed; while it is `down`, market reads answer 502."""

    status: str
    source: Text = UNSET
    last_update: Text = UNSET
    age_seconds: Number = UNSET
    max_age_seconds: Number = UNSET
    liquidation_coverage_pct: Number = UNSET


@record
class ApiStatus:
    """The API itself."""

    status: str
    version: str
    started_at: str
    uptime_seconds: float


@record
class Check:
    """The state of one part: a state of `Status`, `not_configured` or `warming_up`."""

    name: str
    status: str
    detail: str


@record
class Status:
    """The state of the service: `ok`, `degraded` or `down` (no market feed, or no database)."""

    status: str
    as_of: str
    feed: FeedStatus
    api: ApiStatus
    checks: tuple[Check, ...]
    notice: str


@record
class Reference:
    """What a caller keeps of a recorded version, exactly as received."""

    leg_id: Annotated[str, Constraint(_is_leg_id)]
    revision: Annotated[int, Constraint(_is_revision)]
    history_digest: Annotated[str, Constraint(_is_digest)]
    issued_at: str


@record
class TapeEntry:
    """The newest stance of a kind; only a durable one has a reference."""

    kind: str
    href: str
    leg_id: str
    revision: int
    issued_at: str
    history_durable: bool
    state: str
    history_digest: Text = UNSET


@record
class Tape:
    """The newest stance of each kind."""

    stance_tape: tuple[TapeEntry, ...]


@record
class FeedNow:
    """The feed; market and briefs are None while there is no fresh data."""

    as_of: str
    tape: Tape
    notice: str
    market_state: MarketState | UnsetType | None = UNSET
    briefs: tuple[Brief, ...] | UnsetType | None = UNSET


@record
class Decision:
    """A recorded decision."""

    label: str
    confidence: str
    """How complete the data was; not a probability, never scored."""

    rationale: str
    by: str


@record
class Evidence:
    """The evidence of a stance; its digest is not the `history_digest`."""

    digest: str
    source: str
    observed_at: str
    inputs: Mapping[str, Any]


@record
class Leg:
    """One period of one kind."""

    period: Mapping[str, str]
    levels: Mapping[str, Any]
    decision: Decision
    conditions: tuple[Any, ...]
    method: str
    evidence: Evidence


@record
class StanceEvent:
    """An event in the life of a stance."""

    type: str
    at: str
    evidence_digest: Text = UNSET


@record
class Stance:
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


@record
class NumericChange:
    """A level whose value differs; None where it is absent."""

    path: str
    unit: str
    threshold: float
    material: bool
    before: Number = UNSET
    after: Number = UNSET
    delta: Number = UNSET


@record
class Condition:
    """A condition of the later version, evaluated on both; None if that is unknown."""

    text: str
    met_before: bool | UnsetType | None = UNSET
    met_after: bool | UnsetType | None = UNSET


@record
class RecordedDecisions:
    """Both decisions, as context."""

    before: Decision
    after: Decision


@record
class Presence:
    """Paths that only one of the two recorded inputs has; never their values."""

    added: tuple[str, ...]
    absent_in_after: tuple[str, ...]


@record
class Assessment:
    """What changed, or why the comparison abstained."""

    status: str
    reasons: tuple[str, ...]
    change: str | None
    same_source_evidence: bool | None
    numeric_changes: tuple[NumericChange, ...]
    conditions: tuple[Condition, ...] | str
    recorded_decisions: RecordedDecisions | None
    ready_for_paid_delivery: bool
    evidence_field_presence: Presence | UnsetType = UNSET
    """UNSET doesn't mean that nothing changed."""


@record
class Comparison:
    """The latest two recorded versions of one kind, compared."""

    schema: Literal["feed-material-change-v1"]
    kind: str
    before: Reference
    after: Reference
    compared_at: str
    assessment: Assessment
    notice: str


@record
class ListPage:
    """One page of a list."""

    as_of: str
    venue: str | None
    source: str
    notice: str
    count: int
    next: str | None
    """The address of the next page; None on the last one."""


@record
class Span:
    """A span of time; `from_` is the service's `from`."""

    from_: str
    to: str


@record
class Liquidations24h:
    """Liquidations of one perpetual in the last 24 hours; None if coverage was too low."""

    available: bool
    longUsd: Number = UNSET
    shortUsd: Number = UNSET
    watchedPct: Number = UNSET
    as_of: Text = UNSET


@record
class Perpetual:
    """One perpetual; None for every number that is unknown."""

    symbol: str
    contract: str
    venue: str
    as_of: str | UnsetType = UNSET
    """Sent with a single perpetual only, as are `source` and `notice`."""

    source: str | UnsetType = UNSET
    notice: str | UnsetType = UNSET
    coin: Text = UNSET
    multiplier: Integer = UNSET
    quote: Text = UNSET
    lastPrice: Number = UNSET
    priceKind: Text = UNSET
    price_as_of: Text = UNSET
    fundingRatePct: Number = UNSET
    fundingIntervalHours: Number = UNSET
    fundingRatePct8h: Number = UNSET
    nextFundingTime: Integer = UNSET
    funding_as_of: Text = UNSET
    openInterestUsd: Number = UNSET
    openInterestCoins: Number = UNSET
    open_interest_as_of: Text = UNSET
    longAccountPct: Number = UNSET
    long_accounts_as_of: Text = UNSET
    priceChange24hPct: Number = UNSET
    openInterestChange24hPct: Number = UNSET
    openInterestCoinsChange24hPct: Number = UNSET
    changes_from: Text = UNSET
    liquidations24h: Liquidations24h | UnsetType | None = UNSET


@record
class Perpetuals(ListPage):
    """Every perpetual of a venue."""

    perpetuals: tuple[Perpetual, ...]


@record
class MissingVenue:
    """A venue without which a total is None."""

    venue: str
    reason: str


@record
class FundingSpread:
    """The widest difference of funding between two venues."""

    highest: str
    lowest: str
    pct8h: float


@record
class CrossLiquidations:
    """Liquidations of a coin at one venue in 24 hours; only those of `all` add up."""

    completeness: str
    longUsd: Number = UNSET
    shortUsd: Number = UNSET
    watchedPct: Number = UNSET
    as_of: Text = UNSET


@record
class CrossVenue:
    """A coin at one venue. The members after `weightPct` are sent with a single coin only."""

    venue: str
    state: str
    reason: Text = UNSET
    contract: Text = UNSET
    pricePerCoin: Number = UNSET
    fundingRatePct8h: Number = UNSET
    openInterestUsd: Number = UNSET
    openInterestCoins: Number = UNSET
    weightPct: Number = UNSET
    multiplier: Integer = UNSET
    price: Number = UNSET
    priceKind: Text = UNSET
    quote: Text = UNSET
    fundingRatePct: Number = UNSET
    fundingIntervalHours: Number = UNSET
    nextFundingTime: Integer = UNSET
    as_of: Text = UNSET
    open_interest_as_of: Text = UNSET
    openInterestCounting: Text = UNSET
    disputed: tuple[str, ...] | UnsetType = UNSET
    liquidations24h: CrossLiquidations | UnsetType = UNSET


@record
class CrossCoin:
    """A coin at every venue. `as_of` to `notice` are sent with a single coin only."""

    coin: str
    venues: tuple[CrossVenue, ...]
    openInterestMissing: tuple[MissingVenue, ...]
    fundingMissing: tuple[MissingVenue, ...]
    as_of: str | UnsetType = UNSET
    venue: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    notice: str | UnsetType = UNSET
    deepestVenue: Text = UNSET
    totalOpenInterestUsd: Number = UNSET
    totalOpenInterestCoins: Number = UNSET
    weightedFundingRatePct8h: Number = UNSET
    fundingSpread: FundingSpread | UnsetType | None = UNSET
    liquidations24hAtLeastUsd: Number = UNSET


@record
class Cross(ListPage):
    """Every coin: BTC, ETH and SOL, then the others, the largest open interest first."""

    cross: tuple[CrossCoin, ...]


@record
class VenueDispute:
    """A measure that contradicts the other venues."""

    measure: str
    since: str
    why: str


@record
class VenueTerms:
    """The terms of a venue, and whether the operator has confirmed them."""

    url: str
    date: str
    says: str
    confirmed: bool | UnsetType | None = UNSET


@record
class Venue:
    """A configured venue: what it publishes, and its health."""

    venue: str
    title: str
    role: str
    inUse: bool
    source: str
    priceKind: str
    quote: str
    longAccounts: bool
    liquidations: str
    openInterestCounting: str
    state: str
    disputed: tuple[VenueDispute, ...]
    liquidationPriceKind: Text = UNSET
    contracts: Integer = UNSET
    openInterestContracts: Integer = UNSET
    watchedPct: Number = UNSET
    as_of: Text = UNSET
    ageSeconds: Number = UNSET
    reason: Text = UNSET
    failure: Text = UNSET
    failing_since: Text = UNSET
    terms: VenueTerms | UnsetType | None = UNSET


@record
class Venues(ListPage):
    """The configured venues, the primary first."""

    venues: tuple[Venue, ...]


@record
class Point:
    """One point of a series. The members after `watched` depend on the measure."""

    at: str
    value: float | str | None
    origin: Text = UNSET
    watched: Number = UNSET
    long_usd: Number = UNSET
    short_usd: Number = UNSET
    interval_hours: Number = UNSET
    rate_8h: Number = UNSET
    funding_8h_pct: Number = UNSET
    text: Text = UNSET
    revision: Integer = UNSET
    observed_at: Text = UNSET


@record
class SeriesPage(ListPage):
    """Points of a series, oldest first."""

    points: tuple[Point, ...]
    measure: Text = UNSET
    symbol: Text = UNSET
    key: Text = UNSET
    unit: Text = UNSET
    interval_seconds: Integer = UNSET


@record
class Liquidation:
    """One liquidation; `side` is that of the position."""

    at: str
    symbol: str
    contract: str
    venue: str
    side: str
    size: float
    price: float
    priceKind: str
    usd: float


@record
class LiquidationPage(ListPage):
    """Liquidations, oldest first, and the times of the page that the service covered."""

    liquidations: tuple[Liquidation, ...]
    watched: tuple[Span, ...]
    completeness: Text = UNSET
    """Which liquidations the venue publishes; only `all` adds up to a total."""


@record
class LogEvent:
    """Something that changed. The members after `notice` depend on the type."""

    id: int
    type: str
    at: str
    notice: Text = UNSET
    venue: Text = UNSET
    symbol: Text = UNSET
    symbols: tuple[str, ...] | UnsetType = UNSET
    contract: Text = UNSET
    missing_since: Text = UNSET
    feed: Text = UNSET
    stale_since: Text = UNSET
    key: Text = UNSET
    name: Text = UNSET
    label: Text = UNSET
    previous: Text = UNSET
    reason: Text = UNSET
    value: Text = UNSET
    fundingRatePct8h: Number = UNSET
    slug: Text = UNSET
    headline: Text = UNSET
    category: Text = UNSET
    version: Integer = UNSET
    kind: Text = UNSET
    sequence: Integer = UNSET
    history_digest: Text = UNSET
    text_sha256: Text = UNSET
    day: Text = UNSET
    rows: Integer = UNSET
    sha256: Text = UNSET
    after_days: Integer = UNSET
    removed: Text = UNSET


@record
class EventPage(ListPage):
    """Events, oldest first; `last_id` is the newest one in the log."""

    last_id: int
    events: tuple[LogEvent, ...]


@record
class Incident:
    """A time in which a part of the service was not ok."""

    name: str
    started_at: str
    ended_at: str | None
    worst: str
    detail: str
    unwatched_from: Text = UNSET
    unwatched_until: Text = UNSET
    unwatched_seconds: Number = UNSET


@record
class CheckCount:
    """The minutes of an hour or a day in each condition."""

    at: str
    ok: int
    degraded: int
    down: int


@record
class CheckHistory:
    """The results of one check, oldest first."""

    name: str
    hours: tuple[CheckCount, ...]
    days: tuple[CheckCount, ...]


@record
class IncidentPage(ListPage):
    """Incidents, newest first, and the results of each check."""

    incidents: tuple[Incident, ...]
    checks: tuple[CheckHistory, ...]
