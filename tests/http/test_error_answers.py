"""Every answer other than success: one member, JSON, nothing leaked."""

from pathlib import Path
from typing import Any

import pytest

from barograph.badges.endpoints import refused_badge
from barograph.kit.http import Receive, Scope, Send
from barograph.web.app import Timeouts, create_app
from support.mcp_peer import FIELDS
from support.pages import BROWSER
from support.service import Answer, Service, ask, fresh_service


@pytest.mark.contract("errors.body", "errors.400", "service.json")
def test_a_400_is_exactly_one_sentence(service: Service) -> None:
    answer = service.ask("/api/agent/derivatives?symbol=%3Cscript%3E")

    assert answer.status == 400
    assert answer.body == b'{"error":"symbol must be 1 to 15 letters or digits, given once"}'
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.contract("errors.body", "service.json")
@pytest.mark.parametrize(
    "path",
    [
        *("/api/nope", "/api/AGENT", "/api/agent/", "/api/agent/nope", "/api/agent/market/"),
        *("/api/agent/market/BTC", "/api/agent/derivatives/?symbol=BTC", "/api/agent/market_state"),
        *("/api/agent/../status", "//api/agent", "/api/agents", "/api/agents/material-change/"),
        *("/api/status/", "/api/v1/nope", "/openapi.json/", "/docs/nope", "/redoc"),
        *("/api", "/api/", "/api/v1", "/api/v1/"),
    ],
)
def test_an_unknown_path_is_404_and_never_a_redirect(market: Service, path: str) -> None:
    answer = market.ask(path)

    is_root = path.strip("/") in {"api", "api/v1"}
    hint = "; /openapi.json lists every endpoint" if is_root else ""
    assert (answer.status, answer.json()) == (404, {"error": f"not found{hint}"})
    assert answer.headers["content-type"] == "application/json"
    assert "location" not in answer.headers
    if path.startswith("/api"):
        assert market.ask(path, accept=BROWSER) == answer


@pytest.mark.contract("guides.500", "errors.500", "errors.body")
@pytest.mark.parametrize("path", ["/api/status", "/api/agent/guides"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_unexpected_failure_is_500_without_its_cause(
    service: Service, path: str, method: str
) -> None:
    breaks = False

    def clock() -> int:
        if breaks:
            raise RuntimeError("secret at /var/lib/barograph")
        return service.clock()

    _, routes, _ = create_app(service.settings, service.database, service.history, clock=clock)
    breaks = True

    answer = ask(routes, path, method)

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


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
@pytest.mark.parametrize(
    "path",
    [
        *("/api/agents%2Fmaterial-change", "/api%2fagents/material-change"),
        *("/api/agents%5Cmaterial-change", "/api/x402%2Ffeed", "/api%2Fagent"),
        *("/api%2Fagent/market-state", "/api/agent/market%2F", "/api%2Fv1/signals"),
        *("/api%2Fv1/keys", "/api%2Fmcp", "/api/history%2fcheckpoint"),
        *("/keys%2F" + "a" * 43, "/static%2Fsite.css"),
    ],
)
def test_an_encoded_slash_is_404_everywhere(market: Service, path: str, method: str) -> None:
    answer = market.ask(path, method)

    assert answer.status == 404
    assert answer.body == (b"" if method == "HEAD" else b'{"error":"not found"}')
    assert "ratelimit" not in answer.headers


def test_an_encoded_slash_is_refused_in_the_form_of_its_path(market: Service) -> None:
    badge, page = market.ask("/badge%2Fregime.svg"), market.ask("/guides%2Fx", accept=BROWSER)

    assert (badge.status, page.status) == (404, 404)
    assert b"badge not found" in badge.body
    assert b"There is no page at this address." in page.body
    assert market.ask("/api/%61gent/market-state").status == 200  # other letters stay as they were


MOST_BYTES = "x=" + "y" * 8_190
MOST_PARAMETERS = "&&".join(["x=1"] * 32)


@pytest.mark.parametrize("query", [MOST_BYTES, MOST_PARAMETERS])
def test_a_long_query_is_414_in_the_form_of_its_path(market: Service, query: str) -> None:
    words = b"the query may have at most 8,192 bytes and 32 parameters"
    for path in ("/api/agent/briefs", "/api/v1/signals", "/api/mcp", "/openapi.json", "/nope"):
        refused = market.ask(f"{path}?{query}&z")
        assert (refused.status, refused.body) == (414, b'{"error":"%b"}' % words)
        assert "ratelimit" not in refused.headers
        assert market.ask(f"{path}?{query}&z", "HEAD").fields == refused.fields
        assert market.ask(f"{path}?{query}").status != 414
    svg, twin = (market.ask(f"/badge/record.{form}?{query}&z") for form in ("svg", "json"))
    page = market.ask(f"/markets?{query}&z", accept=BROWSER)
    assert (svg.status, twin.status, page.status) == (414, 414, 414)
    assert svg.headers["content-type"] == "image/svg+xml; charset=utf-8"
    assert svg.headers["content-security-policy"].startswith("default-src 'none'; style-src 'unsaf")
    assert b"query too long" in svg.body
    assert b"barograph: error" in refused_badge("/badge/record.svg", 503).body
    assert twin.json()["isError"] is True
    assert b"This address is too long." in page.body


def test_queries_that_are_only_odd_are_answered_as_before(market: Service) -> None:
    assert market.ask("/api/agent/derivatives?symbol=" + "A" * 5_000).status == 400
    assert market.ask("/api/agent/briefs?limit=" + "9" * 8_000).status == 200
    # Without x402 the entitled path answers with that first, whatever the query.
    entitled = market.ask(f"/api/agents/material-change?{MOST_BYTES}&{MOST_PARAMETERS}")
    assert (entitled.status, entitled.json()["error"]) == (404, "not_found")


class CountedQuery(bytes):
    """A query that counts how often it is parsed."""

    parsed = 0

    def decode(self, *arguments: Any, **options: Any) -> str:
        self.parsed += 1
        return super().decode(*arguments, **options)


@pytest.mark.parametrize(
    "path",
    ["/badge/record.svg", "/api/agent/briefs", "/briefs", "/api/history/rates-desk", "/markets"],
)
def test_a_query_is_parsed_once(market: Service, path: str) -> None:
    query = CountedQuery(b"sinceDate=2025-01-31&style=flat&limit=3&after=1&page=1&q=b")

    async def put_in(scope: Scope, receive: Receive, send: Send) -> None:
        await market.app({**scope, "query_string": query}, receive, send)

    assert ask(put_in, path).status == 200
    assert query.parsed == 1


MAIL = {"smtp_url": "smtp://127.0.0.1:1", "mail_from": "keys@barograph.example"}
MCP = {**FIELDS, "path": "/api/mcp"}
FORM = {"path": "/keys", "accept": BROWSER, "content_type": "application/x-www-form-urlencoded"}
KEYS = {"path": "/api/v1/keys", "content_type": "application/json"}


def post(service: Service, path: str, **options: Any) -> Answer:
    fields = {name: options.pop(name) for name in list(options) if name not in {"body", "stalls"}}
    named = [(name.replace("_", "-"), value) for name, value in fields.items()]
    return ask(service.app, path, "POST", named, **options)


@pytest.mark.parametrize("target", [MCP, FORM, KEYS], ids=["mcp", "form", "keys"])
def test_a_body_that_stalls_is_408(tmp_path: Path, target: dict[str, str]) -> None:
    with fresh_service(tmp_path, timeouts=Timeouts(body=0.02), **MAIL) as service:
        answer = post(service, **target, body=b"{", stalls=True)

    assert answer.status == 408
    assert answer.headers["cache-control"] == "no-store"
    assert ("access-control-allow-origin" in answer.headers) is (target is not FORM)
    told = b"did not arrive in time"
    assert told in answer.body
    assert (b"<html" in answer.body) is (target is FORM)


@pytest.mark.parametrize("target", [MCP, FORM, KEYS], ids=["mcp", "form", "keys"])
def test_a_body_over_16_kib_is_413_also_when_it_is_only_announced(
    tmp_path: Path, target: dict[str, str]
) -> None:
    with fresh_service(tmp_path, **MAIL) as service:
        sent = post(service, **target, body=b" " * 16_385)
        announced = post(service, **target, content_length="16385", stalls=True)

    assert (sent.status, announced.status) == (413, 413)
    if target is not FORM:
        assert announced.json() == {"error": "the body may have at most 16,384 bytes"}


def test_a_request_that_needs_no_body_waits_for_none(market: Service) -> None:
    for path in ("/api/agent/market-state", "/markets", "/api/agent/derivatives?symbol=eth"):
        assert ask(market.app, path, body=b"x", stalls=True).status == 200
    refused = post(market, "/api/agents/material-change", content_length="99999", stalls=True)
    assert (refused.status, refused.json()["error"]) == (405, "method_not_allowed")
