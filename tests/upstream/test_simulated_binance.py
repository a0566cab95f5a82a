"""The simulated Binance: the shapes of the real one, its limits, its stream and its faults."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect

from barograph.errors import Forbidden, InvalidReply, Throttled, Unreachable, UpstreamError
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.markets.records import Perpetuals
from barograph.settings import Settings
from barograph.upstream.binance import BinanceExchange
from barograph_demo.servers.binance import BAN_MS, BinanceAddress, running_binance
from barograph_demo.servers.binance_rest import HISTORY_MS, answer
from barograph_demo.servers.binance_stream import force_orders, mark_price
from barograph_demo.servers.faults import BinanceFaults
from barograph_demo.servers.faulty_market import FaultyMarket
from barograph_demo.world.liquidations import LONG
from barograph_demo.world.venues import BINANCE, VenueMarket
from barograph_demo.world.world import World
from support.shapes import differences

EPOCH = 1_789_999_200_000
NOW = EPOCH + 3 * DAY + 1_234_567
PATIENCE = 30.0
WORLD = World(7, EPOCH)
FAULTS = BinanceFaults()
MARKET = FaultyMarket(VenueMarket(WORLD, BINANCE), FAULTS)
BTC = {"symbol": "BTCUSDT"}

SAMPLES = Path(__file__).parent / "samples/binance"
REPLIES: dict[str, Any] = json.loads((SAMPLES / "replies.json").read_text())
FRAMES: dict[str, Any] = json.loads((SAMPLES / "frames.json").read_text())


def ask(path: str, **query: object) -> Any:
    status, body = answer(MARKET, path, {name: str(value) for name, value in query.items()}, NOW)
    assert status == 200, body
    return json.loads(body)


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_has_the_fields_and_types_of_the_real_one(name: str) -> None:
    path, query, sample = REPLIES[name]
    found = differences(sample, ask(path, **query))
    # Of the listing, the sample has only a part.
    assert [each for each in found if name != "listing" or "extra" not in each] == []


def test_the_frames_of_the_stream_have_the_fields_and_types_of_the_real_ones() -> None:
    assert differences([FRAMES["liquidation"]], force_orders(MARKET, NOW - HOUR, NOW)) == []
    bitcoin = MARKET.contract("BTCUSDT", NOW)
    assert bitcoin is not None
    assert differences(FRAMES["mark price"], mark_price(MARKET, bitcoin, NOW)) == []


def test_the_listing_has_every_class_and_multiplier_that_a_reader_must_tell_apart() -> None:
    listed = {row["symbol"]: row for row in ask("/fapi/v1/exchangeInfo")["symbols"]}
    kinds = {(row["contractType"], row["underlyingType"]) for row in listed.values()}
    assert kinds >= {
        *(("PERPETUAL", "COIN"), ("PERPETUAL", "INDEX")),
        *(("TRADIFI_PERPETUAL", word) for word in ("EQUITY", "COMMODITY", "PREMARKET")),
    }
    assert listed.keys() >= {"CATUSDT", "1000CATUSDT", "1MBABYDOGEUSDT", "1000SHIBUSDT", "BTCUSDC"}
    assert listed["MATICUSDT"]["status"] == "SETTLING"
    assert any(not symbol.isascii() for symbol in listed)
    trading = {name for name, row in listed.items() if row["status"] == "TRADING"}
    for path in ("/fapi/v1/premiumIndex", "/fapi/v1/fundingInfo", "/fapi/v2/ticker/price"):
        assert {row["symbol"] for row in ask(path)} == trading


@pytest.mark.parametrize(
    ("path", "query", "code"),
    [
        ("/fapi/v1/openInterest", {"symbol": "NOPEUSDT"}, -1121),
        ("/fapi/v1/openInterest", {"symbol": "MATICUSDT"}, -1121),
        ("/fapi/v1/openInterest", {}, -1102),
        ("/fapi/v1/klines", BTC | {"interval": "7m"}, -1120),
        ("/fapi/v1/klines", BTC | {"interval": "1h", "limit": "1501"}, -1130),
        ("/futures/data/openInterestHist", BTC | {"period": "1w"}, -1130),
        (
            "/futures/data/openInterestHist",
            BTC | {"period": "1h", "startTime": str(NOW - HISTORY_MS - 1)},
            -1130,
        ),
    ],
)
def test_a_bad_request_is_refused_with_the_code_of_its_error(
    path: str, query: dict[str, str], code: int
) -> None:
    status, body = answer(MARKET, path, query, NOW)
    message = json.loads(body)
    assert (status, message["code"], [*message]) == (400, code, ["code", "msg"])


def test_the_stream_tells_the_side_of_the_order_and_only_the_largest_of_a_second() -> None:
    span = NOW - 6 * HOUR, NOW
    orders = [frame["o"] for frame in force_orders(MARKET, *span)]
    frames: list[dict[str, Any]] = [dict(order) for order in orders]  # type: ignore[call-overload]
    assert Counter(row["st"] for row in frames).keys() == {1, 2}
    assert {row["s"] for row in frames if row["st"] == 2} <= {"BTCUSD_PERP", "ETHUSD_PERP"}
    shown = {(row["T"], row["s"], row["z"]): row["S"] for row in frames if row["st"] == 1}
    everything = MARKET.market.liquidations(*span)
    largest: dict[tuple[int, str], float] = {}
    for each in everything:
        slot = each.time // SECOND, each.symbol
        largest[slot] = max(largest.get(slot, 0), float(each.size))
    assert len(shown) == len(largest) < len(everything)
    assert {(time // SECOND, name): float(size) for time, name, size in shown} == largest
    for each in everything:
        side = shown.get((each.time, each.symbol, each.size))
        assert side in {None, "SELL" if each.side == LONG else "BUY"}


class Client(NamedTuple):
    """What a test needs of a running server; `clock[0]` is its time."""

    address: BinanceAddress
    http: httpx2.AsyncClient
    faults: BinanceFaults
    clock: list[int]
    exchange: BinanceExchange

    @asynccontextmanager
    async def listening(self, path: str) -> AsyncIterator[ClientConnection]:
        url = f"ws://{self.address.host}:{self.address.port}{path}"
        async with connect(url, proxy=None, ping_interval=None) as stream:
            yield stream


def run(scenario: Callable[[Client], Awaitable[None]]) -> None:
    async def whole() -> None:
        faults, clock = BinanceFaults(), [NOW]
        async with (
            running_binance(WORLD, lambda: clock[0], faults, push_seconds=0.01) as address,
            httpx2.AsyncClient(base_url=address.url, trust_env=False, timeout=PATIENCE) as http,
        ):
            exchange = BinanceExchange(
                Settings(binance_rest_url=address.url),
                seconds=2,
                clock=lambda: clock[0],
                sleep=lambda _: asyncio.sleep(0),
            )
            try:
                await scenario(Client(address, http, faults, clock, exchange))
            finally:
                await exchange.close()

    asyncio.run(whole())


async def hear(stream: ClientConnection) -> Any:
    return json.loads(await asyncio.wait_for(stream.recv(), PATIENCE))


@pytest.mark.thorough
def test_an_address_is_told_to_wait_above_its_weight_and_banned_if_it_goes_on() -> None:
    async def scenario(client: Client) -> None:
        used = [await client.http.get("/fapi/v1/ticker/24hr") for _ in range(60)]
        assert [each.headers["x-mbx-used-weight-1m"] for each in (used[0], used[-1])] == [
            *("40", "2400")
        ]
        told = await client.http.get("/fapi/v1/time")
        assert (told.status_code, told.json()["code"]) == (429, -1003)
        assert told.headers["retry-after"] == str(-(-(MINUTE - NOW % MINUTE) // SECOND))
        statistics = await client.http.get("/futures/data/globalLongShortAccountRatio", params=BTC)
        assert statistics.status_code == 400
        for _ in range(6):
            banned = await client.http.get("/fapi/v1/ticker/24hr")
        assert (banned.status_code, banned.json()["code"]) == (418, -1003)
        assert f"banned until {NOW + BAN_MS}" in banned.json()["msg"]
        client.clock[0] += BAN_MS
        assert (await client.http.get("/fapi/v1/time")).status_code == 200

    run(scenario)


def test_the_market_path_sends_and_a_wrong_path_stays_open_and_silent() -> None:
    topics = "!forceOrder@arr/btcusdt@markPrice"
    subscribe = {"method": "SUBSCRIBE", "params": ["btcusdt@markPrice@1s"], "id": 3}

    async def scenario(client: Client) -> None:
        async with (
            client.listening(f"/market/stream?streams={topics}") as right,
            client.listening("/market/ws/0") as raw,
            client.listening(f"/stream?streams={topics}") as wrong,
        ):
            await raw.send(json.dumps(subscribe))
            assert await hear(raw) == {"result": None, "id": 3}
            client.clock[0] += HOUR
            heard = Counter[str]()
            while heard["btcusdt@markPrice"] == 0:
                heard[(await hear(right))["stream"]] += 1
            assert heard["!forceOrder@arr"] == len(force_orders(MARKET, NOW, NOW + HOUR))
            assert (await hear(raw))["e"] == "markPriceUpdate"
            await wrong.send(json.dumps(subscribe))
            assert await hear(wrong) == {"result": None, "id": 3}  # nothing came before

    run(scenario)


def test_a_broken_binance_ends_in_the_failure_it_stands_for() -> None:
    kinds: dict[str, type[UpstreamError]] = {
        **dict.fromkeys(("reset", "outage", "502", "truncated"), Unreachable),
        **dict.fromkeys(("429", "418"), Throttled),
        **dict.fromkeys(("empty-list", "stale-clock"), InvalidReply),
        "geo-block": Forbidden,
    }

    async def scenario(client: Client) -> None:
        for fault, kind in kinds.items():
            client.faults.turn_on(fault, client.clock[0])
            client.clock[0] += MINUTE
            with pytest.raises(kind):
                await client.exchange.perpetuals()
            client.faults.clear()
            client.clock[0] += 10 * MINUTE
            assert len((await client.exchange.perpetuals()).contracts) > 60

    run(scenario)


def test_a_changed_listing_changes_the_reading_and_unknown_fields_do_not() -> None:
    async def scenario(client: Client) -> None:
        before = await client.exchange.perpetuals()
        for fault in ("delisting", "unknown-class", "unknown-fields"):
            client.faults.turn_on(fault)
        client.faults.turn_on("interval-change", target="BTCUSDT")
        client.clock[0] += 11 * MINUTE
        await client.exchange.perpetuals()  # after it, the listing is read again
        after = await client.exchange.perpetuals()
        assert _names(before) - _names(after) == {"SOLUSDT"}
        assert after.unknown_classes == ["PREDICTION"]
        hours = {each.contract: each.funding_interval_hours for each in after.contracts}
        assert (hours["BTCUSDT"], hours["ETHUSDT"]) == (4, 8)

    run(scenario)


def _names(reading: Perpetuals) -> set[str]:
    return {each.contract for each in reading.contracts}


def test_wrong_numbers_look_right_and_leave_the_past_alone() -> None:
    def read() -> list[Any]:
        (info,) = (row for row in ask("/fapi/v1/fundingInfo") if row["symbol"] == "BTCUSDT")
        index = ask("/fapi/v1/premiumIndex", **BTC)
        interest = ask("/fapi/v1/openInterest", **BTC)["openInterest"]
        orders = force_orders(MARKET, NOW - HOUR, NOW)
        past = ask("/futures/data/openInterestHist", **BTC, period="5m", limit=1)
        rates = ask("/fapi/v1/fundingRate", **BTC, limit=5)
        seen = [info["fundingIntervalHours"], float(index["lastFundingRate"]), float(interest)]
        return [*seen, [order["o"]["S"] for order in orders], past, rates]  # type: ignore[index]

    hours, rate, interest, sides, *history = read()
    for fault in ("doubled-open-interest", "inverted-side", "wrong-unit", "wrong-interval"):
        FAULTS.turn_on(fault)
    try:
        changed = read()
    finally:
        FAULTS.clear()
    assert changed[0] != hours
    assert changed[1:3] == pytest.approx([100 * rate, 2 * interest])
    assert changed[3] == [{"BUY": "SELL", "SELL": "BUY"}[side] for side in sides]
    assert changed[4:] == history
