"""`/api/v1/incidents`: incidents and recorded checks by program."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barograph.kit.timestamps import DAY, HOUR, MINUTE, iso_timestamp
from barograph.status.incidents import CheckResult
from barograph.status.recorder import record_results
from support.clock import START
from support.lists import pages
from support.service import Service, fresh_service

PATH = "/api/v1/incidents"
PARTS = ("api", "database", "exchange")
OUTAGES = [START // MINUTE * MINUTE - days * DAY for days in (70, 20, 2)]
UNTIL = iso_timestamp(START // DAY * DAY - 19 * DAY)
FIRST = iso_timestamp(START // DAY * DAY - 75 * DAY)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Three outages of three parts at once; only `exchange` is down still."""
    with fresh_service(tmp_path_factory.mktemp("incidents")) as found:
        for start in OUTAGES:
            for minute, condition in enumerate(["down", "degraded", "ok", "ok"]):
                exchange = "down" if start == OUTAGES[-1] else condition
                record(found, start + minute * MINUTE, condition, exchange)
        record(found, START - HOUR, "ok", "down")
        yield found


def record(service: Service, at: int, condition: Any, exchange: Any) -> None:
    results = [CheckResult(name, condition, f"{name} was {condition}") for name in PARTS[:2]]
    results.append(CheckResult("exchange", exchange, "throttled"))

    asyncio.run(service.database.write(lambda tx: record_results(tx, results, at)))


def test_incidents_come_newest_first_with_their_end_and_worst_condition(service: Service) -> None:
    page = service.ask(PATH).json()

    assert list(page) == [
        *("as_of", "venue", "source", "notice", "count"),
        *("incidents", "checks", "next"),
    ]
    assert (page["venue"], page["count"], page["next"]) == ("bybit", 3, None)
    assert page["incidents"][0] == {
        "name": "api",
        "started_at": iso_timestamp(OUTAGES[2]),
        "ended_at": iso_timestamp(OUTAGES[2] + 2 * MINUTE),
        "worst": "down",
        "detail": "api was down",
        "unwatched_from": None,
        "unwatched_until": None,
        "unwatched_seconds": 0.0,
    }
    open_one = page["incidents"][2]
    assert (open_one["name"], open_one["ended_at"]) == ("exchange", None)
    assert open_one["unwatched_seconds"] > 40 * HOUR / 1000


def test_checks_have_the_minutes_of_each_day_and_of_the_last_hours(service: Service) -> None:
    checks = {each["name"]: each for each in service.ask(f"{PATH}?from={FIRST}").json()["checks"]}
    hour = {"at": iso_timestamp((START - HOUR) // HOUR * HOUR), "ok": 1, "degraded": 0, "down": 0}

    assert list(checks) == list(PARTS)
    assert checks["api"]["hours"] == [hour]
    assert checks["api"]["days"][0]["at"] == iso_timestamp(OUTAGES[0] // DAY * DAY)
    assert [each["down"] for each in checks["exchange"]["days"]] == [1, 1, 4, 1]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 10**40])
def test_pages_have_every_incident_once(service: Service, limit: int) -> None:
    found = list(pages(service, f"{PATH}?from={FIRST}&limit={limit}"))
    incidents = [each for page in found for each in page["incidents"]]

    assert incidents == next(pages(service, f"{PATH}?from={FIRST}&limit=500"))["incidents"]
    assert len({(each["name"], each["started_at"]) for each in incidents}) == 9
    assert all(page["count"] == len(page["incidents"]) for page in found)
    assert [page["count"] for page in found[:-1]] == [limit] * (len(found) - 1)


def test_incidents_that_began_before_the_range_are_on_its_last_page(tmp_path: Path) -> None:
    with fresh_service(tmp_path) as service:
        for ago, exchange in ((3 * HOUR, "ok"), (2 * HOUR, "down")):
            for minute in range(2):
                record(service, START - ago + minute * MINUTE, "down", exchange)
        found = list(pages(service, f"{PATH}?from={START - HOUR}&limit=1"))

    names = [each["name"] for page in found for each in page["incidents"]]
    assert names == ["exchange", "api", "database"]


def test_a_range_and_a_check_narrow_the_list(service: Service) -> None:
    (page,) = pages(service, f"{PATH}?from={FIRST}&to={UNTIL}&check=database")

    assert [each["started_at"] for each in page["incidents"]] == [
        iso_timestamp(OUTAGES[1]),
        iso_timestamp(OUTAGES[0]),
    ]
    assert [each["name"] for each in page["checks"]] == ["database"]
    assert [len(page["checks"][0][each]) for each in ("hours", "days")] == [1, 2]
