"""`/search`: every coin, page and section of the documentation in one list.

A script filters it in the browser: Ctrl-K opens it on every page.
"""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from barograph.markets.cross import CrossMarket
from barograph.markets.cross_coins import CrossCoin
from barograph.markets.symbols import has_page
from barograph.signals.methods import METHODS
from barograph.site.developers.reference import DEVELOPER_PAGES
from barograph.site.funding import contract_names
from barograph.site.paths import (
    MARKETS_FOLDER,
    PLACES,
    RECORD_DETAILS,
    REFERENCE_PATH,
    SEARCH_PAGE,
    SIGNALS_FOLDER,
)
from barograph.site.responses import Page, PageRouter
from barograph.site.site import INCOMPLETE_PAGE_MS, Site

LONGEST = 40
"""How much of a search is read."""

_TITLES = {path: page.title for path, page in DEVELOPER_PAGES.items()} | {
    REFERENCE_PATH: "API reference",
    RECORD_DETAILS: "How to verify the record",
}
_LEFT_OUT = {"home", "search", "guides"}


class Entry(NamedTuple):
    """Something that can be found."""

    kind: str
    title: str
    path: str
    words: str = ""
    """What else it is found by."""

    def is_found(self, wanted: str) -> bool:
        """Whether it has the wanted text, in upper case, in its title or at the start of a word."""
        words = self.words.upper().split()
        return wanted in self.title.upper() or any(each.startswith(wanted) for each in words)


def _fixed() -> Iterable[Entry]:
    for name, path in PLACES.items():
        if name not in _LEFT_OUT:
            yield Entry("Page", _TITLES.get(path, name.replace("_", " ").capitalize()), path)
    for method in METHODS:
        yield Entry("Signal", method.name, f"{SIGNALS_FOLDER}{method.key}")
    for path, page in DEVELOPER_PAGES.items():
        for anchor, title in page.sections.items():
            if title != page.title:
                yield Entry("Docs", title, f"{path}#{anchor}")


FIXED = tuple(_fixed())


def entries(market: CrossMarket | None, search: str) -> list[Entry]:
    """What is found, coins by open interest first; everything without a search."""
    coins = () if market is None else market.coins.values()
    listed = (
        Entry("Coin", each.asset, f"{MARKETS_FOLDER}{each.asset}", _names(each))
        for each in coins
        if has_page(each.asset)
    )
    known, wanted = (*listed, *FIXED), search.upper()
    whole = [each for each in known if each.is_found(wanted)]
    return whole or [each for each in known if any(map(each.is_found, wanted.split()))]


def _names(coin: CrossCoin) -> str:
    contracts = (each.contract.contract for each in coin.venues if each.contract is not None)
    return " ".join(dict.fromkeys((*contract_names(coin), *contracts)))


def search_routes(router: PageRouter, site: Site) -> None:
    """The route of the page."""

    @router.get(SEARCH_PAGE)
    async def read_search(request: Request) -> Response:
        search = request.query_params.get("q", "")[:LONGEST].strip()

        async def render(now: int) -> Page:
            market = await site.compared()
            found = await asyncio.to_thread(entries, market, search)
            body = await asyncio.to_thread(
                site.templates.render,
                "search.html",
                here=SEARCH_PAGE,
                search=search,
                longest=LONGEST,
                entries=found,
            )
            return Page(body, since=now, until=now + INCOMPLETE_PAGE_MS)

        return await site.respond(request, render, query=None if search else b"")
