"""`/pricing`: what is free and what is not, the same for the life of a worker."""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from fastapi import Request, Response

from barograph.entitlements.refusals import FEED_PATH, PRICING_PATH, RESERVE_PRICE_USD
from barograph.feed.endpoints import FEED_NOW_PATH
from barograph.material_change.endpoints import MATERIAL_CHANGE_PATH
from barograph.site.frame.responses import Page, PageRouter
from barograph.site.frame.site import Site
from barograph.site.frame.writer import Pages, Terms
from barograph.stances.documents import STANCE_PATHS


class Doors(NamedTuple):
    """What Feed opens, by path."""

    feed_now: str
    material_change: str
    stances: Mapping[str, str]
    """By kind."""


def write_pricing(pages: Pages, terms: Terms, doors: Doors) -> bytes:
    """What is free, what is not, and how to get it."""
    return pages.fill(
        "pricing.html",
        here=PRICING_PATH,
        terms=terms,
        doors=doors,
        reserve_price=RESERVE_PRICE_USD,
        feed_path=FEED_PATH,
    )


DOORS = Doors(FEED_NOW_PATH, MATERIAL_CHANGE_PATH, STANCE_PATHS)


def pricing_routes(site: Site, terms: Terms) -> PageRouter:
    """The route of the page about prices."""
    router = PageRouter()

    @cache
    def written() -> Page:
        return Page(write_pricing(site.pages, terms, DOORS))

    @router.get(PRICING_PATH)
    async def read_pricing(request: Request) -> Response:
        return site.give(request, written())

    return router
