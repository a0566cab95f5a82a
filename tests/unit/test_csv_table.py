"""Cells of CSV tables."""

import csv

import pytest

from barograph.kit.csv_table import cells


@pytest.mark.parametrize(
    ("value", "read"),
    [
        *(
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-A", "'-A"),
            ("@A", "'@A"),
            ("\t=1", "'\t=1"),
            (" =1", "' =1"),
        ),
        *(("A\r\n=1", "A\r\n=1"), ('=A"B', "'=A\"B"), ("A-B", "A-B"), ("牛来", "牛来")),
        *((-0.01, "-0.01"), (-1, "-1"), (1e-05, "1e-05"), (None, "")),
    ],
)
def test_text_is_never_a_formula_and_numbers_stay_numbers(
    value: str | float | None, read: str
) -> None:
    assert list(csv.reader([cells([value, "end"])], strict=True)) == [[read, "end"]]
