"""Bitcoin funds: an issuer's holdings file, or a file that the operator maintains."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path

import httpx2

from barograph.errors import InvalidReply, UnknownToUpstream, Unreachable, UpstreamError
from barograph.kit.business_days import trading_days
from barograph.kit.clock import Clock
from barograph.macro.records import (
    OPERATOR_AUM,
    OPERATOR_BTC,
    OPERATOR_FLOW,
    Figure,
    fund_series,
)
from barograph.upstream.files import (
    FileClient,
    column,
    csv_rows,
    number,
    numbered_rows,
    plausible,
    refuse_days_ahead,
    today,
)

BACKFILL = timedelta(days=45)
"""How far back we ask an issuer for days that are not stored yet."""

LATE_DAYS = 5

MAX_OPERATOR_BYTES = 1024 * 1024
"""A row per business day takes about 10 kB per year."""

OPERATOR_COLUMNS = ("date", "net_flow_usd", "aum_usd", "holdings_btc")

_AS_OF = "Fund Holdings as of"
_SHARES = "Shares Outstanding"
_NET_ASSETS = ("Net Assets", "Net Assets of Fund")
_NAV = ("NAV", "NAV per Share", "Net Asset Value")
_FIRST_COLUMN = "Ticker"

_MOST_DISAGREEMENT = 0.01
"""Shares times the value per share equal the net assets, up to rounding."""

_ISO_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_AMERICAN_DAY = re.compile(r"\A([A-Z][a-z]{2}) ([0-9]{1,2}), ([0-9]{4})\Z")
# strptime would read the months of the machine's own language.
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_SATURDAY = 5


class FileTooLarge(InvalidReply):
    """The operator's file is larger than daily figures can need."""

    kind = "too large"


class IssuerHoldings:
    """The holdings file that an issuer publishes each business day (iShares' layout)."""

    def __init__(
        self, files: FileClient, *, fund: str, address: str, source: str, clock: Clock
    ) -> None:
        self._files = files
        self._fund = fund
        self._address = address
        self._source = source
        self._clock = clock
        # Days that are stored, and days too old to still get a file.
        self._settled: set[date] = set()

    @property
    def name(self) -> str:
        """`etf-` and the fund's ticker."""
        return f"etf-{self._fund.lower()}"

    async def read(self) -> list[Figure]:
        """Read the newest file, and the files of the last weeks that are not stored yet.

        A flow needs the day before.
        """
        body = await self._files.get(self._address)
        figures = decode_holdings(body, self._fund, self._source)
        present = today(self._clock)
        refuse_days_ahead(figures, present)
        newest = date.fromisoformat(figures[0].day)
        return [*await self._earlier(present, newest), *figures]

    def kept(self, figures: Sequence[Figure]) -> None:
        """Don't ask again for the days of these figures: they are stored."""
        self._settled |= {date.fromisoformat(each.day) for each in figures}

    async def _earlier(self, present: date, newest: date) -> list[Figure]:
        """Read earlier files, until the issuer stops answering."""
        figures: list[Figure] = []
        for day in trading_days(present - BACKFILL, present - timedelta(days=1)):
            if day in self._settled or day == newest:
                continue
            try:
                found = await self.read_day(day)
            except InvalidReply:
                continue  # skip this day and ask again next time
            except UnknownToUpstream:
                found = []
            except UpstreamError:
                break  # read the rest next time
            figures += found
            # A late file may still come within `LATE_DAYS`.
            if not found and present - day > timedelta(days=LATE_DAYS):
                self._settled.add(day)
        return figures

    async def read_day(self, day: date) -> list[Figure]:
        """Read the file of an earlier day; empty if the issuer published none for it."""
        address = httpx2.URL(self._address).copy_set_param("asOfDate", f"{day:%Y%m%d}")
        body = await self._files.get(str(address))
        if any(row[:2] == [_AS_OF, "-"] for row in csv_rows(body)):
            return []  # the issuer's file for a day without trading
        figures = decode_holdings(body, self._fund, self._source)
        if figures[0].day != day.isoformat():
            raise InvalidReply(f"asked for the file of {day} and got that of {figures[0].day}")
        return figures


class OperatorFlows:
    """The operator's file: one row per day for all funds that they count."""

    name = "etf-operator"

    def __init__(self, path: Path, *, source: str, clock: Clock) -> None:
        self._path = path
        self._source = source
        self._clock = clock

    async def read(self) -> list[Figure]:
        """Read the whole file in a thread, because it may be long.

        Raises:
            Unreachable: it cannot be opened.
            InvalidReply: it is too large (`FileTooLarge`), or a line of it is invalid.
        """
        return await asyncio.to_thread(self._figures, today(self._clock))

    def _figures(self, present: date) -> list[Figure]:
        figures = decode_operator_flows(self._body(), self._source)
        refuse_days_ahead(figures, present)
        return figures

    def _body(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                body = file.read(MAX_OPERATOR_BYTES + 1)
        except OSError as error:
            raise Unreachable(
                f"the operator's file cannot be opened ({type(error).__name__})"
            ) from error
        if len(body) > MAX_OPERATOR_BYTES:
            raise FileTooLarge(f"the operator's file is larger than {MAX_OPERATOR_BYTES} bytes")
        return body


def decode_holdings(body: bytes, fund: str, source: str) -> list[Figure]:
    """Read a fund's four figures.

    If the file lacks net assets, they are the sum of all market values. If it lacks the value per
    share, that is net assets divided by shares.

    Raises:
        InvalidReply: it is another kind of file, or a figure is missing, unreadable or not
            positive.
    """
    rows = csv_rows(body)
    start = next((place for place, row in enumerate(rows) if row[:1] == [_FIRST_COLUMN]), None)
    if start is None:
        raise InvalidReply("the file has no table of holdings")
    preamble, header, table = _preamble(rows[:start]), rows[start], _table(rows[start:])
    day = _as_of(preamble)
    shares = _stated(preamble, (_SHARES,))
    if shares is None:
        raise InvalidReply(f"the file does not state '{_SHARES}'")
    net_assets = _stated(preamble, _NET_ASSETS)
    if net_assets is None:
        net_assets = _market_value(header, table)
    nav = _stated(preamble, _NAV)
    if nav is None:
        nav = net_assets / shares
    if abs(shares * nav - net_assets) > _MOST_DISAGREEMENT * net_assets:
        raise InvalidReply(f"{shares} shares of {nav} USD are not {net_assets} USD of net assets")
    btc = _bitcoin(header, table)
    return plausible(
        [
            Figure(fund_series(fund, "shares"), day, shares, source),
            Figure(fund_series(fund, "nav"), day, nav, source),
            Figure(fund_series(fund, "btc"), day, btc, source),
            Figure(fund_series(fund, "aum"), day, net_assets, source),
        ]
    )


def decode_operator_flows(body: bytes, source: str) -> list[Figure]:
    """Read the operator's rows: `date, net_flow_usd, aum_usd, holdings_btc`, oldest day first.

    Only the flow may be empty.

    Raises:
        InvalidReply: names the first invalid line, and why.
    """
    (_, header), *rows = numbered_rows(body) or [(0, [])]
    columns = {name: column(header, name) for name in OPERATOR_COLUMNS}
    lines: dict[str, int] = {}
    figures: list[Figure] = []
    for line, row in rows:
        if not any(row):
            continue
        try:
            cells = _cells(row, header, columns)
            day = _weekday(cells["date"])
            figures += plausible(_operator_figures(cells, day, source))
        except ValueError as error:
            raise InvalidReply(f"line {line}: {error}") from error
        if day in lines:
            raise InvalidReply(f"line {line}: {day} was given in line {lines[day]} already")
        lines[day] = line
    return sorted(figures, key=lambda figure: figure.day)


def _preamble(rows: Sequence[Sequence[str]]) -> dict[str, str]:
    """The name and value lines before the table."""
    pairs: dict[str, str] = {}
    for row in rows:
        if len(row) < 2:  # noqa: PLR2004 - a title or an empty line
            continue
        name = row[0].rstrip(":")
        if pairs.setdefault(name, row[1]) != row[1]:
            raise InvalidReply(f"the file states '{name:.40}' twice")
    return pairs


def _table(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The rows under the header, up to the empty line before the small print."""
    header, *following = rows
    table: list[Sequence[str]] = []
    for row in following:
        if not any(row):
            break
        if len(row) != len(header):
            raise InvalidReply(f"a holding has {len(row)} cells under {len(header)} columns")
        table.append(row)
    return table


def _as_of(preamble: Mapping[str, str]) -> str:
    text = preamble.get(_AS_OF, "")
    try:
        [(month, day, year)] = _AMERICAN_DAY.findall(text)
        return date(int(year), _MONTHS.index(month) + 1, int(day)).isoformat()
    except ValueError as error:
        raise InvalidReply(f"'{_AS_OF}' is {text!r:.40}, which is not a day") from error


def _stated(preamble: Mapping[str, str], names: Sequence[str]) -> float | None:
    for name in names:
        if name in preamble:
            return _positive(name, preamble[name].removeprefix("$"))
    return None


def _positive(name: str, cell: str) -> float:
    try:
        value = number(cell)
    except ValueError as error:
        raise InvalidReply(f"'{name}': {error}") from error
    if value <= 0:
        raise InvalidReply(f"'{name}' is {value}, which is not positive")
    return value


def _market_value(header: Sequence[str], table: Sequence[Sequence[str]]) -> float:
    place = column(header, "Market Value")
    try:
        total = sum(number(row[place]) for row in table)
    except ValueError as error:
        raise InvalidReply(f"'Market Value': {error}") from error
    if total <= 0:
        raise InvalidReply(f"the holdings are worth {total} USD together")
    return total


def _bitcoin(header: Sequence[str], table: Sequence[Sequence[str]]) -> float:
    ticker, quantity = column(header, _FIRST_COLUMN), column(header, "Quantity", "Shares")
    found = [row for row in table if row[ticker] == "BTC"]
    if len(found) != 1:
        raise InvalidReply(f"the file has {len(found)} holdings of BTC and needs one")
    return _positive("Quantity", found[0][quantity])


def _cells(row: Sequence[str], header: Sequence[str], columns: Mapping[str, int]) -> dict[str, str]:
    if len(row) != len(header):
        raise ValueError(f"{len(row)} cells under {len(header)} columns")
    return {name: row[place] for name, place in columns.items()}


def _weekday(cell: str) -> str:
    if _ISO_DAY.fullmatch(cell) is None:
        raise ValueError(f"date {cell!r:.40} is not written as YYYY-MM-DD")
    if date.fromisoformat(cell).weekday() >= _SATURDAY:
        raise ValueError(f"date {cell} is on a weekend, when no fund is traded")
    return cell


def _operator_figures(cells: Mapping[str, str], day: str, source: str) -> list[Figure]:
    figures = [
        Figure(OPERATOR_AUM, day, _cell("aum_usd", cells, positive=True), source),
        Figure(OPERATOR_BTC, day, _cell("holdings_btc", cells, positive=True), source),
    ]
    if cells["net_flow_usd"]:
        flow = _cell("net_flow_usd", cells, positive=False)
        figures.append(Figure(OPERATOR_FLOW, day, flow, source))
    return figures


def _cell(name: str, cells: Mapping[str, str], *, positive: bool) -> float:
    try:
        value = number(cells[name])
    except ValueError as error:
        raise ValueError(f"{name} {error}") from error
    if positive and value <= 0:
        raise ValueError(f"{name} is {value}, which is not positive")
    return value
