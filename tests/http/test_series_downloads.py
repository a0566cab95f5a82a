"""Former addresses of downloads: they lead to the same data in the API."""

import asyncio
from functools import partial
from itertools import product

import pytest

from barograph.errors import Unreachable
from barograph.kit.timestamps import HOUR
from barograph.markets.samples import CHARTED
from barograph.markets.store import ReadingRow, record_rows
from support.clock import START
from support.service import Answer, Service

THIS_HOUR = START // HOUR * HOUR
READINGS = [
    ReadingRow("hour", "1000PEPEUSDT", THIS_HOUR - hours * HOUR, 0.012, -0.01, 4, 9e7, None)
    for hours in range(1, 24)
]
PATHS = (
    *(f"/data/1000PEPE/{measure}.{form}" for measure in CHARTED for form in ("json", "csv")),
    "/data/liquidations.json",
    "/data/liquidations.csv",
)


@pytest.fixture
def recorded(service: Service) -> Service:
    """A service whose record knows a day of one contract."""
    asyncio.run(service.database.write(partial(record_rows, venue="bybit", readings=READINGS)))
    return service


def follow(service: Service, path: str) -> Answer:
    """What the redirect of a path leads to."""
    answer = service.ask(path)
    assert (answer.status, answer.body) == (308, b"")
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cache-control"] == "public, max-age=60"
    return service.ask(answer.headers["location"])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("days", ["", "?days=1", "?days=30", "?days=60"])
def test_every_former_address_leads_to_an_answer(recorded: Service, path: str, days: str) -> None:
    answer = follow(recorded, path + days)

    assert answer.status == 200
    if path.endswith(".json"):
        body = answer.json()
        named = "/1000PEPE/" in path
        measure = path.rpartition("/")[2].removesuffix(".json")
        assert (body["symbol"], body["measure"]) == ("1000PEPE" if named else None, measure)
        assert body["next"] is None
    else:
        assert answer.headers["content-type"].startswith("text/csv")


@pytest.mark.parametrize("query", ["", "?sort=funding&order=asc&q=b", "?symbols=BTC,ETH"])
def test_the_table_of_markets_leads_to_every_perpetual(service: Service, query: str) -> None:
    answer = follow(service, f"/markets.csv{query}")

    assert answer.body == service.ask("/api/v1/perpetuals.csv").body


@pytest.mark.parametrize("name", ["1000PEPEUSDT", "PEPE", "pepe"])
def test_every_name_of_a_contract_means_the_same(recorded: Service, name: str) -> None:
    location = recorded.ask(f"/data/{name}/price.json").headers["location"]

    assert "symbol=1000PEPE&" in location
    assert location == recorded.ask("/data/1000PEPE/price.json").headers["location"]


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


def test_the_record_can_be_read_while_the_exchange_is_away(recorded: Service) -> None:
    recorded.clock.pass_seconds(3600)
    recorded.publish_failure(Unreachable("away"))
    assert recorded.ask("/api/agent/derivatives?symbol=1000PEPE").status == 502
    answer = follow(recorded, "/data/1000PEPE/price.json?days=1")
    assert any(point["value"] == 0.012 for point in answer.json()["points"])


def test_before_the_first_reading_no_contract_is_known(empty_service: Service) -> None:
    assert empty_service.ask("/data/BTC/price.json").status == 502
    assert follow(empty_service, "/data/liquidations.json").status == 200
