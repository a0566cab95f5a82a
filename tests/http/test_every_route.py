"""What holds for every route of the application, in the form that its class of routes has.

The routes are those of the application itself. A new one counts as a free read until it is listed
as something else here, and a new placeholder needs an example.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette

from support.clock import START
from support.markets import reading, shares
from support.pages import FOUND
from support.service import AGENT_PATHS, MARKET_PATHS, Answer, Service, ask, fresh_service

DAY_MS = 86_400_000
ELSEWHERE = {"origin": "https://elsewhere.example"}
READS = "GET, HEAD, OPTIONS"
EXPOSED = {"etag", "last-modified", "ratelimit", "ratelimit-policy", "retry-after"}
NAMES = {
    "symbol": "BTC",
    "coin": "BTC",
    "key": "funding-breadth",
    "kind": "rates-desk",
    "measure": "funding",
    "venue": "bybit",
    "day": "2026-11-05",
    "slug": FOUND.slug,
    "category": "funding",
    "version": "1",
    "digest": "0" * 64,
    "tile": "0/000",
    "token": "a" * 43,
    "id": "wh_1",
    "path": "nope.svg",
    "name": "before",
}
OWN_NAMES = {
    "/static/{name}": "/static/site.css",
    "/docs/{name}": "/docs/swagger-ui.css",
    "/guides/{slug}": "/guides/record-keeping",
}
POSTS = {"/api/v1/keys", "/api/mcp", "/api/mcp/"}
"""Any origin may post there, and nothing else."""
PRIVATE = {
    *("/api/agents/material-change", "/api/feed/now", "/api/x402/feed"),
    *("/api/x402/btc-etf-stance", "/api/x402/rates-desk", "/api/x402/funding-regime"),
}
"""Only the caller may see an answer, and only GET is known."""
KEYS = {
    **dict.fromkeys(
        ("/keys", "/keys/{token}", "/alerts", "/alerts/stop/{token}"), "GET, HEAD, POST"
    ),
    **dict.fromkeys(("/alerts/messages.json", "/alerts/picture/{token}.png"), "GET, HEAD"),
}
WEBHOOKS = {
    "/api/v1/webhooks": "GET, POST",
    "/api/v1/webhooks/{id}/deliveries": "GET",
    "/api/v1/webhooks/{id}/secret": "POST",
    "/api/v1/webhooks/{id}": "DELETE",
    "/api/v1/alerts": "GET, POST",
    "/api/v1/alerts/preview": "POST",
    "/api/v1/alerts/messages": "GET",
    "/api/v1/alerts/{id}": "DELETE, PATCH",
}
MOVED = {
    *("/markets.csv", "/data/liquidations.json", "/data/liquidations.csv"),
    *("/data/{symbol}/{measure}.json", "/data/{symbol}/{measure}.csv"),
    *("/cross", "/cross/{coin}", "/carry"),
}
"""Former addresses, which redirect to the API or to a page."""
HEALTH = ("/healthz", "/readyz")
"""Read by load balancers, never by pages or caches."""
STREAM = "/api/v1/events/stream"
"""Without an end."""
SIGNALS = "/api/v1/signals"
"""Counts each caller, and reads a key."""


class Routes:
    """The application over a fresh market, and the path templates of its routes."""

    def __init__(self, service: Service, templates: set[str]) -> None:
        self.service = service
        self.templates = templates
        self.redirects = {each for each in templates if each.endswith("/") and each != "/"} - POSTS
        other = {*POSTS, *PRIVATE, *KEYS, *WEBHOOKS, *MOVED, *self.redirects}
        self.reads = {each: example(each) for each in sorted(templates - other)}
        self.documents = {
            each: target for each, target in self.reads.items() if each not in {STREAM, *HEALTH}
        }

    def ask(self, target: str, method: str = "GET", app: Any = None, **headers: str) -> Answer:
        """Ask without the allowance that a route uses up, which differs with every request."""
        fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
        answer = ask(app or self.service.app, target, method, fields, peer=peer_of(target))
        kept = [each for each in answer.fields if b"ratelimit" not in each[0]]
        return answer._replace(fields=kept)


def example(template: str) -> str:
    """An address that a route answers."""
    plain = re.sub(r":\w+}", "}", template)
    return OWN_NAMES.get(template) or plain.format(**NAMES)


def peer_of(target: str) -> str:
    """A caller of its own for each address, so that no allowance is used up."""
    number = sum(target.encode())
    return f"198.51.{number // 250 % 250}.{number % 250}"


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Routes]:
    made: list[Starlette] = []

    class Watched(Starlette):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)

    settings = {"security_contact": "mailto:security@example.com"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("barograph.web.app.Starlette", Watched)
        with fresh_service(tmp_path_factory.mktemp("routes"), **settings) as service:
            service.keep_briefs(FOUND)
            yield Routes(service, {str(getattr(each, "path", "")) for each in made[0].routes})


@pytest.fixture
def aging(routes: Routes) -> Iterator[Routes]:
    """The same, with a clock that may be moved."""
    yield routes
    routes.service.clock.now = START
    routes.service.publish(reading(), shares())


def names(field: str) -> set[str]:
    return {name.strip().lower() for name in field.split(",")}


def cross_origin(answer: Answer) -> dict[str, str]:
    return {
        name: value for name, value in answer.headers.items() if name.startswith("access-control")
    }


def require_readable_anywhere(answer: Answer) -> None:
    assert answer.headers["access-control-allow-origin"] == "*"
    assert names(answer.headers["access-control-expose-headers"]) == EXPOSED
    assert "access-control-allow-credentials" not in answer.headers
    assert answer.headers["x-content-type-options"] == "nosniff"


def require_error(answer: Answer) -> None:
    assert answer.headers["cache-control"] == "no-store"
    assert not answer.headers.keys() & {"etag", "last-modified"}


def test_each_class_has_the_routes_that_it_names(routes: Routes) -> None:
    assert POSTS | PRIVATE | MOVED | {*KEYS, *WEBHOOKS} <= routes.templates
    assert len(routes.reads) > 80


@pytest.mark.contract("endpoints.get")
def test_every_free_read_accepts_get(routes: Routes) -> None:
    refused = {
        template
        for template, target in routes.documents.items()
        if routes.ask(target).status != 200
    }

    assert {each for each in refused if not each.startswith(("/history", "/api/history/"))} == {
        *("/badge/{path:path}", "/chart/{path:path}"),  # what is not found below these
        "/api/v1/events/{digest:sha256}",
        "/data/liquidations/{venue}/{day}.csv.gz",
    }


def test_every_answer_may_be_read_from_any_origin_and_is_never_sniffed(routes: Routes) -> None:
    require_readable_anywhere(routes.ask(STREAM, "HEAD"))
    for target in routes.documents.values():
        for method in ("GET", "HEAD", "POST"):
            require_readable_anywhere(routes.ask(target, method))
            require_readable_anywhere(routes.ask(target, method, **ELSEWHERE))


def test_head_is_get_without_the_body(routes: Routes) -> None:
    for target in (*routes.documents.values(), *HEALTH):
        routes.ask(target)  # the first one renders, the others are what caches may keep
        get, head = routes.ask(target), routes.ask(target, "HEAD")
        assert (head.status, head.body) == (get.status, b""), target
        assert head.headers.items() >= get.headers.items(), target
        if "content-length" in get.headers:
            assert int(head.headers["content-length"]) == len(get.body), target


@pytest.mark.contract("free.read-only", "errors.body")
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE", "PURGE"])
def test_any_other_method_is_405_and_says_which_are_allowed(routes: Routes, method: str) -> None:
    for target in routes.reads.values():
        answer = routes.ask(target, method, if_none_match="*")
        assert (answer.status, answer.headers["allow"]) == (405, READS), target
        assert answer.body == b'{"error":"method not allowed"}', target
        assert answer.headers["content-type"] == "application/json"
        require_error(answer)


def test_a_preflight_allows_reading_from_any_origin(routes: Routes) -> None:
    asked = "X-API-Key, if-none-match"
    for target in routes.reads.values():
        answer = routes.ask(
            target,
            "OPTIONS",
            access_control_request_method="GET",
            access_control_request_headers=asked,
            **ELSEWHERE,
        )
        assert (answer.status, answer.body) == (204, b""), target
        assert answer.headers["allow"] == READS
        assert answer.headers["access-control-allow-origin"] == "*"
        assert names(answer.headers["access-control-allow-methods"]) == names(READS)
        assert names(asked) <= names(answer.headers["access-control-allow-headers"])
        assert not answer.headers.keys() & {"access-control-allow-credentials", "content-length"}


def test_who_has_the_bytes_already_gets_304_and_who_has_others_gets_all(routes: Routes) -> None:
    tagged = 0
    for target in routes.documents.values():
        routes.ask(target)
        whole = routes.ask(target)
        if whole.status != 200:
            assert routes.ask(target, if_none_match="*").status == whole.status, target
            continue
        tagged += 1
        assert re.fullmatch(r'"[\x21\x23-\x7e]+"', whole.headers["etag"]), target
        assert routes.ask(target, if_none_match='"x"') == whole, target
        for method, tag in (("GET", whole.headers["etag"]), ("HEAD", "*")):
            known = routes.ask(target, method, if_none_match=tag)
            described = {"content-type", "content-length", "content-disposition", "accept-ranges"}
            assert (known.status, known.body) == (304, b""), target
            assert known.headers.keys() >= whole.headers.keys() - described, target
            assert known.headers.items() <= whole.headers.items(), target
    assert tagged > 75


@pytest.mark.contract(
    "free.keyless",
    "endpoints.free-need-no-credentials",
    "auth.agent-none",
    "auth.status-none",
    "auth.badges-none",
    "auth.free-api-needs-no-feed",
    "badges.live-keyless-cached",
)
@pytest.mark.parametrize(
    "given",
    [
        {"authorization": "Bearer forged"},
        {"authorization": "Basic bm9ib2R5Og=="},
        {"x_api_key": "unknown"},
        {"cookie": "session=1"},
        {"payment_signature": "forged", "x_payment": "forged"},
    ],
    ids=["bearer", "basic", "api-key", "cookie", "proof"],
)
def test_no_credential_is_needed_and_none_changes_the_answer(
    routes: Routes, given: dict[str, str]
) -> None:
    for target in routes.documents.values():
        if target != SIGNALS:
            routes.ask(target)
            bare = routes.ask(target)
            assert routes.ask(target, **given) == bare, target
            assert "set-cookie" not in bare.headers


@pytest.mark.parametrize("age_ms", [-DAY_MS, 0, 29_999, 30_000, 60_000, DAY_MS])
def test_the_routes_alone_answer_as_the_whole_application_at_any_time(
    aging: Routes, age_ms: int
) -> None:
    aging.service.clock.now = START + age_ms
    for target in aging.documents.values():
        aging.ask(target)
        answer = aging.ask(target)
        assert answer == aging.ask(target, app=aging.service.routes), target
        assert answer.status in {200, 400, 404, 500, 502, 503}, target
        assert (answer.status == 500) <= (target == "/api/agent/briefs"), target
        if answer.status != 200 and not target.startswith("/badge/"):
            require_error(answer)


def test_no_cache_keeps_what_the_service_does_not_show_any_more(aging: Routes) -> None:
    clock, changed = aging.service.clock, set()
    for template, target in aging.documents.items():
        if target.startswith("/badge/"):  # these may be kept for ten minutes
            continue
        clock.now = START + 28_000
        kept = aging.ask(target).headers["cache-control"]
        seconds = sum(map(int, re.findall(r"(?:max-age|revalidate)=(\d+)", kept)))
        clock.now = START + 29_999
        before = aging.ask(target)
        clock.now = START + 30_000
        after = aging.ask(target)
        if (before.status, before.body) != (after.status, after.body):
            changed.add(template)
            assert seconds <= 2, target
    assert {*MARKET_PATHS, "/", "/markets", "/markets/{coin}", "/signals"} <= changed


@pytest.mark.parametrize("path", sorted(POSTS))
def test_who_may_only_post_is_told_so_from_any_origin(routes: Routes, path: str) -> None:
    host = {"host": "barograph.example"}
    for method in ("GET", "HEAD", "PUT", "PATCH", "DELETE"):
        answer = routes.ask(path, method, **host)
        assert (answer.status, answer.headers["allow"]) == (405, "POST, OPTIONS")
        assert method == "HEAD" or answer.body == b'{"error":"method not allowed"}'
        require_error(answer)
        require_readable_anywhere(answer)
    preflight = routes.ask(
        path,
        "OPTIONS",
        access_control_request_method="POST",
        access_control_request_headers="content-type",
        **host,
        **ELSEWHERE,
    )
    assert (preflight.status, preflight.body) == (204, b"")
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert preflight.headers["access-control-allow-methods"] == "POST, OPTIONS"
    assert "content-type" in names(preflight.headers["access-control-allow-headers"])


@pytest.mark.parametrize("path", sorted(PRIVATE))
@pytest.mark.parametrize(
    "method", ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW"]
)
def test_private_answers_are_for_no_cache_and_no_other_origin(
    routes: Routes, path: str, method: str
) -> None:
    answer = routes.ask(
        path,
        method,
        access_control_request_method="GET",
        access_control_request_headers="Authorization",
        **ELSEWHERE,
    )

    assert answer.headers["cache-control"] == "private, no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert cross_origin(answer) == {}
    if method == "GET":
        assert (answer.status, answer.json()["error"]) == (404, "not_found")
    else:
        assert (answer.status, answer.json()["error"]) == (405, "method_not_allowed")
        assert answer.headers["allow"] == "GET"


@pytest.mark.parametrize("template", sorted(KEYS | WEBHOOKS))
def test_pages_about_keys_and_webhooks_are_for_no_other_origin(
    routes: Routes, template: str
) -> None:
    target = example(template)
    allowed = WEBHOOKS.get(template) or KEYS[template]
    for method in {"PUT", "OPTIONS", "PATCH"} - {*allowed.split(", ")}:
        answer = routes.ask(target, method, **ELSEWHERE)
        assert answer.headers["allow"] == allowed
        assert (answer.status, cross_origin(answer)) == (405, {})
        assert answer.headers["cache-control"] == "no-store"
    for method in ("GET", "POST", "DELETE"):
        answer = routes.ask(target, method, **ELSEWHERE)
        assert cross_origin(answer) == {}
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_slash_too_many_leads_to_the_page(routes: Routes) -> None:
    for template in sorted(routes.redirects):
        target = example(template)
        for method in ("GET", "HEAD"):
            answer = routes.ask(f"{target}?days=7&x=%C3%A4", method)
            there = f"{target.removesuffix('/')}?days=7&x=%C3%A4"
            assert (answer.status, answer.headers["location"]) == (308, there)
        assert routes.ask(target, "POST").status == 405


@pytest.mark.parametrize(
    "form", ["{0}", "W/{0}", '"x", {0}', '{0} , "x"', '"x,y",W/{0},"y"', "*", " {0} ", " * "]
)
@pytest.mark.parametrize("path", ["/api/agent/market", "/openapi.json", "/"])
def test_a_list_of_tags_that_has_the_current_one_gets_304(
    routes: Routes, path: str, form: str
) -> None:
    etag = routes.ask(path).headers["etag"]

    assert routes.ask(path, if_none_match=form.format(etag)).status == 304


@pytest.mark.parametrize(
    "form",
    [*('W/"x"', '"x", "y"', "{1}", '"{0}"', "", '""', "w/{0}"), '"x*"', "{2}", "{3}"],
)
@pytest.mark.parametrize("path", ["/api/agent/market", "/openapi.json", "/"])
def test_a_list_of_tags_without_the_current_one_gets_all_bytes(
    routes: Routes, path: str, form: str
) -> None:
    whole = routes.ask(path)
    etag = whole.headers["etag"]
    named = form.format(etag, etag.strip('"'), etag.swapcase(), etag[:-2] + '"')

    assert routes.ask(path, if_none_match=named) == whole


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/api/agent/derivatives?symbol=", 400),
        *((path, 404) for path in ("/api/agent/", "/api/agent/nope", "/api/agents", "/nope")),
        *((path, 404) for path in ("/api/agents/", "/api/agents/nope", "/api%2Fagent")),
        ("/api/agent/briefs?" + "x=1&" * 33, 414),
    ],
)
def test_errors_are_never_kept(routes: Routes, target: str, status: int) -> None:
    for accept in ("*/*", "text/html"):
        answer = routes.ask(target, if_none_match="*", accept=accept)
        head = routes.ask(target, "HEAD", if_none_match="*", accept=accept)
        assert (answer.status, answer.headers["x-content-type-options"]) == (status, "nosniff")
        assert (head.status, head.fields) == (status, answer.fields)
        require_error(answer)
    assert routes.ask(target, "DELETE").status == (405 if status == 400 else status)
    is_free = re.match(r"/api(/|%2F)agent(?!s)", target) is not None
    assert (head.body == b"") == is_free == bool(cross_origin(routes.ask(target)))


@pytest.mark.parametrize("path", [*MARKET_PATHS, "/api/agent/briefs"])
def test_without_data_an_error_is_one_sentence_for_every_origin(
    empty_service: Service, path: str
) -> None:
    answer = empty_service.ask(path)

    assert path in AGENT_PATHS
    assert answer.status == (500 if path.endswith("briefs") else 502)
    assert list(answer.json()) == ["error"]
    assert answer.headers["content-type"] == "application/json"
    require_error(answer)
    require_readable_anywhere(answer)
    assert empty_service.ask(path, "POST").status == 405
    assert empty_service.ask(path, "OPTIONS").status == 204
