"""The table of `/markets` (pure): which rows, with which numbers, in which order, as HTML.

A row is a coin at all venues (`coin_table.py`), or a perpetual of one venue.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple

from markupsafe import Markup, escape
from msgspec.structs import replace

from barograph.kit.text import HUNDRED, NBSP, coverage, price, usd
from barograph.markets.cross_coins import CrossCoin
from barograph.markets.cross_entries import Missing, Total
from barograph.markets.perpetuals import day_change, liquidated_day, week_change
from barograph.markets.regime import EDGES_PCT
from barograph.markets.symbols import joined_names, spelled_names
from barograph.markets.view import MarketView
from barograph.site.charts.small import sparkline
from barograph.site.coin_text import missing_rates, missing_text, short_missing, tinted_funding
from barograph.site.market_facts import missing_liquidations, missing_shares, price_heading
from barograph.site.paths import coin_page
from barograph.site.table_query import Column, TableQuery
from barograph.site.templating import INTEREST_MOVES_PCT, funding_tint
from barograph.venues.records import Frame, Perpetual
from barograph.venues.registry import VENUES

Week = tuple[float | None, ...]
"""The prices of seven days, oldest first; empty if nothing is recorded."""


def columns_of(venue: str) -> tuple[Column, ...]:
    """The columns of a venue's table, each with what it means."""
    columns = (
        ("symbol", "Symbol", "The base asset of the contract"),
        ("price", price_heading(venue), "1000PEPE is priced per 1,000 coins"),
        ("change", "24_h_%", "Change of the price in 24 hours"),
        ("funding", "Funding_% per_8_h", "Per 8 hours; beside it, the contract's own interval"),
        ("open-interest", "Open interest", "In USD, one-sided"),
        ("interest-change", "OI 24_h_% in_coins", "Change in 24 hours: price moves don't count"),
        ("week", "7_days_%", "Change of the price in 7 days"),
        ("liquidations", "Liquidated 24_h long,_short", "In USD; sorts by the total"),
        ("long-accounts", "Long accounts_%", "Share of accounts that are net long"),
    )
    return written_columns(columns)


def written_columns(columns: Iterable[tuple[str, str, str]]) -> tuple[Column, ...]:
    """Columns by the name to sort by, heading and meaning; `_` is a space that doesn't break."""
    return tuple(Column(sort, words.replace("_", NBSP), title) for sort, words, title in columns)


SORTS = (*(column.sort for column in columns_of("bybit")), "volume")
NUMBERS = SORTS[1:]
"""The sortable numbers of a row, in this order."""


class MarketsQuery(TableQuery, frozen=True):
    """Which perpetuals to list, and in which order."""

    sort: str = "open-interest"
    crowd: str = ""
    interest: str = ""
    least: str = ""
    """The least open interest in millions of USD."""

    venue: str = ""
    """Whose perpetuals to list; empty for the coins of all venues."""

    sorts: ClassVar[tuple[str, ...]] = SORTS
    limits: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "crowd": ("long", "short"),
        "interest": ("rising", "falling"),
        "least": ("10", "100"),
        "venue": tuple(VENUES),
    }

    @property
    def filters(self) -> "MarketsQuery":
        """The same without order and search, which a script does in the browser."""
        return replace(MarketsQuery(), **{name: getattr(self, name) for name in self.limits})


class Filter(NamedTuple):
    """A link that limits the table, or lifts the limit if it is on."""

    name: str
    rule: str
    field: str
    value: str
    measure: str
    edge: float
    """The measure is at least this, or at most if it is negative."""

    def is_on(self, query: MarketsQuery) -> bool:
        """Whether a query has it."""
        return bool(getattr(query, self.field) == self.value)

    def toggled(self, query: MarketsQuery) -> MarketsQuery:
        """Where its link leads from a query."""
        return query.limited(**{self.field: "" if self.is_on(query) else self.value})

    def passes(self, row: "MarketRow") -> bool:
        """Whether it lets a row through; an unknown number doesn't pass."""
        number, edge = row.number(self.measure), self.edge
        return number is not None and (number >= edge if edge > 0 else number <= edge)


def _filters() -> Iterable[Filter]:
    for crowd, least, edge in (("long", "least", EDGES_PCT[-1]), ("short", "most", EDGES_PCT[0])):
        rule = f"Funding of at {least} {edge:+g} % per 8 h"
        yield Filter(f"Crowded {crowd}", rule, "crowd", crowd, "funding", edge)
    edge = INTEREST_MOVES_PCT
    for way, side, sign in (("rising", "above", 1), ("falling", "below", -1)):
        rule = f"Open interest in coins at least {edge:g} % {side} that of 24 h ago"
        yield Filter(f"OI {way}", rule, "interest", way, "interest-change", sign * edge)
    for millions in MarketsQuery.limits["least"]:
        rule = f"Open interest of at least ${millions}M"
        name = f"OI ≥ ${millions}M"
        yield Filter(name, rule, "least", millions, "open-interest", float(millions) * 1e6)


FILTERS = tuple(_filters())


class Tags(NamedTuple):
    """What is beside the numbers of a row."""

    price: str = ""
    funding: str = ""
    coin: CrossCoin | None = None
    """What is known and what is missing; the row is sorted by both together."""


class MarketRow(NamedTuple):
    """One live perpetual, or one coin."""

    name: str
    contract: str
    """The full name, which is unique in the table and can be searched."""

    spelled: Sequence[str]
    """The names of its coin as people write them."""

    path: str | None
    """Its page; None if it has none."""

    numbers: tuple[float | None, ...]
    """In the order of `NUMBERS`."""

    liquidated: tuple[float, float] | None
    """Longs and shorts in USD in 24 hours."""

    week: Week
    tags: Tags
    sampled_at: int | None = None
    """When the long accounts were sampled."""

    def number(self, sort: str) -> float | None:
        """The number to sort by."""
        return self.numbers[NUMBERS.index(sort)]

    def is_found(self, query: MarketsQuery) -> bool:
        """Whether the search finds it."""
        return query.finds(self.name, (self.contract.upper(), *joined_names(self.spelled)))


class MarketTable(NamedTuple):
    """All live perpetuals of one market reading, or all coins."""

    columns: Sequence[Column]
    suffix: str
    """What full names usually add to a name."""

    as_of: int
    source: str
    reading_until: int
    """When the first reading expires."""

    rows: tuple[MarketRow, ...]
    until: int
    notes: tuple[str, ...]
    """What is missing and why, and how complete the liquidations are."""

    is_complete: bool
    """Whether recorded prices could be read."""

    missing: str = ""
    """The venues that totals are without."""

    is_partial: bool = False
    """Whether one of them is missing as a whole."""

    def select(self, query: MarketsQuery) -> list[MarketRow]:
        """The matching rows in order."""
        on = [limit for limit in FILTERS if limit.is_on(query)]
        return query.arrange(
            (row for row in self.rows if row.is_found(query) and all(f.passes(row) for f in on)),
            name=lambda row: (row.name.upper(), row.contract),
            number=lambda row: row.number(query.sort),
        )

    def unknown(self, query: MarketsQuery) -> int:
        """How many rows may match or not: a number that a filter needs is unknown."""
        on = [limit for limit in FILTERS if limit.is_on(query)]
        may = [
            [limit.passes(row) or row.number(limit.measure) is None for limit in on]
            for row in self.rows
            if row.is_found(query) and not all(limit.passes(row) for limit in on)
        ]
        return sum(all(possible) for possible in may)


def market_rows(
    view: MarketView,
    contracts: Iterable[Perpetual],
    weeks: Mapping[str, Week] | None,
    week_ago: Frame | None = None,
    venue: str = "",
) -> list[MarketRow]:
    """Collect the fresh data about some perpetuals; None for what can't be read.

    They lead to the pages of their coins at `venue`, or at all venues if it is empty.
    """
    rows = []
    for contract in contracts:
        path = coin_page(contract.asset, venue)
        week = (weeks or {}).get(contract.contract, ())
        rows.append(_row(view, contract, week, week_ago, path))
    return rows


def market_table(view: MarketView, rows: Sequence[MarketRow], *, has_weeks: bool) -> MarketTable:
    """The table of all perpetuals."""
    sampled = (row.sampled_at for row in rows)
    until = view.until if view.liquidations is None else view.liquidations_until
    oldest = min((at for at in sampled if at is not None), default=None)
    if oldest is not None:
        until = min(until, oldest + view.limits.long_accounts)
    notes = tuple(_notes(view, rows, has_weeks=has_weeks))
    reading = view.perpetuals
    venue = VENUES[reading.venue]
    return MarketTable(
        columns_of(venue.name),
        venue.suffix,
        reading.as_of,
        reading.source,
        view.until,
        tuple(rows),
        until,
        notes,
        has_weeks,
    )


def _row(
    view: MarketView, perpetual: Perpetual, week: Week, week_ago: Frame | None, path: str | None
) -> MarketRow:
    share, change = view.share(perpetual.contract), day_change(view, perpetual)
    liquidated = liquidated_day(view, perpetual.contract)
    numbers = (
        perpetual.last_price,
        change.price_pct,
        perpetual.funding_8h_pct,
        perpetual.open_interest_usd,
        change.open_interest_coins_pct,
        week_change(view, week_ago, perpetual),
        None if liquidated is None else sum(liquidated),
        None if share is None else share.long_account_pct,
        perpetual.volume_24h_usd,
    )
    return MarketRow(
        perpetual.base,
        perpetual.contract,
        spelled_names(perpetual),
        path,
        numbers,
        liquidated,
        week,
        Tags(funding=f"{perpetual.funding_interval_hours:g}h"),
        None if share is None else share.sampled_at,
    )


def _notes(view: MarketView, rows: Sequence[MarketRow], *, has_weeks: bool) -> Iterable[str]:
    if view.lacks_long_accounts:
        yield f"Long accounts are {missing_shares(view)}."
    if view.liquidations is None:
        yield f"Liquidations are unknown: {missing_liquidations(view)}."
    else:
        covered = coverage(view.liquidations.watched_pct)
        yield f"We covered liquidations for {covered} of the last 24 hours."
    if not any(row.number("change") is not None for row in rows):
        yield "24-hour changes are unknown: we have no reading from 24 hours ago."
    if has_weeks and not any(row.number("week") is not None for row in rows):
        yield "7-day changes are unknown: we have no reading from 7 days ago."
    if not has_weeks:
        yield "The 7-day column is empty, because recorded prices are temporarily unavailable."


_KEPT = 4_096
"""Enough for every contract of five venues."""

_DASH = '<td class="unknown">—</td>'
_MULTIPLIER = re.compile(r"(?<=000)(?=[A-Z])|(?<=[A-Z])(?=1000)")


def ranks_of(rows: Sequence[MarketRow]) -> dict[str, str]:
    """For each contract its rank in every number of `NUMBERS`, empty for what is unknown.

    A script sorts by them. They are exact, and much shorter than the numbers.
    """
    columns = [_ranks(numbers) for numbers in zip(*(row.numbers for row in rows), strict=True)]
    names = (row.contract for row in rows)
    return dict(zip(names, map(" ".join, zip(*columns, strict=True)), strict=True))


def _ranks(numbers: Sequence[float | None]) -> list[str]:
    distinct = sorted({number for number in numbers if number is not None})
    rank: dict[float | None, str] = {number: str(at) for at, number in enumerate(distinct)}
    return [rank.get(number, "") for number in numbers]


def table_rows(
    table: MarketTable, rows: Iterable[MarketRow], root: str, ranks: Mapping[str, str]
) -> Markup:
    """Rows of the table, without a template, which would be too slow for so many.

    Cells have no attributes that CSS can do without: there are thousands of them. A full name is
    left out if it is the name with the suffix, as usual at the venue.
    """
    start, suffix, last = str(escape(root)), table.suffix, table.columns[-1].sort
    lines = (_line(row, start, suffix, ranks[row.contract], last) for row in rows)
    # Safe: names are escaped, and everything else is numbers.
    return Markup("\n".join(lines))  # noqa: S704


def _line(row: MarketRow, root: str, suffix: str, ranks: str, last: str) -> str:
    level, change, funding, interest, interest_change, week, _, long, volume = row.numbers
    known = f' data-names="{" ".join(joined_names(row.spelled))}"' if row.spelled else ""
    if row.contract != row.name + suffix:
        known += f' data-contract="{escape(row.contract)}"'
    title = f' title="{row.spelled[0]}"' if row.spelled else ""
    # A name breaks only between its multiplier and the coin.
    name = _MULTIPLIER.sub("<wbr>", str(escape(row.name)))
    if row.path is not None:
        name = f'<a href="{root}{row.path}"{title}>{name}</a>'
    tags, coin = row.tags, row.tags.coin
    live, tinted, beside = funding, funding, _beside(tags.funding)
    if coin is not None:  # quiet words can't be read on a tint
        live, tinted = coin.funding_8h_pct, tinted_funding(coin)
        lacks = missing_rates(coin)
        beside = f'<i title="{lacks}">partial</i>' if lacks else ""
    tint = "" if tinted is None else f' class="{funding_tint(tinted)}"'
    interest_cell = _sum(interest, None if coin is None else coin.open_interest)
    turnover = _sum(volume, None if coin is None else coin.volume)
    final = turnover if last == "volume" else _cell(long, "{:.1f}".format)
    return (
        f'<tr data-values="{ranks}"{known}><th scope="row">{name}</th>'
        f"{_cell(level, price, _beside(tags.price))}{_change(change, 2)}"
        f"{_cell(live, _RATE, beside, tint)}"
        f"{interest_cell}{_change(interest_change, 1)}"
        f"<td>{'—' if week is None else f'{week:+z.1f}'}{_spark(row.week)}</td>"
        f"{_sides(row.liquidated)}{final}</tr>"
    )


_RATE: Callable[[float], str] = "{:+z.4f}".format


def _beside(tag: str) -> str:
    return f"<i>{tag}</i>" if tag else ""


def _sum(number: float | None, total: Total | None) -> str:
    return (
        _cell(number, usd)
        if total is None
        else _cell(total.usd, usd, _lack(total.usd, total.missing))
    )


def _lack(result: float | None, missing: Sequence[Missing]) -> str:
    text = missing_text(result, missing)
    return (
        f'<i class="missing" title="{text}">{short_missing(missing, short_usd)}</i>' if text else ""
    )


def _cell(
    value: float | None, write: Callable[[float], str], tag: str = "", attribute: str = ""
) -> str:
    if value is None:
        return f'<td class="unknown">—{tag}</td>' if tag else _DASH
    return f"<td{attribute}>{write(value)}{tag}</td>"


def _change(percent: float | None, decimals: int) -> str:
    if percent is None:
        return _DASH
    text = f"{percent:+z.{decimals}f}"  # coloured as it is rounded
    return f'<td class="down">{text}</td>' if text[0] == "-" else f"<td>{text}</td>"


def _sides(liquidated: tuple[float, float] | None) -> str:
    if liquidated is None:
        return _DASH
    longs, shorts = map(short_usd, liquidated)
    return f"<td>{longs}<i>{shorts}</i></td>"


@lru_cache(maxsize=_KEPT)
def short_usd(amount: float) -> str:
    """An amount with three digits, such as `$950`, `$1.23M` or `$45.6k`."""
    text = usd(float(f"{amount:.3g}"))
    if text[-1].isdigit():
        return text
    number = float(text[1:-1])
    decimals = 2 - (number >= 10) - (number >= HUNDRED)  # noqa: PLR2004
    return f"${number:.{decimals}f}{text[-1]}"


@lru_cache(maxsize=_KEPT)
def _spark(week: Week) -> str:
    return sparkline(week, (50, 16), every=4)
