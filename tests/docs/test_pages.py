"""The generated pages are what their generators say today."""

import importlib.util
from pathlib import Path

import pytest

from barograph.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"
_spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
assert _spec is not None
assert _spec.loader is not None
generate = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generate)


@pytest.mark.parametrize("name", sorted(generate.PAGES))
def test_generated_page_is_up_to_date(name: str) -> None:
    written = (DOCS / name).read_text("utf-8")
    assert written == generate.PAGES[name](), f"docs/{name} is out of date: run `make docs`"


def test_every_setting_is_documented() -> None:
    page = (DOCS / "settings.md").read_text("utf-8")
    for name in Settings.model_fields:
        assert f"BAROGRAPH_{name.upper()}" in page
