"""Bitcoin funds: an issuer's holdings file, or a file that the operator maintains."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from pathlib import Path

from barograph.errors import InvalidReply, Unreachable
from barograph.kit.business_days import trading_days
from barograph.kit.clock import Clock
from barograph.macro.records import (
    OPERATOR_AUM,
    OPERATOR_BTC,
    OPERATOR_FLOW,
    Figure,
    FundFigure,
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

MAX_OPERATOR_BYTES = 1024 * 1024
"""A row per business day takes about 10 kB per year."""

FLOW_COLUMNS = ("date", "net_flow_usd", "aum_usd", "holdings_btc")
SHARE_COLUMNS = ("date", "shares_outstanding", "holdings_btc")
VALUE_COLUMNS = ("nav_usd", "market_value_usd")
"""A history with shares has one of these."""

_AS_OF = "Fund Holdings as of"
_SHARES = "Shares Outstanding"
_FIRST_COLUMN = "Ticker"
_BITCOIN = "BTC"
_NONE = "-"

_ISO_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_AMERICAN_DAY = re.compile(r"\A([A-Z][a-z]{2}) ([0-9]{1,2}), ([0-9]{4})\Z")
# strptime would read the months of the machine's own language.
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_SATURDAY = 5


FiguresOf = Callable[[Mapping[str, str], str], list[Figure]]
"""Takes the cells of a row by the names of their columns, and the day."""


class FileTooLarge(InvalidReply):
    """The operator's file is larger than daily figures can need."""

    kind = "too large"


class InvalidLines(InvalidReply):
    """Lines of a file that can't be used."""

    def __init__(self, problems: list[str]) -> None:
        more = f"; {len(problems) - 1} more lines are invalid" if len(problems) > 1 else ""
        super().__init__(problems[0] + more)
        self.problems = problems
        """One per line, with its number."""


class IssuerHoldings:
    """The holdings file that an issuer publishes each business day (iShares' layout).

    The file names its day. The issuer publishes no earlier days, so we ask only for the newest.
    """

    def __init__(
        self, files: FileClient, *, fund: str, address: str, source: str, clock: Clock
    ) -> None:
        self._files = files
        self._fund = fund
        self._address = address
        self._source = source
        self._clock = clock

    @property
    def name(self) -> str:
        """`etf-` and the fund's ticker."""
        return f"etf-{self._fund.lower()}"

    async def read(self) -> list[Figure]:
        """Read the newest file."""
        body = await self._files.get(self._address)
        figures = decode_holdings(body, self._fund, self._source)
        refuse_days_ahead(figures, today(self._clock))
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
        body = await asyncio.to_thread(read_operator_file, self._path)
        return await asyncio.to_thread(
            decode_operator_flows, body, self._source, today(self._clock)
        )


def read_operator_file(path: Path) -> bytes:
    """The content of an operator's file.

    Raises:
        Unreachable: it cannot be opened.
        FileTooLarge: it is larger than `MAX_OPERATOR_BYTES`.
    """
    try:
        with path.open("rb") as file:
            body = file.read(MAX_OPERATOR_BYTES + 1)
    except OSError as error:
        # Without its path, which `/api/status` must not show.
        raise Unreachable(f"the operator's file cannot be opened: {error.strerror}") from error
    if len(body) > MAX_OPERATOR_BYTES:
        raise FileTooLarge("the operator's file is larger than 1 MiB")
    return body


def decode_holdings(body: bytes, fund: str, source: str) -> list[Figure]:
    """Read a fund's four figures. Its net assets are the sum of all market values.

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
    if _SHARES not in preamble:
        raise InvalidReply(f"the file does not state '{_SHARES}'")
    shares = _positive(_SHARES, preamble[_SHARES])
    worth, btc = _market_value(header, table), _bitcoin(header, table)
    figures = _fund_figures(
        fund, day, source, shares=shares, nav=worth / shares, btc=btc, aum=worth
    )
    return plausible(figures)


def decode_operator_flows(body: bytes, source: str, present: date) -> list[Figure]:
    """Read the operator's rows: `date, net_flow_usd, aum_usd, holdings_btc`, oldest day first.

    Only the flow may be empty. No day may be after `present`, give or take time zones.

    Raises:
        InvalidReply: names the invalid lines, and why.
    """
    names = (OPERATOR_AUM, OPERATOR_BTC, OPERATOR_FLOW)
    return _decode_days(body, FLOW_COLUMNS, partial(_flow_figures, names, source), present)


def decode_history(body: bytes, fund: str, source: str, present: date) -> list[Figure]:
    """Read earlier days of one fund that its issuer no longer publishes, oldest day first.

    The columns are `SHARE_COLUMNS` with one of `VALUE_COLUMNS`, or `FLOW_COLUMNS`.

    Raises:
        InvalidReply: names the invalid lines, and why.
    """
    # As it is meant: `_decode_days` refuses capitals and semicolons.
    header = re.split("[,;]", ",".join(next(iter(csv_rows(body)), [])).lower())
    if SHARE_COLUMNS[1] in header:
        value = next((name for name in VALUE_COLUMNS if name in header), VALUE_COLUMNS[0])
        columns: Sequence[str] = (*SHARE_COLUMNS, value)
        figures_of = partial(_share_figures, fund, value, source)
    else:
        names = (fund_series(fund, "aum"), fund_series(fund, "btc"), fund_series(fund, "flow"))
        columns, figures_of = FLOW_COLUMNS, partial(_flow_figures, names, source)
    figures = _decode_days(body, columns, partial(_traded, figures_of), present)
    if not figures:
        raise InvalidReply("the file has no rows")
    return figures


def _decode_days(
    body: bytes, names: Sequence[str], figures_of: FiguresOf, present: date
) -> list[Figure]:
    """Read one row per day."""
    (_, header), *rows = numbered_rows(body) or [(0, [])]
    try:
        columns = {name: column(header, name) for name in names}
    except InvalidReply as error:
        raise InvalidReply(
            f"{error}: write line 1 as {','.join(names)}, with commas and in lower case"
        ) from error
    last = (present + timedelta(days=1)).isoformat()
    lines: dict[str, int] = {}
    figures: list[Figure] = []
    problems: list[str] = []
    for line, row in rows:
        if not any(row):
            continue
        try:
            cells = _cells(row, header, columns)
            day = _weekday(cells["date"], last)
            figures += plausible(figures_of(cells, day))
        except ValueError as error:
            problems.append(f"line {line}: {error}")
            continue
        if lines.setdefault(day, line) != line:
            problems.append(f"line {line}: {day} was given in line {lines[day]} already")
    if problems:
        raise InvalidLines(problems)
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


def _positive(name: str, cell: str) -> float:
    try:
        value = number(cell)
    except ValueError as error:
        raise InvalidReply(f"'{name}': {error}") from error
    if value <= 0:
        raise InvalidReply(f"'{name}' is {value}, which is not positive")
    return value


def _market_value(header: Sequence[str], table: Sequence[Sequence[str]]) -> float:
    ticker, place = column(header, _FIRST_COLUMN), column(header, "Market Value")
    cells = [row[place] for row in table if row[ticker] == _BITCOIN or row[place] != _NONE]
    try:
        total = round(sum(number(cell) for cell in cells), 2)
    except ValueError as error:
        raise InvalidReply(f"'Market Value': {error}") from error
    if total <= 0:
        raise InvalidReply(f"the holdings are worth {total} USD together")
    return total


def _bitcoin(header: Sequence[str], table: Sequence[Sequence[str]]) -> float:
    ticker, quantity = column(header, _FIRST_COLUMN), column(header, "Quantity", "Shares")
    holdings = [row for row in table if row[ticker] == _BITCOIN]
    if len(holdings) != 1:
        raise InvalidReply(f"the file has {len(holdings)} holdings of BTC and needs one")
    return _positive("Quantity", holdings[0][quantity])


def _cells(row: Sequence[str], header: Sequence[str], columns: Mapping[str, int]) -> dict[str, str]:
    if len(row) != len(header):
        raise ValueError(f"{len(row)} cells under {len(header)} columns")
    return {name: row[place] for name, place in columns.items()}


def _weekday(cell: str, last: str) -> str:
    if _ISO_DAY.fullmatch(cell) is None:
        raise ValueError(f"date {cell!r:.40} is not written as YYYY-MM-DD")
    if date.fromisoformat(cell).weekday() >= _SATURDAY:
        raise ValueError(f"date {cell} is on a weekend, when no fund is traded")
    if cell > last:
        raise ValueError(f"date {cell} is in the future")
    return cell


def _traded(figures_of: FiguresOf, cells: Mapping[str, str], day: str) -> list[Figure]:
    """The figures of a day on which a US bitcoin ETF can have been traded."""
    if day < "2024":
        raise ValueError(f"date {day} is before 2024, when US bitcoin ETFs began to trade")
    read = date.fromisoformat(day)
    if not any(trading_days(read, read)):
        raise ValueError(f"date {day} is a holiday of the New York Stock Exchange")
    return figures_of(cells, day)


def _flow_figures(
    series: tuple[str, str, str], source: str, cells: Mapping[str, str], day: str
) -> list[Figure]:
    aum, btc, flow = series
    figures = [
        Figure(aum, day, _cell("aum_usd", cells, positive=True), source),
        Figure(btc, day, _cell("holdings_btc", cells, positive=True), source),
    ]
    if cells["net_flow_usd"]:
        value = _cell("net_flow_usd", cells, positive=False)
        figures.append(Figure(flow, day, value, source))
    return figures


def _share_figures(
    fund: str, value: str, source: str, cells: Mapping[str, str], day: str
) -> list[Figure]:
    shares = _cell("shares_outstanding", cells, positive=True)
    worth = _cell(value, cells, positive=True)
    nav, aum = (worth, worth * shares) if value == "nav_usd" else (worth / shares, worth)
    btc = _cell("holdings_btc", cells, positive=True)
    return _fund_figures(fund, day, source, shares=shares, nav=nav, btc=btc, aum=aum)


def _fund_figures(fund: str, day: str, source: str, **values: float) -> list[Figure]:
    names: tuple[FundFigure, ...] = ("shares", "nav", "btc", "aum")
    return [Figure(fund_series(fund, name), day, values[name], source) for name in names]


def _cell(name: str, cells: Mapping[str, str], *, positive: bool) -> float:
    try:
        value = number(cells[name])
    except ValueError as error:
        raise ValueError(f"{name} {error}") from error
    if positive and value <= 0:
        raise ValueError(f"{name} is {value}, which is not positive")
    return value
