"""What a web worker measures."""

import asyncio
from functools import partial

import pytest
from pydantic import SecretStr

from barograph.kit.database import DatabaseUnavailable
from barograph.kit.metrics import (
    DATABASE_FAILURES,
    DATABASE_UP,
    FEED_AGE,
    LIMITS_FAILING,
    Gauges,
    Metrics,
)
from barograph.settings import Settings
from barograph.web.app import WebApp, create_app
from barograph.web.monitoring import web_gauges
from support.databases import bring_back, take_away
from support.service import Service, ask

NAME = "barograph_request_seconds"
STATE = "/api/agent/market-state"


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def settings(service: Service) -> Settings:
    """With local rate limits, which need no connection that would have to be closed."""
    return service.settings.model_copy(update={"limits_url": SecretStr("")})


@pytest.fixture
def measured(service: Service, settings: Settings, metrics: Metrics) -> WebApp:
    """A worker that measures its requests."""
    made = create_app(
        settings, service.database, service.history, clock=service.clock, metrics=metrics
    )
    asyncio.run(made.board.refresh())
    return made


def test_requests_are_counted_by_route_template_and_status(
    service: Service, measured: WebApp, metrics: Metrics
) -> None:
    read = partial(ask, measured.app)
    tag = read(STATE).headers["etag"]
    read(STATE, "HEAD")
    read(STATE, "GET", [("if-none-match", tag)])
    read(STATE, "GET", [("if-none-match", '"another"')])
    read(STATE, "POST")
    for path in ("/guides/one", "/guides/two", "/nowhere", "/nowhere/else", "/%2e%2e/secret"):
        read(path)
    assert {key[1:]: sum(times[1:]) for key, times in metrics.totals.items() if key[0] == NAME} == {
        (STATE, "200"): 3,
        (STATE, "304"): 1,
        (STATE, "405"): 1,
        ("/guides/{slug}", "404"): 2,
        ("other", "404"): 3,
    }


def test_measuring_changes_no_response(service: Service, measured: WebApp) -> None:
    for target in (STATE, f"{STATE}?x=1", "/api/agent/guides", "/nowhere", "/"):
        for method in ("GET", "HEAD", "POST"):
            assert ask(service.app, target, method) == ask(measured.app, target, method)


def test_a_lost_database_is_down_until_it_answers_again(
    service: Service, measured: WebApp, metrics: Metrics
) -> None:
    assert metrics.gauges[DATABASE_UP.name, "service"] == 1
    take_away(service.settings.database_path)
    with pytest.raises(DatabaseUnavailable):
        asyncio.run(measured.board.refresh())
    assert metrics.totals[DATABASE_FAILURES.name, "service", "read"] == [1]
    bring_back(service.settings.database_path)
    with pytest.raises(asyncio.CancelledError):  # says nothing about the database
        asyncio.run(metrics.databases[0].read(_cancelled))
    assert metrics.gauges[DATABASE_UP.name, "service"] == 0
    asyncio.run(metrics.databases[0].ask_again())
    assert metrics.gauges[DATABASE_UP.name, "service"] == 1


async def _cancelled(_: object) -> None:
    raise asyncio.CancelledError


def test_the_age_of_a_feed_is_that_of_its_data(service: Service, settings: Settings) -> None:
    for limits_failing, value in ((lambda: None, 0), (service.clock, 1)):
        gauges: Gauges = {}
        asyncio.run(web_gauges(service.board, settings, limits_failing, gauges))
        assert gauges[FEED_AGE.name, "perpetuals"] == service.clock()
        assert gauges[LIMITS_FAILING.name, "memory"] == value
