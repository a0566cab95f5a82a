"""`/chart/….svg`: the charts as images for other pages; errors are images too."""

from base64 import b64encode
from collections.abc import Callable, Coroutine, Hashable
from functools import lru_cache
from hashlib import sha256
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from barograph import NOTICE, SITE_NAME
from barograph.badges.documents import SVG
from barograph.errors import NotFound, TemporarilyUnavailable, UpstreamUnavailable
from barograph.kit.documents import CORS, NO_STORE, NOSNIFF, Document, Headers
from barograph.limits.render_queue import RenderedReads
from barograph.site.charts.image import ImageText, image, image_style
from barograph.site.charts.lines import empty_chart
from barograph.site.paths import CHART_FOLDER
from barograph.site.responses import Page, PageEndpoint, PageRouter
from barograph.site.series import ChartReader, asked_series, listed_contract
from barograph.site.series_charts import Chart, days_text
from barograph.site.series_documents import LIQUIDATIONS, days_from_query
from barograph.site.site import Site
from barograph.site.static_files import packaged_files
from barograph.site.templating import SIMULATED

CACHED_IMAGES = 256
"""About 12 kB each, including the compressed form."""

ONE_MINUTE = b"public, max-age=60"
NO_SUCH_CHART = "no such chart"


def chart_image_routes(site: Site, charts: ChartReader, source: str) -> PageRouter:
    """The routes of all images and, last, a 404 image; `source` is that of the liquidations."""
    router = PageRouter()
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

    return router


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
    body = image(drawn, ImageText(SITE_NAME, (message, NOTICE)), _style()).encode()
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
    body = image(chart.drawing, ImageText(title, below), _style()).encode()
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
