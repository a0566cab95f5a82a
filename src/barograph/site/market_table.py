"""The table of `/markets` (pure): which perpetuals, with which numbers, in which order."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from barograph.kit.text import NBSP, coverage
from barograph.markets.perpetuals import day_change, liquidated_day
from barograph.markets.records import Perpetual
from barograph.markets.regime import EDGES_PCT
from barograph.markets.symbols import names_of, symbol_of
from barograph.markets.view import MarketView
from barograph.site.market_pages import (
    missing_liquidations,
    missing_shares,
    price_heading,
    week_change,
)
from barograph.site.table_query import Column, TableQuery

Week = tuple[float | None, ...]
"""The prices of seven days, oldest first; empty if nothing is recorded."""

INTEREST_MOVES_PCT = 1.0
"""From this change in 24 hours on, open interest counts as rising or falling."""


def columns_of(venue: str) -> tuple[Column, ...]:
    """The columns, each with what it means."""
    columns = (
        ("symbol", "Symbol", "The base asset of the contract"),
        ("price", price_heading(venue), "1000PEPE is priced per 1,000 coins"),
        ("change", "24_h_%", "Change of the price in 24 hours"),
        ("funding", "Funding_% per_8_h", "Per 8 hours; beside it, the contract's own interval"),
        ("open-interest", "Open interest", "In USD, one-sided"),
        ("interest-change", "OI 24_h_%", "Change in coins in 24 hours: price moves don't count"),
        ("week", "7_days_%", "Change of the price in 7 days"),
        ("liquidations", "Liquidated 24_h long,_short", "In USD; sorts by the total"),
        ("long-accounts", "Long accounts_%", "Share of accounts that are net long"),
    )
    return tuple(Column(sort, words.replace("_", NBSP), title) for sort, words, title in columns)


SORTS = tuple(each.sort for each in columns_of("bybit"))
NUMBERS = SORTS[1:]
"""The sortable numbers of a row, in this order."""


@dataclass(frozen=True)
class MarketsQuery(TableQuery):
    """Which perpetuals to list, and in which order."""

    sort: str = "open-interest"
    crowd: str = ""
    interest: str = ""
    symbols: frozenset[str] | None = None
    """Only these, from a visitor's own list; None for all. They are not part of the text."""

    sorts: ClassVar[tuple[str, ...]] = SORTS
    limits: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "crowd": ("long", "short"),
        "interest": ("rising", "falling"),
    }

    @property
    def filters(self) -> "MarketsQuery":
        """The same without order and search, which a script does in the browser."""
        return MarketsQuery(crowd=self.crowd, interest=self.interest)


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


FILTERS = tuple(_filters())


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

    def number(self, sort: str) -> float | None:
        """The number to sort by."""
        return self.numbers[NUMBERS.index(sort)]

    def is_found(self, query: MarketsQuery) -> bool:
        """Whether the search finds it, and it is in the visitor's list if there is one."""
        each, only = self.perpetual, query.symbols
        names = (each.contract.upper(), *names_of(each))
        return query.finds(each.base, names) and (only is None or self.symbol in only)


class MarketTable(NamedTuple):
    """All live perpetuals of one market reading."""

    view: MarketView
    rows: tuple[MarketRow, ...]
    until: int
    notes: tuple[str, ...]
    """What is missing and why, and how complete the liquidations are."""

    is_complete: bool
    """Whether recorded prices could be read."""

    def select(self, query: MarketsQuery) -> list[MarketRow]:
        """The matching rows in order."""
        on = [each for each in FILTERS if each.is_on(query)]
        return query.arrange(
            (row for row in self.rows if row.is_found(query) and all(f.passes(row) for f in on)),
            name=lambda row: (row.perpetual.base.upper(), row.perpetual.contract),
            number=lambda row: row.number(query.sort),
        )

    def unknown(self, query: MarketsQuery) -> int:
        """How many rows may match or not: a number that a filter needs is unknown."""
        on = [each for each in FILTERS if each.is_on(query)]
        may = [
            [each.passes(row) or row.number(each.measure) is None for each in on]
            for row in self.rows
            if row.is_found(query) and not all(each.passes(row) for each in on)
        ]
        return sum(all(each) for each in may)


def market_rows(
    view: MarketView, contracts: Iterable[Perpetual], weeks: Mapping[str, Week] | None
) -> list[MarketRow]:
    """Collect the fresh data about some perpetuals; `weeks` is None if it can't be read."""
    known = weeks or {}
    return [_row(view, each, known.get(each.contract, ())) for each in contracts]


def market_table(view: MarketView, rows: Sequence[MarketRow], *, has_weeks: bool) -> MarketTable:
    """The table of all perpetuals."""
    sampled = (row.sampled_at for row in rows)
    until = view.until if view.liquidations is None else view.liquidations_until
    oldest = min((each for each in sampled if each is not None), default=None)
    if oldest is not None:
        until = min(until, oldest + view.limits.long_accounts)
    notes = tuple(_notes(view, rows, has_weeks=has_weeks))
    return MarketTable(view, tuple(rows), until, notes, has_weeks)


def _row(view: MarketView, each: Perpetual, week: Week) -> MarketRow:
    share, change = view.share(each.contract), day_change(view, each)
    liquidated = liquidated_day(view, each.contract)
    numbers = (
        each.last_price,
        change.price_pct,
        each.funding_8h_pct,
        each.open_interest_usd,
        change.open_interest_coins_pct,
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
        covered = coverage(view.liquidations.watched_pct)
        yield f"We covered liquidations for {covered} of the last 24 hours."
    if not any(row.number("change") is not None for row in rows):
        yield "24-hour changes are unknown: we have no record from 24 hours ago."
    if not has_weeks:
        yield "The 7-day column is empty, because recorded prices are temporarily unavailable."
