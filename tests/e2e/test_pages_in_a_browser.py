"""Every kind of page in a real browser: light, dark, on a phone, and without JavaScript."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser

from support.browsing import VIEWS, Demo, Look, View, chromium, looking, running_demo

pytestmark = pytest.mark.e2e

KINDS = {
    "home": "/",
    "home-60-days": "/?days=60",
    "markets": "/markets",
    "market": "/markets/BTC",
    "briefs": "/briefs",
    "guides": "/guides",
    "signals": "/signals",
    "signal": "/signals/btc-funding-regime",
    "record": "/record",
    "record-of-a-kind": "/record/rates-desk",
    "developers": "/developers",
    "docs": "/docs",
    "status": "/status",
    "pricing": "/pricing",
    "not-found": "/there-is-no-such-page",
    "link-not-usable": "/keys/never-made",
}
HEADINGS = {
    "markets": "Markets",
    "briefs": "Briefs",
    "guides": "Guides",
    "signals": "Signals",
    "record": "record",
    "developers": "Developers",
    "status": "Status",
    "pricing": "Pricing",
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running_demo(tmp_path_factory.mktemp("pages")) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def addresses(demo: Demo) -> dict[str, str]:
    """Every kind of page by its name."""
    brief = httpx.get(f"{demo.base_url}/api/agent/briefs?limit=1").json()["briefs"][0]["url"]
    guide = httpx.get(f"{demo.base_url}/api/agent/guides").json()["guides"][0]["url"]
    return {**KINDS, "brief": brief, "guide": guide}


def _open(look: Look, address: str) -> None:
    look.page.goto(address, wait_until="load")
    if address == "/docs":
        look.page.wait_for_selector(".opblock")


def _is_missing(kind: str) -> bool:
    return kind in {"not-found", "link-not-usable"}


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
@pytest.mark.parametrize("kind", [*KINDS, "brief", "guide"])
def test_a_page_has_no_violation_no_error_and_no_sideways_scroll(
    kind: str, view: View, demo: Demo, browser: Browser, addresses: dict[str, str]
) -> None:
    with looking(browser, demo.base_url, view) as look:
        _open(look, addresses[kind])
        look.picture(f"{kind}-{view.name}")
        assert look.overflow() <= 0
        # What Swagger UI draws is its own; the frame around it is ours.
        assert look.violations(out_of="#swagger-ui" if kind == "docs" else None) == []
        refused = [each for each in look.problems if "status of 4" not in each]
        assert (refused if _is_missing(kind) else look.problems) == []
        assert look.hosts == {demo.base_url.split("/")[2]}


@pytest.mark.parametrize("kind", [*KINDS, "brief", "guide"])
def test_a_page_is_complete_without_javascript(
    kind: str, demo: Demo, browser: Browser, addresses: dict[str, str]
) -> None:
    with looking(browser, demo.base_url, java_script_enabled=False) as look:
        look.page.goto(addresses[kind])
        assert look.page.locator("h1").count() == 1
        if kind in HEADINGS:
            assert HEADINGS[kind].lower() in look.page.locator("h1").inner_text().lower()
        assert look.page.locator("footer").inner_text().count("not financial advice") == 1
        assert look.page.locator("button[data-copy]:visible").count() == 0


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
        assert len(sizes) <= 5
        assert sum(sizes) <= 40_000
