"""Listening to liquidations, against a small server that can misbehave."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from socket import SO_RCVBUF, SO_SNDBUF, SOL_SOCKET
from socket import socket as new_socket
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.utils import accept_key

from barograph.errors import Unreachable
from barograph.kit.clock import system_clock
from barograph.kit.metrics import NO_METRICS
from barograph.kit.timestamps import DAY
from barograph.settings import Settings
from barograph.venues.bybit.exchange import BybitExchange
from barograph.venues.bybit.messages import MAX_UNANSWERED, Subscribed, Subscriptions
from barograph.venues.bybit.stream import _GroupWatcher, _State, _StreamConnection
from barograph.venues.kit.stream import ConnectionState, VenueStream
from barograph.venues.records import Liquidation
from barograph.venues.registry import VENUES
from barograph.venues.spans import WatchedSpans
from support.markets import Watcher

REPLIES = Path(__file__).parent / "bybit_replies"
BATCH = (REPLIES / "liquidations.json").read_text()
_SUBSCRIBED = json.loads((REPLIES / "subscribed.json").read_text())
PONG = (REPLIES / "pong.json").read_text()

STORED_AT = 1_794_787_212_345
"""When the stored replies were given."""

_STARTED = system_clock()

CONTRACTS = ["BTCUSDT", "ETHUSDT"]
AT_ONCE = 0.04
"""Pings so often that silence is noticed soon. A busy machine is silent for longer, so a test that
uses it must not depend on how often the connections break."""

SELDOM = 20.0
"""As seldom as in the service: a busy machine is not taken for a silent exchange."""


def reply_to(request: dict[str, object], refusal: str | None = None) -> str:
    """The exchange's reply to a subscribe request, which repeats its id."""
    told = {"success": refusal is None, "ret_msg": refusal or "", "req_id": request["req_id"]}
    return json.dumps({**_SUBSCRIBED, **told})


def running_clock() -> int:
    """Runs as the real one does, but began when the stored replies were given."""
    return STORED_AT + system_clock() - _STARTED


class Server:
    """A websocket server; each connection is handled by `behave`, given its number."""

    def __init__(
        self, behave: Callable[["Server", ServerConnection, int], Awaitable[None]]
    ) -> None:
        self.behave = behave
        self.connections = 0
        self.open: set[ServerConnection] = set()
        self.requests: list[list[str]] = []
        self.pings = 0

    async def handle(self, socket: ServerConnection) -> None:
        number, self.connections = self.connections, self.connections + 1
        self.open.add(socket)
        try:
            await self.behave(self, socket, number)
        except ConnectionClosed:
            pass
        finally:
            self.open.discard(socket)

    async def converse(
        self, socket: ServerConnection, refuse: Callable[[list[str]], str | None] = lambda _: None
    ) -> None:
        """Answer subscriptions and pings like the exchange."""
        async for text in socket:
            request = json.loads(text)
            if request["op"] == "subscribe":
                self.requests.append(request["args"])
                await socket.send(reply_to(request, refuse(request["args"])))
            else:
                self.pings += 1
                await socket.send(PONG)

    async def push(self, text: str) -> None:
        for socket in list(self.open):
            await socket.send(text)


class Listening:
    """An adapter that listens to a `Server`; `until` waits for what a test expects."""

    def __init__(
        self, server: Server, watcher: Watcher, pauses: list[float], exchange: BybitExchange
    ) -> None:
        self.exchange = exchange
        self.server = server
        self.watcher = watcher
        self.pauses = pauses

    async def until(self, expected: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not expected():  # noqa: ASYNC110 -- what is expected is said by no event
                await asyncio.sleep(0.002)

    async def until_watched(self, spans: int) -> None:
        """Send liquidations until this many spans are watched; each one proves a span."""
        async with asyncio.timeout(60):
            while len(self.watcher.spans) < spans:
                await self.server.push(BATCH)
                await asyncio.sleep(0.002)


@contextlib.asynccontextmanager
async def listening(
    behave: Callable[[Server, ServerConnection, int], Awaitable[None]],
    contracts: Sequence[str] = CONTRACTS,
    clock: Callable[[], int] = running_clock,
    ping_seconds: float = SELDOM,
) -> AsyncIterator[Listening]:
    server, watcher = Server(behave), Watcher()
    pauses: list[float] = []

    async def soon(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0.002)

    async with serve(server.handle, "127.0.0.1", 0, close_timeout=0.1) as running:
        port = next(iter(running.sockets)).getsockname()[1]
        exchange = BybitExchange(
            Settings(exchange_rest_url=f"http://127.0.0.1:{port}"),
            clock=clock,
            sleep=soon,
            random=Random(1),
            ping_seconds=ping_seconds,
        )
        task = asyncio.create_task(exchange.listen(contracts, watcher))
        try:
            yield Listening(server, watcher, pauses, exchange)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                async with asyncio.timeout(2):
                    await task
            await exchange.close()


async def well(server: Server, socket: ServerConnection, number: int) -> None:
    await server.converse(socket)


async def test_two_connections_hear_every_contract_and_duplicates_are_passed_on() -> None:
    async with listening(well) as there:
        await there.until(lambda: len(there.server.requests) >= 2)
        topics = ["allLiquidation.BTCUSDT", "allLiquidation.ETHUSDT"]
        assert there.server.requests == [topics, topics]
        await there.server.push(BATCH)
        await there.until(lambda: len(there.watcher.heard) >= 4)
        assert len(set(there.watcher.heard)) == 2
        assert {heard.side for heard in there.watcher.heard} == {"long", "short"}


@pytest.mark.thorough
async def test_a_quiet_market_is_watched_by_pongs_without_a_gap() -> None:
    async def one(server: Server, socket: ServerConnection, number: int) -> None:
        if number == 0:
            await server.converse(socket)

    # Long enough that a pong is in time, also on a busy machine: no other connection is served.
    async with listening(one, ping_seconds=2) as there:
        await there.until(lambda: len(there.watcher.spans) >= 3)
        assert there.server.pings >= 3
        spans = there.watcher.spans
    assert all(end == start for (_, end), (start, _) in pairwise(spans))
    assert all(start < end for start, end in spans)


async def test_nothing_counts_as_watched_before_every_subscription_is_accepted() -> None:
    contracts = ["BTCUSDT", *(f"C{number}USDT" for number in range(44))]

    async def half(server: Server, socket: ServerConnection, number: int) -> None:
        async for text in socket:
            request = json.loads(text)
            if request["op"] == "ping":
                await socket.send(PONG)
            elif request["req_id"] != "3":
                await socket.send(reply_to(request))
                await socket.send(BATCH)

    async with listening(half, contracts, ping_seconds=AT_ONCE) as there:
        await there.until(lambda: len(there.watcher.heard) >= 8)
        assert there.watcher.spans == []


async def test_a_dropped_connection_comes_back_and_subscribes_again() -> None:
    async def drop_first(server: Server, socket: ServerConnection, number: int) -> None:
        if number == 0:
            await socket.send(reply_to(json.loads(await socket.recv())))
            return
        await server.converse(socket)

    async with listening(drop_first) as there:
        await there.until(lambda: len(there.server.requests) >= 2)
        await there.server.push(BATCH)
        await there.until(lambda: len(there.watcher.heard) >= 4)
        assert there.server.connections == 3


@pytest.mark.outcome(
    "The liquidation stream drops or falls silent",
    "That time doesn't count as covered; below 95 % `liq24h` is unavailable. It reconnects.",
)
async def test_a_silent_connection_is_dropped_and_its_silence_is_not_watched() -> None:
    async def fall_silent(server: Server, socket: ServerConnection, number: int) -> None:
        if number >= 2:
            await socket.wait_closed()
        async for text in socket:
            request = json.loads(text)
            if request["op"] == "subscribe":
                await socket.send(reply_to(request))
                await asyncio.sleep(0.01)
                await socket.send(BATCH)

    async with listening(fall_silent, ping_seconds=1) as there:
        await there.until(lambda: there.server.connections >= 4)
    assert len(there.watcher.heard) == 4
    assert len(there.watcher.spans) == 2
    # The silence lasted 1,500 ms before it was noticed.
    assert all(end - start < 1500 for start, end in there.watcher.spans)


async def test_a_message_that_cannot_be_read_drops_the_connection_and_its_span() -> None:
    async def babble(server: Server, socket: ServerConnection, number: int) -> None:
        if number < 2:
            await socket.send(reply_to(json.loads(await socket.recv())))
            await asyncio.sleep(0.01)
            await socket.send(BATCH.replace('"Buy"', '"Up"'))
        await server.converse(socket)

    async with listening(babble) as there:
        await there.until(lambda: there.server.connections >= 4)
        assert there.watcher.spans == []
        assert there.watcher.heard == []
        await there.until_watched(2)


async def test_a_refused_subscription_is_logged_once_and_tried_again_more_and_more_slowly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refuse(server: Server, socket: ServerConnection, number: int) -> None:
        await server.converse(socket, lambda _: "error:no permission")

    async with listening(refuse) as there:
        await there.until(lambda: there.server.connections >= 20)
    assert there.watcher.spans == []
    lost = [record for record in caplog.records if record.message == "liquidation stream lost"]
    assert sorted(record.__dict__["connection"] for record in lost) == [0, 1]
    assert {record.__dict__["kind"] for record in lost} == {"refused"}
    assert all(0.5 <= pause <= 30 for pause in there.pauses)
    assert max(there.pauses) > 14


def naming(*unknown: str) -> Callable[[list[str]], str | None]:
    """Refuse a request as the exchange does, by the first topic that it does not know."""

    def refuse(topics: list[str]) -> str | None:
        found = next((topic for topic in topics if topic in unknown), None)
        return None if found is None else f"error:handler not found,topic:{found}"

    return refuse


def hiding(*unknown: str) -> Callable[[list[str]], str | None]:
    """Refuse a request without a word about the topic."""
    return lambda topics: "error:bad request" if set(unknown).intersection(topics) else None


@pytest.mark.outcome(
    "The exchange has no liquidation topic for a contract",
    "The collector watches all others. `/api/status` counts it.",
)
@pytest.mark.parametrize("refusing", [naming, hiding])
async def test_unknown_topics_are_left_out_and_all_others_are_watched(
    refusing: Callable[..., Callable[[list[str]], str | None]], caplog: pytest.LogCaptureFixture
) -> None:
    contracts = [f"C{number}USDT" for number in range(52)]
    topics = {f"allLiquidation.{contract}" for contract in contracts}
    unknown = ("allLiquidation.C7USDT", "allLiquidation.C8USDT", "allLiquidation.C51USDT")
    refuse = refusing(*unknown)

    def accepted_by(there: Listening) -> list[str]:
        requests = there.server.requests
        return [topic for args in requests if refuse(args) is None for topic in args]

    async def partly(server: Server, socket: ServerConnection, number: int) -> None:
        await server.converse(socket, refuse)

    async with listening(partly, contracts) as there:
        await there.until(lambda: len(there.server.open) == 2)
        await there.until_watched(4)
        await there.until(lambda: len(accepted_by(there)) == 2 * (len(topics) - len(unknown)))
    assert there.server.connections == 2
    assert max(len(args) for args in there.server.requests) == 10
    assert sorted(accepted_by(there)) == sorted(2 * list(topics - set(unknown)))
    told = [each for each in caplog.records if "without a liquidation topic" in each.message]
    assert [each.__dict__["contracts"] for each in told] == [["C51USDT", "C7USDT", "C8USDT"]]
    assert there.exchange._stream is not None
    assert there.exchange._stream.left_out == ["C51USDT", "C7USDT", "C8USDT"]


def test_a_topic_that_is_subscribed_already_is_watched() -> None:
    subscriptions = Subscriptions(["a", "b", "c"])
    (first,) = subscriptions.next_requests()
    refusal = "error:already subscribed,topic:b"
    subscriptions.answered(Subscribed(False, refusal, json.loads(first)["req_id"]))
    (second,) = subscriptions.next_requests()
    assert json.loads(second)["args"] == ["a", "c"]
    assert not subscriptions.is_complete
    subscriptions.answered(Subscribed(True, "", "unknown-request"))
    assert not subscriptions.is_complete
    subscriptions.answered(Subscribed(True, "", json.loads(second)["req_id"]))
    assert subscriptions.is_complete
    assert subscriptions.left_out == []


@given(
    st.lists(st.integers(0, 99), unique=True, max_size=100),
    st.sets(st.integers(0, 99), max_size=20),
    st.booleans(),
)
def test_exactly_the_unknown_topics_are_left_out(
    numbers: list[int], unknown: set[int], named: bool
) -> None:
    topics = [f"allLiquidation.C{number}" for number in numbers]
    bad = {f"allLiquidation.C{number}" for number in unknown.intersection(numbers)}
    assume(2 * len(bad) <= len(topics))
    refuse = naming(*bad) if named else hiding(*bad)
    subscriptions, accepted = Subscriptions(topics), list[str]()
    while requests := [json.loads(text) for text in subscriptions.next_requests()]:
        assert len(requests) <= MAX_UNANSWERED
        for request in requests:
            refusal = refuse(request["args"])
            accepted += request["args"] if refusal is None else []
            reply = Subscribed(refusal is None, refusal or "", request["req_id"])
            subscriptions.answered(reply)
    assert subscriptions.is_complete
    assert set(subscriptions.left_out) == bad
    assert sorted(accepted) == sorted(set(topics) - bad)


async def test_an_unanswered_subscription_is_given_up() -> None:
    async def ignore(server: Server, socket: ServerConnection, number: int) -> None:
        async for text in socket:
            if json.loads(text)["op"] == "ping":
                await socket.send(PONG)

    async with listening(ignore, ping_seconds=AT_ONCE) as there:
        await there.until(lambda: there.server.connections >= 4)
        assert there.watcher.spans == []


async def test_connections_that_broke_together_do_not_come_back_together() -> None:
    async with listening(well) as there:
        await there.until(lambda: len(there.server.requests) >= 2)
        there.pauses.clear()
        for socket in list(there.server.open):
            socket.transport.abort()
        await there.until(lambda: len(there.server.requests) >= 4)
        first, second = sorted(there.pauses)
    assert 1.0 <= first < 1.5 <= second <= 2.0


async def test_what_one_connection_cannot_carry_is_heard_on_others() -> None:
    contracts = [f"LONGNAME{number:04}USDT" for number in range(1000)]

    async with listening(well, contracts) as there:
        await there.until(lambda: len(there.server.requests) >= 2 * 100)
        heard = {topic for args in list(there.server.requests) for topic in args}
    assert heard == {f"allLiquidation.{contract}" for contract in contracts}


def test_time_counts_as_watched_only_when_every_part_was() -> None:
    watcher, logs = Watcher(), [WatchedSpans(), WatchedSpans()]
    first, second = (_GroupWatcher(watcher, logs, part) for part in range(2))
    first.watched(0, 100)
    assert watcher.spans == []
    second.watched(40, 60)
    assert watcher.spans == [(40, 60)]
    second.watched(90, 130)
    assert watcher.spans == [(40, 60), (90, 100)]
    first.watched(100, 120)
    assert watcher.spans == [(40, 60), (90, 100), (100, 120)]


def test_time_that_this_process_slept_through_is_not_watched() -> None:
    now = 1_000_000
    watcher = Watcher()
    connection = _StreamConnection(["a"], watcher, lambda: now, 30_000, _State(0, set()))
    (request,) = connection.subscriptions.next_requests()
    connection.handle(reply_to(json.loads(request)).encode())
    now += 20_000
    connection.handle(PONG.encode())
    now += 7_200_000
    with pytest.raises(Unreachable):
        connection.handle(PONG.encode())
    assert watcher.spans == [(1_000_000, 1_020_000)]


@pytest.mark.parametrize(
    ("after", "contract", "heard"),
    [(60_000, "BTCUSDT", 1), (61_000, "BTCUSDT", 0), (-DAY - 1, "BTCUSDT", 0), (0, "OTHER", 0)],
)
def test_a_liquidation_of_another_time_or_contract_is_dropped(
    after: int, contract: str, heard: int
) -> None:
    watcher, topic = Watcher(), "allLiquidation.BTCUSDT"
    connection = _StreamConnection([topic], watcher, lambda: STORED_AT, 30_000, _State(0, set()))
    row = {"T": STORED_AT + after, "s": contract, "S": "Buy", "v": "1", "p": "1"}
    connection.handle(json.dumps({"topic": topic, "data": [row]}).encode())
    assert len(watcher.heard) == heard


async def test_a_clock_that_is_set_back_reports_no_span_that_ends_before_it_starts() -> None:
    ticks = iter(range(10**12 * 2, 0, -1000))

    async with listening(well, clock=lambda: next(ticks), ping_seconds=AT_ONCE) as there:
        await there.until(lambda: there.server.pings >= 4)
        assert there.watcher.spans == []


async def test_it_ends_promptly_even_when_the_exchange_hangs() -> None:
    async def hang(server: Server, socket: ServerConnection, number: int) -> None:
        socket.transport.pause_reading()
        await socket.wait_closed()

    loop = asyncio.get_running_loop()
    async with listening(hang) as there:
        await there.until(lambda: there.server.connections >= 2)
        await asyncio.sleep(0.05)
        began = loop.time()
    assert (loop.time() - began) < 1.5


async def test_an_unexpected_error_of_a_connection_is_logged_and_it_connects_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    crash = LookupError("no more")

    def fail(liquidations: Sequence[Liquidation]) -> None:
        raise crash

    async with listening(well) as there:
        there.watcher.liquidated = fail  # type: ignore[method-assign]
        await there.until(lambda: len(there.server.requests) >= 2)
        await there.server.push(BATCH)
        await there.until(lambda: there.server.connections >= 4)
        assert there.watcher.spans == []
    assert {each.exc_info[1] for each in caplog.records if each.exc_info} == {crash}


async def test_pings_and_a_half_closed_connection_only_lose_that_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    connected: list[ClientConnection] = []
    handled: list[asyncio.Task[None] | None] = []

    async def half_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handled.append(asyncio.current_task())
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        key = accept_key(request.partition("Sec-WebSocket-Key: ")[2].split()[0])
        fields = f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {key}"
        writer.write(f"HTTP/1.1 101 Switching Protocols\r\n{fields}\r\n\r\n".encode())
        await reader.read(1)
        writer.write((b"\x89\x7d" + b"p" * 125) * 2_000)
        writer.write_eof()
        while not connected[-1].transport.is_closing():  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        while await reader.read(65_536):
            pass
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def use(connection: ClientConnection) -> None:
        # With small buffers it still has pongs to send when the end arrives.
        connection.transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_SNDBUF, 4096)
        connected.append(connection)
        await connection.send("ready")
        await connection.recv()

    async def until_third(seconds: float) -> None:
        if len(connected) == 3:
            raise asyncio.CancelledError

    small = new_socket()
    small.setsockopt(SOL_SOCKET, SO_RCVBUF, 4096)
    small.bind(("127.0.0.1", 0))
    times: dict[str, Any] = {"clock": system_clock, "sleep": until_third}
    stream = VenueStream(VENUES["bybit"], "", Settings(), NO_METRICS, **times, random=Random(1))
    url = f"ws://127.0.0.1:{small.getsockname()[1]}"
    async with await asyncio.start_server(half_close, sock=small, limit=1024):
        with pytest.raises(asyncio.CancelledError):
            await stream._keep_open(url, use, ConnectionState("bybit", 0))
        await asyncio.gather(*filter(None, handled))
    assert [each.exc_info for each in caplog.records] == [None]


async def test_without_contracts_it_waits_to_be_cancelled() -> None:
    exchange = BybitExchange(Settings(), clock=system_clock)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await exchange.listen([], Watcher())
    await exchange.close()
