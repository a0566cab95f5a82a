"""HEAD, OPTIONS and other methods, and who may read from which origin."""

from collections.abc import Iterator

import pytest

from support.service import (
    BADGE_PATHS,
    FREE_PATHS,
    MARKET_PATHS,
    Answer,
    Service,
    fresh_service,
)

READS = [
    *(*FREE_PATHS, *BADGE_PATHS),
    *("/guides/record-keeping", "/signals/funding-breadth", "/static/site.css"),
]
EVERY_FREE_PATH = pytest.mark.parametrize("path", READS)
EXPOSED = {"etag", "last-modified", "ratelimit", "ratelimit-policy", "retry-after"}
ENTITLED = {
    "/api/agents/material-change",
    "/api/feed/now",
    "/api/x402/feed",
    "/api/x402/rates-desk",
}
NOT_FREE = [
    "/api/agents",
    "/api/agents/",
    "/api/agents/material-change",
    "/api/agents/nope",
    "/api/feed/now",
    "/api/x402/feed",
    "/api/x402/rates-desk",
]


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A fresh market that the tests here only read."""
    with fresh_service(tmp_path_factory.mktemp("market")) as service:
        yield service


def names(field: str) -> set[str]:
    return {name.strip().lower() for name in field.split(",")}


def cors_fields(answer: Answer) -> dict[str, str]:
    return {
        name: value for name, value in answer.headers.items() if name.startswith("access-control")
    }


@pytest.mark.contract("endpoints.get")
@EVERY_FREE_PATH
def test_every_free_path_accepts_get(market: Service, path: str) -> None:
    assert market.ask(path).status == 200


@pytest.mark.parametrize(
    ("target", "status"),
    [
        *((path, 200) for path in READS),
        ("/api/agent/briefs?limit=50", 200),
        ("/badge/nope.svg", 404),
        ("/guides/nope", 404),
        ("/api/agent/derivatives?symbol=eth", 200),
        ("/api/agent/derivatives?symbol=NOSUCH", 200),
        ("/api/agent?x=1", 200),
        ("/api/agent/derivatives?symbol=", 400),
        ("/api/agent/", 404),
        ("/api/agent/nope", 404),
    ],
)
def test_head_is_get_without_the_body(market: Service, target: str, status: int) -> None:
    get, head = market.ask(target), market.ask(target, "HEAD")

    assert head.status == get.status == status
    assert head.fields == get.fields
    assert head.body == b""
    assert int(head.headers["content-length"]) == len(get.body)


@pytest.mark.parametrize("path", MARKET_PATHS)
def test_head_of_a_stale_feed_is_its_502_without_the_body(service: Service, path: str) -> None:
    service.clock.pass_seconds(30)

    get, head = service.ask(path), service.ask(path, "HEAD")

    assert head.status == get.status == 502
    assert head.fields == get.fields
    assert head.body == b""


@pytest.mark.contract("free.read-only", "errors.body")
@EVERY_FREE_PATH
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE", "PURGE"])
def test_any_other_method_is_405_and_says_which_are_allowed(
    market: Service, path: str, method: str
) -> None:
    before = market.ask(path)

    answer = market.ask(path, method)

    assert answer.status == 405
    assert answer.body == b'{"error":"method not allowed"}'
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"
    assert market.ask(path) == before


def test_another_method_is_405_also_where_get_would_be_400_or_502(empty_service: Service) -> None:
    assert empty_service.ask("/api/agent/derivatives?symbol=", "POST").status == 405
    assert empty_service.ask("/api/agent/market", "DELETE").status == 405


def test_another_method_on_an_unknown_path_is_404(market: Service) -> None:
    answer = market.ask("/api/agent/nope", "POST")

    assert (answer.status, answer.body) == (404, b'{"error":"not found"}')


@EVERY_FREE_PATH
@pytest.mark.parametrize("asked_for", ["X-API-Key", "If-None-Match", "x-api-key, if-none-match"])
def test_a_preflight_allows_reading_from_any_origin(
    market: Service, path: str, asked_for: str
) -> None:
    answer = market.ask(
        path,
        "OPTIONS",
        origin="https://elsewhere.example",
        access_control_request_method="GET",
        access_control_request_headers=asked_for,
    )

    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == "*"
    assert names(answer.headers["access-control-allow-methods"]) == {"get", "head", "options"}
    assert names(asked_for) <= names(answer.headers["access-control-allow-headers"])
    assert "access-control-allow-credentials" not in answer.headers
    assert "content-length" not in answer.headers


@EVERY_FREE_PATH
def test_options_says_which_methods_are_allowed_even_without_data(
    empty_service: Service, path: str
) -> None:
    answer = empty_service.ask(path, "OPTIONS")

    assert answer.status == 204
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize(
    ("target", "method", "status"),
    [
        *((path, "GET", 200) for path in READS),
        *((path, "HEAD", 200) for path in READS),
        *((path, "POST", 405) for path in READS),
        *((path, "GET", 404) for path in ("/badge/nope.svg", "/badge/nope.json", "/guides/nope")),
        ("/api/agent/derivatives?symbol=", "GET", 400),
        ("/api/agent/derivatives?symbol=", "HEAD", 400),
        ("/api/agent/", "GET", 404),
        ("/api/agent/nope", "GET", 404),
    ],
)
@pytest.mark.parametrize(
    "origin", [{}, {"origin": "https://elsewhere.example"}, {"origin": "null"}]
)
def test_any_origin_may_read_every_free_answer(
    market: Service, target: str, method: str, status: int, origin: dict[str, str]
) -> None:
    answer = market.ask(target, method, **origin)

    assert answer.status == status
    assert answer.headers["access-control-allow-origin"] == "*"
    assert names(answer.headers["access-control-expose-headers"]) == EXPOSED


@EVERY_FREE_PATH
def test_any_origin_may_read_a_304(market: Service, path: str) -> None:
    answer = market.ask(path, if_none_match="*")

    assert answer.status == 304
    assert answer.headers["access-control-allow-origin"] == "*"
    assert names(answer.headers["access-control-expose-headers"]) == EXPOSED


@pytest.mark.parametrize("path", MARKET_PATHS)
def test_any_origin_may_read_a_502(empty_service: Service, path: str) -> None:
    answer = empty_service.ask(path)

    assert answer.status == 502
    assert answer.headers["access-control-allow-origin"] == "*"


def test_any_origin_may_read_the_500_of_briefs(empty_service: Service) -> None:
    answer = empty_service.ask("/api/agent/briefs")

    assert answer.status == 500
    assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    ("target", "method"),
    [
        *((path, method) for path in READS for method in ("GET", "HEAD", "OPTIONS", "POST")),
        *((path, method) for path in NOT_FREE for method in ("GET", "POST")),
        *(("/api/v1/signals", "GET"), ("/api/v1/signals", "POST"), ("/api/v1/keys", "POST")),
        *(("/api/mcp", "GET"), ("/api/mcp", "POST"), ("/api/history/checkpoint", "GET")),
        *(("/keys", "GET"), ("/keys", "POST"), ("/keys/" + "a" * 43, "GET")),
        *(("/markets/btc", "GET"), ("/data/BTC/funding.csv", "GET")),
        *(("/nope", "GET"), ("/badge/nope.svg", "GET"), ("/api%2Fagent", "GET")),
        *(("/api/agent?" + "&" * 99, "GET"), ("/badge/record.svg?" + "&" * 99, "GET")),
    ],
)
@pytest.mark.parametrize("tag", ["", "*"])
def test_every_answer_says_nosniff(market: Service, target: str, method: str, tag: str) -> None:
    fields = {"if_none_match": tag} if tag else {}

    for accept in ("*/*", "text/html"):
        answer = market.ask(target, method, accept=accept, **fields)
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/keys", "/keys/" + "a" * 43])
@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH"])
def test_pages_about_keys_are_for_no_other_origin_and_name_their_methods(
    market: Service, path: str, method: str
) -> None:
    answer = market.ask(path, method, origin="https://elsewhere.example")

    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")
    assert cors_fields(answer) == {}
    assert cors_fields(market.ask(path)) == {}


@pytest.mark.parametrize("path", NOT_FREE)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
def test_entitled_and_paid_paths_send_no_cors_header(
    market: Service, path: str, method: str
) -> None:
    answer = market.ask(
        path,
        method,
        origin="https://elsewhere.example",
        access_control_request_method="GET",
        access_control_request_headers="Authorization",
    )

    assert answer.status == (405 if path in ENTITLED and method != "GET" else 404)
    assert cors_fields(answer) == {}
