"""`/pricing`: what is free, what Feed and Reserve cost, a sample stance, and how to subscribe."""

import json
import re
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from barograph.entitlements.refusals import FEED_PATH, PRICING_PATH, RESERVE_PRICE_USD
from barograph.feed.endpoints import FEED_NOW_PATH
from barograph.material_change.endpoints import MATERIAL_CHANGE_PATH
from barograph.site.record_pages import TITLES
from barograph.site.responses import Page, PageRouter
from barograph.site.site import Site
from barograph.site.templating import Terms
from barograph.stances.documents import STANCE_PATHS, StanceVersion
from barograph.stances.reveal_endpoints import REVEALED_FOLDER
from barograph.stances.reveals import NOT_ANNOUNCED, REVEALS, Reveals


class SampleStance(NamedTuple):
    """A stance of the simulated demo, as a subscriber receives it."""

    text: str
    version: StanceVersion


@cache
def sample_stance() -> SampleStance:
    """The packaged sample."""
    given = json.loads((files("barograph.stances") / "sample.json").read_text("utf-8"))
    # A settled rate and its time in one line: there are 93.
    text = re.sub(r"\[\s+(\"[^\"]+\"),\s+([^\s\]]+)\s+\]", r"[\1, \2]", json.dumps(given, indent=2))
    return SampleStance(text, StanceVersion.model_validate(given))


LEVELS = {
    "fundingRatePct8h": ("BTC funding per 8 h, as settled", "{:+.4f} %"),
    "score": ("Score: percentile among the rates of 30 days", "{:.1f} of 100"),
    "score24hAgo": ("Score 24 hours earlier", "{:.1f} of 100"),
    "delta24h": ("Change in score", "{:+.1f}"),
}
"""Each level of the sample with its unit."""


def pricing_routes(router: PageRouter, site: Site, terms: Terms) -> None:
    """The route of the pricing page, which is rendered once for each announcement."""

    @lru_cache(maxsize=1)
    def page(reveals: Reveals) -> Page:
        body = site.templates.render(
            "pricing.html",
            here=PRICING_PATH,
            terms=terms,
            reveals=reveals,
            revealed_folder=REVEALED_FOLDER,
            reserve_price=RESERVE_PRICE_USD,
            feed_path=FEED_PATH,
            feed_now_path=FEED_NOW_PATH,
            stance_paths=STANCE_PATHS,
            material_change_path=MATERIAL_CHANGE_PATH,
            sample=sample_stance(),
            levels=LEVELS,
            titles=TITLES,
        )
        return Page(body)

    @router.get(PRICING_PATH)
    async def read_pricing(request: Request) -> Response:
        reveals = site.board.latest(REVEALS) or NOT_ANNOUNCED
        return site.respond_unchanging(request, page(reveals))
