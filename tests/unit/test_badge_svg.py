"""Whatever a badge says, it is well-formed, harmless and readable."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph import NOTICE
from barograph.badges import svg
from barograph.badges.svg import Badge, Style, render

ELEMENTS = {"svg", "title", "desc", "linearGradient", "stop", "path", "rect", "g", "text"}
ATTRIBUTES = {
    *("width", "height", "role", "aria-label", "aria-hidden", "id", "x2", "y2", "offset", "rx"),
    *("stop-opacity", "fill", "fill-opacity", "d", "transform", "font-family", "font-size"),
    *("text-anchor", "text-rendering", "x", "y", "textLength"),
}
EVERY_STYLE = pytest.mark.parametrize("style", ["flat", "flat-square"])
TEXTS = st.text(st.characters(exclude_categories=())) | st.sampled_from(
    [
        *("", "<script>alert(1)</script>", '" onload="alert(1)', "]]>", "&amp;", "\0"),
        *("\ud800", "\ufffe"),
    ]
)


def parsed(drawn: str) -> ET.Element:
    return ET.fromstring(drawn.encode())


def local(name: str) -> str:
    return name.rpartition("}")[2]


@EVERY_STYLE
@given(label=TEXTS, message=TEXTS, title=TEXTS, description=TEXTS)
def test_any_text_gives_a_well_formed_badge_that_holds_nothing_but_a_drawing(
    style: Style, label: str, message: str, title: str, description: str
) -> None:
    root = parsed(render(Badge(label, message, svg.MEASURED, style, title, description)))

    assert {local(element.tag) for element in root.iter()} <= ELEMENTS
    assert {name for element in root.iter() for name in element.attrib} <= ATTRIBUTES
    assert len(list(root.iter())) == (15 if style == "flat" else 8)


@EVERY_STYLE
def test_texts_arrive_as_they_are(style: Style) -> None:
    text = """a<b> & "c" 'd' −5 % é 漢"""  # noqa: RUF001
    root = parsed(render(Badge(text, text + "!", svg.BAD, style, text + "?", text + ".")))

    assert root.get("role") == "img"
    assert root.get("aria-label") == text + "?"
    assert root[0].text == text + "?"
    assert root[1].text == f"{text}. {NOTICE}"
    texts = [each.text for each in root.iter() if local(each.tag) == "text"]
    assert texts == [text, text + "!"] * (2 if style == "flat" else 1)


@pytest.mark.parametrize("control", ["\0", "\n", "\t", "\x1b", "\x7f", "\x85", "\u202e", "\u2066"])
def test_a_control_character_becomes_a_space(control: str) -> None:
    text = f"a{control}b"

    drawn = render(Badge(text, text, svg.MEASURED, "flat", text, text))

    assert control not in drawn
    assert drawn == render(Badge("a b", "a b", svg.MEASURED, "flat", "a b", "a b"))
