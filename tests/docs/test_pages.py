"""The generated pages are what their generators say today."""

import importlib.util
from pathlib import Path

import pytest

from barograph.macro.records import NYFED_NOTICE, NYFED_TERMS
from barograph.settings import Settings
from barograph.upstream.etf import FLOW_COLUMNS, SHARE_COLUMNS, VALUE_COLUMNS

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


def test_the_page_of_daily_figures_has_the_notice_and_the_columns_of_the_import() -> None:
    page = (DOCS / "daily-figures.md").read_text("utf-8")
    assert NYFED_NOTICE in page
    assert NYFED_TERMS in page
    for name in (*FLOW_COLUMNS, *SHARE_COLUMNS, *VALUE_COLUMNS):
        assert f"`{name}`" in page
