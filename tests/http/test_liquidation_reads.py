"""`/api/v1/liquidations` and the daily files: every recorded liquidation, once, and as promised."""

import asyncio
import gzip
import hashlib
import random
from typing import TypeVar

import pytest

from barograph.collector.jobs.market_data import LiquidationFilesJob
from barograph.errors import LeaseLost
from barograph.kit.timestamps import DAY, HOUR, MINUTE, iso_timestamp
from barograph.markets.liquidation_files import GRACE, DailyFile, day_name, store_file
from barograph.markets.liquidations import LiquidationTracker
from barograph.venues.records import Liquidation
from barograph.venues.spans import Span
from support.clock import START
from support.lists import pages, table
from support.service import BASE_URL, Service

T = TypeVar("T")
PATH = "/api/v1/liquidations"
TODAY = START // DAY * DAY
YESTERDAY, BEFORE = TODAY - DAY, TODAY - 2 * DAY
FOLDER = "/data/liquidations/bybit"
MANIFEST = f"{FOLDER}/manifest.json"
FILE = f"{FOLDER}/{day_name(YESTERDAY)}.csv.gz"
NOON = YESTERDAY + 12 * HOUR
EVENTS = [
    *(Liquidation(NOON, "BTCUSDT", "long", size, 67_000.5) for size in (0.003, 0.001, 0.002)),
    Liquidation(NOON, "BTCUSDT", "short", 0.001, 67_000.5),
    Liquidation(NOON, "1000PEPEUSDT", "short", 12_345.0, 0.0123),
    Liquidation(YESTERDAY, "LUNA2USDT", "long", 1.5, 0.333),
    Liquidation(TODAY - 1, "ETHUSDT", "long", 0.1, 3_500.25),
]
WATCHED: list[Span] = [(YESTERDAY, NOON), (NOON + HOUR, START)]


@pytest.fixture
def recorded(service: Service) -> Service:
    """A service that recorded yesterday, but for an hour after noon."""
    service.execute("DELETE FROM watched_spans")
    service.record_market(liquidations=EVENTS, watched=WATCHED)
    return service


def make_files(service: Service) -> None:
    job = LiquidationFilesJob(
        service.database, source="test venue", history_days=90, clock=service.clock
    )
    asyncio.run(job.run_once(service.lease))


def span(start: int, end: int) -> dict[str, str]:
    return {"from": iso_timestamp(start), "to": iso_timestamp(end)}


def test_liquidation_says_what_happened_where_and_at_which_price(recorded: Service) -> None:
    recorded.clock.pass_seconds(30)
    body = recorded.ask(f"{PATH}?from={day_name(YESTERDAY)}&to={day_name(TODAY)}&limit=1").json()
    assert list(body) == [
        *("as_of", "venue", "source", "notice", "count", "completeness", "watched"),
        *("liquidations", "next"),
    ]
    assert (body["venue"], body["source"], body["count"]) == ("bybit", "test venue", 1)
    assert body["as_of"] == iso_timestamp(START)  # the last 30 seconds are not recorded yet
    assert body["liquidations"] == [
        {
            "at": iso_timestamp(YESTERDAY),
            "symbol": "LUNA2",
            "contract": "LUNA2USDT",
            "venue": "bybit",
            "side": "long",
            "size": 1.5,
            "price": 0.333,
            "priceKind": "bankruptcy",
            "usd": 0.5,
            "disputed": False,
        }
    ]


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_lose_and_repeat_nothing_at_equal_times(recorded: Service, limit: int) -> None:
    query = f"from={iso_timestamp(YESTERDAY)}&to={iso_timestamp(TODAY)}&limit={limit}"
    found = list(pages(recorded, f"{PATH}?{query}"))
    keys = [
        (each["at"], each["contract"], each["side"], each["size"])
        for page in found
        for each in page["liquidations"]
    ]
    assert keys == sorted((iso_timestamp(e.at), e.contract, e.side, e.size) for e in EVENTS)
    spans = [each for page in found for each in page["watched"]]
    assert spans == [span(YESTERDAY, NOON), span(NOON + HOUR, TODAY)]


def test_next_page_is_read_after_its_range_left_the_retention(recorded: Service) -> None:
    recorded.clock.now = YESTERDAY + 90 * DAY
    body = recorded.ask(f"{PATH}?from={iso_timestamp(YESTERDAY)}&limit=1").json()
    recorded.clock.pass_seconds(60)
    following = recorded.ask(body["next"].removeprefix(BASE_URL))
    assert following.status == 200
    assert following.json()["count"] == 1
    # Deleted liquidations leave no span behind that claims there were none.
    assert following.json()["watched"][0] == span(YESTERDAY + MINUTE, NOON)


@pytest.mark.parametrize(
    ("query", "contracts"),
    [
        ("symbol=pepe", ["1000PEPEUSDT"]),
        ("symbol=bitcoin&side=short", ["BTCUSDT"]),
        ("symbol=luna2", ["LUNA2USDT"]),
        ("symbol=LUNA2USDT&venue=bybit", ["LUNA2USDT"]),
        ("symbol=SOL", []),
    ],
)
def test_aliases_and_delisted_contracts_are_found(
    recorded: Service, query: str, contracts: list[str]
) -> None:
    target = f"{PATH}?from={iso_timestamp(YESTERDAY)}&{query}"
    found = recorded.ask(target).json()["liquidations"]
    assert [each["contract"] for each in found] == contracts
    rows = table(recorded.ask(f"{target}&format=csv").body)
    assert [each["contract"] for each in rows] == contracts


def test_day_file_range_and_hours_agree(recorded: Service) -> None:
    tracker = LiquidationTracker(90.0, EVENTS)
    tracker.watched(YESTERDAY, TODAY)
    hours = tracker.closed_hours(TODAY, YESTERDAY - HOUR)
    assert len(hours) == 24
    make_files(recorded)
    query = f"from={iso_timestamp(YESTERDAY)}&to={iso_timestamp(TODAY)}"

    from_file = gzip.decompress(recorded.ask(FILE).body)
    listed = table(recorded.ask(f"{PATH}.csv?{query}").body)
    (page,) = pages(recorded, f"{PATH}?{query}")
    rows = table(from_file)
    assert rows == [{name: row[name] for name in row if name != "disputed"} for row in listed]
    ending = {"source": "test venue", "notice": page["notice"]}
    assert listed == [
        {**{name: str(value) for name, value in each.items()}, **ending}
        for each in page["liquidations"]
    ]
    for side, total in (
        ("long", sum(each.long_usd for each in hours)),
        ("short", sum(each.short_usd for each in hours)),
    ):
        usd = sum(float(row["usd"]) for row in rows if row["side"] == side)
        assert usd == pytest.approx(total, abs=0.001)


def test_manifest_has_the_sum_of_a_file_that_never_changes(recorded: Service) -> None:
    make_files(recorded)
    first, manifest = recorded.ask(FILE), recorded.ask(MANIFEST)
    assert manifest.headers["cache-control"].endswith("max-age=60")
    body = manifest.json()
    assert (body["count"], body["next"]) == (1, None)
    assert body["files"] == [
        {
            "day": day_name(YESTERDAY),
            "url": f"{BASE_URL}{FILE}",
            "rows": len(EVENTS),
            "bytes": len(first.body),
            "sha256": hashlib.sha256(first.body).hexdigest(),
            "watched": [span(YESTERDAY, NOON), span(NOON + HOUR, TODAY)],
            "watched_pct": 95.83,
            "disputed_sides": [],
        }
    ]
    late = Liquidation(NOON + 1, "BTCUSDT", "long", 9.0, 1.0)
    recorded.record_market(liquidations=[late])
    make_files(recorded)
    recorded.execute("DELETE FROM liquidations")
    assert recorded.ask(FILE).body == first.body


@pytest.mark.parametrize("limit", [1, 4, 7])
def test_liquidations_whose_sides_were_disputed_are_marked(recorded: Service, limit: int) -> None:
    make_files(recorded)
    spans = [(YESTERDAY - HOUR, YESTERDAY + 1), (NOON, NOON + 5), (NOON + 5, NOON + 9)]
    recorded.record_market(disputed_sides=spans)
    query = f"from={iso_timestamp(YESTERDAY)}&to={iso_timestamp(TODAY)}"
    found = pages(recorded, f"{PATH}?{query}&limit={limit}")
    marks = [each["disputed"] for page in found for each in page["liquidations"]]
    assert marks == [True] * 6 + [False]
    rows = table(recorded.ask(f"{PATH}.csv?{query}").body)
    assert [row["disputed"] for row in rows] == ["True"] * 6 + ["False"]
    recorded.clock.pass_seconds(60)  # past the cached manifest
    (file,) = recorded.ask(MANIFEST).json()["files"]
    assert file["disputed_sides"] == [span(YESTERDAY, YESTERDAY + 1), span(NOON, NOON + 9)]


def test_large_file_arrives_as_it_was_stored_and_is_cached_for_good(service: Service) -> None:
    body = random.Random(1).randbytes(150_001)
    made = DailyFile(day_name(YESTERDAY), 1, len(body), hashlib.sha256(body).hexdigest(), [])
    asyncio.run(service.database.write(lambda tx: store_file(tx, "bybit", made, body, START)))
    answer, head = service.ask(FILE), service.ask(FILE, "HEAD")
    assert answer.body == body
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-type"] == "application/gzip"
    assert answer.headers["content-length"] == str(len(body))
    assert "content-encoding" not in answer.headers
    assert (head.status, head.body, head.headers) == (200, b"", answer.headers)
    again = service.ask(FILE, if_none_match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    ("name", "status", "why"),
    [
        (f"bybit/{day_name(TODAY)}", 404, iso_timestamp(TODAY + DAY + GRACE)),
        ("bybit/9999-12-31", 404, MANIFEST),
        ("bybit/2020-01-01", 404, MANIFEST),
        ("bybit/2026-13-01", 400, "2026-11-14"),
        ("bybit/20261101", 400, "2026-11-14"),
        ("nowhere/2026-11-05", 404, "bybit"),
    ],
)
def test_missing_file_says_why(recorded: Service, name: str, status: int, why: str) -> None:
    make_files(recorded)
    answer = recorded.ask(f"/data/liquidations/{name}.csv.gz", accept="text/html")
    assert answer.status == status
    assert why in answer.json()["error"]


def days(service: Service) -> list[str]:
    service.clock.pass_seconds(60)  # past the cached manifest
    return [each["day"] for each in service.ask(MANIFEST).json()["files"]]


def test_crash_between_two_days_loses_nothing(recorded: Service) -> None:
    # The day before has no liquidation but was watched; the one before that was not.
    spans = [(BEFORE + HOUR, YESTERDAY), (BEFORE - 3 * DAY, BEFORE - 2 * DAY)]
    recorded.record_market(watched=spans)
    oldest = [day_name(BEFORE - 3 * DAY)]

    # A part that is in the way ends the write of the second file in its middle.
    part = "INSERT INTO liquidation_file_parts (venue, day, part, body) VALUES ('bybit', $1, 0, '')"
    recorded.execute(part, day_name(BEFORE))
    make_files(recorded)
    assert days(recorded) == oldest
    recorded.execute("DELETE FROM liquidation_file_parts WHERE day = $1", day_name(BEFORE))
    make_files(recorded)
    assert days(recorded) == [*oldest, day_name(BEFORE), day_name(YESTERDAY)]


def test_day_waits_for_late_reports_and_for_a_record_that_goes_past_it(recorded: Service) -> None:
    # Liquidations of the last minutes may still wait in the collector's memory.
    recorded.clock.now = TODAY + 2 * DAY
    make_files(recorded)
    assert days(recorded) == [day_name(YESTERDAY)]

    recorded.record_market(watched=[(START + MINUTE, TODAY + DAY)])
    recorded.clock.now = TODAY + DAY + GRACE - 1
    make_files(recorded)
    assert days(recorded) == [day_name(YESTERDAY)]
    make_files(recorded)
    assert days(recorded) == [day_name(YESTERDAY), day_name(TODAY)]


def test_collector_without_the_lease_makes_no_file(recorded: Service) -> None:
    recorded.execute("UPDATE leases SET token = token + 1")
    with pytest.raises(LeaseLost):
        make_files(recorded)
    assert days(recorded) == []
