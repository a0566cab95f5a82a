"""Reads 24 hours of liquidations: by coin, the largest ones, and how complete they are."""

from itertools import pairwise

from barograph.kit.database import Transaction
from barograph.kit.timestamps import DAY
from barograph.markets.liquidation_records import watched_between
from barograph.markets.liquidations import Span, WatchedSpans
from barograph.markets.recorded_contracts import symbol_from
from barograph.markets.samples import LargeLiquidation, LiquidatedCoin, LiquidationDay

LARGEST = 20


async def liquidation_day(tx: Transaction, venue: str, start: int) -> LiquidationDay:
    """The liquidations of the 24 hours from `start`, which are kept for at least two days."""
    end = start + DAY
    sums = await sums_by_contract(tx, venue, start, end)
    coins = [LiquidatedCoin(symbol_from(venue, name), *sides) for name, sides in sums.items()]
    largest = await tx.fetch(_LARGEST, venue, start, end, LARGEST)
    watched = await watched_between(tx, venue, start, end)
    return LiquidationDay(
        start,
        end,
        tuple(sorted(coins, key=lambda each: (-each.total_usd, each.symbol))),
        tuple(
            LargeLiquidation(at, symbol_from(venue, contract), side, size * price, price)
            for at, contract, side, size, price in largest
        ),
        WatchedSpans(watched).pct_within(start, end),
        tuple(_gaps(watched, start, end)),
    )


async def sums_by_contract(
    tx: Transaction, venue: str, start: int, end: int
) -> dict[str, tuple[float, float]]:
    """Liquidated longs and shorts in USD, by the contract's full name."""
    rows = await tx.fetch(_BY_CONTRACT, venue, start, end)
    return {contract: (longs, shorts) for contract, longs, shorts in rows}


def _gaps(watched: list[Span], start: int, end: int) -> list[Span]:
    """The spans between the watched ones."""
    edges = pairwise([(start, start), *watched, (end, end)])
    return [(before[1], after[0]) for before, after in edges if before[1] < after[0]]


# As an expression, the contract doesn't mislead SQLite's planner to the index that begins with it.
_BY_CONTRACT = """
SELECT contract || '', SUM(CASE side WHEN 'long' THEN size * price ELSE 0.0 END),
    SUM(CASE side WHEN 'short' THEN size * price ELSE 0.0 END) FROM liquidations
WHERE venue = $1 AND at >= $2 AND at < $3 GROUP BY 1
"""
_LARGEST = """
SELECT at, contract, side, size, price FROM liquidations
WHERE venue = $1 AND at >= $2 AND at < $3
ORDER BY size * price DESC, at DESC, contract, side LIMIT $4
"""
