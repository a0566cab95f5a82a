"""The content of `/markets` (pure): the facts about one perpetual, and the table of all."""

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Literal, NamedTuple, get_args
from urllib.parse import urlencode

from markupsafe import Markup, escape

from barograph import NOTICE
from barograph.kit.text import price, usd
from barograph.kit.timestamps import DAY, iso_timestamp
from barograph.markets.aliases import find_contract, names_of
from barograph.markets.records import LongAccounts, Perpetual, Perpetuals, classes_left_out
from barograph.markets.symbols import MAX_LENGTH, ContractIndex, symbol_of
from barograph.markets.venues import VENUES
from barograph.markets.view import UNAVAILABLE, MarketView
from barograph.site.paths import MARKETS_FOLDER
from barograph.site.series_charts import NOTES
from barograph.site.templating import SITE_NAME, UNKNOWN, moment, rate, utc_text


class FoundPerpetual(NamedTuple):
    """A perpetual, and the canonical symbol of its page."""

    perpetual: Perpetual
    symbol: str


def find_perpetual(index: ContractIndex, text: str) -> FoundPerpetual | None:
    """Look up a symbol or a name."""
    perpetual = find_contract(index, text)
    if perpetual is None:
        return None
    symbol = symbol_of(index, perpetual)
    return None if symbol is None else FoundPerpetual(perpetual, symbol)


class MarketFact(NamedTuple):
    """One number about a perpetual, with its unit, time and meaning."""

    name: str
    value: str
    unit: str
    read_at: int | None
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
        "Price of the last trade, in USDT. A multiplier contract such as 1000PEPE is priced per "
        "1,000 coins."
    ),
    "funding_rate_pct": (
        "The rate of the current funding interval, in percent of the position's value. If it is "
        "positive, longs pay shorts."
    ),
    "funding_8h_pct": (
        "The same rate converted to eight hours, so that contracts with different intervals can be "
        "compared."
    ),
    "open_interest_usd": NOTES["open-interest"],
    "long_account_pct": NOTES["long-accounts"],
    "next_funding_time": "When the current rate is settled.",
}


MARK_PRICE = (
    "The exchange's mark price, in USD. A multiplier contract such as kPEPE is priced per 1,000 "
    "coins."
)


class MarketFacts(NamedTuple):
    """The fresh data about one perpetual."""

    perpetual: Perpetual
    as_of: int
    source: str
    until: int
    """When the first of its numbers expires."""

    reading_until: int
    """When the market reading itself expires."""

    share: LongAccounts | None
    no_share: str
    """Why there is no long-account share."""

    citation: str

    @property
    def facts(self) -> list[MarketFact]:
        """Every number about it."""
        each, share = self.perpetual, self.share
        every = f"{each.funding_interval_hours:g} h"
        settled = moment(each.next_funding_time)
        countdown = Markup('<span data-until="{}"></span>').format(each.next_funding_time)
        long = UNKNOWN if share is None else f"{share.long_account_pct:.1f} %"
        stated = Markup("per {}, next settlement {} {}").format(every, settled, countdown)
        interest = UNKNOWN if each.open_interest_usd is None else usd(each.open_interest_usd)
        counted = self.as_of if each.open_interest_at is None else each.open_interest_at
        sampled = None if share is None else share.sampled_at
        of_accounts = self.no_share if share is None else "of accounts with a position"
        priced = _fact("last_price", price(each.last_price), each.quote, self.as_of)
        if each.price_kind == "mark":
            priced = priced._replace(name="Mark price", meaning=MARK_PRICE)
        return [
            priced,
            _fact("funding_rate_pct", exact_rate(each.funding_rate_pct), stated, self.as_of),
            _fact("funding_8h_pct", rate(each.funding_8h_pct), "per 8 h", self.as_of),
            _fact(
                "open_interest_usd",
                interest,
                _interest_in_full(each),
                None if each.open_interest_usd is None else counted,
            ),
            _fact("long_account_pct", long, of_accounts, sampled),
            _fact("next_funding_time", settled, f"every {every}", self.as_of),
        ]


def market_facts(view: MarketView, found: FoundPerpetual) -> MarketFacts:
    """Collect the fresh data about one perpetual."""
    share = view.share(found.perpetual.contract)
    until = view.until
    if share is not None:
        until = min(until, share.sampled_at + view.limits.long_accounts)
    as_of, source = view.perpetuals.as_of, view.perpetuals.source
    citation = (
        f"{SITE_NAME}, {found.symbol} perpetual as of {utc_text(as_of)}. Source: {source}. {NOTICE}"
    )
    no_share = UNAVAILABLE if view.lacks_long_accounts else "no recent sample"
    perpetual = found.perpetual
    return MarketFacts(perpetual, as_of, source, until, view.until, share, no_share, citation)


def _fact(field: str, value: str, unit: str, read_at: int | None) -> MarketFact:
    return MarketFact(NAMES[field], value, unit, read_at, MEANINGS[field])


def _interest_in_full(perpetual: Perpetual) -> str:
    """Open interest to the dollar, and in coins if the exchange gave them."""
    dollars, coins = perpetual.open_interest_usd, perpetual.open_interest_coins
    base = perpetual.base
    # A multiplier contract such as 1000PEPE begins with a digit.
    is_multiple = perpetual.multiplier != 1 or base[:1].isdigit()
    unit = f"units of {base}" if is_multiple else base
    parts = [f"{dollars:,.0f} USD"] if dollars is not None else []
    parts += [f"{coins:,.0f} {unit}"] if coins is not None else []
    return ", ".join(parts) or "not published by the exchange"


def exact_rate(percent: float) -> str:
    """A rate with all digits that the exchange gave, and at least four decimals."""
    whole, _, digits = f"{percent:+.10f}".partition(".")
    return f"{whole}.{digits.rstrip('0').ljust(4, '0')} %"


Sort = Literal["symbol", "price", "funding", "open-interest", "long-accounts"]
Order = Literal["asc", "desc"]
SORTS: tuple[Sort, ...] = get_args(Sort)
NUMBERS = SORTS[1:]
"""The sortable numbers of a row, in this order."""


def columns_of(venue: str) -> tuple[tuple[Sort | None, str], ...]:
    """The heading of each column, and what it sorts by."""
    return (
        ("symbol", "Symbol"),
        ("price", price_heading(venue)),
        (None, "Funding, as stated"),
        ("funding", "Funding per 8 h"),
        (None, "Next settlement (UTC)"),
        ("open-interest", "Open interest (USD)"),
        ("long-accounts", "Long accounts"),
    )


def price_heading(venue: str) -> str:
    """The heading of a venue's prices."""
    kind = "Price" if VENUES[venue].price_kind == "last" else "Mark price"
    return f"{kind} ({VENUES[venue].quote})"


def default_order(sort: Sort) -> Order:
    """Symbols ascend, numbers descend."""
    return "asc" if sort == "symbol" else "desc"


class MarketsQuery(NamedTuple):
    """Which perpetuals to list, and in which order."""

    sort: Sort = "open-interest"
    order: Order = "desc"
    search: str = ""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "MarketsQuery":
        """Read a query string; unknown values count as absent."""
        sort = next((each for each in SORTS if each == given.get("sort")), cls().sort)
        order: Order = default_order(sort)
        if given.get("order") in get_args(Order):
            order = "asc" if given["order"] == "asc" else "desc"
        text = "".join(each for each in given.get("q", "") if each.isprintable())
        return cls(sort, order, text.strip()[:MAX_LENGTH].rstrip())

    @property
    def text(self) -> str:
        """The canonical query string."""
        fields: dict[str, str] = {}
        if self[:2] != MarketsQuery()[:2]:
            fields |= {"sort": self.sort, "order": self.order}
        if self.search:
            fields["q"] = self.search
        return urlencode(fields)

    def sorted_by(self, sort: Sort) -> "MarketsQuery":
        """What a column heading links to: sort by it, or reverse the order if it is sorted."""
        order = default_order(sort)
        if sort == self.sort:
            order = "desc" if self.order == "asc" else "asc"
        return self._replace(sort=sort, order=order)


class MarketRow(NamedTuple):
    """One live perpetual."""

    perpetual: Perpetual
    symbol: str | None
    """The symbol of its page; None if it has none."""

    long_account_pct: float | None

    def number(self, sort: Sort) -> float | None:
        """The number to sort by."""
        numbers = (
            self.perpetual.last_price,
            self.perpetual.funding_8h_pct,
            self.perpetual.open_interest_usd,
            self.long_account_pct,
        )
        return numbers[NUMBERS.index(sort)]


class MarketTable(NamedTuple):
    """All live perpetuals of one market reading."""

    as_of: int
    source: str
    until: int
    reading_until: int
    rows: tuple[MarketRow, ...]
    venue: str
    missing: str
    """What the venue does not have, in words; empty if nothing."""

    def select(self, query: MarketsQuery) -> list[MarketRow]:
        """The matching rows in order; unknown numbers come last in either order."""
        found = [row for row in self.rows if _matches(row.perpetual, query.search.upper())]
        found.sort(key=_by_symbol, reverse=(query.sort, query.order) == ("symbol", "desc"))
        if query.sort == "symbol":
            return found
        numbers = [(row.number(query.sort), row) for row in found]
        known = [(number, row) for number, row in numbers if number is not None]
        known.sort(key=itemgetter(0), reverse=query.order == "desc")
        return [*(row for _, row in known), *(row for number, row in numbers if number is None)]


def market_table(view: MarketView) -> MarketTable:
    """Collect the fresh data about all perpetuals."""
    rows: list[MarketRow] = []
    until = view.until
    for each in view.perpetuals.contracts:
        share = view.share(each.contract)
        if share is not None:
            until = min(until, share.sampled_at + view.limits.long_accounts)
        rows.append(
            MarketRow(
                each,
                symbol_of(view.by_name, each),
                None if share is None else share.long_account_pct,
            )
        )
    reading = view.perpetuals
    missing = f"Long accounts are {UNAVAILABLE}." if view.lacks_long_accounts else ""
    return MarketTable(
        *(reading.as_of, reading.source, until, view.until, tuple(rows)), reading.venue, missing
    )


def left_out_text(reading: Perpetuals) -> str:
    """A sentence about the contracts that are not crypto; empty if there are none."""
    if not reading.left_out:
        return ""
    total = sum(reading.left_out.values())
    contracts = "1 contract that is" if total == 1 else f"{total:,} contracts that are"
    return f"We leave out {contracts} not crypto: {classes_left_out(reading)}."


def table_rows(rows: Iterable[MarketRow], root: str, as_of: int) -> Markup:
    """The body of the table, without a template, which would be too slow for so many rows.

    Each row carries the data that the script needs to sort and search in the browser.
    """
    folder = str(escape(f"{root}{MARKETS_FOLDER}"))
    times: dict[int, str] = {}
    lines: list[str] = []
    for row in rows:
        at = row.perpetual.next_funding_time
        if at not in times:
            times[at] = _settlement_time(at, as_of)
        lines.append(_line(row, folder, times[at]))
    # Safe: names are escaped, and everything else is numbers.
    return Markup("\n".join(lines))  # noqa: S704


def _line(row: MarketRow, folder: str, settlement_time: str) -> str:
    each = row.perpetual
    base, share = str(escape(each.base)), row.long_account_pct
    name = base if row.symbol is None else f'<a href="{folder}{row.symbol}">{base}</a>'
    upper, contract = str(escape(each.base.upper())), str(escape(each.contract))
    interest = each.open_interest_usd
    numbers = (each.last_price, each.funding_8h_pct, interest, share)
    values = " ".join("" if number is None else repr(number) for number in numbers)
    held = _UNKNOWN_CELL if interest is None else f"<td>{usd(interest)}</td>"
    long = _UNKNOWN_CELL if share is None else f"<td>{share:.1f} %</td>"
    return (
        f'<tr data-name="{upper}" data-contract="{contract}"{_names(each)} '
        f'data-values="{values}"><th scope="row">{name}</th>'
        f"<td>{price(each.last_price)}</td>"
        f"<td>{exact_rate(each.funding_rate_pct)} / {each.funding_interval_hours:g} h</td>"
        f"<td>{rate(each.funding_8h_pct)}</td><td>{settlement_time}</td>"
        f"{held}{long}</tr>"
    )


def _settlement_time(at: int, as_of: int) -> str:
    """The time alone within the next day, otherwise with the date."""
    exact = iso_timestamp(at)
    shown = exact[11:16] if 0 <= at - as_of < DAY else f"{exact[:10]} {exact[11:16]}"
    return f'<time datetime="{exact}">{shown}</time>'


def _matches(perpetual: Perpetual, wanted: str) -> bool:
    """By a part of the symbol or the start of a full name, since all full names end alike."""
    names = (perpetual.contract.upper(), *names_of(perpetual))
    return wanted in perpetual.base.upper() or any(name.startswith(wanted) for name in names)


def _names(perpetual: Perpetual) -> str:
    names = names_of(perpetual)
    return f' data-names="{" ".join(names)}"' if names else ""


def _by_symbol(row: MarketRow) -> tuple[str, str]:
    return row.perpetual.base.upper(), row.perpetual.contract


_UNKNOWN_CELL = '<td class="unknown" title="unknown">—</td>'
