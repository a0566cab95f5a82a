"""The simulated exchanges: the shapes and limits of the real ones, and faults that others trust.

The shapes of Bybit are in test_bybit_samples; ccxt and pybit read all three in
test_venue_referees. What each fault leads to is in test_venue_faults.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from joserfc.jwk import ECKey
from msgspec.structs import astuple
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin

from barograph.errors import ConfigurationError
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.venues.bybit.decode import decode_tickers
from barograph.venues.bybit.history import decode_rates, decode_ratios
from barograph.venues.bybit.messages import Batch, decode_message
from barograph.venues.kit.contract_cache import Contract as ListedContract
from barograph.venues.kit.past_pages import newest_share
from barograph_demo.replay.observations import (
    liquidation_of,
    long_accounts_of,
    perpetual_of,
    settled_rates_of,
)
from barograph_demo.servers import binance_rest, rest
from barograph_demo.servers.binance import BAN_MS as BINANCE_BAN_MS
from barograph_demo.servers.binance import running_binance
from barograph_demo.servers.binance_stream import force_orders, mark_price
from barograph_demo.servers.chain import TokenLedger
from barograph_demo.servers.control import ServerAddress, send_command
from barograph_demo.servers.exchange import BAN_MS, LIMIT_MS, LIMIT_REQUESTS, running_exchange
from barograph_demo.servers.facilitator import running_facilitator
from barograph_demo.servers.faults import BinanceFaults, ExchangeFaults
from barograph_demo.servers.faulty_market import FaultyMarket
from barograph_demo.servers.hyperliquid import WEIGHT_PER_MINUTE, running_hyperliquid
from barograph_demo.servers.identity import running_identity
from barograph_demo.servers.macro_server import running_macro
from barograph_demo.servers.registry import FAULTS_BY_SERVER
from barograph_demo.servers.stream import liquidation_messages
from barograph_demo.world.contracts import LIVE_SYMBOLS, live_symbols
from barograph_demo.world.liquidations import LONG
from barograph_demo.world.macro import MacroWorld
from barograph_demo.world.venues import BINANCE, VenueMarket
from barograph_demo.world.world import World
from support.clock import HandClock
from support.shapes import differences

EPOCH = 1_789_999_200_000
NOW = EPOCH + 3 * DAY + 1_234_567
WORLD = World(7, EPOCH)
MARKET = FaultyMarket(VenueMarket(WORLD, BINANCE), BinanceFaults())
TOPICS = [f"allLiquidation.{symbol}" for symbol in sorted(LIVE_SYMBOLS)]
SAMPLES = Path(__file__).parent / "samples/binance"
REPLIES: dict[str, Any] = json.loads((SAMPLES / "replies.json").read_text())
FRAMES: dict[str, Any] = json.loads((SAMPLES / "frames.json").read_text())

# Hyperliquid's fields of a contract and of its state, as it sent them in September 2026.
ASSET = {"szDecimals": int, "name": str, "maxLeverage": int, "marginTableId": int}
TEXTS = "funding openInterest prevDayPx dayNtlVlm premium oraclePx markPx midPx dayBaseVlm"
CONTEXT = dict.fromkeys(TEXTS.split(), str) | {"impactPxs": list}
DELISTED = CONTEXT | dict.fromkeys(("premium", "midPx", "impactPxs"), type(None))


def http(address: ServerAddress) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=address.url, trust_env=False, timeout=30)


def types(row: dict[str, object]) -> dict[str, type]:
    return {name: type(value) for name, value in row.items()}


def ask_bybit(at: int, path: str, **query: str) -> Any:
    query |= {"category": "linear"}
    _, body = rest.answer(WORLD, f"/v5/market/{path}", query, at)
    return json.loads(body)["result"]


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_of_binance_has_the_fields_and_types_of_the_real_one(name: str) -> None:
    path, query, sample = REPLIES[name]
    texts = {field: str(value) for field, value in query.items()}
    status, body = binance_rest.answer(MARKET, path, texts, NOW)
    assert status == 200
    different = differences(sample, json.loads(body))
    # Of the listing, the sample has only a part.
    assert [each for each in different if name != "listing" or "extra" not in each] == []


def test_the_frames_of_binance_have_the_fields_and_types_of_the_real_ones() -> None:
    assert differences([FRAMES["liquidation"]], force_orders(MARKET, NOW - HOUR, NOW)) == []
    bitcoin = MARKET.contract("BTCUSDT", NOW)
    assert bitcoin is not None
    assert differences(FRAMES["mark price"], mark_price(MARKET, bitcoin, NOW)) == []


def test_binance_streams_the_side_of_the_order_and_only_the_largest_of_a_second() -> None:
    span = NOW - 6 * HOUR, NOW
    orders: list[Any] = [frame["o"] for frame in force_orders(MARKET, *span)]
    shown = {
        (order["T"] // SECOND, order["s"]): (order["S"], float(order["z"]))
        for order in orders
        if order["st"] == 1
    }
    everything = MARKET.market.liquidations(*span)
    largest: dict[tuple[int, str], tuple[str, float]] = {}
    for each in sorted(everything, key=lambda each: float(each.size)):
        side = "SELL" if each.side == LONG else "BUY"
        largest[each.time // SECOND, each.symbol] = side, float(each.size)
    assert shown == largest
    assert len(shown) < len(everything)


async def test_a_reply_of_hyperliquid_has_the_fields_and_types_of_the_real_one() -> None:
    async with running_hyperliquid(WORLD, HandClock(NOW)) as address, http(address) as client:
        meta, contexts = (await client.post("/info", json={"type": "metaAndAssetCtxs"})).json()
        past = {"type": "fundingHistory", "coin": "BTC", "startTime": NOW - DAY}
        settled = (await client.post("/info", json=past)).json()
    for asset, context in zip(meta["universe"], contexts, strict=True):
        is_delisted = asset.pop("isDelisted", False)
        assert types(asset) == ASSET
        assert types(context) == (DELISTED if is_delisted else CONTEXT)
    assert types(settled[0]) == {"coin": str, "fundingRate": str, "premium": str, "time": int}
    assert all(28 <= row["time"] % HOUR <= 76 for row in settled)


@pytest.mark.thorough
async def test_bybit_bans_an_address_above_its_rate_limit_for_ten_minutes() -> None:
    clock = HandClock(NOW)
    async with running_exchange(WORLD, clock) as address, http(address) as client:
        requests = [client.get("/v5/market/time") for _ in range(LIMIT_REQUESTS)]
        assert {reply.status_code for reply in await asyncio.gather(*requests)} == {200}
        clock.now += LIMIT_MS - 1
        refused = await client.get("/v5/market/time")
        assert (refused.status_code, refused.json()["retMsg"]) == (403, "access too frequent")
        clock.now += BAN_MS - 1
        assert (await client.get("/v5/market/time")).status_code == 403
        clock.now += 1
        assert (await client.get("/v5/market/time")).status_code == 200


@pytest.mark.thorough
async def test_binance_throttles_an_address_above_its_weight_and_bans_it_if_it_goes_on() -> None:
    clock = HandClock(NOW)
    async with running_binance(WORLD, clock) as address, http(address) as client:
        for _ in range(60):
            used = await client.get("/fapi/v1/ticker/24hr")
        assert used.headers["x-mbx-used-weight-1m"] == "2400"
        throttled = await client.get("/fapi/v1/time")
        assert (throttled.status_code, throttled.json()["code"]) == (429, -1003)
        assert throttled.headers["retry-after"] == str(-(-(MINUTE - NOW % MINUTE) // SECOND))
        for _ in range(6):
            banned = await client.get("/fapi/v1/ticker/24hr")
        assert (banned.status_code, banned.json()["code"]) == (418, -1003)
        assert f"banned until {NOW + BINANCE_BAN_MS}" in banned.json()["msg"]
        clock.now += BINANCE_BAN_MS
        assert (await client.get("/fapi/v1/time")).status_code == 200


async def test_hyperliquid_throttles_an_address_above_its_weight_for_a_minute() -> None:
    clock, body = HandClock(NOW), {"type": "spotMeta"}
    async with running_hyperliquid(WORLD, clock) as address, http(address) as client:
        sent = [(await client.post("/info", json=body)).status_code for _ in range(61)]
        assert (set(sent[: WEIGHT_PER_MINUTE // 20]), sent[-1]) == ({200}, 429)
        clock.now += MINUTE
        assert (await client.post("/info", json=body)).status_code == 200


@pytest.mark.parametrize("hour", [1, 26, 71])
def test_bybits_past_of_an_hour_is_what_its_tickers_showed_then(hour: int) -> None:
    at, tia = EPOCH + hour * HOUR, {"symbol": "TIAUSDT"}
    (ticker,) = ask_bybit(at, "tickers", **tia)["list"]
    (share,) = ask_bybit(at, "account-ratio", period="5min", limit="1", **tia)["list"]
    span = {"startTime": str(at), "endTime": str(at)}
    (candle,) = ask_bybit(NOW, "kline", interval="60", start=str(at), end=str(at), **tia)["list"]
    (interest,) = ask_bybit(NOW, "open-interest", intervalTime="1h", **span, **tia)["list"]
    assert candle[:2] == [str(at), ticker["lastPrice"]]
    assert float(interest["openInterest"]) == pytest.approx(float(ticker["openInterest"]), abs=0.1)
    assert ask_bybit(NOW, "account-ratio", period="1h", **span, **tia)["list"] == [share]
    settled = at // (4 * HOUR) * 4 * HOUR
    span = {"startTime": str(settled), "endTime": str(settled)}
    (past,) = ask_bybit(NOW, "funding/history", **span, **tia)["list"]
    (before,) = ask_bybit(settled - 1, "tickers", **tia)["list"]
    assert float(past["fundingRate"]) == pytest.approx(float(before["fundingRate"]), abs=1e-7)


@pytest.mark.parametrize("since", [0, 1, 31])
@pytest.mark.parametrize("past_the_hour", [0, 21 * MINUTE, HOUR - 1])
def test_the_replay_observes_what_the_service_reads_from_the_exchange(
    since: int, past_the_hour: int
) -> None:
    at = EPOCH + since * HOUR + past_the_hour
    kept = {name: ListedContract(name.removesuffix("USDT")) for name in live_symbols(at)}
    listed = [each for each in WORLD.contracts(at) if each.symbol in kept]
    answered = decode_tickers(msgspec.json.encode(ask_bybit(at, "tickers")), kept, at).perpetuals
    assert {each.symbol: perpetual_of(WORLD, each, at) for each in listed} == answered
    assert len(answered) == len(kept)
    for contract in listed[:5]:
        query = {"symbol": contract.symbol, "period": "5min", "limit": "3"}
        whole = msgspec.json.encode(ask_bybit(at, "account-ratio", **query))
        name = contract.symbol
        share = long_accounts_of(WORLD, contract, at)
        assert share == newest_share(decode_ratios(whole, name), name)
        assert 0 <= at - share.sampled_at < 5 * MINUTE
        query = {"symbol": name, "startTime": str(EPOCH), "endTime": str(at), "limit": "200"}
        whole = msgspec.json.encode(ask_bybit(at, "funding/history", **query))
        rates = settled_rates_of(WORLD, contract, EPOCH, at)
        assert {rate.at: rate.funding_rate_pct for rate in rates} == decode_rates(whole, name)
    batches = map(decode_message, liquidation_messages(WORLD, at, at + HOUR))
    sent = [each for batch in batches if isinstance(batch, Batch) for each in batch.liquidations]
    ours = map(liquidation_of, WORLD.liquidations(at, at + HOUR))
    assert sorted(map(astuple, ours)) == sorted(map(astuple, sent))


@asynccontextmanager
async def bybit_stream(faults: ExchangeFaults, clock: HandClock) -> AsyncIterator[ClientConnection]:
    async with (
        running_exchange(WORLD, clock, faults=faults, push_seconds=0.01) as address,
        connect(address.stream_url, proxy=None, ping_interval=None) as stream,
    ):
        await stream.send(json.dumps({"op": "subscribe", "args": TOPICS, "req_id": "r1"}))
        yield stream


async def hear(stream: ClientConnection) -> Any:
    return json.loads(await asyncio.wait_for(stream.recv(), 30))


@pytest.mark.parametrize("times", [1, 2])
async def test_bybits_stream_sends_every_liquidation_once_or_with_the_fault_twice(
    times: int,
) -> None:
    faults, clock, heard = ExchangeFaults(), HandClock(NOW), list[tuple[object, ...]]()
    since, until = NOW // 500 * 500, (NOW + HOUR) // 500 * 500
    events = WORLD.liquidations(since, until)
    expected = [tuple(event) for event in events if event.symbol in LIVE_SYMBOLS] * times
    if times == 2:
        faults.turn_on("stream-duplicates", NOW)
    async with bybit_stream(faults, clock) as stream:
        assert (await hear(stream))["success"]
        clock.now += HOUR
        while len(heard) < len(expected):
            rows = (await hear(stream))["data"]
            heard += [tuple(row[name] for name in ("T", "s", "S", "v", "p")) for row in rows]
        await stream.send('{"op":"ping"}')
        assert (await hear(stream))["ret_msg"] == "pong"
    assert sorted(heard, key=str) == sorted(expected, key=str)


async def test_commands_switch_faults_of_one_path_and_name_the_known_ones() -> None:
    async with running_exchange(WORLD, HandClock(NOW)) as address, http(address) as client:

        async def command(**command: object) -> dict[str, Any]:
            return await asyncio.to_thread(send_command, address.url, command)

        await command(fault="delisting", on=True)
        active = (await command(fault="502", on=True, path="kline"))["active"]
        assert active == ["delisting of SOLUSDT", "502 on /v5/market/kline"]
        for path, status in (("kline", 502), ("time", 200)):
            assert (await client.get(f"/v5/market/{path}")).status_code == status
        unknown = (await command(fault="flood", on=True))["error"]
        assert all(name in unknown for name in FAULTS_BY_SERVER["bybit"])
        assert await command(off="all") == {"ok": True, "active": []}
        counted = await command(count=True)
        assert counted == {"requests": {"/v5/market/kline": 1, "/v5/market/time": 1}}
    with pytest.raises(ConfigurationError, match="is the demo running"):
        await command(off="all")


async def test_servers_stop_soon_although_a_request_hangs() -> None:
    servers: dict[str, AbstractAsyncContextManager[ServerAddress]] = {
        "/v5/market/time": running_exchange(WORLD, HandClock(NOW)),
        "/supported": running_facilitator(TokenLedger({})),
    }
    for path, server in servers.items():
        address = await server.__aenter__()
        async with http(address) as client:
            await asyncio.to_thread(send_command, address.url, {"fault": "hang", "on": True})
            request = asyncio.create_task(client.get(path))
            count: dict[str, object] = {"count": True}
            while not (await asyncio.to_thread(send_command, address.url, count))["requests"]:
                pass
            async with asyncio.timeout(5):
                await server.__aexit__(None, None, None)
            with pytest.raises(httpx2.TransportError):
                await request


async def test_control_ports_refuse_every_web_page() -> None:
    servers: tuple[AbstractAsyncContextManager[ServerAddress], ...] = (
        running_exchange(WORLD, HandClock(NOW)),
        running_hyperliquid(WORLD, HandClock(NOW)),
        running_binance(WORLD, HandClock(NOW)),
        running_macro(MacroWorld(WORLD)),
        running_identity(ECKey.generate_key("P-256")),
        running_facilitator(TokenLedger({})),
    )
    async with AsyncExitStack() as stack:
        for server in servers:
            url = (await stack.enter_async_context(server)).control_url
            for origin in ("http://attacker.example", "http://127.0.0.1:8080", "null"):
                with pytest.raises(InvalidStatus) as refused:
                    await connect(url, origin=Origin(origin), proxy=None)
                assert refused.value.response.status_code == 403
            assert (await asyncio.to_thread(send_command, url, {"off": "all"}))["ok"]
