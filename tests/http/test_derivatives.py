"""`/api/agent/derivatives`: one perpetual."""

from typing import Any

import pytest
from msgspec.structs import replace

from barograph import NOTICE
from support.markets import BTC, ETH, MARKET, NEXT_FUNDING, PEPE, SOL, changed, reading
from support.service import Service

MEMBERS = [
    *("source", "notice", "symbol", "available", "lastPrice", "fundingRatePct"),
    *("nextFundingTime", "openInterestUsd", "longAccountPct"),
]
NUMBERS = MEMBERS[4:]


def record(service: Service, query: str = "") -> dict[str, Any]:
    answer = service.ask(f"/api/agent/derivatives{query}")
    assert answer.status == 200
    body: dict[str, Any] = answer.json()
    assert list(body) == MEMBERS
    return body


@pytest.mark.contract(
    "endpoints.derivatives",
    "derivatives.body",
    "derivatives.source",
    "derivatives.notice",
    "derivatives.symbol",
    "derivatives.available",
    "derivatives.last-price",
    "derivatives.funding-rate-pct",
    "derivatives.next-funding-time",
    "derivatives.open-interest-usd",
    "derivatives.long-account-pct",
    "timestamps.next-funding-time",
    "free.derivatives-data",
)
def test_a_perpetual_is_the_contracts_record_byte_for_byte(service: Service) -> None:
    answer = service.ask("/api/agent/derivatives?symbol=BTC")

    assert answer.status == 200
    assert answer.body == (
        b'{"source":"test venue","notice":"Information only, not financial advice.",'
        b'"symbol":"BTC","available":true,"lastPrice":67000.5,"fundingRatePct":0.01,'
        b'"nextFundingTime":1794003600000,"openInterestUsd":5000000000.0,"longAccountPct":61.5}'
    )


@pytest.mark.parametrize(
    ("stated", "hours"), [(0.01, 8), (0.005, 4), (0.0025, 2), (0.00125, 1), (0.03, 24)]
)
def test_the_rate_of_agents_is_per_8_hours_whatever_the_interval(
    service: Service, stated: float, hours: float
) -> None:
    btc = changed(BTC, funding_rate_pct=stated, funding_interval_hours=hours)
    service.publish(reading(contracts=(btc, ETH, SOL, PEPE)))
    market, state = (
        service.ask(f"/api/agent/{each}").json() for each in ("market", "market-state")
    )

    for told in (record(service), market["assets"][0], state["assets"][0]):
        assert told["fundingRatePct"] == 0.01  # exactly
    full = service.ask("/api/v1/perpetuals/BTC").json()
    names = ("fundingRatePct", "fundingIntervalHours", "fundingRatePct8h")
    assert [full[name] for name in names] == [stated, hours, 0.01]
    assert full["nextFundingTime"] == record(service)["nextFundingTime"] == NEXT_FUNDING


@pytest.mark.contract(
    "derivatives.available",
    "derivatives.symbol",
    "derivatives.notice",
    "derivatives.unavailable-shape",
    "derivatives.funding-rate-pct",
    "derivatives.open-interest-usd",
    "derivatives.long-account-pct",
)
@pytest.mark.parametrize(
    ("symbol", "numbers"),
    [
        pytest.param("nosuch", [None] * 5, id="unknown"),
        pytest.param("SOL", [180.1, 0.0, NEXT_FUNDING, 0.0, 0.0], id="zero is data"),
        pytest.param("1000PEPE", [0.012, 0.01, NEXT_FUNDING, 9e7, None], id="without a share"),
        pytest.param("ETH", [3_500.25, -0.0125, NEXT_FUNDING, None, 55.0], id="no open interest"),
    ],
)
def test_a_number_that_is_unknown_is_null_and_only_a_listed_perpetual_is_available(
    service: Service, symbol: str, numbers: list[float | None]
) -> None:
    service.publish(reading(contracts=(BTC, changed(ETH, open_interest_usd=None), SOL, PEPE)))

    body = record(service, f"?symbol={symbol}")

    assert (body["symbol"], body["available"]) == (symbol.upper(), symbol != "nosuch")
    assert (body["source"], body["notice"]) == ("test venue", NOTICE)
    assert [body[member] for member in NUMBERS] == numbers
    assert [type(body[member]) for member in NUMBERS] == [type(number) for number in numbers]


@pytest.mark.contract("free.derivatives-data", "derivatives.available")
def test_every_live_perpetual_is_served_and_a_delisted_one_not_any_more(service: Service) -> None:
    contracts = [
        changed(BTC, contract=f"C{n}USDT", base=f"C{n}", last_price=float(n)) for n in range(1, 61)
    ]
    service.publish(reading(contracts=(*MARKET[:3], *contracts)))

    for contract in contracts:
        body = record(service, f"?symbol={contract.base}")
        assert (body["symbol"], body["available"]) == (contract.base, True)
        assert body["lastPrice"] == contract.last_price
    assert record(service, "?symbol=1000PEPE")["available"] is False


@pytest.mark.contract("derivatives.symbol")
@pytest.mark.parametrize(
    ("given", "echoed", "price"),
    [
        ("BTCUSDT", "BTCUSDT", 67_000.5),
        ("btcusdt", "BTCUSDT", 67_000.5),
        ("1000pepe", "1000PEPE", 0.012),
        ("1000PepeUsdt", "1000PEPEUSDT", 0.012),
    ],
)
def test_a_full_name_is_understood_and_echoed_in_upper_case(
    service: Service, given: str, echoed: str, price: float
) -> None:
    body = record(service, f"?symbol={given}")

    assert (body["symbol"], body["available"], body["lastPrice"]) == (echoed, True, price)


@pytest.mark.contract("derivatives.source", "free.derivatives-data")
@pytest.mark.parametrize("path", ["derivatives", "derivatives?symbol=NOSUCH", "market"])
def test_the_source_is_the_venue_in_use(service: Service, path: str) -> None:
    service.publish(replace(reading(), source="another venue · public data"))

    answer = service.ask(f"/api/agent/{path}")

    assert answer.json()["source"] == "another venue · public data"
    assert "another venue · public data".encode() in answer.body
