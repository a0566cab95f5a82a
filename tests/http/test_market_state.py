"""`/api/agent/market`, a snapshot of BTC, ETH and SOL, and `/api/agent/market-state`."""

from pathlib import Path
from typing import Any

import pytest

from barograph.kit.timestamps import DAY
from barograph.venues.records import Liquidation
from support.clock import START
from support.markets import BTC, ETH, MARKET, PEPE, SOL, changed, reading
from support.service import Service, fresh_service

LIQ24H = ["available", "totalNotional", "longPct", "topAsset"]
UNAVAILABLE = dict.fromkeys(LIQ24H) | {"available": False}
ASSET = ["symbol", "available", "lastPrice", "fundingRatePct", "openInterestUsd", "longAccountPct"]
BOTH = pytest.mark.parametrize("path", ["/api/agent/market", "/api/agent/market-state"])


def state(service: Service) -> dict[str, Any]:
    body: dict[str, Any] = service.ask("/api/agent/market-state").json()
    return body


@pytest.mark.contract("endpoints.market-state", "free.consolidated-snapshot", "market-state.as-of")
@pytest.mark.contract("market-state.source", "market-state.citation", "market-state.notice")
@pytest.mark.contract("market-state.assets", "market-state.assets.source")
@pytest.mark.contract("market-state.liq24h.available", "market-state.liq24h.total-notional")
@pytest.mark.contract("market-state.liq24h.long-pct", "market-state.liq24h.top-asset")
@pytest.mark.contract("market-state.regime.label", "market-state.regime.basis")
@pytest.mark.contract("market-state.regime.note", "timestamps.as-of")
def test_the_market_state_is_the_contracts_body_byte_for_byte(empty_service: Service) -> None:
    empty_service.watch_day([Liquidation(START - 1_000, "BTCUSDT", "long", 2.0, 60_000.0)])
    empty_service.publish(reading(contracts=(BTC,)))

    assert empty_service.ask("/api/agent/market-state").body == (
        b'{"as_of":"2026-11-06T21:20:00.000Z","source":"test venue",'
        b'"citation":"Barograph, crypto market state as of 2026-11-06T21:20:00.000Z. '
        b'Source: test venue. Information only, not financial advice.",'
        b'"notice":"Information only, not financial advice.","assets":['
        b'{"symbol":"BTC","available":true,"lastPrice":67000.5,"fundingRatePct":0.01,'
        b'"openInterestUsd":5000000000.0,"longAccountPct":null,"source":"test venue"},'
        b'{"symbol":"ETH","available":false,"lastPrice":null,"fundingRatePct":null,'
        b'"openInterestUsd":null,"longAccountPct":null,"source":"test venue"},'
        b'{"symbol":"SOL","available":false,"lastPrice":null,"fundingRatePct":null,'
        b'"openInterestUsd":null,"longAccountPct":null,"source":"test venue"}],'
        b'"liq24h":{"available":true,"totalNotional":120000.0,"longPct":100.0,"topAsset":"BTC"},'
        b'"regime":{"label":"neutral","basis":"BTC perpetual funding rate",'
        b'"note":"BTC funding is +0.0100 % per 8 hours: near its resting rate; '
        b'neither side pays a notable premium."}}'
    )


@pytest.mark.contract("asset.last-price", "asset.funding-rate-pct", "asset.open-interest-usd")
@pytest.mark.contract("asset.long-account-pct", "market-state.assets.source")
def test_the_assets_are_those_of_the_market_each_with_its_source(service: Service) -> None:
    market = service.ask("/api/agent/market").json()

    assets = state(service)["assets"]

    assert assets == [{**asset, "source": market["source"]} for asset in market["assets"]]
    assert assets[2]["fundingRatePct"] == assets[2]["longAccountPct"] == 0


@pytest.mark.contract("timestamps.as-of", "market-state.as-of")
@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "00.000Z"), (7, "00.007Z"), (999, "00.999Z"), (10_050, "10.050Z")],
)
def test_as_of_has_milliseconds_and_a_z(service: Service, milliseconds: int, text: str) -> None:
    service.publish(reading(START + milliseconds))

    assert state(service)["as_of"] == "2026-11-06T21:20:" + text


@pytest.mark.contract("market-state.liq24h.available", "market-state.liq24h.total-notional")
@pytest.mark.contract("market-state.liq24h.long-pct", "market-state.liq24h.top-asset")
@pytest.mark.parametrize(
    ("liquidated", "sums"),
    [
        pytest.param([], (0.0, None, None), id="none"),
        pytest.param([("BTCUSDT", "short", 60_000.0)], (60_000.0, 0.0, "BTC"), id="only shorts"),
        pytest.param(
            [
                *(("BTCUSDT", "long", 60_000.0), ("ETHUSDT", "short", 70_000.0)),
                ("ETHUSDT", "long", 70_000.0),
            ],
            (200_000.0, 65.0, "ETH"),
            id="both sides",
        ),
    ],
)
def test_liquidations_of_a_watched_day_are_summed_by_side_and_asset(
    service: Service, liquidated: list[Any], sums: tuple[Any, ...]
) -> None:
    old = Liquidation(START - DAY - 1, "SOLUSDT", "long", 1_000_000.0, 100.0)
    events = [Liquidation(START - 1, coin, side, usd, 1.0) for coin, side, usd in liquidated]
    service.watch_day([old, *events])
    service.publish(reading())

    assert list(state(service)["liq24h"].items()) == [*zip(LIQ24H, (True, *sums), strict=True)]


@pytest.mark.contract("market-state.liq24h.available")
@pytest.mark.parametrize(
    ("watched_pct", "available"), [(0, False), (50, False), (94.99, False), (95, True), (99, True)]
)
def test_liquidations_need_95_percent_of_the_day_watched(
    empty_service: Service, watched_pct: float, available: bool
) -> None:
    if watched_pct:
        empty_service.judge.of("bybit").watched(START - round(DAY * watched_pct / 100), START)
    empty_service.judge.of("bybit").liquidated(
        [Liquidation(START - 1, "BTCUSDT", "long", 1.0, 60_000.0)]
    )
    empty_service.publish(reading())

    liq24h = state(empty_service)["liq24h"]

    assert list(liq24h) == LIQ24H
    assert (liq24h["available"] is True, liq24h == UNAVAILABLE) == (available, not available)


@pytest.mark.contract("market-state.liq24h.available")
def test_liquidation_totals_past_their_bound_are_unavailable_while_the_market_is_fresh(
    tmp_path: Path,
) -> None:
    with fresh_service(tmp_path, feed_max_age_seconds=120) as service:
        service.clock.pass_seconds(89.999)
        assert state(service)["liq24h"]["available"] is True

        service.clock.pass_seconds(0.001)
        assert state(service)["liq24h"] == UNAVAILABLE


@pytest.mark.contract("market-state.regime.label", "market-state.regime.note")
@pytest.mark.contract("regime.label-values")
@pytest.mark.parametrize(
    ("funding", "label"),
    [
        *((-0.05, "short-crowded"), (-0.01, "short-leaning"), (0.0, "neutral"), (0.01, "neutral")),
        *((0.02, "long-leaning"), (0.05, "long-crowded")),
    ],
)
def test_the_regime_is_named_from_the_btc_funding_rate_alone(
    empty_service: Service, funding: float, label: str
) -> None:
    loud = changed(ETH, funding_rate_pct=-funding * 9)
    empty_service.publish(reading(contracts=(changed(BTC, funding_rate_pct=funding), loud)))

    regime = state(empty_service)["regime"]

    assert list(regime) == ["label", "basis", "note"]
    assert regime["label"] == label
    assert f"{funding:+.4f} %" in regime["note"]


@pytest.mark.contract("market-state.regime.label", "regime.label-values")
@pytest.mark.outcome(
    "The exchange returns no BTC funding rate", "The regime becomes `unknown` at once."
)
def test_without_btc_the_regime_is_unknown_at_once(service: Service) -> None:
    service.publish(reading(contracts=(ETH, PEPE)))

    regime = state(service)["regime"]

    assert (regime["label"], regime["basis"]) == ("unknown", "BTC perpetual funding rate")
    assert regime["note"]


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
    "BTC, ETH or SOL is missing at the exchange",
    "That asset is `available: false`. With none of them, `market` and `market-state` return 502.",
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
    "BTC, ETH or SOL is missing at the exchange",
    "That asset is `available: false`. With none of them, `market` and `market-state` return 502.",
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
