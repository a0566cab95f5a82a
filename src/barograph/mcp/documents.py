"""Results of tools that have more, or less, than the body of an endpoint (pure).

A client over HTTP reads the time in `Last-Modified`; a model never sees a header.
"""

from typing import Any

import msgspec
from pydantic import ConfigDict

from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import Notice, WireModel
from barograph.markets.documents import (
    AssetSnapshot,
    PerpetualRecord,
    Source,
    derivatives_document,
    market_document,
)
from barograph.markets.view import MarketView


class Derivatives(PerpetualRecord):
    """One perpetual with its funding interval."""

    fundingIntervalHours: float | None
    fundingRatePct8h: float | None
    as_of: str


class MarketAsset(AssetSnapshot):
    """One of BTC, ETH and SOL with its funding interval."""

    fundingIntervalHours: float | None
    fundingRatePct8h: float | None


class MarketSnapshot(WireModel):
    """BTC, ETH and SOL at `as_of`."""

    source: Source
    notice: Notice
    assets: list[MarketAsset]
    as_of: str


class PerpetualRow(WireModel):
    """One perpetual, with the numbers that contracts are compared by."""

    symbol: str
    lastPrice: float
    priceChange24hPct: float | None
    fundingRatePct8h: float
    fundingIntervalHours: float
    openInterestUsd: float | None
    openInterestChange24hPct: float | None
    longAccountPct: float | None


class PerpetualRows(WireModel):
    """The first perpetuals in some order."""

    as_of: str
    source: str
    notice: str
    perpetuals: list[PerpetualRow]


SORTS = {
    "openInterest": "openInterestUsd",
    "funding": "fundingRatePct8h",
    "change": "priceChange24hPct",
}


class EventEntry(WireModel):
    """One event; the members after `at` depend on its type."""

    model_config = ConfigDict(extra="allow")

    id: int
    type: str
    at: str


class Events(WireModel):
    """A page of the log."""

    as_of: str
    source: str
    notice: str
    events: list[EventEntry]
    next: str | None


class Point(WireModel):
    """One point of a series; it may have more members."""

    model_config = ConfigDict(extra="allow")

    at: str
    value: Any
    origin: str | None
    watched: float | None


class Series(WireModel):
    """A page of a series."""

    as_of: str
    source: str
    notice: str
    unit: str
    points: list[Point]
    next: str | None


def derivatives_result(view: MarketView, symbol: str) -> bytes:
    """The record of one perpetual."""
    body = msgspec.json.decode(derivatives_document(view, symbol).body)
    return msgspec.json.encode({**body, **_funding(view, symbol), **_time(view)})


def market_result(view: MarketView) -> bytes:
    """The snapshot of BTC, ETH and SOL.

    Raises:
        UpstreamUnavailable: none of the three is known.
    """
    body = msgspec.json.decode(market_document(view).body)
    assets = [{**each, **_funding(view, each["symbol"])} for each in body["assets"]]
    return msgspec.json.encode({**body, "assets": assets, **_time(view)})


def perpetuals_result(body: bytes, sort: str, limit: int) -> bytes:
    """The perpetuals with the largest values of either sign, of the body of their list."""
    listed = msgspec.json.decode(body)
    largest = sorted(listed["perpetuals"], key=lambda each: -abs(each[SORTS[sort]] or 0.0))
    rows = [{name: each[name] for name in PerpetualRow.model_fields} for each in largest[:limit]]
    head = {name: listed[name] for name in ("as_of", "source", "notice")}
    return msgspec.json.encode({**head, "perpetuals": rows})


def page_result(body: bytes, result: type[WireModel]) -> bytes:
    """The members of a page that the result of its tool has."""
    page = msgspec.json.decode(body)
    return msgspec.json.encode({name: page[name] for name in result.model_fields})


def _funding(view: MarketView, symbol: str) -> dict[str, Any]:
    found = view.by_name.get(symbol)
    return {
        "fundingIntervalHours": None if found is None else found.funding_interval_hours,
        "fundingRatePct8h": None if found is None else found.funding_8h_pct,
    }


def _time(view: MarketView) -> dict[str, Any]:
    return {"as_of": iso_timestamp(view.perpetuals.as_of)}
