"""The table of every live perpetual (pure): which are shown, in which order, and as what."""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, get_args
from urllib.parse import urlencode

from markupsafe import Markup, escape

from barograph.kit.timestamps import DAY, iso_timestamp
from barograph.markets.index import symbol_of
from barograph.markets.records import Perpetual
from barograph.markets.regime import eight_hour_rate
from barograph.markets.symbols import MAX_LENGTH
from barograph.markets.view import MarketView
from barograph.markets.words import price, usd
from barograph.site.frame.paths import MARKETS_FOLDER
from barograph.site.frame.writer import rate
from barograph.site.markets.market import exact_rate

LONGEST_SEARCH = MAX_LENGTH
"""As long as a symbol can be."""

Sort = Literal["symbol", "price", "funding", "open-interest", "long-accounts"]
Order = Literal["asc", "desc"]
SORTS: tuple[Sort, ...] = get_args(Sort)
NUMBERS = SORTS[1:]
"""The numbers that a row carries for sorting, in this order."""

COLUMNS: tuple[tuple[Sort | None, str], ...] = (
    ("symbol", "Symbol"),
    ("price", "Price (USDT)"),
    (None, "Funding, as stated"),
    ("funding", "Funding per 8 h"),
    (None, "Next settlement (UTC)"),
    ("open-interest", "Open interest (USD)"),
    ("long-accounts", "Long accounts"),
)
"""What each column is called, and what its heading sorts by."""


def usual_order(sort: Sort) -> Order:
    """Names from the first on, numbers from the greatest on."""
    return "asc" if sort == "symbol" else "desc"


class Choice(NamedTuple):
    """Which perpetuals somebody wants to see, and in which order."""

    sort: Sort = "open-interest"
    order: Order = "desc"
    search: str = ""

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> "Choice":
        """Read a query; what is not known in it is as if it were absent."""
        sort = next((each for each in SORTS if each == asked.get("sort")), cls().sort)
        order: Order = usual_order(sort)
        if asked.get("order") in get_args(Order):
            order = "asc" if asked["order"] == "asc" else "desc"
        text = "".join(each for each in asked.get("q", "") if each.isprintable())
        return cls(sort, order, text.strip()[:LONGEST_SEARCH].rstrip())

    @property
    def query(self) -> str:
        """The one query that stands for this choice."""
        fields: dict[str, str] = {}
        if self[:2] != Choice()[:2]:
            fields |= {"sort": self.sort, "order": self.order}
        if self.search:
            fields["q"] = self.search
        return urlencode(fields)

    def turned(self, sort: Sort) -> "Choice":
        """What a column's heading leads to: sorted by it or, when it is already, the other way."""
        order = usual_order(sort)
        if sort == self.sort:
            order = "desc" if self.order == "asc" else "asc"
        return self._replace(sort=sort, order=order)


class Row(NamedTuple):
    """One live perpetual."""

    perpetual: Perpetual
    name: str | None
    """Its address among the pages; None where no symbol can name it."""

    funding_8h_pct: float
    long_account_pct: float | None

    def number(self, sort: Sort) -> float | None:
        """What it is sorted by."""
        numbers = (
            self.perpetual.last_price,
            self.funding_8h_pct,
            self.perpetual.open_interest_usd,
            self.long_account_pct,
        )
        return numbers[NUMBERS.index(sort)]


class Listing(NamedTuple):
    """Every live perpetual of one instant."""

    as_of: int
    source: str
    until: int
    """When the first of its numbers reaches its bound."""

    bound: int
    """When the reading itself does."""

    rows: tuple[Row, ...]

    def chosen(self, choice: Choice) -> list[Row]:
        """What was asked for; a number that is not known comes last, whatever the order."""
        found = [row for row in self.rows if _matches(row.perpetual, choice.search.upper())]
        found.sort(key=_by_symbol, reverse=(choice.sort, choice.order) == ("symbol", "desc"))
        if choice.sort == "symbol":
            return found
        numbers = [(row.number(choice.sort), row) for row in found]
        known = [(number, row) for number, row in numbers if number is not None]
        known.sort(key=_first, reverse=choice.order == "desc")
        return [*(row for _, row in known), *(row for number, row in numbers if number is None)]


def listing(view: MarketView) -> Listing:
    """Gather every perpetual with what is fresh about it."""
    rows: list[Row] = []
    until = view.until
    for each in view.perpetuals.contracts:
        share = view.share(each.contract)
        if share is not None:
            until = min(until, share.sampled_at + view.bounds.long_accounts)
        rows.append(
            Row(
                each,
                symbol_of(view.by_name, each),
                eight_hour_rate(each.funding_rate_pct, each.funding_interval_hours),
                None if share is None else share.long_account_pct,
            )
        )
    reading = view.perpetuals
    return Listing(reading.as_of, reading.source, until, view.until, tuple(rows))


def table_rows(rows: Iterable[Row], root: str, as_of: int) -> Markup:
    """The body of the table.

    It is joined by hand because a template takes too long for so many rows. Each row carries what
    a script needs to sort and search where the table stands.
    """
    folder = str(escape(f"{root}{MARKETS_FOLDER}"))
    times: dict[int, str] = {}
    lines: list[str] = []
    for row in rows:
        at = row.perpetual.next_funding_time
        settled = times.get(at)
        if settled is None:
            settled = times[at] = _settled(at, as_of)
        lines.append(_line(row, folder, settled))
    # Safe by construction: names are escaped, everything else is numbers.
    return Markup("\n".join(lines))  # noqa: S704


def _line(row: Row, folder: str, settled: str) -> str:
    each = row.perpetual
    base, share = str(escape(each.base)), row.long_account_pct
    name = base if row.name is None else f'<a href="{folder}{row.name}">{base}</a>'
    upper, contract = str(escape(each.base.upper())), str(escape(each.contract))
    values = f"{each.last_price!r} {row.funding_8h_pct!r} {each.open_interest_usd!r}"
    known = "" if share is None else repr(share)
    long = _UNKNOWN_CELL if share is None else f"<td>{share:.1f} %</td>"
    return (
        f'<tr data-name="{upper}" data-contract="{contract}" '
        f'data-values="{values} {known}"><th scope="row">{name}</th>'
        f"<td>{price(each.last_price)}</td>"
        f"<td>{exact_rate(each.funding_rate_pct)} / {each.funding_interval_hours:g} h</td>"
        f"<td>{rate(row.funding_8h_pct)}</td><td>{settled}</td>"
        f"<td>{usd(each.open_interest_usd)}</td>{long}</tr>"
    )


def _settled(at: int, as_of: int) -> str:
    """An instant of the coming day by its time alone, which is what is meant."""
    exact = iso_timestamp(at)
    shown = exact[11:16] if 0 <= at - as_of < DAY else f"{exact[:10]} {exact[11:16]}"
    return f'<time datetime="{exact}">{shown}</time>'


def _matches(perpetual: Perpetual, wanted: str) -> bool:
    """By a part of the symbol or the beginning of the full name: all of those end alike."""
    return wanted in perpetual.base.upper() or perpetual.contract.upper().startswith(wanted)


def _by_symbol(row: Row) -> tuple[str, str]:
    return row.perpetual.base.upper(), row.perpetual.contract


def _first(pair: tuple[float, Row]) -> float:
    return pair[0]


_UNKNOWN_CELL = '<td class="unknown" title="not known">—</td>'
