"""The home page: the market at a glance."""

from collections.abc import Sequence
from decimal import ROUND_DOWN, Decimal
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from barograph.briefs.records import ListedBrief
from barograph.discovery.files import service_links
from barograph.errors import RecordUnavailable, UpstreamUnavailable
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.timestamps import DAY, MINUTE
from barograph.markets.documents import MARKET_STATE_PATH, citation, market_state_document
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.records import MAJORS, ContractName, Perpetual
from barograph.markets.regime import BASIS, Label, describe
from barograph.markets.samples import DAYS, Measure, PastRegime
from barograph.markets.settlements import bitcoin_contract
from barograph.markets.venues import VENUES
from barograph.markets.view import LIQUIDATIONS, PERPETUALS, UNAVAILABLE, MarketView, is_fresh
from barograph.signals.methods import DAILY
from barograph.site.charts.gauge import gauge
from barograph.site.market_pages import price_heading
from barograph.site.paths import HOME_PATH
from barograph.site.responses import Page, PageRouter
from barograph.site.series import ChartReader
from barograph.site.series_charts import Chart, chosen_days, price_unit
from barograph.site.series_documents import days_query
from barograph.site.site import INCOMPLETE_PAGE_MS, Site
from barograph.site.templating import date_and_time, duration_text, soon

DAYS_AGO = {"Yesterday": 1, "7 days ago": 7, "30 days ago": 30}
"""The past instants whose regimes are shown."""

MEASURES_SHOWN: tuple[Measure, ...] = ("funding", "open-interest")
BRIEFS_SHOWN = 3
_SYMBOL = "BTC"
_OF_ACCOUNTS = "of accounts with a position, not of money"
_SENTENCES: dict[Label, str] = {
    "short-crowded": "Shorts are crowded in BTC perpetuals.",
    "short-leaning": "BTC perpetuals lean short.",
    "neutral": "Funding of BTC perpetuals is balanced.",
    "long-leaning": "BTC perpetuals lean long.",
    "long-crowded": "Longs are crowded in BTC perpetuals.",
    "unknown": "The regime of BTC perpetuals is unknown.",
}


class RegimeAt(NamedTuple):
    """The regime at one instant."""

    when: str
    label: str | None
    funding_8h_pct: float | None
    otherwise: str
    """What is shown without a label."""

    at: int | None = None
    """The hour of a past rate."""

    is_backfilled: bool = False
    """Whether a past rate is the last settled one, from the exchange's own history."""


class Asset(NamedTuple):
    """A major asset; without a contract it isn't listed now."""

    symbol: str
    contract: Perpetual | None
    funding_8h_pct: float | None
    long_account_pct: float | None


class LiquidatedSide(NamedTuple):
    """The liquidations of longs or of shorts in 24 hours."""

    name: str
    notional_usd: float
    share_pct: float


class MarketNow(NamedTuple):
    """The fresh market data that the page shows."""

    as_of: int
    until: int
    """When the first of these values expires."""

    reading_until: int
    """When the market reading itself expires."""

    source: str
    sentence: str
    note: str
    label: Label
    funding_8h_pct: float | None
    price_unit: str
    price_heading: str
    assets: tuple[Asset, ...]
    long_accounts_note: str
    liquidated_usd: float | None
    liquidated_in: str
    """When a total appears, such as `in 13 h 20 min`; empty if there is one."""

    liquidated_note: str
    """What the amount covers, or why it is missing."""

    sides: tuple[LiquidatedSide, ...]
    citation: str


def market_now(view: MarketView, counted: LiquidationTotals | None) -> MarketNow:
    """Collect the fresh market data; `counted` is the newest count of liquidations.

    Raises:
        UpstreamUnavailable: none of BTC, ETH and SOL is known.
    """
    until = market_state_document(view).until
    if view.lacks_liquidations:
        counted = None
    if counted is not None and not is_fresh(counted.as_of, view.limits.liquidations, view.now):
        counted = None
    if counted is not None:
        until = min(until, counted.as_of + view.limits.liquidations)
    regime, liquidated = view.regime, view.liquidations
    first_at = None if counted is None else _total_at(counted, view)
    label: Label = "unknown" if regime is None else regime.label
    return MarketNow(
        as_of=view.perpetuals.as_of,
        until=until,
        reading_until=view.until,
        source=view.perpetuals.source,
        sentence=_SENTENCES[label],
        note="The regime has not been updated recently." if regime is None else describe(regime),
        label=label,
        funding_8h_pct=None if regime is None else regime.funding_8h_pct,
        price_unit=price_unit(view.perpetuals.venue),
        price_heading=price_heading(view.perpetuals.venue),
        assets=tuple(_asset(view, symbol) for symbol in MAJORS),
        long_accounts_note=UNAVAILABLE if view.lacks_long_accounts else _OF_ACCOUNTS,
        liquidated_usd=None if liquidated is None else liquidated.total_usd,
        liquidated_in=_countdown(first_at, view.now),
        liquidated_note=_liquidated_note(counted, first_at, view),
        sides=_sides(view.liquidations),
        citation=citation(view.perpetuals.source, view.perpetuals.as_of),
    )


def regimes_over_time(now: MarketNow | None, past: Sequence[PastRegime] | None) -> list[RegimeAt]:
    """The regime now and at `DAYS_AGO`; `past` is None if the database is unavailable."""
    current = RegimeAt("Now", None, None, "stale")
    if now is not None:
        current = RegimeAt("Now", now.label, now.funding_8h_pct, "")
    if past is None:
        return [current, *(RegimeAt(when, None, None, "unavailable") for when in DAYS_AGO)]
    return [
        current,
        *(_past(when, regime) for when, regime in zip(DAYS_AGO, past, strict=True)),
    ]


def _past(when: str, regime: PastRegime) -> RegimeAt:
    # Back-filled hours have a rate, but the regime of that time was never judged.
    otherwise = "not classified" if regime.is_backfilled else "not recorded"
    label, rate, at, is_backfilled = regime
    return RegimeAt(when, label, rate, otherwise, at, is_backfilled)


def _asset(view: MarketView, symbol: str) -> Asset:
    contract = view.by_name.get(symbol)
    if contract is None:
        return Asset(symbol, None, None, None)
    share = view.share(contract.contract)
    return Asset(
        symbol,
        contract,
        contract.funding_8h_pct,
        None if share is None else share.long_account_pct,
    )


def _liquidated_note(
    counted: LiquidationTotals | None, first_at: int | None, view: MarketView
) -> str:
    if counted is None:
        return UNAVAILABLE if view.lacks_liquidations else "no recent count"
    if first_at is not None and counted.watching_since is not None:
        return (
            f"The 24-hour total appears at about {soon(first_at, view.now)}. We have covered "
            f"{duration_text(round(counted.watched_pct / 100 * DAY))} of the last 24 hours, and "
            f"began on {date_and_time(counted.watching_since)}."
        )
    # Truncated, not rounded: 94.97 must not look like the required 95.0.
    covered = Decimal(str(counted.watched_pct)).quantize(Decimal("0.1"), ROUND_DOWN)
    if view.liquidations is None:
        return f"only {covered} % of the day covered; {view.limits.min_coverage_pct:g} % needed"
    most = "" if counted.top_asset is None else f", most in {counted.top_asset}"
    return f"all contracts{most}; {covered} % of the day covered"


def _total_at(counted: LiquidationTotals, view: MarketView) -> int | None:
    """When there will be a total; None if there is one, or while no stream is connected."""
    heard_at = counted.watched_until
    if heard_at is None or not is_fresh(heard_at, view.limits.liquidations, view.now):
        return None
    return counted.covered_at


def _countdown(first_at: int | None, now: int) -> str:
    if first_at is None:
        return ""
    return f"in {duration_text(max(MINUTE, first_at - now + MINUTE - 1))}"


def _sides(liquidated: LiquidationTotals | None) -> tuple[LiquidatedSide, ...]:
    if liquidated is None or liquidated.long_pct is None:
        return ()
    shares = {"Longs": liquidated.long_pct, "Shorts": 100 - liquidated.long_pct}
    return tuple(
        LiquidatedSide(name, liquidated.total_usd * share / 100, share)
        for name, share in shares.items()
    )


def home_routes(site: Site, charts: ChartReader) -> PageRouter:
    """The route of the home page."""
    router = PageRouter()

    @router.get(HOME_PATH)
    async def read_home(request: Request) -> Response:
        days = chosen_days(request.query_params.get("days"))
        return await site.respond(
            request, lambda now: _home(site, charts, days, now), query=days_query(days)
        )

    return router


async def _home(site: Site, charts: ChartReader, days: int, at: int) -> Page:
    now = _market_now(site, at)
    last = site.board.latest(PERPETUALS)
    signals = site.signals.signals(site.board, at)
    past, drawn = await _read_record(site, charts, days)
    briefs = _briefs(site, at)
    label, rate = ("unknown", None) if now is None else (now.label, now.funding_8h_pct)
    body = site.templates.render(
        "home.html",
        now=now,
        basis=BASIS,
        last=None if last is None else last.as_of,
        gauge=gauge(label, rate, prefix="regime"),
        regimes=regimes_over_time(now, past),
        charts=drawn,
        backfill=site.backfill(at),
        days=days,
        all_days=DAYS,
        signals=signals,
        signal_ends=site.signals.ends(site.board, at),
        daily_signals=DAILY,
        briefs=briefs,
        market_state_path=MARKET_STATE_PATH,
    )
    until = at + INCOMPLETE_PAGE_MS
    if now is not None and drawn is not None and briefs is not None:
        signals_until = site.signals.known_until(site.board, at)
        until = min(now.until, signals_until, site.briefs.known_until(site.board))
    return Page(body, since=at, until=until, fields=service_links(site.templates.root))


def _market_now(site: Site, at: int) -> MarketNow | None:
    try:
        return market_now(site.markets.view(site.board, at), site.board.latest(LIQUIDATIONS))
    except UpstreamUnavailable:
        return None


def _briefs(site: Site, at: int) -> Sequence[ListedBrief] | None:
    try:
        return site.briefs.newest(site.board, at).briefs[:BRIEFS_SHOWN]
    except RecordUnavailable:
        return None


async def _read_record(
    site: Site, charts: ChartReader, days: int
) -> tuple[Sequence[PastRegime] | None, list[Chart] | None]:
    """Past regimes and charts; None if the database is unavailable."""
    reading, primary = site.board.latest(PERPETUALS), site.series.venue
    venue = primary if reading is None else reading.venue
    name = ContractName(venue, bitcoin_contract(reading, venue))
    try:
        past = await site.series.regimes(name, tuple(DAYS_AGO.values()))
        drawn = [await charts.measure(name, _SYMBOL, each, days) for each in MEASURES_SHOWN]
        return past, [*drawn, *await _liquidations(charts, days, primary, venue)]
    except DatabaseUnavailable:
        return None, None


async def _liquidations(charts: ChartReader, days: int, primary: str, in_use: str) -> list[Chart]:
    """The chart of the primary's liquidations, which names it if another venue is in use."""
    if VENUES[primary].liquidations == "none":
        return []
    chart = await charts.liquidations(days)
    if in_use == primary:
        return [chart]
    return [chart._replace(title=f"{chart.title} at {VENUES[primary].title}")]
