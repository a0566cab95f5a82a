"""The table of `/markets` (pure): which perpetuals, in which order, as HTML and as CSV."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter
from typing import Literal, NamedTuple, get_args
from urllib.parse import urlencode

from markupsafe import Markup, escape

from barograph.kit.csv_table import cells
from barograph.kit.text import HUNDRED, usd
from barograph.kit.text import price as price_text
from barograph.kit.timestamps import iso_timestamp
from barograph.markets.aliases import names_of, spelled_names
from barograph.markets.perpetuals import day_change, liquidated_day
from barograph.markets.records import Perpetual
from barograph.markets.regime import EDGES_PCT
from barograph.markets.symbols import MAX_LENGTH, symbol_of
from barograph.markets.venues import VENUES
from barograph.markets.view import MarketView
from barograph.site.market_pages import (
    missing_liquidations,
    missing_shares,
    price_heading,
    week_change,
)
from barograph.site.paths import MARKETS_FOLDER
from barograph.site.tints import funding_tint

Sort = Literal[
    "symbol",
    "price",
    "change",
    "funding",
    "open-interest",
    "interest-change",
    "week",
    "liquidations",
    "long-accounts",
]
Order = Literal["asc", "desc"]
Crowd = Literal["", "long", "short"]
Interest = Literal["", "rising", "falling"]
SORTS: tuple[Sort, ...] = get_args(Sort)
NUMBERS = SORTS[1:]
"""The sortable numbers of a row, in this order."""

INTEREST_MOVES_PCT = 1.0
"""From this change in 24 hours on, open interest counts as rising or falling."""

Week = tuple[float | None, ...]
"""The prices of seven days, oldest first; empty if nothing is recorded."""


class Column(NamedTuple):
    """A column of the table."""

    sort: Sort
    heading: str
    title: str


def columns_of(venue: str) -> tuple[Column, ...]:
    """The columns, each with what it means."""
    _ = "\u00a0"  # units stay with their numbers
    return (
        Column("symbol", "Symbol", "The base asset of the contract"),
        Column("price", price_heading(venue), "1000PEPE is priced per 1,000 coins"),
        Column("change", f"24{_}h{_}%", "Change of the price in 24 hours"),
        Column(
            "funding",
            f"Funding{_}% per{_}8{_}h",
            "Per 8 hours; beside it, the contract's own interval",
        ),
        Column("open-interest", "Open interest", "In USD, one-sided"),
        Column("interest-change", f"OI 24{_}h{_}%", "Change of the USD value in 24 hours"),
        Column("week", f"7{_}days{_}%", "Change of the price in 7 days"),
        Column(
            "liquidations", f"Liquidated 24{_}h", "Longs, then shorts, in USD; sorts by the total"
        ),
        Column("long-accounts", f"Long accounts{_}%", "Share of accounts that are net long"),
    )


def default_order(sort: Sort) -> Order:
    """Symbols ascend, numbers descend."""
    return "asc" if sort == "symbol" else "desc"


class MarketsQuery(NamedTuple):
    """Which perpetuals to list, and in which order."""

    sort: Sort = "open-interest"
    order: Order = "desc"
    search: str = ""
    crowd: Crowd = ""
    interest: Interest = ""
    symbols: frozenset[str] | None = None
    """Only these, from a visitor's own list; None for all."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "MarketsQuery":
        """Read a query string; unknown values count as absent."""
        sort = next((each for each in SORTS if each == given.get("sort")), cls().sort)
        order: Order = default_order(sort)
        if given.get("order") in get_args(Order):
            order = "asc" if given["order"] == "asc" else "desc"
        text = "".join(each for each in given.get("q", "") if each.isprintable())
        return cls(
            sort,
            order,
            text.strip()[:MAX_LENGTH].rstrip(),
            next((each for each in get_args(Crowd) if each == given.get("crowd")), ""),
            next((each for each in get_args(Interest) if each == given.get("interest")), ""),
        )

    @property
    def text(self) -> str:
        """The canonical query string; `symbols` are not part of it."""
        fields: dict[str, str] = {}
        if self[:2] != MarketsQuery()[:2]:
            fields |= {"sort": self.sort, "order": self.order}
        fields |= {"q": self.search, "crowd": self.crowd, "interest": self.interest}
        return urlencode({name: value for name, value in fields.items() if value})

    @property
    def filters(self) -> "MarketsQuery":
        """The same without order and search, which a script does in the browser."""
        return MarketsQuery(crowd=self.crowd, interest=self.interest)

    def sorted_by(self, sort: Sort) -> "MarketsQuery":
        """What a column heading links to: sort by it, or reverse the order if it is sorted."""
        order = default_order(sort)
        if sort == self.sort:
            order = "desc" if self.order == "asc" else "asc"
        return self._replace(sort=sort, order=order)


class Filter(NamedTuple):
    """A link that limits the table, or lifts the limit if it is on."""

    name: str
    rule: str
    query: MarketsQuery
    is_on: bool


def filters_of(query: MarketsQuery) -> list[Filter]:
    """The filters, with what each leads to from a query."""
    low, high = EDGES_PCT[0], EDGES_PCT[-1]
    found: list[Filter] = []
    crowds: dict[Crowd, str] = {"long": f"at least {high:+g} %", "short": f"at most {low:+g} %"}
    for crowd, edge in crowds.items():
        is_on, rule = query.crowd == crowd, f"Funding of {edge} per 8 h"
        to = query._replace(crowd="" if is_on else crowd)
        found.append(Filter(f"Crowded {crowd}", rule, to, is_on))
    moves: dict[Interest, str] = {"rising": "above", "falling": "below"}
    for interest, side in moves.items():
        is_on = query.interest == interest
        rule = f"Open interest in USD at least {INTEREST_MOVES_PCT:g} % {side} that of 24 h ago"
        to = query._replace(interest="" if is_on else interest)
        found.append(Filter(f"OI {interest}", rule, to, is_on))
    return found


class MarketRow(NamedTuple):
    """One live perpetual."""

    perpetual: Perpetual
    symbol: str | None
    """The symbol of its page; None if it has none."""

    numbers: tuple[float | None, ...]
    """In the order of `NUMBERS`."""

    liquidated: tuple[float, float] | None
    """Longs and shorts in USD in 24 hours."""

    week: Week
    sampled_at: int | None
    """When the long accounts were sampled."""

    def number(self, sort: Sort) -> float | None:
        """The number to sort by."""
        return self.numbers[NUMBERS.index(sort)]

    def passes(self, query: MarketsQuery) -> bool:
        """Whether the filters of a query let it through; an unknown number doesn't."""
        funding = self.perpetual.funding_8h_pct
        change = self.number("interest-change")
        if query.crowd and not (
            funding >= EDGES_PCT[-1] if query.crowd == "long" else funding <= EDGES_PCT[0]
        ):
            return False
        if query.interest and (
            change is None
            or (change if query.interest == "rising" else -change) < INTEREST_MOVES_PCT
        ):
            return False
        return query.symbols is None or self.symbol in query.symbols


class MarketTable(NamedTuple):
    """All live perpetuals of one market reading."""

    as_of: int
    source: str
    until: int
    reading_until: int
    rows: tuple[MarketRow, ...]
    venue: str
    notes: tuple[str, ...]
    """What is missing and why, and how complete the liquidations are."""

    is_complete: bool
    """Whether recorded prices could be read."""

    def select(self, query: MarketsQuery) -> list[MarketRow]:
        """The matching rows in order; unknown numbers come last in either order."""
        wanted = searched_name(query.search)
        found = [row for row in self.rows if row.passes(query) and _matches(row.perpetual, wanted)]
        found.sort(key=_by_symbol, reverse=(query.sort, query.order) == ("symbol", "desc"))
        if query.sort == "symbol":
            return found
        numbers = [(row.number(query.sort), row) for row in found]
        known = [(number, row) for number, row in numbers if number is not None]
        known.sort(key=itemgetter(0), reverse=query.order == "desc")
        return [*(row for _, row in known), *(row for number, row in numbers if number is None)]


def market_rows(
    view: MarketView, contracts: Iterable[Perpetual], weeks: Mapping[str, Week] | None
) -> list[MarketRow]:
    """Collect the fresh data about some perpetuals; `weeks` is None if it can't be read."""
    known = weeks or {}
    return [_row(view, each, known.get(each.contract, ())) for each in contracts]


def market_table(view: MarketView, rows: Sequence[MarketRow], *, has_weeks: bool) -> MarketTable:
    """The table of all perpetuals."""
    reading, sampled = view.perpetuals, (row.sampled_at for row in rows)
    until = view.until if view.liquidations is None else view.liquidations_until
    oldest = min((each for each in sampled if each is not None), default=None)
    if oldest is not None:
        until = min(until, oldest + view.limits.long_accounts)
    notes = tuple(_notes(view, rows, has_weeks=has_weeks))
    return MarketTable(
        *(reading.as_of, reading.source, until, view.until, tuple(rows), reading.venue),
        *(notes, has_weeks),
    )


def _row(view: MarketView, each: Perpetual, week: Week) -> MarketRow:
    share, change = view.share(each.contract), day_change(view, each)
    liquidated = liquidated_day(view, each.contract)
    numbers = (
        each.last_price,
        change.price_pct,
        each.funding_8h_pct,
        each.open_interest_usd,
        change.open_interest_pct,
        week_change(each.last_price, week),
        None if liquidated is None else sum(liquidated),
        None if share is None else share.long_account_pct,
    )
    sampled_at = None if share is None else share.sampled_at
    return MarketRow(each, symbol_of(view.by_name, each), numbers, liquidated, week, sampled_at)


def _notes(view: MarketView, rows: Sequence[MarketRow], *, has_weeks: bool) -> Iterable[str]:
    if view.lacks_long_accounts:
        yield f"Long accounts are {missing_shares(view)}."
    if view.liquidations is None:
        yield f"Liquidations are unknown: {missing_liquidations(view)}."
    else:
        covered = view.liquidations.watched_pct
        yield f"Liquidations cover {covered:.4g} % of the last 24 hours."
    if not any(row.number("change") is not None for row in rows):
        yield "24-hour changes are unknown: we have no record from 24 hours ago."
    if not has_weeks:
        yield "The 7-day column is empty, because recorded prices are temporarily unavailable."


def ranks_of(rows: Sequence[MarketRow]) -> dict[str, str]:
    """For each contract its rank in every number of `NUMBERS`, empty for what is unknown.

    A script sorts by them. They are exact, and much shorter than the numbers.
    """
    columns: list[list[str]] = []
    for place in range(len(NUMBERS)):
        numbers = [row.numbers[place] for row in rows]
        distinct = sorted({each for each in numbers if each is not None})
        rank: dict[float | None, str] = {each: str(at) for at, each in enumerate(distinct)}
        columns.append([rank.get(each, "") for each in numbers])
    return {
        row.perpetual.contract: " ".join(each)
        for row, each in zip(rows, zip(*columns, strict=True), strict=True)
    }


def table_rows(
    rows: Iterable[MarketRow], root: str, venue: str, ranks: Mapping[str, str]
) -> Markup:
    """Rows of the table, without a template, which would be too slow for so many.

    Cells have no attributes that CSS can do without: there are thousands of them. A full name is
    left out if it is the symbol with the venue's usual suffix.
    """
    folder, suffix = str(escape(f"{root}{MARKETS_FOLDER}")), VENUES[venue].suffix
    lines = (_line(row, folder, suffix, ranks[row.perpetual.contract]) for row in rows)
    # Safe: names are escaped, and everything else is numbers.
    return Markup("\n".join(lines))  # noqa: S704


def _line(row: MarketRow, folder: str, suffix: str, ranks: str) -> str:
    each = row.perpetual
    base, known = str(escape(each.base)), ""
    names = spelled_names(each)
    if each.contract != each.base + suffix:
        known = f' data-contract="{escape(each.contract)}"'
    if names:
        known += f' data-names="{" ".join(names_of(each))}"'
    title = f' title="{names[0]}"' if names else ""
    name = base if row.symbol is None else f'<a href="{folder}{row.symbol}"{title}>{base}</a>'
    _, change, _, interest, interest_change, week, _, share = row.numbers
    funding = each.funding_8h_pct
    held = _DASH if interest is None else f"<td>{usd(interest)}</td>"
    long = _DASH if share is None else f"<td>{share:.1f}</td>"
    return (
        f'<tr data-values="{ranks}"{known}><th scope="row">{name}</th>'
        f"<td>{price_text(each.last_price)}</td>{_change(change, 2)}"
        f'<td class="{funding_tint(funding)}">{funding:+.4f}'
        f"<i>{each.funding_interval_hours:g}h</i></td>"
        f"{held}{_change(interest_change, 1)}"
        f"<td>{_DASH_TEXT if week is None else f'{week:+z.1f}'}{_spark(row.week)}</td>"
        f"{_sides(row.liquidated)}{long}</tr>"
    )


def _change(percent: float | None, decimals: int) -> str:
    if percent is None:
        return _DASH
    way = ' class="down"' if percent < 0 else ""
    return f"<td{way}>{percent:+z.{decimals}f}</td>"


def _sides(liquidated: tuple[float, float] | None) -> str:
    if liquidated is None:
        return _DASH
    longs, shorts = map(short_usd, liquidated)
    return f"<td>{longs}<i>{shorts}</i></td>"


@lru_cache(maxsize=4_096)
def short_usd(amount: float) -> str:
    """An amount with three digits, such as `$950`, `$1.23M` or `$45.6k`."""
    text = usd(amount)
    if text[-1].isdigit():
        return text
    number = float(text[1:-1])
    decimals = 2 - (number >= 10) - (number >= HUNDRED)  # noqa: PLR2004
    return f"${number:.{decimals}f}{text[-1]}"


_EVERY, _STEP, _HEIGHT = 4, 5, 16
"""Every fourth price, the newest included, so many pixels apart, in a line so high."""


@lru_cache(maxsize=4_096)
def _spark(week: Week) -> str:
    """A line through the prices of a week, as short as it can be written."""
    known = [each for each in week if each is not None]
    if len(known) < 2:  # noqa: PLR2004 - a line has two ends
        return ""
    low, high = min(known), max(known)
    scale = _HEIGHT / (high - low) if high > low else 0.0
    points = [
        (at, 1 + round((high - price) * scale))
        for at, price in enumerate(week[::-_EVERY][::-1])
        if price is not None
    ]
    way = "down" if known[-1] < known[0] else "up"
    return f'<svg class="spark {way}"><path d="{_path(points)}"/></svg>'


def _path(points: Sequence[tuple[int, int]]) -> str:
    """Relative moves, with `m` across a gap."""
    at, y = points[0] if points else (0, 0)
    moves, pen = [f"M{at * _STEP} {y}"], ""
    for (before, above), (at, y) in pairwise(points):
        # After `l`, further pairs mean the same without the letter.
        letter = "m" if at - before > 1 else " " if pen == "l" else "l"
        pen = "m" if letter == "m" else "l"
        moves.append(f"{letter}{(at - before) * _STEP}{y - above:+d}")
    return "".join(moves)


CSV_COLUMNS = (
    "symbol,contract,lastPrice,quote,priceChange24hPct,priceChange7dPct,fundingRatePct8h,"
    "fundingRatePct,fundingIntervalHours,nextFundingTime,openInterestUsd,openInterestChange24hPct,"
    "liquidations24h_longUsd,liquidations24h_shortUsd,longAccountPct,as_of"
)


def csv_rows(rows: Iterable[MarketRow], as_of: int) -> list[str]:
    """Rows as CSV; columns are named as in `/api/v1/perpetuals.csv`."""
    read_at = iso_timestamp(as_of)
    return [_csv_row(row, read_at) for row in rows]


def _csv_row(row: MarketRow, as_of: str) -> str:
    each = row.perpetual
    price, change, funding, interest, interest_change, week, _, share = row.numbers
    longs, shorts = row.liquidated or (None, None)
    return cells(
        (
            *(row.symbol or each.base, each.contract, price, each.quote, change, week, funding),
            *(each.funding_rate_pct, each.funding_interval_hours),
            *(each.next_funding_time, interest, interest_change),
            *(longs, shorts, share, as_of),
        )
    )


def searched_name(text: str) -> str:
    """What a search looks for: `BTC/USDT` and `bitcoin cash` mean names without separators."""
    return _SEPARATORS.sub("", text).upper()


def _matches(perpetual: Perpetual, wanted: str) -> bool:
    """By a part of the symbol or the start of a full name, since all full names end alike."""
    if wanted in perpetual.base.upper():
        return True
    names = (perpetual.contract.upper(), *names_of(perpetual))
    return any(name.startswith(wanted) for name in names)


def _by_symbol(row: MarketRow) -> tuple[str, str]:
    return row.perpetual.base.upper(), row.perpetual.contract


_SEPARATORS = re.compile(r"[\s/_-]")
_DASH_TEXT = "—"
_DASH = f'<td class="unknown">{_DASH_TEXT}</td>'
