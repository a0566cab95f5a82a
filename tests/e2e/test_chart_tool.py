"""The large chart of a coin page in a real browser: what it draws, says, links to and saves."""

import csv
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from support.browsing import NARROW, Demo, Look, chromium, looking, running_demo
from support.processes import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

SERIES = "**/api/v1/series/**"
DRAWN = "#chart-tool[data-drawn]"
COLOURS = """() => {
    const sheet = document.querySelector("#chart-tool canvas");
    const { data } = sheet.getContext("2d").getImageData(0, 0, sheet.width, sheet.height);
    return new Set(new Uint32Array(data.buffer)).size;
}"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running_demo(tmp_path_factory.mktemp("chart")) as found:
        week = {"from": f"{datetime.now(UTC) - timedelta(days=7):%Y-%m-%dT%H:00Z}", "limit": "170"}

        def is_filled() -> bool:
            return all(len(each["venues"]) > 1 for each in _points(found, "open-interest", **week))

        eventually(is_filled, "the week of the other venues, which the collector back-fills", 300)
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def look(demo: Demo, browser: Browser) -> Iterator[Look]:
    with looking(browser, demo.base_url, accept_downloads=True) as found:
        yield found


@pytest.fixture
def page(look: Look) -> Page:
    return look.page


def _open(page: Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector(DRAWN)
    expect(page.locator(".chart-state")).to_be_hidden()


def _points(demo: Demo, measure: str, **query: str) -> list[dict[str, Any]]:
    query = {"symbol": "BTC", "venue": "all", "limit": "5000", **query}
    answer = httpx2.get(f"{demo.base_url}/api/v1/series/{measure}", params=query)
    points: list[dict[str, Any]] = answer.json()["points"]
    return points


def _saved(page: Page, kind: str, coin: str = "BTC") -> Path:
    with page.expect_download() as begun:
        page.get_by_role("button", name=kind, exact=True).click()
    name = rf"barograph-{coin}-all(-\d{{4}}-\d\d-\d\dT\d{{4}}){{2}}\.{kind.lower()}"
    assert re.fullmatch(name, begun.value.suggested_filename)
    return Path(begun.value.path())


def test_it_says_what_the_api_has_and_the_address_restores_it(demo: Demo, page: Page) -> None:
    _open(page, "/markets/BTC")
    chart, readout = page.locator("#chart-tool canvas"), page.locator(".chart-readout")
    assert page.evaluate(COLOURS) > 20
    chart.hover(position={"x": 300, "y": 200})
    expect(readout).not_to_contain_text("newest in view")
    at = re.search(r"[\d-]{10} \d\d:\d\d", readout.inner_text())
    assert at is not None
    [day, hour] = at[0].split()
    [spot] = _points(demo, "price", **{"from": f"{day}T{hour}:00Z", "limit": "1"})
    [interest] = _points(demo, "open-interest", **{"from": f"{day}T{hour}:00Z", "limit": "1"})
    [funding] = _points(demo, "funding", **{"from": f"{day}T{hour}:00Z", "limit": "1"})
    expect(readout).to_contain_text(f"Price {spot['value']:,.2f} USDT")
    expect(readout).to_contain_text(f"Open interest ${interest['value'] / 1e9:.2f}B")
    expect(readout).to_contain_text(f"Funding {funding['value']:+.4f} % per 8 h")

    chart.focus()
    for key in ("+", "ArrowLeft"):
        page.keyboard.press(key)
    page.wait_for_url(re.compile(r"#chart=[\d-]+T[\d:]+Z_"))
    assert page.locator("a[rel=next]").evaluate("link => link.hash") in page.url
    expect(readout).to_have_attribute("aria-live", "polite")
    shown = page.url
    page.mouse.wheel(0, 200)
    page.wait_for_url(lambda url: url != shown)
    page.keyboard.press("Escape")
    expect(chart).not_to_be_focused()
    top = page.evaluate("scrollY")
    page.mouse.wheel(0, 100)
    eventually(lambda: page.evaluate("scrollY") > top, "a scrolled page")
    _open(page, shown)
    assert page.url == shown
    page.keyboard.press("Tab")
    chart.focus()
    page.keyboard.press("5")
    page.wait_for_url("**#chart=30d")
    expect(page.get_by_role("button", name="30d")).to_have_attribute("aria-pressed", "true")


def test_downloads_have_what_is_shown_also_of_a_comparison(demo: Demo, page: Page) -> None:
    _open(page, "/markets/BTC#chart=7d&compare=ETH")
    expect(page.locator(".chart-readout")).to_contain_text("since the left edge")
    rows = list(csv.DictReader(_saved(page, "CSV").read_text().splitlines()))
    start = min(row["time"] for row in rows)
    points = _points(demo, "open-interest", **{"from": start})
    totals = [row for row in rows if row["pane"] == "open-interest" and row["venue"] == "all"]
    expected = {each["at"]: each["value"] for each in points}
    assert len(totals) > 100
    assert all(expected[row["time"]] == float(row["value"]) for row in totals if row["value"])
    assert {"price", "price of ETH", "funding", "liquidations of longs"} <= {
        row["pane"] for row in rows
    }
    drawing = _saved(page, "SVG").read_text()
    assert all(text in drawing for text in ("BTC at all venues", "ETH", "Binance", "simulated"))
    assert drawing.count("<path") > 20
    assert _saved(page, "PNG").read_bytes().startswith(b"\x89PNG")
    field = page.get_by_label("Compare")
    field.fill("Bybit")
    field.press("Enter")
    expect(page.locator(".chart-readout")).to_contain_text("BTC at Bybit")
    page.wait_for_url("**compare=BTC%20at%20Bybit")


def test_a_bar_is_read_as_a_whole_and_the_picture_says_what_was_read(
    demo: Demo, page: Page
) -> None:
    known = [each for each in _points(demo, "liquidations")[:-12] if each["value"]]
    largest = max(known, key=lambda each: each["value"])
    hour = datetime.fromisoformat(largest["at"])
    start, end = (f"{hour + timedelta(hours=away):%Y-%m-%dT%H:%MZ}" for away in (-8, 2))
    _open(page, f"/markets/BTC#chart={start}_{end}")
    readout, chart = page.locator(".chart-readout"), page.locator("#chart-tool canvas")
    size = chart.bounding_box()
    assert size is not None
    later = (size["width"] - 76) * 0.88  # 12:48 of 04:00 to 14:00, in the bar from 12:00 to 13:00
    chart.click(position={"x": later, "y": size["height"] - 40})
    expect(readout).to_contain_text(f"{hour:%Y-%m-%d %H:%M} UTC pinned")
    for _ in range(3):
        page.get_by_role("button", name="Zoom in").click()
    page.wait_for_url(lambda url: start not in url)
    with page.expect_download() as begun:
        page.get_by_role("button", name="SVG", exact=True).click()
    drawing = Path(begun.value.path()).read_text()
    assert f"{hour:%Y-%m-%d %H:%M} UTC</text>" in drawing
    assert re.search(r"Liquidations longs \$[\d.]+[kM]?, shorts .*Bybit", drawing)


def test_events_gaps_and_missing_venues_are_named(page: Page) -> None:
    def made(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        for each in body["points"][40:60]:
            each |= {"value": None, "venues": [], "by_venue": [], "with_missing": None}
        for each in body["points"][:40]:
            each["missing"] = [
                {"venue": "gate", "reason": "disputed", "last": 2e9, "last_as_of": None}
            ]
        route.fulfill(response=answer, body=json.dumps(body))

    page.route("**/api/v1/series/open-interest?**", made)
    _open(page, "/markets/BTC")
    readout, chart = page.locator(".chart-readout"), page.locator("#chart-tool canvas")
    chart.hover(position={"x": 120, "y": 200})
    expect(readout).to_contain_text("without Gate (disputed, last $2.00B)")
    chart.hover(position={"x": 290, "y": 200})
    expect(readout).to_contain_text("Open interest no value")
    _open(page, "/markets/BTC#chart=30d")
    for x in range(10, 300, 6):
        chart.hover(position={"x": x, "y": 200})
        if "earlier" in readout.inner_text():
            break
    expect(readout.get_by_role("link")).to_have_count(3)


def test_an_error_is_told_and_retried_when_the_server_allows(page: Page) -> None:
    refused = {"status": 429, "headers": {"Retry-After": "2"}, "json": {"error": "too many"}}
    page.route(SERIES, lambda route: route.fulfill(**refused), times=4)
    page.goto("/markets/BTC")
    state = page.locator(".chart-state")
    expect(state).to_contain_text("Can't load the data: too many. Retry at ")
    expect(state.get_by_role("button")).to_be_disabled()
    refused_at = monotonic()
    with page.expect_request(SERIES):
        page.get_by_role("button", name="30d").click()
    assert monotonic() - refused_at > 1  # a change of the view does not ask earlier
    page.wait_for_selector(DRAWN)
    page.route(SERIES, lambda route: route.fulfill(status=500, json={"error": "broken"}))
    page.get_by_role("button", name="90d").click()
    expect(state).to_contain_text("broken")
    page.unroute(SERIES)
    state.get_by_role("button", name="Retry").click()
    expect(state).to_be_hidden()


@pytest.mark.parametrize("range_shown", ["1h", "90d", "older"])
def test_the_hour_of_the_largest_liquidations_is_one_click_away(
    page: Page, range_shown: str
) -> None:
    since = f"{datetime.now(UTC) - timedelta(days=89):%FT%TZ}"
    query = urlencode({"symbol": "SOL", "venue": "all", "from": since, "interval": "hour"})
    points: list[dict[str, Any]] = []
    address = f"/api/v1/series/liquidations?{query}&limit=5000"
    while address:
        answer = page.request.get(address).json()
        points, address = points + answer["points"], answer["next"]
    most = datetime.fromisoformat(max(points, key=lambda each: each["value"] or 0)["at"])
    watched = next(each["at"] for each in points if each["value"] is not None)[:10]
    if range_shown == "older":
        range_shown = "_".join(f"{most - timedelta(days=ago):%FT%TZ}" for ago in (6, 5))
    _open(page, f"/markets/SOL#chart={range_shown}")
    page.get_by_role("button", name="Largest liquidations").click()
    told = page.locator(".chart-readout")
    expect(told).to_contain_text(
        f"{most:%F %H:%M} UTC most liquidations of any hour since {watched}"
    )
    expect(told).to_contain_text(f"{most:%H:%M}\u2013")
    expect(told).to_contain_text(re.compile(r"In this hour price [+-][\d.]+.%, open interest [+-]"))
    head = f"SOL at all venues: the hour with the most liquidations since {watched}"
    assert head in _saved(page, "SVG", "SOL").read_text()
    page.wait_for_url(f"**&read={most:%FT%H:%M}Z")
    pinned = page.url
    page.locator("#chart-tool canvas").focus()
    page.keyboard.press("Home")
    expect(told).to_contain_text("newest in view")  # the hour is out of sight
    assert head not in _saved(page, "SVG", "SOL").read_text()
    _open(page, pinned)
    expect(told).to_contain_text(f"{most:%F %H:%M} UTC pinned")


def test_without_liquidations_the_chart_is_complete_and_says_why(page: Page) -> None:
    page.route(
        "**/series/liquidations?**", lambda route: route.fulfill(json={"points": [], "next": None})
    )
    page.goto("/markets/SOL")
    page.get_by_role("button", name="Largest liquidations").click()  # while the series are loaded
    why = page.locator(".chart-why")
    expect(why).to_contain_text("We have no liquidations of SOL. Exchanges don't publish past ones")
    page.wait_for_selector(DRAWN)
    expect(page.locator(".chart-readout")).to_contain_text("Open interest $")


def test_a_comparison_names_an_unknown_venue_and_a_late_coin(page: Page) -> None:
    def listed_late(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        del body["points"][:90]
        route.fulfill(response=answer, body=json.dumps(body))

    page.route(re.compile(r"series/price\?symbol=ETH"), listed_late)
    _open(page, "/markets/BTC#chart=7d&compare=ETH%20at%20Kraken")
    expect(page.locator(".chart-why")).to_contain_text("No venue here is called Kraken.")
    told = page.locator(".chart-readout")
    expect(told).to_contain_text("Price ")
    field = page.get_by_label("Compare")
    field.fill("ETH")
    field.press("Enter")
    start = datetime.now(UTC) - timedelta(days=7)
    expect(told).to_contain_text(re.compile(r"ETH since 20[\d-]+ \d\d:00 UTC [+-]"))
    since = re.search(r"ETH since ([\d-]+ [\d:]+)", told.inner_text())
    assert since is not None
    assert datetime.fromisoformat(f"{since[1]}+00:00") > start + timedelta(days=3)
    expect(page.locator(".chart-why")).to_have_text("")


def test_two_fingers_zoom_and_lifting_one_of_them_keeps_the_zoom(
    demo: Demo, browser: Browser
) -> None:
    with looking(browser, demo.base_url, has_touch=True) as look:
        _open(look.page, "/markets/BTC")
        assert "#" not in look.page.url
        chart = look.page.locator("#chart-tool canvas")
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        assert box is not None
        session = look.page.context.new_cdp_session(look.page)

        def touch(kind: str, places: Mapping[int, float]) -> None:
            points = [
                {"x": box["x"] + x, "y": box["y"] + 200, "id": finger}
                for finger, x in places.items()
            ]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        touch("touchStart", {0: 300, 1: 600})
        touch("touchMove", {0: 200, 1: 700})
        touch("touchEnd", {0: 200})
        touch("touchMove", {1: 760})
        touch("touchEnd", {})
        look.page.wait_for_url("**#chart=*_*")
        start, end = map(datetime.fromisoformat, look.page.url.partition("=")[2].split("_"))
        assert timedelta(days=4) < end - start < timedelta(days=5)


def test_one_venue_a_phone_and_a_page_without_javascript(
    demo: Demo, browser: Browser, look: Look
) -> None:
    look.visit("/markets/BTC?venue=hyperliquid", NARROW)
    look.page.wait_for_selector(DRAWN)
    expect(look.page.locator(".chart-why")).to_contain_text("No liquidations: ")
    assert look.page.evaluate(COLOURS) > 10
    assert look.overflow() <= 0
    assert look.violations() == []
    assert look.problems == []
    with looking(browser, demo.base_url, java_script_enabled=False) as plain:
        plain.visit("/markets/BTC")
        expect(plain.page.locator("#chart-tool")).to_be_hidden()
        assert plain.page.locator("#charts svg[data-series]:visible").count() == 3
