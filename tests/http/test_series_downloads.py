"""`/data/…`: the record behind the charts, for programs and for spreadsheets."""

import asyncio
import csv
import gzip
import io
from itertools import product

import pytest

from barograph.errors import Unreachable
from barograph.kit.database import Transaction
from barograph.kit.timestamps import HOUR, iso_timestamp
from barograph.markets.liquidations import LiquidationHour
from barograph.markets.samples import DAYS, MEASURES
from barograph.markets.store import ReadingRow, record_rows
from barograph.site.series_documents import data_path, liquidations_path
from support.clock import START
from support.databases import take_away
from support.service import Answer, Service

THIS_HOUR = START // HOUR * HOUR
GAP = THIS_HOUR - 3 * HOUR
READINGS = [
    ReadingRow("hour", "1000PEPEUSDT", THIS_HOUR - each * HOUR, 0.012, -0.01, 4, 9e7, None)
    for each in range(1, 24)
    if each != 3
]
LIQUIDATED = [
    LiquidationHour(THIS_HOUR - 2 * HOUR, 150.25, 50.0, 100.0),
    LiquidationHour(THIS_HOUR - 3 * HOUR, 7.5, 0.0, 40.0),
]
PATHS = (
    *(f"/data/1000PEPE/{measure}.{form}" for measure in MEASURES for form in ("json", "csv")),
    "/data/liquidations.json",
    "/data/liquidations.csv",
)


@pytest.fixture
def recorded(service: Service) -> Service:
    """A service whose record knows a day of one contract, with an hour missing.

    The older half of the day comes from the exchange's own history.
    """

    async def work(tx: Transaction) -> None:
        await record_rows(tx, "bybit", readings=READINGS[:12])
        await record_rows(tx, "bybit", readings=READINGS[12:], origin="backfilled")
        await record_rows(tx, "bybit", liquidation_hours=LIQUIDATED)

    asyncio.run(service.database.write(work))
    return service


def table(answer: Answer) -> list[list[str]]:
    return list(csv.reader(io.StringIO(answer.body.decode(), newline=""), strict=True))


def test_a_series_says_what_where_and_when(recorded: Service) -> None:
    answer = recorded.ask("/data/1000pepe/funding.json?days=1")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert (
        answer.headers["content-disposition"]
        == 'inline; filename="barograph-1000PEPE-funding-1d.json"'
    )
    body = answer.json()
    points = body.pop("points")
    assert body == {
        "source": "test venue",
        "notice": "Information only, not financial advice.",
        "symbol": "1000PEPE",
        "measure": "funding",
        "unit": "% per 8 h",
        "interval_seconds": 3600,
        "days": 1,
        "as_of": iso_timestamp(START),
    }
    assert list(answer.json()) == [*body, "points"]
    assert {"at": iso_timestamp(GAP), "value": None, "origin": None} in points
    assert {"at": iso_timestamp(GAP - HOUR), "value": -0.02, "origin": "measured"} in points
    oldest = iso_timestamp(READINGS[-1].at)
    assert {"at": oldest, "value": -0.02, "origin": "backfilled"} in points
    assert len(points) == 25


def test_a_table_has_a_header_with_units_and_nothing_where_nothing_is_known(
    recorded: Service,
) -> None:
    answer = recorded.ask("/data/1000PEPE/funding.csv?days=1")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    assert (
        answer.headers["content-disposition"]
        == 'inline; filename="barograph-1000PEPE-funding-1d.csv"'
    )
    header, *rows = table(answer)
    assert header == ["at", "funding_8h_pct", "origin", "source", "notice"]
    assert [iso_timestamp(GAP), "", ""] in [row[:3] for row in rows]
    assert [iso_timestamp(GAP - HOUR), "-0.02", "measured"] in [row[:3] for row in rows]
    lines = answer.body.split(b"\r\n")
    assert lines[-1] == b""
    assert not any(b"\n" in line or b"\r" in line for line in lines)


def test_the_table_holds_what_the_json_holds(recorded: Service) -> None:
    for measure, days in product(MEASURES, DAYS):
        points = recorded.ask(f"/data/1000PEPE/{measure}.json?days={days}").json()["points"]
        _, *rows = table(recorded.ask(f"/data/1000PEPE/{measure}.csv?days={days}"))
        told = [
            {"at": at, "value": float(value) if value else None, "origin": origin or None}
            for at, value, origin, *_ in rows
        ]
        assert told == points
        assert len(points) <= 361


def test_liquidations_tell_how_much_was_watched(recorded: Service) -> None:
    body = recorded.ask("/data/liquidations.json?days=1").json()
    assert (body["measure"], body["unit"], body["interval_seconds"]) == (
        "liquidations",
        "USD",
        3600,
    )
    assert len(body["points"]) == 24
    unwatched, partial, whole, _, running = body["points"][-5:]
    assert whole == {
        "at": iso_timestamp(THIS_HOUR - 2 * HOUR),
        "long_usd": 150.25,
        "short_usd": 50.0,
        "watched_pct": 100.0,
        "partial": False,
    }
    assert (partial["long_usd"], partial["watched_pct"], partial["partial"]) == (7.5, 40.0, True)
    assert (unwatched["long_usd"], unwatched["short_usd"], unwatched["watched_pct"]) == (
        *(None, None, 0.0),
    )
    assert running == {
        "at": iso_timestamp(THIS_HOUR),
        "long_usd": 0.0,
        "short_usd": 0.0,
        "watched_pct": 100.0,
        "partial": True,
    }
    header, *rows = table(recorded.ask("/data/liquidations.csv?days=1"))
    assert header == ["at", "long_usd", "short_usd", "watched_pct", "partial", "source", "notice"]
    assert rows[-3][:5] == [iso_timestamp(THIS_HOUR - 2 * HOUR), "150.25", "50.0", "100.0", "false"]
    assert rows[-5][1:5] == ["", "", "0.0", "true"]


@pytest.mark.parametrize("path", [path for path in PATHS if path.endswith(".csv")])
def test_each_row_of_a_table_names_its_source_and_carries_the_notice(
    recorded: Service, path: str
) -> None:
    header, *rows = table(recorded.ask(path))

    assert header[-2:] == ["source", "notice"]
    assert rows
    for row in rows:
        assert len(row) == len(header)
        assert row[-2:] == ["test venue", "Information only, not financial advice."]


def test_a_week_is_given_when_nothing_is_said(recorded: Service) -> None:
    for path in ("/data/BTC/price.json", "/data/liquidations.json"):
        answer = recorded.ask(path)
        assert answer.json()["days"] == 7
        assert answer.body == recorded.ask(f"{path}?days=7").body


@pytest.mark.parametrize("name", ["1000PEPEUSDT", "PEPE", "pepe"])
def test_every_name_of_a_contract_means_the_same(recorded: Service, name: str) -> None:
    by_name = recorded.ask(f"/data/{name}/price.json").json()
    assert by_name["symbol"] == "1000PEPE"
    assert by_name == recorded.ask("/data/1000PEPE/price.json").json()


def test_days_that_are_not_offered_are_refused_with_the_list(recorded: Service) -> None:
    refused = ("0", "2", "07", "7.0", "", "-7", "7&days=7", "7%00", "\u0667")
    for path, days in product(PATHS, refused):
        answer = recorded.ask(f"{path}?days={days}")
        assert answer.status == 400
        assert answer.json() == {"error": "days must be one of 1, 7, 30, 60, given once"}


def test_an_invalid_symbol_is_400(recorded: Service) -> None:
    for symbol in ("B-C", "BTC%20", "A" * 16, "B%0A", "%C3%9F", "%C4%B1", "BTC%00", "."):
        answer = recorded.ask(f"/data/{symbol}/price.json")
        assert answer.status == 400
        assert answer.json() == {"error": "symbol must be 1 to 15 letters or digits"}


def test_what_is_not_recorded_is_404_also_for_a_browser(recorded: Service) -> None:
    for path in ("/data/NOPE/price.json", "/data/BTC/volume.json"):
        answer = recorded.ask(path, accept="text/html")
        assert answer.status == 404
        assert list(answer.json()) == ["error"]
        assert answer.headers["cache-control"] == "no-store"
    for path in ("/data/BTC/price.xml", "/data/BTC/price", "/data/liquidations"):
        assert recorded.ask(path).status == 404


def test_downloads_are_packed_for_who_takes_them_so_and_are_what_they_say(
    recorded: Service,
) -> None:
    for path in PATHS:
        whole = recorded.ask(f"{path}?days=60")
        packed = recorded.ask(f"{path}?days=60", accept_encoding="gzip")
        for answer in (whole, packed):
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["vary"] == "Accept-Encoding"
            assert "content-security-policy" not in answer.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed.body) == whole.body
        assert len(packed.body) < len(whole.body) / 3
        tag = packed.headers["etag"]
        known = recorded.ask(f"{path}?days=60", accept_encoding="gzip", if_none_match=tag)
        assert (known.status, known.headers["etag"]) == (304, tag)
        assert known.headers["vary"] == "Accept-Encoding"
        assert not {"content-encoding", "content-type", "content-length"} & set(known.headers)


def test_downloads_speak_http_like_every_free_read(recorded: Service) -> None:
    for path in PATHS:
        whole = recorded.ask(path)
        assert whole.headers["access-control-allow-origin"] == "*"
        assert whole.headers["cache-control"].startswith("private, max-age=5")
        again = recorded.ask(path, if_none_match=whole.headers["etag"])
        assert (again.status, again.body) == (304, b"")
        head = recorded.ask(path, "HEAD")
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == str(len(whole.body))
        options = recorded.ask(path, "OPTIONS")
        assert (options.status, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
        assert recorded.ask(path, "POST").status == 405


@pytest.mark.outcome(
    "Stored readings are unreadable when a series is downloaded",
    "503 with `Retry-After`.",
)
def test_unreadable_readings_are_503_with_retry_after(recorded: Service) -> None:
    take_away(recorded.settings.database_path)
    for path in PATHS:
        answer = recorded.ask(path)
        assert answer.status == 503
        assert list(answer.json()) == ["error"]
        assert answer.headers["retry-after"] == "5"
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["cache-control"] == "no-store"


def test_the_record_can_be_read_while_the_exchange_is_away(recorded: Service) -> None:
    recorded.clock.pass_seconds(3600)
    recorded.publish_failure(Unreachable("away"))
    assert recorded.ask("/api/agent/derivatives?symbol=1000PEPE").status == 502
    answer = recorded.ask("/data/1000PEPE/price.json?days=1")
    assert answer.status == 200
    assert any(point["value"] == 0.012 for point in answer.json()["points"])


def test_before_the_first_reading_no_contract_is_known(empty_service: Service) -> None:
    assert empty_service.ask("/data/BTC/price.json").status == 502
    assert empty_service.ask("/data/liquidations.json").status == 200


def test_paths_are_written_the_way_they_are_read(recorded: Service) -> None:
    for days in DAYS:
        for measure in MEASURES:
            body = recorded.ask(data_path("BTC", measure, days, "json")).json()
            assert (body["symbol"], body["measure"], body["days"]) == ("BTC", measure, days)
        assert recorded.ask(data_path("BTC", "price", days, "csv")).status == 200
        assert recorded.ask(liquidations_path(days, "json")).json()["days"] == days
        assert recorded.ask(liquidations_path(days, "csv")).status == 200
