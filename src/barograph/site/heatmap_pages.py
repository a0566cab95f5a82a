"""The content of `/heatmap` (pure): the market as a treemap, its legend, and its numbers."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from markupsafe import Markup, escape

from barograph.kit.text import rate, usd
from barograph.markets.perpetuals import day_change
from barograph.markets.symbols import symbol_of
from barograph.markets.view import MarketView
from barograph.site.charts.svg import Box, number, text, text_of
from barograph.site.charts.treemap import squarified
from barograph.site.paths import MARKETS_FOLDER, MARKETS_PATH
from barograph.site.tints import (
    CHANGE_EDGES,
    FUNDING_EDGES,
    UNKNOWN,
    change_tint,
    funding_tint,
)

By = Literal["funding", "change"]
COLOURS: dict[By, str] = {"funding": "Funding per 8 h", "change": "Price change in 24 h"}
UNKNOWN_SHOWN_PCT = 0.5
"""A smaller share would be rounded to nothing."""

_LETTER = 0.76
"""The width of a bold capital as a share of the font size; few are wider in any font."""

_LONG_NAME = 0.8
"""How much a name that would not fit may be smaller."""

_PADDING = 5.0


def chosen_colour(asked: str | None) -> By:
    """The requested colour if there is one of this name, otherwise funding."""
    return next((each for each in get_args(By) if each == asked), "funding")


class MapSize(NamedTuple):
    """A drawing for one kind of screen: targets of at least 24 pixels, letters of at least 10."""

    name: str
    width: int
    height: int
    letters: int
    """The smallest font size of usual names."""

    least_side: int
    least_area: int


SIZES = (
    MapSize("broad", 1000, 560, letters=14, least_side=30, least_area=1_500),
    # A window of 320 pixels draws it at 80 % of its size.
    MapSize("tall", 360, 620, letters=13, least_side=30, least_area=1_350),
)


class HeatCell(NamedTuple):
    """One perpetual."""

    name: str
    coin: str
    """Shorter than the name if that has a multiplier."""

    symbol: str | None
    """The symbol of its page; None if it has none."""

    interest_usd: float
    share_pct: float
    """Of the open interest of all contracts."""

    funding_8h_pct: float
    change_pct: float | None

    def number(self, by: By) -> float | None:
        """The number that the colour shows."""
        return self.funding_8h_pct if by == "funding" else self.change_pct

    def tint(self, by: By) -> str:
        """The class of its colour."""
        if by == "funding":
            return funding_tint(self.funding_8h_pct)
        return change_tint(self.change_pct)


class Heatmap(NamedTuple):
    """The perpetuals of one reading that have open interest, the largest first."""

    as_of: int
    until: int
    source: str
    total_usd: float
    cells: Sequence[HeatCell]

    without: int
    """How many contracts are not drawn, because they have no open interest that we know."""

    def sentence(self, by: By) -> str:
        """How much of the open interest is on either side of zero."""
        known = [(each.number(by), each.share_pct) for each in self.cells]
        up = sum(share for value, share in known if value is not None and value > 0)
        down = sum(share for value, share in known if value is not None and value < 0)
        unknown = sum(share for value, share in known if value is None)
        if self.cells and all(value is None for value, _ in known):
            return f"{usd(self.total_usd)} of open interest. The changes of 24 hours are unknown."
        rest = f", {unknown:.0f} % unknown" if unknown >= UNKNOWN_SHOWN_PCT else ""
        words = ("longs pay", "shorts pay")
        if by == "change":
            words = ("the price rose in 24 hours", "it fell")
        return (
            f"{usd(self.total_usd)} of open interest: {up:.0f} % in contracts where {words[0]}, "
            f"{down:.0f} % where {words[1]}{rest}."
        )


def heatmap(view: MarketView) -> Heatmap:
    """Collect the fresh data."""
    reading = view.perpetuals
    held = [(each.open_interest_usd or 0.0, each) for each in reading.contracts]
    total = sum(interest for interest, _ in held)
    cells = [
        HeatCell(
            each.base,
            each.asset,
            symbol_of(view.by_name, each),
            interest,
            100 * interest / total,
            each.funding_8h_pct,
            day_change(view, each).price_pct,
        )
        for interest, each in held
        if interest > 0
    ]
    cells.sort(key=lambda each: -each.interest_usd)
    without = len(held) - len(cells)
    return Heatmap(reading.as_of, view.until, reading.source, total, cells, without)


class Layout(NamedTuple):
    """The cells that are large enough for a drawing, and what is merged into one more box."""

    size: MapSize
    cells: Sequence[HeatCell]
    boxes: Sequence[Box]
    others: Sequence[HeatCell]


def fit(cells: Sequence[HeatCell], size: MapSize) -> Layout:
    """Lay out cells that have an area, the largest first."""
    box = Box(0, 0, size.width, size.height)
    weights = [each.interest_usd for each in cells]
    least = sum(weights) * size.least_area / (box.width * box.height)
    count = sum(each >= least for each in weights)
    while True:
        rest = sum(weights[count:])
        boxes = squarified(weights[:count] + ([rest] if rest > 0 else []), box)
        is_usable = all(min(each.width, each.height) >= size.least_side for each in boxes)
        # A large contract is never merged, even if a small one beside it is a thin strip.
        if is_usable or count == 0 or weights[count - 1] >= 4 * least:
            return Layout(size, cells[:count], boxes, cells[count:])
        count -= 1


def draw_map(layout: Layout, by: By, root: str) -> Markup:
    """Draw a cell per contract, and one for all that are too small."""
    size, shown, boxes, others = layout
    folder = str(escape(f"{root}{MARKETS_FOLDER}"))
    drawn = [
        _cell(cell, place, by, size, folder) for cell, place in zip(shown, boxes, strict=False)
    ]
    if others:
        drawn.append(_others(len(others), boxes[-1], size, str(escape(f"{root}{MARKETS_PATH}"))))
    # Safe: names are escaped, and everything else is numbers.
    return Markup(  # noqa: S704
        f'<svg class="map {size.name}" viewBox="0 0 {size.width} {size.height}" role="group" '
        f'aria-label="Perpetuals by open interest. Colour: {COLOURS[by].lower()}.">'
        f"{''.join(drawn)}</svg>"
    )


def _cell(cell: HeatCell, box: Box, by: By, size: MapSize, folder: str) -> str:
    value = cell.number(by)
    decimals = 4 if by == "funding" else 2
    shown = "unknown" if value is None else f"{value:+.{decimals}f} %"
    inner = (
        f"<title>{text_of(_title(cell))}</title>{_rect(box)}{_words(cell.coin, shown, box, size)}"
    )
    if cell.symbol is None:
        return f'<g class="{cell.tint(by)}">{inner}</g>'
    return f'<a class="{cell.tint(by)}" href="{folder}{cell.symbol}">{inner}</a>'


def _title(cell: HeatCell) -> str:
    changed = "unknown" if cell.change_pct is None else f"{cell.change_pct:+.2f} %"
    return (
        f"{cell.name}: open interest {usd(cell.interest_usd)} ({cell.share_pct:.1f} "
        f"%), funding {rate(cell.funding_8h_pct)} per 8 h, price in 24 h {changed}"
    )


def _others(count: int, box: Box, size: MapSize, address: str) -> str:
    """One cell for the contracts that are too small, without a colour of its own."""
    words = _words("Others", f"{count:,} contracts", box, size)
    return (
        f'<a class="others" href="{address}"><title>Others: {count:,} contracts that are too small '
        f"to draw alone</title>{_rect(box)}{words}</a>"
    )


def _rect(box: Box) -> str:
    return (
        f'<rect x="{number(box.left)}" y="{number(box.top)}" width="{number(box.width)}" '
        f'height="{number(box.height)}"/>'
    )


def _words(name: str, value: str, box: Box, size: MapSize) -> str:
    """The name, and the value below it, as far as they fit; a cut name would be another one."""
    room, least = (box.width - _PADDING) / _LETTER, size.letters
    letters = max(least, min(3 * least, room / max(len(name), 7), box.height / 4))
    if len(name) * letters > room:
        letters = _LONG_NAME * least
    if len(name) * letters > room:
        return ""
    small = max(least, 0.6 * letters)
    has_value = len(value) * small <= 1.15 * room and box.height >= 1.3 * (letters + small)
    x, y = (box.left + box.right) / 2, (box.top + box.bottom) / 2
    high = y - 0.1 * letters if has_value else y + 0.35 * letters
    written = _text(x, high, name, letters, "coin")
    return written + _text(x, high + 1.25 * small, value, small, "") if has_value else written


def _text(x: float, y: float, words: str, letters: float, kind: str) -> str:
    return text(x, y, words, kind, "middle").replace("<text", f'<text font-size="{letters:.1f}"', 1)


def legend(by: By) -> list[tuple[str, str]]:
    """Each tint with the number at which it begins."""
    above, below = FUNDING_EDGES if by == "funding" else CHANGE_EDGES
    down = [(f"tint-down-{place}", f"{-edge:g}") for place, edge in enumerate(below, 1)]
    up = [(f"tint-up-{place}", f"+{edge:g}") for place, edge in enumerate(above, 1)]
    return [*reversed(down), ("tint-0", "0"), *up, (UNKNOWN, "unknown")]


def number_rows(layout: Layout, root: str) -> Markup:
    """The body of a table with the numbers of a drawing."""
    folder = str(escape(f"{root}{MARKETS_FOLDER}"))
    rows = [_line(each, folder) for each in layout.cells]
    if layout.others:
        held = usd(sum(each.interest_usd for each in layout.others))
        rows.append(
            f'<tr><th scope="row">{len(layout.others):,} others</th><td>{held}</td>'
            "<td>—</td><td>—</td></tr>"
        )
    # Safe: names are escaped, and everything else is numbers.
    return Markup("\n".join(rows))  # noqa: S704


def _line(cell: HeatCell, folder: str) -> str:
    name = str(escape(cell.name))
    linked = name if cell.symbol is None else f'<a href="{folder}{cell.symbol}">{name}</a>'
    changed = "—" if cell.change_pct is None else f"{cell.change_pct:+.2f} %"
    return (
        f'<tr><th scope="row">{linked}</th><td>{usd(cell.interest_usd)}</td>'
        f"<td>{rate(cell.funding_8h_pct)}</td><td>{changed}</td></tr>"
    )
