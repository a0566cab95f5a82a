"""What visitors do on the site, in a real browser; and every link, followed."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from html.parser import HTMLParser
from urllib.parse import quote, urldefrag, urljoin

import httpx2
import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from barograph.signals.methods import MACRO_METHODS, MARKET_METHODS
from support.browsing import PHONE, Demo, Look, chromium, looking, running_demo
from support.processes import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

TURN = timedelta(seconds=5)
"""After so long a page asks for news again."""

PATIENCE = timedelta(seconds=10)
"""For so long it waits for an answer."""

PAST_ITS_BOUND = timedelta(seconds=21)
"""So much later nothing that the demo has read of the market is fresh any more."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running_demo(tmp_path_factory.mktemp("stories")) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def look(demo: Demo, browser: Browser) -> Iterator[Look]:
    with looking(browser, demo.base_url) as found:
        yield found


@pytest.fixture
def page(look: Look) -> Page:
    return look.page


def _barograph(demo: Demo, *arguments: str) -> str:
    command = [sys.executable, "-m", "barograph", *arguments, "--data", str(demo.data)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


def test_a_visitor_registers_a_key_and_uses_it(demo: Demo, look: Look, page: Page) -> None:
    page.goto("/developers#get-a-key")
    page.get_by_label("E-mail address").fill("visitor@example.com")
    page.get_by_role("button", name="Send me a link").click()
    expect(page.locator("h1")).to_have_text("Check your mailbox")
    link = _mailed_link(demo)
    page.goto(link)
    page.get_by_role("button", name="Show my key").click()
    key = page.locator(".key").inner_text().strip()
    assert look.problems == []
    answer = httpx2.get(f"{demo.base_url}/api/v1/signals", headers={"X-API-Key": key})
    assert answer.status_code == 200
    assert "q=1000" in answer.headers["RateLimit-Policy"]


def _mailed_link(demo: Demo) -> str:
    def newest() -> str | None:
        mails = json.loads(_barograph(demo, "demo", "mail", "--json"))
        return str(mails[-1]["links"][0]) if mails else None

    return eventually(newest, "a mail")


def test_an_address_full_of_markup_stays_text(page: Page) -> None:
    mark = '"><b id=own>'  # short enough that a search does not cut it
    page.goto(f"/markets?q={quote(mark)}")
    expect(page.get_by_role("searchbox")).to_have_value(mark)
    expect(page.locator("#own")).to_have_count(0)
    page.goto(f"/markets/{quote(mark)}")
    expect(page.locator("main code")).to_have_text(mark)
    expect(page.locator("#own")).to_have_count(0)
    page.goto("/markets")
    page.get_by_role("searchbox").fill(mark)
    expect(page.locator("#nothing")).to_be_visible()
    expect(page.locator("#own")).to_have_count(0)


def test_a_badge_is_copied_as_markdown(look: Look, page: Page) -> None:
    look.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/signals/btc-funding-regime")
    button = page.locator("button[data-copy]:visible").first
    button.click()
    expect(button).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "/badge/signal/btc-funding-regime.svg" in copied


def test_briefs_are_paged_to_the_oldest_and_back(page: Page) -> None:
    page.goto("/briefs")
    first = page.locator("main li a").first.inner_text()
    seen = 1
    while (older := page.locator("a[rel=next]")).count():
        older.first.click()
        page.wait_for_load_state()
        seen += 1
    assert seen > 1
    for _ in range(seen - 1):
        page.locator("a[rel=prev]").first.click()
        page.wait_for_load_state()
    assert page.locator("main li a").first.inner_text() == first


def test_an_endpoint_is_tried_out_in_the_docs(demo: Demo, look: Look, page: Page) -> None:
    page.goto("/docs")
    page.get_by_role("button", name="Load the interactive reference").click()
    block = page.locator(".opblock", has_text="/api/agent/market-state").first
    block.locator("button").first.click()
    block.get_by_role("button", name="Try it out").click()
    block.get_by_role("button", name="Execute").click()
    status = block.locator(".live-responses-table tbody .response-col_status").first
    expect(status).to_contain_text("200")
    assert look.hosts == {demo.base_url.split("/")[2]}
    assert look.problems == []


def test_a_watchlist_is_kept_in_the_browser(look: Look, page: Page) -> None:
    page.goto("/markets?sort=symbol&order=asc")
    for symbol in ("SOL", "BTC"):
        page.get_by_role("button", name=f"Watch {symbol}", exact=True).click()
    page.get_by_role("link", name="Watchlist").click()
    shown = page.locator("tbody tr:visible")
    expect(shown).to_have_count(2)
    page.reload()
    expect(shown).to_have_count(2)
    assert page.url.endswith("?sort=symbol&order=asc&watch=1")
    assert look.violations() == []
    page.goto("/")
    expect(page.locator("#watchlist tbody th")).to_have_text(["BTC", "SOL"])
    assert look.violations() == []
    assert look.problems == []


def test_a_saved_view_has_its_columns_and_back_undoes_a_sort(look: Look, page: Page) -> None:
    page.goto("/markets")
    page.get_by_role("link", name="OI ≥ $100M").click()
    page.locator("th[data-sort=change] a").click()
    assert page.url.endswith("/markets?least=100&sort=change&order=desc")
    page.go_back()
    expect(page.locator("[aria-sort]")).to_have_text("Open interest")
    page.go_forward()
    page.get_by_text("Columns and views").click()
    page.get_by_label("Volume 24 h").uncheck()
    page.get_by_placeholder("Name of this view").fill("Large")
    page.get_by_role("button", name="Save view").click()
    page.goto("/markets")
    page.get_by_role("link", name="Large", exact=True).click()
    page.wait_for_url("**/markets?least=100&sort=change&order=desc")
    expect(page.locator("thead th:visible")).to_have_count(page.locator("thead th").count() - 1)
    page.goto("/markets?venue=bybit")  # whose ninth column is another one
    expect(page.locator("thead th:visible")).to_have_count(page.locator("thead th").count())
    assert look.violations() == []
    assert look.problems == []


def test_control_k_finds_a_coin_by_its_name_and_a_section_of_the_docs(
    look: Look, page: Page
) -> None:
    page.goto("/status")
    found = page.locator(".finder [role=option]")
    for words, first, address in (
        ("ether", "ETH", "**/markets/ETH"),
        ("sol liquid", "SOL", "**/markets/SOL"),
        ("regime b", "Regime bands", "**/developers/methods#regime"),
    ):
        page.keyboard.press("Control+k")
        expect(page.locator(".finder input")).to_be_focused()
        page.keyboard.type(words)
        expect(found.first).to_contain_text(first)
        assert look.violations() == []
        page.keyboard.press("Escape")
        expect(page.locator(".finder")).to_be_hidden()
        page.keyboard.press("Control+k")
        expect(page.locator(".finder input")).to_be_focused()
        page.keyboard.type(words)
        expect(found.first).to_contain_text(first)
        page.keyboard.press("Enter")
        page.wait_for_url(address)  # and until the page is loaded, with its scripts
    assert look.problems == []


def test_a_watchlist_says_what_it_lacks_and_keeps_the_focus(page: Page) -> None:
    page.goto("/markets")
    page.evaluate('localStorage.setItem(\'watched-perpetuals\', \'["BTC","ETH","GONE"]\')')
    page.goto("/markets?q=none&q=&watch=1&sort=symbol")
    note, star = page.locator("#watched"), page.get_by_role("button", name="Watch ")
    expect(note).to_have_text("1 watched coin is not listed here: GONE.")
    star.first.click()
    expect(page.get_by_role("button", name="Watch ETH")).to_be_focused()
    page.evaluate("Storage.prototype.setItem = null")
    star.first.click()
    expect(page.get_by_role("link", name="Watchlist")).to_be_focused()
    expect(note).to_contain_text("blocks storage for this site, so it forgets your watchlist")


def test_a_slash_leads_to_the_search_and_escape_clears_it(page: Page) -> None:
    page.goto("/markets?sort=symbol&order=asc")
    shown = page.locator("tbody tr:visible")
    everything = shown.count()
    page.keyboard.press("/")
    page.keyboard.type("btc ")
    expect(shown.first).to_contain_text("BTC")
    assert shown.count() < everything
    assert page.url.endswith("?sort=symbol&order=asc&q=btc+")
    page.keyboard.press("Escape")
    expect(shown).to_have_count(everything)
    assert page.url.endswith("?sort=symbol&order=asc")


@pytest.mark.parametrize(
    ("sort", "column"),
    [("price", 1), ("change", 2), ("funding", 3), ("week", 6), ("long-accounts", 8)],
)
def test_markets_are_sorted_by_what_their_rows_show(page: Page, sort: str, column: int) -> None:
    page.goto("/markets?venue=bybit")
    down = _sorted(page, sort, column)
    up = _sorted(page, sort, column)
    assert down == sorted(down, reverse=True)
    assert up == sorted(up)
    assert len(up) > 50
    assert len(set(up)) > 1
    heading = page.locator(f"th[data-sort={sort}]")
    assert heading.get_attribute("aria-sort") == "ascending"


def _sorted(page: Page, sort: str, column: int) -> list[float]:
    """Press a heading and read a column at once, before anything new comes."""
    shown: list[str] = page.evaluate(
        """([sort, column]) => {
            document.querySelector(`th[data-sort="${sort}"] a`).click();
            const rows = [...document.querySelectorAll("tbody tr")];
            return rows.map((row) => row.cells[column].firstChild.textContent);
        }""",
        [sort, column],
    )
    return [float(each.replace(",", "")) for each in shown if each != "—"]


def test_a_chart_tells_the_value_under_the_pointer(look: Look, page: Page) -> None:
    page.goto("/")
    rates, interest = page.locator("svg[data-series]").all()[:2]
    rates.hover()
    expect(_readout(rates)).to_contain_text(re.compile(r"UTC: [+-]0\.\d+\s% per 8\sh$"))
    interest.hover()
    expect(_readout(interest)).to_contain_text(re.compile(r"UTC: \$\d+\.\d\dB(, missing \$|$)"))
    expect(_readout(rates)).not_to_contain_text("UTC:")
    assert look.problems == []


def test_a_tap_on_a_chart_tells_a_value_and_keeps_it(demo: Demo, browser: Browser) -> None:
    with looking(browser, demo.base_url, PHONE, has_touch=True) as look:
        look.page.goto("/")
        first, second = look.page.locator("svg[data-series]").all()[:2]
        first.tap()
        expect(_readout(first)).to_contain_text("UTC: ")
        look.page.mouse.wheel(0, 300)
        expect(_readout(first)).to_contain_text("UTC: ")
        second.tap()
        expect(_readout(second)).to_contain_text("UTC: ")
        expect(_readout(first)).not_to_contain_text("UTC: ")
        look.page.locator("h1").tap()
        expect(_readout(second)).not_to_contain_text("UTC: ")
        assert look.problems == []


def test_a_chart_is_read_by_keys(look: Look, page: Page) -> None:
    page.goto("/")
    chart = page.locator("svg[data-series]").first
    page.locator("#charts figcaption").first.locator("a").last.focus()
    page.keyboard.press("Tab")
    expect(chart).to_be_focused()
    readout = _readout(chart)
    expect(readout).to_contain_text("UTC: ")
    expect(readout).to_have_attribute("aria-live", "polite")
    seen = [readout.inner_text()]
    for key in ("ArrowLeft", "ArrowLeft", "Home"):
        page.keyboard.press(key)
        expect(readout).not_to_have_text(seen[-1])
        seen.append(readout.inner_text())
    assert sorted(seen, reverse=True) == seen
    assert look.violations() == []
    page.keyboard.press("Escape")
    expect(chart).not_to_be_focused()
    expect(readout).not_to_contain_text("UTC: ")
    assert readout.get_attribute("aria-live") is None


@pytest.mark.parametrize("width", [1280, 390, 320])
def test_nothing_moves_while_a_chart_is_read(demo: Demo, browser: Browser, width: int) -> None:
    view = PHONE._replace(name=str(width), width=width)
    with looking(browser, demo.base_url, view, has_touch=True) as look:
        look.page.clock.install()  # nothing is replaced meanwhile
        for path in ("/?days=30", "/markets/BTC?days=30"):
            look.page.goto(path)
            for chart in look.page.locator("svg[data-series]").all():
                before = _places(look.page)
                chart.hover()
                expect(_readout(chart)).to_contain_text("UTC: ")
                expect(chart.locator(".dot")).to_have_count(1)
                assert _places(look.page) == before
                _expect_readable(chart)
                chart.tap()
                assert _places(look.page) == before
                chart.focus()
                for key in ("Home", "ArrowRight", "End"):
                    look.page.keyboard.press(key)
                    expect(_readout(chart)).to_contain_text("UTC: ")
                    _expect_readable(chart)
                assert _places(look.page) == before
        assert look.problems == []


def _places(page: Page) -> list[list[float]]:
    """Where every visible part of the page is."""
    found: list[list[float]] = page.evaluate(
        """() => [...document.querySelectorAll("section, h2, figure, figure > *")]
          .filter((each) => each.checkVisibility()).map((each) => {
            const box = each.getBoundingClientRect();
            return [box.x + scrollX, box.y + scrollY, box.width, box.height].map(Math.round);
        })"""
    )
    return found


def _expect_readable(chart: Locator) -> None:
    """The value is shown whole."""
    assert _readout(chart).evaluate(
        "(each) => each.scrollHeight <= each.clientHeight && each.scrollWidth <= each.clientWidth"
    )


def test_values_that_did_not_come_are_asked_for_again(page: Page) -> None:
    page.goto("/")
    page.route("**/api/v1/series/**", lambda route: route.abort(), times=1)
    chart = page.locator("svg[data-series]").first
    with page.expect_event("requestfailed"):
        chart.hover(position={"x": 90, "y": 60})
    expect(_readout(chart)).not_to_contain_text("UTC:")
    chart.hover(position={"x": 100, "y": 60})
    chart.hover(position={"x": 110, "y": 60})
    expect(_readout(chart)).to_contain_text("UTC:")


def _readout(chart: Locator) -> Locator:
    return chart.locator("xpath=ancestor::figure").locator(".readout")


def test_every_link_of_every_page_resolves(demo: Demo) -> None:
    broken: list[str] = []
    ids: dict[str, set[str]] = {}
    fragments: set[tuple[str, str]] = set()
    with httpx2.Client(timeout=30, follow_redirects=True) as client:
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
            ids[address] = page.ids
            for link, fragment in map(urldefrag, page.links):
                target = urljoin(address, link)
                if target.startswith(demo.base_url) and not _is_one_of_many(target):
                    path = target.removeprefix(demo.base_url)
                    if path not in known:
                        known.add(path)
                        waiting.append(path)
                if fragment:
                    fragments.add((target, fragment))
    inside = {(target, name) for target, name in fragments if target in ids}
    broken += [f"no #{name} in {target}" for target, name in inside if name not in ids[target]]
    assert broken == []
    assert len(inside) > 50
    assert len(known) > 150


def _is_for_payers(answer: httpx2.Response) -> bool:
    return answer.status_code == 402 and "/api/" in answer.request.url.path


def _is_one_of_many(target: str) -> bool:
    """Pages of contracts, of briefs and of filters are alike, and there are hundreds of each.

    Some stand for all, because one address may cause only 600 renders per minute.
    """
    filtered = re.match(r".*/(?:\w+\?.*&.*&|markets/.*&|briefs/coin/.*\?)", target)
    if filtered or re.match(r".*/briefs/(?:daily-wrap-)?\d{4}-\d\d-\d[1-9]", target):
        return True
    found = re.match(r".*(?:/(?:markets|data|cross|chart)/|[?&]symbol=)([^/.?&#]+)", target)
    return found is not None and found[1] not in {"BTC", "1000PEPE", "PEPE"}


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
    demo: Demo, look: Look, page: Page
) -> None:
    # One signal needs the past of the other venues, which is back-filled after the start.
    eventually(lambda: "big unknown" not in httpx2.get(demo.base_url).text, "every signal", 180)
    page.goto("/")
    pill = page.locator("[data-pill]").first
    unknown = page.locator("#signals-now dd.unknown")
    expect(pill).to_have_text("live")
    expect(unknown).to_have_count(0)
    page.evaluate(_LISTEN)
    # The page asks at its own pace: a jump of its clock could make it stale on a busy machine.
    read = page.locator("#market [data-since]")
    before = str(read.get_attribute("data-since"))
    expect(read).not_to_have_attribute("data-since", before, timeout=60_000)
    _barograph(demo, "demo", "fault", "exchange", "on")
    try:
        expect(pill).to_have_text("stale", timeout=60_000)
        figures = page.locator("#figures")
        expect(figures).to_have_class(re.compile("past"), timeout=60_000)
        expect(figures.locator("table")).to_be_visible()
        expect(unknown).to_have_count(len(MARKET_METHODS) - 1)
    finally:
        _barograph(demo, "demo", "fault", "exchange", "off")
    expect(pill).to_have_text("live", timeout=60_000)
    expect(figures).not_to_have_class(re.compile("past"))
    heard = [f"Page status: {each}" for each in ("stale", "live")]
    assert page.evaluate("window.heard") == heard
    assert look.problems == []


_LISTEN = """() => {
    const said = document.querySelector("[role=status]");
    window.heard = [];
    const listener = new MutationObserver(() => window.heard.push(said.textContent));
    listener.observe(said, { childList: true });
}"""


def _wait_for_news(page: Page, where: str = "#market") -> None:
    """Wait until the page has shown a newer reading than now."""
    read = page.locator(f"{where} [data-since]")
    before = read.get_attribute("data-since")
    _take_turns(page, lambda: read.get_attribute("data-since") != before, "a newer reading")


def _take_turns(page: Page, is_shown: Callable[[], bool], what: str) -> None:
    """Let the page ask again and again, without the pauses, until it shows something."""

    def ask_and_look() -> bool:
        with page.expect_response(lambda answer: answer.request.resource_type == "fetch"):
            _pass_time(page, TURN)
        return is_shown()

    eventually(ask_and_look, what, 60)


def _pass_time(page: Page, time: timedelta) -> None:
    """Let the page, whose clock can be moved, be so much older at once."""
    page.clock.fast_forward(time // timedelta(milliseconds=1))


REST = timedelta(minutes=31)
"""After so long without the page, the next look is another visit."""

_COME_BACK = """(fewer) => {
    const id = Number(document.getElementById("visits").dataset.last) - fewer;
    const seen = { at: Date.now() - 24 * 3_600_000, id };
    localStorage.setItem("barograph.visits", JSON.stringify({ seen }));
}"""


def test_a_visitor_who_comes_back_reads_what_changed(look: Look, page: Page) -> None:
    page.clock.install()
    page.goto("/")
    visits = page.locator("#visits")
    expect(visits).to_be_hidden()
    page.evaluate(_COME_BACK, 100)
    for _ in range(2):  # a reload belongs to the same visit
        page.goto("/")
        expect(visits.locator("li a:visible")).to_have_count(8)
        expect(visits.get_by_text("Nothing changed.")).to_be_hidden()
    assert look.violations() == []

    def come_back_at_once() -> bool:
        page.evaluate(_COME_BACK, 0)
        page.goto("/")
        return visits.get_by_text("Nothing changed.").is_visible()

    eventually(come_back_at_once, "a visit between two events")
    before = visits.locator("time").first.inner_text()
    _pass_time(page, REST)
    _take_turns(page, lambda: visits.locator("time").first.inner_text() != before, "a new visit")
    assert look.problems == []


NO_STORAGE = "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } })"
_AT_FIRST = """new MutationObserver((_, observer) => {
    if (document.body === null) return;
    window.themeAtFirst = document.documentElement.dataset.theme;
    observer.disconnect();
}).observe(document, { childList: true, subtree: true });"""


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "storage is blocked"])
def test_a_chosen_theme_is_applied_before_anything_is_drawn(
    look: Look, page: Page, *, is_kept: bool
) -> None:
    # the system's theme is light
    page.add_init_script(_AT_FIRST if is_kept else f"{NO_STORAGE}; {_AT_FIRST}")
    page.goto("/pricing")
    control, colours = page.get_by_label("Theme"), {}
    expect(control).to_have_value("system")
    for theme in ("dark", "light", "system"):
        control.select_option(theme)
        colours[theme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.reload()
        expect(control).to_have_value(theme if is_kept else "system")
        assert page.evaluate("themeAtFirst") == (theme if is_kept else "system")
    assert colours["dark"] != colours["light"] == colours["system"]
    assert look.problems == []


def test_a_browser_that_keeps_nothing_has_only_first_visits(look: Look, page: Page) -> None:
    page.add_init_script(NO_STORAGE)
    for _ in range(2):
        page.goto("/", wait_until="networkidle")
        expect(page.locator("#visits")).to_be_hidden()
    assert look.problems == []


def test_news_take_nobody_from_where_they_are(look: Look, page: Page) -> None:
    page.clock.install()
    page.goto("/")
    link = page.locator("#market .trust a").last
    link.focus()
    before = page.locator("#state").inner_text()
    page.evaluate("document.getElementById('briefs-now').isTheFirst = true")
    _wait_for_news(page)
    expect(page.locator("#state")).not_to_have_text(before)
    expect(link).to_be_focused()
    assert page.evaluate("document.getElementById('briefs-now').isTheFirst")
    assert look.problems == []


@pytest.mark.parametrize(
    ("address", "read", "selected"),
    [("/", "#market", "#movers td"), ("/markets", "#as-of", "tbody tr td")],
)
def test_news_take_no_selection_away(page: Page, address: str, read: str, selected: str) -> None:
    page.clock.install()
    page.goto(address)
    text = page.locator(selected).first
    text.evaluate("(each) => getSelection().selectAllChildren(each)")
    before = text.inner_text()
    _wait_for_news(page, read)
    assert page.evaluate("String(getSelection())").strip() == before
    assert text.inner_text() == before
    page.evaluate("getSelection().removeAllRanges()")
    _take_turns(page, lambda: text.inner_text() != before, "another text")


def test_a_page_that_hears_nothing_new_says_at_its_bound_that_it_is_stale(
    demo: Demo, look: Look, page: Page
) -> None:
    later = timedelta(0)

    def nothing_new(route: Route) -> None:
        date = format_datetime(datetime.now(UTC) + later, usegmt=True)
        route.fulfill(status=304, headers={"Date": date})

    page.clock.install()
    page.goto("/")
    page.route(f"{demo.base_url}/", nothing_new)
    page.evaluate(_LISTEN)
    later = PAST_ITS_BOUND
    _pass_time(page, PAST_ITS_BOUND)
    expect(page.locator("[data-pill]")).to_have_text("stale", timeout=40_000)
    expect(page.locator("h1")).to_have_text("We don't have a current market reading.")
    price = page.locator("#figures .big").first
    expect(price).to_have_css("text-decoration-line", "line-through")
    measure = page.locator("#figures .measure").first
    expect(measure).to_have_css("text-decoration-line", "line-through")
    expect(page.locator("#signals-now .big", has_text="unknown")).to_have_count(
        len(MARKET_METHODS) - 1
    )
    assert page.evaluate("window.heard") == ["Page status: stale"]
    assert look.violations() == []
    page.unroute(f"{demo.base_url}/")
    pill = page.locator("[data-pill]")
    _take_turns(page, lambda: pill.inner_text() == "live", "live again")
    expect(price).to_have_css("text-decoration-line", "none")


@pytest.mark.parametrize("address", ["/", "/markets", "/markets/BTC", "/signals"])
def test_a_page_that_is_cut_off_shows_no_old_number_as_new(
    look: Look, page: Page, address: str
) -> None:
    page.clock.install()
    page.goto(address, wait_until="networkidle")
    expect(page.locator(".past")).to_have_count(0)
    bounds = page.locator("[data-bound]").count()
    look.context.set_offline(True)
    _pass_time(page, PAST_ITS_BOUND)
    expect(page.locator("[data-pill]")).to_have_text("connection lost", timeout=40_000)
    past = bounds - (len(MACRO_METHODS) if address in {"/", "/signals"} else 0)
    expect(page.locator(".past")).to_have_count(past, timeout=40_000)
    for picture in page.locator("img[src*=badge]").all():
        expect(picture).to_be_hidden()
    expect(page.locator("[data-pill]")).to_have_text("connection lost")
    look.context.set_offline(False)
    _pass_time(page, PAST_ITS_BOUND)
    expect(page.locator("[data-pill]")).to_have_text("live", timeout=40_000)
    expect(page.locator(".past")).to_have_count(0)


def test_a_page_that_is_gone_says_so_and_blames_no_connection(page: Page) -> None:
    page.clock.install()
    page.goto("/markets/SOL")
    pill = page.locator("[data-pill]")
    page.route("**/markets/SOL", lambda route: route.fulfill(status=404))
    _take_turns(page, lambda: pill.inner_text() == "page removed", "that it is gone")
    page.unroute("**/markets/SOL")
    _take_turns(page, lambda: pill.inner_text() == "live", "live again")


def test_a_page_without_an_answer_gives_up_says_so_and_asks_one_at_a_time(
    demo: Demo, look: Look, page: Page
) -> None:
    page.clock.install()
    look.context.add_init_script(_PATIENCE_BY_THE_PAGE_S_CLOCK)
    page.goto("/", wait_until="networkidle")
    pill = page.locator("[data-pill]")
    events: list[str] = []
    page.on("requestfailed", lambda _: events.append("given up"))
    page.route(f"{demo.base_url}/", lambda _: events.append("left waiting"))
    with page.expect_request(f"{demo.base_url}/"):
        _pass_time(page, TURN)
    _pass_time(page, PATIENCE / 2)
    expect(pill).to_have_text("live")
    _pass_time(page, PATIENCE / 2)
    expect(pill).to_have_text("connection lost")
    expect(page.get_by_role("status")).to_have_text("Page status: connection lost")
    assert events[:2] == ["left waiting", "given up"]
    page.unroute(f"{demo.base_url}/")
    _take_turns(page, lambda: pill.inner_text() == "live", "live again")


_PATIENCE_BY_THE_PAGE_S_CLOCK = """AbortSignal.timeout = (time) => {
    const patience = new AbortController();
    setTimeout(() => patience.abort(new DOMException("", "TimeoutError")), time);
    return patience.signal;
}"""
"""The browser's own goes by the machine's clock, which cannot be moved: ten seconds of waiting."""


def test_ages_go_by_the_clock_of_the_server(page: Page) -> None:
    page.clock.install(time=datetime.now(UTC) + timedelta(hours=3))
    page.goto("/")
    age = page.locator("#market [data-since]")
    expect(age).to_have_text(re.compile(r"\(3 h \d+ min ago\)"))
    _take_turns(page, lambda: age.inner_text().endswith(" s ago)"), "the server's time")
    expect(page.locator("[data-pill]")).to_have_text("live")
