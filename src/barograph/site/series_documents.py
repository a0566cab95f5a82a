"""The downloads of recorded data (pure): a series as JSON or as CSV."""

from typing import Annotated, Literal

from pydantic import Field
from starlette.datastructures import QueryParams

from barograph import NOTICE
from barograph.errors import InvalidRequest
from barograph.kit.csv_table import CSV, cell, table
from barograph.kit.documents import JSON
from barograph.kit.timestamps import SECOND, iso_timestamp
from barograph.kit.wire import Notice, WireModel
from barograph.markets.documents import Source, Symbol
from barograph.markets.records import Origin
from barograph.markets.samples import (
    DAYS,
    DEFAULT_DAYS,
    LiquidationSeries,
    Measure,
    Point,
    Series,
    labels_of,
)
from barograph.site.paths import CHART_FOLDER, DATA_FOLDER
from barograph.site.responses import Page

LIQUIDATIONS = "liquidations"

Form = Literal["json", "csv"]

INVALID_DAYS = f"days must be one of {', '.join(map(str, DAYS))}, given once"

At = Annotated[str, Field(description="Time, a multiple of `interval_seconds`.")]
Interval = Annotated[int, Field(description="Seconds between two points.")]
Days = Annotated[int, Field(description="Number of days in the series.")]
AsOf = Annotated[str, Field(description="When the record was read, to the minute.")]
LiquidatedUsd = Annotated[float | None, Field(description="In USD; null without coverage.")]


class SeriesPoint(WireModel):
    """One sample."""

    at: At
    value: Annotated[float | None, Field(description="Null if nothing was recorded.")]
    origin: Annotated[
        Origin | None,
        Field(
            description="`measured` by this service, or `backfilled` from the exchange's own "
            "history. Null without a value. Back-filled funding is the last settled rate."
        ),
    ]


class RecordedSeries(WireModel):
    """One recorded measure of one contract."""

    source: Source
    notice: Notice
    symbol: Symbol
    measure: Measure
    unit: Annotated[str, Field(description="The unit of every value.")]
    interval_seconds: Interval
    days: Days
    as_of: AsOf
    points: list[SeriesPoint]


class LiquidationPoint(WireModel):
    """Liquidations in one interval, which starts at `at`."""

    at: At
    long_usd: LiquidatedUsd
    short_usd: LiquidatedUsd
    watched_pct: Annotated[
        float,
        Field(
            description="Coverage: the share of the elapsed interval in which the service received "
            "every liquidation, in percent."
        ),
    ]
    partial: Annotated[
        bool,
        Field(
            description="Whether the amounts may be too low: low coverage, or an interval in "
            "progress."
        ),
    ]


class RecordedLiquidations(WireModel):
    """Recorded liquidations of all contracts of one venue."""

    source: Source
    notice: Notice
    measure: Literal["liquidations"]
    unit: Annotated[str, Field(description="The unit of every amount.")]
    interval_seconds: Interval
    days: Days
    as_of: Annotated[str, Field(description="The last recorded minute.")]
    points: list[LiquidationPoint]


def data_path(symbol: str, measure: Measure, days: int, form: Form) -> str:
    """The path and query of a series."""
    return f"{DATA_FOLDER}{symbol}/{measure}.{form}?days={days}"


def liquidations_path(days: int, form: Form) -> str:
    """The path and query of the liquidations."""
    return f"{DATA_FOLDER}{LIQUIDATIONS}.{form}?days={days}"


def image_path(name: str, days: int) -> str:
    """The path and query of a chart as an image, such as `/chart/BTC/funding.svg?days=7`."""
    return f"{CHART_FOLDER}{name}.svg?days={days}"


def days_from_query(query: QueryParams) -> int:
    """The parameter `days`.

    Raises:
        InvalidRequest: it is not one of `DAYS`, or is repeated.
    """
    given = query.getlist("days")
    if not given:
        return DEFAULT_DAYS
    known = {str(days): days for days in DAYS}
    if len(given) > 1 or given[0] not in known:
        raise InvalidRequest(INVALID_DAYS)
    return known[given[0]]


def days_query(days: int) -> bytes:
    """The canonical query for a number of days."""
    return b"" if days == DEFAULT_DAYS else b"days=%d" % days


def series_document(series: Series, symbol: str, source: str, form: Form) -> Page:
    """One measure of one contract."""
    name = f"{symbol}-{series.measure}-{series.days}d"
    labels = labels_of(series.measure, series.venue)
    if form == "csv":
        rows = [
            f"{iso_timestamp(each.at)},{cell(each.value)},{_origin(each) or ''}"
            for each in series.points
        ]
        header = f"at,{labels.column},origin"
        return _download(table(header, rows, source), CSV, f"{name}.csv")
    body = RecordedSeries(
        source=source,
        notice=NOTICE,
        symbol=symbol,
        measure=series.measure,
        unit=labels.unit,
        interval_seconds=series.interval // SECOND,
        days=series.days,
        as_of=iso_timestamp(series.as_of),
        points=[
            SeriesPoint(at=iso_timestamp(each.at), value=each.value, origin=_origin(each))
            for each in series.points
        ],
    )
    return _download(body.encode(), JSON, f"{name}.json")


def liquidations_document(series: LiquidationSeries, source: str, form: Form) -> Page:
    """The liquidations of all contracts."""
    name = f"{LIQUIDATIONS}-{series.days}d"
    if form == "csv":
        rows = [
            f"{iso_timestamp(each.at)},{cell(each.long_usd)},{cell(each.short_usd)},"
            f"{cell(each.watched_pct)},{'true' if each.partial else 'false'}"
            for each in series.columns
        ]
        header = "at,long_usd,short_usd,watched_pct,partial"
        return _download(table(header, rows, source), CSV, f"{name}.csv")
    body = RecordedLiquidations(
        source=source,
        notice=NOTICE,
        measure="liquidations",
        unit="USD",
        interval_seconds=series.interval // SECOND,
        days=series.days,
        as_of=iso_timestamp(series.as_of),
        points=[
            LiquidationPoint.model_validate(each._asdict() | {"at": iso_timestamp(each.at)})
            for each in series.columns
        ],
    )
    return _download(body.encode(), JSON, f"{name}.json")


def _origin(point: Point) -> Origin | None:
    if point.value is None:
        return None
    return "backfilled" if point.is_backfilled else "measured"


def _download(body: bytes, content_type: bytes, filename: str) -> Page:
    disposition = f'inline; filename="barograph-{filename}"'.encode()
    return Page(
        body, content_type=content_type, fields=[(b"content-disposition", disposition)], security=[]
    )
