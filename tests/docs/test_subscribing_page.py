"""docs/subscribing.md names every refusal; `e2e/test_demo.py` runs its program."""

import re
from pathlib import Path

from barograph.site.developers.problems import CODED_ERRORS

PAGE = Path(__file__).parents[2] / "docs" / "subscribing.md"
ROW = re.compile(r"^\| (\d{3}) \| (.*?) \|", re.MULTILINE)


def test_the_page_names_every_status_and_error_that_is_sent() -> None:
    """`http/test_documented_errors.py` gets each of these from the application itself."""
    shown = [
        (int(status), error)
        for status, cell in ROW.findall(PAGE.read_text("utf-8"))
        for error in re.findall("`(.*?)`", cell)
    ]
    assert sorted(shown) == sorted((row.status, row.error) for row in CODED_ERRORS)
