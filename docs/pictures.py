"""Take the pictures of the README and of docs/site.md from a demo that this script starts.

make pictures
"""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

from docs.examples import BASE_URL, started
from playwright.sync_api import sync_playwright

PICTURES = Path(__file__).parent / "pictures"
WIDTH = 1160


class Shot(NamedTuple):
    """A page, and where its picture begins and ends."""

    name: str
    path: str
    height: int
    scheme: Literal["light", "dark"] = "light"
    top: str = "body"
    """The picture begins at this element."""

    after: str = "main"
    """The picture is taken once this element is drawn."""


DRAWN = ".chart-readout:has-text('newest in view')"
"""What the large chart says once it is drawn."""

SHOTS = (
    Shot("home", "/", 1290),
    Shot("market", "/markets/BTC", 1250, "dark", "main h1", DRAWN),
    Shot("signal", "/signals/btc-funding-regime", 960),
)


def main() -> None:
    """Write every picture."""
    with (
        TemporaryDirectory() as folder,
        started(Path(folder)),
        sync_playwright() as playwright,
        playwright.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell"), args=["--no-sandbox"]
        ) as browser,
    ):
        for shot in SHOTS:
            page = browser.new_page(
                viewport={"width": WIDTH, "height": shot.height}, color_scheme=shot.scheme
            )
            page.goto(f"{BASE_URL}{shot.path}", wait_until="load")
            page.locator(shot.after).first.wait_for()
            page.locator(shot.top).first.evaluate("element => element.scrollIntoView()")
            page.screenshot(path=PICTURES / f"{shot.name}.png")


if __name__ == "__main__":
    main()
