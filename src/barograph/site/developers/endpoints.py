"""`/developers`: how to use the API."""

import json
from asyncio import to_thread
from collections.abc import Mapping
from typing import NamedTuple

from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from barograph import __version__
from barograph.badges.documents import KEEP_SECONDS
from barograph.discovery.endpoints import Descriptions
from barograph.discovery.files import (
    GPT_PATH,
    INDEX_PATH,
    LLMS_FULL_PATH,
    OPENAPI_PATH,
    SKILL_PATH,
    service_links,
)
from barograph.discovery.mcp_description import CARD_PATH, CARD_TYPE, MCP_PATH, PROTOCOLS
from barograph.discovery.openapi import INTERFACE_VERSION
from barograph.entitlements.refusals import FEED_PATH
from barograph.errors import UpstreamUnavailable
from barograph.feed.endpoints import FEED_NOW_PATH
from barograph.keys.email_address import MAX_LENGTH
from barograph.keys.registration import LINK_FOLDER, LINK_HOURS
from barograph.kit.documents import FOREVER
from barograph.kit.request_limits import MAX_BODY_BYTES, MAX_PARAMETERS, MAX_QUERY_BYTES
from barograph.kit.timestamps import HOUR, MINUTE, SECOND
from barograph.kit.wire import ErrorBody
from barograph.limits.rate_limits import (
    ANONYMOUS,
    KEYS_PATH,
    MAILBOX,
    MCP_POSTS,
    PERSONAL,
    TOOL_CALLS,
)
from barograph.markets.documents import MARKET_STATE_PATH, derivatives_document
from barograph.markets.regime import HYSTERESIS_PCT
from barograph.material_change.endpoints import MATERIAL_CHANGE_PATH
from barograph.material_change.query import PARAMETERS
from barograph.signals.methods import METHODS
from barograph.site.developers import problems, reference
from barograph.site.developers.interface import groups, pretty
from barograph.site.developers.reference import DEVELOPER_PAGES
from barograph.site.paths import DEVELOPERS_PATH, ENDPOINTS_PAGE, SIGNALS_FOLDER
from barograph.site.responses import Page, PageRouter
from barograph.site.site import Site
from barograph.site.templating import Templates, Terms
from barograph.stances.documents import STANCE_PATHS


class FirstCall(NamedTuple):
    """The current response to the first call."""

    status: int
    body: str
    as_of: int | None
    """The time of its data; None for an error."""

    until: int


def developers_routes(
    router: PageRouter,
    site: Site,
    described: Descriptions,
    *,
    tools: Mapping[str, str],
    can_register: bool,
    terms: Terms,
) -> None:
    """The routes of the pages; `tools` are the descriptions of the MCP tools by name."""
    templates = site.templates
    values = page_values(templates.base_url, tools=tools, can_register=can_register, terms=terms)
    fixed: dict[str, Markup] = {}

    async def render(app: Starlette, path: str, now: int) -> Page:
        if path not in fixed:
            openapi = (await described.of(app))[OPENAPI_PATH].body
            fixed[path] = await to_thread(fixed_sections, templates, path, openapi, values)
        first = first_call(site, now) if path == DEVELOPERS_PATH else None
        body = templates.render(
            "developers.html",
            here=DEVELOPERS_PATH,
            path=path,
            page=DEVELOPER_PAGES[path],
            first=first,
            fixed_sections=fixed[path],
            **values,
        )
        until = FOREVER if first is None else first.until
        return Page(body, since=now, until=until, fields=service_links(templates.root))

    async def read_developers(request: Request) -> Response:
        path = request.scope["path"]
        return await site.respond(request, lambda now: render(request.app, path, now))

    for path in DEVELOPER_PAGES:
        router.get(path)(read_developers)


def first_call(site: Site, now: int) -> FirstCall:
    """Make the first call within this worker."""
    try:
        view = site.markets.view(site.board, now)
    except UpstreamUnavailable as error:
        body = ErrorBody(error=error.message).encode()
        # Valid until new data arrives, which expires every page.
        return FirstCall(error.status, pretty(body), None, FOREVER)
    document = derivatives_document(view, reference.FIRST_SYMBOL)
    return FirstCall(200, pretty(document.body), view.perpetuals.as_of, document.until)


def fixed_sections(
    templates: Templates, path: str, openapi: bytes, values: Mapping[str, object]
) -> Markup:
    """The sections that don't change; slow to render, so rendered once per worker."""
    html = templates.render(
        "developers_sections.html",
        parts=DEVELOPER_PAGES[path].parts,
        groups=groups(json.loads(openapi)) if path == ENDPOINTS_PAGE else [],
        **values,
    )
    return Markup(html.decode())  # noqa: S704


def page_values(
    base_url: str, *, tools: Mapping[str, str], can_register: bool, terms: Terms
) -> dict[str, object]:
    """The values of the templates."""
    return {
        **_PATHS,
        "pages": DEVELOPER_PAGES,
        "sections": reference.SECTIONS,
        **reference.programs(base_url),
        "interface_version": INTERFACE_VERSION,
        "software_version": __version__,
        "anonymous": ANONYMOUS,
        "personal": PERSONAL,
        "tool_calls": TOOL_CALLS,
        "mcp_posts": MCP_POSTS,
        "body_kib": MAX_BODY_BYTES // 1024,
        "query_kib": MAX_QUERY_BYTES // 1024,
        "max_parameters": MAX_PARAMETERS,
        "limits": reference.limits(),
        "fields": reference.fields(),
        "errors": problems.ERRORS,
        "coded_errors": problems.CODED_ERRORS,
        "endpoint_paths": _ENDPOINT_PATHS,
        "badges": reference.BADGES,
        "badge_minutes": KEEP_SECONDS * SECOND // MINUTE,
        "bands": reference.bands(),
        "hysteresis": reference.percent(HYSTERESIS_PCT).lstrip("+"),
        "methods": METHODS,
        "stance_rules": reference.STANCE_RULES,
        "can_register": can_register,
        "mails": MAILBOX.requests,
        "mail_hours": MAILBOX.window // HOUR,
        "link_hours": LINK_HOURS,
        "max_email": MAX_LENGTH,
        "protocols": PROTOCOLS,
        "card_type": CARD_TYPE,
        "tools": tools,
        "sales": reference.sales(terms),
        "releases": reference.RELEASES,
    }


_ENDPOINT_PATHS = {
    problems.COMPARISON: MATERIAL_CHANGE_PATH,
    problems.FEED_NOW: FEED_NOW_PATH,
    problems.FEED_ENTRY: FEED_PATH,
}

_PATHS: dict[str, object] = {
    "gpt_path": GPT_PATH,
    "llms_full_path": LLMS_FULL_PATH,
    "skill_path": SKILL_PATH,
    "index_path": INDEX_PATH,
    "card_path": CARD_PATH,
    "mcp_path": MCP_PATH,
    "keys_path": KEYS_PATH,
    "link_folder": LINK_FOLDER,
    "feed_now_path": FEED_NOW_PATH,
    "stance_paths": tuple(STANCE_PATHS.values()),
    "material_change_path": MATERIAL_CHANGE_PATH,
    "references": tuple(PARAMETERS),
    "signals_folder": SIGNALS_FOLDER,
    "market_state_path": MARKET_STATE_PATH,
}
