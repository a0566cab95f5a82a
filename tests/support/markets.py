"""Small markets for tests."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from barograph.venues.records import Liquidation, LongAccounts, Perpetual, Perpetuals
from support.clock import START

SOURCE = "test venue"
NEXT_FUNDING = START + 3_600_000

BTC = Perpetual("BTCUSDT", "BTC", 67_000.5, 0.01, 8, NEXT_FUNDING, 5_000_000_000.0)
ETH = Perpetual("ETHUSDT", "ETH", 3_500.25, -0.0125, 8, NEXT_FUNDING, 2_500_000_000.0)
SOL = Perpetual("SOLUSDT", "SOL", 180.1, 0.0, 8, NEXT_FUNDING, 0.0)
PEPE = Perpetual("1000PEPEUSDT", "1000PEPE", 0.012, 0.005, 4, NEXT_FUNDING, 90_000_000.0)
MARKET = (BTC, ETH, SOL, PEPE)


def reading(as_of: int = START, contracts: tuple[Perpetual, ...] = MARKET) -> Perpetuals:
    return Perpetuals(as_of, SOURCE, contracts)


def changed(perpetual: Perpetual, /, **fields: Any) -> Perpetual:
    return replace(perpetual, **fields)


def shares(at: int = START) -> list[LongAccounts]:
    return [
        LongAccounts("BTCUSDT", 61.5, at),
        LongAccounts("ETHUSDT", 55.0, at),
        LongAccounts("SOLUSDT", 0.0, at),
    ]


class Watcher:
    """Keeps the liquidations and spans that an exchange's stream reports."""

    def __init__(self) -> None:
        self.heard: list[Liquidation] = []
        self.spans: list[tuple[int, int]] = []

    def liquidated(self, liquidations: Sequence[Liquidation]) -> None:
        self.heard.extend(liquidations)

    def watched(self, start: int, end: int) -> None:
        self.spans.append((start, end))
