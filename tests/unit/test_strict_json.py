"""JSON that decides something."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.kit.json import MAX_NESTING, strict_object

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.mark.thorough
@given(st.dictionaries(st.text(st.characters(codec="utf-8")), VALUES, max_size=4))
def test_every_object_is_read_as_any_reader_reads_it(value: dict[str, object]) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=1, ensure_ascii=False)):
        assert strict_object(text.encode()) == value


@pytest.mark.parametrize(
    "body",
    [
        *(b'{"a":1,"a":1}', b'{"a":1,"b":2,"a":3}', b'{"x":{"a":1,"a":2}}'),
        *(b'{"x":[{"a":1,"\\u0061":2}]}', b'{"a":NaN}', b'{"a":Infinity}', b'{"a":1e999}'),
        *(b'{"a":01}', b"{'a':1}", b'{"a":1,}', b'{"a":1} {}', b'{"a":"\xff"}'),
        *(b'{"a":"\\ud800"}', b'\xef\xbb\xbf{"a":1}', '{"a":1}'.encode("utf-16")),
        *(b"[]", b'"text"', b"null", b"", b"<!DOCTYPE html>"),
    ],
)
def test_anything_that_readers_could_disagree_about_is_not_read(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        strict_object(body)


@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_nesting_has_a_bound_that_brackets_in_texts_do_not_reach(brackets: str) -> None:
    def nested(depth: int) -> bytes:
        opened, closed = ("[", "]") if brackets == "[]" else ('{"a":', "}")
        inner = "1" if brackets == "{}" else ""
        return f'{{"x":{opened * (depth - 1)}{inner}{closed * (depth - 1)}}}'.encode()

    assert "x" in strict_object(nested(MAX_NESTING))
    for depth in (MAX_NESTING + 1, 20_000):
        with pytest.raises(ValueError, match="nested"):
            strict_object(nested(depth))
    text = '[{"' * 40
    assert strict_object(json.dumps({"x": text, "y": [[]] * 40}).encode())["x"] == text
