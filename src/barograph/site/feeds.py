"""Atom (RFC 4287) and JSON Feed 1.1 of the newest briefs and events."""

import re
from typing import Any

import msgspec
from markupsafe import escape
from starlette.requests import Request
from starlette.responses import Response

from barograph import NOTICE, SITE_NAME
from barograph.briefs.records import Brief
from barograph.briefs.store import BRIEFS, NEWEST, newest_briefs
from barograph.discovery.files import ATOM_TYPE, BRIEFS_FEED, EVENTS_FEED, FEEDS
from barograph.errors import InvalidRequest
from barograph.events.endpoints import EVENTS_PATH
from barograph.events.records import EVENTS, Event
from barograph.kit.timestamps import iso_timestamp
from barograph.site.paths import BRIEFS_FOLDER, BRIEFS_PAGE, HOME_PATH
from barograph.site.responses import CACHE_ONE_MINUTE, Page, PageRouter
from barograph.site.site import Site
from barograph.site.templating import Templates, render_markdown
from barograph.site.visits import event_text

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that a document of XML 1.0 may not hold, not even escaped."""

Item = dict[str, Any]
"""An item of a JSON Feed; the Atom feed is rendered from it too."""


def brief_item(brief: Brief, base_url: str) -> Item:
    """A brief; its id is its address."""
    url = f"{base_url}{BRIEFS_FOLDER}{brief.slug}"
    lead = "" if brief.begins_with_summary else f"<p>{escape(brief.summary)}</p>\n"
    return {
        "id": url,
        "url": url,
        "title": brief.headline,
        "content_html": f"{lead}{render_markdown(brief.body)}",
        "date_published": iso_timestamp(brief.first_at),
        "date_modified": iso_timestamp(brief.published_at),
        "tags": (brief.category, *brief.coins),
    }


def event_item(event: Event, base_url: str) -> Item:
    """An event in words; its id is the address of that event alone."""
    text = event_text(event)
    return {
        "id": f"{base_url}{EVENTS_PATH}?after={event.id - 1}&limit=1",
        "url": base_url + text.path,
        "title": text.title,
        "content_html": f"<p>{escape(text.detail)}</p>",
        "date_published": iso_timestamp(event.at),
        "tags": (event.type, *event.symbols),
    }


def feed_file_routes(router: PageRouter, site: Site, source: str) -> None:
    """The routes of the feeds. Each is rendered when its briefs or events have changed."""
    base_url = site.templates.base_url
    made: dict[str, tuple[object, Page]] = {}

    async def page(path: str) -> Page:
        is_briefs, events = path.startswith(BRIEFS_FEED), site.board.latest(EVENTS)
        newest = site.board.latest(BRIEFS) if is_briefs else events
        if path not in made or made[path][0] is not newest:
            if is_briefs:
                briefs = await newest_briefs(site.database, NEWEST)
                items = [brief_item(brief, base_url) for brief in briefs]
            else:
                known = () if events is None else events.events[: -NEWEST - 1 : -1]
                items = [event_item(each, base_url) for each in known]
            made[path] = newest, _feed(site.templates, path, source, items)
        return made[path][1]

    async def read_feed(request: Request) -> Response:
        if request.query_params and request.scope["path"].startswith(EVENTS_FEED):
            raise InvalidRequest(f"a feed has no parameters; {EVENTS_PATH} has filters")
        return await site.respond(request, lambda _: page(request.scope["path"]))

    for path in FEEDS:
        router.get(path)(read_feed)


def _updated(item: Item) -> str:
    return str(item.get("date_modified", item["date_published"]))


def _feed(templates: Templates, path: str, source: str, items: list[Item]) -> Page:
    (media_type, name), base_url = FEEDS[path], templates.base_url
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": f"{SITE_NAME} {name}",
        "home_page_url": base_url + (BRIEFS_PAGE if name == "briefs" else HOME_PATH),
        "feed_url": base_url + path,
        "description": f"Source: {source}. {NOTICE}",
        "language": "en",
        "authors": [{"name": SITE_NAME, "url": f"{base_url}/"}],
        "items": items,
    }
    body = msgspec.json.encode(feed)
    if media_type == ATOM_TYPE:
        updated = max((_updated(item) for item in items), default=iso_timestamp(0))
        text = templates.render("feed.atom", feed=feed, entries=items, updated=updated).decode()
        body = _NOT_XML.sub("", text).encode()
    kind = f"{media_type}; charset=utf-8".encode()
    return Page(body, content_type=kind, cache_control=CACHE_ONE_MINUTE, security=[])
