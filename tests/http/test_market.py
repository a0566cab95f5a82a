"""`/api/agent/market`: the snapshot of BTC, ETH and SOL."""

import pytest

from support.markets import BTC, ETH, MARKET, PEPE, SOL, reading
from support.service import Service

ASSET = ["symbol", "available", "lastPrice", "fundingRatePct", "openInterestUsd", "longAccountPct"]
BOTH = pytest.mark.parametrize("path", ["/api/agent/market", "/api/agent/market-state"])


@pytest.mark.contract("endpoints.market", "market.envelope", "market.assets.symbols")
@pytest.mark.contract("asset.symbol", "asset.available", "asset.last-price")
@pytest.mark.contract("asset.funding-rate-pct", "asset.open-interest-usd", "asset.long-account-pct")
@pytest.mark.contract("free.funding-and-price-snapshot")
def test_the_market_is_the_contracts_body_byte_for_byte(service: Service) -> None:
    answer = service.ask("/api/agent/market")

    assert answer.status == 200
    assert answer.body == (
        b'{"source":"test venue","notice":"Information only, not financial advice.","assets":['
        b'{"symbol":"BTC","available":true,"lastPrice":67000.5,"fundingRatePct":0.01,'
        b'"openInterestUsd":5000000000.0,"longAccountPct":61.5},'
        b'{"symbol":"ETH","available":true,"lastPrice":3500.25,"fundingRatePct":-0.0125,'
        b'"openInterestUsd":2500000000.0,"longAccountPct":55.0},'
        b'{"symbol":"SOL","available":true,"lastPrice":180.1,"fundingRatePct":0.0,'
        b'"openInterestUsd":0.0,"longAccountPct":0.0}]}'
    )


@pytest.mark.contract("market.assets.symbols", "market-state.assets")
@BOTH
def test_the_assets_keep_their_order_whatever_the_exchange_lists_first(
    service: Service, path: str
) -> None:
    service.publish(reading(contracts=MARKET[::-1]))

    assets = service.ask(path).json()["assets"]

    assert [asset["symbol"] for asset in assets] == ["BTC", "ETH", "SOL"]
    assert [asset["lastPrice"] for asset in assets] == [67_000.5, 3_500.25, 180.1]


@pytest.mark.contract("asset.available", "market.assets.symbols", "market-state.assets")
@BOTH
@pytest.mark.parametrize("missing", [BTC, ETH, SOL], ids=lambda contract: contract.base)
@pytest.mark.outcome(
    "One of BTC, ETH and SOL is missing at the exchange",
    "That asset is `available: false`; the others stay.",
)
def test_one_missing_major_is_not_available_and_the_others_are(
    service: Service, path: str, missing: object
) -> None:
    service.publish(reading(contracts=tuple(each for each in MARKET if each != missing)))

    answer = service.ask(path)

    assert answer.status == 200
    for asset, contract in zip(answer.json()["assets"], (BTC, ETH, SOL), strict=True):
        assert list(asset)[:6] == ASSET
        assert (asset["symbol"], asset["available"]) == (contract.base, contract != missing)
        if contract == missing:
            assert [asset[member] for member in ASSET[2:]] == [None] * 4
        else:
            assert asset["lastPrice"] == contract.last_price


@pytest.mark.contract("market.502", "market-state.502", "errors.502", "derivatives.available")
@BOTH
@pytest.mark.outcome(
    "BTC, ETH and SOL are all missing at the exchange",
    "`market` and `market-state` return 502.",
)
def test_market_is_502_without_any_major_and_other_perpetuals_are_still_served(
    service: Service, path: str
) -> None:
    service.publish(reading(contracts=(PEPE,)))

    answer = service.ask(path)
    others = [service.ask(f"/api/agent/derivatives?symbol={each}") for each in ("1000PEPE", "BTC")]

    assert (answer.status, list(answer.json())) == (502, ["error"])
    assert [(each.status, each.json()["available"]) for each in others] == [
        *((200, True), (200, False))
    ]
