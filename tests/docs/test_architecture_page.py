"""docs/architecture.md names every package, and the docs name only files that exist."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
PACKAGE = PROJECT / "src" / "barograph"
NOT_NAMED = {"__init__.py", "__main__.py", "__pycache__/"}
PAGES = sorted(DOCS.glob("*.md"))


def test_table_names_exactly_the_packages_and_modules() -> None:
    page = (DOCS / "architecture.md").read_text("utf-8")
    table = page.partition("## Packages")[2].partition("\n\nWithin")[0]
    first_cells = " ".join(re.findall(r"^\|(.*?)\|", table, re.MULTILINE))
    named = set(re.findall(r"`(\w+(?:\.py|/))`", first_cells))
    existing = {
        each.name + "/" * each.is_dir()
        for each in PACKAGE.iterdir()
        if each.suffix == ".py" or any(each.rglob("*.py")) or any(each.rglob("*.sql"))
    }

    assert named == existing - NOT_NAMED


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_source_file_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`(?:src/barograph/)?(\w+/[\w/]+\.py)`", page.read_text("utf-8"))
    missing = [
        each for each in named if not any((root / each).exists() for root in (PACKAGE, PROJECT))
    ]

    assert missing == []
