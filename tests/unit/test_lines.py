"""One line of text that a person gives."""

import pytest

from barograph.kit.text import one_line


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
