"""Every protection that docs/security.md claims names a test, and that test exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_claim_names_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    rows = _rows(page)
    assert all(_rows(each) or "\n- " in each for each in page.split("\n## ")[1:])

    for row in rows:
        named = NAMED.findall(row)
        assert named, f"this row names no test: {row}"
        for file, test in named:
            assert f"def {test}(" in (ROOT / file).read_text("utf-8"), f"{file} has no {test}"


def _rows(page: str) -> list[str]:
    """The rows of all tables, without their headings."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    return [line for line in lines if not line.startswith(("|---", "| Threat"))]
