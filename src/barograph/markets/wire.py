"""The bodies of the market endpoints, in the contract's names and order."""

from typing import Annotated

from pydantic import Field

from barograph.kit.wire import WireModel
from barograph.markets.regime import Label

Symbol = Annotated[str, Field(description="Base asset (or full contract name), in upper case.")]
Source = Annotated[str, Field(description="The venue that the data was taken from.")]
Notice = Annotated[str, Field(description="Information-only notice.")]
LastPrice = Annotated[float | None, Field(description="Price of the last trade, in USDT.")]
FundingRatePct = Annotated[
    float | None,
    Field(
        description="Rate of the contract's current funding interval, in percent. Positive: longs "
        "pay shorts."
    ),
]
OpenInterestUsd = Annotated[float | None, Field(description="Open interest in USD, single-sided.")]
LongAccountPct = Annotated[
    float | None,
    Field(description="Accounts that are net long, in percent; null while no sample is fresh."),
]


class PerpetualRecord(WireModel):
    """One perpetual. When `available` is false every number is null."""

    source: Source
    notice: Notice
    symbol: Symbol
    available: bool
    lastPrice: LastPrice = None
    fundingRatePct: FundingRatePct = None
    nextFundingTime: Annotated[
        int | None, Field(description="When that rate is settled, in epoch milliseconds.")
    ] = None
    openInterestUsd: OpenInterestUsd = None
    longAccountPct: LongAccountPct = None


class AssetSnapshot(WireModel):
    """One of BTC, ETH and SOL. When `available` is false every number is null."""

    symbol: Symbol
    available: bool
    lastPrice: LastPrice = None
    fundingRatePct: FundingRatePct = None
    openInterestUsd: OpenInterestUsd = None
    longAccountPct: LongAccountPct = None


class SourcedAssetSnapshot(AssetSnapshot):
    """An asset snapshot that names its venue."""

    source: Source


class Market(WireModel):
    """The funding and price snapshot of BTC, ETH and SOL."""

    source: Source
    notice: Notice
    assets: list[AssetSnapshot]


class Liq24h(WireModel):
    """Liquidations of one venue in the last 24 hours, or null members when too little was seen."""

    available: bool
    totalNotional: Annotated[float | None, Field(description="In USD.")] = None
    longPct: Annotated[
        float | None, Field(description="Liquidated longs, in percent of the total.")
    ] = None
    topAsset: Annotated[str | None, Field(description="Asset with the largest total.")] = None


class RegimeState(WireModel):
    """The regime of the market and what it rests on."""

    label: Label
    basis: str
    note: str


class MarketState(WireModel):
    """Everything known about the market at `as_of`."""

    as_of: Annotated[str, Field(description="Timestamp of the snapshot.")]
    source: Source
    citation: Annotated[str, Field(description="Ready-made text to cite this snapshot.")]
    notice: Notice
    assets: list[SourcedAssetSnapshot]
    liq24h: Liq24h
    regime: RegimeState
