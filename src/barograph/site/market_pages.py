"""The table of every live perpetual (pure): which are shown, in which order, and as what."""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, get_args
from urllib.parse import urlencode

from markupsafe import Markup, escape

from barograph import NOTICE
from barograph.kit.text import price, usd
from barograph.kit.timestamps import DAY, iso_timestamp
from barograph.markets.records import LongAccounts, Perpetual
from barograph.markets.regime import eight_hour_rate
from barograph.markets.symbols import MAX_LENGTH, ContractIndex, contract_of, symbol_of
from barograph.markets.view import MarketView
from barograph.site.frame.paths import MARKETS_FOLDER
from barograph.site.frame.writer import NOT_KNOWN, SITE_NAME, moment, rate
from barograph.site.series_charts import NOTES


class Found(NamedTuple):
    """A perpetual, and the one symbol that its page has."""

    perpetual: Perpetual
    name: str


def find(index: ContractIndex, symbol: str) -> Found | None:
    """Look up what somebody typed, by the rules of `symbol` in the API."""
    perpetual = contract_of(index, symbol)
    if perpetual is None:
        return None
    name = symbol_of(index, perpetual)
    return None if name is None else Found(perpetual, name)


class Fact(NamedTuple):
    """One number of a perpetual, with everything that it takes to read it."""

    name: str
    value: str
    unit: str
    read_at: int | None
    """None where there is nothing that was read."""

    meaning: str


NAMES = {
    "last_price": "Last price",
    "funding_rate_pct": "Funding rate",
    "funding_8h_pct": "Funding per 8 hours",
    "open_interest_usd": "Open interest",
    "long_account_pct": "Long accounts",
    "next_funding_time": "Next settlement",
}
MEANINGS = {
    "last_price": (
        "Price of the last trade, in USDT; of a multiplier contract (1000PEPE) for so many coins."
    ),
    "funding_rate_pct": (
        "The rate of the current funding interval, in percent of the position's value. Positive: "
        "longs pay shorts."
    ),
    "funding_8h_pct": (
        "The same rate brought to eight hours, so that contracts with other intervals compare."
    ),
    "open_interest_usd": NOTES["open-interest"],
    "long_account_pct": NOTES["long-accounts"],
    "next_funding_time": "When the current rate is settled.",
}
"""What numbers mean, in the words of `markets/records.py` and `markets/regime.py`."""


class Market(NamedTuple):
    """One perpetual, as it may be shown now."""

    perpetual: Perpetual
    as_of: int
    source: str
    until: int
    """When the first of its numbers reaches its bound."""

    bound: int
    """When the reading itself does."""

    share: LongAccounts | None
    citation: str

    @property
    def facts(self) -> list[Fact]:
        """Every number that is known about it."""
        each, share = self.perpetual, self.share
        every = f"{each.funding_interval_hours:g} h"
        settled = moment(each.next_funding_time)
        countdown = Markup('<span data-until="{}"></span>').format(each.next_funding_time)
        long = NOT_KNOWN if share is None else f"{share.long_account_pct:.1f} %"
        eight = eight_hour_rate(each.funding_rate_pct, each.funding_interval_hours)
        stated = Markup("per {}, next settled {} {}").format(every, settled, countdown)
        interest = f"{each.open_interest_usd:,.0f} USD"
        sampled = None if share is None else share.sampled_at
        of_accounts = "not sampled recently" if share is None else "of accounts with a position"
        return [
            _fact("last_price", price(each.last_price), "USDT", self.as_of),
            _fact("funding_rate_pct", exact_rate(each.funding_rate_pct), stated, self.as_of),
            _fact("funding_8h_pct", rate(eight), "per 8 h", self.as_of),
            _fact("open_interest_usd", usd(each.open_interest_usd), interest, self.as_of),
            _fact("long_account_pct", long, of_accounts, sampled),
            _fact("next_funding_time", settled, f"every {every}", self.as_of),
        ]


def market(view: MarketView, found: Found) -> Market:
    """Gather what is fresh about one perpetual."""
    share = view.share(found.perpetual.contract)
    until = view.until
    if share is not None:
        until = min(until, share.sampled_at + view.bounds.long_accounts)
    as_of, source = view.perpetuals.as_of, view.perpetuals.source
    words = citation(found.name, source, as_of)
    return Market(found.perpetual, as_of, source, until, view.until, share, words)


def citation(name: str, source: str, as_of: int) -> str:
    """A text to cite the numbers of one perpetual by."""
    exact = iso_timestamp(as_of)
    return f"{SITE_NAME}, {name} perpetual as of {exact}. Source: {source}. {NOTICE}"


def _fact(field: str, value: str, unit: str, read_at: int | None) -> Fact:
    return Fact(NAMES[field], value, unit, read_at, MEANINGS[field])


def exact_rate(percent: float) -> str:
    """A rate with every digit that the exchange gave, and at least as many as any other."""
    whole, _, digits = f"{percent:+.10f}".partition(".")
    return f"{whole}.{digits.rstrip('0').ljust(4, '0')} %"


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
