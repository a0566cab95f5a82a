"""The files that the Treasury, the New York Fed and the fund's issuer served at a given time.

Formats as at https://home.treasury.gov/resource-center/data-chart-center/interest-rates,
https://markets.newyorkfed.org/static/docs/markets-api.html and the fund's own page.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from barograph_demo.world.macro import BASKET, FundDay, MacroWorld, sofr_revised_at
from barograph_demo.world.rates import EFFR, SOFR, TENORS, OvernightRate

TREASURY_FILE: Final = "treasury"
SOFR_FILE: Final = "sofr"
EFFR_FILE: Final = "effr"
FUND_FILE: Final = "etf"

FILES: Final = (TREASURY_FILE, SOFR_FILE, EFFR_FILE, FUND_FILE)

TREASURY_PATH: Final = "/resource-center/data-chart-center/interest-rates/daily-treasury-rates.csv"
FUND_PATH: Final = "/us/products/333011/ishares-bitcoin-trust-etf/latest-holdings.csv"

_CSV: Final = "text/csv; charset=UTF-8"
_JSON: Final = "application/json"
_TEXT: Final = "text/plain"

_SHORT_MATURITY: Final = "1.5 Month"
_SHORT_MATURITY_SINCE: Final = date(2025, 2, 18)
"""Before this day the Treasury published no such yield."""

_LOST_YIELDS: Final = frozenset({"3 Mo", "2 Yr", "10 Yr"})
_LOST_CELL: Final = "Quantity"
_YIELD_REVISION: Final = 0.06
_RATE_REVISION: Final = 0.02
_REVISED_BASKETS: Final = 25

_FUND_COLUMNS: Final = (
    "Ticker",
    "Name",
    "Sector",
    "Asset Class",
    "Market Value",
    "Weight (%)",
    "Notional Value",
    _LOST_CELL,
    "Market Currency",
    "Accrual Date",
)
_NOTHING: Final = "\u00a0"
"""The issuer's file has this on lines that look empty."""

Query = Mapping[str, str]


class FileReply(NamedTuple):
    """The reply to a request for a file."""

    status: int
    content_type: str
    body: bytes


class Distortion(NamedTuple):
    """What is wrong with the files.

    The day that was newest at the time `revised` now has other figures. With `incomplete`, columns
    or members that a reader needs are missing.
    """

    revised: int | None = None
    incomplete: bool = False


_NOT_FOUND: Final = FileReply(HTTPStatus.NOT_FOUND, _TEXT, b"not found\n")
_NO_DISTORTION: Final = Distortion()


class _View(NamedTuple):
    """The world at one time, with what is wrong with its files."""

    world: MacroWorld
    at: int
    distortion: Distortion

    def newest_revised(self, days: Callable[[int], Sequence[object]]) -> int:
        """The index of the day that the distortion revises; -1 if none."""
        since = self.distortion.revised
        return -1 if since is None else len(days(min(since, self.at))) - 1


def file_of(path: str) -> str | None:
    """The one of `FILES` that a path names."""
    return next((name for name, pattern, _ in _FILES if pattern.fullmatch(path)), None)


def answer(
    world: MacroWorld, path: str, query: Query, at: int, distortion: Distortion = _NO_DISTORTION
) -> FileReply:
    """The reply to a request at a time."""
    view = _View(world, at, distortion)
    for _, pattern, write in _FILES:
        found = pattern.fullmatch(path)
        if found is not None:
            return write(view, int(found[1]), query)
    return _NOT_FOUND


def _treasury(view: _View, year: int, query: Query) -> FileReply:
    """A year's curves, newest first."""
    if query.get("type") != "daily_treasury_yield_curve":
        return _NOT_FOUND
    names = [
        name for name in TENORS if name != _SHORT_MATURITY or year >= _SHORT_MATURITY_SINCE.year
    ]
    if view.distortion.incomplete:
        names = [name for name in names if name not in _LOST_YIELDS]
    revised = view.newest_revised(view.world.curves)
    lines = []
    for index, curve in enumerate(view.world.curves(view.at)):
        if curve.day.year == year:
            shift = _YIELD_REVISION if index == revised else 0.0
            values = dict(zip(TENORS, curve.yields, strict=True))
            if curve.day < _SHORT_MATURITY_SINCE:
                values.pop(_SHORT_MATURITY)
            cells = [f"{values[name] + shift:.2f}" if name in values else "" for name in names]
            lines.append(",".join([f"{curve.day:%m/%d/%Y}", *cells]))
    lines.append(",".join(["Date", *(f'"{name}"' for name in names)]))
    return FileReply(HTTPStatus.OK, _CSV, "\n".join([*reversed(lines), ""]).encode())


def _sofr(view: _View, count: int, _query: Query) -> FileReply:
    return _rates(view, SOFR, view.world.sofr, count)


def _effr(view: _View, count: int, _query: Query) -> FileReply:
    return _rates(view, EFFR, view.world.effr, count)


def _rates(
    view: _View, kind: str, published: Callable[[int], list[OvernightRate]], count: int
) -> FileReply:
    """The last `count` days, newest first."""
    if not count:
        return FileReply(HTTPStatus.BAD_REQUEST, _JSON, b'{"error":"Bad Request"}')
    rows, revised = published(view.at), view.newest_revised(published)
    first = max(0, len(rows) - count)
    found = [
        _rate(view, kind, row, is_revised=index == revised)
        for index, row in enumerate(rows[first:], start=first)
    ]
    return FileReply(HTTPStatus.OK, _JSON, msgspec.json.encode({"refRates": found[::-1]}))


def _rate(view: _View, kind: str, row: OvernightRate, *, is_revised: bool) -> dict[str, object]:
    is_final = view.at >= sofr_revised_at(row.day)
    rate = row.rate if is_final else row.first
    marked = is_revised or (is_final and row.rate != row.first)
    member: dict[str, object] = {"effectiveDate": row.day.isoformat(), "type": kind}
    if not view.distortion.incomplete:
        member["percentRate"] = round(rate + (_RATE_REVISION if is_revised else 0.0), 2)
    for percentile, value in zip((1, 25, 75, 99), row.percentiles, strict=True):
        member[f"percentPercentile{percentile}"] = value
    if kind == EFFR:
        member |= {"targetRateFrom": row.low, "targetRateTo": row.high}
    member["volumeInBillions"] = row.volume
    member["revisionIndicator"] = "r" if marked else ""
    return member


def _fund(view: _View, _product: int, _query: Query) -> FileReply:
    """The newest day, whatever day the query names."""
    days = view.world.fund(view.at)
    newest = days[-1]
    if view.newest_revised(view.world.fund) == len(days) - 1:
        newest = _restated(newest)
    text = "\n".join(_fund_lines(newest, incomplete=view.distortion.incomplete))
    return FileReply(HTTPStatus.OK, _CSV, f"\ufeff{text}\n".encode())


def fund_history(world: MacroWorld, at: int, days: int) -> bytes:
    """The fund's last `days` days in the layout that `barograph macro import` reads."""
    lines = [
        f"{each.day},{each.shares},{each.coins},{each.net_assets}"
        for each in world.fund(at)[-days:]
    ]
    header = "date,shares_outstanding,holdings_btc,market_value_usd"
    return "\n".join([header, *lines, ""]).encode()


def _restated(fund: FundDay) -> FundDay:
    """The same day with more shares and correspondingly more coins."""
    shares = fund.shares + _REVISED_BASKETS * BASKET
    grown = shares / fund.shares
    return fund._replace(
        shares=shares,
        coins=round(fund.coins * grown, 5),
        coin_value=round(fund.coin_value * grown, 2),
    )


def _fund_lines(fund: FundDay, *, incomplete: bool) -> list[str]:
    known = {
        "Fund Holdings as of": f"{fund.day:%b %d, %Y}",
        "Inception Date": "Jan 05, 2024",
        "Shares Outstanding": f"{fund.shares:,.2f}",
        "Stock": "-",
        "Bond": "-",
        "Cash": "-",
        "Other": "-",
    }
    columns: Sequence[str] = _FUND_COLUMNS
    if incomplete:
        del known["Shares Outstanding"]
        columns = [name for name in columns if name != _LOST_CELL]
    return [
        "iShares Bitcoin Trust ETF",
        *(f'{name},"{value}"' for name, value in known.items()),
        _NOTHING,
        ",".join(columns),
        *(",".join(f'"{row.get(name, "-")}"' for name in columns) for row in _holdings(fund)),
        _NOTHING,
        '"Holdings are subject to change."',
    ]


def _holdings(fund: FundDay) -> list[dict[str, str]]:
    """The fund's coins and its little cash."""
    return [
        {"Ticker": "BTC", "Name": "BITCOIN", "Asset Class": "Alternative", "Market Currency": "BTC"}
        | _holding(fund, fund.coin_value, fund.coins),
        {"Ticker": "USD", "Name": "USD CASH", "Asset Class": "Cash", "Market Currency": "USD"}
        | _holding(fund, fund.cash, fund.cash),
    ]


def _holding(fund: FundDay, value: float, quantity: float) -> dict[str, str]:
    return {
        "Market Value": f"{value:,.2f}",
        "Weight (%)": f"{100 * value / fund.net_assets:.2f}",
        "Notional Value": f"{value:,.2f}",
        _LOST_CELL: f"{quantity:,.5f}",
    }


_Writer = Callable[[_View, int, Query], FileReply]
_FILES: Final[tuple[tuple[str, re.Pattern[str], _Writer], ...]] = (
    (
        TREASURY_FILE,
        re.compile(re.escape(TREASURY_PATH) + r"/(\d{4})/all", re.ASCII),
        _treasury,
    ),
    (SOFR_FILE, re.compile(r"/api/rates/secured/sofr/last/(\d{1,4})\.json", re.ASCII), _sofr),
    (EFFR_FILE, re.compile(r"/api/rates/unsecured/effr/last/(\d{1,4})\.json", re.ASCII), _effr),
    (FUND_FILE, re.compile(r"/us/products/(333011)/[^/]+/latest-holdings\.csv"), _fund),
)
