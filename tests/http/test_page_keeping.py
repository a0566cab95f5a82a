"""How pages are kept: rendered once for all who ask for the same, never past their end.

And what a render costs: an allowance per caller, and only a few run at a time.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from starlette.requests import Request

from barograph.board.board import publish
from barograph.board.feeds import Publication
from barograph.briefs.endpoints import BriefsReader
from barograph.history.guards import SignedHeads
from barograph.kit.database import LOST_SECONDS, DatabaseUnavailable
from barograph.kit.http import Receive, Scope, Send
from barograph.kit.timestamps import SECOND
from barograph.limits.rate_limits import RENDERS, RateLimit, RateLimiter, TooManyRequests, Usage
from barograph.limits.render_queue import (
    AT_ONCE,
    MAX_PENDING,
    MAX_PER_CALLER,
    MAX_REFUSAL_DELAY_SECONDS,
    MAX_REST_SECONDS,
    REFUSAL_SPACING_SECONDS,
    RENDER_BYTES,
    RenderQueue,
    RenderQueueFull,
)
from barograph.limits.stores import MemoryStore
from barograph.markets.reader import CrossReader, MarketReader, freshness_limits
from barograph.markets.series import SeriesReader
from barograph.markets.view import PERPETUALS
from barograph.signals.reader import SignalsReader
from barograph.site.chart_reader import ChartReader
from barograph.site.responses import Page
from barograph.site.site import RenderPage, Site
from barograph.site.templating import Templates
from barograph.status.reader import StatusReader
from barograph.venues.records import ContractName
from support.clock import START
from support.markets import reading
from support.pages import BROWSER
from support.service import PEER, Answer, Service, asked

PATH = "/somewhere"
OTHER = "203.0.113.8"
FAMILIES = [
    *("/", "/markets", "/markets/BTC", "/signals", "/briefs", "/guides", "/record", "/docs"),
    *("/developers", "/pricing", "/status", "/record/rates-desk", "/signals/funding-breadth"),
    *("/guides/record-keeping", "/sitemap.xml", "/favicon.ico", "/static/site.css"),
]


class SuspendingStore(MemoryStore):
    """Takes a moment to count, as a shared store does."""

    async def count(self, allowance: RateLimit, caller: str) -> Usage:
        await asyncio.sleep(0)
        return await super().count(allowance, caller)


class Shelf:
    """A site over a service, where pages are asked for by hand."""

    def __init__(self, service: Service) -> None:
        self.rests: list[float] = []
        self.time = 0.0
        self.service, self.clock, self.board = service, service.clock, service.board
        bounds = freshness_limits(service.settings)
        self.site = Site(
            Templates(service.settings.base_url),
            service.board,
            service.database,
            markets=MarketReader(bounds),
            cross=CrossReader(service.settings),
            signals=SignalsReader(service.settings),
            briefs=BriefsReader(service.settings),
            status=StatusReader(
                bounds,
                START,
                lambda: None,
                SignedHeads(service.database, service.history, service.clock),
            ),
            series=SeriesReader(
                service.database, service.clock, bounds.min_coverage_pct, ["bybit"]
            ),
            render_queue=RenderQueue(
                RateLimiter(SuspendingStore(service.clock), _no_key, ()),
                service.clock,
                sleep=self._rest,
                monotonic=lambda: self.time,
            ),
        )

    async def _rest(self, seconds: float) -> None:
        self.rests.append(seconds)
        await asyncio.sleep(0)

    async def show(
        self,
        write: RenderPage,
        sent: bytes = b"",
        query: bytes | None = b"",
        *,
        accept: str = "*/*",
        peer: str = PEER,
    ) -> Answer:
        """Ask for a page with a query as it is sent, which means `query`."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            response = await self.site.respond(Request(scope), write, query=query)
            await response(scope, receive, send)

        return await asked(
            app, b"%s?%s" % (PATH.encode(), sent), "GET", [("accept", accept)], peer=peer
        )

    async def change_the_data(self) -> None:
        await self.service.database.write(
            lambda tx: publish(tx, [Publication.of(PERPETUALS, reading(self.clock()))])
        )
        assert await self.board.refresh()


async def _no_key(_: str) -> None:
    return None


class Writer:
    """Writes numbered pages, and tells how many; each takes the time that is given for it."""

    def __init__(self, during: Callable[[int], None] = lambda _: None, lasts: int = 60) -> None:
        self.written = 0
        self._during = during
        self._lasts = lasts * SECOND

    async def __call__(self, now: int) -> Page:
        self.written += 1
        number = self.written
        self._during(number)
        return Page(b"page %d" % number, since=now, until=now + self._lasts)


@pytest.fixture
def shelf(service: Service) -> Shelf:
    return Shelf(service)


@pytest.mark.parametrize("path", FAMILIES)
def test_a_query_that_means_nothing_gets_the_page_that_is_kept(service: Service, path: str) -> None:
    first = service.ask(f"{path}?z=1")
    kept = service.board.hot[path, b""]
    known = set(service.board.hot)

    for query in ("", "?z=2", "?z=3&z=4", "?%00", "?=", "?&&"):
        assert service.ask(path + query) == first
    assert service.board.hot[path, b""] is kept
    assert set(service.board.hot) == known


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/", "days=30"),
        ("/markets/BTC", "days=30"),
        ("/markets", "sort=funding&order=asc"),
        ("/markets", "sort=symbol&order=asc"),
        ("/heatmap", "by=change"),
    ],
)
def test_a_query_that_means_something_is_kept_in_its_one_form(
    service: Service, path: str, query: str
) -> None:
    first = service.ask(f"{path}?z=1&{query}&y=2")
    kept = service.board.hot[path, query.encode()]

    turned = "&".join(reversed(query.split("&")))
    for same in (query, turned, f"{query}&z=2"):
        assert service.ask(f"{path}?{same}") == first
    assert service.board.hot[path, query.encode()] is kept
    assert service.ask(path).body != first.body


async def test_what_has_no_end_of_forms_is_written_each_time_and_not_kept(shelf: Shelf) -> None:
    write = Writer()

    bodies = [(await shelf.show(write, b"q=x", None)).body for _ in range(3)]

    assert bodies == [b"page 1", b"page 2", b"page 3"]
    assert not any(path == PATH for path, _ in shelf.board.hot)


async def test_a_kept_page_is_not_given_past_its_end_nor_before_its_beginning(shelf: Shelf) -> None:
    write, bodies = Writer(lasts=10), []

    for passed in (0, 9.999, 0.001, -20):
        shelf.clock.pass_seconds(passed)
        bodies.append((await shelf.show(write)).body)

    assert bodies == [b"page 1", b"page 1", b"page 2", b"page 3"]


@pytest.mark.parametrize(
    ("takes", "written", "kept_for"),
    [
        pytest.param([11, 0], 2, "max-age=5, stale-while-revalidate=4", id="the first ends"),
        pytest.param([11, 11], 2, "max-age=0, stale-while-revalidate=0", id="each ends too soon"),
        pytest.param([7], 1, "max-age=2, stale-while-revalidate=0", id="counts from the start"),
    ],
)
async def test_a_page_that_ended_while_it_was_written_is_written_again_once(
    shelf: Shelf, takes: list[int], written: int, kept_for: str
) -> None:
    write = Writer(lambda number: shelf.clock.pass_seconds(takes[number - 1]), lasts=10)

    answer = await shelf.show(write)

    assert (answer.status, answer.body) == (200, b"page %d" % written)
    assert write.written == written
    assert f"public, {kept_for}," in answer.headers["cache-control"]
    if takes == [11, 0]:
        kept = shelf.board.hot[PATH, b""]
        assert (kept.body, kept.until) == (b"page 2", START + 21 * SECOND)


class SlowWriter(Writer):
    """Writes until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.is_written, self.may_end, self.has_ended = (asyncio.Event() for _ in range(3))

    async def __call__(self, now: int) -> Page:
        page = await super().__call__(now)
        self.is_written.set()
        await self.may_end.wait()
        self.has_ended.set()
        return page


async def test_readers_who_came_together_have_an_ended_page_written_again_once(
    shelf: Shelf,
) -> None:
    write = Writer(lambda number: shelf.clock.pass_seconds(11 if number == 1 else 0), lasts=10)

    answers = await asyncio.gather(*(shelf.show(write, b"z=%d" % number) for number in range(20)))

    assert {answer.body for answer in answers} == {b"page 2"}
    assert write.written == 2


async def test_a_page_of_older_data_is_neither_joined_nor_kept_once_the_data_changed(
    shelf: Shelf,
) -> None:
    slow = SlowWriter()
    quick = Writer()
    before = asyncio.create_task(shelf.show(slow))
    await slow.is_written.wait()
    await shelf.change_the_data()
    quick.written = 1
    after = await shelf.show(quick)
    slow.may_end.set()
    answers = [await before, after, await shelf.show(quick)]

    assert [answer.body for answer in answers] == [b"page 1", b"page 2", b"page 2"]
    assert shelf.board.hot[PATH, b""].body == b"page 2"


async def test_a_page_is_kept_for_the_next_although_who_asked_has_gone(shelf: Shelf) -> None:
    write = SlowWriter()
    gone = asyncio.create_task(shelf.show(write))
    await write.is_written.wait()
    gone.cancel()
    await asyncio.wait([gone])
    write.may_end.set()
    await write.has_ended.wait()

    assert (await shelf.show(write)).body == b"page 1"
    assert write.written == 1


async def unreadable(_: int) -> Page:
    raise DatabaseUnavailable("away")


@pytest.mark.outcome(
    "The database is unreadable while the server renders a page",
    "503 with `Retry-After`: a page for browsers, JSON for programs.",
)
async def test_unreadable_page_is_a_page_for_browsers_and_json_for_programs(shelf: Shelf) -> None:
    shown, told = await shelf.show(unreadable, accept=BROWSER), await shelf.show(unreadable)

    for answer in (shown, told):
        assert answer.status == 503
        assert (answer.headers["retry-after"], answer.headers["cache-control"]) == ("5", "no-store")
    assert b"<h1>Temporarily unavailable</h1>" in shown.body
    assert told.headers["content-type"] == "application/json"
    assert told.json() == {
        "error": "this data is temporarily unavailable; try again in a few seconds"
    }
    assert (await shelf.show(Writer())).status == 200


@pytest.mark.thorough
@pytest.mark.contract("limits.other-endpoints")
@pytest.mark.not_on_servers("the test moves the clock, and Valkey counts by its own")
def test_only_renders_are_counted_and_the_601st_gets_429(service: Service) -> None:
    kept = [
        *("/", "/markets?z=1", "/guides/record-keeping", "/api/v1/series/price"),
        "/static/site.css",
    ]
    before = [service.ask(path).body for path in kept]
    spent = 3  # the guide and the stylesheet are the same for the life of a worker
    for number in range(RENDERS.requests - spent):
        last = service.ask(f"/markets?q={number}").headers
    assert last["ratelimit"] == '"render";r=0;t=60'
    assert last["cache-control"].startswith("private, max-age=")

    for path in ("/markets?q=x", "/markets/ETH", "/markets/NOPE", "/api/v1/series/price.csv"):
        answer = service.ask(path, accept=BROWSER)
        assert (answer.status, answer.headers["cache-control"]) == (429, "no-store")
        assert answer.headers["ratelimit-policy"] == '"render";q=600;w=60'
        assert answer.headers["retry-after"] == "60"
        if path.startswith("/api/"):
            said = "600 uncached reads, pages and proofs from one address"
            assert said in answer.json()["error"]
        else:
            assert b"<h1>Too many requests</h1>" in answer.body
    assert [service.ask(path).body for path in kept] == before
    assert service.ask("/api/agent/market-state").status == 200
    assert service.ask("/markets?q=x", peer=OTHER).status == 200
    service.clock.pass_seconds(60)
    assert service.ask("/api/v1/series/price.csv").headers["ratelimit"] == '"render";r=599;t=60'


@pytest.mark.parametrize("path", ["/markets?q={}", "/markets/NOPE{}"])
async def test_one_caller_cannot_fill_the_queue(service: Service, path: str) -> None:
    wanted = ("/", "/markets", "/status", "/signals", "/briefs", "/markets?q=x")

    def get(target: str, peer: str) -> Coroutine[Any, Any, Answer]:
        return asked(service.app, target, fields=[("accept", BROWSER)], peer=peer)

    answers = await asyncio.gather(
        *(get(path.format(number), PEER) for number in range(140)),
        *(get(target, OTHER) for target in wanted),
    )

    first, full = answers[0], answers[139]
    assert {answer.status for answer in answers[140:]} == {200}
    assert first.status in {200, 404}
    assert (full.status, full.headers["retry-after"]) == (503, "5")


async def test_a_full_queue_charges_nothing_and_lets_shared_pages_pass(shelf: Shelf) -> None:
    callers, write = 2 * MAX_PENDING // MAX_PER_CALLER, SlowWriter()

    def single(number: int) -> "asyncio.Task[Answer]":
        peer = f"198.51.100.{number % callers}"
        return asyncio.create_task(shelf.show(write, b"q=%d" % number, None, peer=peer))

    *waiting, late = [single(number) for number in range(MAX_PENDING + 1)]
    shared = asyncio.create_task(shelf.show(Writer()))
    with pytest.raises(RenderQueueFull):
        await late
    write.may_end.set()
    assert (await shared).status == 200
    assert sum(each.done() for each in waiting) <= 4 * AT_ONCE
    await asyncio.gather(*waiting)

    left = (await single(MAX_PENDING)).headers["x-ratelimit-remaining"]
    assert int(left) == RENDERS.requests - MAX_PER_CALLER // 2 - 1


async def test_of_two_callers_who_ask_for_the_same_only_one_pays(shelf: Shelf) -> None:
    both = (shelf.show(Writer(), b"q=x", None, peer=peer) for peer in (PEER, OTHER))
    answers = await asyncio.gather(*both)
    answers += [await shelf.show(Writer(), b"q=y", None, peer=peer) for peer in (PEER, OTHER)]

    left = [answer.headers.get("x-ratelimit-remaining") for answer in answers]
    assert left == ["599", None, "598", "599"]


async def test_each_render_has_one_timeout_for_all_its_reads(shelf: Shelf) -> None:
    lost: list[list[float]] = []

    async def write(now: int) -> Page:
        lost.append(LOST_SECONDS.get())
        lost[-1].append(1.0)
        return Page(b"page", since=now, until=now + 60_000)

    for number in range(2):
        await shelf.show(write, b"q=%d" % number, None)
    assert lost == [[1.0], [1.0]]


async def test_a_long_document_counts_as_several_renders(shelf: Shelf) -> None:
    async def write(now: int) -> Page:
        return Page(b"x" * 2 * RENDER_BYTES, since=now, until=now + 60_000)

    await shelf.show(write)  # for everyone, so it counts once
    for number in range(RENDERS.requests - 9):
        await shelf.show(Writer(), b"q=short%d" % number, None)
    answers = [await shelf.show(write, b"q=%d" % number, None) for number in range(3)]

    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["5", "2", "0"]


async def test_two_renders_run_at_a_time_with_pauses_between_queued_ones(shelf: Shelf) -> None:
    running, most = 0, 0

    async def write(now: int) -> Page:
        nonlocal running, most
        running += 1
        most = max(most, running)
        shelf.time += 0.25
        await asyncio.sleep(0)
        running -= 1
        return Page(b"page", since=now, until=now + 60_000)

    await asyncio.gather(*(shelf.show(write, b"q=%d" % number, None) for number in range(6)))
    await shelf.show(write)

    assert (running, most) == (0, AT_ONCE)
    assert [rest > 0 for rest in shelf.rests] == [False, False, True, True, True, True, False]
    assert max(shelf.rests) == MAX_REST_SECONDS


async def test_refusals_are_spaced_out_until_too_many_wait(shelf: Shelf) -> None:
    write = Writer()
    for number in range(RENDERS.requests):
        await shelf.show(write, b"q=%d" % number, None)
    shelf.rests.clear()
    for _ in range(3 + int(MAX_REFUSAL_DELAY_SECONDS / REFUSAL_SPACING_SECONDS)):
        with pytest.raises(TooManyRequests):
            await shelf.show(write, b"q=x", None)
    both = (shelf.show(Writer(), b"q=x", None, peer=peer) for peer in (PEER, OTHER))
    refused, served = await asyncio.gather(*both, return_exceptions=True)

    assert isinstance(refused, TooManyRequests)
    assert isinstance(served, Answer)  # who joined the one that was refused
    assert shelf.rests[:3] == [0, REFUSAL_SPACING_SECONDS, 2 * REFUSAL_SPACING_SECONDS]
    assert max(shelf.rests) <= MAX_REFUSAL_DELAY_SECONDS
    assert write.written == RENDERS.requests


async def test_a_chart_is_drawn_once_a_minute_however_often_the_data_changes(shelf: Shelf) -> None:
    charts = ChartReader(shelf.site.series, "", shelf.clock)
    bitcoin = ContractName("bybit", "BTCUSDT")
    first = await charts.measure(bitcoin, "BTC", "price", 60)
    for number in range(200):
        await charts.measure(ContractName("bybit", f"C{number}USDT"), f"C{number}", "price", 60)
    shelf.clock.pass_seconds(59)
    await shelf.change_the_data()
    assert await charts.measure(bitcoin, "BTC", "price", 60) is first
    shelf.clock.pass_seconds(1)
    assert await charts.measure(bitcoin, "BTC", "price", 60) is not first
