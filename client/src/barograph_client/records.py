"""What the service answers, as frozen records in the service's own names.

Zero is a number. None means that the service doesn't know, or didn't send the member. Unknown
members are ignored, so that an older client can read a newer service.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from barograph_client.decode import Milliseconds, Record, Timestamp


class Endpoint(Record):
    """One free endpoint."""

    method: str
    path: str
    description: str


class IndexEndpoints(Record):
    """The free endpoints under `/api/agent`."""

    briefs: Endpoint
    derivatives: Endpoint
    market: Endpoint
    market_state: Endpoint
    guides: Endpoint


class Index(Record):
    """The list of free endpoints."""

    name: str
    description: str
    site: str
    mcp: str
    endpoints: IndexEndpoints
    notice: str


class Brief(Record):
    """One brief."""

    headline: str
    category: str
    coins: tuple[str, ...]
    summary: str
    url: str
    publishedAt: Timestamp


class Briefs(Record):
    """The newest briefs, newest first."""

    source: str
    notice: str
    count: int
    briefs: tuple[Brief, ...]


class Derivatives(Record):
    """One perpetual. When `available` is false every number is None."""

    source: str
    notice: str
    symbol: str
    available: bool
    lastPrice: float | None = None
    fundingRatePct: float | None = None
    """In percent per 8 hours, for every contract and venue."""

    nextFundingTime: Milliseconds | None = None
    openInterestUsd: float | None = None
    longAccountPct: float | None = None


class Asset(Record):
    """One of BTC, ETH and SOL. When `available` is false every number is None."""

    symbol: str
    available: bool
    lastPrice: float | None = None
    fundingRatePct: float | None = None
    """In percent per 8 hours."""

    openInterestUsd: float | None = None
    longAccountPct: float | None = None
    source: str | None = None
    """Sent in the market state only."""


class Market(Record):
    """The funding and price snapshot."""

    source: str
    notice: str
    assets: tuple[Asset, ...]


class Liq24h(Record):
    """Liquidations of one venue in the last 24 hours; None if we watched too little of them."""

    available: bool
    totalNotional: float | None = None
    longPct: float | None = None
    topAsset: str | None = None


class Regime(Record):
    """The market regime and what it is based on."""

    label: str
    basis: str
    note: str


class MarketState(Record):
    """The market at `as_of`."""

    as_of: Timestamp
    source: str
    citation: str
    notice: str
    assets: tuple[Asset, ...]
    liq24h: Liq24h
    regime: Regime


class Guide(Record):
    """One paid guide."""

    slug: str
    title: str
    description: str
    tags: tuple[str, ...]
    pages: int
    price: int | float
    url: str


class Guides(Record):
    """The whole catalog."""

    source: str
    notice: str
    count: int
    guides: tuple[Guide, ...]


class Signal(Record):
    """One regime signal; its label is `unknown` if its input is stale."""

    key: str
    name: str
    label: str
    value: str
    url: str


class Signals(Record):
    """Every signal."""

    ok: bool
    version: str
    source: str
    updatedAt: Timestamp
    signals: tuple[Signal, ...]
    attribution: str
    docs: str


class FeedStatus(Record):
    """The market feed; while it is `down`, market reads answer 502."""

    status: str
    source: str | None = None
    last_update: Timestamp | None = None
    age_seconds: float | None = None
    max_age_seconds: float | None = None
    liquidation_coverage_pct: float | None = None


class ApiStatus(Record):
    """The API itself."""

    status: str
    version: str
    started_at: Timestamp
    uptime_seconds: float


class Check(Record):
    """The state of one part: a state of `Status`, `not_configured` or `warming_up`."""

    name: str
    status: str
    detail: str


class Status(Record):
    """The state of the service: `ok`, `degraded` or `down` (no market feed, or no database)."""

    status: str
    as_of: Timestamp
    feed: FeedStatus
    api: ApiStatus
    checks: tuple[Check, ...]
    notice: str


class Reference(Record):
    """What a caller keeps of a recorded version, exactly as received."""

    leg_id: Annotated[str, Meta(min_length=1, max_length=200)]
    revision: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    history_digest: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    issued_at: str


class TapeEntry(Record):
    """The newest stance of a kind; only a durable one has a reference."""

    kind: str
    href: str
    leg_id: str
    revision: int
    issued_at: Timestamp
    history_durable: bool
    state: str
    history_digest: str | None = None


class Tape(Record):
    """The newest stance of each kind."""

    stance_tape: tuple[TapeEntry, ...]


class FeedNow(Record):
    """The feed; market and briefs are None while there is no fresh data."""

    as_of: Timestamp
    tape: Tape
    notice: str
    market_state: MarketState | None = None
    briefs: tuple[Brief, ...] | None = None


class Decision(Record):
    """A recorded decision."""

    label: str
    confidence: str
    """How complete the data was; not a probability, never scored."""

    rationale: str
    by: str


class Evidence(Record):
    """The evidence of a stance; its digest is not the `history_digest`."""

    digest: str
    source: str
    observed_at: Timestamp
    inputs: Mapping[str, Any]


class Leg(Record):
    """One period of one kind."""

    period: Mapping[str, str]
    levels: Mapping[str, Any]
    decision: Decision
    conditions: tuple[Any, ...]
    method: str
    evidence: Evidence


class StanceEvent(Record):
    """An event in the life of a stance."""

    type: str
    at: Timestamp
    evidence_digest: str | None = None


class Stance(Record):
    """A delivered stance."""

    schema: Literal["stance-v1"]
    kind: str
    leg_id: str
    revision: int
    issued_at: Timestamp
    expires_at: Timestamp
    state: str
    history_durable: bool
    leg: Leg
    events: tuple[StanceEvent, ...]
    notice: str
    history_digest: str | None = None
    salt: str | None = None


class NumericChange(Record):
    """A level whose value differs; None where it is absent."""

    path: str
    unit: str
    threshold: float
    material: bool
    before: float | None = None
    after: float | None = None
    delta: float | None = None


class Condition(Record):
    """A condition of the later version, evaluated on both; None if that is unknown."""

    text: str
    met_before: bool | None = None
    met_after: bool | None = None


class RecordedDecisions(Record):
    """Both decisions, as context."""

    before: Decision
    after: Decision


class Presence(Record):
    """Paths that only one of the two recorded inputs has; never their values."""

    added: tuple[str, ...]
    absent_in_after: tuple[str, ...]


class Assessment(Record):
    """What changed, or why the comparison abstained."""

    status: str
    reasons: tuple[str, ...]
    change: str | None
    same_source_evidence: bool | None
    numeric_changes: tuple[NumericChange, ...]
    conditions: tuple[Condition, ...] | str
    recorded_decisions: RecordedDecisions | None
    ready_for_paid_delivery: bool
    evidence_field_presence: Presence | None = None
    """None doesn't mean that nothing changed."""


class Comparison(Record):
    """The latest two recorded versions of one kind, compared."""

    schema: Literal["feed-material-change-v1"]
    kind: str
    before: Reference
    after: Reference
    compared_at: Timestamp
    assessment: Assessment
    notice: str


class ListPage(Record):
    """One page of a list."""

    as_of: Timestamp
    venue: str | None
    source: str
    notice: str
    count: int
    next: str | None
    """The address of the next page; None on the last one."""


class Span(Record):
    """A span of time; `from_` is the service's `from`."""

    from_: Timestamp = field(name="from")
    to: Timestamp


class Liquidations24h(Record):
    """Liquidations of one perpetual in the last 24 hours; None if coverage was too low."""

    available: bool
    longUsd: float | None = None
    shortUsd: float | None = None
    watchedPct: float | None = None
    as_of: Timestamp | None = None


class Perpetual(Record):
    """One perpetual; None for every number that is unknown."""

    symbol: str
    contract: str
    venue: str
    as_of: Timestamp | None = None
    """Sent with a single perpetual only, as are `source` and `notice`."""

    source: str | None = None
    notice: str | None = None
    coin: str | None = None
    multiplier: int | None = None
    quote: str | None = None
    lastPrice: float | None = None
    priceKind: str | None = None
    price_as_of: Timestamp | None = None
    fundingRatePct: float | None = None
    """As the venue states it, in percent per `fundingIntervalHours`."""

    fundingIntervalHours: float | None = None
    fundingRatePct8h: float | None = None
    nextFundingTime: Milliseconds | None = None
    funding_as_of: Timestamp | None = None
    openInterestUsd: float | None = None
    openInterestCoins: float | None = None
    open_interest_as_of: Timestamp | None = None
    longAccountPct: float | None = None
    long_accounts_as_of: Timestamp | None = None
    markPrice: float | None = None
    indexPrice: float | None = None
    basisPct: float | None = None
    volume24hUsd: float | None = None
    volume24hCoins: float | None = None
    priceChange24hPct: float | None = None
    openInterestChange24hPct: float | None = None
    openInterestCoinsChange24hPct: float | None = None
    changes_from: Timestamp | None = None
    liquidations24h: Liquidations24h | None = None
    disputed: tuple[str, ...] | None = None
    """Measures that contradict the other venues."""


class Perpetuals(ListPage):
    """Every perpetual of a venue."""

    perpetuals: tuple[Perpetual, ...]


class MissingVenue(Record):
    """A venue that is missing from a total, with its last known values."""

    venue: str
    reason: str
    lastUsd: float | None = None
    lastCoins: float | None = None
    last_as_of: Timestamp | None = None


class OpenInterestChange(Record):
    """How the open interest changed in 24 hours, at the same venues then and now.

    The effects of price and positions add up to the change.
    """

    changes_from: Timestamp
    venues: tuple[str, ...]
    beforeUsd: float
    changeUsd: float
    changePct: float | None = None
    priceEffectUsd: float | None = None
    positionsEffectUsd: float | None = None
    priceChangePct: float | None = None
    coinsChangePct: float | None = None
    price: str | None = None
    positions: str | None = None


class PricesOfVenues(Record):
    """The lowest and the highest mark price of one coin among the venues."""

    lowest: float
    lowestVenue: str
    highest: float
    highestVenue: str
    missing: tuple[str, ...] = ()


class FundingSpread(Record):
    """The widest difference of settled funding between two venues, over the same 8 hours.

    `highest` and `lowest` are None if the compared venues settled the same. Those of `missing` are
    not compared: what they settled is unknown or disputed.
    """

    highest: str | None
    lowest: str | None
    pct8h: float
    missing: tuple[str, ...] = ()


class CrossLiquidations(Record):
    """Liquidations of a coin at one venue in 24 hours; only those of `all` add up."""

    completeness: str
    longUsd: float | None = None
    shortUsd: float | None = None
    watchedPct: float | None = None
    as_of: Timestamp | None = None


class CrossVenue(Record):
    """A coin at one venue. The members after `weightPct` are sent with a single coin only."""

    venue: str
    state: str
    reason: str | None = None
    contract: str | None = None
    pricePerCoin: float | None = None
    fundingRatePct8h: float | None = None
    settledPct8h: float | None = None
    settledPct24h: float | None = None
    settledPct7d: float | None = None
    settledPct30d: float | None = None
    settledYearlyPct8h: float | None = None
    settledYearlyPct24h: float | None = None
    settledYearlyPct7d: float | None = None
    settledYearlyPct30d: float | None = None
    openInterestUsd: float | None = None
    openInterestCoins: float | None = None
    sharePct: float | None = None
    volume24hUsd: float | None = None
    volume24hCoins: float | None = None
    weightPct: float | None = None
    multiplier: int | None = None
    price: float | None = None
    priceKind: str | None = None
    quote: str | None = None
    indexPrice: float | None = None
    basisPct: float | None = None
    fundingRatePct: float | None = None
    """As the venue states it, in percent per `fundingIntervalHours`."""

    fundingIntervalHours: float | None = None
    nextFundingTime: Milliseconds | None = None
    as_of: Timestamp | None = None
    open_interest_as_of: Timestamp | None = None
    openInterestCounting: str | None = None
    disputed: tuple[str, ...] | None = None
    liquidations24h: CrossLiquidations | None = None


class CrossCoin(Record):
    """A coin at every venue. `as_of` to `notice` are sent with a single coin only."""

    coin: str
    venues: tuple[CrossVenue, ...]
    openInterestMissing: tuple[MissingVenue, ...]
    fundingMissing: tuple[MissingVenue, ...]
    openInterestComplete: bool = False
    volumeMissing: tuple[MissingVenue, ...] = ()
    liquidationsIncomplete: tuple[str, ...] = ()
    as_of: Timestamp | None = None
    venue: str | None = None
    source: str | None = None
    notice: str | None = None
    deepestVenue: str | None = None
    totalOpenInterestUsd: float | None = None
    totalOpenInterestCoins: float | None = None
    openInterestWithMissingUsd: float | None = None
    openInterestChange24h: OpenInterestChange | None = None
    totalVolume24hUsd: float | None = None
    totalVolume24hCoins: float | None = None
    weightedFundingRatePct8h: float | None = None
    weightedFundingWithMissingPct8h: float | None = None
    settledTo: Timestamp | None = None
    fundingSpread: FundingSpread | None = None
    priceRange: PricesOfVenues | None = None
    liquidations24hAtLeastUsd: float | None = None
    liquidations24hLongUsd: float | None = None
    liquidations24hShortUsd: float | None = None


class Cross(ListPage):
    """Every coin: BTC, ETH and SOL, then the others, the largest open interest first."""

    cross: tuple[CrossCoin, ...]


class CarryVenue(Record):
    """What longs paid to shorts for a coin at one venue, without fees and prices."""

    venue: str
    state: str
    reason: str | None = None
    contract: str | None = None
    settledPct: float | None = None
    yearlyPct: float | None = None
    yearlyPctBefore: float | None = None


class CarryCoin(Record):
    """A coin at every venue, and the best pair of venues."""

    coin: str
    missing: tuple[str, ...]
    venues: tuple[CarryVenue, ...]
    settledTo: Timestamp | None = None
    shortVenue: str | None = None
    longVenue: str | None = None
    pairPct: float | None = None
    pairYearlyPct: float | None = None
    pairYearlyPctChange: float | None = None


class Carry(ListPage):
    """Every coin over one window, the best pair first."""

    window: str
    notIncluded: str
    carry: tuple[CarryCoin, ...]


class VenueDispute(Record):
    """A measure that contradicts the other venues."""

    measure: str
    since: Timestamp
    why: str


class VenueTerms(Record):
    """The terms of a venue, and whether the operator has confirmed them."""

    url: str
    date: str
    says: str
    confirmed: bool | None = None


class Venue(Record):
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
    liquidationPriceKind: str | None = None
    openInterestUsd: float | None = None
    sharePct: float | None = None
    contracts: int | None = None
    openInterestContracts: int | None = None
    watchedPct: float | None = None
    as_of: Timestamp | None = None
    ageSeconds: float | None = None
    reason: str | None = None
    failure: str | None = None
    failing_since: Timestamp | None = None
    terms: VenueTerms | None = None


class VenueNotRead(Record):
    """A large venue that no total includes, and why."""

    venue: str
    title: str
    reason: str


class Venues(ListPage):
    """The configured venues, the primary first, and the open interest of all coins."""

    venues: tuple[Venue, ...]
    openInterestMissing: tuple[MissingVenue, ...] = ()
    notRead: tuple[VenueNotRead, ...] = ()
    totalOpenInterestUsd: float | None = None
    openInterestWithMissingUsd: float | None = None


class MissingPoint(Record):
    """A venue that lists the coin but has no value in a total, and its last known value."""

    venue: str
    reason: str
    last: float | None = None
    last_as_of: Timestamp | None = None


class Point(Record):
    """One point of a series. The members after `watched` depend on the measure and the venue."""

    at: Timestamp
    value: float | str | None
    origin: str | None = None
    watched: float | None = None
    disputed: bool | None = None
    long_usd: float | None = None
    short_usd: float | None = None
    interval_hours: float | None = None
    rate_8h: float | None = None
    funding_8h_pct: float | None = None
    with_missing: float | None = None
    venues: tuple[str, ...] | None = None
    missing: tuple[MissingPoint, ...] | None = None
    by_venue: tuple[float, ...] | None = None
    completeness: tuple[str, ...] | None = None
    low: float | None = None
    high: float | None = None
    price_venue: str | None = None
    text: str | None = None
    revision: int | None = None
    observed_at: Timestamp | None = None


class Listing(Record):
    """A period in which a venue listed a contract; `delisted_at` is None while it is listed."""

    venue: str
    contract: str
    coin: str
    multiplier: int
    listed_at: Timestamp
    delisted_at: Timestamp | None = None


class ListingPage(ListPage):
    """Listed and delisted contracts, by venue, contract and time."""

    listings: tuple[Listing, ...]


class SeriesPage(ListPage):
    """Points of a series, oldest first."""

    points: tuple[Point, ...]
    measure: str | None = None
    symbol: str | None = None
    key: str | None = None
    unit: str | None = None
    interval_seconds: int | None = None


class Liquidation(Record):
    """One liquidation; `side` is that of the position."""

    at: Timestamp
    symbol: str
    contract: str
    venue: str
    side: str
    size: float
    price: float
    priceKind: str
    usd: float
    disputed: bool | None = None
    """Whether the side was disputed."""


class LiquidationPage(ListPage):
    """Liquidations, oldest first, and the times of the page that the service covered."""

    liquidations: tuple[Liquidation, ...]
    watched: tuple[Span, ...]
    completeness: str | None = None
    """Which liquidations the venue publishes; only `all` adds up to a total."""


class LiquidationFile(Record):
    """The liquidations of one UTC day; the file never changes."""

    day: Timestamp
    url: str
    rows: int
    bytes: int
    sha256: str
    watched: tuple[Span, ...]
    watched_pct: float
    disputed_sides: tuple[Span, ...] | None = None
    """When the sides were disputed."""


class LiquidationFiles(ListPage):
    """Every daily file of a venue, oldest first."""

    completeness: str
    files: tuple[LiquidationFile, ...]


class MergedLog(Record):
    """The last signed head of a log that each kind of stance had of its own."""

    kind: str
    origin: str
    size: int
    root: str


class LogEvent(Record):
    """Something that changed. The members after `notice` depend on the type."""

    id: int
    type: str
    at: Timestamp
    notice: str | None = None
    venue: str | None = None
    symbol: str | None = None
    symbols: tuple[str, ...] | None = None
    contract: str | None = None
    missing_since: Timestamp | None = None
    feed: str | None = None
    stale_since: Timestamp | None = None
    key: str | None = None
    name: str | None = None
    label: str | None = None
    previous: str | None = None
    reason: str | None = None
    value: str | None = None
    fundingRatePct8h: float | None = None
    slug: str | None = None
    headline: str | None = None
    category: str | None = None
    version: int | None = None
    kind: str | None = None
    sequence: int | None = None
    history_digest: str | None = None
    text_sha256: str | None = None
    day: str | None = None
    rows: int | None = None
    sha256: str | None = None
    after_days: int | None = None
    removed: str | None = None
    event_digest: str | None = None
    logs: tuple[MergedLog, ...] | None = None


class EventPage(ListPage):
    """Events, oldest first; `last_id` is the newest one in the log."""

    last_id: int
    events: tuple[LogEvent, ...]


class Incident(Record):
    """A time in which a part of the service was not ok."""

    name: str
    started_at: Timestamp
    ended_at: Timestamp | None
    worst: str
    detail: str
    unwatched_from: Timestamp | None = None
    unwatched_until: Timestamp | None = None
    unwatched_seconds: float | None = None


class CheckCount(Record):
    """The minutes of an hour or a day in each condition."""

    at: Timestamp
    ok: int
    degraded: int
    down: int


class CheckHistory(Record):
    """The results of one check, oldest first."""

    name: str
    hours: tuple[CheckCount, ...]
    days: tuple[CheckCount, ...]


class IncidentPage(ListPage):
    """Incidents, newest first, and the results of each check."""

    incidents: tuple[Incident, ...]
    checks: tuple[CheckHistory, ...]


class RevealedStance(Record):
    """A stance that has become public, with everything that was hashed."""

    schema: Literal["stance-v1"]
    kind: str
    sequence: int
    leg_id: str
    revision: int
    issued_at: Timestamp
    expires_at: Timestamp
    leg: Leg
    previous_digest: str
    salt: str
    history_digest: str
    revealed_at: Timestamp
    withdrawal: Mapping[str, Any] | None


class RevealedPage(ListPage):
    """The revealed stances of a kind, oldest first, and the announced terms."""

    kind: str
    after_days: int
    announced: tuple[Mapping[str, Any], ...]
    private: int
    stances: tuple[RevealedStance, ...]
