"""The home page: the market at a glance."""

from contextlib import suppress

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from barograph.briefs.records import ListedBrief
from barograph.discovery.links import service_links
from barograph.errors import RecordUnavailable, UpstreamUnavailable
from barograph.kit.database import DatabaseUnavailable
from barograph.markets.documents import MARKET_STATE_PATH
from barograph.markets.feeds import LIQUIDATIONS, PERPETUALS
from barograph.markets.history import RegimeChange
from barograph.markets.records import Perpetuals, majors_of
from barograph.markets.samples import DAYS, Measure
from barograph.site.charts.gauge import gauge
from barograph.site.frame.answers import Page
from barograph.site.frame.site import LOOK_AGAIN_MS, Site
from barograph.site.home.facts import DAYS_AGO, Now, market_now, standings
from barograph.site.series.figures import (
    Chart,
    chosen_days,
    liquidations_chart,
    measure_chart,
)

MEASURES_SHOWN: tuple[Measure, ...] = ("funding", "open-interest")
BRIEFS_SHOWN = 3
_SYMBOL = "BTC"


def home_routes(site: Site) -> APIRouter:
    """The route of the home page."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def read_home(request: Request) -> Response:
        days = chosen_days(request.query_params.get("days"))
        is_bounded = request.scope["query_string"] in {b"", b"days=%d" % days}
        return await site.show(request, lambda now: _home(site, days, now), keep=is_bounded)

    return router


async def _home(site: Site, days: int, at: int) -> Page:
    now = _now(site, at)
    last = site.board.latest(PERPETUALS)
    before, charts = await _past(site, last, days)
    judged = site.signals.fresh(site.board, at)
    totals = site.board.latest(LIQUIDATIONS)
    body = site.pages.fill(
        "home.html",
        now=now,
        last=None if last is None else last.as_of,
        gauge=_gauge(now),
        standings=standings(now, before),
        coverage_pct=None if totals is None else totals.watched_pct,
        min_coverage_pct=site.series.min_watched_pct,
        charts=charts,
        days=days,
        all_days=DAYS,
        signals=() if judged is None else judged.signals,
        briefs=_briefs(site, at),
        market_state_path=MARKET_STATE_PATH,
    )
    until = at + LOOK_AGAIN_MS if now is None else now.until
    return Page(body, since=at, until=until, fields=service_links(site.pages.root))


def _gauge(now: Now | None) -> Markup:
    if now is None:
        return gauge("unknown", None, prefix="regime")
    return gauge(now.label, now.funding_8h_pct, prefix="regime")


def _now(site: Site, at: int) -> Now | None:
    try:
        return market_now(site.markets.view(site.board, at))
    except UpstreamUnavailable:
        return None


def _briefs(site: Site, at: int) -> tuple[ListedBrief, ...]:
    with suppress(RecordUnavailable):
        return tuple(site.briefs.newest(site.board, at).briefs[:BRIEFS_SHOWN])
    return ()


async def _past(
    site: Site, last: Perpetuals | None, days: int
) -> tuple[list[RegimeChange | None], list[Chart]]:
    """What was recorded; nothing where the record cannot be read: the present is shown anyway."""
    btc = None if last is None else majors_of(last).get(_SYMBOL)
    try:
        before = await site.series.regimes(tuple(DAYS_AGO.values()))
        return before, [] if btc is None else await _charts(site, btc.contract, days)
    except DatabaseUnavailable:
        return [None] * len(DAYS_AGO), []


async def _charts(site: Site, contract: str, days: int) -> list[Chart]:
    root = site.pages.root
    measured = [await site.series.reading(contract, each, days) for each in MEASURES_SHOWN]
    return [
        *(measure_chart(series, _SYMBOL, root) for series in measured),
        liquidations_chart(await site.series.liquidations(days), root),
    ]
