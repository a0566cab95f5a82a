"""The developer page says what the code does."""

import re
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import pytest
from markupsafe import Markup

from barograph.errors import PrivateError
from barograph.limits.rate_limits import ANONYMOUS, PERSONAL
from barograph.markets.regime import next_regime
from barograph.site.developers import problems, reference
from barograph.site.developers.interface import groups, marked, pretty
from barograph.site.developers.reference import RELEASES
from barograph.site.templating import price_usd

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def test_the_allowances_of_the_contract_are_in_the_table_with_examples_of_a_refusal() -> None:
    rows = {requests: limit for requests, limit, _ in reference.limits()}
    assert rows["/api/v1/signals without a key"] == "120 per hour"
    assert rows["/api/v1/signals with a personal key"] == "1,000 per hour"
    assert rows["MCP tool calls"] == "300 per minute"
    assert rows["E-mails with a key link"] == "3 per day"
    assert (ANONYMOUS.requests, PERSONAL.requests) == (120, 1_000)

    examples = {name: example for name, example, _ in reference.fields()}
    assert examples["RateLimit-Policy"] == '"anon";q=120;w=3600'
    assert examples["RateLimit"] == '"anon";r=0;t=120'
    assert (examples["Retry-After"], examples["X-RateLimit-Remaining"]) == ("120", "0")


def test_each_band_holds_the_rates_that_the_regime_calls_so() -> None:
    shown = reference.bands()

    assert list(shown) == [
        *("short-crowded", "short-leaning", "neutral", "long-leaning", "long-crowded", "unknown")
    ]
    for label, text in shown.items():
        edges = [float(found) for found in re.findall(r"[+-][\d.]+", text)]
        if edges:
            middle = sum(edges) / len(edges)
            assert next_regime(None, middle, 0, 0).label == label


def test_every_error_says_whether_to_try_again() -> None:
    retries = {row.status: row.retry.split()[0].rstrip(",:") for row in problems.ERRORS}

    assert retries == {
        **dict.fromkeys((400, 401, 403, 404, 405, 410, 413, 414, 415), "no"),
        **dict.fromkeys((408, 429, 500, 502, 503), "yes"),
    }


def all_codes(base: type[PrivateError]) -> set[tuple[int, str]]:
    """What every error below a class is on the wire."""
    found: set[tuple[int, str]] = set()
    for each in base.__subclasses__():
        found |= all_codes(each)
        if each.__module__.startswith("barograph.") and "code" in vars(each):
            found.add((each.status, each.code))
    return found


def test_the_table_of_codes_has_each_that_the_service_can_raise() -> None:
    import_module("barograph.web.app")  # loads every part that raises one
    rows = [(row.status, row.error) for row in problems.CODED_ERRORS]
    codes = {(status, code) for status, code in all_codes(PrivateError) if status != 402}

    assert len(set(rows)) == len(rows)
    assert {row for row in rows if row[0] != 402} == codes | {(405, "method_not_allowed")}
    for row in problems.CODED_ERRORS:
        may_retry = row.status in {429, 503}
        assert row.retry.split()[0].rstrip(",:") == ("yes" if may_retry else "no")


@pytest.mark.contract("versioning.deprecation")
def test_the_releases_are_those_of_the_changelog() -> None:
    sections = re.findall(
        r"^## \[(.+?)\](?: - (\S+))?$(.*?)(?=^## |\Z)",
        CHANGELOG.read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    with_changes = [(version, date) for version, date, text in sections if text.strip()]

    assert sections[0][0] == "Unreleased"
    assert [(each.version, each.date) for each in RELEASES] == with_changes
    assert all(each.changes for each in RELEASES)


@pytest.mark.parametrize(
    ("price", "shown"),
    [
        *((0, "0 USD"), (29, "29 USD"), (44.5, "44.50 USD"), (1200, "1,200 USD")),
        *((Decimal("29.50"), "29.50 USD"), (Decimal("100.00"), "100 USD")),
        *((Decimal("0.0050"), "0.005 USD"), (Decimal("1E+3"), "1,000 USD")),
        (Decimal("0.0000001"), "0.0000001 USD"),
    ],
)
def test_a_price_is_shown_with_every_digit_it_has(price: float | Decimal, shown: str) -> None:
    assert price_usd(price) == shown


def test_texts_of_the_description_keep_their_code_and_a_long_answer_is_cut() -> None:
    assert marked("a `<b>` & `c`") == Markup("a <code>&lt;b&gt;</code> &amp; <code>c</code>")
    assert marked("`x` first") == Markup("<code>x</code> first")
    assert pretty(b'{"a":[]}') == '{\n  "a": []\n}'
    lines = pretty(b"[%s]" % b",".join([b"0"] * 500)).splitlines()
    assert (len(lines), lines[-1]) == (61, "…")


def parameter(name: str, place: str = "query", **schema: object) -> dict[str, object]:
    required = {"required": True} if place == "path" else {}
    return {"name": name, "in": place, "description": "Which.", "schema": schema, **required}


OPERATION = {
    "tags": ["one"],
    "operationId": "getA",
    "summary": "A",
    "description": "About A.",
    "security": [{"token": []}, {"proof": []}],
    "parameters": [
        {"$ref": "#/components/parameters/If-None-Match"},
        parameter("kind", "path", type="string", enum=["x", "y"]),
        parameter("size", type="integer", minimum=0, maximum=9, default=0) | {"example": 0},
        parameter("name", type="string", minLength=1, pattern="^a+$"),
    ],
    "responses": {"405": {"description": "No."}, "200": {"description": "Yes."}},
}
DESCRIBED = {
    "tags": [{"name": "one", "description": "The `first`."}],
    "components": {
        "schemas": {},
        "securitySchemes": {
            "token": {"type": "http", "scheme": "bearer"},
            "proof": {"type": "apiKey", "in": "header", "name": "PAYMENT-SIGNATURE"},
        },
    },
    "paths": {"/a/{kind}": {"get": OPERATION}},
}


def test_an_operation_is_shown_with_all_that_is_described() -> None:
    (group,) = groups(DESCRIBED)
    (endpoint,) = group.endpoints
    kind, size, name = endpoint.parameters

    assert group.text == Markup("The <code>first</code>.")
    assert (kind.kind, kind.is_required, kind.default) == ("string, one of x, y", True, None)
    assert (size.limits, size.default, size.is_required) == ("0 to 9", "0", False)
    assert name.limits == "at least 1 characters, matching ^a+$"
    assert endpoint.target == "/a/x?size=0"
    assert not endpoint.opens
    assert list(endpoint.responses) == ["200", "405"]
    assert endpoint.command("https://b") == (
        "curl -H 'Authorization: Bearer <ACCESS_TOKEN>' 'https://b/a/x?size=0'"
    )
