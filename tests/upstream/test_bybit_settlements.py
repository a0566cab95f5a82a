"""What Bybit reports of settled funding: exact, of one contract, and nothing that cannot be."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import msgspec
import pytest

from barograph.errors import (
    Forbidden,
    InvalidReply,
    Throttled,
    UnknownToUpstream,
    Unreachable,
    UpstreamError,
)
from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.exchange import SettlementHistory
from barograph.markets.settlements import SettledRate
from barograph.settings import Settings
from barograph.upstream.bybit import BybitExchange
from barograph.upstream.bybit.decode import MAX_SETTLEMENTS, decode_settlements
from barograph_demo.servers.rest import answer
from barograph_demo.world.world import World

NOW = 1_794_787_212_345
AT = 1_794_787_200_000
STORED = json.loads((Path(__file__).parent / "samples/bybit/funding_history.json").read_bytes())
ROWS: list[dict[str, object]] = STORED["result"]["list"]
EPOCH = NOW // HOUR * HOUR - 3 * DAY

Answer = Callable[[httpx2.Request], httpx2.Response]


def decoded(*rows: dict[str, object], contract: str = "BTCUSDT") -> tuple[SettledRate, ...]:
    return decode_settlements(msgspec.json.encode({"list": rows}), contract).rates


def ask(given: Answer, contract: str = "BTCUSDT", now: int = NOW) -> tuple[SettledRate, ...]:
    """Ask an exchange that answers like this."""

    async def work() -> tuple[SettledRate, ...]:
        async def no_pause(seconds: float) -> None:
            pass

        exchange = BybitExchange(
            Settings.model_validate({"exchange_rest_url": "https://exchange.example"}),
            clock=lambda: now,
            transport=httpx2.MockTransport(given),
            sleep=no_pause,
            random=Random(1),
        )
        history: SettlementHistory = exchange
        assert history is exchange
        try:
            return await exchange.settlements(contract)
        finally:
            await exchange.close()

    return asyncio.run(work())


def stored(**changes: Any) -> Answer:
    return lambda _: httpx2.Response(200, json={**STORED, **changes})


def test_rates_are_read_in_percent_digit_by_digit_oldest_first() -> None:
    assert decoded(*ROWS) == (
        SettledRate("BTCUSDT", AT - 16 * HOUR, -0.000057),
        SettledRate("BTCUSDT", AT - 8 * HOUR, 0.01),
        SettledRate("BTCUSDT", AT, 0.005747),
    )


def test_no_settlement_is_unknown_and_not_an_empty_report() -> None:
    with pytest.raises(UnknownToUpstream):
        decoded()


@pytest.mark.parametrize(
    "change",
    [
        {"fundingRate": ""},
        {"fundingRate": None},
        {"fundingRate": 0.0001},
        {"fundingRate": "nan"},
        {"fundingRateTimestamp": "1794787200"},
        {"fundingRateTimestamp": ""},
        {"symbol": "ETHUSDT"},
        {"fundingRateTimestamp": ROWS[1]["fundingRateTimestamp"]},
    ],
    ids=str,
)
def test_a_report_with_one_row_that_cannot_be_true_is_invalid(change: dict[str, object]) -> None:
    with pytest.raises(InvalidReply):
        decoded({**ROWS[0], **change}, *ROWS[1:])


def test_a_settlement_out_of_range_is_left_out_alone() -> None:
    absurd = {**ROWS[1], "fundingRate": "1e99"}
    assert [each.at for each in decoded(ROWS[0], absurd, ROWS[2])] == [AT - 16 * HOUR, AT]
    with pytest.raises(InvalidReply):
        decoded(absurd)


def test_a_report_of_more_than_was_asked_for_is_invalid() -> None:
    def rows(count: int) -> list[dict[str, object]]:
        times = (str(AT - back * HOUR) for back in range(count))
        return [{**ROWS[0], "fundingRateTimestamp": time} for time in times]

    assert len(decoded(*rows(MAX_SETTLEMENTS))) == MAX_SETTLEMENTS
    with pytest.raises(InvalidReply):
        decoded(*rows(MAX_SETTLEMENTS + 1))


@pytest.mark.parametrize("result", [b"null", b"{}", b'{"list":{}}', b'{"list":[1]}', b'{"list'])
def test_a_result_of_another_shape_is_invalid(result: bytes) -> None:
    with pytest.raises(InvalidReply):
        decode_settlements(result, "BTCUSDT")


def test_the_report_is_asked_for_by_contract() -> None:
    asked: list[httpx2.Request] = []

    def note(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, json=STORED)

    assert ask(note) == decoded(*ROWS)
    assert asked[0].url.path == "/v5/market/funding/history"
    assert dict(asked[0].url.params) == {
        "category": "linear",
        "symbol": "BTCUSDT",
        "limit": "200",
    }


def test_a_settlement_at_this_very_instant_has_happened_and_a_later_one_has_not() -> None:
    assert ask(stored(time=AT), now=AT)[-1].at == AT
    with pytest.raises(InvalidReply):
        ask(stored(time=AT - 1), now=AT)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (stored(time=NOW - 31_000), InvalidReply),
        (stored(retCode=10001, retMsg="params error: symbol invalid"), UnknownToUpstream),
        (stored(retCode=10006), Throttled),
        (stored(result={"list": []}), UnknownToUpstream),
        (lambda _: httpx2.Response(200, content=b'{"retCode":0,"result":{"li'), InvalidReply),
        (lambda _: httpx2.Response(403, text="<html>"), Forbidden),
        (lambda _: httpx2.Response(502), Unreachable),
    ],
    ids=["old", "no contract", "throttled", "empty", "cut off", "refused", "down"],
)
def test_each_failure_has_its_kind(given: Answer, kind: type[UpstreamError]) -> None:
    with pytest.raises(UpstreamError) as raised:
        ask(given)
    assert type(raised.value) is kind


def test_the_simulated_exchange_is_read_like_the_real_one() -> None:
    world = World(7, EPOCH)

    def simulated(request: httpx2.Request) -> httpx2.Response:
        status, body = answer(world, request.url.path, dict(request.url.params), NOW)
        return httpx2.Response(status, content=body)

    found = ask(simulated)
    contract = world.contract("BTCUSDT", NOW)
    assert contract is not None
    settled = world.settlements(contract, world.birth, NOW)
    assert [each.at for each in found] == [each.time for each in settled]
    assert found[-1].funding_rate_pct == pytest.approx(100 * settled[-1].rate, abs=1e-6)
