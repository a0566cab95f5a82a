"""Renders the market documents from a view of the market (pure)."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from barograph import NOTICE
from barograph.errors import UpstreamUnavailable
from barograph.kit.documents import JSON, Document, HotKey
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import Notice, WireModel
from barograph.markets.regime import BASIS, Label, describe
from barograph.markets.symbols import is_normalized
from barograph.markets.view import MarketView
from barograph.venues.records import MAJORS, LongAccounts, Perpetual

Symbol = Annotated[str, Field(description="Base asset or full contract name, in upper case.")]
Source = Annotated[str, Field(description="The venue of the data.")]
LastPrice = Annotated[
    float | None,
    Field(
        description="Price of the last trade, in USDT. At Hyperliquid, as `source` says, the mark "
        "price in USD."
    ),
]
FundingRatePct = Annotated[
    float | None,
    Field(
        description="The rate as the venue states it, in percent per `fundingIntervalHours`. If "
        "positive, longs pay shorts."
    ),
]
FundingRatePer8h = Annotated[
    float | None,
    Field(
        description="Current funding rate in percent per 8 hours, for every contract and venue. "
        "If positive, longs pay shorts."
    ),
]
NextFundingTime = Annotated[
    Annotated[int, Field(json_schema_extra={"format": "int64"})] | None,
    Field(description="The contract's next settlement, in milliseconds since the Unix epoch."),
]
OpenInterestUsd = Annotated[
    float | None,
    Field(description="Open interest in USD, single-sided; null if unknown or disputed."),
]
LongAccountPct = Annotated[
    float | None,
    Field(
        description="Share of accounts that are net long, in percent; null without a fresh sample."
    ),
]


class PerpetualRecord(WireModel):
    """One perpetual. When `available` is false every number is null."""

    source: Source
    notice: Notice
    symbol: Symbol
    available: bool
    lastPrice: LastPrice = None
    fundingRatePct: FundingRatePer8h = None
    nextFundingTime: NextFundingTime = None
    openInterestUsd: OpenInterestUsd = None
    longAccountPct: LongAccountPct = None


class AssetSnapshot(WireModel):
    """One of BTC, ETH and SOL. When `available` is false every number is null."""

    symbol: Symbol
    available: bool
    lastPrice: LastPrice = None
    fundingRatePct: FundingRatePer8h = None
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
    """Liquidations of one venue in the last 24 hours; null members if coverage is too low."""

    available: bool
    totalNotional: Annotated[float | None, Field(description="In USD.")] = None
    longPct: Annotated[
        float | None, Field(description="Share of longs, in percent of the total.")
    ] = None
    topAsset: Annotated[str | None, Field(description="Asset with the largest total.")] = None


class RegimeState(WireModel):
    """The market regime and its input."""

    label: Label
    basis: str
    note: str


class MarketState(WireModel):
    """The state of the market at `as_of`."""

    as_of: Annotated[str, Field(description="Time of the data.")]
    source: Source
    citation: Annotated[str, Field(description="Ready-made text to cite this snapshot.")]
    notice: Notice
    assets: list[SourcedAssetSnapshot]
    liq24h: Liq24h
    regime: RegimeState


DERIVATIVES_PATH = "/api/agent/derivatives"
MARKET_PATH = "/api/agent/market"
MARKET_STATE_PATH = "/api/agent/market-state"


def hot_documents(view: MarketView) -> dict[HotKey, Document]:
    """Render the popular documents: the snapshots and each perpetual by its asset."""
    documents: dict[HotKey, Document] = {}
    for perpetual in view.perpetuals.contracts:
        if not is_normalized(perpetual.base):
            continue  # not a valid `symbol`, so the front door must not serve it either
        document = derivatives_document(view, perpetual.base)
        documents[DERIVATIVES_PATH, b"symbol=" + perpetual.base.encode()] = document
        if perpetual.base == "BTC":
            documents[DERIVATIVES_PATH, b""] = document
    if has_majors(view):
        documents[MARKET_PATH, b""] = market_document(view)
        documents[MARKET_STATE_PATH, b""] = market_state_document(view)
    return documents


def derivatives_document(view: MarketView, symbol: str) -> Document:
    """Render one perpetual; an unknown symbol gives a record with `available` false."""
    perpetual = view.by_name.get(symbol)
    fields: dict[str, object] = {"source": view.perpetuals.source, "notice": NOTICE}
    fields |= _fields(view, symbol, perpetual)
    if perpetual is not None:
        fields["nextFundingTime"] = perpetual.next_funding_time
    shares = [] if perpetual is None else [view.share(perpetual.contract)]
    return fresh_document(view, PerpetualRecord.model_validate(fields).encode(), shares)


def market_document(view: MarketView) -> Document:
    """Render the snapshot of BTC, ETH and SOL.

    Raises:
        UpstreamUnavailable: none of the three is known.
    """
    assets = [AssetSnapshot.model_validate(fields) for fields in _asset_fields(view)]
    body = Market(source=view.perpetuals.source, notice=NOTICE, assets=assets)
    return fresh_document(view, body.encode(), _major_shares(view))


def market_state_document(view: MarketView) -> Document:
    """Render the consolidated market state.

    Raises:
        UpstreamUnavailable: none of BTC, ETH and SOL is known.
    """
    source = view.perpetuals.source
    as_of = iso_timestamp(view.perpetuals.as_of)
    body = MarketState(
        as_of=as_of,
        source=source,
        citation=citation(source, view.perpetuals.as_of),
        notice=NOTICE,
        assets=[
            SourcedAssetSnapshot.model_validate(fields | {"source": source})
            for fields in _asset_fields(view)
        ],
        liq24h=_liq24h(view),
        regime=_regime(view),
    )
    until = view.liquidations_until
    if view.regime is not None:
        until = min(until, view.regime.as_of + view.limits.perpetuals)
    return fresh_document(view, body.encode(), _major_shares(view), until)


def citation(source: str, as_of: int) -> str:
    """How to cite the market state of an instant."""
    moment = iso_timestamp(as_of)
    return f"Barograph, crypto market state as of {moment}. Source: {source}. {NOTICE}"


def has_majors(view: MarketView) -> bool:
    """Whether at least one of BTC, ETH and SOL is known."""
    return any(asset in view.by_name for asset in MAJORS)


def _asset_fields(view: MarketView) -> list[dict[str, object]]:
    if not has_majors(view):
        raise UpstreamUnavailable
    return [_fields(view, asset, view.by_name.get(asset)) for asset in MAJORS]


def _fields(view: MarketView, symbol: str, perpetual: Perpetual | None) -> dict[str, object]:
    if perpetual is None:
        return {"symbol": symbol, "available": False}
    share = view.share(perpetual.contract)
    return {
        "symbol": symbol,
        "available": True,
        "lastPrice": perpetual.last_price,
        "fundingRatePct": perpetual.funding_8h_pct,
        "openInterestUsd": perpetual.open_interest_usd,
        "longAccountPct": None if share is None else share.long_account_pct,
    }


def _major_shares(view: MarketView) -> list[LongAccounts | None]:
    known = (view.by_name.get(asset) for asset in MAJORS)
    return [view.share(major.contract) for major in known if major is not None]


def _liq24h(view: MarketView) -> Liq24h:
    totals = view.liquidations
    if totals is None:
        return Liq24h(available=False)
    return Liq24h(
        available=True,
        totalNotional=totals.total_usd,
        longPct=totals.long_pct,
        topAsset=totals.top_asset,
    )


def _regime(view: MarketView) -> RegimeState:
    if view.regime is None:
        return RegimeState(label="unknown", basis=BASIS, note="There is no recent regime reading.")
    return RegimeState(label=view.regime.label, basis=BASIS, note=describe(view.regime))


def fresh_document(
    view: MarketView,
    body: bytes,
    shares: Iterable[LongAccounts | None],
    until: int | None = None,
    *,
    content_type: bytes = JSON,
    compress: bool = False,
) -> Document:
    """A body that is valid until the first of its facts reaches its freshness limit."""
    until = view.until if until is None else until
    for share in shares:
        if share is not None:
            until = min(until, share.sampled_at + view.limits.long_accounts)
    return Document(
        body,
        since=view.now,
        until=until,
        modified=view.perpetuals.as_of,
        content_type=content_type,
        compress=compress,
    )
