"""Interest rates of the United States: Treasury par yields, and SOFR and EFFR."""

import re
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Literal

from msgspec import Meta, Struct

from barograph.errors import InvalidReply, UnknownToUpstream
from barograph.kit.clock import Clock
from barograph.macro.records import EFFR, EFFR_HIGH, EFFR_LOW, SOFR, US2Y, US3M, US10Y, Figure
from barograph.upstream.files import (
    FileClient,
    column,
    csv_rows,
    number,
    plausible,
    refuse_days_ahead,
    today,
)
from barograph.venues.kit.cells import parse

TREASURY_PATH = "/resource-center/data-chart-center/interest-rates/daily-treasury-rates.csv"

TREASURY_SECONDS = 45.0
"""Timeout of one file. We have seen the Treasury take 19 seconds, so a retry would only add to its
load."""

_COLUMNS = {"3 Mo": US3M, "2 Yr": US2Y, "10 Yr": US10Y}
_ABSENT = ("", "N/A")
_DAY = re.compile(r"([0-9]{2})/([0-9]{2})/([0-9]{4})")

_YOUNG_UNTIL_MONTH = 4
"""Until then the year alone may be too short for the usual move, which needs 61 days."""

_EMPTY_UNTIL_DAY = 10
"""Until this day of January the file may be empty, and the last rows of the previous year may still
appear."""


class TreasuryYields:
    """The daily par yield curve, described at https://home.treasury.gov under interest rates."""

    name = "treasury"

    def __init__(self, files: FileClient, *, base_url: str, source: str, clock: Clock) -> None:
        self._files = files
        self._base_url = base_url
        self._source = source
        self._clock = clock
        self._stored_years: set[int] = set()

    async def read(self) -> list[Figure]:
        """Read the current year, and early in the year the previous one until it is stored."""
        present = today(self._clock)
        is_new = present.month == 1 and present.day <= _EMPTY_UNTIL_DAY
        figures = await self._year(present.year, may_be_empty=is_new)
        before = present.year - 1
        if is_new or (present.month <= _YOUNG_UNTIL_MONTH and before not in self._stored_years):
            figures = await self._year(before, may_be_empty=False) + figures
        refuse_days_ahead(figures, present)
        return figures

    def kept(self, figures: Sequence[Figure]) -> None:
        """Note which past years are stored, so that we don't read them again."""
        year = today(self._clock).year
        self._stored_years |= {int(figure.day[:4]) for figure in figures} - {year}

    async def _year(self, year: int, *, may_be_empty: bool) -> list[Figure]:
        try:
            body = await self._files.get(
                f"{self._base_url}{TREASURY_PATH}/{year}/all",
                {
                    "type": "daily_treasury_yield_curve",
                    "field_tdr_date_value": str(year),
                    "page": "",
                    "_format": "csv",
                },
                only_attempt=TREASURY_SECONDS,
            )
        except UnknownToUpstream:
            if may_be_empty:
                return []
            raise
        if may_be_empty and not body.strip():
            return []
        figures = decode_yields(body, year, self._source)
        if not figures and not may_be_empty:
            raise InvalidReply(f"the file of {year} has no yields")
        return figures


def decode_yields(body: bytes, year: int, source: str) -> list[Figure]:
    """Read one year's file by its header, because columns change; oldest day first.

    Raises:
        InvalidReply: a column is missing, or a row doesn't fit.
    """
    header, *rows = csv_rows(body) or [[]]
    day_column = column(header, "Date")
    columns = {column(header, name): series for name, series in _COLUMNS.items()}
    days: dict[str, list[Figure]] = {}
    for row in rows:
        if not any(row):
            continue
        if len(row) != len(header):
            raise InvalidReply(f"a row has {len(row)} cells under {len(header)} columns")
        day = _day(row[day_column], year)
        if day in days:
            raise InvalidReply(f"the file has {day} twice")
        days[day] = _figures(row, columns, day, source)
    return plausible([figure for day in sorted(days) for figure in days[day]])


def _day(cell: str, year: int) -> str:
    parts = _DAY.fullmatch(cell)
    if parts is None or int(parts[3]) != year:
        raise InvalidReply(f"{cell!r:.40} is not a day of {year} as MM/DD/YYYY")
    try:
        return date(year, int(parts[1]), int(parts[2])).isoformat()
    except ValueError as error:
        raise InvalidReply(f"{cell!r:.40} is not a day") from error


def _figures(row: Sequence[str], columns: dict[int, str], day: str, source: str) -> list[Figure]:
    return [
        Figure(series, day, _percent(row[place], series, day), source)
        for place, series in columns.items()
        if row[place].upper() not in _ABSENT
    ]


def _percent(cell: str, series: str, day: str) -> float:
    try:
        return number(cell)
    except ValueError as error:
        raise InvalidReply(f"{series} of {day}: {error}") from error


DAYS = 60
"""How many days to read: enough for a change over 20 days, and to see revisions."""

Rate = Literal["sofr", "effr"]
MaybePercent = float | Literal["NA", "N/A", ""] | None
"""The New York Fed writes `NA` for a value that it doesn't have."""

_PATHS: dict[Rate, str] = {
    "sofr": "/api/rates/secured/sofr/last",
    "effr": "/api/rates/unsecured/effr/last",
}


class _RateRow(Struct, rename="camel"):
    effective_date: Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    type: str
    percent_rate: MaybePercent
    target_rate_from: MaybePercent = None
    target_rate_to: MaybePercent = None
    revision_indicator: str = ""


class _RatesReply(Struct, rename="camel"):
    ref_rates: list[_RateRow]


class ReferenceRate:
    """One reference rate: https://markets.newyorkfed.org/static/docs/markets-api.html ."""

    def __init__(
        self,
        rate: Rate,
        files: FileClient,
        *,
        base_url: str,
        source: str,
        clock: Clock,
    ) -> None:
        self._rate = rate
        self._files = files
        self._address = f"{base_url}{_PATHS[rate]}/{DAYS}.json"
        self._source = source
        self._clock = clock

    @property
    def name(self) -> str:
        """The rate: SOFR and EFFR fail separately."""
        return self._rate

    async def read(self) -> list[Figure]:
        """Read the newest days; a revised rate replaces the first one."""
        decode = decode_sofr if self._rate == "sofr" else decode_effr
        figures = decode(await self._files.get(self._address), self._source)
        refuse_days_ahead(figures, today(self._clock))
        return figures


def decode_sofr(body: bytes, source: str) -> list[Figure]:
    """Read the Secured Overnight Financing Rate, oldest day first; raises `InvalidReply`."""
    rows = _rows(body, "SOFR")
    return plausible(
        [figure for row in rows for figure in _figure(SOFR, row, row.percent_rate, source)]
    )


def decode_effr(body: bytes, source: str) -> list[Figure]:
    """Read the Effective Federal Funds Rate and its target range; raises `InvalidReply`."""
    figures: list[Figure] = []
    for row in _rows(body, "EFFR"):
        low = _figure(EFFR_LOW, row, row.target_rate_from, source)
        high = _figure(EFFR_HIGH, row, row.target_rate_to, source)
        figures += _figure(EFFR, row, row.percent_rate, source)
        if low and high:  # a range with one unknown end is unknown
            if low[0].value > high[0].value:
                raise InvalidReply(f"the target range of {row.effective_date} ends below its start")
            figures += low + high
    return plausible(figures)


def _figure(series: str, row: _RateRow, value: MaybePercent, source: str) -> list[Figure]:
    """The figure, or nothing for a value that the New York Fed doesn't have."""
    if not isinstance(value, float):
        return []
    return [Figure(series, row.effective_date, value, source)]


def _rows(body: bytes, kind: str) -> Sequence[_RateRow]:
    rows = parse(body, _RatesReply, f"the {kind} rates").ref_rates
    if not any(isinstance(row.percent_rate, float) for row in rows):
        raise InvalidReply(f"the reply has no {kind} rate")
    by_day: dict[str, _RateRow] = {}
    for row in rows:
        _check(row, kind)
        other = by_day.get(row.effective_date)
        if other is not None and _is_revision(other) == _is_revision(row):
            raise InvalidReply(f"the reply has {kind} of {row.effective_date} twice")
        if other is None or _is_revision(row):
            by_day[row.effective_date] = row
    return [by_day[day] for day in sorted(by_day)]


def _check(row: _RateRow, kind: str) -> None:
    if row.type != kind:
        raise InvalidReply(f"asked for {kind} and got a rate of type {row.type[:20]!r}")
    try:
        date.fromisoformat(row.effective_date)
    except ValueError as error:
        raise InvalidReply(f"{row.effective_date} is not a day") from error


def _is_revision(row: _RateRow) -> bool:
    return bool(row.revision_indicator.strip())
