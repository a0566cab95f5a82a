"""The verifier of `/record` in a real browser, against a running server."""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Page,
    Route,
    expect,
)

from barograph.history.checkpoint import Checkpoint, sign_checkpoint
from barograph.history.ledger import Ledger
from barograph.kit.clock import system_clock
from barograph.kit.sqlite import SQLiteDatabase
from support.browsing import chromium
from support.history import RATES, proposal
from support.published_server import published_server
from support.stances import make_history

pytestmark = pytest.mark.e2e

ETF = "btc-etf-stance"
KEPT_SIZE = 700
SIZE = 1_003
"""More than one page of the published list."""

INSECURE = "barograph.test"
"""A name under which the browser does not take the server for its own machine."""

Alter = Callable[[dict[str, Any]], None]


class Record(NamedTuple):
    """A running server, and what somebody kept of it."""

    base_url: str
    kept: str
    """A checkpoint from before more was recorded."""

    newest: dict[tuple[str, str], str]
    """The newest checkpoints by kind and list."""


class Verifier:
    """The page as somebody uses it who kept a checkpoint."""

    def __init__(self, page: Page, base_url: str) -> None:
        self.page = page
        self.errors: list[str] = []
        self.read: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda each: self.read.append(each.url))
        page.goto(f"{base_url}/record")

    def forget(self) -> None:
        """Forget what was done here before: to open a page for each test takes most of its time."""
        self.page.unroute_all()
        self.errors.clear()
        self.read.clear()

    def _hear(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self.errors.append(said.text)

    def check(self, pasted: str) -> str:
        """Paste something; the verdict."""
        self.page.get_by_label("Your saved checkpoint").fill(pasted)
        self.page.get_by_role("button", name="Check", exact=True).click()
        banner = self.page.locator("#outcome .banner")
        expect(banner).to_be_visible(timeout=20_000)
        return banner.inner_text()

    @property
    def condition(self) -> str:
        """Whether the verdict is shown as good, doubtful or bad."""
        shown = self.page.locator("#outcome .banner").get_attribute("class")
        assert shown is not None
        return shown.removeprefix("banner ")

    @property
    def steps(self) -> list[tuple[str, str]]:
        """How each step went, and in which words."""
        pills = self.page.locator("#steps .pill").all()
        return [
            ((each.get_attribute("class") or "").removeprefix("pill "), each.inner_text())
            for each in pills
        ]

    def alter_list(self, alter: Alter, name: str = RATES) -> None:
        """Let the published list differ from here on."""

        def answer(route: Route) -> None:
            response = route.fetch()
            body = response.json()
            alter(body)
            route.fulfill(response=response, json=body)

        self.page.route(f"**/api/history/{name}?*", answer)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Record]:
    folder = tmp_path_factory.mktemp("record")
    with published_server(folder, workers=1) as base_url:
        file = folder / "data" / "history.sqlite3"
        asyncio.run(_append(file, 0, KEPT_SIZE))
        kept = _checkpoints(base_url)[RATES, "versions"]
        asyncio.run(_append(file, KEPT_SIZE, SIZE))
        yield Record(base_url, kept, _checkpoints(base_url))


async def _append(file: Path, first: int, size: int) -> None:
    history = SQLiteDatabase(file, survives_power_cuts=False)
    await make_history(history)
    ledger = Ledger(history, system_clock)
    for number in range(first, size):
        head = (await ledger.append(proposal(number))).version.history_digest
    await ledger.withdraw(RATES, why="a wrong file", by="desk", expected_head=head)
    await history.close()


def _checkpoints(base_url: str) -> dict[tuple[str, str], str]:
    body = httpx2.get(f"{base_url}/api/history/checkpoint", trust_env=False).json()
    return {(each["kind"], each["log"]): each["checkpoint"] for each in body["checkpoints"]}


@pytest.fixture(scope="module")
def browser(record: Record) -> Iterator[Browser]:
    # After the server: beside a started browser no event loop can be run.
    with chromium(f"--host-resolver-rules=MAP {INSECURE} 127.0.0.1") as found:
        yield found


@pytest.fixture(scope="module")
def opened(record: Record, browser: Browser) -> Verifier:
    found = Verifier(browser.new_page(), record.base_url)
    assert found.errors == []
    return found


@pytest.fixture
def verifier(opened: Verifier) -> Verifier:
    opened.forget()
    return opened


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


def altered(note: str, line: int, text: str) -> str:
    lines = note.split("\n")
    lines[line] = text
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("kind", "log", "size"),
    [(RATES, "versions", SIZE), (RATES, "events", 2), (ETF, "versions", 0), (ETF, "events", 0)],
)
def test_the_newest_checkpoint_of_a_list_matches(
    record: Record, verifier: Verifier, kind: str, log: str, size: int
) -> None:
    verdict = verifier.check(record.newest[kind, log])

    said = f"Matches: nothing up to entry {size:,} has changed."
    assert verdict.startswith(said if size else "Empty: there were no entries to compare.")
    assert verifier.condition == "ok"
    assert verifier.steps == [("ok", "read"), ("ok", "signed"), ("ok", "same")]
    pages = [each for each in verifier.read if "/api/history/" in each]
    assert len(pages) == -(-size // 1_000)
    assert verifier.errors == []


@pytest.mark.thorough
def test_a_checkpoint_that_was_kept_matches_after_more_was_recorded(
    record: Record, verifier: Verifier
) -> None:
    verdict = verifier.check(record.kept)

    assert verdict.startswith(f"Matches: nothing up to entry {KEPT_SIZE} has changed.")
    assert f"{SIZE - KEPT_SIZE} entries were added since." in verdict
    assert verifier.condition == "ok"


@pytest.mark.thorough
def test_one_that_was_added_since_is_one(record: Record, verifier: Verifier) -> None:
    def grow(page: dict[str, Any]) -> None:
        page["count"] = SIZE + 1

    verifier.alter_list(grow)

    assert "1 entry was added since." in verifier.check(record.newest[RATES, "versions"])


@pytest.mark.thorough
@pytest.mark.parametrize("change", [lambda note: note.replace("\n", "\r\n"), str.strip])
def test_how_a_checkpoint_was_copied_does_not_matter(
    record: Record, verifier: Verifier, change: Callable[[str], str]
) -> None:
    assert verifier.check(change(record.kept)).startswith("Matches:")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("line", "text"),
    [(2, b64encode(bytes(32)).decode()), (1, str(KEPT_SIZE - 1)), (1, "9" * 18)],
)
def test_a_checkpoint_that_was_altered_is_not_signed_and_does_not_accuse_the_record(
    record: Record, verifier: Verifier, line: int, text: str
) -> None:
    verdict = verifier.check(altered(record.kept, line, text))

    assert verdict.startswith("The signature is invalid.")
    assert "proves nothing about the record" in verdict
    assert verifier.condition == "down"
    assert verifier.steps == [("ok", "read"), ("down", "not signed")]
    assert not [each for each in verifier.read if "/api/history/" in each]


@pytest.mark.thorough
def test_a_checkpoint_that_another_key_signed_is_not_signed(
    record: Record, verifier: Verifier
) -> None:
    origin, size, root = record.kept.split("\n")[:3]
    stranger = Ed25519PrivateKey.generate()
    forged = sign_checkpoint(Checkpoint(origin, int(size), b64decode(root)), stranger)

    assert verifier.check(forged).startswith("The signature is invalid.")


@pytest.mark.thorough
def test_a_list_whose_older_digests_differ_does_not_match(
    record: Record, verifier: Verifier
) -> None:
    def change(body: dict[str, Any]) -> None:
        if body["after"] == 0:
            body["entries"][41]["history_digest"] = "0" * 64

    verifier.alter_list(change)
    verdict = verifier.check(record.kept)

    assert verdict.startswith("DOES NOT match: the record was changed.")
    assert "proves this to anyone" in verdict
    assert verifier.condition == "down"
    assert verifier.steps == [("ok", "read"), ("ok", "signed"), ("down", "different")]


@pytest.mark.thorough
def test_events_that_differ_do_not_match(record: Record, verifier: Verifier) -> None:
    def change(body: dict[str, Any]) -> None:
        body["entries"][0]["event_digest"] = "0" * 64

    verifier.alter_list(change, f"{RATES}/events")
    verdict = verifier.check(record.newest[RATES, "events"])

    assert verdict.startswith("DOES NOT match: the record was changed.")


@pytest.mark.thorough
def test_a_list_that_was_cut_does_not_match(record: Record, verifier: Verifier) -> None:
    def cut(body: dict[str, Any]) -> None:
        body["entries"] = [each for each in body["entries"] if each["sequence"] <= 500]

    verifier.alter_list(cut)
    verdict = verifier.check(record.kept)

    assert verdict.startswith("DOES NOT match: the list ends at 500.")
    assert verifier.condition == "down"


def _drop_one(body: dict[str, Any]) -> None:
    del body["entries"][6]


def _write_no_digest(body: dict[str, Any]) -> None:
    body["entries"][6]["history_digest"] = "<img src=x>"


@pytest.mark.thorough
@pytest.mark.parametrize("change", [_drop_one, _write_no_digest])
def test_a_list_with_a_gap_does_not_match(
    record: Record, verifier: Verifier, change: Alter
) -> None:
    verifier.alter_list(change)
    verdict = verifier.check(record.kept)

    assert verdict.startswith("DOES NOT match: the record was changed.")
    assert "Entry 7 is missing or malformed" in verdict


@pytest.mark.thorough
def test_a_list_that_cannot_be_read_is_no_verdict(record: Record, verifier: Verifier) -> None:
    address = f"**/api/history/{RATES}?*"
    verifier.page.route(address, lambda route: route.fulfill(status=503, body="{}"))
    verdict = verifier.check(record.kept)

    assert verdict.startswith("Not checked. The published list is unavailable now (status 503)")
    assert verifier.condition == "degraded"

    verifier.page.unroute(address)
    verifier.page.route(address, lambda route: route.abort())
    assert verifier.check(record.kept).startswith("Not checked. The published list is unavailable")

    verifier.page.unroute(address)
    assert verifier.check(record.kept).startswith("Matches:")


@pytest.mark.thorough
def test_what_is_no_checkpoint_is_told_what_is_wrong(record: Record, verifier: Verifier) -> None:
    kept = record.kept
    text, _, signature = kept.rpartition("\n\n")
    wrong = {
        "": "Paste a checkpoint first",
        " \n ": "Paste a checkpoint first",
        text: "There is no empty line before the signature",
        f"{text}\n{signature}": "There is no empty line before the signature",
        f"{kept}\n{kept}": "There is more than one empty line",
        altered(kept, 1, "07"): "The second line should be a whole number",
        altered(kept, 1, "-1"): "The second line should be a whole number",
        f"one line\n\n{signature}": "The second line should be a whole number",
        altered(kept, 2, "<b>bold</b>"): "The third line should be the root",
        altered(kept, 2, b64encode(bytes(31)).decode()): "The third line should be the root",
        f"{text}\n\n{signature.replace('—', '-')}": "is not a signature: a long dash",
        f"{text}\n\n{signature.strip()[:-3]}": "is not a signature",
        altered(
            kept, 0, "elsewhere.example/history/rates-desk"
        ): "This is a checkpoint of another log",
        altered(kept, 0, kept.split("\n")[0] + "/nothing"): "This is a checkpoint of another log",
    }
    for pasted, said in wrong.items():
        verdict = verifier.check(pasted)
        assert verdict.startswith("Not checked. "), pasted
        assert said in verdict, pasted
        assert verifier.condition == "degraded"
        assert verifier.steps == []
    assert verifier.errors == []


@pytest.mark.thorough
def test_markup_that_is_pasted_stays_text(record: Record, verifier: Verifier) -> None:
    pasted = altered(record.kept, 0, "<img src=x onerror=alert(1)>")
    verdict = verifier.check(pasted)

    assert "<img src=x onerror=alert(1)>" in verdict
    assert verifier.page.locator("#verifier img").count() == 0


@pytest.mark.thorough
def test_a_verdict_goes_away_when_something_else_is_pasted(
    record: Record, verifier: Verifier
) -> None:
    verifier.check(record.kept)
    verifier.page.get_by_label("Your saved checkpoint").fill("something else")

    expect(verifier.page.locator("#outcome .banner")).to_have_count(0)
    expect(verifier.page.locator("#steps")).to_be_hidden()


@pytest.fixture
def unsure(record: Record, tab: Page) -> Verifier:
    """The page over a connection on which browsers lend no cryptography."""
    address = record.base_url.replace("127.0.0.1", INSECURE)
    verifier = Verifier(tab, address)
    assert verifier.page.evaluate("globalThis.crypto.subtle === undefined")
    return verifier


@pytest.mark.thorough
def test_without_the_browser_s_cryptography_the_root_is_computed_and_the_signature_left_open(
    record: Record, unsure: Verifier
) -> None:
    verdict = unsure.check(record.newest[RATES, "versions"])

    assert verdict.startswith(f"Matches: nothing up to entry {SIZE:,} has changed.")
    assert "We could not check the signature in this browser." in verdict
    assert unsure.condition == "degraded"
    assert unsure.steps == [("ok", "read"), ("degraded", "not checked"), ("ok", "same")]
    assert unsure.errors == []


@pytest.mark.thorough
def test_without_a_checked_signature_a_difference_may_be_the_copy_s_fault(
    record: Record, unsure: Verifier
) -> None:
    verdict = unsure.check(altered(record.kept, 2, b64encode(bytes(32)).decode()))

    said = "DOES NOT match: the record or your checkpoint was changed."
    assert verdict.startswith(said)
    assert "so we don't know which" in verdict
    assert unsure.condition == "down"


@pytest.mark.thorough
def test_a_browser_that_does_not_know_ed25519_leaves_the_signature_open(
    record: Record, tab: Page
) -> None:
    tab.add_init_script(
        "crypto.subtle.importKey = () => Promise.reject(new DOMException('', 'NotSupportedError'))"
    )
    verifier = Verifier(tab, record.base_url)

    assert verifier.check(record.kept).startswith("Matches:")
    assert verifier.condition == "degraded"
    assert verifier.steps[1] == ("degraded", "not checked")


@pytest.mark.thorough
def test_the_page_s_own_sha_256_is_sha_256(verifier: Verifier) -> None:
    messages = [bytes(range(length)) for length in (0, 1, 3, 55, 56, 63, 64, 65, 119, 120, 255)]
    hashed = verifier.page.evaluate(
        """async (messages) => {
          const { ownSha256 } = await import(document.querySelector("[src*=record]").src);
          return messages.map((each) => [...ownSha256(Uint8Array.from(each))]);
        }""",
        [list(each) for each in messages],
    )

    assert [bytes(each) for each in hashed] == [sha256(each).digest() for each in messages]


@pytest.mark.thorough
def test_without_javascript_the_page_says_how_to_check_offline(
    record: Record, browser: Browser
) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(f"{record.base_url}/record")

    expect(page.locator("#verifier")).to_be_hidden()
    expect(page.locator("#without-script")).to_be_visible()
    page.get_by_text("Show the program").click()
    expect(page.locator("#check")).to_be_visible()
    page.locator("summary", has_text="US rates:").first.click()
    assert page.locator("#checkpoint-rates-desk-versions").inner_text().startswith("127.0.0.1:")
    page.close()
