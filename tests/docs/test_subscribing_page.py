"""docs/subscribing.md names every refusal; `e2e/test_demo.py` runs its program."""

import re
from importlib import import_module
from pathlib import Path

from barograph.errors import PrivateError

PAGE = Path(__file__).parents[2] / "docs" / "subscribing.md"
ROW = re.compile(r"^\| (\d{3}) \| (.*?) \|", re.MULTILINE)


def test_the_page_names_every_status_and_code_of_the_entitled_addresses() -> None:
    import_module("barograph.app")  # so that every refusal is known
    shown = {
        (int(status), code)
        for status, cell in ROW.findall(PAGE.read_text("utf-8"))
        for code in re.findall("`(.*?)`", cell)
    }
    refusals = {(each.status, each.code) for each in _below(PrivateError) if hasattr(each, "code")}
    assert shown == {*refusals, (405, "method_not_allowed")}


def _below(base: type[PrivateError]) -> list[type[PrivateError]]:
    return [found for each in base.__subclasses__() for found in (each, *_below(each))]
