"""The home page: the market at a glance."""

from collections.abc import Sequence
from typing import NamedTuple

from fastapi import Request, Response
from markupsafe import Markup

from barograph.briefs.records import ListedBrief
from barograph.discovery.links import service_links
from barograph.errors import RecordUnavailable, UpstreamUnavailable
from barograph.kit.database import DatabaseUnavailable
from barograph.markets.documents import MARKET_STATE_PATH
from barograph.markets.feeds import LIQUIDATIONS, PERPETUALS
from barograph.markets.records import majors_of
from barograph.markets.samples import DAYS, Measure, PastRegime
from barograph.signals.catalog import DAILY
from barograph.site.charts.gauge import gauge
from barograph.site.frame.answers import Page
from barograph.site.frame.paths import HOME_PATH
from barograph.site.frame.routes import PageRouter
from barograph.site.frame.site import LOOK_AGAIN_MS, Site
from barograph.site.home.pages import DAYS_AGO, Now, market_now, standings
from barograph.site.series.chart_reader import ChartReader
from barograph.site.series.documents import days_query
from barograph.site.series.figures import Chart, chosen_days

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
    past = await _past(site, charts, days)
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


async def _past(site: Site, charts: ChartReader, days: int) -> _Past:
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
