"""`/api/v1/series/{measure}`: the whole record, by pages and as tables."""

import asyncio
from asyncio import Event, Queue, Task
from typing import Any

import pytest
from starlette.requests import Request

from barograph.errors import TemporarilyUnavailable
from barograph.kit.database import DatabaseUnavailable, Transaction
from barograph.kit.lists import Cursors, ListHead
from barograph.kit.timestamps import DAY, HOUR, MINUTE, iso_timestamp
from barograph.limits.listings import (
    MAX_PER_CALLER,
    PART_ROWS,
    SHORT_BYTES,
    Listing,
    Listings,
    ListPart,
)
from barograph.limits.rate_limits import RateLimiter
from barograph.limits.render_queue import RenderedReads, RenderQueue, RenderQueueFull
from barograph.limits.stores import MemoryStore
from barograph.macro.records import NYFED, NYFED_NOTICE, SOFR, US10Y, Figure
from barograph.macro.store import record_figures
from barograph.markets.liquidations import LiquidationHour
from barograph.markets.regime import RegimeChange
from barograph.markets.store import ReadingRow, record_rows, record_settlement_reports
from barograph.venues.records import Liquidation, SettledRate
from support.clock import START
from support.databases import take_away
from support.lists import pages, table
from support.service import BASE_URL, PEER, Service

NOW_HOUR = START // HOUR * HOUR
FIRST = NOW_HOUR - 1_500 * HOUR
GAP = NOW_HOUR - 5 * HOUR
TODAY = START // DAY * DAY


def hour_row(contract: str, at: int, resolution: Any = "hour") -> ReadingRow:
    return ReadingRow(resolution, contract, at, at / HOUR, 0.01, 4, 1e9, None)


def write(service: Service, work: Any) -> None:
    asyncio.run(service.database.write(work))


@pytest.fixture
def recorded(service: Service) -> Service:
    """Two months of hours with a gap, the oldest 100 back-filled; and one of everything else."""

    async def work(tx: Transaction) -> None:
        hours = [hour_row("BTCUSDT", at) for at in range(FIRST, START, HOUR) if at != GAP]
        await record_rows(tx, "bybit", readings=hours[:100], origin="backfilled")
        await record_rows(
            tx,
            "bybit",
            readings=[
                *hours[100:],
                hour_row("GONEUSDT", NOW_HOUR - 3 * HOUR),
                hour_row("BTCUSDT", START - 2 * MINUTE, "minute"),
            ],
            regime_changes=[
                RegimeChange(START - 100 * DAY, "neutral", 0.001),
                RegimeChange(START - 2 * HOUR, "long-leaning", 0.02),
            ],
            liquidation_hours=[
                LiquidationHour(GAP, 0.0, 0.0, 100.0),
                LiquidationHour(GAP + HOUR, 0.0, 0.0, 75.0),
                LiquidationHour(NOW_HOUR - 3 * HOUR, 7.5, 2.5, 40.0),
            ],
            liquidations=[
                Liquidation(NOW_HOUR - HOUR + 5, "1000PEPEUSDT", "long", 100.0, 0.5),
                Liquidation(NOW_HOUR - HOUR + 6, "BTCUSDT", "short", 1.0, 9.0),
            ],
            watched=[(NOW_HOUR - HOUR, NOW_HOUR - HOUR // 2)],
        )
        rates = [SettledRate("BTCUSDT", NOW_HOUR - hours * HOUR, 0.01) for hours in (24, 16, 12)]
        await record_settlement_reports(tx, "bybit", rates, START)
        pepe = [SettledRate("1000PEPEUSDT", NOW_HOUR - 4 * HOUR, 0.03)]
        await record_settlement_reports(tx, "bybit", pepe, START)
        days = [iso_timestamp(TODAY - back * DAY)[:10] for back in (5, 4, 3)]
        await record_figures(tx, [Figure(US10Y, day, 4.0, "Treasury") for day in days], START - DAY)
        await record_figures(tx, [Figure(US10Y, days[1], 4.5, "Treasury")], START - HOUR)
        await record_figures(tx, [Figure(SOFR, days[0], 3.9, NYFED)], START - HOUR)

    write(service, work)
    service.clock.pass_seconds(1)
    return service


def points(service: Service, target: str) -> list[dict[str, Any]]:
    return [point for page in pages(service, target) for point in page["points"]]


def test_a_page_names_its_series_and_every_point_its_origin(recorded: Service) -> None:
    page = recorded.ask(f"/api/v1/series/price?symbol=bitcoin&from={GAP}&limit=2").json()
    assert page.pop("next") is not None
    gap = {"at": iso_timestamp(GAP), "value": None, "origin": None, "watched": 1.0}
    gap["disputed"] = False
    hour = {"at": iso_timestamp(GAP + HOUR), "value": (GAP + HOUR) / HOUR, "disputed": False}
    assert page == {
        "as_of": iso_timestamp(START),
        "venue": "bybit",
        "source": "test venue",
        "notice": "Information only, not financial advice.",
        "count": 2,
        "measure": "price",
        "symbol": "BTC",
        "key": None,
        "unit": "USDT",
        "interval_seconds": 3600,
        "points": [gap, hour | {"origin": "measured", "watched": 0.75}],
    }
    assert list(page)[-1] == "points"


def test_following_next_gives_every_hour_since_the_first_record_once(recorded: Service) -> None:
    listed = []
    for page in pages(recorded, f"/api/v1/series/funding?from={START - 700 * DAY}&limit=400"):
        listed += page["points"]
        # The next hour is recorded while the pages are followed.
        recorded.clock.pass_seconds(3_600)
        late = [hour_row("BTCUSDT", recorded.clock.now // HOUR * HOUR)]
        recorded.record_market(readings=late)
    assert [point["at"] for point in listed] == [
        iso_timestamp(at) for at in range(FIRST, START, HOUR)
    ]
    assert [point["origin"] for point in listed[:101]] == ["backfilled"] * 100 + ["measured"]
    assert [point["at"] for point in listed if point["value"] is None] == [iso_timestamp(GAP)]


def test_days_take_the_reading_at_midnight_and_the_share_that_was_watched(
    recorded: Service,
) -> None:
    found = points(recorded, f"/api/v1/series/price?from={TODAY - 2 * DAY}&interval=1d")
    assert [each["value"] for each in found] == [(TODAY - back * DAY) / HOUR for back in (2, 1, 0)]
    # Of today, 3.48 of the 21.33 hours so far.
    assert [each["watched"] for each in found] == [0.0, 0.0, 0.1632]


def test_minutes_exist_for_majors_only(recorded: Service) -> None:
    found = points(recorded, "/api/v1/series/price?interval=minute")
    assert [each["value"] for each in found] == [(START - 2 * MINUTE) / HOUR, None, 67_000.5]
    answer = recorded.ask("/api/v1/series/price?interval=minute&symbol=1000PEPE")
    assert (answer.status, "interval=hour" in answer.json()["error"]) == (400, True)


def test_a_contract_that_is_not_listed_any_more_keeps_its_history(recorded: Service) -> None:
    page = recorded.ask("/api/v1/series/price?symbol=gone").json()
    assert (page["symbol"], page["points"][0]["at"]) == ("GONE", iso_timestamp(NOW_HOUR - 3 * HOUR))


def test_liquidations_are_sums_with_the_share_that_was_watched(recorded: Service) -> None:
    first, second, *_ = points(recorded, f"/api/v1/series/liquidations?from={NOW_HOUR - 3 * HOUR}")
    assert first == {
        "at": iso_timestamp(NOW_HOUR - 3 * HOUR),
        "value": 10.0,
        "origin": "measured",
        "watched": 0.4,
        "long_usd": 7.5,
        "short_usd": 2.5,
        "disputed": False,
    }
    assert (second["value"], second["watched"]) == (None, 0.0)
    # Of one contract, from its events; the fixture's day was watched.
    target = f"/api/v1/series/liquidations?symbol=pepe&from={NOW_HOUR - 2 * HOUR}&to={NOW_HOUR}"
    _, hour = points(recorded, target)
    assert (hour["value"], hour["long_usd"], hour["short_usd"]) == (50.0, 50.0, 0.0)
    assert hour["watched"] == 1.0


@pytest.mark.parametrize(("query", "gap"), [("", True), ("&symbol=pepe", False)])
def test_hours_with_disputed_sides_are_marked(recorded: Service, query: str, *, gap: bool) -> None:
    span = (NOW_HOUR - 2 * HOUR, NOW_HOUR - HOUR + 1)
    recorded.record_market(disputed_sides=[span])
    target = f"/api/v1/series/liquidations{{}}?from={NOW_HOUR - 3 * HOUR}&to={NOW_HOUR}{query}"
    found = points(recorded, target.format(""))
    assert [each["disputed"] for each in found] == [False, not gap, True]
    rows = table(recorded.ask(target.format(".csv")).body)
    assert [row["disputed"] for row in rows] == [str(each["disputed"]) for each in found]


def test_deleted_liquidations_are_a_gap_not_zero(recorded: Service) -> None:
    recorded.clock.now = NOW_HOUR + 90 * DAY  # as long as single liquidations are kept
    target = f"/api/v1/series/liquidations?symbol=BTC&from={TODAY}&to={NOW_HOUR + HOUR}"
    *deleted, kept = points(recorded, target)
    assert {each["value"] for each in deleted[-3:]} == {None}
    assert (kept["value"], kept["watched"] > 0) == (0.0, True)


def test_changes_begin_with_the_label_in_force(recorded: Service) -> None:
    for limit in (1, 2, 3):
        found = points(recorded, f"/api/v1/series/regime?from={START - DAY}&limit={limit}")
        assert [each["value"] for each in found][:2] == ["neutral", "long-leaning"]
        assert found[0]["at"] == iso_timestamp(START - 100 * DAY)
    breadth = points(recorded, "/api/v1/series/signals?key=funding-breadth")
    assert breadth[0].keys() == {"at", "value", "origin", "watched", "text"}
    named = [
        (page["symbol"], page["key"], page["venue"])
        for key in ("funding-breadth", "us-rates")
        for page in pages(recorded, f"/api/v1/series/signals?key={key}")
    ]
    assert named == [(None, "funding-breadth", "bybit"), (None, "us-rates", None)]


def test_settled_funding_is_what_the_exchange_reports_for_every_contract(recorded: Service) -> None:
    for limit in (1, 500):
        found = points(recorded, f"/api/v1/series/settled-funding?limit={limit}")
        told = [(each["origin"], each["interval_hours"], each["rate_8h"]) for each in found]
        assert told == [
            ("settled", 8.0, 0.01),
            ("settled", 8.0, 0.01),
            ("settled", 4.0, 0.02),
        ]
    (pepe,) = points(recorded, "/api/v1/series/settled-funding?symbol=1000PEPE")
    assert (pepe["value"], pepe["rate_8h"]) == (0.03, 0.03)


def test_daily_figures_are_as_they_were_known_then(recorded: Service) -> None:
    now = points(recorded, "/api/v1/series/us10y?limit=1")
    then = points(recorded, f"/api/v1/series/us10y?as_of={START - 2 * HOUR}")
    assert [(each["value"], each["revision"]) for each in now] == [(4.0, 1), (4.5, 2), (4.0, 1)]
    assert [each["value"] for each in then] == [4.0, 4.0, 4.0]
    page = recorded.ask("/api/v1/series/sofr").json()
    assert NYFED_NOTICE in page["source"]
    assert (page["venue"], page["symbol"], page["points"][0]["origin"]) == (None, None, "published")


def test_a_cursor_belongs_to_one_query(recorded: Service) -> None:
    following = recorded.ask("/api/v1/series/price?limit=5").json()["next"]
    target = following.removeprefix(BASE_URL)
    assert recorded.ask(target.replace("limit=5", "limit=6")).json()["count"] == 6
    foreign = (target.replace("/price", "/funding"), f"{target}&symbol=ETH", f"{target}A")
    assert [recorded.ask(each).status for each in foreign] == [400, 400, 400]


def test_a_table_of_many_parts_holds_what_the_pages_hold(recorded: Service) -> None:
    target = f"/api/v1/series/price.csv?from={FIRST}"
    answer = recorded.ask(target)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    assert answer.headers["content-disposition"].endswith('-BTC-price.csv"')
    assert "ratelimit" in answer.headers
    assert answer.body == recorded.ask(target.replace(".csv?", "?format=csv&")).body
    found = table(answer.body)
    assert len(found) > PART_ROWS
    ending = {"source": "test venue", "notice": "Information only, not financial advice."}
    assert found == [
        {name: "" if value is None else str(value) for name, value in each.items()} | ending
        for each in points(recorded, f"/api/v1/series/price?from={FIRST}")
    ]
    assert "content-length" not in answer.headers  # sent in parts
    head, part = recorded.ask(target, "HEAD"), recorded.ask(target, range="bytes=-9")
    assert (head.body, head.headers["content-length"]) == (b"", str(len(answer.body)))
    assert (part.status, part.body) == (206, answer.body[-9:])


async def test_a_table_that_cannot_be_completed_never_ends(service: Service) -> None:
    sent: list[Any] = []

    async def read(at: int, _: int) -> ListPart[int]:
        if at == 3:
            raise DatabaseUnavailable("away")
        return ListPart(ListHead(START, None, "test venue"), [("x" * SHORT_BYTES,)], at + 1)

    async def send(message: Any) -> None:
        sent.append(message)

    with pytest.raises(TemporarilyUnavailable):
        await send_table(listings_of(service), read, send)
    assert [message.get("more_body") for message in sent] == [None, True, True]


def listings_of(service: Service) -> Listings:
    limiter = RateLimiter(MemoryStore(service.clock), service.keys.verify, ())
    queue = RenderQueue(limiter, service.clock)
    reads = RenderedReads(queue, service.clock, 1)
    return Listings(queue, limiter, reads, Cursors(b"secret", BASE_URL))


async def send_table(listings: Listings, read: Any, send: Any, peer: str = PEER) -> None:
    listing = Listing("/path", "points", ("at",), {"format": "csv"}, 1, read, "name")
    scope = {"type": "http", "headers": [], "client": (peer, 1), "query_string": b""}
    answer = await listings.respond(Request(scope | {"path": "/path"}), listing)
    await answer(scope, Queue().get, send)


async def test_slow_readers_of_one_network_leave_places_for_others(service: Service) -> None:
    listings, stalled = listings_of(service), Event()

    async def read(_: int, __: int) -> ListPart[int]:
        return ListPart(ListHead(START, None, "test venue"), [("x" * SHORT_BYTES,)])

    def open_one(peer: str) -> "Task[None]":
        """A table whose reader stalls."""
        sending = send_table(listings, read, lambda _: stalled.wait(), peer=peer)
        return asyncio.create_task(sending)

    reading: list[Task[None]] = []
    for peer, places in (
        *[(f"198.51.100.{n}", MAX_PER_CALLER) for n in range(4)],
        *[("198.51.7.1", 0), ("203.0.113.1", MAX_PER_CALLER)],
        *[(f"2001:db8:0:{n}::1", MAX_PER_CALLER) for n in range(4)],
        *[("2001:db8:0:9::1", 0), ("2001:db8:1::1", MAX_PER_CALLER)],
    ):
        reading += [open_one(peer) for _ in range(places)]
        with pytest.raises(RenderQueueFull):
            await open_one(peer)
    stalled.set()
    await asyncio.gather(*reading)


@pytest.mark.outcome(
    "Stored readings are unreadable when a series is downloaded", "503 with `Retry-After`."
)
def test_a_series_is_unavailable_without_the_database(recorded: Service) -> None:
    take_away(recorded.settings.database_path)
    names = ("series/price", "series/price.csv", "series/liquidations", "liquidations", "incidents")
    for name in names:
        answer = recorded.ask(f"/api/v1/{name}")
        assert (answer.status, list(answer.json())) == (503, ["error"]), name
        assert (answer.headers["retry-after"], answer.headers["cache-control"]) == ("5", "no-store")
