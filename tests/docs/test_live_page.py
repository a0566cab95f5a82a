"""docs/live.md describes the terms of every source that an operator can confirm."""

from pathlib import Path

import pytest

from barograph.terms.sources import SOURCES

PAGE = (Path(__file__).parents[2] / "docs/live.md").read_text("utf-8")


@pytest.mark.parametrize("name", SOURCES)
def test_terms_of_every_source_are_described_with_their_link_and_date(name: str) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    assert SOURCES[name].url in row
    assert SOURCES[name].terms_date in row
    assert ("2026-" in row) is bool(SOURCES[name].terms_date)
    assert ("written consent" in row) is (SOURCES[name].statement == "consent")
