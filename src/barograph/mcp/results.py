"""Results of tools that have more, or less, than the body of an endpoint (pure).

A client over HTTP reads the time in `Last-Modified`; a model never sees a header.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from barograph.kit.lists import position_in
from barograph.kit.timestamps import iso_timestamp
from barograph.markets.documents import derivatives_document, market_document
from barograph.markets.view import MarketView

SORTS = {
    "openInterest": "openInterestUsd",
    "funding": "fundingRatePct8h",
    "change": "priceChange24hPct",
}


def derivatives_result(view: MarketView, symbol: str) -> bytes:
    """The record of one perpetual."""
    body = msgspec.json.decode(derivatives_document(view, symbol).body)
    return msgspec.json.encode(
        {**body, **_funding(view, symbol), "as_of": iso_timestamp(view.perpetuals.as_of)}
    )


def market_result(view: MarketView) -> bytes:
    """The snapshot of BTC, ETH and SOL.

    Raises:
        UpstreamUnavailable: none of the three is known.
    """
    body = msgspec.json.decode(market_document(view).body)
    assets = [{**each, **_funding(view, each["symbol"])} for each in body["assets"]]
    return msgspec.json.encode(
        {**body, "assets": assets, "as_of": iso_timestamp(view.perpetuals.as_of)}
    )


def perpetuals_result(body: bytes, sort: str, limit: int, members: Iterable[str]) -> bytes:
    """These members of the perpetuals with the largest values of either sign."""
    listed = msgspec.json.decode(body)
    largest = sorted(listed["perpetuals"], key=lambda each: -abs(each[SORTS[sort]] or 0.0))
    rows = [{name: each[name] for name in members} for each in largest[:limit]]
    head = {name: listed[name] for name in ("as_of", "source", "notice")}
    return msgspec.json.encode({**head, "perpetuals": rows})


CROSS_MEMBERS = (
    *("as_of", "source", "notice", "coin", "totalOpenInterestUsd", "openInterestMissing"),
    *("weightedFundingRatePct8h", "fundingMissing", "fundingSpread", "liquidations24hAtLeastUsd"),
)
VENUE_MEMBERS = (
    *("venue", "state", "reason", "role", "inUse", "ageSeconds", "disputed", "priceKind", "quote"),
    *("longAccounts", "liquidations", "contracts", "contract", "pricePerCoin", "fundingRatePct8h"),
    *("fundingIntervalHours", "openInterestUsd", "weightPct", "liquidations24h"),
)


def cross_result(body: bytes) -> bytes:
    """What a model needs of a coin at all venues, or of the venues."""
    page = msgspec.json.decode(body)
    head = {name: page[name] for name in CROSS_MEMBERS if name in page}
    rows = [{name: each[name] for name in VENUE_MEMBERS if name in each} for each in page["venues"]]
    return msgspec.json.encode({**head, "venues": rows})


def page_result(body: bytes, members: Iterable[str]) -> bytes:
    """These members of a page of a list."""
    page = msgspec.json.decode(body)
    if "points" in page:  # a model can't open the address of the next page
        page["next_from"] = page["next"] and iso_timestamp(position_in(page["next"], int))
    return msgspec.json.encode({name: page[name] for name in members})


def _funding(view: MarketView, symbol: str) -> dict[str, Any]:
    found = view.by_name.get(symbol)
    return {
        "fundingIntervalHours": None if found is None else found.funding_interval_hours,
        "fundingRatePct8h": None if found is None else found.funding_8h_pct,
    }
