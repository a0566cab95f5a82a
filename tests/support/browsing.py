"""A real browser on a running demo: Debian's Chromium, driven by Playwright."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

from support.postgresql import running_postgresql
from support.processes import HOST, Process, eventually, running, unused_port
from support.valkey import running_valkey

ARTEFACTS = Path(__file__).parents[2] / "artefacts"
"""The folder for screenshots."""

HEIGHT = 900

PATIENCE_MS = 60_000
"""How long a test waits for what it expects; a busy machine needs many seconds."""

expect.set_options(timeout=PATIENCE_MS)

_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
_AXE: str = Axe().axe_script
_VIOLATIONS = "([where, how]) => axe.run(where, how).then((found) => found.violations)"


class Demo(NamedTuple):
    """A running demo."""

    process: Process
    base_url: str
    data: Path

    @property
    def log(self) -> Path:
        """Its log."""
        return self.process.log


class View(NamedTuple):
    """A window size and colour scheme."""

    name: str
    width: int
    scheme: Any


PHONE = View("phone", 390, "light")
NARROW = View("narrow", 320, "dark")
VIEWS = (
    View("light", 1280, "light"),
    View("dark", 1280, "dark"),
    PHONE,
    NARROW,
)


@contextmanager
def demo_on_servers(folder: Path) -> Iterator[Demo]:
    """A demo on PostgreSQL and Valkey."""
    with running_postgresql() as server, running_valkey() as valkey:
        databases = {
            "BAROGRAPH_DATABASE_URL": server.create(),
            "BAROGRAPH_HISTORY_URL": server.create(),
        }
        with started_demo(folder, **databases, BAROGRAPH_LIMITS_URL=valkey.url) as found:
            yield found


@contextmanager
def running_demo(folder: Path) -> Iterator[Demo]:
    """A demo in its own folder; the test run replays its past only once."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        shutil.copytree(_replayed(folder.parents[1] / "replayed"), folder / "data")
    with started_demo(folder) as found:
        yield found


def _replayed(shared: Path) -> Path:
    """The data of a stopped demo, in a folder that all workers of a run share."""
    shared.mkdir(exist_ok=True)
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "data").exists():
            with started_demo(shared):
                pass
    return shared / "data"


@contextmanager
def started_demo(folder: Path, *options: str, **environment: str) -> Iterator[Demo]:
    """A demo on the data in a folder; without data it first replays its past."""
    port, log = unused_port(), folder / "log"
    arguments = ("demo", "--port", str(port), "--data", str(folder / "data"), *options)
    with running(*arguments, log=log, **environment) as process:

        def welcomed() -> bool:
            assert process.popen.poll() is None, f"the demo ended:\n{log.read_text()[-4000:]}"
            return "Ctrl-C stops" in log.read_text()

        eventually(welcomed, "the welcome", 240)
        yield Demo(process, f"http://{HOST}:{port}", folder / "data")


DEMOS = [
    pytest.param(running_demo, id="files"),
    pytest.param(demo_on_servers, id="servers", marks=pytest.mark.thorough),
]
"""Where a demo keeps its data, for fixtures."""


@contextmanager
def chromium(*arguments: str) -> Iterator[Browser]:
    """Debian's headless Chromium."""
    found = shutil.which("chromium-headless-shell")
    assert found is not None, "chromium-headless-shell is missing: `make browser` installs it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=[*_ARGUMENTS, *arguments])
        yield browser
        browser.close()


@contextmanager
def looking(
    browser: Browser, base_url: str, view: View = VIEWS[0], **options: Any
) -> Iterator["Look"]:
    """Open a page of the demo in one view."""
    context = browser.new_context(
        base_url=base_url,
        viewport={"width": view.width, "height": HEIGHT},
        color_scheme=view.scheme,
        **options,
    )
    context.set_default_timeout(PATIENCE_MS)
    try:
        yield Look(context)
    finally:
        context.close()


class Look:
    """A page and its errors."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.page: Page = context.new_page()
        self.problems: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.problems.append(message.text)

    def visit(self, address: str, view: View = VIEWS[0]) -> None:
        """Go to a page and forget earlier errors."""
        self.page.goto("about:blank")
        self.change(view)
        self.problems.clear()
        self.hosts.clear()
        self.page.goto(address)

    def change(self, view: View) -> None:
        """Show the same page in another view."""
        self.page.emulate_media(color_scheme=view.scheme)
        self.page.set_viewport_size({"width": view.width, "height": HEIGHT})

    def violations(self, out_of: str | None = None) -> list[str]:
        """The violations that axe finds, one line each, without those in `out_of`."""
        # The package would inject the script for each view and return every checked element.
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(_AXE)
        where = {"include": [["html"]], "exclude": [] if out_of is None else [[out_of]]}
        # Reporting the elements without violations would take half of the time.
        found = self.page.evaluate(_VIOLATIONS, [where, {"resultTypes": ["violations"]}])
        return [
            f"{each['id']}: {', '.join(node['target'][0] for node in each['nodes'][:5])}"
            for each in found
        ]

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        width: int = self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return width

    def picture(self, name: str) -> None:
        """Save a screenshot of the whole page."""
        ARTEFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTEFACTS / f"{name}.jpeg", full_page=True, quality=80)
