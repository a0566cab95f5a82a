"""The pages agree with the code: those that are generated, and those that describe it."""

import importlib.util
import re
from pathlib import Path

import pytest

from barograph.cli.diagnosis import CERTIFICATES, CONNECTIONS
from barograph.cli.doctor import CHECKS
from barograph.macro.records import NYFED_NOTICE, NYFED_TERMS
from barograph.settings import Settings
from barograph.terms.sources import SOURCES
from barograph.upstream.etf import FLOW_COLUMNS, SHARE_COLUMNS, VALUE_COLUMNS
from barograph.venues.binance import exchange as binance
from barograph.venues.hyperliquid import exchange as hyperliquid
from barograph.venues.registry import VENUES

DOCS = Path(__file__).parents[2] / "docs"
TERMS_PAGE = (DOCS / "live.md").read_text("utf-8")
_spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
assert _spec is not None
assert _spec.loader is not None
generate = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generate)


@pytest.mark.parametrize("name", sorted(generate.PAGES))
def test_generated_page_is_up_to_date(name: str) -> None:
    written = (DOCS / name).read_text("utf-8")
    assert written == generate.PAGES[name](), f"docs/{name} is out of date: run `make docs`"


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", [*sorted(DOCS.parent.glob("*.md")), *sorted(DOCS.glob("*.md"))])
def test_links_between_pages_lead_to_a_file_and_a_heading(page: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\((?!https?:|mailto:)([^)]+)\)", text):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


def test_the_readme_links_each_page_once() -> None:
    links = re.findall(r"\]\((docs/[a-z-]+\.md)", (DOCS.parent / "README.md").read_text("utf-8"))
    assert sorted(links) == sorted(f"docs/{page.name}" for page in DOCS.glob("*.md"))


def test_every_setting_is_documented() -> None:
    page = (DOCS / "settings.md").read_text("utf-8")
    for name in Settings.model_fields:
        assert f"BAROGRAPH_{name.upper()}" in page


def test_the_page_of_daily_figures_has_the_notice_and_the_columns_of_the_import() -> None:
    page = (DOCS / "daily-figures.md").read_text("utf-8")
    assert NYFED_NOTICE in page
    assert NYFED_TERMS in page
    for name in (*FLOW_COLUMNS, *SHARE_COLUMNS, *VALUE_COLUMNS):
        assert f"`{name}`" in page


def test_the_page_about_doctor_has_every_check_in_order_and_every_failed_connection() -> None:
    page = (DOCS / "doctor.md").read_text("utf-8")
    rows = re.findall(r"^\| ((?:`[a-z-]+`(?:, )?)+) \|", page, re.MULTILINE)
    named = [name for row in rows for name in re.findall("[a-z-]+", row)]
    # Those of venues have two rows for all of them.
    assert named == [name for name in CHECKS if name.removesuffix("-stream") not in VENUES]
    for text in (*CONNECTIONS.values(), *CERTIFICATES.values()):
        assert f"| {text.partition(' -> ')[0].format(host='…')} |" in page


def test_the_page_about_venues_has_what_each_publishes_and_its_requests_per_minute() -> None:
    page = (DOCS / "venues.md").read_text("utf-8")
    seconds = Settings.model_validate({}).poll_seconds
    for name, weight in (("Hyperliquid", hyperliquid), ("Binance", binance)):
        (row,) = re.findall(rf"^\| {name} \| weight .*$", page, re.MULTILINE)
        assert f"| weight {weight.live_weight_per_minute(seconds):.0f}" in row
    (titles,) = re.findall(r"^\| (\| Bybit.*) \|$", page, re.MULTILINE)
    (row,) = re.findall(r"^\| liquidations \| `.*$", page, re.MULTILINE)
    published = {venue.title: venue.liquidations for venue in VENUES.values()}
    named = [title.strip() for title in titles.split("|")[1:]]
    assert re.findall("`(.*?)`", row) == [published[title] for title in named]


@pytest.mark.parametrize("name", [name for name in SOURCES if f"| `{name}` |" in TERMS_PAGE])
def test_terms_of_every_source_are_described_with_their_link_and_date(name: str) -> None:
    (row,) = [line for line in TERMS_PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    assert SOURCES[name].url in row
    assert SOURCES[name].terms_date in row
    assert ("2026-" in row) is bool(SOURCES[name].terms_date)
    assert ("written consent" in row) is (SOURCES[name].statement == "consent")
