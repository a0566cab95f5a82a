"""Single liquidations by time, each with its place in the order of the record."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from msgspec.structs import astuple
from pydantic import Field

from barograph.kit.csv_table import cell
from barograph.kit.database import Queryable, Value
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import WireModel
from barograph.markets.liquidations import Span, WatchedSpans
from barograph.markets.records import VENUE, Liquidation, Side

COLUMNS = "at,symbol,contract,venue,side,size,price,priceKind,usd"
QUOTES = ("USDT", "USDC", "PERP", "USD")
"""How the names of contracts end, after the base asset."""

_CENTS = 100

Position = tuple[int, str, str, float, float]
"""Time, contract, side, size and price: the order of the record, in which no two are equal."""


class LiquidationRecord(WireModel):
    """One liquidated position."""

    at: Annotated[str, Field(description="When the exchange liquidated it.")]
    symbol: Annotated[str, Field(description="The base asset, such as `BTC`.")]
    contract: Annotated[str, Field(description="The contract's full name, such as `BTCUSDT`.")]
    venue: Annotated[str, Field(description="The exchange, such as `bybit`.")]
    side: Annotated[
        Side, Field(description="The side of the position, not of the order that closed it.")
    ]
    size: Annotated[float, Field(description="In coins of the base asset.")]
    price: Annotated[float, Field(description="In USDT; `priceKind` says which price.")]
    priceKind: Annotated[  # noqa: N815
        Literal["bankruptcy"],
        Field(description="`bankruptcy`: the price at which the position's margin was used up."),
    ]
    usd: Annotated[float, Field(description="Size times price, in USD, rounded to cents.")]


class WatchedSpan(WireModel):
    """A span of time in which we missed no liquidation."""

    since: Annotated[str, Field(alias="from")]
    to: str


class Wanted(NamedTuple):
    """Which liquidations are wanted; None for all."""

    contract: str | None = None
    side: Side | None = None


def start_of(at: int) -> Position:
    """The position before every liquidation of an instant."""
    return at, "", "", 0.0, 0.0


def position_of(event: Liquidation) -> Position:
    """The position of a liquidation."""
    position: Position = astuple(event)
    return position


async def liquidations_after(
    queryable: Queryable, position: Position, end: int, wanted: Wanted, limit: int
) -> list[Liquidation]:
    """The first liquidations after a position and before `end`, oldest first."""
    values: list[Value] = [VENUE, end, *position]
    sql = _AFTER
    for column, value in wanted._asdict().items():
        if value is not None:
            values.append(value)
            sql += f" AND {column} = ${len(values)}"
    rows = await queryable.fetch(f"{sql} {_ORDER} LIMIT ${len(values) + 1}", *values, limit)
    return [Liquidation(*row) for row in rows]


async def watched_between(queryable: Queryable, start: int, end: int) -> list[Span]:
    """The watched parts of a span, merged."""
    rows = await queryable.fetch(_SPANS, VENUE, end, start)
    return WatchedSpans((first, last) for first, last in rows).within(start, end)


async def recorded_contract(queryable: Queryable, symbol: str) -> str | None:
    """The contract of a symbol or full name that may not be listed any more."""
    for name in (symbol, *(symbol + quote for quote in QUOTES)):
        if await queryable.fetch(_RECORDED, VENUE, name):
            return name
    return None


def symbol_from(contract: str, bases: Mapping[str, str]) -> str:
    """The base asset: as listed, or from the contract's name if it is not listed any more."""
    if contract in bases:
        return bases[contract]
    stems = (contract.removesuffix(quote) for quote in QUOTES)
    return next((stem for stem in stems if stem and stem != contract), contract)


def as_members(event: Liquidation, bases: Mapping[str, str]) -> dict[str, Any]:
    """The members of a `LiquidationRecord`."""
    return {
        "at": iso_timestamp(event.at),
        "symbol": symbol_from(event.contract, bases),
        "contract": event.contract,
        "venue": VENUE,
        "side": event.side,
        "size": event.size,
        "price": event.price,
        "priceKind": "bankruptcy",
        # Whole cents, as in the sums of hours and days: the parts add up to them.
        "usd": round(event.notional_usd * _CENTS) / _CENTS,
    }


def as_cells(event: Liquidation, bases: Mapping[str, str]) -> str:
    """The same as a row of CSV."""
    members = as_members(event, bases).values()
    return ",".join(each if isinstance(each, str) else cell(each) for each in members)


def span_members(spans: list[Span]) -> list[dict[str, str]]:
    """Spans as `WatchedSpan`s."""
    return [{"from": iso_timestamp(start), "to": iso_timestamp(end)} for start, end in spans]


# `at >= $3` repeats what the comparison of rows says, in a form that every index can serve.
_AFTER = """
SELECT at, contract, side, size, price FROM liquidations
WHERE venue = $1 AND at < $2 AND at >= $3
    AND (at, contract, side, size, price) > ($3, $4, $5, $6, $7)"""
_ORDER = "ORDER BY at, contract, side, size, price"
_SPANS = """
SELECT start_at, end_at FROM watched_spans WHERE venue = $1 AND start_at < $2 AND end_at > $3
"""
_RECORDED = """
SELECT 1 FROM liquidations WHERE venue = $1 AND contract = $2 LIMIT 1
"""
