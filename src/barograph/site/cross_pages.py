"""The content of `/cross` and `/venues` (pure): every coin at all venues, one coin, the venues."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args
from urllib.parse import urlencode

from markupsafe import Markup, escape

from barograph import NOTICE
from barograph.kit.text import rate, usd
from barograph.markets.aliases import NAME_PATTERN, names_of
from barograph.markets.cross import CrossCoin, CrossMarket, CrossVenue, Missing, State, VenueFacts
from barograph.markets.cross_documents import VenueEntry
from barograph.markets.symbols import MAX_LENGTH
from barograph.site.market_table import Order, searched_name
from barograph.site.paths import CROSS_FOLDER
from barograph.site.templating import SITE_NAME, utc_text

Sort = Literal["symbol", "listed", "open-interest", "funding", "spread"]
SORTS: tuple[Sort, ...] = get_args(Sort)
NUMBERS = SORTS[1:]
"""The sortable numbers of a row, in this order; `listed` is the order of the API."""

COLUMNS: tuple[tuple[Sort | None, str], ...] = (
    ("symbol", "Coin"),
    (None, "Venues"),
    ("open-interest", "Open interest (USD)"),
    ("funding", "Weighted funding per 8 h"),
    ("spread", "Widest spread per 8 h"),
)


COMPARABLE: tuple[State, ...] = ("ok", "disputed")
"""The states of an entry whose funding is that of the coin."""

SAME_RATE = 0.00005
"""A spread below this, in percent, is shown as zero."""


class CrossQuery(NamedTuple):
    """Which coins to list, and in which order."""

    sort: str = "listed"
    """One of `SORTS`, or a venue: by the funding there."""

    order: Order = "desc"
    search: str = ""

    @classmethod
    def parse(cls, given: Mapping[str, str], venues: Iterable[str] = ()) -> "CrossQuery":
        """Read a query string; unknown values count as absent."""
        sorts = (*SORTS, *venues)
        sort = next((each for each in sorts if each == given.get("sort")), cls().sort)
        order = _default_order(sort)
        if given.get("order") in get_args(Order):
            order = "asc" if given["order"] == "asc" else "desc"
        text = "".join(each for each in given.get("q", "") if each.isprintable())
        return cls(sort, order, text.strip()[:MAX_LENGTH].rstrip())

    @property
    def text(self) -> str:
        """The canonical query string."""
        is_default = self[:2] == CrossQuery()[:2]
        fields = {} if is_default else {"sort": self.sort, "order": self.order}
        return urlencode(fields | ({"q": self.search} if self.search else {}))

    def sorted_by(self, sort: str) -> "CrossQuery":
        """What a column heading links to: sort by it, or reverse the order if it is sorted."""
        order = _default_order(sort)
        if sort == self.sort:
            order = "desc" if self.order == "asc" else "asc"
        return self._replace(sort=sort, order=order)


def _default_order(sort: str) -> Order:
    return "asc" if sort == "symbol" else "desc"


class CrossRow(NamedTuple):
    """One coin, with its numbers in the order of `NUMBERS`, and then its funding at venues."""

    coin: CrossCoin
    numbers: Sequence[float | None]


def select_rows(
    market: CrossMarket, query: CrossQuery, venues: Sequence[str] = ()
) -> list[CrossRow]:
    """The matching coins in order; unknown numbers come last in either order."""
    wanted = searched_name(query.search)
    rows = [
        CrossRow(coin, (*_numbers(coin, -rank), *(_rate_at(coin, each) for each in venues)))
        for rank, coin in enumerate(market.coins.values())
        if _matches(coin, wanted)
    ]
    is_descending = query.order == "desc"
    rows.sort(
        key=lambda row: row.coin.asset.upper(), reverse=is_descending and query.sort == "symbol"
    )
    if query.sort == "symbol":
        return rows
    names = (*NUMBERS, *venues)
    # A venue that is not read now has no numbers: the usual order.
    place = names.index(query.sort) if query.sort in names else 0
    sign = -1 if is_descending else 1
    unknown = [row for row in rows if row.numbers[place] is None]
    known = [row for row in rows if row.numbers[place] is not None]
    known.sort(key=lambda row: sign * (row.numbers[place] or 0.0))
    return [*known, *unknown]


def table_rows(rows: Iterable[CrossRow], root: str) -> Markup:
    """The body of the table, without a template, which would be too slow for so many rows."""
    folder = str(escape(f"{root}{CROSS_FOLDER}"))
    # Safe: names and reasons are escaped, and everything else is numbers.
    return Markup("\n".join(_line(row, folder) for row in rows))  # noqa: S704


def _line(row: CrossRow, folder: str) -> str:
    coin = row.coin
    return (
        f'{line_start(row, folder)}<td data-head="Venues">{escape(venues_text(coin))}</td>'
        f'<td data-head="Open interest">{escape(interest_text(coin))}</td>'
        f'<td data-head="Weighted funding per 8 h">{escape(funding_text(coin))}</td>'
        f'<td data-head="Widest spread">{escape(spread_text(coin))}</td></tr>'
    )


def line_start(row: CrossRow, folder: str) -> str:
    """The start of a coin's row, with its name and the data to sort and search by."""
    coin, values = row.coin, " ".join("" if each is None else repr(each) for each in row.numbers)
    name = str(escape(coin.asset))
    known = next((each.contract for each in coin.venues if each.contract is not None), None)
    has_page = re.fullmatch(NAME_PATTERN, coin.asset) is not None
    linked = f'<a href="{folder}{name}">{name}</a>' if has_page else name
    names = [] if known is None else names_of(known)
    more = f' data-names="{" ".join(names)}"' if names else ""
    return (
        f'<tr data-name="{name.upper()}" data-contract="{name}"{more} data-values="{values}">'
        f'<th scope="row">{linked}</th>'
    )


def venues_text(coin: CrossCoin) -> str:
    """The venues that list a coin, each with its state unless that is `ok`."""
    return ", ".join(
        each.venue if each.state == "ok" else f"{each.venue} ({each.state})" for each in coin.venues
    )


def interest_text(coin: CrossCoin) -> str:
    """Open interest at all venues, or which venue is missing."""
    return _or_missing(coin.open_interest_missing, coin.open_interest_usd, usd)


def funding_text(coin: CrossCoin) -> str:
    """Weighted funding, or which venue is missing."""
    return _or_missing(coin.funding_missing, coin.funding_8h_pct, rate)


def spread_text(coin: CrossCoin) -> str:
    """The widest spread with both venues."""
    return "—" if coin.spread is None else f"{coin.spread.pct_8h:.4f} % ({spread_venues(coin)})"


def spread_venues(coin: CrossCoin) -> str:
    """Which venue has the highest rate, and which the lowest."""
    if coin.spread is None:
        return "needs two venues"
    is_same = coin.spread.pct_8h < SAME_RATE
    return "no difference" if is_same else f"{coin.spread.highest} over {coin.spread.lowest}"


def _or_missing(
    missing: Sequence[Missing], value: float | None, write: Callable[[float], str]
) -> str:
    if missing:
        names = ", ".join(dict.fromkeys(each.venue for each in missing))
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


def _matches(coin: CrossCoin, wanted: str) -> bool:
    if wanted in coin.asset.upper():
        return True
    known = (each.contract for each in coin.venues if each.contract is not None)
    return any(name.startswith(wanted) for each in known for name in names_of(each))


class VenueRow(NamedTuple):
    """One coin at one venue, as the page shows it."""

    entry: CrossVenue
    facts: VenueFacts
    weight_pct: float | None
    interest_at: int | None

    @property
    def liquidations(self) -> str:
        """The liquidations of 24 hours, with how complete they are."""
        kind, seen = self.facts.venue.liquidations, self.entry.liquidated_usd
        if kind == "none":
            return "not published by this venue"
        if seen is None:
            return "unknown: we covered too little of the 24 hours"
        bound = "" if kind == "all" else "at least "
        return f"{bound}{usd(seen[0])} long, {usd(seen[1])} short"


class CoinFacts(NamedTuple):
    """The fresh comparison of one coin."""

    coin: CrossCoin
    rows: Sequence[VenueRow]
    as_of: int
    until: int
    sources: str
    citation: str

    @property
    def left_out(self) -> dict[str, str]:
        """Why a venue doesn't count, or not in all results, by its name and state."""
        entries = [row.entry for row in self.rows]
        found = {each.venue: (each.state, each.reason) for each in entries if each.state != "ok"}
        return {
            **{f"{name} ({state})": reason or "" for name, (state, reason) in found.items()},
            **{
                f"{each.venue} (no total)": each.reason
                for each in self.coin.open_interest_missing
                if each.venue not in found
            },
        }


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
        VenueRow(each, market.facts[each.venue], weight, _interest_at(each))
        for each, weight in zip([*coin.venues, *absent], weights, strict=True)
    ]
    sources = "; ".join(each.source for each in market.fresh)
    citation = (
        f"{SITE_NAME}, {coin.asset} at {', '.join(each.venue for each in market.fresh)} as of "
        f"{utc_text(market.as_of)}. Sources: {sources}. {NOTICE}"
    )
    return CoinFacts(coin, rows, market.as_of, market.until, sources, citation)


def _interest_at(entry: CrossVenue) -> int | None:
    if entry.contract is None or entry.interest_usd is None:
        return None
    return entry.contract.open_interest_at or entry.as_of


class VenueCard(NamedTuple):
    """A configured venue."""

    entry: VenueEntry
    facts: VenueFacts

    @property
    def gives(self) -> list[tuple[str, str]]:
        """What it publishes and what it does not, by name."""
        each = self.entry
        liquidations = {
            "all": "all of them",
            "largest per second": "only the largest per second and contract, so a sum is a lower "
            "bound",
            "incomplete": "some of them, so a sum is a lower bound",
            "none": "none",
        }[each.liquidations]
        kind = each.liquidationPriceKind
        return [
            ("Price", f"{each.priceKind} price in {each.quote}"),
            ("Open interest", f"counts {each.openInterestCounting}"),
            ("Liquidations", liquidations if kind is None else f"{liquidations}; {kind} price"),
            ("Long accounts", "published" if each.longAccounts else "not published"),
        ]

    @property
    def condition(self) -> str:
        """The class of its pill."""
        is_disputed = bool(self.entry.disputed)
        return "down" if self.entry.state != "ok" else "degraded" if is_disputed else "ok"

    @property
    def state(self) -> str:
        """Its state in words."""
        return "disputed" if self.condition == "degraded" else self.entry.state
