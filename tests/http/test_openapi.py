"""`/openapi.json`: the description is valid, and the service does what it says."""

from pathlib import Path
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

from barograph.stances.documents import STANCE_PATHS
from support.descriptions import closed, operations, parts, validator
from support.events import STREAM
from support.markets import BTC, PEPE, reading
from support.pages import MAIL
from support.service import BASE_URL, Answer, Service, fresh_service

Document = dict[str, Any]

ERRORS = {
    "/api/agent": set(),
    "/api/agent/briefs": {"500"},
    "/api/agent/derivatives": {"400", "502"},
    "/api/agent/market": {"502"},
    "/api/agent/market-state": {"502"},
    "/api/agent/guides": {"500"},
    "/api/v1/signals": {"401", "429", "503"},
    "/api/status": set(),
    "/api/v1/incidents": {"400", "404", "429", "503"},
}
KEYS_PATH = "/api/v1/keys"
BADGES = {
    "/badge/record": set(),
    "/badge/regime": set(),
    "/badge/status": set(),
    "/badge/funding/{symbol}": {"404"},
    "/badge/signal/{key}": {"404"},
    "/badge/accuracy/{kind}": {"404"},
}
HISTORY = {
    "/api/history/checkpoint": {"429", "503"},
    "/api/history/{kind}": {"404", "429", "503"},
    "/api/history/{kind}/events": {"404", "429", "503"},
    "/api/v1/stances/{kind}": {"400", "404", "429", "503"},
}
DATA = {
    "/data/liquidations/{venue}/manifest.json": {"404", "503"},
    "/data/liquidations/{venue}/{day}.csv.gz": {"400", "404", "503"},
    "/api/v1/liquidations": {"400", "404", "503"},
    "/api/v1/liquidations.csv": {"400", "404", "503"},
    "/api/v1/series/{measure}": {"400", "404", "503"},
    "/api/v1/series/{measure}.csv": {"400", "404", "503"},
}
VERSION_1 = {
    "/api/v1/briefs/{slug}": {"400", "404", "429", "503"},
    "/api/v1/events": {"400", "404", "429", "503"},
    "/api/v1/events/{digest}": {"404", "410", "429", "503"},
    "/api/v1/perpetuals": {"400", "404", "502"},
    "/api/v1/perpetuals.csv": {"400", "404", "502"},
    "/api/v1/perpetuals/{symbol}": {"400", "404", "502"},
    "/api/v1/venues": {"400"},
    "/api/v1/accuracy": {"400"},
    "/api/v1/cross": {"400", "502"},
    "/api/v1/cross.csv": {"400", "502"},
    "/api/v1/cross/{coin}": {"400", "404", "502"},
    "/api/v1/carry": {"400", "404", "502"},
    "/api/v1/carry.csv": {"400", "404", "502"},
    "/api/v1/listings": {"400", "404", "429", "503"},
    "/api/v1/listings.csv": {"400", "404", "429", "503"},
    "/api/v1/webhook-key": set(),
}
ENTITLED = {
    "/api/agents/material-change": {"400", "401", "402", "404", "405", "503"},
    "/api/feed/now": {"401", "402", "404", "405", "503"},
    "/api/x402/btc-etf-stance": {"400", "401", "402", "404", "405", "409", "429", "503"},
    "/api/x402/funding-regime": {"400", "401", "402", "404", "405", "409", "429", "503"},
    "/api/x402/rates-desk": {"400", "401", "402", "404", "405", "409", "429", "503"},
}
BUYING = "/api/x402/feed"
FILES = {
    *("/openapi.json", "/openapi-gpt.json", "/llms.txt", "/llms-full.txt", "/SKILL.md"),
    "/robots.txt",
    *("/.well-known/security.txt", "/.well-known/ai-catalog.json"),
    *("/.well-known/api-catalog", "/.well-known/x402"),
    *("/briefs/feed.atom", "/briefs/feed.json"),
    *("/api/v1/events/feed.atom", "/api/v1/events/feed.json"),
    *("/.well-known/mcp/server-card.json", "/api/mcp/server-card", "/api/mcp/server.json"),
}
MCP = "/api/mcp"
KEYED = {
    "/api/v1/webhooks": ["get", "post"],
    "/api/v1/webhooks/{id}/deliveries": ["get"],
    "/api/v1/webhooks/{id}/secret": ["post"],
    "/api/v1/webhooks/{id}": ["delete"],
    "/api/v1/alerts": ["get", "post"],
    "/api/v1/alerts/preview": ["post"],
    "/api/v1/alerts/messages": ["get"],
    "/api/v1/alerts/{id}": ["patch", "delete"],
}
ANY_READ = {"200", "304", "405", "414"}
EVERY_PATH = pytest.mark.parametrize("path", ERRORS)


@pytest.fixture(scope="module")
def description(market: Service) -> Document:
    answer = market.ask("/openapi.json")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    return closed(answer.json())


@pytest.mark.contract("versioning.interface-description", "service.base-address")
def test_the_interface_description_is_valid_openapi_3_1_of_version_1_0_0(
    description: Document,
) -> None:
    assert description["info"]["version"] == "1.0.0"
    assert description["openapi"].startswith("3.1.")
    assert description["servers"] == [{"url": BASE_URL}]
    validate(description)


def test_generators_get_open_bodies_without_boolean_constants(market: Service) -> None:
    published = market.ask("/openapi.json").json()
    schemas = published["components"]["schemas"]
    members = [each for body in schemas.values() for each in body.get("properties", {}).values()]
    pictures = [
        response["content"]["image/svg+xml"]["schema"]
        for path, operation in operations(published)
        for response in operation["responses"].values()
        if path.endswith(".svg") and "image/svg+xml" in response.get("content", {})
    ]

    assert not [name for name, each in schemas.items() if each.get("additionalProperties") is False]
    assert not [each for each in members if isinstance(each.get("const"), bool)]
    assert "ServiceStatus" in schemas
    assert "Status" not in schemas  # a class of that name would hide HTTP's
    assert pictures == [{"type": "string", "format": "binary"}] * 17
    assert published["info"]["license"].keys() == {"name", "url"}


def test_generators_get_nothing_that_they_cannot_compile(market: Service) -> None:
    published = market.ask("/openapi.json").json()
    schemas = published["components"]["schemas"]
    every = list(parts(published))
    members = [each for part in every for each in part.get("properties", {}).values()]
    times = [each for each in members if "milliseconds" in str(each.get("description"))]

    assert [each["anyOf"][0] for each in times] == [{"type": "integer", "format": "int64"}] * 4
    assert {"type": "null"} not in [{"type": each.get("type")} for each in members]
    assert not [name for name in schemas if f"New{name}" in schemas]  # Go's constructor of it
    assert not [part for part in every if "oneOf" in part]
    maps = [part for part in every if isinstance(part.get("additionalProperties"), dict)]
    assert not [part for part in maps if "properties" in part]
    assert "webhooks" not in published  # a generator would make it calls to us
    callbacks = published["paths"]["/api/v1/webhooks"]["post"]["callbacks"]
    assert list(callbacks["event"]["{$request.body#/url}"]) == ["post"]
    for path, operation in operations(published):
        for response in operation["responses"].values():
            assert len(response.get("content", "1")) == 1, path  # one type per operation


@pytest.mark.contract("endpoints.get")
def test_every_endpoint_is_described_and_only_registrations_and_mcp_are_no_get(
    description: Document,
) -> None:
    badges = {f"{name}.{form}" for name in BADGES for form in ("svg", "json")}
    badges.add("/badge/gauge.svg")
    reads = {*ERRORS, STREAM, *badges, *HISTORY, *DATA, *VERSION_1, *ENTITLED, BUYING, *FILES}

    assert {path: list(item) for path, item in description["paths"].items()} == {
        **{path: ["get"] for path in reads},
        **{path: ["post"] for path in (KEYS_PATH, MCP)},
        **KEYED,
    }


def test_only_webhooks_entitled_and_paid_endpoints_ask_for_a_credential(
    description: Document,
) -> None:
    every = {path: operation["security"] for path, operation in operations(description)}
    guarded = {path: security for path, security in every.items() if security}
    schemes = description["components"]["securitySchemes"]

    by_proof: dict[str, list[str]] = {"paymentProof": []}
    key: dict[str, list[str]] = {"apiKey": []}
    by_token = {path: [{"bearer": []}, by_proof] for path in ENTITLED}
    assert guarded == by_token | {BUYING: [by_proof]} | {path: [key] for path in KEYED}
    assert schemes["bearer"]["scheme"] == "bearer"
    assert (schemes["paymentProof"]["in"], schemes["paymentProof"]["name"]) == (
        "header",
        "PAYMENT-SIGNATURE",
    )


def test_entitled_and_paid_endpoints_are_described_with_their_errors(description: Document) -> None:
    described = {
        path: set(item["get"]["responses"]) - {"200"}
        for path, item in description["paths"].items()
        if "get" in item and item["get"]["security"] and path not in KEYED
    }
    assert described == {**ENTITLED, BUYING: {"400", "402", "404", "405", "409", "429", "503"}}
    keyed = {
        path
        for path, item in description["paths"].items()
        for each in item.get("get", {}).get("parameters", ())
        if each.get("name") == "Idempotency-Key"
    }
    assert keyed == {BUYING, *STANCE_PATHS.values()}


def test_the_comparison_is_described_with_its_seven_required_parameters(
    description: Document,
) -> None:
    parameters = description["paths"]["/api/agents/material-change"]["get"]["parameters"]
    assert {each["name"]: each["required"] for each in parameters} == dict.fromkeys(
        [
            *("kind", "before_leg", "before_revision", "before_digest"),
            *("after_leg", "after_revision", "after_digest"),
        ],
        True,
    )


def test_the_described_errors_are_those_of_the_contract_and_never_422(
    description: Document,
) -> None:
    expected = {**ERRORS, **HISTORY, **VERSION_1}
    described = {
        path: set(description["paths"][path]["get"]["responses"]) - ANY_READ for path in expected
    }

    assert described == expected
    error = description["components"]["schemas"]["ErrorBody"]
    assert error["properties"]["error"]["type"] == "string"
    assert [*error["properties"]] == error["required"] == ["error"]
    assert not {name for name in description["components"]["schemas"] if "Validation" in name}


def test_a_registration_and_every_badge_are_described_with_their_errors(
    description: Document,
) -> None:
    registration = description["paths"][KEYS_PATH]["post"]["responses"]

    refused = {"400", "403", "405", "408", "413", "414", "415", "429", "503"}
    assert set(registration) == {"202", *refused}
    for name, errors in BADGES.items():
        for form, media in (("svg", "image/svg+xml"), ("json", "application/json")):
            responses = description["paths"][f"{name}.{form}"]["get"]["responses"]
            assert set(responses) == ANY_READ | errors
            bodies = [responses[status]["content"] for status in ("200", "414", *errors)]
            assert [list(each) for each in bodies] == [[media]] * len(bodies)


def test_every_operation_has_a_name_of_its_own(description: Document) -> None:
    operations = [each for item in description["paths"].values() for each in item.values()]
    names = [each["operationId"] for each in operations]

    assert len(set(names)) == len(names)
    assert all(each["summary"] for each in operations)


@pytest.mark.contract("limits.briefs", "briefs.limit.default", "briefs.limit.clamped")
@pytest.mark.contract("auth.signals-none", "derivatives.symbol.optional")
@pytest.mark.contract("derivatives.symbol.pattern", "derivatives.symbol.default")
@pytest.mark.parametrize(
    ("path", "named", "schema"),
    [
        (
            "/api/agent/briefs",
            ("limit", "query", False),
            {"type": "integer", "minimum": 1, "maximum": 50, "default": 15},
        ),
        (
            "/api/agent/derivatives",
            ("symbol", "query", False),
            {"type": "string", "pattern": "^[A-Za-z0-9]{1,15}$", "default": "BTC"},
        ),
        ("/api/v1/signals", ("X-API-Key", "header", False), {"type": "string"}),
    ],
)
def test_a_parameter_is_described_with_its_range_and_default(
    description: Document, path: str, named: tuple[str, str, bool], schema: dict[str, Any]
) -> None:
    parameter, _ = description["paths"][path]["get"]["parameters"]

    assert (parameter["name"], parameter["in"], parameter["required"]) == named
    assert parameter["schema"] == schema


def test_the_limit_of_signals_is_described_by_its_header_fields(description: Document) -> None:
    responses = description["paths"]["/api/v1/signals"]["get"]["responses"]

    for status in ("200", "401", "429"):
        assert {"RateLimit", "RateLimit-Policy"} <= responses[status]["headers"].keys()
    assert "Retry-After" in responses["429"]["headers"]


@EVERY_PATH
def test_the_schema_refuses_a_member_more_or_less_or_of_another_type(
    market: Service, description: Document, path: str
) -> None:
    body = market.ask(path).json()
    check = validator(description, path)

    assert not check.is_valid({**body, "surprise": 1})
    for member in body:
        rest = {name: value for name, value in body.items() if name != member}
        assert not check.is_valid({**body, member: {"other": "type"}})
        assert not check.is_valid(rest), f"{member} may be missing"


@pytest.mark.parametrize("name", [name for name, errors in BADGES.items() if errors])
def test_a_badge_that_is_not_there_is_the_described_404(
    market: Service, description: Document, name: str
) -> None:
    missing = market.ask(f"{name.format(symbol='no-such', key='no-such', kind='no-such')}.json")

    assert missing.status == 404
    validator(description, f"{name}.json", "404").validate(missing.json())


def test_a_registration_answers_as_described(tmp_path: Path, description: Document) -> None:
    body, json = '{"email":"name@example.com"}', {"content_type": "application/json"}
    with fresh_service(tmp_path, **MAIL) as service:

        def post(text: str = body, **fields: str) -> Answer:
            return service.ask(KEYS_PATH, "POST", body=text, **fields)

        answers = [post(**json) for _ in range(11)]
        answers += [post("{}", **json), post(), post(sec_fetch_site="cross-site", **json)]

    assert [answer.status for answer in answers] == [202] * 10 + [429, 400, 415, 403]
    for answer in answers:
        check = validator(description, KEYS_PATH, str(answer.status), "post")
        check.validate(answer.json())
    request = description["paths"][KEYS_PATH]["post"]["requestBody"]["content"]
    schema = OAS31Validator(request["application/json"]["schema"])
    assert schema.is_valid({"email": "name@example.com"})
    assert not schema.is_valid({})
    assert not schema.is_valid({"email": "name@example.com", "more": 1})


@pytest.mark.parametrize("name", ["Check", "KeyAnswer"])
def test_the_schema_promises_every_member_of_a_part(description: Document, name: str) -> None:
    schema = description["components"]["schemas"][name]

    assert set(schema["required"]) == set(schema["properties"])


def test_what_is_not_available_is_of_the_schema_too(
    empty_service: Service, description: Document
) -> None:
    empty_service.publish(reading(contracts=(BTC, PEPE)))

    symbols = [f"/api/agent/derivatives?symbol={each}" for each in ("1000PEPE", "NOSUCH")]
    for target in (*ERRORS, *symbols):
        answer = empty_service.ask(target)
        assert answer.status == 200
        validator(description, target.partition("?")[0]).validate(answer.json())


def test_the_description_is_the_same_with_and_without_data(
    market: Service, empty_service: Service
) -> None:
    assert empty_service.ask("/openapi.json") == market.ask("/openapi.json")
