"""How every upstream client reads compressed replies, including malicious ones."""

import asyncio
import gzip
import tracemalloc
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, NamedTuple

import httpx2
import pytest

from barograph.errors import InvalidReply
from barograph.identity.provider import IdentityUnavailable
from barograph.kit.http_client import JsonHttp, NoAnswer
from barograph.settings import Settings
from barograph.upstream.files import FileClient
from barograph.upstream.identity_http import IdentityHttp
from barograph.venues.bybit.exchange import BybitExchange
from barograph_client import Barograph
from barograph_client.errors import Unreachable
from support.clock import START, HandClock

BODY = b'{"retCode":0,"time":%d,"result":{"timeNano":"%d000000"}}' % (START, START)
KIB, MIB = 1024, 1024 * 1024


async def no_sleep(seconds: float) -> None:
    pass


def exchange(url: str) -> BybitExchange:
    settings = Settings(exchange_rest_url=url)
    return BybitExchange(settings, clock=HandClock(), sleep=no_sleep, seconds=30)


class Client(NamedTuple):
    made: Callable[[str], Any]
    read: Callable[[Any, str], Awaitable[object]]
    failure: type[Exception]
    longest: int


CLIENTS = {
    "exchange": Client(exchange, lambda it, _: it.server_time(), InvalidReply, 16 * MIB),
    "publisher": Client(
        lambda _: FileClient(seconds=30, clock=HandClock()), FileClient.get, InvalidReply, 4 * MIB
    ),
    "facilitator and chain": Client(
        lambda _: JsonHttp(longest=64 * KIB), lambda it, url: it.get(url, 30), NoAnswer, 64 * KIB
    ),
    "identity provider": Client(
        lambda _: IdentityHttp(30), IdentityHttp.read, IdentityUnavailable, 64 * KIB
    ),
}


def read(client: Client, encoding: str, body: bytes) -> object:
    """What a client returns for this body, sent by a real server; a failure is a result too."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Content-Encoding: {encoding}\r\n\r\n".encode() + body)
        writer.close()

    async def ask() -> object:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            made = client.made(url)
            try:
                return await client.read(made, url)
            except client.failure as error:
                return error
            finally:
                await made.close()

    return asyncio.run(ask())


@cache
def packed(layers: int, content: bytes = BODY) -> bytes:
    return gzip.compress(packed(layers - 1, content), 1) if layers else content


BOMB = bytes(64 * MIB)


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize(("encoding", "layers"), [("identity", 0), ("gzip", 1), ("GZip", 1)])
def test_a_plain_reply_and_one_layer_of_gzip_are_read(
    name: str, encoding: str, layers: int
) -> None:
    assert not isinstance(read(CLIENTS[name], encoding, packed(layers)), Exception)


PACKED: dict[str, tuple[str, Callable[[], bytes]]] = {
    "packed twice": ("gzip, gzip", lambda: packed(2)),
    "packed twice by two fields": ("gzip\r\nContent-Encoding: gzip", lambda: packed(2)),
    "a bomb, twice": ("gzip, gzip", lambda: packed(2, BOMB)),
    "a bomb": ("gzip", lambda: packed(1, BOMB)),
    "cut off": ("gzip", lambda: packed(1)[:-3]),
    "more after the end": ("gzip", lambda: packed(1) + b"{}"),
    "not gzip": ("gzip", lambda: BODY),
    "another encoding": ("br", lambda: BODY),
}


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("how", PACKED)
def test_other_compression_is_refused_within_the_size_limit(name: str, how: str) -> None:
    client, (encoding, body) = CLIENTS[name], PACKED[how]
    sent = body()
    tracemalloc.start()
    found = read(client, encoding, sent)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert type(found) is client.failure
    assert peak < 4 * client.longest + 4 * MIB


def test_our_client_asks_for_gzip_and_takes_no_stack_of_encodings() -> None:
    def twice(request: httpx2.Request) -> httpx2.Response:
        assert request.headers["accept-encoding"] == "gzip"
        stream = httpx2.ByteStream(packed(2))
        return httpx2.Response(200, headers={"Content-Encoding": "gzip, gzip"}, stream=stream)

    with (
        Barograph("http://service.example", transport=httpx2.MockTransport(twice)) as client,
        pytest.raises(Unreachable, match="DecodingError"),
    ):
        client.market()
