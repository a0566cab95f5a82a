"""The files and links that a program finds at the base address."""

import gzip
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from barograph import NOTICE
from barograph.mcp.tools import TOOLS
from barograph.settings import USDC_DECIMALS
from support.clock import START
from support.descriptions import operations, shop
from support.markets import reading, shares
from support.service import BASE_URL, Answer, Service, fresh_service
from support.stances import proposal
from support.subscribers import SubscriberService

CONTACT = "mailto:security@example.com"
SECURITY = "/.well-known/security.txt"
LINK = re.compile(r'<([^>]+)>; rel="([^"]+)"; type="([^"]+)"')
SENT = {"host": BASE_URL.removeprefix("https://"), "content_type": "application/json"}
REGISTERED = {"service-desc", "service-doc", "service-meta", "status", "api-catalog"}
EXAMPLE = re.compile(r"^- Example: (GET|POST) (\S+)$", re.MULTILINE)
LINKS = (
    '<{0}/openapi.json>; rel="service-desc"; type="application/json", '
    '<{0}/openapi-gpt.json>; rel="service-desc"; type="application/json"; title="GPT actions", '
    '<{0}/developers>; rel="service-doc"; type="text/html", '
    '<{0}/llms.txt>; rel="service-doc"; type="text/plain", '
    '<{0}/api/mcp/server-card>; rel="service-meta"; type="application/mcp-server-card+json", '
    '<{0}/.well-known/api-catalog>; rel="api-catalog"; type="application/linkset+json"'
)


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A fresh market, and a record with two versions."""
    service = SubscriberService(tmp_path_factory.mktemp("files"), security_contact=CONTACT)
    service.watch_day()
    service.publish(reading(), shares())
    service.record(
        proposal(kind="rates-desk"), proposal(kind="rates-desk", label="cautious", by="operator")
    )
    yield service
    service.close()


@pytest.fixture(scope="module")
def description(market: Service) -> dict[str, Any]:
    body: dict[str, Any] = market.ask("/openapi.json").json()
    return body


def text(answer: Answer) -> str:
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    return answer.body.decode()


def is_free(operation: dict[str, Any]) -> bool:
    return not operation["security"]


@pytest.mark.parametrize(
    "path",
    [
        *("/openapi.json", "/openapi-gpt.json", "/llms.txt", "/llms-full.txt", "/robots.txt"),
        "/.well-known/security.txt",
    ],
)
def test_a_description_may_be_cached_for_five_minutes(market: Service, path: str) -> None:
    kept = market.ask(path).headers["cache-control"]

    assert kept == "public, max-age=300, stale-while-revalidate=60"


@pytest.mark.parametrize(
    "path",
    [
        *("/openapi.json", "/openapi-gpt.json", "/llms.txt", "/llms-full.txt", "/SKILL.md"),
        *("/api/agent/guides", "/guides", "/"),
    ],
)
def test_long_texts_are_compressed_if_the_client_accepts_gzip(market: Service, path: str) -> None:
    plain = market.ask(path)
    packed = market.ask(path, accept_encoding="br, gzip;q=0.5")
    etag = packed.headers["etag"]

    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < 0.6 * len(plain.body)
    assert etag != plain.headers["etag"]
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"
    for refused in ("gzip;q=0", "gzip; q=0.0", "br", "identity"):
        assert market.ask(path, accept_encoding=refused) == plain
    assert market.ask(path, accept_encoding="gzip") == packed
    known = market.ask(path, accept_encoding="gzip", if_none_match=etag)
    assert (known.status, known.body, known.headers["etag"]) == (304, b"", etag)
    assert known.headers["vary"] == "Accept-Encoding"
    assert "content-encoding" not in known.headers
    assert market.ask(path, if_none_match=etag).status == 200


def test_llms_txt_names_every_free_endpoint_and_nothing_that_is_paid_for(
    market: Service, description: dict[str, Any]
) -> None:
    found = text(market.ask("/llms.txt"))

    for path, operation in operations(description):
        is_twin = path.startswith("/badge/") and path.endswith(".json")
        link = rf"\n- \[([A-Z]+ )?{re.escape(path)}\]\({BASE_URL}"
        shown = re.search(link, found) is not None or f" Also `{path}`: " in found
        # Descriptions and the Model Context Protocol have parts of their own.
        is_apart = operation["tags"] in (["descriptions"], ["mcp"])
        is_for_all = is_free(operation) or operation["tags"] in (["webhooks"], ["alerts"])
        is_feed = operation["operationId"].endswith(("Atom", "Feed")) and is_apart
        assert shown == (is_feed or (is_for_all and not is_twin and not is_apart)), path


def test_every_address_in_llms_txt_works(market: Service) -> None:
    found = text(market.ask("/llms.txt"))
    addresses = re.findall(r"^- \[.+\]\((\S+)\): ", found, re.MULTILINE)

    assert len(addresses) >= 28
    for address in addresses:
        target, _, place = address.removeprefix(BASE_URL).partition("#")
        answer = market.ask(target)
        assert answer.status == 200, address
        assert f'id="{place}"' in answer.body.decode() or not place, address


def test_llms_txt_has_a_list_of_links_and_nothing_else_below_each_heading(market: Service) -> None:
    beginning, *sections = text(market.ask("/llms.txt")).split("\n## ")

    assert "\n#" not in beginning
    assert len(sections) > 10
    for section in sections:
        heading, blank, *lines = section.rstrip("\n").split("\n")
        assert (heading != "", blank) == (True, "")
        assert all(re.match(r"- \[[^\]]+\]\(https://\S+\): \S", line) for line in lines), lines


def test_llms_txt_has_address_parameters_limits_errors_and_notice(market: Service) -> None:
    found = text(market.ask("/llms.txt"))

    assert found.startswith("# Barograph\n\n> ")
    assert f"Base address: {BASE_URL}\n" in found
    assert NOTICE in found
    assert "Parameters: `limit` (1 to 50, default 15)." in found
    assert "120 requests per hour without a key, 1,000 with a personal key in `X-API-Key`" in found
    assert '`{"error": "<one sentence>"}`' in found
    assert "Errors: 400, 404. Also `/api/v1/series/{measure}.csv`" in found
    assert "Non-commercial use of the data is free" in found
    assert found.count("style") == 1
    assert len(found) <= 12_700


def test_llms_txt_names_every_tool_and_its_example_call_works(market: Service) -> None:
    found = text(market.ask("/llms.txt"))
    told, body = re.findall(r"header fields (.+); body `(.+?)`", found)[0]
    fields = dict(each.split(": ") for each in re.findall(r"`([^`]+)`", told))
    message = json.loads(body)
    without_meta = {**message, "params": {"name": message["params"]["name"], "arguments": {}}}

    newest = market.ask("/api/mcp", "POST", body=body, **SENT, **_as_keywords(fields))
    earlier = market.ask("/api/mcp", "POST", body=json.dumps(without_meta), **SENT)

    assert f"Tools: {', '.join(tool.name for tool in TOOLS)};" in found
    for answer in (newest, earlier):
        assert answer.status == 200
        assert answer.json()["result"]["structuredContent"]["source"]


def _as_keywords(fields: dict[str, str]) -> dict[str, str]:
    return {name.lower().replace("-", "_"): value for name, value in fields.items()}


def test_llms_full_txt_explains_credentials_payments_and_their_errors(market: Service) -> None:
    found = text(market.ask("/llms-full.txt"))
    told = found.partition("## Subscriber and paid endpoints")[2].partition("\n## ")[0]

    for words in ("`Authorization: Bearer <token>`", "`PAYMENT-SIGNATURE`", "GET /api/x402/feed"):
        assert words in told
    for status in (401, 402, 404, 409, 429, 503):
        assert f" {status}: " in told
    assert f"{BASE_URL}/pricing" in told
    assert "Subscriber and paid" not in text(market.ask("/llms.txt"))


ON_TOP = {"as_of", "source", "notice", "count", "next"}
"""Members that the beginning of `/llms-full.txt` explains for all objects."""


def test_llms_full_txt_has_every_endpoint_with_the_members_and_an_example_of_its_body(
    market: Service, description: dict[str, Any]
) -> None:
    found = text(market.ask("/llms-full.txt"))

    examples = set[str]()
    every = [(path, *each) for path, item in description["paths"].items() for each in item.items()]
    for path, method, operation in every:
        entry = found.partition(f"### {method.upper()} {path}\n")[2].partition("\n### ")[0]
        assert operation["description"] in entry, path
        success = next(iter(operation["responses"].values()))
        body = success.get("content", {}).get("application/json")
        # The files that describe the interface have formats of their own.
        if body is not None and operation["tags"] != ["descriptions"]:
            (kind,) = re.findall(r"^- Body(?: of \d+)?: (\w+)$", entry, re.MULTILINE)
            for shown in re.findall(r"^```json\n(.*)\n```$", entry, re.MULTILINE):
                assert json.loads(shown) == _with_short_lists(body["example"])
                examples.add(kind)
            assert kind in examples
            listed = found.partition(f"\n### {kind}\n")[2].partition("\n### ")[0]
            for member in body["example"].keys() - ON_TOP:
                assert f"\n- `{member}`" in listed
    assert (
        "- `fundingRatePct` (number or null): Current funding rate in percent per 8 hours" in found
    )
    assert "\n- `decision` (StanceDecision)\n" in found
    assert len(found) <= 106_000


def _with_short_lists(part: Any, shown: int = 1) -> Any:
    """An example with the first entry of each list, whose own lists are empty, and the `count` of a
    page to match."""
    if isinstance(part, list):
        return [_with_short_lists(each, 0) for each in part[:shown]]
    if isinstance(part, dict):
        short = {name: _with_short_lists(each, shown) for name, each in part.items()}
        is_page = {"as_of", "count", "next"} <= part.keys()
        return {**short, "count": min(1, part["count"])} if is_page else short
    return part


@pytest.mark.parametrize("root", ["/", "/api/agent", "/openapi.json"])
def test_roots_link_to_files_of_the_type_that_they_name(market: Service, root: str) -> None:
    named = market.ask(root).headers["link"]

    assert named == LINKS.format("" if root == "/" else BASE_URL)
    assert market.ask(f"{root}?x").headers["link"] == named
    for address, relation, media_type in LINK.findall(named):
        answer = market.ask(address.removeprefix(BASE_URL))
        assert answer.status == 200, address
        assert answer.headers["content-type"].partition(";")[0] == media_type, address
        assert relation in REGISTERED


def test_the_api_catalog_links_each_api_to_its_descriptions_and_status(market: Service) -> None:
    answer = market.ask("/.well-known/api-catalog")
    items, *apis = answer.json()["linkset"]

    assert answer.headers["content-type"] == (
        'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"'
    )
    assert market.ask("/.well-known/api-catalog", "HEAD").headers["link"] == LINKS.format(BASE_URL)
    assert items["anchor"] == f"{BASE_URL}/.well-known/api-catalog"
    listed = [each["href"] for each in items["item"]]
    assert listed[: len(apis)] == [each["anchor"] for each in apis]
    assert not [each for each in listed if market.ask(each[len(BASE_URL) :], "PUT").status != 405]
    for api in apis:
        assert api.keys() - {"anchor"} <= REGISTERED
        for link in (link for relation in api.keys() - {"anchor"} for link in api[relation]):
            found = market.ask(link["href"].removeprefix(BASE_URL))
            assert found.status == 200
            assert found.headers["content-type"].partition(";")[0] == link["type"]


def test_the_list_of_what_is_sold_says_what_each_402_says(tmp_path: Path) -> None:
    service = shop(tmp_path)
    service.issue_all()
    sold = service.ask("/.well-known/x402").json()
    paths = service.ask("/openapi.json").json()["paths"]
    decimals = USDC_DECIMALS
    priced = {path for path, each in paths.items() if "x-payment-info" in each.get("get", {})}

    assert (sold["version"], sold["x402Version"]) == (1, 2)
    assert priced == {url.removeprefix(BASE_URL) for url in sold["resources"]}
    for url, offer in zip(sold["resources"], sold["offers"], strict=True):
        refused = service.ask(url.removeprefix(BASE_URL), offer["method"])
        terms = refused.json()
        [accepted] = terms["accepts"]
        told = paths[url.removeprefix(BASE_URL)]["get"]["x-payment-info"]
        assert (refused.status, offer["resource"]) == (402, terms["resource"])
        assert offer["accepts"] == [accepted]
        assert Decimal(told["price"]["amount"]).scaleb(decimals) == Decimal(accepted["amount"])
        assert (told["price"]["mode"], told["protocols"]) == ("fixed", [{"x402": {}}])
    service.close()


def test_an_instance_that_sells_nothing_says_so(market: Service) -> None:
    sold = market.ask("/.well-known/x402").json()

    assert (sold["resources"], sold["offers"]) == ([], [])
    assert sold["instructions"] == "This instance sells nothing by x402."
    assert "x-payment-info" not in market.ask("/openapi.json").body.decode()


def test_every_link_uses_another_base_address(tmp_path: Path) -> None:
    elsewhere = "http://10.0.0.9:8080/barograph"
    paths = ("/llms.txt", "/llms-full.txt", "/openapi.json", "/openapi-gpt.json", SECURITY)
    with fresh_service(tmp_path, base_url=elsewhere, security_contact=CONTACT) as service:
        answers = [service.ask(path).body.decode() for path in paths]
        page, index = service.ask("/"), service.ask("/api/agent")
        robots = text(service.ask("/robots.txt"))

    assert page.headers["link"] == LINKS.format("/barograph")
    assert index.headers["link"] == LINKS.format(elsewhere)
    assert (index.json()["site"], index.json()["mcp"]) == (f"{elsewhere}/", f"{elsewhere}/api/mcp")
    assert all(elsewhere in each and BASE_URL not in each for each in answers)
    assert "Disallow: /barograph/api/x402/\n" in robots


def test_security_txt_is_complete_and_expires_within_a_year(market: Service) -> None:
    lines = text(market.ask(SECURITY)).splitlines()
    fields = dict(line.split(": ", 1) for line in lines)

    assert len(fields) == len(lines)
    assert fields["Contact"] == CONTACT
    assert fields["Canonical"] == BASE_URL + SECURITY
    assert fields["Preferred-Languages"] == "en"
    now = datetime.fromtimestamp(START / 1000, UTC)
    left = datetime.fromisoformat(fields["Expires"]) - now
    assert timedelta(days=30) < left < timedelta(days=365)


def test_security_txt_changes_once_per_day(tmp_path: Path) -> None:
    with fresh_service(tmp_path, security_contact=CONTACT) as service:
        first = service.ask(SECURITY)
        service.clock.pass_seconds(60)
        again = service.ask(SECURITY, if_none_match=first.headers["etag"])
        service.clock.pass_seconds(86_400)
        later = service.ask(SECURITY)

    assert again.status == 304
    assert later.body > first.body


def test_robots_may_read_what_is_free(market: Service) -> None:
    lines = text(market.ask("/robots.txt")).splitlines()
    hidden = [line.removeprefix("Disallow: ") for line in lines if line.startswith("Disallow")]

    assert "User-agent: *" in lines
    assert hidden == ["/api/x402/", "/api/agents/", "/api/feed/", "/keys", "/alerts"]


def test_the_skill_file_is_that_of_this_instance(market: Service) -> None:
    answer = market.ask("/SKILL.md")
    found = answer.body.decode()

    assert answer.status == 200
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert found.startswith("---\nname: barograph\n")
    assert f"Base address: `{BASE_URL}`." in found
    assert f"curl -s '{BASE_URL}/api/agent/market-state'" in found
    assert "127.0.0.1" not in found
    assert b'is <a href="/SKILL.md">' in market.ask("/developers/agents").body
