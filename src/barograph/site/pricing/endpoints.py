"""`/pricing`: what is free and what is not, the same for the life of a worker."""

from functools import cache

from fastapi import Request, Response

from barograph.access.feed_entry import PRICING_PATH
from barograph.feed.endpoints import FEED_NOW_PATH
from barograph.material_change.endpoints import MATERIAL_CHANGE_PATH
from barograph.site.frame.answers import Page
from barograph.site.frame.routes import PageRouter
from barograph.site.frame.site import Site
from barograph.site.frame.terms import Terms
from barograph.site.pricing.pages import Doors, write_pricing
from barograph.stances.paths import STANCE_PATHS

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
