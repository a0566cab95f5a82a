"""The health checks that load balancers read."""

import pytest

from barograph.errors import Unreachable
from barograph.kit.database import DatabaseUnavailable
from barograph.web.app import create_app
from support.databases import take_away
from support.service import Answer, Service, ask


def word(answer: Answer) -> tuple[int, str]:
    assert answer.headers["cache-control"] == "no-store"
    (value,) = answer.json().values()
    return answer.status, value


def test_a_host_is_ready_once_it_has_loaded_a_snapshot(empty_service: Service) -> None:
    assert word(empty_service.ask("/healthz")) == (200, "alive")
    assert word(empty_service.ask("/readyz")) == (503, "starting")
    empty_service.publish_failure(Unreachable("the exchange is down"))  # it answers 502 from now on
    assert word(empty_service.ask("/readyz")) == (200, "ready")


@pytest.mark.outcome(
    "The exchange's data is stale, or a running host loses the database",
    "`/readyz` stays 200, because the host must still answer 502 and the status.",
)
def test_a_stale_exchange_and_a_lost_database_leave_a_host_ready(service: Service) -> None:
    service.clock.pass_seconds(3_600)
    take_away(service.settings.database_path)
    with pytest.raises(DatabaseUnavailable):
        service.refresh()
    assert service.ask("/api/agent/market-state").status == 502
    assert word(service.ask("/readyz")) == (200, "ready")
    assert word(service.ask("/healthz")) == (200, "alive")


def test_a_host_that_stops_is_alive_and_not_ready(service: Service) -> None:
    stopping = create_app(
        service.settings,
        service.database,
        service.history,
        clock=service.clock,
        is_stopping=lambda: True,
    )
    assert word(ask(stopping.app, "/readyz")) == (503, "stopping")
    assert word(ask(stopping.app, "/healthz")) == (200, "alive")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_checks_are_not_described(service: Service, path: str) -> None:
    for file in ("/openapi.json", "/llms.txt", "/llms-full.txt", "/sitemap.xml"):
        assert path.encode() not in service.ask(file).body
