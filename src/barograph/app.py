"""The web side, assembled."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from barograph.access.allowances import AllowanceStore
from barograph.access.contact import Contact, Watched
from barograph.access.endpoints import key_routes
from barograph.access.entitlements import Entitlements
from barograph.access.feed_door import FeedDoor
from barograph.access.feed_grants import FeedGrants
from barograph.access.gate import Gate
from barograph.access.guarded import GuardedStore
from barograph.access.identity import IdentityProvider, NoIdentityProvider
from barograph.access.keys import ApiKeys
from barograph.access.memory import MemoryStore
from barograph.access.pepper import load_pepper
from barograph.access.registration import Registrations
from barograph.access.shared import SharedStore
from barograph.badges.endpoints import badge_routes, hot_badges
from barograph.badges.reader import BadgeReader
from barograph.board.board import Board
from barograph.board.front_door import front_door
from barograph.briefs.endpoints import brief_routes
from barograph.briefs.feeds import BRIEFS
from barograph.briefs.reader import BriefsReader
from barograph.discovery.deprecation import Deprecations, announcing
from barograph.discovery.endpoints import Descriptions, descriptions, discovery_routes
from barograph.discovery.index import index_document
from barograph.discovery.paths import INDEX_PATH
from barograph.errors import (
    RecordUnavailable,
    UpstreamUnavailable,
)
from barograph.feed.buying import buying_routes
from barograph.feed.endpoints import FeedParts, feed_routes
from barograph.guides.documents import GUIDES_PATH, guides_document
from barograph.guides.endpoints import guide_routes
from barograph.guides.files import load_catalog
from barograph.kit.clock import Clock, system_clock
from barograph.kit.database import Database
from barograph.kit.documents import Document, HotKey
from barograph.kit.http import ASGIApp, FreeReads
from barograph.macro.feeds import MACRO_HEALTH
from barograph.markets.documents import hot_documents
from barograph.markets.endpoints import market_routes
from barograph.markets.feeds import FEEDS
from barograph.markets.reader import MarketReader, market_bounds
from barograph.material_change.endpoints import material_change_routes
from barograph.material_change.pair import LatestPair
from barograph.mcp.calls import ToolCalls
from barograph.mcp.endpoints import mcp_door, mcp_routes, open_door
from barograph.mcp.readers import free_readers
from barograph.mcp.tools import TOOLS
from barograph.paying import paying_parts
from barograph.payments.ports import Facilitator
from barograph.routed import allowed_methods, routed_app
from barograph.settings import Settings
from barograph.signals.catalog import METHODS
from barograph.signals.endpoints import signals_answer, signals_door, signals_routes
from barograph.signals.feeds import SIGNALS
from barograph.signals.reader import SignalsReader
from barograph.site.endpoints import SiteParts, page_routes
from barograph.site.frame.site import Site
from barograph.site.frame.writer import Pages
from barograph.site.pricing.pages import Terms
from barograph.site.series.reader import SeriesReader
from barograph.stances.continuity import Continuity
from barograph.stances.endpoints import StanceReads, stance_routes
from barograph.stances.feeds import STANCES
from barograph.stances.history_documents import CHECKPOINT_PATH
from barograph.stances.history_endpoints import history_routes
from barograph.stances.ledger import Ledger
from barograph.stances.public_log import PublicLogs
from barograph.stances.reading import StanceReader
from barograph.stances.signing import load_history_key
from barograph.status.endpoints import status_routes
from barograph.status.keeper import Keeper
from barograph.status.reader import LimitsFailing, StatusReader
from barograph.upstream.facilitator import HttpFacilitator
from barograph.upstream.identity import identity_provider
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
        facilitator = HttpFacilitator(settings, clock=clock)
    allowances, limits_failing = _allowance_store(settings, clock)
    keys = ApiKeys(database, load_pepper(settings), clock)
    registrations = _registrations(settings, database, keys, allowances, clock)
    gate = Gate(allowances, keys.verify, settings.proxy_networks)
    bounds = market_bounds(settings)
    catalog = load_catalog(settings.guides_file)
    markets = MarketReader(bounds)
    signals = SignalsReader(settings)
    briefs = BriefsReader(settings)
    status = StatusReader(
        bounds,
        clock(),
        limits_failing,
        identity=_contacts(provider),
        payments=None if facilitator is None else _contacts(facilitator),
    )
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

    def render(board: Board, now: int) -> Mapping[HotKey, Document]:
        documents: dict[HotKey, Document] = {
            (INDEX_PATH, b""): index,
            (GUIDES_PATH, b""): guides,
        }
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
    keeper = Keeper(
        database,
        lambda now: status.status(board, now),
        _watched(provider, facilitator),
        clock=clock,
    )
    described = Descriptions(
        partial(descriptions, base_url=settings.base_url, deprecations=DEPRECATIONS)
    )
    routes = routed_app(board, [board.follow, keeper.run], closings, pages)
    for router in (
        # Routes are tried in order; what is hot is answered before them, and this is not.
        material_change_routes(door, LatestPair(history, continuity), clock, budget),
        discovery_routes(
            settings.base_url,
            index,
            described,
            clock,
            security_contact=settings.security_contact,
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
        *page_routes(
            Site(
                pages,
                board,
                database,
                markets=markets,
                signals=signals,
                briefs=briefs,
                status=status,
                series=SeriesReader(database, clock, bounds.min_coverage_pct),
            ),
            SiteParts(
                catalog=catalog,
                terms=_terms(settings, facilitator),
                registrations=registrations,
                gate=gate,
                described=described,
                tools=TOOLS,
                ledger=ledger,
                logs=logs,
                continuity=continuity,
                source=settings.exchange_source,
            ),
        ),
    ):
        routes.include_router(router)
    free = FreeReads(routes, allowed_methods)
    whole = front_door(signals_door(mcp_door(free, mcp), answer), board)
    app, without_doors = (announcing(each, DEPRECATIONS, APART) for each in (whole, free))
    return WebSide(app, without_doors, board)


def _allowance_store(settings: Settings, clock: Clock) -> tuple[AllowanceStore, LimitsFailing]:
    """Where requests are counted, and who tells since when that fails."""
    local = MemoryStore(clock)
    if not settings.limits_are_shared:
        return local, lambda: None
    guarded = GuardedStore(SharedStore(settings.limits_path, clock), local, clock)
    return guarded, lambda: guarded.failing_since


def _terms(settings: Settings, facilitator: Facilitator | None) -> Terms:
    return Terms(
        feed_price=settings.feed_price_usd,
        feed_period_days=settings.feed_period_days,
        stance_price=settings.stance_price_usd,
        takes_payments=facilitator is not None,
    )


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


def _watched(*parts: object) -> list[Watched]:
    return [each for each in parts if isinstance(each, Watched)]


def _contacts(part: IdentityProvider | Facilitator) -> Sequence[Contact] | None:
    """How questions to a part went; None where no such part is configured."""
    if isinstance(part, Watched):
        return part.contacts
    return None if isinstance(part, NoIdentityProvider) else ()
