"""`/pricing`: what is free, what Feed and Reserve cost, and how to subscribe."""

from functools import cache

from starlette.requests import Request
from starlette.responses import Response

from barograph.entitlements.refusals import FEED_PATH, PRICING_PATH, RESERVE_PRICE_USD
from barograph.feed.endpoints import FEED_NOW_PATH
from barograph.material_change.endpoints import MATERIAL_CHANGE_PATH
from barograph.site.responses import Page, PageRouter
from barograph.site.site import Site
from barograph.site.templating import Terms
from barograph.stances.documents import STANCE_PATHS


def pricing_routes(site: Site, terms: Terms) -> PageRouter:
    """The route of the pricing page, which is rendered once per worker."""
    router = PageRouter()

    @cache
    def page() -> Page:
        body = site.templates.render(
            "pricing.html",
            here=PRICING_PATH,
            terms=terms,
            reserve_price=RESERVE_PRICE_USD,
            feed_path=FEED_PATH,
            feed_now_path=FEED_NOW_PATH,
            stance_paths=STANCE_PATHS,
            material_change_path=MATERIAL_CHANGE_PATH,
        )
        return Page(body)

    @router.get(PRICING_PATH)
    async def read_pricing(request: Request) -> Response:
        return site.respond_unchanging(request, page())

    return router
