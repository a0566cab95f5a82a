"""The simulated exchange over real loopback connections: each endpoint, each topic, each fault."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import pairwise
from typing import Any, TypeVar

import httpx2
import msgspec
import pytest
from joserfc.jwk import ECKey
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from barograph.errors import ConfigurationError
from barograph_demo.servers.binance import running_binance
from barograph_demo.servers.chain import TokenLedger
from barograph_demo.servers.control import ServerAddress, send_command
from barograph_demo.servers.exchange import (
    BAN_MS,
    LIMIT_MS,
    LIMIT_REQUESTS,
    ExchangeAddress,
    run_exchange,
    running_exchange,
)
from barograph_demo.servers.facilitator import running_facilitator
from barograph_demo.servers.faults import FAULTS_BY_SERVER
from barograph_demo.servers.hyperliquid import running_hyperliquid
from barograph_demo.servers.identity import running_identity
from barograph_demo.servers.macro_server import running_macro
from barograph_demo.servers.rest import PATHS, answer
from barograph_demo.world.contracts import LIVE_SYMBOLS
from barograph_demo.world.macro import MacroWorld
from barograph_demo.world.world import World

HOUR = 3_600_000
DAY = 24 * HOUR
EPOCH = 1_789_999_200_000
START = EPOCH + 3 * DAY + 1_234_567
WORLD = World(7, EPOCH)
PATIENCE = 30.0

T = TypeVar("T")


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


class Client:
    """What a test needs of a running exchange."""

    def __init__(self, address: ExchangeAddress, http: httpx2.AsyncClient, clock: Clock) -> None:
        self.address = address
        self.http = http
        self.clock = clock

    async def get(self, path: str, **query: object) -> Any:
        response = await self.http.get(
            f"/v5/market/{path}", params={k: str(query[k]) for k in query}
        )
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("application/json")
        return response.json()

    async def result(self, path: str, **query: object) -> Any:
        message = await self.get(path, category="linear", **query)
        assert (message["retCode"], message["retMsg"]) == (0, "OK")
        return message["result"]

    async def command(self, **command: object) -> dict[str, Any]:
        async with connect(self.address.control_url, proxy=None) as control:
            await control.send(msgspec.json.encode(command).decode())
            return msgspec.json.decode(await control.recv(), type=dict[str, Any])

    async def fault(self, name: str, on: bool = True, **limits: str) -> None:
        reply = await self.command(fault=name, on=on, **limits)
        assert reply["ok"], reply


@asynccontextmanager
async def exchange() -> AsyncIterator[Client]:
    clock = Clock()
    async with (
        running_exchange(WORLD, clock, push_seconds=0.01) as address,
        httpx2.AsyncClient(
            base_url=address.url, trust_env=False, verify=False, timeout=PATIENCE
        ) as http,
    ):
        yield Client(address, http, clock)


@asynccontextmanager
async def listening(client: Client, *topics: str) -> AsyncIterator[ClientConnection]:
    async with connect(client.address.stream_url, proxy=None, ping_interval=None) as stream:
        if topics:
            reply = await ask(stream, op="subscribe", args=list(topics), req_id="r1")
            assert reply["success"], reply
        yield stream


async def hear(stream: ClientConnection) -> Any:
    return msgspec.json.decode(await asyncio.wait_for(stream.recv(), PATIENCE))


async def ask(stream: ClientConnection, **request: object) -> Any:
    await stream.send(msgspec.json.encode(request).decode())
    return await hear(stream)


def run(scenario: Callable[[Client], Awaitable[T]]) -> T:
    async def whole() -> T:
        async with exchange() as client:
            return await scenario(client)

    return asyncio.run(whole())


def test_the_envelope_and_the_time_are_bybits() -> None:
    async def scenario(client: Client) -> None:
        message = await client.get("time")
        assert list(message) == ["retCode", "retMsg", "result", "retExtInfo", "time"]
        assert message["time"] == START
        assert message["result"] == {
            "timeSecond": str(START // 1000),
            "timeNano": str(START * 1_000_000),
        }

    run(scenario)


def test_tickers_of_the_whole_market_carry_every_field_as_text() -> None:
    async def scenario(client: Client) -> None:
        rows = {row["symbol"]: row for row in (await client.result("tickers"))["list"]}
        assert rows.keys() > LIVE_SYMBOLS
        assert "MATICUSDT" not in rows
        assert {type(text) for row in rows.values() for text in row.values()} == {str}
        assert len({frozenset(row) for row in rows.values()}) == 1
        assert rows["BTCUSDT"]["fundingIntervalHour"] == "8"
        assert rows["BTCUSDT"]["nextFundingTime"] == str(START - START % (8 * HOUR) + 8 * HOUR)
        future = next(row for symbol, row in rows.items() if symbol.startswith("BTC-"))
        assert (future["fundingRate"], future["nextFundingTime"]) == ("", "0")
        assert rows["MEGAUSDT"]["curPreListingPhase"] == "ContinuousTrading"
        assert (await client.result("tickers", symbol="BTCUSDT"))["list"] == [rows["BTCUSDT"]]

    run(scenario)


def test_a_reader_that_filters_the_instruments_gets_exactly_the_live_perpetuals() -> None:
    async def scenario(client: Client) -> None:
        rows = (await client.result("instruments-info", limit=1000))["list"]
        wanted = {
            row["symbol"]
            for row in rows
            if row["contractType"] == "LinearPerpetual"
            and row["quoteCoin"] == "USDT"
            and row["status"] == "Trading"
            and row["symbolType"] in {"", "innovation"}
        }
        assert wanted == LIVE_SYMBOLS
        assert len(rows) > len(wanted)

    run(scenario)


def test_instruments_come_in_pages_and_through_filters() -> None:
    async def scenario(client: Client) -> None:
        whole = [row["symbol"] for row in (await client.result("instruments-info"))["list"]]
        pages, cursor = [], ""
        while True:
            page = await client.result("instruments-info", limit=30, cursor=cursor)
            pages += [row["symbol"] for row in page["list"]]
            cursor = page["nextPageCursor"]
            if not cursor:
                break
        assert pages == whole
        early = await client.result("instruments-info", status="PreLaunch")
        assert {row["isPreListing"] for row in early["list"]} == {True}
        bitcoin = await client.result("instruments-info", baseCoin="BTC")
        assert {row["baseCoin"] for row in bitcoin["list"]} == {"BTC"}
        (ether,) = (await client.result("instruments-info", symbol="ETHUSDT"))["list"]
        assert ether["fundingInterval"] == 480
        assert ether["priceFilter"]["tickSize"] == "0.01"

    run(scenario)


@pytest.mark.parametrize(
    ("path", "name", "step"),
    [("account-ratio", "period", 300_000), ("open-interest", "intervalTime", HOUR)],
)
def test_histories_run_backwards_and_are_paged(path: str, name: str, step: int) -> None:
    async def scenario(client: Client) -> None:
        query = {"symbol": "BTCUSDT", name: "5min" if step == 300_000 else "1h"}
        whole = await client.result(path, limit=9, **query)
        times = [int(row["timestamp"]) for row in whole["list"]]
        assert times == [START - START % step - step * back for back in range(9)]
        first = await client.result(path, limit=4, **query)
        then = await client.result(path, limit=5, cursor=first["nextPageCursor"], **query)
        assert first["list"] + then["list"] == whole["list"]
        early = await client.result(path, startTime=0, endTime=EPOCH - DAY, limit=200, **query)
        assert int(early["list"][0]["timestamp"]) == EPOCH - DAY

    run(scenario)


def test_account_ratios_add_up_to_one() -> None:
    async def scenario(client: Client) -> None:
        for period in ("5min", "15min", "30min", "1h", "4h", "1d"):
            result = await client.result("account-ratio", symbol="BTCUSDT", period=period, limit=3)
            for row in result["list"]:
                assert float(row["buyRatio"]) + float(row["sellRatio"]) == pytest.approx(1.0)

    run(scenario)


def test_settled_funding_is_listed_newest_first() -> None:
    async def scenario(client: Client) -> None:
        rows = (await client.result("funding/history", symbol="BTCUSDT", limit=5))["list"]
        times = [int(row["fundingRateTimestamp"]) for row in rows]
        assert times == [START - START % (8 * HOUR) - 8 * HOUR * back for back in range(5)]
        some = await client.result(
            "funding/history", symbol="BTCUSDT", startTime=times[3], endTime=times[1]
        )
        assert some["list"] == rows[1:4]
        refused = await client.get(
            "funding/history", category="linear", symbol="BTCUSDT", startTime=times[3]
        )
        assert refused["retCode"] == 10001

    run(scenario)


def test_candles_join_one_another() -> None:
    async def scenario(client: Client) -> None:
        rows = (await client.result("kline", symbol="BTCUSDT", interval="60", limit=6))["list"]
        assert rows
        last = (await client.result("tickers", symbol="BTCUSDT"))["list"][0]["lastPrice"]
        assert rows[0][4] == last
        for row in rows:
            low, high = float(row[3]), float(row[2])
            assert low <= min(float(row[1]), float(row[4]))
            assert high >= max(float(row[1]), float(row[4]))
        for newer, older in pairwise(rows):
            assert newer[1] == older[4]
            assert int(newer[0]) > int(older[0])

    run(scenario)


def test_candles_are_cut_by_start_end_and_limit() -> None:
    async def scenario(client: Client) -> None:
        first, last = EPOCH + HOUR, EPOCH + 4 * HOUR
        query = {"symbol": "ETHUSDT", "interval": "60"}
        both = (await client.result("kline", start=first, end=last, **query))["list"]
        assert [int(row[0]) for row in both] == [last - back * HOUR for back in range(4)]
        onwards = (await client.result("kline", start=first, limit=2, **query))["list"]
        assert onwards == both[-2:]
        newest = (await client.result("kline", end=last, limit=2, **query))["list"]
        assert newest == both[:2]

    run(scenario)


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("tickers", {}),
        ("tickers", {"category": "Linear"}),
        ("tickers", {"category": "linear", "symbol": "NOPEUSDT"}),
        ("tickers", {"category": "linear", "symbol": "btcusdt"}),
        ("tickers", {"category": "linear", "symbol": "MATICUSDT"}),
        ("instruments-info", {"category": "linear", "symbol": "NOPEUSDT"}),
        ("instruments-info", {"category": "linear", "limit": "many"}),
        ("instruments-info", {"category": "linear", "cursor": "nonsense"}),
        ("account-ratio", {"category": "linear", "symbol": "BTCUSDT"}),
        ("account-ratio", {"category": "linear", "symbol": "BTCUSDT", "period": "7min"}),
        ("account-ratio", {"category": "linear", "period": "5min"}),
        (
            "account-ratio",
            {"category": "linear", "symbol": "BTCUSDT", "period": "1h", "limit": "0"},
        ),
        ("open-interest", {"category": "linear", "symbol": "BTCUSDT", "intervalTime": ""}),
        ("funding/history", {"category": "linear", "symbol": "BTC-25DEC26"}),
        ("kline", {"symbol": "BTCUSDT", "interval": "7"}),
        ("kline", {"symbol": "BTCUSDT", "interval": "60", "start": "-1"}),
    ],
)
def test_a_bad_request_is_a_success_with_code_10001(path: str, query: dict[str, str]) -> None:
    status, body = answer(WORLD, f"/v5/market/{path}", query, START)
    message = msgspec.json.decode(body)
    assert (status, message["retCode"], message["result"]) == (200, 10001, {})
    known = query.get("category", "linear" if path == "kline" else "") == "linear"
    assert message["retMsg"].startswith("params error: " if known else "Illegal category")


def test_an_unknown_path_is_not_found() -> None:
    async def scenario(client: Client) -> None:
        assert (await client.http.get("/v5/market/nothing")).status_code == 404

    run(scenario)


def test_pings_and_bad_requests_of_the_stream_are_answered() -> None:
    async def scenario(client: Client) -> None:
        async with listening(client) as stream:
            pong = await ask(stream, op="ping", req_id="7")
            assert (pong["success"], pong["ret_msg"], pong["op"]) == (True, "pong", "ping")
            assert pong["req_id"] == "7"
            unknown = await ask(stream, op="subscribe", args=["allLiquidation.NOPEUSDT"])
            assert unknown["success"] is False
            assert unknown["ret_msg"] == "error:handler not found,topic:allLiquidation.NOPEUSDT"
            one = ["allLiquidation.BTCUSDT"]
            mixed = await ask(stream, op="subscribe", args=[*one, "allLiquidation.NOPEUSDT"])
            assert mixed["success"] is False
            # The refused request subscribed nothing, so its good topic is still free.
            assert (await ask(stream, op="subscribe", args=one))["success"] is True
            again = await ask(stream, op="subscribe", args=one, req_id="again")
            assert again["ret_msg"] == "error:already subscribed,topic:allLiquidation.BTCUSDT"
            assert (again["success"], again["req_id"]) == (False, "again")
            assert (await ask(stream, op="subscribe", args=[]))["success"] is False
            assert (await ask(stream, op="dance"))["success"] is False
            await stream.send("not json")
            assert (await hear(stream))["success"] is False

    run(scenario)


def test_topics_longer_than_the_limit_are_refused() -> None:
    async def scenario(client: Client) -> None:
        async with listening(client) as stream:
            long = [f"allLiquidation.{'X' * 40}{number}USDT" for number in range(400)]
            reply = await ask(stream, op="subscribe", args=long)
            assert (reply["success"], "21000" in reply["ret_msg"]) == (False, True)

    run(scenario)


async def collect(stream: ClientConnection, count: int) -> list[tuple[object, ...]]:
    """So many liquidations, as they come."""
    rows: list[tuple[object, ...]] = []
    while len(rows) < count:
        message = await hear(stream)
        assert message["type"] == "snapshot"
        rows += [(r["T"], r["s"], r["S"], r["v"], r["p"]) for r in message["data"]]
    return rows


ALL_TOPICS = [f"allLiquidation.{symbol}" for symbol in sorted(LIVE_SYMBOLS)]
FROM = START // 500 * 500


def expected(until: int) -> list[tuple[object, ...]]:
    events = WORLD.liquidations(FROM, until // 500 * 500)
    return [tuple(event) for event in events if event.symbol in LIVE_SYMBOLS]


def test_the_stream_sends_every_liquidation_once() -> None:
    async def scenario(client: Client) -> None:
        async with listening(client, *ALL_TOPICS) as stream:
            wanted = expected(START + HOUR)
            assert wanted
            client.clock.now = START + HOUR
            assert sorted(await collect(stream, len(wanted)), key=str) == sorted(wanted, key=str)
            assert (await ask(stream, op="ping"))["ret_msg"] == "pong"

    run(scenario)


@pytest.mark.parametrize(
    ("fault", "status", "code", "text"),
    [
        ("403-json", 403, 10018, "access too frequent"),
        ("403-html", 403, None, "CloudFront"),
        ("429", 429, None, "frequency"),
        ("10006", 200, 10006, "Too many visits!"),
        ("10016", 200, 10016, "Internal System Error"),
        ("502", 502, None, "Bad Gateway"),
        ("outage", 502, None, "Bad Gateway"),
    ],
)
def test_a_refusing_exchange_refuses_and_recovers(
    fault: str, status: int, code: int | None, text: str
) -> None:
    async def scenario(client: Client) -> None:
        await client.fault(fault)
        response = await client.http.get("/v5/market/time")
        assert response.status_code == status
        assert text in response.text
        assert (code is None) == response.headers["content-type"].startswith("text/")
        if code is not None:
            assert response.json()["retCode"] == code
        await client.fault(fault, on=False)
        assert (await client.get("time"))["retCode"] == 0

    run(scenario)


def test_a_fault_can_be_limited_to_one_path() -> None:
    async def scenario(client: Client) -> None:
        await client.fault("502", path="account-ratio")
        await client.fault("429", path="/v5/market/kline")
        assert (await client.get("time"))["retCode"] == 0
        assert (await client.http.get("/v5/market/account-ratio")).status_code == 502
        assert (await client.http.get("/v5/market/kline")).status_code == 429
        await client.fault("502", on=False, path="account-ratio")
        assert (await client.http.get("/v5/market/account-ratio")).status_code == 200

    run(scenario)


def test_a_hanging_request_is_answered_when_the_fault_ends() -> None:
    async def scenario(client: Client) -> None:
        await client.fault("hang")
        waiting = asyncio.ensure_future(client.get("time"))
        with pytest.raises(httpx2.ReadTimeout):
            await client.http.get("/v5/market/time", timeout=0.1)
        assert not waiting.done()
        await client.fault("hang", on=False)
        assert (await waiting)["retCode"] == 0

    run(scenario)


def test_a_reset_connection_is_reset() -> None:
    async def scenario(client: Client) -> None:
        await client.fault("reset")
        reader, writer = await asyncio.open_connection("127.0.0.1", client.address.port)
        writer.write(b"GET /v5/market/time HTTP/1.1\r\nHost: x\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()
        with pytest.raises(httpx2.ReadError):
            await client.http.get("/v5/market/time")

    run(scenario)


def test_a_truncated_body_is_shorter_than_promised_and_broken_json() -> None:
    async def scenario(client: Client) -> None:
        await client.fault("truncated")
        received = bytearray()

        async def read() -> int:
            async with client.http.stream("GET", "/v5/market/tickers?category=linear") as response:
                async for part in response.aiter_raw():
                    received.extend(part)
            return response.status_code

        with pytest.raises(httpx2.RemoteProtocolError, match="without sending complete"):
            await read()
        assert received.startswith(b'{"retCode":0,')
        with pytest.raises(msgspec.DecodeError):
            msgspec.json.decode(received)

    run(scenario)


def test_an_empty_list_looks_like_a_success() -> None:
    async def scenario(client: Client) -> None:
        await client.fault("empty-list", path="tickers")
        assert await client.result("tickers") == {"category": "linear", "list": []}
        assert (await client.result("instruments-info"))["list"]

    run(scenario)


def test_a_stale_clock_freezes_time_and_data() -> None:
    async def scenario(client: Client) -> None:
        before = await client.get("tickers", category="linear")
        await client.fault("stale-clock")
        client.clock.now += HOUR
        assert await client.get("tickers", category="linear") == before
        await client.fault("stale-clock", on=False)
        after = await client.get("tickers", category="linear")
        assert after["time"] == START + HOUR
        assert after["result"] != before["result"]

    run(scenario)


def test_a_delisted_contract_disappears() -> None:
    async def scenario(client: Client) -> None:
        await client.fault("delisting")
        await client.fault("delisting", symbol="DOGEUSDT")
        symbols = {row["symbol"] for row in (await client.result("tickers"))["list"]}
        assert symbols.isdisjoint({"SOLUSDT", "DOGEUSDT"})
        rows = (await client.result("instruments-info"))["list"]
        status = {row["symbol"]: row["status"] for row in rows}
        assert (status["SOLUSDT"], status["DOGEUSDT"]) == ("Closed", "Closed")
        ratio = await client.get(
            "account-ratio", category="linear", symbol="SOLUSDT", period="5min"
        )
        assert ratio["retCode"] == 10001
        async with listening(client) as stream:
            reply = await ask(stream, op="subscribe", args=["allLiquidation.SOLUSDT"])
            assert reply["success"] is False

    run(scenario)


def test_a_topic_can_be_unknown_although_its_contract_is_listed() -> None:
    async def scenario(client: Client) -> None:
        await client.fault("unknown-topic", symbol="DOGEUSDT")
        assert (await client.result("tickers", symbol="DOGEUSDT"))["list"]
        async with listening(client) as stream:
            reply = await ask(stream, op="subscribe", args=ALL_TOPICS)
            assert reply["ret_msg"] == "error:handler not found,topic:allLiquidation.DOGEUSDT"

    run(scenario)


@pytest.mark.parametrize("hour", [1, 26, 71])
def test_the_past_of_an_hour_is_what_the_tickers_showed_then(hour: int) -> None:
    at = EPOCH + hour * HOUR

    def ask_at(now: int, path: str, **query: str) -> Any:
        query |= {"category": "linear", "symbol": "TIAUSDT"}
        return msgspec.json.decode(answer(WORLD, f"/v5/market/{path}", query, now)[1])["result"]

    (ticker,) = ask_at(at, "tickers")["list"]
    (share,) = ask_at(at, "account-ratio", period="5min", limit="1")["list"]
    span = {"startTime": str(at), "endTime": str(at)}
    (candle,) = ask_at(START, "kline", interval="60", start=str(at), end=str(at))["list"]
    (interest,) = ask_at(START, "open-interest", intervalTime="1h", **span)["list"]
    assert candle[:2] == [str(at), ticker["lastPrice"]]
    assert float(interest["openInterest"]) == pytest.approx(float(ticker["openInterest"]), abs=0.1)
    assert ask_at(START, "account-ratio", period="1h", **span)["list"] == [share]
    settled = at // (4 * HOUR) * 4 * HOUR
    span = {"startTime": str(settled), "endTime": str(settled)}
    (past,) = ask_at(START, "funding/history", **span)["list"]
    (before,) = ask_at(settled - 1, "tickers")["list"]
    assert float(past["fundingRate"]) == pytest.approx(float(before["fundingRate"]), abs=1e-7)


@pytest.mark.parametrize("fault", ["stream-drop", "outage"])
def test_dropped_streams_stay_away_until_the_fault_ends(fault: str) -> None:
    async def scenario(client: Client) -> None:
        async with listening(client, *ALL_TOPICS) as stream:
            await client.fault(fault)
            with pytest.raises(ConnectionClosed):
                await hear(stream)
        with pytest.raises(ConnectionClosed):
            async with listening(client) as stream:
                await hear(stream)
        await client.fault(fault, on=False)
        async with listening(client) as stream:
            assert (await ask(stream, op="ping"))["ret_msg"] == "pong"

    run(scenario)


def test_a_silent_stream_stays_open_and_answers_no_ping() -> None:
    async def scenario(client: Client) -> None:
        async with listening(client, *ALL_TOPICS) as stream:
            await client.fault("stream-silence")
            client.clock.now += HOUR
            pong = asyncio.ensure_future(await stream.ping())
            await stream.send('{"op":"ping"}')
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(stream.recv(), 0.1)
            assert not pong.done()
            await client.fault("stream-silence", on=False)
            # What happened in the silence is lost; the ping is answered at last.
            assert (await hear(stream))["ret_msg"] == "pong"
            await asyncio.wait_for(pong, PATIENCE)

    run(scenario)


def test_duplicated_batches_come_twice() -> None:
    async def scenario(client: Client) -> None:
        async with listening(client, *ALL_TOPICS) as stream:
            await client.fault("stream-duplicates")
            wanted = expected(START + HOUR)
            client.clock.now = START + HOUR
            heard = await collect(stream, 2 * len(wanted))
            assert sorted(heard, key=str) == sorted(wanted * 2, key=str)

    run(scenario)


def test_replies_to_commands_list_active_and_known_faults() -> None:
    async def scenario(client: Client) -> None:
        assert await client.command(fault="429", on=True) == {"ok": True, "active": ["429"]}
        await client.fault("delisting")
        both = await client.command(fault="hang", on=True, path="kline")
        assert both["active"] == ["429", "delisting of SOLUSDT", "hang on /v5/market/kline"]
        unknown = await client.command(fault="flood", on=True)
        assert unknown["ok"] is False
        assert all(name in unknown["error"] for name in FAULTS_BY_SERVER["bybit"])
        assert (await client.command(fault="429"))["ok"] is False
        assert (await client.command(fault="429", on=True, path="/nowhere"))["ok"] is False
        assert (await client.command(fault="stream-drop", on=True, path="kline"))["ok"] is False
        assert (await client.command(fault="delisting", on=True, symbol="NOPE"))["ok"] is False
        assert await client.command(off="all") == {"ok": True, "active": []}

    run(scenario)


@pytest.mark.thorough
def test_an_address_that_exceeds_the_rate_limit_is_refused_for_ten_minutes() -> None:
    async def scenario(client: Client) -> None:
        requests = [client.http.get("/v5/market/time") for _ in range(LIMIT_REQUESTS)]
        assert {reply.status_code for reply in await asyncio.gather(*requests)} == {200}
        client.clock.now += LIMIT_MS - 1
        refused = await client.http.get("/v5/market/time")
        assert (refused.status_code, refused.json()["retMsg"]) == (403, "access too frequent")
        client.clock.now += BAN_MS - 1
        assert (await client.http.get("/v5/market/time")).status_code == 403
        client.clock.now += 1
        assert (await client.get("time"))["retCode"] == 0

    run(scenario)


def test_requests_are_counted_by_path() -> None:
    async def scenario(client: Client) -> None:
        await client.get("time")
        await client.fault("502")
        await client.http.get("/v5/market/time")
        await client.http.get("/nothing")
        counted = await client.command(count=True)
        assert counted == {"requests": {"/v5/market/time": 2, "other": 1}}

    run(scenario)


def test_commands_can_be_sent_from_another_process() -> None:
    async def scenario(client: Client) -> None:
        for address in (f"127.0.0.1:{client.address.port}", client.address.url):
            reply = await asyncio.to_thread(send_command, address, {"fault": "429", "on": True})
            assert reply == {"ok": True, "active": ["429"]}

    run(scenario)


def test_a_command_without_a_server_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="is the demo running"):
        send_command("127.0.0.1:1", {"off": "all"})


@pytest.mark.parametrize("fault", ["hang", "stream-silence"])
def test_the_exchange_stops_soon_whatever_hangs(fault: str) -> None:
    async def whole() -> float:
        running = AsyncExitStack()
        address = await running.enter_async_context(running_exchange(WORLD, Clock()))
        http = httpx2.AsyncClient(base_url=address.url, trust_env=False, verify=False)
        client = Client(address, http, Clock())
        _, mute = await asyncio.open_connection("127.0.0.1", address.port)
        async with http, listening(client, "allLiquidation.BTCUSDT") as stream:
            await client.fault(fault)
            await stream.send('{"op":"ping"}')
            request = asyncio.ensure_future(client.get("time"))
            while not (await client.command(count=True))["requests"]:
                pass
            begun = time.perf_counter()
            await running.aclose()
            took = time.perf_counter() - begun
            await asyncio.gather(request, return_exceptions=True)
        mute.close()
        return took

    # A websocket that waits for its peer to close takes 10 s.
    assert asyncio.run(whole()) < 5.0


def test_a_taken_port_is_refused() -> None:
    async def scenario(client: Client) -> None:
        with pytest.raises(OSError, match="address already in use"):
            await run_exchange(WORLD, "127.0.0.1", client.address.port, client.clock)

    run(scenario)


def test_every_path_answers() -> None:
    query = {"category": "linear", "symbol": "BTCUSDT", "interval": "60"}
    for path in PATHS:
        status, body = answer(WORLD, path, query | {"period": "1h", "intervalTime": "1h"}, START)
        assert (status, msgspec.json.decode(body)["retCode"]) == (200, 0)


def test_control_ports_refuse_every_web_page() -> None:
    origins: list[str] = ["http://attacker.example", "http://127.0.0.1:8080", "null"]

    async def run() -> list[str]:
        async with AsyncExitStack() as stack:
            servers: tuple[AbstractAsyncContextManager[ServerAddress], ...] = (
                running_exchange(WORLD, Clock()),
                running_hyperliquid(WORLD, Clock()),
                running_binance(WORLD, Clock()),
                running_macro(MacroWorld(WORLD)),
                running_identity(ECKey.generate_key("P-256")),
                running_facilitator(TokenLedger({})),
            )
            urls = [(await stack.enter_async_context(each)).control_url for each in servers]
            for url in urls:
                for origin in origins:
                    with pytest.raises(InvalidStatus) as refused:
                        await connect(url, origin=Origin(origin), proxy=None)
                    assert refused.value.response.status_code == 403
            commands = (asyncio.to_thread(send_command, url, {"off": "all"}) for url in urls)
            return [str(each["ok"]) for each in await asyncio.gather(*commands)]

    assert asyncio.run(run()) == ["True"] * 6
