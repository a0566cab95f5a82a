"""Deprecated paths say so in every response and in the OpenAPI document."""

from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from barograph.discovery.deprecation import MIN_NOTICE, Deprecation, announce_deprecations
from barograph.discovery.openapi import openapi_schema
from barograph.kit.http import ApiRouter, error_response
from barograph.kit.timestamps import DAY
from barograph.kit.wire import ErrorBody
from support.descriptions import operations
from support.service import BASE_URL, ask

SINCE = 1_767_225_600_000
LEAVING = Deprecation(SINCE, SINCE + MIN_NOTICE, f"{BASE_URL}/developers")
PAGE = Path(__file__).parents[2] / "docs" / "versioning.md"


def application() -> Starlette:
    router = ApiRouter(tags=["market"])

    @router.get("/old", operation_id="getMarket", response_model=ErrorBody)
    async def old(request: Request) -> Response:
        status = int(request.query_params.get("status", 200))
        return Response("{}", 200) if status == 200 else error_response(status, "no")

    @router.get("/of/{symbol}.svg", operation_id="getFundingBadgeSvg", response_model=ErrorBody)
    async def of(request: Request) -> Response:
        known = request.path_params["symbol"] == "BTC"
        return Response("{}", 200) if known else error_response(404, "no")

    @router.get("/of/{symbol}/more", operation_id="getFundingBadgeJson", response_model=ErrorBody)
    async def more(request: Request) -> Response:
        return Response(request.path_params["symbol"])

    @router.get("/new", operation_id="getMarketState", response_model=ErrorBody)
    async def new(_: Request) -> Response:
        return Response("{}", 200)

    return Starlette(routes=router.routes)


@pytest.mark.contract("versioning.deprecation")
@pytest.mark.parametrize(
    ("target", "method"), [("/old", "GET"), ("/old?status=502", "GET"), ("/old", "POST")]
)
def test_a_deprecated_route_sends_both_dates_and_a_link(target: str, method: str) -> None:
    app = announce_deprecations(application(), {"/old": LEAVING}, {})

    headers = ask(app, target, method).headers

    assert headers["deprecation"] == "@1767225600"
    assert headers["sunset"] == "Tue, 30 Jun 2026 00:00:00 GMT"
    assert headers["link"] == f'<{BASE_URL}/developers>; rel="deprecation"; type="text/html"'


TEMPLATE = "/of/{symbol}.svg"


@pytest.mark.parametrize(
    ("target", "method"),
    [
        ("/of/BTC.svg", "GET"),
        ("/of/BTC.svg?x=1", "GET"),
        ("/of/no.svg", "GET"),
        ("/of/A.svg", "PUT"),
    ],
)
def test_a_deprecated_template_applies_to_every_match(target: str, method: str) -> None:
    app = application()

    answer = ask(announce_deprecations(app, {TEMPLATE: LEAVING}), target, method)

    assert answer.headers["deprecation"] == "@1767225600"
    assert answer.headers["sunset"] == "Tue, 30 Jun 2026 00:00:00 GMT"
    assert answer.body == ask(app, target, method).body


@pytest.mark.parametrize(
    "path", ["/of/BTC/more", "/of/BTC.json", "/of/BTC_svg", "/of/A/B.svg", "/"]
)
def test_a_deprecated_template_applies_to_nothing_else(path: str) -> None:
    app = application()

    assert ask(announce_deprecations(app, {TEMPLATE: LEAVING}), path) == ask(app, path)


def test_a_path_with_its_own_route_is_deprecated_only_by_name() -> None:
    apart = frozenset({"/of/ALL.svg"})
    by_template = announce_deprecations(application(), {TEMPLATE: LEAVING}, apart)
    by_name = announce_deprecations(application(), {"/of/ALL.svg": LEAVING}, apart)

    assert "deprecation" not in ask(by_template, "/of/ALL.svg").headers
    assert "deprecation" in ask(by_template, "/of/BTC.svg").headers
    assert "deprecation" in ask(by_name, "/of/ALL.svg").headers


def test_a_deprecated_template_is_deprecated_in_openapi() -> None:
    schema: dict[str, Any] = openapi_schema(application(), BASE_URL, {TEMPLATE: LEAVING}, {})

    assert [path for path, each in operations(schema) if each.get("deprecated")] == [TEMPLATE]


def test_other_routes_send_no_deprecation() -> None:
    app = application()

    assert ask(announce_deprecations(app, {"/old": LEAVING}), "/new") == ask(app, "/new")


def test_without_a_deprecation_the_application_is_unchanged() -> None:
    app = application()

    assert announce_deprecations(app, {}) is app


def test_a_deprecated_route_is_deprecated_in_openapi() -> None:
    schema: dict[str, Any] = openapi_schema(application(), BASE_URL, {"/old": LEAVING}, {})

    assert [path for path, each in operations(schema) if each.get("deprecated")] == ["/old"]


def test_a_notice_shorter_than_180_days_is_rejected() -> None:
    with pytest.raises(ValueError, match="180 days"):
        announce_deprecations(
            application(), {"/old": LEAVING._replace(sunset=SINCE + MIN_NOTICE - 1)}
        )

    assert MIN_NOTICE == 180 * DAY
    assert "180 days" in PAGE.read_text("utf-8")
