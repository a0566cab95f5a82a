"""`/funding`: the live and the settled funding of every coin, and the best pair of venues."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import ClassVar, NamedTuple

from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response

from barograph.kit.text import HUNDRED, NBSP, usd
from barograph.markets.carry import CARRY_PATH, DEFAULT_WINDOW, CarryCoin, carry
from barograph.markets.cross import CrossMarket
from barograph.markets.cross_coins import CrossCoin
from barograph.markets.cross_documents import CROSS_PATH
from barograph.markets.cross_entries import FUNDING, CrossVenue, State, weighted_mean
from barograph.markets.settlements import LONGEST_INTERVAL_HOURS, WINDOW_DAYS, yearly
from barograph.markets.symbols import has_page, names_of
from barograph.site.coin_text import (
    briefly,
    entries_at,
    missing_text,
    part_bar,
    parts_of,
    ranked_funding,
    tinted_funding,
    titles_of,
)
from barograph.site.paths import CARRY_PAGE, CROSS_PAGE, FUNDING_PAGE, MARKETS_FOLDER
from barograph.site.responses import Page, PageRouter
from barograph.site.site import INCOMPLETE_PAGE_MS, Site, redirect
from barograph.site.status import detail_html
from barograph.site.table_query import SYMBOL, Column, TableQuery
from barograph.site.templating import funding_tint, period, shown, utc_text
from barograph.venues.registry import VENUES

LEAST_USD = 10_000_000
"""Coins with less open interest are listed only on request: a few trades move their rates."""

LISTED = 25
"""How many coins are listed without a request for all."""

EXTREME, INTEREST, LIVE, PAIR = "extreme", "open-interest", "funding", "pair"
SHORTEST, *LONGER = WINDOW_DAYS
PLACES = {window: place for place, window in enumerate(WINDOW_DAYS)}
LIVE_DAYS = WINDOW_DAYS[SHORTEST]
COMPARABLE: tuple[State, ...] = ("ok", "disputed", "stale", "unavailable")
"""The states of an entry whose settled funding is that of the coin."""

_NOT_LISTED = '<span class="quiet" title="not listed">—</span>'


class FundingQuery(TableQuery, frozen=True):
    """Which coins to list, over which window, and in which order."""

    sort: str = EXTREME
    window: str = ""
    show: str = ""
    sorts: ClassVar[tuple[str, ...]] = (SYMBOL, EXTREME, INTEREST, LIVE, *LONGER, PAIR)
    limits: ClassVar[Mapping[str, tuple[str, ...]]] = {"window": tuple(LONGER), "show": ("all",)}

    @property
    def chosen(self) -> str:
        """The window of what venues settled and of the pair."""
        return self.window or SHORTEST


class FundingRow(NamedTuple):
    """A coin, and its best pair of venues over the chosen window."""

    coin: CrossCoin
    best: CarryCoin

    def number(self, query: FundingQuery) -> float | None:
        """What the rows are sorted by. No number changes because a venue fails."""
        live = ranked_funding(self.coin)
        known = {
            EXTREME: None if live is None else abs(live),
            INTEREST: self.coin.open_interest.at_least_usd,
            LIVE: live,
            PAIR: self.best.pairYearlyPct,
        }
        if query.sort in known:
            return known[query.sort]
        if query.sort in PLACES:
            return settled_mean(self.coin, query.sort).pct
        return _rate_at(self.coin, query.sort, PLACES[query.chosen])

    @property
    def is_large(self) -> bool:
        """Whether it has the least open interest, what is missing included."""
        return (self.coin.open_interest.at_least_usd or 0.0) >= LEAST_USD


class SettledMean(NamedTuple):
    """What the venues of a coin settled over a window, weighted by their open interest now."""

    pct: float | None
    known: int
    listed: int
    """How many venues list the coin, and of how many we know what they settled."""


def settled_mean(coin: CrossCoin, window: str) -> SettledMean:
    """Weigh what each venue settled; one that is missing has its last known open interest."""
    expected = [entry for entry in coin.venues if entry.state != "different asset"]
    rates = [
        (held, pct, entry.venue)
        for entry in expected
        if (pct := _settled(entry, PLACES[window])) is not None and (held := entry.held_usd)
    ]
    known, listed = ({venue for *_, venue in rates}, {entry.venue for entry in expected})
    return SettledMean(weighted_mean(rate[:2] for rate in rates), len(known), len(listed))


def _settled(entry: CrossVenue, place: int) -> float | None:
    return None if entry.settled is None else entry.settled.all_pct[place]


def _rate_at(coin: CrossCoin, venue: str, place: int) -> float | None:
    """What the largest contract settled, unless it is another asset's."""
    known = (entry for entry in entries_at(coin, venue) if entry.state in COMPARABLE)
    return next((pct for entry in known if (pct := _settled(entry, place)) is not None), None)


def contract_names(coin: CrossCoin) -> Sequence[str]:
    """The names of its contracts, for a search."""
    known = (venue.contract for venue in coin.venues if venue.contract is not None)
    return [name for each in known for name in names_of(each)]


def all_rows(market: CrossMarket, window: str) -> list[FundingRow]:
    """Every coin."""
    return [FundingRow(market.coins[each.coin], each) for each in carry(market, window)]


def select_rows(rows: Iterable[FundingRow], query: FundingQuery) -> list[FundingRow]:
    """The matching coins in order; small ones only if they are searched or asked for."""
    has_all = bool(query.show or query.search)
    found = (
        row
        for row in rows
        if (has_all or row.is_large) and query.finds(row.coin.asset, contract_names(row.coin))
    )
    return query.arrange(found, lambda row: row.coin.asset.upper(), lambda row: row.number(query))


class Extremes(NamedTuple):
    """The rows with the highest and the lowest live rate, and with the best pair."""

    highest: FundingRow | None
    lowest: FundingRow | None
    pair: FundingRow | None
    window: str
    """That of the pair."""


def extremes(market: CrossMarket, rows: Sequence[FundingRow], window: str) -> Extremes:
    """The extremes of the coins that are large enough.

    One window of 8 hours says little about a pair, so it is then that of a week.
    """
    live = [row for row in rows if row.is_large and ranked_funding(row.coin) is not None]
    live.sort(key=lambda row: ranked_funding(row.coin) or 0.0)
    of = window if window != SHORTEST else DEFAULT_WINDOW
    paired = rows if of == window else all_rows(market, of)
    pair = next((row for row in paired if row.is_large and row.best.pairPct), None)
    return Extremes(live[-1] if live else None, live[0] if live else None, pair, of)


def funding_columns(venues: Iterable[str], window: str) -> tuple[Column, ...]:
    """The headings, each with the name to sort by."""
    return (
        Column(SYMBOL, "Coin"),
        Column(INTEREST, "Open interest", "One-sided, in USD, all venues; below it their shares"),
        Column(LIVE, f"Live per 8{NBSP}h", "Estimates of the next settlements, weighted"),
        *(Column(each, f"Settled {period(each)}", _MEAN) for each in LONGER),
        Column("", "Next settlement (UTC)"),
        *(Column(venue, VENUES[venue].title) for venue in venues),
        Column(PAIR, f"Best pair, {period(window)}", "Before fees and price differences"),
    )


_MEAN = "What venues settled, weighted by their open interest now"


def table_rows(rows: Iterable[FundingRow], market: CrossMarket, window: str, root: str) -> Markup:
    """The body of the table, without a template, which would be too slow for so many rows."""
    folder = str(escape(f"{root}{MARKETS_FOLDER}"))
    # Safe: names and reasons are escaped, and everything else is numbers and our own words.
    return Markup("\n".join(_line(row, market, window, folder) for row in rows))  # noqa: S704


def _line(row: FundingRow, market: CrossMarket, window: str, folder: str) -> str:
    coin, name = row.coin, str(escape(row.coin.asset))
    linked = f'<a href="{folder}{name}">{name}</a>' if has_page(coin.asset) else name
    means = (
        f'<td data-head="Settled {period(each)}">{_mean(settled_mean(coin, each))}</td>'
        for each in LONGER
    )
    venues = (
        f'<td data-head="{VENUES[venue].title}"{_cell(entries_at(coin, venue), window)}</td>'
        for venue in market.facts
    )
    return (
        f'<tr><th scope="row">{linked}</th>'
        f'<td data-head="Open interest">{_interest(coin)}</td>{_live(coin)}{"".join(means)}'
        f'<td data-head="Next settlement (UTC)">{_next(coin, market.now)}</td>{"".join(venues)}'
        f'<td data-head="Best pair, {period(window)}">{_best(row, window)}</td></tr>'
    )


def _interest(coin: CrossCoin) -> str:
    """The sum, what is missing from it, and the shares of the venues."""
    total, parts = coin.open_interest, parts_of(coin)
    said = f' <span class="hidden">{escape(", ".join(part.text for part in parts))}</span>'
    note = small(missing_text(total.usd, total.missing))
    return f"{shown(total.usd, usd)}{note}{part_bar(parts)}{said}"


def _bare(pct: float) -> str:
    """A rate whose unit is in the heading."""
    return f"{pct:+z.4f}"


def _live(coin: CrossCoin) -> str:
    pct, tinted = coin.funding_8h_pct, tinted_funding(coin)
    tint = "" if tinted is None else f' class="{funding_tint(tinted)}"'
    lacks = [each.venue for each in coin.funding_missing]
    notes = small(per_year(pct, LIVE_DAYS)) + small(f"without {briefly(lacks)}" if lacks else "")
    return f'<td data-head="Live per 8{NBSP}h"{tint}>{shown(pct, _bare)}{notes}</td>'


def per_year(pct: float | None, days: float) -> str:
    """A rate per year, without compounding; empty if it is unknown."""
    year = yearly(pct, days)
    if year is None:
        return ""
    return f"{year:+z,.{0 if abs(year) >= HUNDRED else 1}f}{NBSP}%/y"


def small(note: str) -> str:
    """A note below a number; empty if there is none."""
    return f" <small>{note}</small>" if note else ""


def _mean(mean: SettledMean) -> str:
    is_partial = mean.pct is not None and mean.known < mean.listed
    partial = f"{mean.known} of {mean.listed}" if is_partial else ""
    return shown(mean.pct, _bare) + small(partial)


def _next(coin: CrossCoin, now: int) -> str:
    """The next settlement, and where it is if not all venues settle then."""
    times = [
        (each.contract.next_funding_time, each.venue)
        for each in coin.venues
        if each.contract is not None and each.contract.next_funding_time > now
    ]
    if not times:
        return "—"
    first = min(at for at, _ in times)
    here = {venue for at, venue in times if at == first}
    where = "" if len(here) == len({venue for _, venue in times}) else briefly(here)
    until = f'<span class="quiet" data-until="{first}"></span>'
    return f"{utc_text(first)[11:16]} {until}{small(where)}"


def _cell(entries: Sequence[CrossVenue], window: str) -> str:
    """The rest of a cell: the rates of a coin at one venue, in the tint of the largest contract."""
    rates = [_rate(entry, window) for entry in entries] or [("", _NOT_LISTED)]
    tint = f' class="{rates[0][0]}"' if rates[0][0] else ""
    return f"{tint}>{'<br>'.join(text for _, text in rates)}"


def _rate(entry: CrossVenue, window: str) -> tuple[str, str]:
    """The tint and the text of one contract; without a tint, its settled funding doesn't count."""
    pct, live, days = _settled(entry, PLACES[window]), entry.funding_8h_pct, WINDOW_DAYS[window]
    note = per_year(pct, days)
    if window == SHORTEST and entry.contract is not None and live is not None:
        hours = entry.contract.funding_interval_hours
        interval = "" if hours == LONGEST_INTERVAL_HOURS else f", {hours:g}{NBSP}h"
        note = f"live {_bare(live)}{interval}"
    text = f"{shown(pct, _bare)}{small(note)}"
    counts = entry.state in COMPARABLE and FUNDING not in entry.disputed
    tint = funding_tint(pct * LIVE_DAYS / days) if counts and pct is not None else ""
    if entry.state != "ok":
        text += f' <small title="{escape(entry.reason or "")}">{entry.state}</small>'
    return tint, text


def _best(row: FundingRow, window: str) -> str:
    """What the best pair paid, its venues, and the rest about it."""
    pct, notes = row.best.pairPct, pair_notes(row, window)
    if pct is None:
        return f"—{small(notes if len(row.best.venues) > 1 else '')}"
    if pct == 0:
        return f"none{small(notes or 'all settled the same')}"
    return f"{_bare(pct)} <span>{pair_text(row)}</span>{small(notes)}"


def pair_notes(row: FundingRow, window: str) -> str:
    """The best pair per year, the smaller open interest of the two, and who is not compared."""
    lacks = f"without {titles_of(row.best.missing)}" if row.best.missing else ""
    if not row.best.pairPct:
        return lacks
    year = per_year(row.best.pairPct, WINDOW_DAYS[window])
    least = min(leg.held_usd or 0.0 for leg in _legs(row)) or None
    return ", ".join(filter(None, (year, f"smaller side {shown(least, usd)}", lacks)))


def _legs(row: FundingRow) -> list[CrossVenue]:
    """The coin where the best pair is short, and where it is long; empty without a pair."""
    venues = (row.best.shortVenue, row.best.longVenue)
    return [entries_at(row.coin, venue)[0] for venue in venues if venue is not None]


def pair_text(row: FundingRow) -> str:
    """The best pair: `short Bybit, long Gate (unavailable)`."""
    short, long = (
        VENUES[leg.venue].title + ("" if leg.state == "ok" else f" ({leg.state})")
        for leg in _legs(row)
    )
    return f"short {short}, long {long}"


def funding_routes(router: PageRouter, site: Site) -> None:
    """The route of the page, and redirects from the pages that it replaced."""

    @router.get(FUNDING_PAGE)
    async def read_funding(request: Request) -> Response:
        query = FundingQuery.parse(request.query_params, VENUES)
        cache_key = None if query.search else query.text.encode()
        return await site.respond(request, lambda now: _funding(site, query, now), query=cache_key)

    def moved(request: Request, fields: Mapping[str, str]) -> Response:
        text = FundingQuery.parse({**request.query_params, **fields}, VENUES).text
        return redirect(f"{site.templates.root}{FUNDING_PAGE}{'?' if text else ''}{text}")

    @router.get(CROSS_PAGE)
    async def read_cross(request: Request) -> Response:
        return moved(request, {})

    @router.get(CARRY_PAGE)
    async def read_carry(request: Request) -> Response:
        window = request.query_params.get("window", DEFAULT_WINDOW)
        return moved(request, {"sort": PAIR, "order": "desc", "window": window})


async def _funding(site: Site, query: FundingQuery, now: int) -> Page:
    market = await site.compared()
    venues = list(site.cross.facts(site.board) if market is None else market.facts)
    template, values = site.templates, dict[str, object]()
    if market is not None:
        values = await asyncio.to_thread(_contents, market, query, template.root)
    body = template.render(
        "funding.html",
        here=FUNDING_PAGE,
        market=market,
        venues=[VENUES[venue].title for venue in venues],
        query=query,
        windows=WINDOW_DAYS,
        detail_html=detail_html,
        columns=funding_columns(venues, query.chosen),
        least_usd=LEAST_USD,
        cross_path=CROSS_PATH,
        carry_path=CARRY_PATH,
        **values,
    )
    return Page(body, since=now, until=now + INCOMPLETE_PAGE_MS if market is None else market.until)


def _missing(market: CrossMarket) -> dict[str, str]:
    """The venues without a fresh reading, by name, and why."""
    states = {name: facts.state(market.limits, market.now) for name, facts in market.facts.items()}
    return {VENUES[name].title: why or state for name, (state, why) in states.items() if why}


def _contents(market: CrossMarket, query: FundingQuery, root: str) -> dict[str, object]:
    """The rows and the extremes; several hundred coins take a while, so a thread does it."""
    rows = all_rows(market, query.chosen)
    matching = select_rows(rows, query)
    listed = matching if query.show else [*islice(matching, LISTED)]
    return {
        "rows": table_rows(listed, market, query.chosen, root),
        "listed": len(listed),
        "matching": len(matching),
        "extremes": extremes(market, rows, query.chosen),
        "per_year": per_year,
        "live_days": LIVE_DAYS,
        "pair_text": pair_text,
        "pair_notes": pair_notes,
        "missing": _missing(market),
    }
