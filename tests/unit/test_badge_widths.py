"""Badges have the widths that Shields gives them: badge-maker itself is asked."""

import json
import random
import re
from itertools import product
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest

from barograph.badges.svg import MEASURED, Badge, Style, render, text_width
from barograph.markets.regime import LABELS
from support.node import LOCKED, SCRIPTS, run_script

ASCII = [chr(code) for code in range(33, 127)]
OTHERS = ["−", "–", "·"]  # noqa: RUF001
STYLES: tuple[Style, ...] = ("flat", "flat-square")


class Geometry(NamedTuple):
    """Where everything is on a badge."""

    size: tuple[str | None, str | None]
    texts: list[tuple[str | None, ...]]


def geometry(svg: str) -> Geometry:
    root = ET.fromstring(svg)
    texts = [each for each in root.iter() if each.tag.endswith("}text")]
    fields = ("x", "y", "textLength")
    return Geometry(
        (root.get("width"), root.get("height")),
        [(each.text, *map(each.get, fields)) for each in texts if each.get("y") == "140"],
    )


def theirs(badges: list[Badge]) -> list[str]:
    drawn: list[str] = run_script(
        "draw.mjs",
        [
            {
                "label": badge.label,
                "message": badge.message,
                "color": badge.colour,
                "style": badge.style,
            }
            for badge in badges
        ],
    )
    return drawn


def badge(label: str, message: str, style: Style = "flat") -> Badge:
    return Badge(label, message, MEASURED, style, f"{label}: {message}", "Something.")


def drawable_badges() -> list[Badge]:
    """Hundreds of badges that can really be asked for."""
    chance = random.Random(11)
    symbols = ["BTC", "ETH", "SOL", "1000PEPE", "WIF", "M", "ABCDEFGHIJKLMNO", "0123456789"]
    rates = [f"{sign}{chance.random():.4f}" for sign in "+−" for _ in range(12)]  # noqa: RUF001
    messages = [f"{rate} % / {hours}h" for rate in (*rates, "0.0000") for hours in (1, 4, 8)]
    pairs = [(f"{symbol} funding", message) for symbol in symbols for message in messages]
    pairs += [("paper record", f"{days} days") for days in (0, 2, 9, 10, 99, 431, 1111, 739_000)]
    words = ("1 day", "not started", "invalid sinceDate", "sinceDate in the future")
    pairs += [("paper record", word) for word in words]
    pairs += [("regime", label) for label in (*LABELS, "unknown", "unavailable")]
    pairs += [("status", condition) for condition in ("ok", "degraded", "down")]
    pairs += [("barograph", "badge not found")]
    return [badge(*pair, style) for pair, style in product(pairs, STYLES)]


def test_every_character_is_as_wide_as_with_shields() -> None:
    # Ten of a kind show a tenth of the rounding.
    badges = [badge("x", each * 10) for each in [*ASCII, *OTHERS]]
    badges += [badge("x", f"|{' ' * count}|") for count in range(1, 40)]

    assert [geometry(render(each)) for each in badges] == [geometry(svg) for svg in theirs(badges)]


def test_hundreds_of_badges_have_the_size_and_text_positions_of_shields() -> None:
    badges = drawable_badges()
    assert len(badges) > 400

    assert [geometry(render(each)) for each in badges] == [geometry(svg) for svg in theirs(badges)]


@pytest.mark.parametrize(
    ("text", "width"), [("", 0.0), (" ", 3.87), ("m", 10.7), ("%", 11.84), ("漢", 11.0)]
)
def test_a_width_is_that_of_verdana_and_one_em_if_it_is_unknown(text: str, width: float) -> None:
    assert text_width(text) == width


def test_the_npm_lock_pins_by_hash_and_names_no_host() -> None:
    text = (SCRIPTS / LOCKED[1]).read_text()
    packages: dict[str, dict[str, Any]] = json.loads(text)["packages"]

    assert not re.search(r"://|resolved|registry", text)
    for name, package in packages.items():
        assert name == "" or package["integrity"].startswith("sha512-")
