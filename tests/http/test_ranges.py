"""Ranges and dates: programs such as polars ask for the length, and then for parts of a table."""

import asyncio
import random
import tracemalloc
from collections.abc import Iterator
from hashlib import sha256

import pytest

from barograph.kit.documents import Document, Message
from barograph.kit.http import send_document
from barograph.markets.liquidation_files import PART_BYTES, DailyFile, day_name, store_file
from barograph.site.static_files import client_wheel, packaged_files
from support.clock import START
from support.service import Answer, Service, ask, fresh_service

DAY = day_name(START - 86_400_000)
FILE = f"/data/liquidations/bybit/{DAY}.csv.gz"
SERIES = f"/api/v1/series/price.csv?from={DAY}&to={day_name(START)}"
HOT = "/api/v1/perpetuals.csv"
CSS = f"/static/site.css?v={packaged_files()['site.css'].version}"
PATHS = [HOT, SERIES, FILE, CSS, f"/static/{client_wheel()[0]}"]
EVERY_PATH = pytest.mark.parametrize("path", PATHS)


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a daily file of 15 parts, which the tests here only read."""
    body = random.Random(1).randbytes(14 * PART_BYTES + 1)
    made = DailyFile(DAY, 1, len(body), sha256(body).hexdigest(), [])
    with fresh_service(tmp_path_factory.mktemp("market")) as service:
        asyncio.run(service.database.write(lambda tx: store_file(tx, "bybit", made, body, START)))
        assert {service.ask(path).status for path in PATHS} == {200}
        yield service


def both(service: Service, path: str, method: str = "GET", **headers: str) -> Answer:
    """Ask with and without the front door, and insist on one answer."""
    fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
    answer = ask(service.app, path, method, fields)
    assert answer == ask(service.routes, path, method, fields)
    return answer


@EVERY_PATH
def test_a_program_that_asks_for_the_length_and_then_for_ranges_gets_every_byte(
    market: Service, path: str
) -> None:
    head, whole = both(market, path, "HEAD", range="bytes=0-3"), market.ask(path)
    size = int(head.headers["content-length"])
    assert (head.status, head.body, head.fields) == (200, b"", whole.fields)
    assert (head.headers["accept-ranges"], len(whole.body)) == ("bytes", size)
    step = size // 3
    for first, last in [*((at, at + step - 1) for at in range(0, size, step)), (0, 65_535)]:
        end = min(size, last + 1)
        part = both(market, path, range=f"bytes={first}-{last}")
        assert (part.status, part.body) == (206, whole.body[first:end])
        described = {"content-range": f"bytes {first}-{end - 1}/{size}"}
        assert part.headers == whole.headers | described | {"content-length": str(end - first)}
    for asked in (f"bytes={size - 7}-", "bytes=-7", "BYTES=-7 "):
        assert both(market, path, range=asked).body == whole.body[-7:]
    assert both(market, path, range=f"bytes=-{size + 9}").body == whole.body


@EVERY_PATH
def test_other_ranges_get_the_whole_document_or_its_length(market: Service, path: str) -> None:
    whole = market.ask(path)
    etag, size = whole.headers["etag"], len(whole.body)
    for asked in ("bytes=0-1,3-4", "bytes=5-4", "bytes=-", "lines=0-1", f"bytes={10**20}-", ""):
        assert both(market, path, range=asked) == whole
    for asked in (f"bytes={size}-", f"bytes={size}-{size}", "bytes=-0"):
        answer = both(market, path, range=asked)
        assert (answer.status, answer.headers["content-range"]) == (416, f"bytes */{size}")
        assert f"{size:,} bytes" in answer.json()["error"]
        assert answer.headers["cache-control"] == "no-store"
    # A condition protects from mixing two versions.
    assert both(market, path, range="bytes=1-3", if_range=etag).body == whole.body[1:4]
    for other in ('"other"', f"W/{etag}", whole.headers.get("last-modified", "")):
        assert both(market, path, range="bytes=1-3", if_range=other) == whole
    assert both(market, path, range="bytes=1-3", if_none_match=etag).status == 304


def test_a_stalled_reader_of_a_range_holds_no_copy_of_it() -> None:
    document, held = Document(bytes(3 << 20)), []

    async def send(_: Message) -> None:
        held.append(tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    scope = {"method": "GET", "headers": [(b"range", b"bytes=1-")]}
    assert asyncio.run(send_document(document, scope, send, START)) == 206
    tracemalloc.stop()
    assert max(held) < 1 << 20


def test_ranges_are_of_the_plain_bytes(market: Service) -> None:
    plain, packed = market.ask(HOT), market.ask(HOT, accept_encoding="gzip")
    assert "accept-ranges" not in packed.headers
    part = both(market, HOT, accept_encoding="gzip", range="bytes=0-9")
    assert (part.body, "content-encoding" in part.headers) == (plain.body[:10], False)
    tag = packed.headers["etag"]
    assert both(market, HOT, accept_encoding="gzip", range="bytes=0-9", if_range=tag) == packed


@pytest.mark.parametrize("path", [FILE, "/api/v1/incidents"])
def test_a_date_answers_304_unless_an_etag_says_otherwise(market: Service, path: str) -> None:
    whole = market.ask(path)
    date = whole.headers["last-modified"]
    for since in (date, "Fri, 31 Dec 9999 23:59:59 GMT"):
        assert both(market, path, if_modified_since=since).status == 304
    early = "Sun, 06 Nov 1994 08:49:37"
    for other in (f"{early} GMT", early, f"{early} +{'9' * 20}", "yesterday", ""):
        assert both(market, path, if_modified_since=other).body == whole.body
    assert both(market, path, if_modified_since=date, if_none_match='"x"').body == whole.body


def test_data_with_a_freshness_limit_is_compared_by_its_etag_alone(market: Service) -> None:
    whole = market.ask(HOT)
    assert both(market, HOT, if_modified_since=whole.headers["last-modified"]) == whole
