"""Reference rates of the Federal Reserve Bank of New York: SOFR and EFFR, as JSON."""

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from barograph.errors import InvalidReply
from barograph.kit.clock import Clock
from barograph.macro.records import EFFR, EFFR_HIGH, EFFR_LOW, SOFR, Figure
from barograph.upstream.files import FileClient, plausible, refuse_days_ahead, today

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


_REPLY = msgspec.json.Decoder(_RatesReply)


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
        [each for row in rows for each in _figure(SOFR, row, row.percent_rate, source)]
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
    try:
        rows = _REPLY.decode(body).ref_rates
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidReply(f"the {kind} rates cannot be read: {error}") from error
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
