"""How the client follows the log of events over connections that break."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import httpx2
import pytest

from barograph_client import AsyncBarograph, Barograph
from barograph_client.errors import InvalidAnswer, NotFound
from barograph_client.following import SILENCE
from barograph_client.server_sent_events import LARGEST, StreamParser
from support.readers import InProcess, Reader
from support.service import BASE_URL

STREAM = b"""\xef\xbb\xbf: welcome\r
retry: 250\r
retry: soon\r
\r
id: 1\revent: brief.published\rdata: {"id":\rdata: 1}\r\r
id: 2\0\ndata:no space\n
data\n
id: 3\nunknown: 4\n
data:  two spaces\n\xe2\x82\xac\n
id: 4\ndata: not finished
"""


def parsed(*chunks: bytes) -> tuple[list[str], str, int | None]:
    parser = StreamParser()
    found = [data for chunk in chunks for data in parser.feed(chunk)]
    return found, parser.last_id, parser.retry


def test_a_stream_is_parsed_alike_however_it_is_cut() -> None:
    whole = (['{"id":\n1}', "no space", "", " two spaces"], "3", 250)
    assert parsed(STREAM) == whole
    for at in range(len(STREAM)):
        assert parsed(STREAM[:at], b"", STREAM[at:]) == whole


@pytest.mark.parametrize("field", [b"data:", b"data: x\ndata:"])
def test_an_event_without_end_is_given_up(field: bytes) -> None:
    parser = StreamParser()
    list(parser.feed(field))
    with pytest.raises(ValueError, match="too large"):
        [*chain.from_iterable(parser.feed(b"x" * 1_000) for _ in range(LARGEST // 1_000 + 1))]


class Body(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body that may end with a broken connection."""

    def __init__(self, content: bytes, error: Exception | None) -> None:
        self.content, self.error = content, error

    def __iter__(self) -> Iterator[bytes]:
        yield self.content
        if self.error is not None:
            raise self.error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self:
            yield chunk


class Script(InProcess):
    """Answers requests for pages from a log, and those for streams as written down."""

    def __init__(self, log: int, *streams: httpx2.Response | Exception) -> None:
        self.log = log
        self.streams = [*streams]
        self.asked = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        if request.url.path == "/api/v1/events":
            return httpx2.Response(200, json=self.page(int(request.url.params["after"])))
        reply = self.streams.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def page(self, after: int) -> dict[str, Any]:
        """Two events, and the address of the next page at a host that must not be asked."""
        found = [event(number) for number in range(after + 1, self.log + 1)][:2]
        more = f"https://elsewhere.example/api/v1/events?after={after + 2}"
        head = {"as_of": "", "venue": "", "source": "", "notice": "", "count": len(found)}
        return {**head, "events": found, "next": more if after + 2 < self.log else None}


def event(number: int) -> dict[str, Any]:
    return {"id": number, "type": "feed.down", "at": "2026", "feed": "tickers", "later": 1}


def stream(*numbers: int, rest: bytes = b"", error: Exception | None = None) -> httpx2.Response:
    sent = [f"id: {number}\ndata: {json.dumps(event(number))}\n\n" for number in numbers]
    content = b"retry: 500\n\n" + "".join(sent).encode() + rest
    fields = {"content-type": "text/event-stream; charset=utf-8"}
    return httpx2.Response(200, headers=fields, stream=Body(content, error))


def refused(status: int, **fields: str) -> httpx2.Response:
    return httpx2.Response(status, headers=fields, json={"error": "no"})


BROKEN = httpx2.ReadError("gone")


class Follow:
    """Either client over a script."""

    def __init__(self, way: str, script: Script) -> None:
        self.reader = Reader(way, script)
        self.script = script

    def ids(self, count: int, after: int = 0, **wanted: Any) -> list[int]:
        """The ids of so many events."""
        return [each.id for each in self.reader.first(count, "follow", after, **wanted)]

    def positions(self) -> list[str]:
        """Where each connection to the stream began."""
        streams = [each.url for each in self.script.asked if each.url.path.endswith("/stream")]
        return [each.params["after"] for each in streams]


both = pytest.mark.parametrize("way", ["sync", "async"])


@both
def test_every_event_comes_once_over_connections_that_break(way: str) -> None:
    unfinished = b'id: 9\ndata: {"id": 9}'
    script = Script(
        5, stream(5, 6, 7, rest=unfinished, error=BROKEN), stream(7), stream(7, 8, 9), stream(10)
    )
    follow = Follow(way, script)
    assert follow.ids(8, after=2, types="feed.down", symbols=["BTC", "ETH"]) == [*range(3, 11)]
    assert follow.positions() == ["5", "7", "7", "9"]
    assert follow.reader.slept == [0.5] * 3
    assert {each.url.host for each in script.asked} == {"barograph.example"}
    last = script.asked[-1]
    assert str(last.url.query, "ascii") == "after=9&type=feed.down&symbol=BTC%2CETH"
    assert last.extensions["timeout"]["read"] == SILENCE


@both
def test_a_refused_stream_is_asked_for_again_as_late_as_the_service_says(way: str) -> None:
    fault, slow = httpx2.ConnectError("no"), httpx2.ReadTimeout("silent")
    failures: list[httpx2.Response | Exception]
    failures = [fault, slow, refused(503, **{"retry-after": "90"}), *[fault] * 4, refused(429)]
    follow = Follow(way, Script(0, *failures, stream(1, error=BROKEN), stream(2)))
    assert follow.ids(2, after=0) == [1, 2]
    assert follow.reader.slept == [3.0, 6.0, 90.0, 24.0, 48.0, 60.0, 60.0, 60.0, 0.5]


@both
@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (partial(refused, 404), NotFound),
        (partial(httpx2.Response, 200, text="<html>"), InvalidAnswer),
        (partial(stream, rest=b"data: what\n\n"), InvalidAnswer),
    ],
)
def test_what_will_not_pass_is_an_error(
    way: str, reply: Callable[[], httpx2.Response], error: type[Exception]
) -> None:
    with pytest.raises(error):
        Follow(way, Script(0, reply())).ids(1)


@pytest.mark.parametrize("after", [0, 1])
def test_a_closed_client_follows_no_more(after: int) -> None:
    async def ids_after_close() -> list[int]:
        async with AsyncBarograph(BASE_URL, transport=Script(1, stream(2, error=BROKEN))) as client:
            found = client.follow(after)
            assert (await anext(found)).id == after + 1
            await client.close()
            return [each.id async for each in found]

    assert asyncio.run(ids_after_close()) == []
    with Barograph(BASE_URL, transport=Script(1, stream(2, error=BROKEN))) as plain:
        events = plain.follow(after)
        assert next(events).id == after + 1
        plain.close()
        assert list(events) == []


def test_a_loop_that_is_left_closes_its_stream() -> None:
    reply = stream(1)
    assert Follow("async", Script(0, reply)).ids(1) == [1]
    assert reply.is_closed
