"""The developer page: what it shows is what this instance does."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from barograph.kit.timestamps import HOUR
from barograph.mcp.tools import TOOLS
from barograph.signals.methods import METHODS
from barograph.site.developers.interface import COMMON_STATUSES
from barograph.site.developers.reference import DEVELOPER_PAGES, SECTIONS
from support.clock import START
from support.descriptions import operations
from support.markets import reading, shares
from support.node import NODE
from support.pages import Checked, SiteService
from support.payments import PAYMENTS, HandFacilitator
from support.readers import on_a_port
from support.service import BASE_URL, Answer, Service, fresh_service

Operation = tuple[str, str, list[str], list[str]]
"""Method, path, parameters, statuses."""

IF_NONE_MATCH = "#/components/parameters/If-None-Match"


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteService]:
    """A site whose market is fresh."""
    site = SiteService(tmp_path_factory.mktemp("developers"))
    site.service.publish(reading(), shares())
    yield site
    site.close()


@pytest.fixture(scope="module")
def page(market: SiteService) -> str:
    return developers(market.service)


@pytest.fixture(scope="module")
def schema(market: SiteService) -> dict[str, Any]:
    body: dict[str, Any] = market.ask("/openapi.json").json()
    return body


def element(page: str, name: str) -> str:
    """The text of a code element."""
    found = re.search(rf'<code id="{name}">(.*?)</code>', page, re.DOTALL)
    assert found is not None, name
    return unescape(found[1])


def developers(service: Service) -> str:
    """All pages for developers."""
    answers = [service.ask(path) for path in DEVELOPER_PAGES]
    assert {answer.status for answer in answers} == {200}
    return "".join(answer.body.decode() for answer in answers)


def shown_operations(page: str) -> dict[str, Operation]:
    """Every operation of the page, by its name."""
    pattern = r'<details class="operation" data-operation="(\w+)">(.*?)</details>'
    blocks = re.findall(pattern, page, re.DOTALL)
    found = {}
    for name, block in blocks:
        head = re.search(r'<span class="method">(\w+)</span> <code>(.*?)</code>', block)
        assert head is not None
        parameters = re.findall(r'data-parameter="(.*?)"', block)
        statuses = re.findall(r'data-status="(\d+)"', block)
        found[name] = (head[1], unescape(head[2]), parameters, statuses)
    return found


def described_operations(schema: dict[str, Any]) -> dict[str, Operation]:
    """The same of a description, less what the page tells once for all."""
    found = {}
    for path, item in schema["paths"].items():
        for method, operation in item.items():
            names = [each.get("name") for each in operation.get("parameters", ())]
            common = set() if operation["security"] else COMMON_STATUSES
            statuses = sorted(set(operation["responses"]) - common)
            shown = [name for name in names if name is not None]
            found[operation["operationId"]] = (method.upper(), path, shown, statuses)
    return found


def test_every_operation_of_the_description_is_on_the_page_as_it_is(
    page: str, schema: dict[str, Any]
) -> None:
    assert shown_operations(page) == described_operations(schema)
    assert len(schema["paths"]) > 40


def test_what_the_page_tells_once_holds_for_every_free_operation(
    page: str, schema: dict[str, Any]
) -> None:
    assert "has its current <code>ETag</code>. Other methods get 405" in page
    for _, operation in operations(schema):
        is_private = bool(operation["security"])
        references = [each["$ref"] for each in operation.get("parameters", ()) if "$ref" in each]
        assert references == ([IF_NONE_MATCH] if "304" in operation["responses"] else [])
        assert is_private or {"405", "414"} <= set(operation["responses"])


def test_what_is_entitled_or_paid_says_what_it_needs(page: str) -> None:
    needs = {
        name: re.findall(r"(?:Requires| or) <code>(.*?)</code>", block)
        for block in page.split('<details class="operation"')
        for name in re.findall(r'data-operation="(\w+)"', block)
    }
    token, proof = "Authorization: Bearer &lt;ACCESS_TOKEN&gt;", "PAYMENT-SIGNATURE: &lt;PROOF&gt;"
    webhooks = ("getWebhooks", "createWebhook", "getWebhookDeliveries", "rotateWebhookSecret")
    alerts = ("getAlerts", "getAlertMessages", "createAlert", "previewAlert", "changeAlert")
    keyed = (*webhooks, "deleteWebhook", *alerts, "deleteAlert")
    entitled = ("getMaterialChange", "getBtcEtfStance", "getRatesDesk", "getFundingRegime")

    assert {name: fields for name, fields in needs.items() if fields} == {
        **{name: ["X-API-Key: &lt;KEY&gt;"] for name in keyed},
        **{name: [token, proof] for name in (*entitled, "getFeedNow")},
        "buyFeed": [proof],
    }


def test_the_first_answer_is_the_one_that_this_instance_gives(
    market: SiteService, page: str
) -> None:
    really = market.service.ask("/api/agent/derivatives?symbol=BTC").json()

    assert json.loads(element(page, "first-answer")) == really
    assert really["available"] is True
    assert "From this instance (200), with data as of <time" in page


@pytest.mark.outcome(
    "The market feed is stale while a visitor reads the developer page",
    "The page shows the real error instead of an example.",
)
def test_stale_data_is_not_shown_as_an_answer(service: Service) -> None:
    fresh = service.ask("/developers")
    service.clock.pass_seconds(service.settings.feed_max_age_seconds)
    stale = service.ask("/developers", if_none_match=fresh.headers["etag"])
    error = service.ask("/api/agent/derivatives?symbol=BTC")

    assert (stale.status, error.status) == (200, 502)
    page = stale.body.decode()
    assert "Response: not available now (502)" in page
    assert json.loads(element(page, "first-answer")) == error.json()
    service.publish(reading(service.clock()), shares(service.clock()))
    assert "not available now" not in developers(service)


def test_the_contents_lead_to_every_part(market: SiteService) -> None:
    pages = {path: market.look(path) for path in DEVELOPER_PAGES}

    for path, page in pages.items():
        assert set(SECTIONS) <= set(page.ids)  # those of other pages lead on
        linked = {target for target in page.targets if "#" in target and target != "#main"}
        for target in linked:
            there, _, anchor = target.partition("#")
            assert there not in {"", *pages} or anchor in pages[there or path].ids, target


@pytest.mark.contract("signals.docs")
def test_the_page_tells_how_to_use_the_service(market: SiteService) -> None:
    pages = [market.look(path) for path in DEVELOPER_PAGES]
    text = " ".join(page.text for page in pages)
    targets = {target for page in pages for target in page.targets}

    for words in (
        *(BASE_URL, "120 per hour", "1,000 per hour", "X-API-Key", "RateLimit-Policy"),
        *("Retry-After", "long-crowded", "+0.03 % or more", "do not pay again automatically"),
        *("free for non-commercial use", "at least 180 days", "Nothing is deprecated."),
    ):
        assert words in text
    assert {"/openapi.json", "/badge/record.svg", "/badge/funding/BTC.svg", "/keys"} <= targets


def test_reads_of_the_page_can_be_copied_as_they_stand(page: str, schema: dict[str, Any]) -> None:
    for name in ("all-curl", "stream-curl", "stream-javascript", "webhook-curl"):
        (target,) = re.findall(rf"{BASE_URL}(/api/v1/[\w/.-]+)", element(page, name))
        assert target in schema["paths"], name


def test_programs_find_the_descriptions_from_the_page(market: SiteService) -> None:
    answer = market.ask("/developers")
    linked = re.findall(r'<(/[^>]+)>; rel="([\w-]+)"; type="([^"]+)"', answer.headers["link"])
    in_page = re.findall(
        r'<link rel="((?:service|api)-\w+)" type="([^"]+)" href="([^"]+)"', answer.text
    )

    assert {path for path, _, _ in linked} == {path for _, _, path in in_page} | {"/developers"}
    for relation, content_type, path in in_page:
        assert (path, relation, content_type) in linked
        assert market.ask(path).headers["content-type"].startswith(content_type)


def test_every_badge_can_be_copied_in_three_forms(market: SiteService, page: str) -> None:
    pictures = re.findall(r'<img src="(/badge/[^"]+)"', page)

    assert len(pictures) > 9
    for number, picture in enumerate(pictures, 1):
        address = f"{BASE_URL}{picture}"
        assert market.ask(picture).headers["content-type"].startswith("image/svg+xml")
        assert element(page, f"badge-{number}-url") == address
        markdown = element(page, f"badge-{number}-markdown")
        prefix = f"({address})]({BASE_URL}"
        target = markdown.partition(prefix)[2].removesuffix(")")
        assert markdown.startswith("[![")
        assert market.ask(target).status_code == 200
        html = element(page, f"badge-{number}-html")
        assert html.startswith(f'<a href="{BASE_URL}{target}"><img src="{address}" alt="')


def test_the_first_badge_says_something_everywhere_and_each_tells_what_it_shows(
    market: SiteService, page: str
) -> None:
    badges = re.findall(r'<img src="(/badge/[^"]+)"[^>]*> <span class="quiet">([^<]+)</span>', page)
    texts = dict(badges)

    assert b"not started" not in market.ask(badges[0][0]).content
    assert len(set(texts.values())) == len(badges) == page.count('<img src="/badge/')
    for method in METHODS:
        assert method.name in unescape(texts[f"/badge/signal/{method.key}.svg"])


def test_endpoints_are_folded_by_tag_and_each_tag_can_be_linked_to(
    page: str, schema: dict[str, Any]
) -> None:
    groups = re.findall(r'<details class="group">\n<summary id="tag-([\w-]+)">', page)

    assert groups == [tag["name"] for tag in schema["tags"]]
    assert "<details open" not in page
    assert page.count('<details class="operation"') == len(shown_operations(page))


def test_the_table_of_errors_says_where_each_is_answered(page: str) -> None:
    row = re.search(r"<td><code>Payment required</code></td><td[^>]*>(.*?)</td>", page)

    assert row is not None
    assert row[1] == "stance endpoints"
    assert "payment_required</code>" not in page


def test_the_tools_are_named_as_they_are_called(page: str) -> None:
    assert re.findall(r'data-tool="(\w+)"', page) == [tool.name for tool in TOOLS]
    server = json.loads(element(page, "mcp-file"))["mcpServers"]["barograph"]
    assert server["url"] == element(page, "mcp-address") == f"{BASE_URL}/api/mcp"
    assert element(page, "gpt-address") == f"{BASE_URL}/openapi-gpt.json"


def test_prices_are_shown_where_payments_are_taken(tmp_path: Path) -> None:
    terms = {"feed_price_usd": "29.50", "stance_price_usd": "0.4"}
    with fresh_service(tmp_path, facilitator=HandFacilitator(), **PAYMENTS, **terms) as service:
        page = re.sub(r"<[^>]+>", " ", developers(service))

    assert re.search(r"Feed for 30 days\s+/api/x402/feed\s+29\.50 USD", page)
    assert re.search(r"One read of US rates, without Feed\s+/api/x402/rates-desk\s+0\.40 USD", page)
    assert "Do not pay again automatically." in page


def test_without_payments_the_page_promises_none(page: str) -> None:
    assert "This instance does not accept x402 payments" in page
    assert "PAYMENT-RESPONSE" not in page


def test_a_source_full_of_markup_stays_text(tmp_path: Path) -> None:
    source = "</code><script>alert(1)</script>"
    site = SiteService(tmp_path, exchange_source=source)
    site.service.publish(replace(reading(), source=source), shares())
    page = Checked(site.ask("/developers"))
    site.close()

    assert json.dumps(source) in page.text


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


@pytest.mark.thorough
def test_the_programs_run_as_they_stand(tmp_path: Path) -> None:
    bodies: dict[str, bytes] = {}

    def answer(target: str, **_: str) -> Answer:
        return Answer(200, [(b"content-type", b"application/json")], bodies[target])

    with on_a_port(answer) as base_url, fresh_service(tmp_path, base_url=base_url) as service:
        for at in (START // HOUR * HOUR, START):
            service.publish(reading(at))
        page = developers(service)
        for target in ("/api/agent/derivatives?symbol=BTC", "/api/agent/market-state"):
            bodies[target] = service.ask(target).body
        listed = "/api/v1/series/funding?symbol=BTC"
        series = service.ask(listed).json()
        # The first page ends early.
        bodies[listed] = json.dumps({**series, "next": f"{base_url}/rest"}).encode()
        bodies["/rest"] = json.dumps(series).encode()
        followed = run(sys.executable, "-c", element(page, "next-python"))
        printed = [
            run(sys.executable, "-c", element(page, "first-python")),
            run(str(NODE), "--input-type=module", "-e", element(page, "first-javascript")),
            *run(sys.executable, "-c", element(page, "client-python")).splitlines(),
        ]

    last = series["points"][-1]
    assert followed.split() == [str(2 * series["count"]), last["at"], str(last["value"])]
    btc, state, *_ = (json.loads(body) for body in bodies.values())
    assert printed.pop() == state["regime"]["label"]
    for text in printed:
        price, funding, source = text.split(maxsplit=2)
        assert (float(price), float(funding)) == (btc["lastPrice"], btc["fundingRatePct"])
        assert source.strip() == btc["source"]
    assert element(page, "first-curl") == f"curl '{base_url}/api/agent/derivatives?symbol=BTC'"
