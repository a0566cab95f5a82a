"""What visitors do on the site, in a real browser; and every link, followed."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import urldefrag, urljoin

import httpx
import pytest
from playwright.sync_api import Browser, expect

from support.browsing import Demo, chromium, looking, running_demo
from support.processes import eventually

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running_demo(tmp_path_factory.mktemp("stories")) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def _barograph(demo: Demo, *arguments: str) -> str:
    command = [sys.executable, "-m", "barograph", *arguments, "--data", str(demo.data)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


def test_a_visitor_registers_a_key_and_uses_it(demo: Demo, browser: Browser) -> None:
    with looking(browser, demo.base_url) as look:
        look.page.goto("/developers#get-a-key")
        look.page.get_by_label("E-mail address").fill("visitor@example.com")
        look.page.get_by_role("button", name="Send me a link").click()
        expect(look.page.locator("h1")).to_have_text("Look into your mailbox")
        link = _mailed_link(demo)
        look.page.goto(link)
        look.page.get_by_role("button", name="Show my key").click()
        key = look.page.locator(".key").inner_text().strip()
        assert look.problems == []
    answer = httpx.get(f"{demo.base_url}/api/v1/signals", headers={"X-API-Key": key})
    assert answer.status_code == 200
    assert "q=1000" in answer.headers["RateLimit-Policy"]


def _mailed_link(demo: Demo) -> str:
    def newest() -> str | None:
        mails = json.loads(_barograph(demo, "demo", "mail", "--json"))
        return str(mails[-1]["links"][0]) if mails else None

    return eventually(newest, "a mail")


def test_an_address_full_of_markup_stays_text(demo: Demo, browser: Browser) -> None:
    mark = "<script>document.title='taken'</script>"
    with looking(browser, demo.base_url) as look:
        for path in (f"/markets?q={mark}", f"/markets/{mark}", f"/briefs?category={mark}"):
            look.page.goto(path)
            assert look.page.title() != "taken"
            assert look.page.locator("main script").count() == 0


def test_a_badge_is_copied_as_markdown(demo: Demo, browser: Browser) -> None:
    with looking(browser, demo.base_url) as look:
        look.context.grant_permissions(["clipboard-read", "clipboard-write"])
        look.page.goto("/signals/btc-funding-regime")
        button = look.page.locator("button[data-copy]:visible").first
        button.click()
        expect(button).to_have_text("Copied")
        copied = look.page.evaluate("navigator.clipboard.readText()")
        assert "/badge/signal/btc-funding-regime.svg" in copied


def test_briefs_are_paged_to_the_oldest_and_back(demo: Demo, browser: Browser) -> None:
    with looking(browser, demo.base_url) as look:
        look.page.goto("/briefs")
        first = look.page.locator("main li a").first.inner_text()
        seen = 1
        while (older := look.page.locator("a[rel=next]")).count():
            older.first.click()
            look.page.wait_for_load_state()
            seen += 1
        assert seen > 1
        for _ in range(seen - 1):
            look.page.locator("a[rel=prev]").first.click()
            look.page.wait_for_load_state()
        assert look.page.locator("main li a").first.inner_text() == first


def test_an_endpoint_is_tried_out_in_the_docs(demo: Demo, browser: Browser) -> None:
    with looking(browser, demo.base_url) as look:
        look.page.goto("/docs")
        block = look.page.locator(".opblock", has_text="/api/agent/market-state").first
        block.locator("button").first.click()
        block.get_by_role("button", name="Try it out").click()
        block.get_by_role("button", name="Execute").click()
        expect(
            block.locator(".live-responses-table tbody .response-col_status").first
        ).to_contain_text("200")
        assert look.hosts == {demo.base_url.split("/")[2]}
        assert look.problems == []


def test_markets_are_searched_and_sorted_where_they_stand(demo: Demo, browser: Browser) -> None:
    with looking(browser, demo.base_url) as look:
        look.page.goto("/markets")
        everything = look.page.locator("tbody tr:visible").count()
        look.page.get_by_role("searchbox").fill("btc")
        expect(look.page.locator("tbody tr:visible").first).to_contain_text("BTC")
        assert look.page.locator("tbody tr:visible").count() < everything


def test_a_chart_tells_the_value_under_the_pointer(demo: Demo, browser: Browser) -> None:
    with looking(browser, demo.base_url) as look:
        look.page.goto("/")
        chart = look.page.locator("svg[data-series]").first
        chart.hover()
        readout = look.page.locator("figure", has=chart).locator(".readout").first
        expect(readout).to_contain_text("UTC:")
        assert look.problems == []


def test_every_link_of_every_page_resolves(demo: Demo) -> None:
    broken: list[str] = []
    fragments: dict[str, set[str]] = {}
    with httpx.Client(timeout=30, follow_redirects=True) as client:
        waiting, known = ["/"], {"/"}
        while waiting:
            address = urljoin(demo.base_url, waiting.pop())
            answer = client.get(address, headers={"accept": "text/html"})
            if answer.status_code >= 400 and not _is_for_payers(answer):
                broken.append(f"{answer.status_code} {address}")
            if "text/html" not in answer.headers.get("content-type", ""):
                continue
            page = _Links()
            page.feed(answer.text)
            fragments[address] = page.ids
            for link, fragment in map(urldefrag, page.links):
                target = urljoin(address, link)
                if target.startswith(demo.base_url) and not _is_one_of_many(target):
                    path = target.removeprefix(demo.base_url)
                    if path not in known:
                        known.add(path)
                        waiting.append(path)
                if fragment and target in fragments and fragment not in fragments[target]:
                    broken.append(f"no #{fragment} in {target}")
    assert broken == []
    assert len(known) > 150


def _is_for_payers(answer: httpx.Response) -> bool:
    return answer.status_code == 402 and "/api/" in answer.request.url.path


def _is_one_of_many(target: str) -> bool:
    """Pages of contracts are alike, and there are hundreds: three stand for all of them."""
    found = re.match(r".*/(?:markets|data)/([A-Z0-9]+)", target)
    return found is not None and found[1] not in {"BTC", "ETH", "1000PEPE"}


class _Links(HTMLParser):
    """Everything that a page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in {"href", "src", "action"} and value and not value.startswith("mailto:"):
                self.links.append(value)
            if name == "id" and value:
                self.ids.add(value)


def test_a_value_goes_live_and_is_called_stale_when_the_exchange_stops(
    demo: Demo, browser: Browser
) -> None:
    with looking(browser, demo.base_url) as look:
        look.page.goto("/")
        pill = look.page.locator("[data-pill]").first
        expect(pill).to_have_text("live")
        before = look.page.locator("#figures").inner_text()
        expect(look.page.locator("#figures")).not_to_have_text(before, timeout=30_000)
        _barograph(demo, "demo", "fault", "exchange", "on")
        try:
            expect(pill).to_have_text("stale", timeout=60_000)
            expect(look.page.locator("#figures")).to_be_empty()
        finally:
            _barograph(demo, "demo", "fault", "exchange", "off")
        expect(pill).to_have_text("live", timeout=60_000)
        assert look.problems == []
