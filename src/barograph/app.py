"""The web side, assembled."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from fastapi import APIRouter
from starlette.routing import Router

from barograph.access.endpoints import key_routes
from barograph.access.identity import IdentityProvider
from barograph.access.pepper import load_pepper
from barograph.badges.endpoints import badge_routes
from barograph.board.board import Board
from barograph.board.front_door import front_door
from barograph.briefs.endpoints import brief_routes
from barograph.discovery.deprecation import Deprecations, announcing
from barograph.discovery.endpoints import Descriptions, descriptions, discovery_routes
from barograph.feed.buying import buying_routes
from barograph.feed.endpoints import FeedParts, feed_routes
from barograph.guides.endpoints import guide_routes
from barograph.guides.files import load_catalog
from barograph.kit.clock import Clock, system_clock
from barograph.kit.database import Database
from barograph.kit.http import ASGIApp, FreeReads, hardened
from barograph.kit.request_limits import RequestLimits, limited
from barograph.markets.endpoints import market_routes
from barograph.markets.series_reader import SeriesReader
from barograph.material_change.endpoints import material_change_routes
from barograph.material_change.pair import LatestPair
from barograph.mcp.calls import ToolCalls
from barograph.mcp.endpoints import McpDoor, mcp_door, mcp_routes, open_door
from barograph.mcp.tools import TOOLS
from barograph.parts import (
    CallerParts,
    EntitledParts,
    FreeParts,
    RecordParts,
    caller_parts,
    entitled_parts,
    free_parts,
    record_parts,
    status_keeper,
)
from barograph.payments.ports import Facilitator
from barograph.routed import PRIVATE_PATHS, allowed_methods, refusal, routed_app
from barograph.settings import Settings
from barograph.signals.endpoints import signals_answer, signals_door, signals_routes
from barograph.site.endpoints import SiteParts, page_routes
from barograph.site.frame.renders import Renders
from barograph.site.frame.site import Site
from barograph.site.frame.terms import Terms
from barograph.site.frame.writer import Pages
from barograph.site.record.pages import Retention
from barograph.stances.endpoints import StanceReads, stance_routes
from barograph.stances.history_documents import CHECKPOINT_PATH
from barograph.stances.history_endpoints import history_routes
from barograph.stances.signed_heads import SignedHeads
from barograph.stances.signing import load_history_key
from barograph.status.endpoints import status_routes
from barograph.upstream.mail import SmtpSender

DEPRECATIONS: Deprecations = {}
"""What will go away, by path; docs/versioning.md has the policy."""

APART = frozenset({CHECKPOINT_PATH})
"""What a described template matches although it does not mean it."""


class WebSide(NamedTuple):
    """The application, and the parts of it that can be asked apart."""

    app: ASGIApp
    routes: ASGIApp
    """The application without its front doors."""

    board: Board


class _Parts(NamedTuple):
    """Everything that routes are made of."""

    settings: Settings
    database: Database
    history: Database
    clock: Clock
    callers: CallerParts
    free: FreeParts
    record: RecordParts
    entitled: EntitledParts
    mcp: McpDoor
    signals: ASGIApp
    described: Descriptions
    pages: Pages


def check_parts(settings: Settings) -> None:
    """Look whether the web side can be put together, before its workers try.

    Raises:
        ConfigurationError: the catalog, the pepper of keys or the mail server cannot be used.
    """
    load_catalog(settings.guides_file)
    load_pepper(settings)
    load_history_key(settings)
    if settings.sends_mail:
        SmtpSender(settings, clock=system_clock)


def create_app(
    settings: Settings,
    database: Database,
    history: Database,
    *,
    clock: Clock = system_clock,
    identity: IdentityProvider | None = None,
    facilitator: Facilitator | None = None,
) -> WebSide:
    """Put the web side together, over the service's database and the record of stances.

    `identity` and `facilitator` stand in for those that the settings name.

    Raises:
        ConfigurationError: the catalog of guides or the pepper of keys cannot be used.
    """
    callers = caller_parts(settings, database, clock, identity, facilitator)
    parts = _parts(settings, database, history, callers, clock)
    board = parts.free.board
    keeper = status_keeper(database, parts.free, callers, parts.record.logs, clock)
    routes = routed_app(board, [board.follow, keeper.run], _closings(parts), parts.pages)
    for router in (*_api_routes(parts), *_page_routes(parts)):
        # Not included: that would build each route again, and look for it by a longer way.
        routes.router.routes.extend(router.routes)
    free = FreeReads(routes, allowed_methods)
    limits = RequestLimits(
        settings.request_body_seconds, PRIVATE_PATHS, partial(refusal, parts.pages)
    )
    behind = signals_door(hardened(mcp_door(free, parts.mcp)), parts.signals)
    whole = front_door(limited(behind, limits), board)
    routed = limited(hardened(free), limits)
    app, without_doors = (announcing(each, DEPRECATIONS, APART) for each in (whole, routed))
    return WebSide(app, without_doors, board)


def _parts(
    settings: Settings, database: Database, history: Database, callers: CallerParts, clock: Clock
) -> _Parts:
    signed = SignedHeads(database, clock)
    free = free_parts(settings, database, callers, signed, clock)
    return _Parts(
        settings,
        database,
        history,
        clock,
        callers,
        free,
        record=record_parts(settings, history, free.board, signed, clock),
        entitled=entitled_parts(settings, database, callers, clock),
        mcp=open_door(
            ToolCalls(free.for_tools, callers.gate), callers.gate, settings.base_url, clock
        ),
        signals=signals_answer(free.board, free.signals, callers.gate),
        described=Descriptions(
            partial(descriptions, base_url=settings.base_url, deprecations=DEPRECATIONS)
        ),
        pages=Pages(settings.base_url, settings.exchange_source),
    )


def _closings(parts: _Parts) -> Sequence[Callable[[], Awaitable[None]]]:
    return [
        parts.mcp.close,
        *parts.entitled.paying.closings,
        parts.database.close,
        parts.history.close,
        parts.callers.allowances.close,
        parts.callers.provider.close,
    ]


def _api_routes(parts: _Parts) -> list[APIRouter]:
    settings, clock, callers, free = parts.settings, parts.clock, parts.callers, parts.free
    board, record, entitled = free.board, parts.record, parts.entitled
    budget, paying, base_url = settings.comparison_seconds, entitled.paying, settings.base_url
    pair = LatestPair(parts.history, record.continuity)
    reads = StanceReads(record.stances, clock, entitled.door, entitled.paid, paying.offers)
    feed = FeedParts(board, record.stances, free.markets, free.briefs, base_url)
    contact = settings.security_contact
    return [
        # Routes are tried in order; what is hot is answered before them, and this is not.
        material_change_routes(entitled.door, pair, clock, budget),
        discovery_routes(
            base_url, free.agent_index, parts.described, clock, security_contact=contact
        ),
        mcp_routes(parts.mcp, base_url, clock),
        market_routes(board, free.markets),
        brief_routes(board, free.briefs),
        guide_routes(free.guides, clock),
        signals_routes(parts.signals),
        key_routes(callers.registrations, callers.gate, clock),
        history_routes(record.ledger, record.logs, record.continuity, callers.gate, clock),
        stance_routes(reads, budget),
        buying_routes(entitled.paid, paying.entry, entitled.entitlements, entitled.grants),
        feed_routes(entitled.door, feed, budget),
        status_routes(board, free.status),
        badge_routes(board, free.badges),
    ]


def _page_routes(parts: _Parts) -> list[Router]:
    settings, callers, free, record = parts.settings, parts.callers, parts.free, parts.record
    site = Site(
        parts.pages,
        free.board,
        parts.database,
        markets=free.markets,
        signals=free.signals,
        briefs=free.briefs,
        status=free.status,
        series=SeriesReader(parts.database, parts.clock, settings.liquidations_min_coverage_pct),
        renders=Renders(callers.gate, parts.clock),
    )
    made_of = SiteParts(
        catalog=free.catalog,
        terms=_terms(settings, callers.facilitator),
        registrations=callers.registrations,
        gate=callers.gate,
        described=parts.described,
        tools=TOOLS,
        ledger=record.ledger,
        logs=record.logs,
        continuity=record.continuity,
        source=settings.exchange_source,
        retention=Retention(
            settings.minute_history_days,
            settings.hour_history_days,
            settings.liquidation_history_days,
        ),
    )
    return page_routes(site, made_of)


def _terms(settings: Settings, facilitator: Facilitator | None) -> Terms:
    return Terms(
        feed_price=settings.feed_price_usd,
        feed_period_days=settings.feed_period_days,
        stance_price=settings.stance_price_usd,
        takes_payments=facilitator is not None,
        contact=settings.sales_contact,
    )
