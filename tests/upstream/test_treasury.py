"""The Treasury's yield file: read by header, whatever else stands in it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

import httpx2
import pytest

from barograph.errors import (
    Forbidden,
    InvalidReply,
    Throttled,
    UnknownToUpstream,
    Unreachable,
    UpstreamError,
)
from barograph.macro.records import US2Y, US3M, US10Y, Figure, RemembersDays
from barograph.upstream import files
from barograph.upstream.files import FileClient
from barograph.upstream.interest_rates import TreasuryYields, decode_yields

SOURCE = "US Treasury"
HEADER = 'Date,"1 Mo","1.5 Month","3 Mo","2 Yr","10 Yr","30 Yr"\n'
NOVEMBER = HEADER + "11/06/2026,3.90,,3.85,3.60,4.10,4.70\n11/05/2026,3.91,3.9,3.86,3.61,4.11,4.7\n"
OLD = HEADER + "12/31/2025,4.0,,3.6,3.5,4.2,4.8\n"

ADDRESS = "https://treasury.example"

Answer = Callable[[httpx2.Request], httpx2.Response]


class Publisher:
    """The Treasury by year; our clock stands on a day."""

    def __init__(
        self, *texts: tuple[int, str | Answer], day: str = "2026-11-07", seconds: float = 10.0
    ) -> None:
        self.now = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1000)
        self.texts = dict(texts)
        self.asked: list[httpx2.URL] = []
        self.timeouts: list[float] = []
        self.pauses: list[float] = []
        self._client = FileClient(
            seconds=seconds,
            clock=self._clock,
            transport=httpx2.MockTransport(self._answer),
            sleep=self._sleep,
            random=Random(1),
        )
        self._source = TreasuryYields(
            self._client, base_url=ADDRESS, source=SOURCE, clock=self._clock
        )

    def read(self, *, is_stored: bool = False) -> list[Figure]:
        figures = asyncio.run(self._source.read())
        remembering: RemembersDays = self._source
        if is_stored:
            remembering.kept(figures)
        return figures

    def download(self) -> bytes:
        """Download the year's file as those of other publishers are."""
        return asyncio.run(self._client.get(f"{ADDRESS}/2026/all"))

    def _clock(self) -> int:
        return self.now

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += round(seconds * 1000)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request.url)
        self.timeouts.append(request.extensions["timeout"]["read"])
        answer = self.texts.get(int(request.url.path.split("/")[-2]))
        if answer is None:
            return httpx2.Response(404)
        if isinstance(answer, str):
            return httpx2.Response(200, text=answer, headers={"content-type": "text/csv"})
        return answer(request)


def test_a_year_is_asked_for_and_read_oldest_day_first() -> None:
    publisher = Publisher((2026, NOVEMBER))

    assert publisher.read() == [
        Figure(US3M, "2026-11-05", 3.86, SOURCE),
        Figure(US2Y, "2026-11-05", 3.61, SOURCE),
        Figure(US10Y, "2026-11-05", 4.11, SOURCE),
        Figure(US3M, "2026-11-06", 3.85, SOURCE),
        Figure(US2Y, "2026-11-06", 3.6, SOURCE),
        Figure(US10Y, "2026-11-06", 4.1, SOURCE),
    ]
    [url] = publisher.asked
    assert url.path.endswith("/interest-rates/daily-treasury-rates.csv/2026/all")
    assert dict(url.params) == {
        "type": "daily_treasury_yield_curve",
        "field_tdr_date_value": "2026",
        "page": "",
        "_format": "csv",
    }


def test_columns_in_another_order_give_the_same() -> None:
    text = '\ufeff"10 Yr",Date,"2 Yr","3 Mo"\r\n4.10,11/06/2026,0.00,-0.05\r\n\r\n'

    assert decode_yields(text.encode(), 2026, SOURCE) == [
        Figure(US3M, "2026-11-06", -0.05, SOURCE),
        Figure(US2Y, "2026-11-06", 0.0, SOURCE),
        Figure(US10Y, "2026-11-06", 4.1, SOURCE),
    ]


def test_an_empty_cell_or_one_that_says_so_is_absent() -> None:
    text = HEADER + "11/06/2026,,,N/A, ,4.10,\n"

    assert decode_yields(text.encode(), 2026, SOURCE) == [Figure(US10Y, "2026-11-06", 4.1, SOURCE)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing of that kind",
        HEADER.replace('"2 Yr"', '"2 Year"'),
        HEADER.replace('"1 Mo"', '"3 Mo"'),
        HEADER + "11/06/2026,3.90,,3.85\n",
        HEADER + "2026-11-06,3.90,,3.85,3.60,4.10,4.70\n",
        HEADER + "11/06/2025,3.90,,3.85,3.60,4.10,4.70\n",
        HEADER + "02/30/2026,3.90,,3.85,3.60,4.10,4.70\n",
        HEADER + "11/06/2026,3.90,,3.85,3.60,nan,4.70\n",
        HEADER + "11/06/2026,3.90,,3.85,3.60,4.1e0,4.70\n",
        HEADER + "11/06/2026,3.90,,3.85,3.60,410,4.70\n",
        HEADER + '11/06/2026,3.90,,3.85,3.60,"4.10,4.70\n',
        HEADER + 2 * "11/06/2026,3.90,,3.85,3.60,4.10,4.70\n",
        "\udcff no text",
    ],
)
def test_a_file_that_cannot_be_what_it_means_is_an_invalid_reply(text: str) -> None:
    with pytest.raises(InvalidReply):
        decode_yields(text.encode(errors="surrogateescape"), 2026, SOURCE)


@pytest.mark.parametrize("january", ["", "\n", HEADER, lambda _: httpx2.Response(404)])
def test_an_empty_file_in_early_january_falls_to_the_year_before(january: str | Answer) -> None:
    publisher = Publisher((2026, january), (2025, OLD), day="2026-01-02")

    assert [each.day for each in publisher.read()] == ["2025-12-31"] * 3


@pytest.mark.parametrize("day", ["2026-01-20", "2026-06-20"])
@pytest.mark.parametrize("text", ["", HEADER])
def test_an_empty_file_later_is_an_invalid_reply(text: str, day: str) -> None:
    with pytest.raises(InvalidReply):
        Publisher((2026, text), (2025, OLD), day=day).read()


def test_a_young_year_is_read_together_with_the_one_before() -> None:
    january = HEADER + "01/02/2026,4.0,,3.6,3.5,4.2,4.8\n"
    publisher = Publisher((2026, january), (2025, OLD), day="2026-02-10")

    assert [each.day for each in publisher.read()] == ["2025-12-31"] * 3 + ["2026-01-02"] * 3


@pytest.mark.parametrize(("day", "files"), [("2026-02-10", 1), ("2026-01-08", 2)])
def test_the_year_before_is_read_until_it_is_complete_and_stored(day: str, files: int) -> None:
    january = HEADER + "01/02/2026,4.0,,3.6,3.5,4.2,4.8\n"
    publisher = Publisher((2026, january), (2025, OLD), day=day)
    publisher.read()
    publisher.read(is_stored=True)
    assert len(publisher.asked) == 4
    publisher.read()
    assert len(publisher.asked) == 4 + files


def test_a_yield_of_a_day_to_come_is_an_invalid_reply() -> None:
    with pytest.raises(InvalidReply, match="2026-11-05, which is in the future"):
        Publisher((2026, NOVEMBER), day="2026-11-01").read()


PAGE = {"content-type": "text/html; charset=UTF-8"}
FAILURES: dict[str, tuple[Answer, type[UpstreamError]]] = {
    "a page": (lambda _: httpx2.Response(200, text=NOVEMBER, headers=PAGE), InvalidReply),
    "a page that says it is CSV": (
        lambda _: httpx2.Response(
            200, text=" <!doctype html>", headers={"content-type": "text/csv"}
        ),
        InvalidReply,
    ),
    "a redirect": (
        lambda _: httpx2.Response(302, headers={"location": "https://other.example/"}),
        InvalidReply,
    ),
    "400": (lambda _: httpx2.Response(400), InvalidReply),
    "403": (lambda _: httpx2.Response(403), Forbidden),
    "451": (lambda _: httpx2.Response(451), Forbidden),
    "404": (lambda _: httpx2.Response(404), UnknownToUpstream),
    "429": (lambda _: httpx2.Response(429), Throttled),
    "503": (lambda _: httpx2.Response(503), Unreachable),
    "packed wrongly": (
        lambda _: httpx2.Response(
            200, stream=Chunks(b"not gzip"), headers={"content-encoding": "gzip"}
        ),
        InvalidReply,
    ),
    "too much": (
        lambda _: httpx2.Response(200, stream=Chunks(*[b"x" * 2**20] * 5)),
        InvalidReply,
    ),
}


class Chunks(httpx2.AsyncByteStream):
    """A body that comes in pieces."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk


@pytest.mark.parametrize("name", FAILURES)
def test_what_a_publisher_does_wrong_is_named_by_kind(name: str) -> None:
    answer, kind = FAILURES[name]
    publisher = Publisher((2026, answer))

    with pytest.raises(UpstreamError) as failure:
        publisher.read()

    assert type(failure.value) is kind
    assert "example" not in str(failure.value)
    assert (len(publisher.asked), publisher.timeouts) == (1, [45.0])


@pytest.mark.outcome(
    "A publisher returns a web page, even as CSV",
    "The collector rejects the file, and `/api/status` says why.",
)
def test_a_page_that_says_it_is_csv_is_named_as_a_page() -> None:
    answer, _ = FAILURES["a page that says it is CSV"]

    with pytest.raises(InvalidReply, match="an HTML page, labelled text/csv"):
        Publisher((2026, answer)).read()


def broken(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError(f"no way to {request.url}", request=request)


def test_a_broken_connection_is_tried_again_and_its_address_kept_out_of_the_error() -> None:
    publisher = Publisher((2026, broken))

    with pytest.raises(Unreachable) as failure:
        publisher.download()

    assert str(failure.value) == "the publisher cannot be reached (ConnectError)"
    assert (len(publisher.asked), len(publisher.pauses)) == (3, 2)


def test_a_publisher_that_recovers_is_read() -> None:
    publisher = Publisher((2026, broken))

    def recover(request: httpx2.Request) -> httpx2.Response:
        publisher.texts[2026] = NOVEMBER
        return httpx2.Response(500)

    publisher.texts[2026] = recover

    assert publisher.download() == NOVEMBER.encode()


def test_no_new_attempt_begins_when_the_time_is_used_up() -> None:
    publisher = Publisher(seconds=5.0)

    def slow(request: httpx2.Request) -> httpx2.Response:
        publisher.now += 10_000
        return httpx2.Response(500)

    publisher.texts[2026] = slow

    with pytest.raises(Unreachable):
        publisher.download()
    assert len(publisher.asked) == 1


def test_a_publisher_that_never_answers_is_unreachable() -> None:
    class Silence(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            await asyncio.Event().wait()
            raise AssertionError

    async def work() -> Any:
        client = FileClient(seconds=0.02, clock=lambda: 0, transport=Silence(), random=Random(1))
        try:
            return await client.get("https://treasury.example")
        finally:
            await client.close()

    with pytest.raises(Unreachable, match="no answer within"):
        asyncio.run(work())


@pytest.mark.parametrize(
    ("header", "pause"),
    [
        ("120", 120.0),
        ("Fri, 06 Nov 2026 21:20:00 GMT", files.PAUSE_SECONDS),
        ("999999999999", files.MAX_PAUSE_SECONDS),
        (None, files.PAUSE_SECONDS),
    ],
)
def test_a_publisher_says_for_how_long_not_to_ask(header: str | None, pause: float) -> None:
    headers = {} if header is None else {"retry-after": header}
    publisher = Publisher((2026, lambda _: httpx2.Response(429, headers=headers)))

    with pytest.raises(Throttled) as failure:
        publisher.read()

    assert failure.value.retry_after == pause
