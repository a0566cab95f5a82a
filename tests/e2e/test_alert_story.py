"""A fresh user without a shell: from the site alone to a message that stops itself."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from barograph.settings.must_set import PHONE_FILE
from support.browsing import VIEWS, Demo, Look, chromium, looking, running_demo
from support.processes import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running_demo(tmp_path_factory.mktemp("alerts")) as found:
        yield found


@pytest.fixture
def look(demo: Demo) -> Iterator[Look]:
    with chromium() as browser, looking(browser, demo.base_url) as found:
        yield found


def arrived(phone: Page, way: str, words: str) -> str:
    """The text of a message on the phone, which refreshes itself."""
    message = phone.locator("article", has_text=way).filter(has_text=words).first
    expect(message).to_be_visible()
    return message.inner_text()


def previewed(page: Page) -> str:
    """When the previewed rule would have told us last."""
    told = page.locator("#preview li").all_inner_texts()
    return told[0].partition(" UTC")[0] if told else ""


def watched(demo: Demo) -> bool:
    with closing(sqlite3.connect(demo.data / "barograph.sqlite3")) as database:
        return bool(database.execute("SELECT * FROM alert_states").fetchall())


def test_a_fresh_user_is_told_once_by_mail_and_phone_and_stops_it_from_the_message(
    demo: Demo, look: Look
) -> None:
    page, phone = look.page, look.context.new_page()
    page.goto("/markets/BTC")
    page.get_by_role("link", name="Alert me").click()
    page.get_by_role("link", name="phone").click()
    phone.goto((demo.data / PHONE_FILE).read_text())
    assert page.url == phone.url
    page.go_back()
    page.get_by_label("E-mail address").fill("trader@example.com")
    page.get_by_role("button", name="Send me a link").click()
    link = re.search(r"\S+/keys/[\w-]+", arrived(phone, "mail", "free Barograph API key"))
    assert link is not None
    page.goto(link[0])
    page.get_by_role("button", name="Show my key").click()
    page.get_by_role("button", name="Set up alerts").click()

    page.get_by_label("Coins").fill("BTC")
    page.get_by_label("Value").fill("0.05")
    expect(page.get_by_label("Within")).to_be_hidden()
    address = urlsplit(phone.url)
    page.get_by_label("A chat service").fill(f"http://{address.netloc}/trader")
    page.get_by_label("Which service").select_option("ntfy")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview")).to_contain_text("BTC funding at any exchange is above 0.0500")
    expect(page.locator("#preview svg").first).to_be_visible()
    for view in VIEWS:
        look.change(view)
        assert (look.violations(), look.overflow()) == ([], 0), view
    page.get_by_role("button", name="Create").click()
    expect(page.locator("form.banner")).to_contain_text("Active. To trader@example.com")

    eventually(lambda: watched(demo), "the first value, which is adopted without a message")
    began = f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
    phone.get_by_role("button", name="Squeeze: raise BTC funding").click()
    for way in ("ntfy", "mail"):
        text = arrived(phone, way, "is above 0.0500 % per 8 h")
        assert "BTC funding at " in text
    expect(page.locator("#messages li")).to_have_count(1)  # the page polls

    page.get_by_role("textbox", name="Coins").fill("BTC")
    page.get_by_role("textbox", name="Value").fill("0.05")

    def agrees() -> bool:
        page.wait_for_timeout(4_000)
        page.get_by_role("button", name="Preview").click()
        return previewed(page) >= began

    eventually(agrees, "what just happened in the preview")  # it is recorded each minute

    stop = re.search(r"\S+/alerts/stop/[\w-]+", arrived(phone, "mail", "Your rule"))
    assert stop is not None
    page.goto(stop[0])
    page.get_by_role("button", name="Stop it").click()
    expect(page.locator("h1")).to_have_text("This alert is stopped")
    page.get_by_role("link", name="Your alerts").click()
    expect(page.locator("form.banner")).to_contain_text("Paused: stopped by the link in a message.")
    assert look.problems == []
