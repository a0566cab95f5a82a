"""Single liquidations by time, and the spans of time that were watched."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from barograph.errors import NotFound
from barograph.kit.database import Queryable, Value
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import WireModel
from barograph.markets.liquidations import Span, WatchedSpans
from barograph.markets.recorded_contracts import symbol_from
from barograph.markets.records import Side
from barograph.markets.venues import VENUES

LiquidationRow = tuple[int, str, str, float, float]
"""Time, contract, side, size and price: the order of the record, in which no two are equal."""


class LiquidationRecord(WireModel):
    """One liquidated position."""

    at: Annotated[str, Field(description="When the exchange liquidated it.")]
    symbol: Annotated[str, Field(description="The base asset, such as `BTC`.")]
    contract: Annotated[str, Field(description="The contract's full name, such as `BTCUSDT`.")]
    venue: Annotated[str, Field(description="The exchange, such as `bybit`.")]
    side: Annotated[Side, Field(description="The side of the position, not of the closing order.")]
    size: Annotated[float, Field(description="In coins; in units of 1,000 coins for 1000PEPE.")]
    price: Annotated[float, Field(description="In USDT. `priceKind` says which price.")]
    priceKind: Annotated[  # noqa: N815
        Literal["bankruptcy", "average fill"],
        Field(
            description="`bankruptcy`: the price at which the margin was used up. `average fill`: "
            "the average price at which the position was closed."
        ),
    ]
    usd: Annotated[float, Field(description="Size times price in USD, rounded to cents.")]


MEMBERS = tuple(LiquidationRecord.model_fields)


class WatchedSpan(WireModel):
    """A span of time in which we missed no liquidation."""

    since: Annotated[str, Field(alias="from")]
    to: str


def liquidation_venue(given: Mapping[str, str], venues: Sequence[str]) -> str:
    """The venue of a request, of those that an instance reads; by default the first.

    Raises:
        NotFound: it publishes no liquidations, or this instance doesn't read it.
    """
    known = [each for each in venues if VENUES[each].liquidations != "none"]
    venue = given.get("venue", venues[0])
    if venue in known:
        return venue
    if not known:
        raise NotFound("this instance reads no venue that publishes liquidations")
    problem = f"{venue} publishes no liquidations" if venue in venues else "unknown venue"
    raise NotFound(f"{problem}; choose one of {', '.join(known)}")


def before(at: int) -> LiquidationRow:
    """The place in the order before every liquidation of an instant."""
    return at, "", "", 0.0, 0.0


async def liquidations_after(
    queryable: Queryable,
    venue: str,
    place: LiquidationRow,
    end: int,
    limit: int,
    *,
    contract: str | None = None,
    side: str | None = None,
) -> list[LiquidationRow]:
    """The first liquidations after a place in the order and before `end`."""
    values: list[Value] = [venue, end, *place, limit]
    sql = _AFTER
    # No index begins with the side: as an expression it doesn't mislead SQLite's planner.
    for column, value in (("contract", contract), ("side || ''", side)):
        if value is not None:
            values.append(value)
            sql += f" AND {column} = ${len(values)}"
    return [row[:5] for row in await queryable.fetch(f"{sql} {_IN_ORDER}", *values)]


async def watched_between(
    queryable: Queryable, venue: str, start: int, end: int, kept_from: int = 0
) -> list[Span]:
    """The watched parts of a span, merged.

    Spans outlive the liquidations in them, which are kept from `kept_from` on. Nothing before it
    counts as watched: a deleted liquidation would look like none.
    """
    start = max(start, min(kept_from, end))
    rows = await queryable.fetch(_SPANS, venue, end, start)
    return WatchedSpans((first, last) for first, last in rows).within(start, end)


def as_values(venue: str, row: LiquidationRow) -> tuple[str | float, ...]:
    """The values of a `LiquidationRecord`."""
    at, contract, side, size, price = row
    usd = round(size * price * 100) / 100  # as in the sums of hours, so that they agree
    names = (symbol_from(venue, contract), contract, venue, side)
    return (iso_timestamp(at), *names, size, price, VENUES[venue].liquidation_price, usd)


def as_spans(spans: list[Span]) -> list[dict[str, str]]:
    """The members of `WatchedSpan`s."""
    return [{"from": iso_timestamp(start), "to": iso_timestamp(end)} for start, end in spans]


# `at >= $3` repeats what the comparison of rows says, in a form that both indexes serve.
_AFTER = """
SELECT at, contract, side, size, price FROM liquidations
WHERE venue = $1 AND at < $2 AND at >= $3
    AND (at, contract, side, size, price) > ($3, $4, $5, $6, $7)"""
_IN_ORDER = "ORDER BY at, contract, side, size, price LIMIT $8"
_SPANS = """
SELECT start_at, end_at FROM watched_spans WHERE venue = $1 AND start_at < $2 AND end_at > $3
"""
