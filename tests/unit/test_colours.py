"""The colours of the stylesheet: readable in both themes, with one meaning each."""

import re
from colorsys import rgb_to_hls
from importlib.resources import files
from itertools import combinations

import pytest

from barograph.badges import svg
from barograph.site.templating import CHANGE_EDGES, UNKNOWN_TINT, change_tint

CSS = (files("barograph.site") / "static" / "site.css").read_text("utf-8")
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", CSS)
}
MEANINGS = ("long", "short", "trace", "good", "warn", "bad")
TINTS = ["even", "unknown", *(f"{way}-{n}" for way in ("up", "down") for n in range(1, 5))]
PILLS = re.findall(
    r"\.pill[\w.]* \{[^}]*background: var\(--([\w-]+)\);\s+color: var\(--([\w-]+)\)", CSS
)
BOTH_THEMES = pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])


def channels(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))


def luminance(colour: str) -> float:
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4
        for each in channels(colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str, theme: int) -> float:
    """The contrast ratio of WCAG 2.2 of two colours of the stylesheet."""
    dark, light = sorted(luminance(COLOURS[name][theme]) for name in (one, other))
    return (light + 0.05) / (dark + 0.05)


@BOTH_THEMES
def test_text_is_readable_on_every_tint_and_pill(theme: int) -> None:
    assert len(PILLS) == 4
    for ground, text in [*((tint, "text") for tint in TINTS), *PILLS]:
        assert contrast(ground, text, theme) >= 4.5, (ground, text)


@BOTH_THEMES
def test_lines_stand_out_from_the_page(theme: int) -> None:
    for line in (*MEANINGS, "quiet"):
        assert contrast(line, "ground", theme) >= 4.5
        assert contrast(line, "raised", theme) >= 4.5


@BOTH_THEMES
def test_no_two_meanings_share_a_hue(theme: int) -> None:
    hues = {name: rgb_to_hls(*channels(COLOURS[name][theme]))[0] * 360 for name in MEANINGS}

    for one, other in combinations(MEANINGS, 2):
        apart = abs(hues[one] - hues[other])
        assert min(apart, 360 - apart) >= 25, (one, other)


def test_every_tint_that_a_page_may_use_has_a_colour() -> None:
    edges, _ = CHANGE_EDGES
    used = {change_tint(sign * each) for each in (0.0, *edges) for sign in (1, -1)}

    for name in {*used, UNKNOWN_TINT}:
        assert re.search(rf"^\.{name} \{{ --tint: var\(--([\w-]+)\)", CSS, re.MULTILINE), name


def test_badges_use_the_light_colours_of_the_same_meanings_with_readable_text() -> None:
    badge = (svg.LONG, svg.SHORT, svg.MEASURED, svg.GOOD, svg.WARN, svg.BAD)

    assert badge == tuple(COLOURS[name][0] for name in MEANINGS)
    for colour in (*badge, svg.UNKNOWN, svg.LABEL_GREY):
        assert 1.05 / (luminance(colour) + 0.05) >= 4.5, f"white text on {colour}"


def test_the_gauge_uses_the_colours_of_the_page() -> None:
    drawn = svg.render_gauge(svg.GaugeContent("neutral", 0.01, "test venue"))

    known = {colour for pair in COLOURS.values() for colour in pair}
    assert set(re.findall(r"#\w{6}\b", drawn)) <= known
