"""Atom (RFC 4287) and JSON Feed 1.1 of the newest briefs and events."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

import msgspec
from markupsafe import escape
from starlette.requests import Request
from starlette.responses import Response

from barograph import NOTICE
from barograph.briefs.records import Brief
from barograph.briefs.store import BRIEFS, NEWEST, newest_briefs
from barograph.discovery.files import ATOM_TYPE, BRIEFS_FEED, EVENTS_FEED, JSON_FEED_TYPE
from barograph.events.endpoints import EVENTS_PATH
from barograph.events.records import EVENTS, Event
from barograph.kit.timestamps import iso_timestamp
from barograph.site.paths import (
    BRIEFS_FOLDER,
    BRIEFS_PAGE,
    HOME_PATH,
    MARKETS_FOLDER,
    MARKETS_PATH,
    RECORD_FOLDER,
    SIGNALS_FOLDER,
    STATUS_PAGE,
)
from barograph.site.responses import Page, PageRouter
from barograph.site.site import Site
from barograph.site.templating import SITE_NAME, Templates, render_markdown

CACHE_ONE_MINUTE = b"public, max-age=60"
VERSION = "https://jsonfeed.org/version/1.1"


class Entry(NamedTuple):
    """One brief or event."""

    id: str
    """An address that never changes."""

    path: str
    title: str
    at: int
    html: str
    tags: Sequence[str]


class SiteFeed(NamedTuple):
    """A feed without its format."""

    title: str
    path: str
    """Without the ending."""

    page: str
    """The path of the page that shows the same."""

    entries: Sequence[Entry]
    rights: str

    @property
    def updated_at(self) -> int:
        """When the newest entry was added."""
        return max((each.at for each in self.entries), default=0)


def atom(templates: Templates, feed: SiteFeed) -> bytes:
    """A feed as Atom."""
    return templates.render("feed.atom", feed=feed, media_type=ATOM_TYPE, iso=iso_timestamp)


def json_feed(templates: Templates, feed: SiteFeed) -> bytes:
    """A feed as JSON Feed."""
    base_url = templates.base_url
    return msgspec.json.encode(
        {
            "version": VERSION,
            "title": feed.title,
            "home_page_url": base_url + feed.page,
            "feed_url": f"{base_url}{feed.path}.json",
            "description": feed.rights,
            "language": "en",
            "authors": [{"name": SITE_NAME, "url": f"{base_url}/"}],
            "items": [
                {
                    "id": each.id,
                    "url": base_url + each.path,
                    "title": each.title,
                    "content_html": each.html,
                    "date_published": iso_timestamp(each.at),
                    "tags": each.tags,
                }
                for each in feed.entries
            ],
        }
    )


_FORMATS = {".atom": (atom, ATOM_TYPE), ".json": (json_feed, JSON_FEED_TYPE)}


def brief_entry(brief: Brief, base_url: str) -> Entry:
    """A brief as its page shows it."""
    path = BRIEFS_FOLDER + brief.slug
    tags = (brief.category, *brief.coins)
    return Entry(
        base_url + path, path, brief.headline, brief.published_at, _brief_html(brief), tags
    )


# Cached, because rendering Markdown blocks the event loop.
@lru_cache(maxsize=2 * NEWEST)
def _brief_html(brief: Brief) -> str:
    has_summary = brief.body.startswith(brief.summary)
    lead = "" if has_summary else f"<p>{escape(brief.summary)}</p>\n"
    return f"{lead}{render_markdown(brief.body)}"


class _EventText(NamedTuple):
    title: str
    detail: str
    path: str


_EVENT_TEXTS: Mapping[str, _EventText] = {
    "regime.changed": _EventText(
        "{symbol} funding regime: {previous} → {label}",
        "Funding per 8 hours: {fundingRatePct8h} %.",
        f"{MARKETS_FOLDER}{{symbol}}",
    ),
    "signal.changed": _EventText(
        "{name}: {previous} → {label}", "Measured: {value}.", f"{SIGNALS_FOLDER}{{key}}"
    ),
    "brief.published": _EventText(
        "Brief: {headline}", "Category: {category}.", f"{BRIEFS_FOLDER}{{slug}}"
    ),
    "contract.listed": _EventText(
        "{symbol} perpetual listed on {venue}",
        "Contract: {contract}.",
        f"{MARKETS_FOLDER}{{symbol}}",
    ),
    "contract.delisted": _EventText(
        "{symbol} perpetual delisted from {venue}", "Contract: {contract}.", MARKETS_PATH
    ),
    "feed.down": _EventText("{feed} from {venue} is down", "Its data is stale.", STATUS_PAGE),
    "feed.recovered": _EventText(
        "{feed} from {venue} has recovered", "Its data is fresh again.", STATUS_PAGE
    ),
    "stance.recorded": _EventText(
        "Stance {kind}: version {sequence} recorded",
        "Digest: {history_digest}.",
        f"{RECORD_FOLDER}{{kind}}",
    ),
}
"""By type, with the names of the event's members."""


def event_entry(event: Event, base_url: str) -> Entry:
    """An event in words; its id is the address of that event alone."""
    given: dict[str, object] = msgspec.json.decode(event.body)
    known = {name: value for name, value in given.items() if value is not None}
    members = defaultdict(lambda: "unknown", known)
    title, detail, path = (each.format_map(members) for each in _EVENT_TEXTS[event.type])
    return Entry(
        f"{base_url}{EVENTS_PATH}?after={event.id - 1}&limit=1",
        quote(path),
        title,
        event.at,
        f"<p>{escape(detail)}</p>",
        (event.type, *event.symbols),
    )


class _Feeds:
    """Renders each feed when its briefs or events have changed."""

    def __init__(self, site: Site, source: str) -> None:
        self._site = site
        self._rights = f"Source: {source}. {NOTICE}"
        self._made: dict[str, tuple[object, Page]] = {}

    async def page(self, path: str) -> Page:
        """The feed at a path."""
        source = BRIEFS if path.startswith(BRIEFS_FEED) else EVENTS
        newest = self._site.board.latest(source)
        made = self._made.get(path)
        if made is None or made[0] is not newest:
            made = self._made[path] = (newest, await self._render(path))
        return made[1]

    async def _render(self, path: str) -> Page:
        feed = await (self._briefs() if path.startswith(BRIEFS_FEED) else self._events())
        write, media_type = _FORMATS[path.removeprefix(feed.path)]
        return Page(
            write(self._site.templates, feed),
            content_type=f"{media_type}; charset=utf-8".encode(),
            cache_control=CACHE_ONE_MINUTE,
            security=[],
        )

    async def _briefs(self) -> SiteFeed:
        found = await newest_briefs(self._site.database, NEWEST)
        entries = [brief_entry(each, self._site.templates.base_url) for each in found]
        return SiteFeed(f"{SITE_NAME} briefs", BRIEFS_FEED, BRIEFS_PAGE, entries, self._rights)

    async def _events(self) -> SiteFeed:
        known = self._site.board.latest(EVENTS)
        newest = () if known is None else known.events[: -NEWEST - 1 : -1]
        entries = [event_entry(each, self._site.templates.base_url) for each in newest]
        return SiteFeed(f"{SITE_NAME} events", EVENTS_FEED, HOME_PATH, entries, self._rights)


def feed_file_routes(site: Site, source: str) -> PageRouter:
    """The routes of the feeds, in both formats."""
    router = PageRouter()
    feeds = _Feeds(site, source)

    async def read_feed(request: Request) -> Response:
        return await site.respond(request, lambda _: feeds.page(request.scope["path"]))

    for path in (BRIEFS_FEED, EVENTS_FEED):
        for ending in _FORMATS:
            router.get(path + ending)(read_feed)
    return router
