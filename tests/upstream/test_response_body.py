"""How every upstream client reads a reply that is packed, well or with intent."""

import asyncio
import gzip
import tracemalloc
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, NamedTuple

import httpx
import pytest

from barograph.access.identity import IdentityUnavailable
from barograph.client import Barograph
from barograph.client.errors import Unreachable
from barograph.errors import InvalidReply
from barograph.settings import Settings
from barograph.upstream.bybit import BybitExchange
from barograph.upstream.files import FileClient
from barograph.upstream.identity_http import IdentityHttp
from barograph.upstream.json_http import JsonHttp, NoAnswer
from support.clock import START, HandClock

BODY = b'{"retCode":0,"time":%d,"result":{"timeNano":"%d000000"}}' % (START, START)
MIB = 1024 * 1024


async def no_sleep(seconds: float) -> None:
    pass


async def of_exchange(url: str) -> object:
    settings = Settings(exchange_rest_url=url, request_seconds=30, feed_max_age_seconds=60)
    exchange = BybitExchange(settings, clock=HandClock(), sleep=no_sleep)
    try:
        return await exchange.server_time()
    finally:
        await exchange.close()


async def of_publisher(url: str) -> object:
    files = FileClient(seconds=30, clock=HandClock(), sleep=no_sleep)
    try:
        return await files.get(url)
    finally:
        await files.close()


async def of_facilitator(url: str) -> object:
    http = JsonHttp(longest=64 * 1024)
    try:
        return (await http.get(url, 30)).status
    finally:
        await http.close()


async def of_identity_provider(url: str) -> object:
    http = IdentityHttp(30)
    try:
        return await http.read(url)
    finally:
        await http.close()


class Client(NamedTuple):
    read: Callable[[str], Awaitable[object]]
    failure: type[Exception]
    longest: int


CLIENTS = {
    "exchange": Client(of_exchange, InvalidReply, 16 * MIB),
    "publisher": Client(of_publisher, InvalidReply, 4 * MIB),
    "facilitator and chain": Client(of_facilitator, NoAnswer, 64 * 1024),
    "identity provider": Client(of_identity_provider, IdentityUnavailable, 64 * 1024),
}


def read(client: Client, encoding: str, body: bytes) -> object:
    """What a client makes of this body, sent by a real server; a failure is a result as well."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Content-Encoding: {encoding}\r\n\r\n".encode() + body)
        writer.close()

    async def ask() -> object:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            try:
                return await client.read(f"http://127.0.0.1:{port}")
            except client.failure as error:
                return error

    return asyncio.run(ask())


@cache
def bomb(layers: int) -> bytes:
    body = bytes(64 * MIB)
    for _ in range(layers):
        body = gzip.compress(body)
    return body


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("encoding", ["identity", "gzip", "GZip"])
def test_a_plain_reply_and_one_layer_of_gzip_are_read(name: str, encoding: str) -> None:
    body = BODY if encoding == "identity" else gzip.compress(BODY)
    assert not isinstance(read(CLIENTS[name], encoding, body), Exception)


PACKED: dict[str, tuple[str, Callable[[], bytes]]] = {
    "packed twice": ("gzip, gzip", lambda: gzip.compress(gzip.compress(BODY))),
    "packed twice by two fields": (
        "gzip\r\nContent-Encoding: gzip",
        lambda: gzip.compress(gzip.compress(BODY)),
    ),
    "twice, a bomb": ("gzip, gzip", lambda: bomb(2)),
    "once, a bomb": ("gzip", lambda: bomb(1)),
    "cut off": ("gzip", lambda: gzip.compress(BODY)[:-3]),
    "more after the end": ("gzip", lambda: gzip.compress(BODY) + b"{}"),
    "not gzip": ("gzip", lambda: BODY),
    "deflate": ("deflate", lambda: BODY),
    "brotli": ("br", lambda: BODY),
}


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.outcome(
    "a reply from outside is packed more than once, inflates without end, or is damaged",
    "it counts as an invalid reply, and no more of it is unpacked than a reply may be large",
)
def test_any_other_packing_is_refused_within_the_limit(name: str, packed: str) -> None:
    client, (encoding, body) = CLIENTS[name], PACKED[packed]
    sent = body()
    tracemalloc.start()
    found = read(client, encoding, sent)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert type(found) is client.failure
    assert peak < 4 * client.longest + 4 * MIB


def test_our_client_takes_no_stack_of_encodings() -> None:
    def twice(request: httpx.Request) -> httpx.Response:
        asked: Any = request.headers["accept-encoding"]
        assert asked == "gzip"
        return httpx.Response(
            200, headers={"Content-Encoding": "gzip, gzip"}, stream=httpx.ByteStream(bomb(2))
        )

    with (
        Barograph("http://service.example", transport=httpx.MockTransport(twice)) as client,
        pytest.raises(Unreachable, match="DecodingError"),
    ):
        client.market()
