"""The home page: what it reads, and its route."""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from barograph.briefs.records import ListedBrief, in_words
from barograph.discovery.files import service_links
from barograph.errors import RecordUnavailable, UpstreamUnavailable
from barograph.events.endpoints import EVENTS_PATH, recent_events
from barograph.history.public_log import PublicLog
from barograph.markets.samples import DAYS, LiquidatedHour, LiquidationSeries, Measure, PastRegime
from barograph.markets.settlements import bitcoin_contract
from barograph.markets.view import LIQUIDATIONS, PERPETUALS, MarketView
from barograph.signals.methods import DAILY
from barograph.site.chart_reader import ChartReader
from barograph.site.charts.small import gauge
from barograph.site.home_content import (
    DAYS_AGO,
    FLOOR_USD,
    MarketNow,
    Weeks,
    figures_of,
    hour_movers,
    liquidation_line,
    market_figures,
    market_now,
)
from barograph.site.paths import HOME_PATH
from barograph.site.responses import Page, PageRouter
from barograph.site.series_charts import Chart, chosen_days, days_query, drawn_total
from barograph.site.site import INCOMPLETE_PAGE_MS, Site, or_none
from barograph.site.status import detail_html, headline
from barograph.site.visits import REGIME, changes
from barograph.venues.records import MAJORS, ContractName
from barograph.venues.registry import VENUES

TOTAL_LINES: tuple[Measure, ...] = ("funding", "open-interest")
"""The lines that are about all venues."""

BRIEFS_SHOWN = 3
_SYMBOL = "BTC"


class Recorded(NamedTuple):
    """What the page shows from the database."""

    past: Sequence[PastRegime]
    charts: Sequence[Chart]
    weeks: Weeks
    day: LiquidationSeries | None
    hour: LiquidatedHour | None


def home_routes(router: PageRouter, site: Site, charts: ChartReader, log: PublicLog) -> None:
    """The route of the home page."""

    @router.get(HOME_PATH)
    async def read_home(request: Request) -> Response:
        days = chosen_days(request.query_params.get("days"))

        async def render(now: int) -> Page:
            if not log.is_probed:
                await log.probe()
            return await _home(site, charts, log, days, now)

        return await site.respond(request, render, query=days_query(days))


async def _home(site: Site, charts: ChartReader, log: PublicLog, days: int, at: int) -> Page:
    view = site.view(at)
    now = await _market_now(site, view)
    recorded = await or_none(_read_record(site, charts, days))
    briefs, events = _briefs(site, at), recent_events(site.board)
    status = site.status.status(site.board, at)
    history = next(check for check in status.checks if check.name == "history")
    label, rate = ("unknown", None) if now is None else (now.label, now.funding_8h_pct)
    body = site.templates.render(
        "home.html",
        now=now,
        **_from_record(view, now, recorded),
        status=status,
        status_text=headline(status),
        # Read together with the status, so that the two agree.
        signed=log.last_signed,
        unsigned=detail_html(history.detail, at),
        last_event=events[-1].id if events else 0,
        changes=changes(events),
        events_path=EVENTS_PATH,
        floor_usd=FLOOR_USD,
        last=None if (last := site.board.latest(PERPETUALS)) is None else last.as_of,
        gauge=gauge(label, rate, prefix="regime"),
        backfill=site.backfill(at),
        days=days,
        all_days=DAYS,
        regime_signal=REGIME,
        signals=[signal for signal in site.signals.signals(site.board, at) if signal.key != REGIME],
        signal_ends=site.signals.ends(site.board, at),
        daily_signals=DAILY,
        briefs=briefs,
        switched=site.switched(at),
        in_words=in_words,
    )
    until = at + INCOMPLETE_PAGE_MS
    if now is not None and recorded is not None and briefs is not None:
        signals_until = site.signals.known_until(site.board, at)
        until = min(now.until, signals_until, site.briefs.known_until(site.board))
    return Page(body, since=at, until=until, fields=service_links(site.templates.root))


def _from_record(
    view: MarketView | None, now: MarketNow | None, recorded: Recorded | None
) -> dict[str, object]:
    """What the page shows from the database, or without it."""
    weeks, day, hour = ({}, None, None) if recorded is None else recorded[2:]
    past = [None] * len(DAYS_AGO) if recorded is None else recorded.past
    shown: dict[str, object] = {
        "regimes": [*zip(DAYS_AGO, past, strict=True)],
        "charts": None if recorded is None else recorded.charts,
    }
    if now is not None:
        shown["rows"] = [
            (asset.symbol, figures_of(asset, now.in_use, weeks)) for asset in now.assets
        ]
        shown["market_row"] = market_figures(now.totals)
        shown["movers"] = [*now.movers, hour_movers(view, hour)]
        shown["line"] = liquidation_line(None if view is None or view.lacks_liquidations else day)
    return shown


async def _market_now(site: Site, view: MarketView | None) -> MarketNow | None:
    market = await site.compared()
    if market is None:
        return None
    counted = site.board.latest(LIQUIDATIONS)
    try:
        return market_now(market, view, counted)
    except UpstreamUnavailable:
        return None


def _briefs(site: Site, at: int) -> Sequence[ListedBrief] | None:
    try:
        return site.briefs.newest(site.board, at).briefs[:BRIEFS_SHOWN]
    except RecordUnavailable:
        return None


async def _read_record(site: Site, charts: ChartReader, days: int) -> Recorded:
    reading, series = site.board.latest(PERPETUALS), site.series
    venue = series.venue if reading is None else reading.venue
    name = ContractName(venue, bitcoin_contract(reading, venue))
    index = site.markets.contracts(site.board) or {}
    majors = {each: ContractName(venue, index[each].contract) for each in MAJORS if each in index}
    has_liquidations = VENUES[series.venue].liquidations != "none"
    drawn = [await charts.measure(name, _SYMBOL, "funding", days)]
    weeks = {symbol: dict(await series.week_of(each)) for symbol, each in majors.items()}
    if site.has_venues:
        drawn.append(await charts.total(_SYMBOL, "open-interest", days))
        for symbol, measure in product(MAJORS, TOTAL_LINES):
            week = (await series.totals(symbol, measure, 7)).points
            weeks.setdefault(symbol, {})[measure] = tuple(map(drawn_total, week[::4]))
    else:
        drawn.append(await charts.measure(name, _SYMBOL, "open-interest", days))
    if has_liquidations:
        drawn.append(await charts.liquidations(days))
    return Recorded(
        past=await series.regimes(name, tuple(DAYS_AGO.values())),
        charts=drawn,
        weeks=weeks,
        day=await series.liquidations(1) if has_liquidations else None,
        hour=await series.liquidated_hour() if has_liquidations else None,
    )
