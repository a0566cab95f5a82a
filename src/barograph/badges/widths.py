"""How wide a text is in Verdana at 11 pixels, the font that badges are measured in (pure)."""

from functools import reduce
from operator import add

FONT_PIXELS = 11
UNITS_PER_EM = 2048

_CHARACTERS_BY_UNITS = {
    549: "'",
    562: "il",
    705: "j",
    720: " f",
    745: ",.·",
    806: "!t",
    862: "I",
    873: "r",
    931: "()-/:;J[\\]|",
    940: '"',
    1067: "cs",
    1076: "z",
    1117: "?",
    1139: "L",
    1177: "F",
    1212: "kvxy",
    1219: "e",
    1230: "a",
    1235: "P",
    1244: "o",
    1260: "Y",
    1262: "T",
    1275: "bdgpq",
    1296: "Ehnu",
    1300: "{}",
    1302: "$*0123456789_`\N{EN DASH}",
    1400: "ASV",
    1404: "BXZ",
    1419: "K",
    1424: "R",
    1430: "C",
    1488: "&",
    1499: "U",
    1532: "N",
    1540: "H",
    1579: "D",
    1588: "G",
    1612: "OQ",
    1676: "#+<=>^w~\N{MINUS SIGN}",
    1726: "M",
    1992: "m",
    2026: "W",
    2048: "@",
    2204: "%",
}
"""Advance widths in font units."""


class _Advances(dict[str, float]):
    """Pixels by character; one that is not known takes a whole em, so that it has room enough."""

    def __missing__(self, _: str) -> float:
        return float(FONT_PIXELS)


def text_width(text: str) -> float:
    """The width of a text in pixels.

    Added up from left to right in binary fractions, as Shields does it: another order or exact
    arithmetic would put some texts on the other side of a whole pixel.
    """
    return reduce(add, map(_ADVANCES.__getitem__, text), 0.0)


def drawn_width(text: str) -> int:
    """The width that a text is given on a badge: whole pixels, and odd, so that it sits sharply."""
    return int(text_width(text)) | 1


# A browser measures to hundredths of a pixel, and so does everybody who measured with one.
_ADVANCES = _Advances(
    (character, round(100 * units * FONT_PIXELS / UNITS_PER_EM) / 100)
    for units, characters in _CHARACTERS_BY_UNITS.items()
    for character in characters
)
