"""docs/architecture.md names every place there is, and none that is not."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "architecture.md").read_text("utf-8")
PACKAGE = PROJECT / "src" / "barograph"
NOT_TOLD = {"__init__.py", "__main__.py", "__pycache__/", "py.typed"}


def places(folder: Path) -> set[str]:
    """What a folder holds, as the page writes it."""
    found = {each.name + "/" * each.is_dir() for each in folder.iterdir()}
    return {name for name in found if name.endswith(("/", ".py"))} - NOT_TOLD


def told(heading: str) -> set[str]:
    """What the first column after a heading names; where no table follows, what its line names."""
    text = PAGE.partition(heading)[2].lstrip(":\n")
    block = text.partition("\n\n")[0]
    cells = re.findall(r"^\|(.*?)\|", block, re.MULTILINE) or [block.partition("\n")[0]]
    return set(re.findall(r"`([\w/]+(?:\.py|/))`", " ".join(cells)))


@pytest.mark.parametrize(
    ("heading", "folder"),
    [
        ("`make lint` checks that.", ""),
        ("Inside `markets/`", "markets"),
        ("Inside `stances/`", "stances"),
        ("Inside `feed/`", "feed"),
        ("no other family", "site"),
        ("Inside `frame/`", "site/frame"),
    ],
)
def test_each_table_names_what_is_in_its_folder(heading: str, folder: str) -> None:
    assert told(heading) == places(PACKAGE / folder)
