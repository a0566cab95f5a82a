"""Amounts as people read them, and lines as people write them."""

import pytest

from barograph.kit.text import coverage, one_line, percentile_text, price, usd
from barograph.site.templating import unbroken


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0, "$0"),
        (999.4, "$999"),
        (999.6, "$1.00k"),
        (1_234, "$1.23k"),
        (999_994, "$999.99k"),
        (999_996, "$1.00M"),
        (8_520_000, "$8.52M"),
        (1_070_000_000, "$1.07B"),
        (7e15, "$7000.00T"),
    ],
)
def test_an_amount_is_never_a_thousand_of_its_letter(amount: float, shown: str) -> None:
    assert usd(amount) == shown


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0.0, "0"),
        (137.0, "137.000"),
        (92_785.0, "92,785.0"),
        (92_785.5, "92,785.5"),
        (92_785.25, "92,785.25"),
        (3_500.2, "3,500.20"),
        (2.21, "2.2100"),
        (0.0043951, "0.0043951"),
        (1e6, "1,000,000"),
    ],
)
def test_a_price_has_every_digit_and_as_many_as_its_size_needs(amount: float, shown: str) -> None:
    assert price(amount) == shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (300, "higher than in all"),
        (299, "the highest"),
        (298, "higher than 99.3 %"),
        (229.5, "higher than 76 %"),
        (100, "lower than 66 %"),
        (2, "lower than 99.0 %"),
        (0, "the lowest"),
        (-1, "lower than in all"),
    ],
)
def test_a_percentile_in_words_never_says_more_than_is_true(value: float, text: str) -> None:
    assert percentile_text(value, range(300), "the past 30 days") == f"{text} of the past 30 days"


def test_values_that_are_all_equal_are_neither_high_nor_low() -> None:
    assert (
        percentile_text(0.0, [0.0] * 5, "the past 7 days")
        == "the same as in all of the past 7 days"
    )
    assert (
        percentile_text(0.0, [0.0] * 4 + [1.0], "the past 7 days")
        == "the lowest of the past 7 days"
    )


def test_coverage_is_never_rounded_up() -> None:
    assert [coverage(each) for each in (100.0, 99.97, 99.3, 0.04)] == [
        "100 %",
        "99.9 %",
        "99.3 %",
        "0 %",
    ]


def test_no_line_ends_between_a_number_and_its_unit() -> None:
    assert unbroken("95 % of 24 hours, 3 highs") == "95\u00a0% of 24\u00a0hours, 3 highs"


@pytest.mark.parametrize("text", ["a", " a reason\n", "é — 語", "x" * 20])
def test_a_line_is_taken_without_space_around_it(text: str) -> None:
    assert one_line("why", text, 20) == text.strip()


@pytest.mark.parametrize(
    "text",
    ["", " \t\n", "x" * 21, "two\nlines", "a\ttab", "\x1b[2J", "a\u2028b", "half \udcff", "a\0b"],
)
def test_anything_else_is_refused_by_name_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="'why' must be one line of 1 to 20 printable") as refused:
        one_line("why", text, 20)
    assert str(refused.value) == "'why' must be one line of 1 to 20 printable characters"
