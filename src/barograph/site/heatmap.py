"""`/heatmap`: the market as a treemap, and its legend."""

import asyncio
from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import inf
from typing import Literal, NamedTuple

from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response

from barograph.kit.text import rate, usd
from barograph.markets.cross import CrossMarket
from barograph.markets.cross_coins import CrossCoin
from barograph.markets.cross_documents import CROSS_PATH
from barograph.markets.view import PERPETUALS
from barograph.site.charts.svg import Box, number, text_of
from barograph.site.coin_text import (
    missing_rates,
    missing_text,
    short_total,
    tinted_funding,
    venues_text,
)
from barograph.site.paths import HEATMAP_PAGE, MARKETS_PATH, coin_page
from barograph.site.responses import Page, PageRouter
from barograph.site.site import INCOMPLETE_PAGE_MS, Site
from barograph.site.templating import (
    CHANGE_EDGES,
    FUNDING_EDGES,
    UNKNOWN_TINT,
    change_tint,
    funding_tint,
    shown,
)


def squarified(weights: Sequence[float], box: Box) -> list[Box]:
    """Divide a box into one part per weight, each nearly square; weights must be positive.

    Rows lie along the shorter side and grow while that makes their parts more square (Bruls,
    Huizing and van Wijk, "Squarified Treemaps", 2000). Descending weights give the best shapes.
    """
    parts: list[Box] = []
    sums = [*accumulate(reversed(weights), initial=0.0)][::-1]
    while len(parts) < len(weights):
        start, is_wide = len(parts), box.width >= box.height
        end = _row_end(weights, start, sums[start], box)
        halves = (sum(weights[start:end]), sums[end])
        row, box = _divided(box, halves, across=is_wide)
        parts += _divided(row, weights[start:end], across=not is_wide)
    return parts


def _row_end(weights: Sequence[float], start: int, total: float, box: Box) -> int:
    """Where the row that begins at `start` ends."""
    side = min(box.width, box.height)
    scale = box.width * box.height / total
    area, smallest, largest, worst = 0.0, inf, 0.0, inf
    for place in range(start, len(weights)):
        part = weights[place] * scale
        area, smallest, largest = area + part, min(smallest, part), max(largest, part)
        depth = area / side
        ratio = max(largest / depth**2, depth**2 / smallest)
        if ratio > worst:
            return place
        worst = ratio
    return len(weights)


def _divided(box: Box, weights: Sequence[float], *, across: bool) -> list[Box]:
    """The parts of a box, side by side, or below each other if not `across`."""
    start, size = (box.left, box.width) if across else (box.top, box.height)
    total = sum(weights)
    edges = (start + size * each / total for each in accumulate(weights, initial=0.0))
    if across:
        return [box._replace(left=first, right=last) for first, last in pairwise(edges)]
    return [box._replace(top=first, bottom=last) for first, last in pairwise(edges)]


By = Literal["funding", "change"]
COLOURS: dict[By, str] = {"funding": "Funding per 8 h", "change": "Price change in 24 h"}
UNKNOWN_SHOWN_PCT = 0.5
"""A smaller share would be rounded to nothing."""

_LETTER = 0.76
"""The width of a bold capital as a share of the font size; few are wider in any font."""

_DIGIT = 0.66
_LINE = 1.2
_LEAST_LETTERS = 6.0
"""Smaller text can't be read; the title of the cell has it."""
_PADDING = 4.0
_WORD = 5
"""A longer name may take two lines."""

_STRONG = "34"
"""The tints whose numbers are shortened if they don't fit."""


class MapSize(NamedTuple):
    """A drawing for one kind of screen, with targets of at least 24 pixels."""

    name: str
    width: int
    height: int
    letters: int
    """The usual font size of small cells."""

    least_side: int
    least_area: int


SIZES = (
    MapSize("broad", 1000, 560, letters=13, least_side=30, least_area=1_500),
    # A window of 320 pixels draws it at 80 % of its size.
    MapSize("tall", 360, 620, letters=13, least_side=32, least_area=1_350),
)


class HeatCell(NamedTuple):
    """One coin. Most are too small to draw, so the rest is found when it is needed."""

    coin: CrossCoin
    interest_usd: float
    """With what is missing, so that no cell shrinks because a venue fails."""

    share_pct: float
    """Of the open interest of all coins."""

    @property
    def path(self) -> str:
        """Its page; empty if it has none."""
        return coin_page(self.coin.asset) or ""

    @property
    def title(self) -> str:
        """All its numbers, as XML."""
        moved = self.coin.price_pct
        changed = "unknown" if moved is None else _change(moved)[0]
        funding, held = self.coin.funding_8h_pct, short_total(self.coin.open_interest)
        lacks = missing_rates(self.coin)
        return text_of(
            f"{self.coin.asset}: open interest {held}, {self.share_pct:.1f} % of all, funding "
            f"{'unknown' if funding is None else rate(funding)} per 8 h{lacks and f' {lacks}'}, "
            f"price in 24 h {changed}"
        )

    def number(self, by: By) -> float | None:
        """The number that the colour shows."""
        return tinted_funding(self.coin) if by == "funding" else self.coin.price_pct


def _change(percent: float) -> tuple[str, str]:
    return f"{percent:+z.2f} %", f"{percent:+z.1f}"


class Heatmap(NamedTuple):
    """The coins that have open interest, the largest first."""

    total: str
    """The open interest of all coins, and what is missing from it."""

    cells: Sequence[HeatCell]

    without: int
    """How many coins are not drawn, because they have no open interest that we know."""

    def sentence(self, by: By) -> str:
        """How much of the open interest is on either side of zero."""
        known = [(cell.number(by), cell.share_pct) for cell in self.cells]
        up = sum(share for value, share in known if value is not None and value > 0)
        down = sum(share for value, share in known if value is not None and value < 0)
        unknown = sum(share for value, share in known if value is None)
        if not self.cells:
            return "The open interest of all coins is zero or unknown."
        if all(value is None for value, _ in known):
            return f"{self.total}. The changes of 24 hours are unknown."
        rest = f", {unknown:.0f} % unknown" if unknown >= UNKNOWN_SHOWN_PCT else ""
        words = ("longs pay", "shorts pay")
        if by == "change":
            words = ("the price rose in 24 hours", "it fell")
        return (
            f"{self.total}: {up:.0f} % in coins where {words[0]}, "
            f"{down:.0f} % where {words[1]}{rest}."
        )


def heatmap(market: CrossMarket) -> Heatmap:
    """Collect the fresh data."""
    coins = market.coins.values()
    held = [(coin.open_interest.at_least_usd or 0.0, coin) for coin in coins]
    total = sum(interest for interest, _ in held)
    held_most = sorted((each for each in held if each[0] > 0), key=lambda each: -each[0])
    cells = [HeatCell(coin, usd, 100 * usd / total) for usd, coin in held_most]
    return Heatmap(_total_text(market), cells, len(held) - len(cells))


def _total_text(market: CrossMarket) -> str:
    total = market.open_interest
    lacks = missing_text(total.usd, total.missing, market.by_venue)
    return f"{shown(total.usd, usd)} of open interest{lacks and f' ({lacks})'}"


class Layout(NamedTuple):
    """The cells that are large enough for a drawing; the others share the last box."""

    size: MapSize
    cells: Sequence[HeatCell]
    boxes: Sequence[Box]
    others: int


def fit(cells: Sequence[HeatCell], size: MapSize) -> Layout:
    """Lay out cells that have an area, the largest first."""
    box = Box(0, 0, size.width, size.height)
    weights = [cell.interest_usd for cell in cells]
    least = sum(weights) * size.least_area / (box.width * box.height)
    count = sum(weight >= least for weight in weights)
    while True:
        rest = sum(weights[count:])
        boxes = squarified(weights[:count] + ([rest] if rest > 0 else []), box)
        is_usable = all(min(each.width, each.height) >= size.least_side for each in boxes)
        # A large coin is never merged, even if a small one beside it is a thin strip.
        if is_usable or count == 0 or weights[count - 1] >= 4 * least:
            return Layout(size, cells[:count], boxes, len(cells) - count)
        count -= 1


def draw_map(layout: Layout, by: By, root: str) -> Markup:
    """Draw a cell per coin, and one for all that are too small."""
    size, shown, boxes, others = layout
    start = str(escape(root))
    drawn = [_cell(cell, box, by, size, start) for cell, box in zip(shown, boxes, strict=False)]
    if others:
        title = f"Others: {others:,} coins that are too small to draw alone"
        words = _words("Others", [f"{others:,} coins", ""], boxes[-1], size)
        address = str(escape(f"{root}{MARKETS_PATH}"))
        drawn.append(_linked("others", address, title, boxes[-1], words))
    # Safe: names are escaped, and everything else is numbers.
    return Markup(  # noqa: S704
        f'<svg class="map {size.name}" viewBox="0 0 {size.width} {size.height}" role="group" '
        f'aria-label="Coins by open interest. Colour: {COLOURS[by].lower()}." '
        f'text-anchor="middle">{"".join(drawn)}</svg>'
    )


def _cell(cell: HeatCell, box: Box, by: By, size: MapSize, root: str) -> str:
    value, numbers = cell.number(by), ["unknown", ""]
    tint = (funding_tint if by == "funding" else change_tint)(value)
    if value is not None:
        full, short = (rate(value), f"{value:+.2f}") if by == "funding" else _change(value)
        star = "*" if by == "funding" and cell.coin.funding_missing else ""
        numbers = [full + star, short + star if tint[-1] in _STRONG else ""]
    address = cell.path and f"{root}{cell.path}"
    words = _words(cell.coin.asset, numbers, box, size)
    return _linked(tint, address, cell.title, box, words)


def _linked(kind: str, address: str, title: str, box: Box, words: str) -> str:
    tag, link = ("a", f' href="{address}"') if address else ("g", "")
    return (
        f'<{tag} class="{kind}"{link}><title>{title}</title><rect x="{number(box.left)}" '
        f'y="{number(box.top)}" width="{number(box.width)}" height="{number(box.height)}"/>'
        f"{words}</{tag}>"
    )


def _words(name: str, values: Sequence[str], box: Box, size: MapSize) -> str:
    """The name and the first value that fits below it; the last is written smaller if needed."""
    usual, broken = size.letters, _broken(name)
    most = max(usual, min(2.2 * usual, box.width / max(len(name), 7) / _LETTER, box.height / 4))
    for value in values:
        for names in ([name], broken):
            letters = min(most, _fitting(names, value, box))
            if letters >= 0.75 * usual:
                return _lines(names, value, letters, box, size)
    return _lines(names, value, letters, box, size) if letters >= _LEAST_LETTERS else ""


def _lines(names: Sequence[str], value: str, letters: float, box: Box, size: MapSize) -> str:
    small = max(min(letters, size.letters), 0.6 * letters) if value else 0.0
    y = (box.top + box.bottom - _LINE * (letters * len(names) + small)) / 2
    x, written = number((box.left + box.right) / 2), ""
    for words in names:
        y += _LINE * letters
        written += _text(x, y - 0.25 * letters, text_of(words), letters, ' class="coin"')
    return written + (_text(x, y + 0.95 * small, value, small) if value else "")


def _broken(name: str) -> list[str]:
    """A long name in two lines, after its multiplier or in the middle."""
    if len(name) <= _WORD:
        return [name]
    digits = len(name) - len(name.lstrip("0123456789"))
    cut = digits % len(name) or (len(name) + 1) // 2
    return [name[:cut], name[cut:]]


def _fitting(names: Sequence[str], value: str, box: Box) -> float:
    """The font size at which all lines fit into a box."""
    widest = max(_LETTER * len(names[0]), _LETTER * len(names[-1]), _DIGIT * len(value.rstrip("*")))
    lines = len(names) + bool(value)
    return min((box.width - _PADDING) / widest, (box.height - _PADDING) / (_LINE * lines))


def _text(x: str, y: float, words: str, letters: float, kind: str = "") -> str:
    at = f'font-size="{letters:.1f}" x="{x}" y="{number(y)}"'
    return f"<text{kind} {at}>{words}</text>"


def legend(by: By) -> list[tuple[str, str]]:
    """Each tint with the number at which it begins."""
    above, below = FUNDING_EDGES if by == "funding" else CHANGE_EDGES
    down = [(f"tint-down-{place}", f"{-edge:g}") for place, edge in enumerate(below, 1)]
    up = [(f"tint-up-{place}", f"+{edge:g}") for place, edge in enumerate(above, 1)]
    return [*reversed(down), ("tint-0", "0"), *up, (UNKNOWN_TINT, "unknown")]


def heatmap_routes(router: PageRouter, site: Site) -> None:
    """The route of the page."""

    @router.get(HEATMAP_PAGE)
    async def read_heatmap(request: Request) -> Response:
        by: By = "change" if request.query_params.get("by") == "change" else "funding"
        query = b"" if by == "funding" else f"by={by}".encode()
        return await site.respond(request, lambda now: _heatmap(site, by, now), query=query)


async def _heatmap(site: Site, by: By, now: int) -> Page:
    market = await site.compared()
    drawn = None if market is None else heatmap(market)
    layouts = []
    if drawn is not None:  # several hundred coins take a while
        layouts = [await asyncio.to_thread(fit, drawn.cells, size) for size in SIZES]
    body = site.templates.render(
        "heatmap.html",
        here=HEATMAP_PAGE,
        map=drawn,
        market=market,
        venues="" if market is None else venues_text(market),
        last=site.board.latest(PERPETUALS),
        by=by,
        colours=COLOURS,
        legend=legend(by),
        drawings=[draw_map(layout, by, site.templates.root) for layout in layouts],
        switched=site.switched(now),
        api_path=CROSS_PATH,
    )
    return Page(body, since=now, until=now + INCOMPLETE_PAGE_MS if market is None else market.until)
