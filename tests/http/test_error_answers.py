"""Every answer other than success: one member, JSON, nothing leaked."""

from collections.abc import Iterator

import pytest

from barograph.app import create_app
from support.service import Service, ask, fresh_service

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A fresh market that the tests here only read."""
    with fresh_service(tmp_path_factory.mktemp("market")) as service:
        yield service


@pytest.mark.contract("errors.body", "errors.400", "service.json")
def test_a_400_is_exactly_one_sentence(service: Service) -> None:
    answer = service.ask("/api/agent/derivatives?symbol=%3Cscript%3E")

    assert answer.status == 400
    assert answer.body == b'{"error":"symbol must be 1 to 15 letters or digits, given once"}'
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.contract("errors.body", "errors.502", "service.json")
@pytest.mark.parametrize("path", ["derivatives", "market", "market-state"])
def test_a_502_is_exactly_one_sentence(empty_service: Service, path: str) -> None:
    answer = empty_service.ask(f"/api/agent/{path}")

    assert answer.status == 502
    assert answer.body == (
        b'{"error":"upstream market data is unavailable or too old; try again shortly"}'
    )
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.contract("errors.body", "service.json")
@pytest.mark.parametrize(
    "path",
    [
        "/api",
        "/api/",
        "/api/nope",
        "/api/AGENT",
        "/api/agent/",
        "/api/agent/nope",
        "/api/agent/market/",
        "/api/agent/market/BTC",
        "/api/agent/derivatives/?symbol=BTC",
        "/api/agent/market_state",
        "/api/agent/../status",
        "//api/agent",
        "/api/agents",
        "/api/agents/material-change/",
        "/api/status/",
        "/api/v1/nope",
        "/openapi.json/",
        "/docs/nope",
        "/redoc",
    ],
)
def test_an_unknown_path_is_404_and_never_a_redirect(market: Service, path: str) -> None:
    answer = market.ask(path)

    assert answer.status == 404
    assert answer.body == b'{"error":"not found"}'
    assert answer.headers["content-type"] == "application/json"
    assert "location" not in answer.headers
    if path.startswith("/api"):
        assert market.ask(path, accept=BROWSER) == answer


@pytest.mark.parametrize("path", ["/badge/nope.svg", "/badge/", "/badge/nope", "/badge/a/b.svg"])
def test_an_unknown_badge_is_a_picture_also_for_browsers(market: Service, path: str) -> None:
    answer = market.ask(path, accept=BROWSER)

    assert answer.status == 404
    assert answer.headers["content-type"] == "image/svg+xml; charset=utf-8"
    assert b"badge not found" in answer.body


@pytest.mark.parametrize("path", ["/nope", "/guides/nope", "/briefs/nope", "/signals/x", "/docs/x"])
def test_an_unknown_page_is_a_page_for_browsers(market: Service, path: str) -> None:
    answer = market.ask(path, accept=BROWSER)

    assert answer.status == 404
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert b"There is no page at this address." in answer.body


@pytest.mark.contract("errors.body")
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_unexpected_failure_is_500_in_the_same_shape_and_says_nothing_of_its_cause(
    service: Service, method: str
) -> None:
    breaks = False

    def clock() -> int:
        if breaks:
            raise RuntimeError("secret at /var/lib/barograph")
        return service.clock()

    app, _, _ = create_app(service.settings, service.database, service.history, clock=clock)
    breaks = True

    answer = ask(app, "/api/status", method)

    assert answer.status == 500
    assert answer.body == (b"" if method == "HEAD" else b'{"error":"internal error"}')
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("path", ["/", "/api/agent", "/api/agent/market", "/api/status"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_a_newline_at_the_end_of_a_path_makes_it_another_path(
    service: Service, path: str, method: str
) -> None:
    assert service.ask(f"{path}%0a", method).status == 404
