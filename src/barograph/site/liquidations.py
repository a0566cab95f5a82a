"""`/liquidations`: what was liquidated, and how complete that number is."""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from barograph.kit.text import coverage, usd
from barograph.kit.timestamps import MINUTE, SECOND
from barograph.markets.liquidation_endpoints import LIQUIDATIONS_PATH
from barograph.markets.samples import LiquidatedCoin, LiquidationDay, LiquidationDays
from barograph.markets.symbols import is_normalized
from barograph.markets.view import PERPETUALS, is_fresh
from barograph.site.chart_reader import ChartReader
from barograph.site.charts.columns import column_chart
from barograph.site.paths import LIQUIDATIONS_PAGE, MARKETS_PATH
from barograph.site.responses import Page, PageRouter
from barograph.site.series_charts import Chart
from barograph.site.site import Site
from barograph.site.templating import duration_text, utc_text
from barograph.venues.facts import Venue
from barograph.venues.registry import VENUES

PERIODS = {"latest": "Last 24 hours", "yesterday": "Yesterday"}
COINS_SHOWN = 25
GAPS_SHOWN = 3
ALL = 100.0

_PUBLISHED = {
    "all": "{} publishes every liquidation",
    "largest per second": "{} publishes only the largest liquidation per second and contract",
    "incomplete": "{} publishes only some liquidations",
}


class DayFacts(NamedTuple):
    """The chosen 24 hours of liquidations, as the page shows them."""

    key: str
    """One of `PERIODS`."""

    day: LiquidationDay
    venue: Venue
    unwatched: Sequence[str]
    """The contracts whose liquidations the venue does not publish."""

    @property
    def is_known(self) -> bool:
        """Whether we watched at all."""
        return self.day.watched_pct > 0

    @property
    def total(self) -> LiquidatedCoin:
        """All coins together."""
        return _together("All", self.day.coins)

    @property
    def is_complete(self) -> bool:
        """Whether nothing can be missing; otherwise each amount is a lower bound."""
        is_all = self.venue.liquidations == "all" and not self.unwatched
        return is_all and self.day.watched_pct >= ALL

    @property
    def sentence(self) -> str:
        """How much was liquidated, and what share of it was longs."""
        when = "yesterday" if self.key == "yesterday" else "in the last 24 hours"
        if not self.is_known:
            return f"We did not watch {self.venue.title} {when}, so the total is unknown."
        total = self.total
        if total.total_usd <= 0:
            return f"We saw no liquidation at {self.venue.title} {when}."
        if self.day.disputed:
            times = ", ".join(_gap_text(*span) for span in self.day.disputed)
            total_usd = f"{usd(total.total_usd)} was liquidated at {self.venue.title} {when}."
            return f"{total_usd} Its sides contradict the price and may be wrong: {times}."
        return (
            f"Longs were {100 * total.long_usd / total.total_usd:.1f} % of the value liquidated at "
            f"{self.venue.title} {when}: {usd(total.long_usd)} of {usd(total.total_usd)}."
        )

    @property
    def completeness(self) -> str:
        """How complete every amount of the period is, and what is missing."""
        if not self.is_known:
            return ""
        bound = "Complete" if self.is_complete else "Lower bounds"
        published = _PUBLISHED[self.venue.liquidations].format(self.venue.title)
        if self.unwatched:
            published += f", except those of {_contracts(self.unwatched)}"
        but = "and we covered" if self.day.watched_pct >= ALL else "but we covered only"
        covered = f"{but} {coverage(self.day.watched_pct)} of the time"
        return f"{bound}: {published}, {covered}.{self._missing}"

    @property
    def _missing(self) -> str:
        gaps = self.day.gaps
        if not gaps:
            return ""
        longest = sorted(gaps, key=lambda gap: gap[0] - gap[1])[:GAPS_SHOWN]
        listed = ", ".join(_gap_text(*gap) for gap in sorted(longest))
        if len(gaps) == 1:
            return f" Missing: {listed}."
        lost = _lasting(sum(end - start for start, end in gaps))
        which = ", the longest" if len(gaps) > GAPS_SHOWN else ""
        return f" Missing: {lost} in {len(gaps)} gaps{which}: {listed}."

    @property
    def rows(self) -> list[LiquidatedCoin]:
        """All coins, the largest ones, and one row for the others."""
        shown, others = self.day.coins[:COINS_SHOWN], self.day.coins[COINS_SHOWN:]
        rest = [_together(f"{len(others)} others", others)] if others else []
        return [self.total, *shown, *rest]


def _together(name: str, coins: Sequence[LiquidatedCoin]) -> LiquidatedCoin:
    longs = sum(coin.long_usd for coin in coins)
    return LiquidatedCoin(name, longs, sum(coin.short_usd for coin in coins))


def in_use_text(venue: Venue, in_use: Venue) -> str:
    """Which venue the liquidations are of, if market data comes from another; empty otherwise."""
    if venue.name == in_use.name:
        return ""
    none = ", which publishes no liquidations" if in_use.liquidations == "none" else ""
    return (
        f"Market data now comes from {in_use.title}{none}. The liquidations on "
        f"this page are still from {venue.title}."
    )


def _contracts(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names):,} contracts"


def _lasting(milliseconds: int) -> str:
    if milliseconds < MINUTE:
        return f"{-(-milliseconds // SECOND)} s"
    return duration_text(milliseconds)


def _gap_text(start: int, end: int) -> str:
    first, last = utc_text(start), utc_text(end)
    if end - start < MINUTE:
        return f"{_lasting(end - start)} at {first[:16]} UTC"
    return f"{first[:16]} to {last[11:16]} UTC"


def liquidation_routes(router: PageRouter, site: Site, charts: ChartReader) -> None:
    """The route of the page."""

    @router.get(LIQUIDATIONS_PAGE)
    async def read_liquidations(request: Request) -> Response:
        day = request.query_params.get("day") or "latest"
        if day not in PERIODS:  # a dated link must not show other data
            raise HTTPException(404)
        query = b"" if day == "latest" else f"day={day}".encode()
        return await site.respond(
            request, lambda now: _liquidations(site, charts, day, now), query=query
        )


async def _liquidations(site: Site, charts: ChartReader, day: str, now: int) -> Page:
    venue = VENUES[site.series.venue]
    if venue.liquidations == "none":
        body = site.templates.render(
            "liquidations.html", here=MARKETS_PATH, venue=venue, api_path=LIQUIDATIONS_PATH
        )
        return Page(body, since=now, until=now + MINUTE)
    days = await site.series.liquidation_days()
    reading, in_use = site.markets.reading(site.board, venue.name), site.board.latest(PERPETUALS)
    heard_at, listed = _heard_at(site, days), site.markets.contracts(site.board) or {}
    bound = _bound(site, heard_at, now)
    chosen = days.yesterday if day == "yesterday" else days.latest
    facts = DayFacts(day, chosen, venue, [] if reading is None else reading.unwatched)
    if day == "latest":
        chart: Chart | Markup = (await charts.liquidations(1))._replace(
            page=f"{LIQUIDATIONS_PAGE}#liquidations"
        )
    else:
        chart = column_chart(days.hours, prefix="chart-yesterday", name="Liquidations yesterday")
    body = site.templates.render(
        "liquidations.html",
        here=MARKETS_PATH,
        venue=venue,
        periods=PERIODS,
        chosen=facts,
        chart=chart,
        min_coverage_pct=site.series.min_watched_pct,
        symbols={symbol for symbol in listed if is_normalized(symbol)},
        bound=bound,
        heard_at=heard_at,
        other="" if in_use is None else in_use_text(venue, VENUES[in_use.venue]),
        api_path=LIQUIDATIONS_PATH,
    )
    minute = now // MINUTE * MINUTE + MINUTE  # then the record is read again
    return Page(body, since=now, until=minute if bound is None else min(minute, bound))


def _heard_at(site: Site, days: LiquidationDays) -> int | None:
    """Up to when we watched: the record is read only once per minute, the board is newer."""
    counted = site.markets.liquidations(site.board, site.series.venue)
    times = (days.heard_at, None if counted is None else counted.watched_until)
    return max((time for time in times if time is not None), default=None)


def _bound(site: Site, heard_at: int | None, now: int) -> int | None:
    """When the last 24 hours stop being current; None if they are not."""
    limit = site.cross.limits.liquidations
    return None if heard_at is None or not is_fresh(heard_at, limit, now) else heard_at + limit
