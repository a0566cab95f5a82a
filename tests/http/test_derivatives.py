"""`/api/agent/derivatives`: one perpetual."""

from typing import Any

import pytest
from msgspec.structs import replace

from barograph import NOTICE
from support.markets import BTC, MARKET, NEXT_FUNDING, changed, reading
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


@pytest.mark.contract(
    "derivatives.funding-rate-pct", "derivatives.open-interest-usd", "derivatives.long-account-pct"
)
def test_zero_is_data(service: Service) -> None:
    body = record(service, "?symbol=SOL")

    assert body["available"] is True
    for member in ("fundingRatePct", "openInterestUsd", "longAccountPct"):
        assert body[member] == 0
        assert type(body[member]) is float


@pytest.mark.contract(
    "derivatives.available",
    "derivatives.symbol",
    "derivatives.notice",
    "derivatives.unavailable-shape",
)
def test_an_unknown_symbol_is_not_available_and_every_number_is_null(service: Service) -> None:
    body = record(service, "?symbol=nosuch")

    assert body["symbol"] == "NOSUCH"
    assert body["available"] is False
    assert body["source"] == "test venue"
    assert body["notice"] == NOTICE
    assert [body[member] for member in NUMBERS] == [None] * 5


@pytest.mark.contract("derivatives.available", "derivatives.long-account-pct")
def test_a_live_perpetual_without_a_sampled_share_is_available_without_it(service: Service) -> None:
    body = record(service, "?symbol=1000PEPE")

    assert body["available"] is True
    assert body["longAccountPct"] is None
    assert [body[member] for member in NUMBERS[:4]] == [0.012, 0.005, NEXT_FUNDING, 90_000_000]


@pytest.mark.contract("derivatives.available")
def test_a_perpetual_without_open_interest_keeps_its_price(service: Service) -> None:
    service.publish(reading(contracts=(changed(BTC, open_interest_usd=None), *MARKET[1:])))

    body = record(service)

    assert (body["available"], body["lastPrice"]) == (True, 67_000.5)
    assert body["openInterestUsd"] is None


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
