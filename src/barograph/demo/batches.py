"""Liquidations as the stream sends them."""

from typing import Final

import msgspec

from barograph.demo.world import World

SLOT: Final = 500
"""The exchange sends what happened every half second."""


def liquidation_messages(
    world: World, start: int, end: int, closed: frozenset[str] = frozenset()
) -> list[bytes]:
    """The stream's messages for a stretch of time: one for each contract and half second.

    https://bybit-exchange.github.io/docs/v5/websocket/public/all-liquidation
    """
    batches: dict[tuple[int, str], list[dict[str, object]]] = {}
    for time, symbol, side, size, price in world.liquidations(start, end):
        if symbol not in closed:
            row = {"T": time, "s": symbol, "S": side, "v": size, "p": price}
            batches.setdefault((time // SLOT, symbol), []).append(row)
    return [
        msgspec.json.encode(
            {
                "topic": f"allLiquidation.{symbol}",
                "type": "snapshot",
                "ts": (slot + 1) * SLOT,
                "data": rows,
            }
        )
        for (slot, symbol), rows in batches.items()
    ]
