"""Every kind of page in a real browser: light, dark, on a phone, and without JavaScript."""

import re
import time
from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Browser, Route, expect

from barograph.signals.methods import METHODS
from support.browsing import NARROW, PHONE, VIEWS, Demo, Look, chromium, looking, running_demo

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

MISSING = {"/there-is-no-such-page", "/keys/never-made"}
SIGNALS = [f"/signals/{method.key}" for method in METHODS]
CHARTS = "#charts svg[data-series]"
CONTENT = {
    "/": {
        "#figures dd.big": 3,
        "#figures td": 12,
        "#movers tbody tr": 15,
        ".trust dd": 3,
        CHARTS: 3,
        "#signals-now dd.big": 8,
        "#briefs-now li": 3,
    },
    "/?days=60": {"[aria-current]:text-is('60 days')": 1, CHARTS: 3},
    "/markets": {"tbody tr td:nth-child(2)": 60, "thead a[href*=sort]": 9, ".tabs a": 5},
    "/markets/BTC": {
        "#figures dd.big": 5,
        CHARTS: 3,
        "#by-venue tbody tr": 8,
        "#facts tbody tr": 5,
        "#citation": 1,
    },
    "/markets/PEPE?venue=hyperliquid": {"#figures dd.big": 5, CHARTS: 3, "#facts tbody tr": 5},
    "/venues": {".cards h2": 3, ".cards tbody tr": 12},
    "/heatmap": {".map a[href*=markets]": 25, ".legend li": 10},
    "/heatmap?by=change": {"[aria-current]:text-is('Price change in 24 h')": 1, ".map a": 25},
    "/funding": {"tbody tr td small": 100, "thead a[href*=sort]": 8},
    "/open-interest": {"#quadrants h2": 4, "tbody tr": 10},
    "/liquidations": {"#totals .big": 4, "#by-hour svg": 1, "tbody tr": 40},
    "/briefs": {".cards li h2 a": 20, "a[rel=next]": 1},
    "brief": {"article p": 2, "article td": 4, "main details > summary": 1, "#citation": 1},
    "/guides": {".columns li h2 a": 27, ".columns li strong": 27},
    "guide": {".figures dd.big": 2},
    "/signals": {"tbody tr th a": 8, "tbody tr strong": 8},
    "/signals/btc-funding-regime": {
        "#current dd.big": 4,
        ".lanes tbody tr": 3,
        "#recorded .events strong": 3,
    },
    "/accuracy": {".headline": 3, "#limits": 1},
    "/record": {".columns article": 3, "details > summary": 5, "#yourself": 1},
    "/record/details": {"#cosignatures": 1, "#trust": 1, "ol li": 17},
    "/record/rates-desk": {"tbody td.digest": 50},
    "/developers": {"#limits": 1, ".toc li": 20, "pre code": 5},
    "/developers/endpoints": {".group > summary": 10},
    "/developers/errors": {"tbody tr": 10},
    "/developers/agents": {"#badges": 1},
    "/developers/feed": {"#x402": 1},
    "/developers/methods": {"#regime": 1},
    "/docs": {".banner a": 1},
    "/status": {"tr[data-part] .pill": 10, ".strip": 10},
    "/pricing": {".price": 2, "tbody tr": 5},
    "/there-is-no-such-page": {"h1:text-is('Not found')": 1, "main a": 4},
    "/keys/never-made": {"main a": 1},
    "/alerts": {"main form button": 2},
}
"""What each page holds, and at least how often; a brief and a guide stand for all of them."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running_demo(tmp_path_factory.mktemp("pages")) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def look(demo: Demo, browser: Browser) -> Iterator[Look]:
    """A tab for all pages: to open one takes as long as a page does."""
    with looking(browser, demo.base_url) as found:
        yield found


@pytest.fixture(scope="module")
def plain(demo: Demo, browser: Browser) -> Iterator[Look]:
    """A tab without JavaScript."""
    with looking(browser, demo.base_url, java_script_enabled=False) as found:
        yield found


@pytest.fixture(scope="module")
def addresses(demo: Demo) -> dict[str, str]:
    brief = httpx2.get(f"{demo.base_url}/api/agent/briefs?limit=1").json()["briefs"][0]["url"]
    guide = httpx2.get(f"{demo.base_url}/api/agent/guides").json()["guides"][0]["url"]
    return {**{page: page for page in CONTENT}, "brief": brief, "guide": guide}


@pytest.mark.parametrize("kind", CONTENT)
def test_a_page_has_no_violation_no_error_and_no_sideways_scroll(
    kind: str, demo: Demo, look: Look, addresses: dict[str, str]
) -> None:
    look.visit(addresses[kind], VIEWS[0])
    if kind == "/docs":
        look.page.get_by_role("button", name="Load the interactive reference").click()
        look.page.wait_for_selector(".opblock")
    for view in VIEWS:
        look.change(view)
        look.picture(re.sub(r"\W+", "-", f"page{kind}-{view.name}"))
        assert look.overflow() <= 0, view.name
        # What Swagger UI draws is its own; the frame around it is ours.
        assert look.violations(out_of="#swagger-ui" if kind == "/docs" else None) == [], view
    refused = [each for each in look.problems if "status of 4" not in each]
    assert (refused if kind in MISSING else look.problems) == []
    assert look.hosts == {demo.base_url.split("/")[2]}


@pytest.mark.parametrize("address", ["/", "/signals", "/markets", "/markets/BTC", *SIGNALS])
def test_a_narrow_phone_scrolls_nothing_sideways_and_tables_stay_tables(
    address: str, look: Look
) -> None:
    look.visit(address, NARROW)
    assert look.overflow() <= 0
    heard = look.page.locator("table").first.aria_snapshot()
    assert {"- row ", "- rowheader ", "- cell "} <= set(re.findall(r"- \w+ ", heard))
    look.page.emulate_media(media="print")
    look.page.set_viewport_size({"width": 718, "height": 1_000})  # A4 with the usual margins
    assert look.overflow() <= 0


_SMALL = """() => [...document.querySelectorAll("a[href], button, input, select, summary")]
    .filter((each) => each.checkVisibility() && getComputedStyle(each).display !== "inline")
    .map((each) => [each.textContent, each.getBoundingClientRect()])
    .filter(([, { width, height }]) => width > 1 && (width < 24 || height < 24))"""


@pytest.mark.parametrize(
    "address", ["/", "/markets", "/markets/BTC", "/funding", "/open-interest", "/liquidations"]
)
def test_a_phone_has_targets_for_fingers_and_no_endless_page(address: str, look: Look) -> None:
    look.page.emulate_media(media="screen")
    look.visit(address, PHONE)
    assert look.page.evaluate("document.documentElement.scrollHeight") < 12_000
    assert look.page.evaluate(_SMALL) == []
    if address == "/markets":
        rows = look.page.locator(".perpetuals tbody tr")
        assert rows.locator("visible=true").count() == 60 < rows.count()
        look.page.get_by_text("More than 60 rows: show all").click()
        assert rows.locator("visible=true").count() == rows.count()


_SHIFTS = """() => new Promise((resolve) => {
    const told = (list) => resolve(list.getEntries().reduce((sum, each) => sum + each.value, 0));
    new PerformanceObserver(told).observe({ type: "layout-shift", buffered: true });
    setTimeout(() => resolve(0), 300);
})"""


@pytest.mark.parametrize("address", ["/", "/markets", "/markets/BTC", "/signals", "/status"])
def test_nothing_moves_on_a_phone_when_the_script_writes_ages(address: str, look: Look) -> None:
    look.visit(address, PHONE)
    first = look.page.locator("[data-since]").first
    since = int(first.get_attribute("data-since") or "") / 1_000
    for age in (1, 30):
        look.page.clock.set_fixed_time(since + age)
        look.page.route("**/static/site*.js*", _come_late, times=1)
        look.visit(address, PHONE)
        expect(first).not_to_be_empty()
        assert look.page.evaluate(_SHIFTS) < 0.03, age


def _come_late(route: Route) -> None:
    """Let the page be drawn before its script is there."""
    time.sleep(0.3)
    route.continue_()


def test_endpoints_open_by_tag_and_by_fragment_without_javascript(plain: Look) -> None:
    plain.visit("/developers/endpoints")
    operation = plain.page.locator("[data-operation=getMarket] summary")
    assert not operation.is_visible()
    plain.page.locator("#tag-market").click()
    assert operation.is_visible()

    plain.visit("/developers/endpoints#getSignals")
    assert plain.page.locator("#getSignals").is_visible()


@pytest.mark.parametrize("kind", CONTENT)
def test_a_page_is_complete_without_javascript(
    kind: str, plain: Look, addresses: dict[str, str]
) -> None:
    plain.visit(addresses[kind])
    assert plain.page.locator("h1:visible").count() == 1
    for what, least in CONTENT[kind].items():
        found = plain.page.locator(what).locator("visible=true")
        assert found.count() >= least, what
        assert all(each.strip() for each in found.all_text_contents()), what
    told = plain.page.locator("noscript p").locator("visible=true").all_text_contents()
    is_live = plain.page.locator("body[data-live]").count() == 1
    assert any("does not update itself" in each for each in told) == is_live
    assert plain.page.locator("footer").inner_text().count("not financial advice") == 1
    assert plain.page.locator("button[data-copy]:visible").count() == 0


def test_the_home_page_is_light_and_takes_few_requests(demo: Demo, browser: Browser) -> None:
    with looking(browser, demo.base_url) as look:
        sizes: list[int] = []
        look.page.on(
            "requestfinished",
            lambda request: sizes.append(
                request.sizes()["responseBodySize"] + request.sizes()["responseHeadersSize"]
            ),
        )
        look.page.goto("/", wait_until="networkidle")
        assert len(sizes) <= 6
        assert sum(sizes) <= 45_000
