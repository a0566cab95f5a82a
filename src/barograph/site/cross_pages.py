"""The content of `/cross` and `/venues` (pure): every coin at all venues, one coin, the venues."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from markupsafe import Markup, escape

from barograph import NOTICE, SITE_NAME
from barograph.kit.text import NBSP, rate, usd
from barograph.markets.cross import CrossCoin, CrossMarket, CrossVenue, Missing, State, VenueFacts
from barograph.markets.cross_documents import VenueEntry
from barograph.markets.symbols import NAME_PATTERN, names_of
from barograph.markets.venues import VENUES
from barograph.site.paths import CROSS_FOLDER
from barograph.site.table_query import Column, TableQuery
from barograph.site.templating import utc_text
from barograph.site.tints import funding_tint

SORTS = ("symbol", "listed", "open-interest", "funding", "spread")
NUMBERS = SORTS[1:]
"""The sortable numbers of a row, in this order; `listed` is the order of the API."""

COLUMNS = (
    Column("symbol", "Coin"),
    Column("", "Venues"),
    Column("open-interest", "Open interest (USD)"),
    Column("funding", f"Weighted funding per 8{NBSP}h"),
    Column("spread", f"Widest spread per 8{NBSP}h"),
)

COMPARABLE: tuple[State, ...] = ("ok", "disputed")
"""The states of an entry whose funding is that of the coin."""

SAME_RATE = 0.00005
"""Smaller spreads, in percent, are shown as “none”."""


@dataclass(frozen=True)
class CrossQuery(TableQuery):
    """Which coins to list, and in which order; on `/funding` also by the funding at a venue."""

    sort: str = "listed"
    sorts: ClassVar[tuple[str, ...]] = SORTS


class CrossRow(NamedTuple):
    """One coin, with its numbers in the order of `NUMBERS`, and then its funding at venues."""

    coin: CrossCoin
    numbers: Sequence[float | None]


def select_rows(
    market: CrossMarket, query: CrossQuery, venues: Sequence[str] = ()
) -> list[CrossRow]:
    """The matching coins in order."""
    rows = [
        CrossRow(coin, (*_numbers(coin, -rank), *(_rate_at(coin, each) for each in venues)))
        for rank, coin in enumerate(market.coins.values())
        if query.finds(coin.asset, _names(coin))
    ]
    names = (*NUMBERS, *venues)
    # A venue that is not read now has no numbers: the usual order.
    place = names.index(query.sort) if query.sort in names else 0
    return query.arrange(
        rows, name=lambda row: row.coin.asset.upper(), number=lambda row: row.numbers[place]
    )


def table_rows(rows: Iterable[CrossRow], root: str) -> Markup:
    """The body of the table, without a template, which would be too slow for so many rows."""
    folder = str(escape(f"{root}{CROSS_FOLDER}"))
    # Safe: names and reasons are escaped, and everything else is numbers.
    return Markup("\n".join(_line(row, folder) for row in rows))  # noqa: S704


def _line(row: CrossRow, folder: str) -> str:
    coin, venues = row.coin, ", ".join(map(_venue_text, row.coin.venues))
    return (
        f'{line_start(row, folder)}<td data-head="Venues">{escape(venues)}</td>'
        f'<td data-head="Open interest">{escape(interest_text(coin))}</td>{result_cells(coin)}</tr>'
    )


def result_cells(coin: CrossCoin) -> str:
    """The cells of the weighted rate and of the widest spread."""
    tint = "" if coin.funding_8h_pct is None else f' class="{funding_tint(coin.funding_8h_pct)}"'
    venues = "" if coin.spread is None else f' <span class="quiet">{spread_venues(coin)}</span>'
    return (
        f'<td data-head="Weighted per 8{NBSP}h"{tint}>{escape(funding_text(coin))}</td>'
        f'<td data-head="Widest spread">{spread_text(coin)}{venues}</td>'
    )


def line_start(row: CrossRow, folder: str) -> str:
    """The start of a coin's row, with its name and the data to sort and search by."""
    name, names = str(escape(row.coin.asset)), " ".join(dict.fromkeys(_names(row.coin)))
    numbers = " ".join("" if each is None else repr(each) for each in row.numbers)
    more = f' data-names="{names}"' if names else ""
    has_page = re.fullmatch(NAME_PATTERN, row.coin.asset) is not None
    linked = f'<a href="{folder}{name}">{name}</a>' if has_page else name
    return f'<tr data-values="{numbers}"{more}><th scope="row">{linked}</th>'


def titles_of(venues: Iterable[str]) -> str:
    """The names of venues, each once."""
    return ", ".join(dict.fromkeys(VENUES[each].title for each in venues))


def _venue_text(each: CrossVenue) -> str:
    title = VENUES[each.venue].title
    return title if each.state == "ok" else f"{title} ({each.state})"


def interest_text(coin: CrossCoin) -> str:
    """Open interest at all venues, or which venue is missing."""
    return _or_missing(coin.open_interest_missing, coin.open_interest_usd, usd)


def funding_text(coin: CrossCoin) -> str:
    """Weighted funding, or which venue is missing."""
    return _or_missing(coin.funding_missing, coin.funding_8h_pct, rate)


def spread_text(coin: CrossCoin) -> str:
    """The widest spread; it needs two venues."""
    if coin.spread is None:
        return "—"
    return f"{coin.spread.pct_8h:.4f}{NBSP}%" if coin.spread.pct_8h >= SAME_RATE else "none"


def spread_venues(coin: CrossCoin) -> str:
    """Which venue has the highest rate, and which the lowest; empty if they are the same."""
    if coin.spread is None or coin.spread.pct_8h < SAME_RATE:
        return ""
    return f"{VENUES[coin.spread.highest].title} over {VENUES[coin.spread.lowest].title}"


def _or_missing(
    missing: Sequence[Missing], value: float | None, write: Callable[[float], str]
) -> str:
    if missing:
        names = titles_of(each.venue for each in missing)
        return f"unavailable: {names} {'is' if ',' not in names else 'are'} missing"
    return "—" if value is None else write(value)


def _numbers(coin: CrossCoin, rank: int) -> tuple[float | None, ...]:
    spread = None if coin.spread is None else coin.spread.pct_8h
    return rank, coin.open_interest_usd, coin.funding_8h_pct, spread


def entries_at(coin: CrossCoin, venue: str) -> list[CrossVenue]:
    """The contracts of a coin at a venue, the largest open interest first."""
    found = [each for each in coin.venues if each.venue == venue]
    return sorted(found, key=lambda each: -(each.interest_usd or 0.0)) if found[1:] else found


def _rate_at(coin: CrossCoin, venue: str) -> float | None:
    """The funding of the largest contract, unless it is another asset's."""
    rates = (each.funding_8h_pct for each in entries_at(coin, venue) if each.state in COMPARABLE)
    return next((each for each in rates if each is not None), None)


def _names(coin: CrossCoin) -> Sequence[str]:
    known = (each.contract for each in coin.venues if each.contract is not None)
    return [name for each in known for name in names_of(each)]


COMPLETENESS = {
    "all": "all of them",
    "largest per second": "only the largest per second and contract, so a sum is a lower bound",
    "incomplete": "some of them, so a sum is a lower bound",
    "none": "not published",
}
"""Which liquidations a venue publishes."""


class VenueRow(NamedTuple):
    """One coin at one venue, as the page shows it."""

    entry: CrossVenue
    facts: VenueFacts
    weight_pct: float | None

    @property
    def interest_at(self) -> int | None:
        """When the open interest was counted."""
        each, contract = self.entry, self.entry.contract
        if contract is None or each.interest_usd is None:
            return None
        return each.as_of if contract.open_interest_at is None else contract.open_interest_at

    @property
    def liquidations(self) -> tuple[str, str]:
        """The liquidations of 24 hours, and how complete they are."""
        kind, seen = self.facts.venue.liquidations, self.entry.liquidated_usd
        if kind == "none":
            return "not published", ""
        published = f"The venue publishes {COMPLETENESS[kind]}."
        if seen is None:
            return "unknown: we covered too little of the 24 hours", published
        bound = "" if kind == "all" else "at least "
        return f"{bound}{usd(seen[0])} long, {usd(seen[1])} short", published


class CoinFacts(NamedTuple):
    """The fresh comparison of one coin."""

    coin: CrossCoin
    rows: Sequence[VenueRow]
    market: CrossMarket
    sources: str
    citation: str

    @property
    def left_out(self) -> dict[str, str]:
        """Why a venue doesn't count, or not in all results, by its name and state."""
        found: dict[str, tuple[str, str | None]] = {
            row.entry.venue: (row.entry.state, row.entry.reason)
            for row in self.rows
            if row.entry.state != "ok"
        }
        for each in self.coin.open_interest_missing:
            found.setdefault(each.venue, ("not in the total", each.reason))
        return {f"{VENUES[name].title} ({kind})": why or "" for name, (kind, why) in found.items()}


def coin_facts(market: CrossMarket, coin: CrossCoin) -> CoinFacts:
    """Collect one coin, with a row for every configured venue."""
    listed = {each.venue for each in coin.venues}
    absent = [
        CrossVenue(name, "not listed", "it does not list this coin")
        for name in market.facts
        if name not in listed
    ]
    weights = [*coin.weights, *(None for _ in absent)]
    rows = [
        VenueRow(each, market.facts[each.venue], weight)
        for each, weight in zip([*coin.venues, *absent], weights, strict=True)
    ]
    sources = "; ".join(each.source for each in market.fresh)
    citation = (
        f"{SITE_NAME}, {coin.asset} at {titles_of(each.venue for each in market.fresh)} as of "
        f"{utc_text(market.as_of)}. Sources: {sources}. {NOTICE}"
    )
    return CoinFacts(coin, rows, market, sources, citation)


class VenueCard(NamedTuple):
    """A configured venue."""

    entry: VenueEntry
    facts: VenueFacts

    @property
    def gives(self) -> list[tuple[str, str]]:
        """What it publishes and what it does not, by name."""
        each = self.entry
        liquidations = COMPLETENESS[each.liquidations]
        kind = each.liquidationPriceKind
        return [
            ("Price", f"{each.priceKind} price in {each.quote}"),
            ("Open interest", f"counts {each.openInterestCounting}"),
            ("Liquidations", liquidations if kind is None else f"{liquidations}; {kind} price"),
            ("Long accounts", "published" if each.longAccounts else "not published"),
        ]

    @property
    def state(self) -> str:
        """Its state, or `disputed` if only some of its numbers are."""
        is_disputed = self.entry.state == "ok" and self.entry.disputed
        return "disputed" if is_disputed else self.entry.state
