"""Strips: how something was, cell by cell, as a small drawing (pure)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from barograph.status.wire import Condition

STEP: Final = 5
WIDTH: Final = 4
HEIGHT: Final = 24
_HEIGHTS: Final[dict[Condition | None, int]] = {"ok": 14, "degraded": 19, "down": 24, None: 3}
"""What is worse stands out, also for who cannot tell colours apart."""

_STRIP: Final = Markup(
    '<svg class="strip" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
    'aria-label="{}">{}</svg>'
)
_CELL: Final = Markup(
    '<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>'
)


class Cell(NamedTuple):
    """One hour or day; `condition` is None where nothing is known of it."""

    condition: Condition | None
    text: str


def strip(cells: Sequence[Cell], label: str) -> Markup:
    """Draw cells from left to right; `label` says the same to whoever cannot see them."""
    drawn = Markup().join(_drawn(number, cell) for number, cell in enumerate(cells))
    return _STRIP.format(len(cells) * STEP - (STEP - WIDTH), HEIGHT, label, drawn)


def _drawn(number: int, cell: Cell) -> Markup:
    height = _HEIGHTS[cell.condition]
    name = cell.condition or "none"
    return _CELL.format(name, number * STEP, HEIGHT - height, WIDTH, height, cell.text)
