"""The web side, assembled."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import NamedTuple

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from barograph.access.allowances import AllowanceStore
from barograph.access.endpoints import KEYS_ALLOW, key_routes
from barograph.access.entitlements import Entitlements
from barograph.access.feed_door import FeedDoor
from barograph.access.feed_entry import FEED_PATH
from barograph.access.feed_grants import FeedGrants
from barograph.access.feed_refusals import PaymentRequired
from barograph.access.gate import Gate
from barograph.access.guarded import GuardedStore
from barograph.access.identity import IdentityProvider
from barograph.access.keys import ApiKeys
from barograph.access.memory import MemoryStore
from barograph.access.pepper import load_pepper
from barograph.access.refusals import KEYS_PATH
from barograph.access.registration import Registrations
from barograph.access.shared import SharedStore
from barograph.badges.documents import BADGE_FOLDER
from barograph.badges.endpoints import badge_routes, hot_badges
from barograph.badges.reader import BadgeReader
from barograph.board.board import Board
from barograph.board.front_door import front_door
from barograph.briefs.endpoints import brief_routes
from barograph.briefs.feeds import BRIEFS
from barograph.briefs.reader import BriefsReader
from barograph.discovery.deprecation import Deprecations, announcing
from barograph.discovery.endpoints import discovery_routes
from barograph.discovery.index import index_document
from barograph.discovery.paths import DISCOVERY_PATHS, INDEX_PATH
from barograph.errors import (
    PrivateError,
    RecordUnavailable,
    RequestError,
    UpstreamUnavailable,
)
from barograph.feed.buying import buying_routes
from barograph.feed.endpoints import FEED_NOW_PATH, FeedParts, feed_routes
from barograph.guides.documents import GUIDES_PATH, guides_document
from barograph.guides.endpoints import guide_routes
from barograph.guides.files import load_catalog
from barograph.kit.clock import Clock, system_clock
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.documents import Document, HotKey
from barograph.kit.http import ALLOW, ASGIApp, FreeReads, error_response, private_response
from barograph.kit.wire import CodedErrorBody
from barograph.macro.feeds import MACRO_HEALTH
from barograph.markets.documents import hot_documents
from barograph.markets.endpoints import market_routes
from barograph.markets.feeds import FEEDS
from barograph.markets.reader import MarketReader, market_bounds
from barograph.material_change.endpoints import MATERIAL_CHANGE_PATH, material_change_routes
from barograph.material_change.pair import LatestPair
from barograph.mcp.calls import ToolCalls
from barograph.mcp.endpoints import PUBLIC_PATHS as MCP_DOCUMENTS
from barograph.mcp.endpoints import mcp_door, mcp_routes, open_door
from barograph.mcp.readers import free_readers
from barograph.paying import paying_parts
from barograph.payments.offers import payment_required_field
from barograph.payments.ports import Facilitator
from barograph.settings import Settings
from barograph.signals.catalog import METHODS
from barograph.signals.documents import SIGNALS_PATH
from barograph.signals.endpoints import signals_answer, signals_door, signals_routes
from barograph.signals.feeds import SIGNALS
from barograph.signals.reader import SignalsReader
from barograph.site.endpoints import (
    PAGE_FOLDERS,
    PAGE_PATHS,
    missing_page,
    page_routes,
    standing_pages,
)
from barograph.site.key_endpoints import KeyPages
from barograph.site.pages import Pages
from barograph.stances.continuity import Continuity
from barograph.stances.endpoints import STANCE_PATHS, StanceReads, stance_routes
from barograph.stances.feeds import STANCES
from barograph.stances.history_documents import HISTORY_FOLDER
from barograph.stances.history_endpoints import history_routes
from barograph.stances.ledger import Ledger
from barograph.stances.public_log import PublicLogs
from barograph.stances.reading import StanceReader
from barograph.stances.signing import load_history_key
from barograph.status.endpoints import STATUS_PATH, status_routes
from barograph.status.reader import LimitsFailing, StatusReader
from barograph.upstream.facilitator import HttpFacilitator
from barograph.upstream.identity import identity_provider
from barograph.upstream.mail import SmtpSender

log = logging.getLogger(__name__)

FREE_PATHS = frozenset({*PAGE_PATHS, *DISCOVERY_PATHS, *MCP_DOCUMENTS, SIGNALS_PATH, STATUS_PATH})
FREE_FOLDERS = (f"{INDEX_PATH}/", BADGE_FOLDER, HISTORY_FOLDER, *PAGE_FOLDERS)
PRIVATE_PATHS = frozenset({MATERIAL_CHANGE_PATH, FEED_NOW_PATH, FEED_PATH, *STANCE_PATHS.values()})
"""What only its caller may see, errors included."""

DEPRECATIONS: Deprecations = {}
"""What will go away, by path; docs/versioning.md has the policy."""


class WebSide(NamedTuple):
    """The application, and the parts of it that can be asked apart."""

    app: ASGIApp
    routes: ASGIApp
    """The application without its front doors."""

    board: Board


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
    provider = identity_provider(settings, clock) if identity is None else identity
    if facilitator is None and settings.takes_payments:
        facilitator = HttpFacilitator(settings)
    allowances, limits_failing = _allowance_store(settings, clock)
    keys = ApiKeys(database, load_pepper(settings), clock)
    registrations = _registrations(settings, database, keys, allowances, clock)
    gate = Gate(allowances, keys.verify, settings.proxy_networks)
    bounds = market_bounds(settings)
    catalog = load_catalog(settings.guides_file)
    markets = MarketReader(bounds)
    signals = SignalsReader(settings)
    briefs = BriefsReader(settings)
    status = StatusReader(bounds, clock(), limits_failing)
    badges = BadgeReader(
        markets,
        status,
        record_since=settings.record_since,
        signals=signals.labels,
        signal_names={method.key: method.name for method in METHODS},
    )
    index = index_document(settings.base_url)
    guides = guides_document(catalog, settings.base_url)
    pages = Pages(settings.base_url, settings.exchange_source)
    standing = standing_pages(
        pages,
        catalog,
        can_register=registrations is not None,
        takes_payments=facilitator is not None,
        feed_price=settings.feed_price_usd,
    )

    def render(board: Board, now: int) -> Mapping[HotKey, Document]:
        documents: dict[HotKey, Document] = {(path, b""): page for path, page in standing.items()}
        documents |= {(INDEX_PATH, b""): index, (GUIDES_PATH, b""): guides}
        documents |= hot_badges(board, badges, now)
        # What is stale is not kept hot; the routes say so.
        with suppress(RecordUnavailable):
            documents |= briefs.hot_documents(board, now)
        with suppress(UpstreamUnavailable):
            documents |= hot_documents(markets.view(board, now))
        return documents

    board = Board(
        database, (*FEEDS, SIGNALS, BRIEFS, STANCES, MACRO_HEALTH), clock=clock, render=render
    )
    ledger = Ledger(history, clock)
    continuity = Continuity(ledger, lambda: board.latest(STANCES))
    logs = PublicLogs(ledger, load_history_key(settings), settings.base_url, continuity)
    stances = StanceReader(board, history, continuity)
    entitlements = Entitlements(database, clock)
    paying = paying_parts(settings, database, gate, facilitator, clock)
    door = FeedDoor(provider, entitlements, paying.entry, paying.wallets)
    paid = paying.door(door)
    grants = FeedGrants(entitlements, clock, period_days=settings.feed_period_days)
    reads = StanceReads(stances, clock, door, paid, paying.offers)
    budget = settings.comparison_seconds
    answer = signals_answer(board, signals, gate)
    key_pages = KeyPages(pages, registrations, gate, clock)
    readers = free_readers(
        board, markets=markets, briefs=briefs, signals=signals, guides=guides, status=status
    )
    mcp = open_door(ToolCalls(readers, gate), settings.base_url)
    closings = [
        mcp.close,
        *paying.closings,
        database.close,
        history.close,
        allowances.close,
        provider.close,
    ]
    routes = _routed_app(board, closings, pages)
    for router in (
        # Routes are tried in order; what is hot is answered before them, and this is not.
        material_change_routes(door, LatestPair(history, continuity), clock, budget),
        discovery_routes(
            settings.base_url,
            index,
            clock,
            security_contact=settings.security_contact,
            deprecations=DEPRECATIONS,
        ),
        mcp_routes(mcp, settings.base_url, clock),
        market_routes(board, markets),
        brief_routes(board, briefs),
        guide_routes(guides, clock),
        signals_routes(answer),
        key_routes(registrations, gate, clock),
        history_routes(ledger, logs, continuity, clock),
        stance_routes(reads, budget),
        buying_routes(paid, paying.entry, entitlements, grants),
        feed_routes(door, FeedParts(board, stances, markets, briefs, settings.base_url), budget),
        status_routes(board, status),
        badge_routes(board, badges),
        page_routes(
            pages,
            standing,
            board,
            database,
            briefs=briefs,
            signals=signals,
        ),
        key_pages.routes(),
    ):
        routes.include_router(router)
    free = FreeReads(routes, allowed_methods)
    whole = front_door(signals_door(mcp_door(free, mcp), answer), board)
    return WebSide(announcing(whole, DEPRECATIONS), announcing(free, DEPRECATIONS), board)


def is_free(path: str) -> bool:
    """Whether anyone from any origin may read this path; `/api/agents` is not `/api/agent`."""
    return path in FREE_PATHS or path.startswith(FREE_FOLDERS)


def allowed_methods(path: str) -> bytes | None:
    """What anyone from any origin may do with this path, as `Allow` says it."""
    if path == KEYS_PATH:
        return KEYS_ALLOW
    return ALLOW if is_free(path) else None


def _allowance_store(settings: Settings, clock: Clock) -> tuple[AllowanceStore, LimitsFailing]:
    """Where requests are counted, and who tells since when that fails."""
    local = MemoryStore(clock)
    if not settings.limits_are_shared:
        return local, lambda: None
    guarded = GuardedStore(SharedStore(settings.limits_path, clock), local, clock)
    return guarded, lambda: guarded.failing_since


def _registrations(
    settings: Settings,
    database: Database,
    keys: ApiKeys,
    allowances: AllowanceStore,
    clock: Clock,
) -> Registrations | None:
    """Registration by e-mail; None where no mail can be sent."""
    if not settings.sends_mail:
        return None
    return Registrations(database, keys, allowances, base_url=settings.base_url, clock=clock)


def _routed_app(
    board: Board, closings: Sequence[Callable[[], Awaitable[None]]], pages: Pages
) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            await board.refresh()
        except DatabaseUnavailable as error:
            log.warning("starting without data", extra={"reason": str(error)})
        following = asyncio.create_task(board.follow())
        yield
        following.cancel()
        await asyncio.wait([following])
        for close in closings:
            await close()

    async def http_error(request: Request, error: Exception) -> Response:
        """What the router itself refuses: unknown paths and wrong methods."""
        assert isinstance(error, HTTPException)
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            return _method_not_allowed(request, error)
        page = missing_page(pages, request)
        free = is_free(request.scope["path"])
        return page or error_response(error.status_code, "not found", is_free=free)

    app = FastAPI(
        title="Barograph",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.add_exception_handler(RequestError, _request_error)
    app.add_exception_handler(PrivateError, _private_error)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(Exception, _unexpected_error)
    return app


def _method_not_allowed(request: Request, error: HTTPException) -> Response:
    path = request.scope["path"]
    if path in PRIVATE_PATHS:
        return _coded(405, "method_not_allowed", "only GET is supported", (b"allow", b"GET"))
    allow = allowed_methods(path)
    is_open = allow is not None
    if allow is None:
        known = (error.headers or {}).get("Allow", "GET").split(", ")
        allow = ", ".join(sorted(known)).encode()
    return error_response(405, "method not allowed", (b"allow", allow), is_free=is_open)


async def _request_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_response(error.status, error.message)


async def _private_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, PrivateError)
    if isinstance(error, PaymentRequired):
        field = payment_required_field(error.document)
        return private_response(error.status, error.document, field)
    return _coded(error.status, error.code, error.message, *error.fields())


def _coded(status: int, code: str, message: str, *headers: tuple[bytes, bytes]) -> Response:
    return private_response(status, CodedErrorBody(error=code, message=message).encode(), *headers)


async def _unexpected_error(request: Request, error: Exception) -> Response:
    log.error("unexpected failure", exc_info=error)
    return error_response(500, "internal error", is_free=is_free(request.scope["path"]))
