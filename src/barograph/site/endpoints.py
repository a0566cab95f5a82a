"""The page at the site's own address."""

from html import escape

from fastapi import APIRouter

from barograph.discovery.endpoints import OPENAPI_PATH
from barograph.discovery.index import INDEX_PATH
from barograph.kit.clock import Clock
from barograph.kit.documents import Document
from barograph.kit.http import DocumentResponse
from barograph.markets.documents import DERIVATIVES_PATH, MARKET_PATH, MARKET_STATE_PATH
from barograph.notice import NOTICE
from barograph.status.endpoints import STATUS_PATH

_LINKS = {
    MARKET_STATE_PATH: "the market in one answer: assets, liquidations, regime",
    MARKET_PATH: "BTC, ETH and SOL",
    f"{DERIVATIVES_PATH}?symbol=ETH": "any live perpetual",
    STATUS_PATH: "health of the feed and of this service",
    INDEX_PATH: "what there is to read",
    OPENAPI_PATH: "the interface description",
}


def site_routes(clock: Clock) -> APIRouter:
    """The route of the home page."""
    router = APIRouter(include_in_schema=False)
    home = Document(_home().encode(), content_type=b"text/html; charset=utf-8")

    @router.get("/")
    async def read_home() -> DocumentResponse:
        return DocumentResponse(home, clock())

    return router


def _home() -> str:
    items = "".join(
        f'<li><a href="{escape(path)}"><code>{escape(path)}</code></a> {escape(text)}</li>'
        for path, text in _LINKS.items()
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Barograph</title>'
        '<meta name="viewport" content="width=device-width"><h1>Barograph</h1>'
        "<p>Crypto market intelligence that is measured, recorded and published: "
        f"free, and without a key.</p><ul>{items}</ul><p>{escape(NOTICE)}</p></html>"
    )
