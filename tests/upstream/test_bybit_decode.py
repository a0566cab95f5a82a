"""Bybit's replies as records."""

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barograph.errors import InvalidReply, UnknownToUpstream
from barograph.venues.bybit.decode import (
    contracts_of,
    decode_announcement,
    decode_instruments,
    decode_tickers,
    decode_time,
)
from barograph.venues.bybit.history import decode_rates, decode_ratios
from barograph.venues.bybit.messages import (
    MAX_ARGS_CHARACTERS,
    Pong,
    decode_message,
    topics_by_connection,
)
from barograph.venues.kit.cells import UnreadableError, moment, number, percent
from barograph.venues.kit.contract_cache import Contract
from barograph.venues.kit.past_pages import newest_share
from barograph.venues.records import Perpetual

REPLIES = Path(__file__).parent / "bybit_replies"

AT = 1_794_787_212_345
KEPT = {
    "1000000BABYDOGEUSDT": Contract("1000000BABYDOGE", 4.0),
    "1000PEPEUSDT": Contract("1000PEPE", 4.0),
    "BTCUSDT": Contract("BTC", 8.0),
    "ETHUSDT": Contract("ETH", 8.0),
    "SHIB1000USDT": Contract("SHIB1000", 8.0),
    "SOLUSDT": Contract("SOL", 8.0),
}


def _result(name: str) -> Any:
    return json.loads((REPLIES / name).read_bytes())["result"]


def _tickers(**changes: Mapping[str, object]) -> bytes:
    """The stored tickers with some rows changed; a field changed to `...` is taken out."""
    result = _result("tickers.json")
    for row in result["list"]:
        row.update(changes.get(row["symbol"], {}))
        for field in [field for field, value in row.items() if value is ...]:
            del row[field]
    return msgspec.json.encode(result)


def _names(result: bytes) -> set[str]:
    return set(decode_tickers(result, KEPT, AT).perpetuals)


def test_only_trading_usdt_perpetuals_are_kept() -> None:
    page = decode_instruments(msgspec.json.encode(_result("instruments.json")))
    assert contracts_of([page]).kept == KEPT
    assert {"BIOUSDT", "BTCPERP", "BTCUSDT-25DEC26", "LUNA2USDT"} <= page.symbols
    assert page.cursor == ""


def test_every_kept_contract_becomes_a_perpetual() -> None:
    tickers = decode_tickers(_tickers(), KEPT, AT)
    by_name = tickers.perpetuals
    assert by_name.keys() == KEPT.keys()
    assert by_name["1000PEPEUSDT"] == Perpetual(
        contract="1000PEPEUSDT",
        base="1000PEPE",
        last_price=0.0071385,
        funding_rate_pct=0.005,
        funding_interval_hours=4.0,
        next_funding_time=1794801600000,
        open_interest_usd=81234567.0912,
        open_interest_coins=11379781059.214,
        coin="PEPE",
        multiplier=1000,
        mark_price=0.0071385,
        index_price=0.0071385,
        volume_24h_usd=2352265.113,
        volume_24h_coins=329518121.8743,
    )
    assert by_name["SHIB1000USDT"].funding_rate_pct == 0.0
    assert {"BIOUSDT", "BTC-25DEC26"} <= tickers.symbols


@pytest.mark.parametrize("value", [..., "", None, "n/a", "-1", "1000000000001"])
def test_without_the_single_sided_value_open_interest_is_unknown_and_the_price_stays(
    value: object,
) -> None:
    found = decode_tickers(_tickers(BTCUSDT={"singleOpenInterestValue": value}), KEPT, AT)
    bitcoin = found.perpetuals["BTCUSDT"]
    assert (bitcoin.last_price, bitcoin.open_interest_usd) == (94230.4, None)
    assert found.refused.get("openInterestUsd", []) == ["BTCUSDT"] * (
        value in ("-1", "1000000000001")
    )


@pytest.mark.parametrize(
    ("coins", "is_known"), [("24", True), ("5", True), ("0", False), ("240", False), ("2.4", False)]
)
def test_volumes_whose_units_do_not_fit_each_other_are_unknown(coins: str, is_known: bool) -> None:
    found = decode_tickers(_tickers(BTCUSDT={"volume24h": coins}), KEPT, AT)
    bitcoin = found.perpetuals["BTCUSDT"]

    assert (bitcoin.volume_24h_usd, bitcoin.volume_24h_coins) == (
        (2352265.113, float(coins)) if is_known else (None, None)
    )
    assert ("volume24hUsd" in found.refused) == (not is_known)


@pytest.mark.parametrize("hours", [2.0, None])
def test_a_ticker_without_a_funding_interval_has_that_of_the_list_or_is_left_out(
    hours: float | None,
) -> None:
    kept = {**KEPT, "SOLUSDT": Contract("SOL", hours)}
    found = decode_tickers(_tickers(), kept, AT).perpetuals.get("SOLUSDT")
    assert (found and found.funding_interval_hours) == hours


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("fundingRate", ""),
        ("fundingRate", "abc"),
        ("fundingRate", 0.0001),
        ("lastPrice", "NaN"),
        ("lastPrice", "Infinity"),
        ("lastPrice", "0"),
        ("lastPrice", "-1"),
        ("lastPrice", "1_000"),
        ("lastPrice", "\u0661"),
        ("lastPrice", "1\n"),
        ("lastPrice", "9" * 400),
        ("lastPrice", None),
        ("nextFundingTime", "0"),
        ("nextFundingTime", "1794816000"),
        ("nextFundingTime", "soon"),
    ],
)
def test_a_kept_contract_with_a_broken_field_is_left_out_and_no_other(
    field: str, value: object
) -> None:
    assert _names(_tickers(ETHUSDT={field: value})) == KEPT.keys() - {"ETHUSDT"}


HUGE = "9" * 40 + "e99"


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("lastPrice", HUGE, "lastPrice"),
        ("lastPrice", "100000000.1", "lastPrice"),
        ("lastPrice", "1e-13", "lastPrice"),
        ("fundingRate", HUGE, "fundingRatePct"),
        ("fundingRate", "-0.2501", "fundingRatePct"),
        ("fundingIntervalHour", "1e-99", "fundingIntervalHours"),
        ("fundingIntervalHour", "25", "fundingIntervalHours"),
        ("singleOpenInterestValue", "1e12", None),
    ],
)
def test_a_contract_with_a_value_out_of_range_is_left_out_and_counted(
    field: str, value: str, named: str | None
) -> None:
    found = decode_tickers(_tickers(BTCUSDT={field: value}), KEPT, AT)
    refused = set() if named is None else {"BTCUSDT"}
    assert found.perpetuals.keys() == KEPT.keys() - refused
    assert found.refused == ({} if named is None else {named: ["BTCUSDT"]})


def test_when_most_kept_contracts_cannot_be_read_the_reading_is_invalid() -> None:
    half = list(KEPT)[:3]
    assert len(_names(_tickers(**{name: {"lastPrice": ""} for name in half}))) == 3
    most = list(KEPT)[:4]
    with pytest.raises(InvalidReply, match="2 of 6"):
        decode_tickers(_tickers(**{name: {"lastPrice": ""} for name in most}), KEPT, AT)


@pytest.mark.parametrize(
    "result", [b'{"list":[]}', b'{"list":[{"symbol":"BTCPERP","lastPrice":"1"}]}']
)
def test_tickers_without_any_kept_contract_are_invalid(result: bytes) -> None:
    with pytest.raises(InvalidReply):
        decode_tickers(result, KEPT, AT)


@pytest.mark.parametrize(
    "result", [b"", b"null", b"{}", b'{"list":{}}', b'{"list":[1]}', b'{"list":[{"symbol":1}]}']
)
@pytest.mark.parametrize(
    "decode",
    [
        *(decode_instruments, decode_time, decode_announcement),
        *(partial(decode_tickers, kept=KEPT, time=AT), partial(decode_ratios, contract="BTCUSDT")),
        partial(decode_rates, contract="BTCUSDT"),
    ],
)
def test_a_result_of_another_shape_is_invalid(
    decode: Callable[[bytes], object], result: bytes
) -> None:
    with pytest.raises(InvalidReply):
        decode(result)


def test_the_newest_share_is_taken_whatever_the_order() -> None:
    rows = [("0.4", "0.6", "1794787200000"), ("0.3", "0.7", "1794787500000")]
    for order in (rows, rows[::-1]):
        keys = ("buyRatio", "sellRatio", "timestamp")
        listed = [{"symbol": "BTCUSDT", **dict(zip(keys, row, strict=True))} for row in order]
        result = msgspec.json.encode({"list": listed})
        share = newest_share(decode_ratios(result, "BTCUSDT"), "BTCUSDT")
        assert share.long_account_pct == 30.0


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (None, UnknownToUpstream),
        ({"symbol": "ETHUSDT"}, InvalidReply),
        ({"buyRatio": ""}, UnknownToUpstream),
        ({"buyRatio": "0", "sellRatio": "0"}, UnknownToUpstream),
        ({"buyRatio": "0.9"}, UnknownToUpstream),
        ({"timestamp": "now"}, InvalidReply),
        ({"buyRatio": "57.77", "sellRatio": "0"}, UnknownToUpstream),
        ({"buyRatio": "-0.2", "sellRatio": "1.2"}, UnknownToUpstream),
        ({"buyRatio": "1.001", "sellRatio": "0"}, UnknownToUpstream),
    ],
)
def test_a_share_that_is_missing_or_unusable_is_unknown_and_one_of_another_contract_invalid(
    change: dict[str, str] | None, error: type[Exception]
) -> None:
    row = _result("account_ratio.json")["list"][0]
    listed = [] if change is None else [{**row, **change}]
    with pytest.raises(error):
        newest_share(decode_ratios(msgspec.json.encode({"list": listed}), "BTCUSDT"), "BTCUSDT")


@pytest.mark.parametrize("text", ["", "1794787212", "-1", "12345678901234567890123"])
def test_a_time_in_another_unit_is_invalid(text: str) -> None:
    with pytest.raises(InvalidReply):
        decode_time(msgspec.json.encode({"timeNano": text}))


@example(Decimal("0.00057"))  # a product of floats would be another one
@example(Decimal("-0.00014"))
@given(st.decimals(-1, 1, allow_nan=False, places=12))
def test_percent_is_the_nearest_float_to_the_shifted_decimal(rate: object) -> None:
    text = f"{rate:f}"
    assert percent(text) == float(Fraction(text) * 100)


def test_minus_zero_is_zero() -> None:
    assert str(percent("-0.0000")) == str(number("-0")) == "0.0"


@given(
    st.text("0123456789.eE+-_ \nanif\u0661")
    | st.integers()
    | st.floats()
    | st.booleans()
    | st.none()
)
def test_whatever_comes_is_a_number_or_unreadable(cell: str | float | bool | None) -> None:
    for read in (number, percent, moment):
        try:
            value = read(cell)
        except UnreadableError:
            continue
        assert abs(value) < float("inf")


def test_pongs_and_other_messages_of_the_stream_are_told_apart() -> None:
    assert decode_message(b'{"args":["1672916271846"],"op":"pong"}') == Pong()
    assert decode_message(b'{"topic":"tickers.BTCUSDT","data":{}}') is None


@pytest.mark.parametrize(
    "row",
    [
        {"S": "Long"},
        {"S": None},
        {"v": "0"},
        {"v": 1.5},
        {"p": ""},
        {"p": HUGE},
        {"p": "1", "v": "100000000001"},
        {"T": 5},
        {"T": "x"},
        {"s": None},
    ],
)
def test_a_batch_that_cannot_be_read_is_invalid(row: dict[str, object]) -> None:
    message = json.loads((REPLIES / "liquidations.json").read_bytes())
    message["data"][1].update(row)
    with pytest.raises(InvalidReply):
        decode_message(msgspec.json.encode(message))


@pytest.mark.parametrize("data", [b"", b"pong", b"[]", b"\xff", b'{"op":1}', b'{"op":"ping"'])
def test_a_message_that_is_none_is_invalid(data: bytes) -> None:
    with pytest.raises(InvalidReply):
        decode_message(data)


def test_what_one_connection_cannot_carry_goes_to_another() -> None:
    contracts = [f"LONGNAME{number:04}USDT" for number in range(1000)]
    connections = topics_by_connection(contracts)
    assert len(connections) == 2
    assert [topic for args in connections for topic in args] == [
        f"allLiquidation.{contract}" for contract in contracts
    ]
    for args in connections:
        assert len(json.dumps(args, separators=(",", ":"))) <= MAX_ARGS_CHARACTERS + 1
    assert topics_by_connection([]) == []


def test_only_current_maintenance_of_futures_in_production_is_announced() -> None:
    times = {"begin": "1794787200000", "end": "1794790800000"}
    others: list[dict[str, object]]
    usual = {"title": "Upgrade", "state": "scheduled", **times, "product": [1, 2], "env": 1}
    others = [{"state": "completed"}, {"product": [2]}, {"env": "2"}, {"env": "1", "title": "2nd"}]
    rows = [usual, *({**usual, **each} for each in others)]
    span = "(scheduled, 2026-11-16T00:00:00.000Z to 2026-11-16T01:00:00.000Z)"
    assert decode_announcement(json.dumps({"list": rows}).encode()) == f"Upgrade {span}; 2nd {span}"
    for bad in ({"list": [usual | {"end": "soon"}]}, {"list": [usual | {"product": None}]}):
        with pytest.raises(InvalidReply):
            decode_announcement(json.dumps(bad).encode())
