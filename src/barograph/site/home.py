"""The home page: the market at a glance."""

from collections.abc import Sequence
from decimal import ROUND_DOWN, Decimal
from typing import NamedTuple

from fastapi import Request, Response
from markupsafe import Markup

from barograph.briefs.records import ListedBrief
from barograph.discovery.files import service_links
from barograph.errors import RecordUnavailable, UpstreamUnavailable
from barograph.kit.database import DatabaseUnavailable
from barograph.markets.documents import MARKET_STATE_PATH, citation, market_state_document
from barograph.markets.liquidations import LiquidationTotals
from barograph.markets.records import MAJORS, Perpetual, majors_of
from barograph.markets.regime import BASIS, Label, Regime, describe, eight_hour_rate
from barograph.markets.samples import DAYS, Measure, PastRegime
from barograph.markets.view import LIQUIDATIONS, PERPETUALS, MarketView, is_fresh
from barograph.signals.methods import DAILY
from barograph.site.charts.gauge import gauge
from barograph.site.frame.paths import HOME_PATH
from barograph.site.frame.responses import Page, PageRouter
from barograph.site.frame.site import LOOK_AGAIN_MS, Site
from barograph.site.series import ChartReader
from barograph.site.series_charts import Chart, chosen_days
from barograph.site.series_documents import days_query

DAYS_AGO = {"Yesterday": 1, "7 days ago": 7, "30 days ago": 30}
"""With what the regime of now is compared."""

_SENTENCES: dict[Label, str] = {
    "short-crowded": "Shorts are crowded in BTC perpetuals.",
    "short-leaning": "BTC perpetuals lean short.",
    "neutral": "Funding of BTC perpetuals is balanced.",
    "long-leaning": "BTC perpetuals lean long.",
    "long-crowded": "Longs are crowded in BTC perpetuals.",
    "unknown": "How BTC perpetuals stand is not known.",
}


class Standing(NamedTuple):
    """The regime of one instant; without a label it is said why."""

    when: str
    label: str | None
    funding_8h_pct: float | None
    otherwise: str
    at: int | None = None
    """When the rate was measured, of an instant that is past."""


class Asset(NamedTuple):
    """One major asset; without a contract it is not listed now."""

    symbol: str
    contract: Perpetual | None
    funding_8h_pct: float | None
    long_account_pct: float | None


class Side(NamedTuple):
    """One side of the liquidations of 24 hours."""

    name: str
    notional_usd: float
    share_pct: float


class Now(NamedTuple):
    """What is fresh."""

    as_of: int
    until: int
    """When the first of it reaches its bound."""

    bound: int
    """When the reading itself does: from then on nothing of it is of now."""

    source: str
    sentence: str
    basis: str
    note: str
    label: Label
    funding_8h_pct: float | None
    assets: tuple[Asset, ...]
    liquidated_usd: float | None
    liquidated_note: str
    """What the amount covers, or why there is none."""

    sides: tuple[Side, ...]
    citation: str

    @property
    def first(self) -> Asset:
        """BTC."""
        return self.assets[0]


def market_now(view: MarketView, counted: LiquidationTotals | None) -> Now:
    """Gather what is fresh; `counted` are the liquidations that were counted last.

    Raises:
        UpstreamUnavailable: none of BTC, ETH and SOL is known.
    """
    until = market_state_document(view).until
    recent = _recent(counted, view)
    if recent is not None:
        until = min(until, recent.as_of + view.bounds.liquidations)
    regime = view.regime
    liquidated = view.liquidations
    return Now(
        as_of=view.perpetuals.as_of,
        until=until,
        bound=view.until,
        source=view.perpetuals.source,
        sentence=_SENTENCES["unknown" if regime is None else regime.label],
        basis=BASIS,
        note=_note(regime),
        label="unknown" if regime is None else regime.label,
        funding_8h_pct=None if regime is None else regime.funding_8h_pct,
        assets=tuple(_asset(view, symbol) for symbol in MAJORS),
        liquidated_usd=None if liquidated is None else liquidated.total_usd,
        liquidated_note=_liquidated_note(recent, view),
        sides=_sides(view),
        citation=citation(view.perpetuals.source, view.perpetuals.as_of),
    )


def standings(now: Now | None, before: Sequence[PastRegime] | None) -> list[Standing]:
    """The regime now and at the instants of `DAYS_AGO`; None is a record that cannot be read."""
    return [
        Standing("Now", None, None, "stale")
        if now is None
        else Standing("Now", now.label, now.funding_8h_pct, ""),
        *(
            Standing(when, None, None, "not known")
            if before is None
            else _past(when, before[number])
            for number, when in enumerate(DAYS_AGO)
        ),
    ]


def _past(when: str, regime: PastRegime) -> Standing:
    return Standing(when, regime.label, regime.funding_8h_pct, "not recorded", regime.at)


def _note(regime: Regime | None) -> str:
    return "There is no recent regime reading." if regime is None else describe(regime)


def _asset(view: MarketView, symbol: str) -> Asset:
    contract = view.by_name.get(symbol)
    if contract is None:
        return Asset(symbol, None, None, None)
    share = view.share(contract.contract)
    return Asset(
        symbol,
        contract,
        eight_hour_rate(contract.funding_rate_pct, contract.funding_interval_hours),
        None if share is None else share.long_account_pct,
    )


def _recent(counted: LiquidationTotals | None, view: MarketView) -> LiquidationTotals | None:
    """What was counted, unless that is too long ago, however much of the day was watched."""
    if counted is None or not is_fresh(counted.as_of, view.bounds.liquidations, view.now):
        return None
    return counted


def _liquidated_note(counted: LiquidationTotals | None, view: MarketView) -> str:
    if counted is None:
        return "not counted recently"
    # Cut, not rounded: 94.97 is not the 95.0 that would be enough.
    watched = Decimal(str(counted.watched_pct)).quantize(Decimal("0.1"), ROUND_DOWN)
    if view.liquidations is None:
        return f"{watched} % of the day watched, {view.bounds.min_coverage_pct:g} % are needed"
    most = "" if counted.top_asset is None else f", most in {counted.top_asset}"
    return f"all contracts{most}; {watched} % of the day watched"


def _sides(view: MarketView) -> tuple[Side, ...]:
    liquidated = view.liquidations
    if liquidated is None or liquidated.long_pct is None:
        return ()
    return tuple(
        Side(name, liquidated.total_usd * share / 100, share)
        for name, share in (
            ("Longs", liquidated.long_pct),
            ("Shorts", 100 - liquidated.long_pct),
        )
    )


MEASURES_SHOWN: tuple[Measure, ...] = ("funding", "open-interest")
BRIEFS_SHOWN = 3
_SYMBOL = "BTC"
_USUAL_CONTRACT = "BTCUSDT"
"""What is looked back on while BTC is not listed."""


class _Past(NamedTuple):
    """What was recorded; None where the record cannot be read."""

    before: Sequence[PastRegime] | None
    charts: Sequence[Chart] | None


def home_routes(site: Site, charts: ChartReader) -> PageRouter:
    """The route of the home page."""
    router = PageRouter()

    @router.get(HOME_PATH)
    async def read_home(request: Request) -> Response:
        days = chosen_days(request.query_params.get("days"))
        return await site.show(
            request, lambda now: _home(site, charts, days, now), query=days_query(days)
        )

    return router


async def _home(site: Site, charts: ChartReader, days: int, at: int) -> Page:
    now = _now(site, at)
    last = site.board.latest(PERPETUALS)
    signals = site.signals.signals(site.board, at)
    past = await _read_past(site, charts, days)
    briefs = _briefs(site, at)
    body = site.pages.fill(
        "home.html",
        now=now,
        last=None if last is None else last.as_of,
        gauge=_gauge(now),
        standings=standings(now, past.before),
        charts=past.charts,
        days=days,
        all_days=DAYS,
        signals=signals,
        signal_ends=site.signals.ends(site.board, at),
        daily_signals=DAILY,
        briefs=briefs,
        market_state_path=MARKET_STATE_PATH,
    )
    until = at + LOOK_AGAIN_MS
    if now is not None and past.charts is not None and briefs is not None:
        signals_until = site.signals.known_until(site.board, at)
        until = min(now.until, signals_until, site.briefs.known_until(site.board))
    return Page(body, since=at, until=until, fields=service_links(site.pages.root))


def _gauge(now: Now | None) -> Markup:
    if now is None:
        return gauge("unknown", None, prefix="regime")
    return gauge(now.label, now.funding_8h_pct, prefix="regime")


def _now(site: Site, at: int) -> Now | None:
    try:
        return market_now(site.markets.view(site.board, at), site.board.latest(LIQUIDATIONS))
    except UpstreamUnavailable:
        return None


def _briefs(site: Site, at: int) -> Sequence[ListedBrief] | None:
    try:
        return site.briefs.newest(site.board, at).briefs[:BRIEFS_SHOWN]
    except RecordUnavailable:
        return None


async def _read_past(site: Site, charts: ChartReader, days: int) -> _Past:
    """What was recorded; the present is shown also where that cannot be read."""
    last = site.board.latest(PERPETUALS)
    btc = None if last is None else majors_of(last).get(_SYMBOL)
    contract = _USUAL_CONTRACT if btc is None else btc.contract
    try:
        before = await site.series.regimes(contract, tuple(DAYS_AGO.values()))
        return _Past(before, await _drawn(charts, contract, days))
    except DatabaseUnavailable:
        return _Past(None, None)


async def _drawn(charts: ChartReader, contract: str, days: int) -> list[Chart]:
    measured = [await charts.measure(contract, _SYMBOL, each, days) for each in MEASURES_SHOWN]
    return [*measured, await charts.liquidations(days)]
