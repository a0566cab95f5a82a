"""`/accuracy`: what followed the stances that have become public."""

from starlette.requests import Request
from starlette.responses import Response

from barograph.accuracy.endpoints import ACCURACY_PATH, EVENT_TEXTS
from barograph.accuracy.records import ACCURACY, FEWEST
from barograph.badges.contents import NO_LIVE_CAPITAL
from barograph.badges.documents import BADGE_FOLDER
from barograph.kit.timestamps import MINUTE
from barograph.site.accuracy_pages import (
    case,
    drawing,
    finding_text,
    metric_tables,
    public_from,
)
from barograph.site.paths import ACCURACY_PAGE, RECORD_PATH, STATIC_FOLDER
from barograph.site.record_pages import TITLES
from barograph.site.responses import Page, PageRouter
from barograph.site.site import Site
from barograph.stances.reveal_endpoints import REVEALED_FOLDER
from barograph.stances.reveals import NOT_ANNOUNCED, REVEALS


def accuracy_routes(site: Site) -> PageRouter:
    """The route of the page."""
    router = PageRouter()

    async def render(now: int) -> Page:
        accuracy = site.board.latest(ACCURACY)
        body = site.templates.render(
            "accuracy.html",
            here=RECORD_PATH,
            accuracy=accuracy,
            is_announced=site.board.latest(REVEALS) not in (None, NOT_ANNOUNCED),
            public_from=None if accuracy is None else public_from(accuracy),
            titles=TITLES,
            fewest=FEWEST,
            caution=NO_LIVE_CAPITAL,
            api_path=ACCURACY_PATH,
            texts_folder=EVENT_TEXTS,
            stances_folder=REVEALED_FOLDER,
            badge_folder=BADGE_FOLDER,
            script_path=f"{STATIC_FOLDER}recompute_accuracy.py",
            metric_tables=metric_tables,
            finding_text=finding_text,
            case=case,
            drawing=drawing,
        )
        return Page(body, since=now, until=now + MINUTE)

    @router.get(ACCURACY_PAGE)
    async def read_accuracy(request: Request) -> Response:
        return await site.respond(request, render)

    return router
