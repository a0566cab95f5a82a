"""`/chart/….svg`: the charts as images for other pages; errors are images too."""

import re
from base64 import b64encode
from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import lru_cache
from hashlib import sha256
from math import floor
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from barograph import NOTICE, SITE_NAME
from barograph.badges.documents import SVG
from barograph.errors import NotFound, TemporarilyUnavailable, UpstreamUnavailable
from barograph.kit.documents import CORS, NO_STORE, NOSNIFF, Document, Headers
from barograph.limits.render_queue import RenderedReads
from barograph.site.chart_reader import ChartReader, asked_series, listed_contract
from barograph.site.charts.lines import SIZE, empty_chart
from barograph.site.charts.svg import text, text_of
from barograph.site.paths import CHART_FOLDER
from barograph.site.responses import Page, PageEndpoint, PageRouter
from barograph.site.series_charts import LIQUIDATIONS, Chart, days_from_query, days_text
from barograph.site.site import Site
from barograph.site.static_files import packaged_files
from barograph.site.templating import SIMULATED

CACHED_IMAGES = 256
"""About 12 kB each, including the compressed form."""

ONE_MINUTE = b"public, max-age=60"
NO_SUCH_CHART = "no such chart"

EDGE = 8
TITLE_HEIGHT = 24
LINE_HEIGHT = 11
PIXELS = 1.5
"""Per unit: the size of the image where nobody asks for another."""

LINES = 3
NARROW_CHARACTER = 4.6
"""The greatest average width of a character in 8-unit text."""

WIDTH = SIZE[0] + 2 * EDGE
HEIGHT = EDGE + TITLE_HEIGHT + SIZE[1] + LINES * LINE_HEIGHT + EDGE
IMAGE_SIZE = (round(WIDTH * PIXELS), round(HEIGHT * PIXELS))

_OWN_RULES = (
    ".chart text{font-size:8.5px}.ground{fill:var(--raised);stroke:var(--line)}"
    "text{fill:var(--quiet);font-family:var(--figures)}"
    "text.title{fill:var(--text);font-size:12px;font-weight:600}.line-below{font-size:8px}"
)
_DRAWING_RULE = re.compile(r"^\.chart[ :][a-z.][^{}]*\{[^{}]*\}", re.MULTILINE)
_VARIABLE = re.compile(r"--([\w-]+): ([^;]+);")
_BOTH = re.compile(r"light-dark\(([^,]+), ([^)]+)\)")


def chart_image_routes(router: PageRouter, site: Site, charts: ChartReader, source: str) -> None:
    """The routes of all images and, last, a 404 image; `source` is that of the liquidations."""
    images = RenderedReads(site.render_queue, site.board.clock, CACHED_IMAGES)

    async def respond(
        request: Request, key: Hashable, draw: Callable[[], Coroutine[Any, Any, Chart]], read: str
    ) -> Response:
        async def document() -> Document:
            return _document(await draw(), read)

        return await images.respond(request, key, document)

    @router.get(f"{CHART_FOLDER}{LIQUIDATIONS}.svg")
    @_always_drawn
    async def read_liquidations(request: Request) -> Response:
        days = days_from_query(request.query_params)
        return await respond(request, days, lambda: charts.liquidations(days), source)

    @router.get(f"{CHART_FOLDER}{{symbol}}/{{measure}}.svg")
    @_always_drawn
    async def read_measure(request: Request, **_: str) -> Response:
        asked, measure, days = asked_series(request)
        name, symbol, read = listed_contract(site, asked)
        key = (name, symbol, measure, days)
        return await respond(
            request, key, lambda: charts.measure(name, symbol, measure, days), read
        )

    @router.get(f"{CHART_FOLDER}{{path:path}}")
    async def not_found(_: Request, **__: str) -> Response:
        raise NotFound(NO_SUCH_CHART)


def _always_drawn(read: PageEndpoint) -> PageEndpoint:
    """200 also without data, because image proxies hide images with another status."""

    async def respond(request: Request, **path: str) -> Response:
        try:
            return await read(request, **path)
        except (TemporarilyUnavailable, UpstreamUnavailable) as error:
            return refused_image(200, error.message, cached=(b"cache-control", ONE_MINUTE))

    return respond


def refused_image(
    status: int, message: str, *fields: tuple[bytes, bytes], cached: tuple[bytes, bytes] = NO_STORE
) -> Response:
    """The image of a request that failed; it says why."""
    drawn = empty_chart("", "Chart", message, "unavailable")
    body = image(drawn, SITE_NAME, (message, NOTICE), _style()).encode()
    response = Response(body, status)
    length = (b"content-length", b"%d" % len(body))
    response.raw_headers = [
        *((b"content-type", SVG), length, cached, NOSNIFF, *_policy(), *CORS, *fields)
    ]
    return response


def _document(chart: Chart, source: str) -> Document:
    mark = " (simulated)" if source.startswith(SIMULATED) else ""
    title = f"{chart.title}, {days_text(chart.days)}{mark}"
    below = (f"{chart.latest}.", f"Source: {source}.", f"{SITE_NAME}. {NOTICE}")
    body = image(chart.drawing, title, below, _style()).encode()
    return Page(body, content_type=SVG, cache_control=ONE_MINUTE, fields=_policy(), security=[])


@lru_cache(1)
def _style() -> str:
    return image_style(packaged_files()["site.css"].pages[b""].body.decode())


@lru_cache(1)
def _policy() -> Headers:
    """Allows the one style element, also if the image is opened as a page."""
    digest = b64encode(sha256(_style().encode()).digest())
    policy = b"default-src 'none'; style-src 'sha256-" + digest + b"'"
    return [(b"content-security-policy", policy)]


def image_style(stylesheet: str) -> str:
    """The rules of drawings from the site's stylesheet, with its colours for light and dark."""
    rules = _OWN_RULES + _short("".join(_DRAWING_RULE.findall(stylesheet)))
    light, dark = _colours(stylesheet)
    used = sorted(set(re.findall(r"var\(--([\w-]+)\)", rules)))
    values = ";".join(f"--{name}:{light[name]}" for name in used)
    changed = ";".join(f"--{name}:{dark[name]}" for name in used if name in dark)
    return f"svg{{{values}}}@media (prefers-color-scheme:dark){{svg{{{changed}}}}}{rules}"


def _colours(stylesheet: str) -> tuple[dict[str, str], dict[str, str]]:
    """The variables in light and dark; those without `light-dark()` are only among the first."""
    variables = _VARIABLE.findall(stylesheet)
    light = {name: _BOTH.sub(r"\1", value) for name, value in variables}
    return light, {name: both[2] for name, value in variables if (both := _BOTH.fullmatch(value))}


def _short(rules: str) -> str:
    return re.sub(r"\s*([{};,])\s*", r"\1", re.sub(r"\s+", " ", rules)).replace(";}", "}")


def _narrowed(line: str) -> float:
    """How much narrower than usual a line must be to fit."""
    return min(1.0, floor(10 * SIZE[0] / (max(1, len(line)) * NARROW_CHARACTER)) / 10)


def image(drawn: str, title: str, below: Sequence[str], style: str) -> str:
    """Put a drawing, which is safe, between a title and at most three lines, which are escaped."""
    width, height = IMAGE_SIZE
    top = EDGE + TITLE_HEIGHT
    bottom = top + SIZE[1]
    placed = str(drawn).replace(  # Markup would escape the attributes
        "<svg ", f'<svg x="{EDGE}" y="{top}" width="{SIZE[0]}" height="{SIZE[1]}" ', 1
    )
    lines = [
        text(EDGE, bottom + LINE_HEIGHT * number, line, "line-below", narrowed=_narrowed(line))
        for number, line in enumerate(below, 1)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}"><title>{text_of(title)}</title>'
        f'<style>{style}</style><rect class="ground" x=".5" y=".5" width="{WIDTH - 1}" '
        f'height="{HEIGHT - 1}" rx="6"/>{text(EDGE, EDGE + 12, title, "title")}'
        f"{placed}{''.join(lines)}</svg>"
    )
