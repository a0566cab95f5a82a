"""`/pricing`: what is free and what is not, the same for the life of a worker."""

from functools import cache

from fastapi import APIRouter, Request, Response

from barograph.access.feed_entry import PRICING_PATH
from barograph.feed.endpoints import FEED_NOW_PATH
from barograph.material_change.endpoints import MATERIAL_CHANGE_PATH
from barograph.site.frame.answers import Page
from barograph.site.frame.site import Site
from barograph.site.pricing.pages import Doors, Terms, write_pricing
from barograph.stances.paths import STANCE_PATHS

DOORS = Doors(FEED_NOW_PATH, MATERIAL_CHANGE_PATH, STANCE_PATHS)


def pricing_routes(site: Site, terms: Terms) -> APIRouter:
    """The route of the page about prices."""
    router = APIRouter(include_in_schema=False)

    @cache
    def written() -> Page:
        return Page(write_pricing(site.pages, terms, DOORS))

    @router.get(PRICING_PATH)
    async def read_pricing(request: Request) -> Response:
        async def write(_: int) -> Page:
            return written()

        return await site.show(request, write)

    return router
