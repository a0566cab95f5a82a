"""How the client follows the log of events over connections that break."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import httpx2
import pytest

from barograph_client import AsyncBarograph, Barograph
from barograph_client.calls import events
from barograph_client.errors import InvalidAnswer, NotFound
from barograph_client.following import LARGEST, LONGEST_ASKED, SILENCE, StreamParser
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


def parsed(*chunks: bytes) -> tuple[list[str], int | None]:
    parser = StreamParser()
    found = [data for chunk in chunks for data in parser.feed(chunk)]
    return found, parser.retry


def test_a_stream_is_parsed_alike_however_it_is_cut() -> None:
    whole = (['{"id":\n1}', "no space", "", " two spaces"], 250)
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
    """Answers requests for the stream as written down."""

    def __init__(self, *replies: httpx2.Response | Exception) -> None:
        self.replies = [*replies]
        self.asked = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


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


both = pytest.mark.parametrize("way", ["sync", "async"])


def ids(reader: Reader, count: int, after: int | None, **wanted: Any) -> list[int]:
    return [each.id for each in reader.first(count, "follow", after, **wanted)]


@both
def test_every_event_comes_once_over_connections_that_break(way: str) -> None:
    unfinished = b'id: 9\ndata: {"id": 9}'
    script = Script(
        stream(5, 6, 7, rest=unfinished, error=BROKEN), stream(7), stream(7, 8, 9), stream(10)
    )
    reader = Reader(way, script)
    assert ids(reader, 6, after=4, types="feed.down", symbols=["BTC", "ETH"]) == [*range(5, 11)]
    assert [each.url.params["after"] for each in script.asked] == ["4", "7", "7", "9"]
    assert reader.slept == [0.5] * 3
    last = script.asked[-1]
    wanted = "/api/v1/events/stream?after=9&type=feed.down&symbol=BTC%2CETH"
    assert str(last.url) == f"{BASE_URL}{wanted}"
    assert last.extensions["timeout"]["read"] == SILENCE


@both
def test_without_a_position_it_follows_from_now(way: str) -> None:
    head = dict.fromkeys(("as_of", "venue", "source", "notice"), "")
    page: dict[str, Any] = {**head, "count": 0, "last_id": 41, "events": [], "next": None}
    script = Script(httpx2.Response(200, json=page), stream(42))
    assert ids(Reader(way, script), 1, after=None) == [42]
    assert script.asked[1].url.params["after"] == "41"


@both
def test_a_refused_stream_is_asked_for_again_as_late_as_the_service_says(way: str) -> None:
    fault, slow = httpx2.ConnectError("no"), httpx2.ReadTimeout("silent")
    failures: list[httpx2.Response | Exception]
    failures = [fault, slow, refused(503, **{"retry-after": "90"}), *[fault] * 4, refused(429)]
    failures.append(refused(503, **{"retry-after": "999999999"}))
    reader = Reader(way, Script(*failures, stream(1, error=BROKEN), stream(2)))
    assert ids(reader, 2, after=0) == [1, 2]
    assert reader.slept == [3.0, 6.0, 90.0, 24.0, 48.0, 60.0, 60.0, 60.0, LONGEST_ASKED, 0.5]


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
        ids(Reader(way, Script(reply())), 1, after=0)


async def test_a_closed_client_follows_no_more() -> None:
    async with AsyncBarograph(BASE_URL, transport=Script(stream(1, error=BROKEN))) as client:
        events = client.follow(after=0)
        await anext(events)
        await client.close()
        assert [event async for event in events] == []


def test_a_closed_blocking_client_follows_no_more() -> None:
    with Barograph(BASE_URL, transport=Script(stream(1, error=BROKEN))) as client:
        events = client.follow(after=0)
        next(events)
        client.close()
        assert list(events) == []


def test_a_loop_that_is_left_closes_its_stream() -> None:
    reply = stream(1, 2)
    assert ids(Reader("async", Script(reply)), 1, after=0) == [1]
    assert reply.is_closed


@pytest.mark.parametrize("address", ["?after=0", "?after=1\n", f"?after={'1' * 8_000}", ""])
def test_no_other_host_is_asked_for_the_next_page(address: str) -> None:
    page = events(after=0).first
    following = page.at("https://elsewhere.example/other?after=2")
    assert following is not None
    assert following.target == "/api/v1/events?after=2"
    with pytest.raises(InvalidAnswer):
        page.at(f"https://barograph.example/api/v1/events{address}")
