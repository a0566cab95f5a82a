"""The web side, assembled."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import httpx
from fastapi import APIRouter
from starlette.routing import Router

from barograph.badges.endpoints import badge_routes, hot_badges
from barograph.badges.reader import BadgeReader
from barograph.board.board import Board
from barograph.board.front_door import front_door
from barograph.briefs.endpoints import brief_routes
from barograph.briefs.reader import BriefsReader
from barograph.briefs.store import BRIEFS
from barograph.discovery.deprecation import Deprecations, announcing
from barograph.discovery.endpoints import Descriptions, descriptions, discovery_routes
from barograph.discovery.files import INDEX_PATH
from barograph.discovery.index import index_document
from barograph.entitlements.feed_access import FeedDoor, Wallets
from barograph.entitlements.purchases import FeedGrants, Offer, PaidDoor
from barograph.entitlements.refusals import FeedEntry
from barograph.entitlements.store import Entitlements
from barograph.errors import RecordUnavailable, UpstreamUnavailable
from barograph.feed.endpoints import FeedParts, feed_routes
from barograph.feed.purchase import buying_routes
from barograph.guides.catalog import Catalog
from barograph.guides.documents import GUIDES_PATH, guides_document
from barograph.guides.endpoints import guide_routes
from barograph.guides.files import load_catalog
from barograph.history.documents import CHECKPOINT_PATH
from barograph.history.endpoints import history_routes
from barograph.history.guards import Continuity
from barograph.history.ledger import Ledger
from barograph.history.public_log import PublicLogs
from barograph.history.signing import SignedHeads, load_history_key
from barograph.identity.bearer import IdentityProvider, NoIdentityProvider
from barograph.keys.api_keys import ApiKeys, load_pepper
from barograph.keys.endpoints import key_routes
from barograph.keys.registration import Registrations
from barograph.kit.clock import Clock, system_clock
from barograph.kit.database import Database
from barograph.kit.dependency_health import Contact, Watched
from barograph.kit.documents import Document, HotKey
from barograph.kit.http import ASGIApp, FreeReads, hardened
from barograph.kit.request_limits import RequestLimits, limited
from barograph.limits.callers import Gate
from barograph.limits.fallback_store import FallbackStore
from barograph.limits.memory_store import MemoryStore
from barograph.limits.rate_limits import AllowanceStore
from barograph.limits.sqlite_store import SQLiteStore
from barograph.macro.records import MACRO_HEALTH
from barograph.markets.documents import hot_documents
from barograph.markets.endpoints import market_routes
from barograph.markets.reader import MarketReader, market_bounds
from barograph.markets.series import SeriesReader
from barograph.markets.view import FEEDS
from barograph.material_change.endpoints import LatestPair, material_change_routes
from barograph.mcp.calls import Readers, ToolCalls, free_readers
from barograph.mcp.endpoints import McpDoor, mcp_door, mcp_routes, open_door
from barograph.mcp.tools import TOOLS
from barograph.payments.checkout import Till
from barograph.payments.journal import Journal
from barograph.payments.offers import feed_requirements, stance_requirements
from barograph.payments.records import Facilitator
from barograph.settings import Settings
from barograph.signals.endpoints import signals_answer, signals_door, signals_routes
from barograph.signals.methods import METHODS
from barograph.signals.reader import SignalsReader
from barograph.signals.records import SIGNALS
from barograph.site.record_pages import Retention
from barograph.site.render_queue import RenderQueue
from barograph.site.routes import SiteParts, page_routes
from barograph.site.site import Site
from barograph.site.templating import Templates, Terms
from barograph.stances.documents import STANCE_PATHS
from barograph.stances.endpoints import StanceReads, stance_offer, stance_routes
from barograph.stances.reader import STANCES, StanceReader
from barograph.status.endpoints import status_routes
from barograph.status.reader import LimitsFailing, StatusReader
from barograph.status.recorder import Keeper
from barograph.upstream.facilitator import HttpFacilitator
from barograph.upstream.identity_http import IdentityHttp
from barograph.upstream.mail import SmtpSender
from barograph.upstream.oidc import OidcIdentity, Resolve, resolve
from barograph.upstream.supabase import SupabaseIdentity
from barograph.web.errors import PRIVATE_PATHS, allowed_methods, refusal, routed_app


class PayingParts(NamedTuple):
    """The parts that payments need; without a facilitator there are none."""

    entry: FeedEntry
    wallets: Wallets | None = None
    till: Till | None = None
    offers: Mapping[str, Offer] = {}
    closings: Sequence[Callable[[], Awaitable[None]]] = ()

    def door(self, feed: FeedDoor) -> PaidDoor | None:
        """The paid doors, beside the one of Feed."""
        terms = self.entry.requirements
        if self.wallets is None or self.till is None or terms is None:
            return None
        return PaidDoor(feed, self.wallets, self.till, terms)


def paying_parts(
    settings: Settings,
    database: Database,
    gate: Gate,
    facilitator: Facilitator | None,
    clock: Clock,
) -> PayingParts:
    """Put them together."""
    base_url = settings.base_url
    if facilitator is None:
        return PayingParts(FeedEntry(base_url))
    journal = Journal(database, clock)
    till = Till(journal, facilitator, clock)
    price = stance_requirements(settings)
    return PayingParts(
        FeedEntry(base_url, feed_requirements(settings)),
        Wallets(facilitator, journal, gate, clock),
        till,
        {kind: stance_offer(kind, price, base_url) for kind in STANCE_PATHS},
        [till.close, facilitator.close],
    )


def identity_provider(
    settings: Settings,
    clock: Clock,
    transport: httpx.AsyncBaseTransport | None = None,
    resolve: Resolve = resolve,
) -> IdentityProvider:
    """The provider that verifies bearer tokens; `transport` and `resolve` replace the network."""
    if settings.identity == "none":
        return NoIdentityProvider()
    http = IdentityHttp(settings.identity_seconds, transport)
    if settings.identity == "supabase":
        return SupabaseIdentity(settings, http, clock)
    return OidcIdentity(settings, http, clock, resolve)


class CallerParts(NamedTuple):
    """Who calls and how often they may, and who is asked about them and their payments."""

    provider: IdentityProvider
    facilitator: Facilitator | None
    allowances: AllowanceStore
    limits_failing: LimitsFailing
    registrations: Registrations | None
    """None where no mail can be sent."""

    gate: Gate


class FreeParts(NamedTuple):
    """What anyone may read."""

    board: Board
    catalog: Catalog
    agent_index: Document
    guides: Document
    markets: MarketReader
    signals: SignalsReader
    briefs: BriefsReader
    status: StatusReader
    badges: BadgeReader

    @property
    def for_tools(self) -> Readers:
        """The same, as tools read it."""
        return free_readers(
            self.board,
            markets=self.markets,
            briefs=self.briefs,
            signals=self.signals,
            guides=self.guides,
            status=self.status,
        )


class RecordParts(NamedTuple):
    """The record of stances."""

    ledger: Ledger
    continuity: Continuity
    logs: PublicLogs
    stances: StanceReader


class EntitledParts(NamedTuple):
    """What opens to those who have Feed or pay."""

    entitlements: Entitlements
    grants: FeedGrants
    paying: PayingParts
    door: FeedDoor
    paid: PaidDoor | None


def caller_parts(
    settings: Settings,
    database: Database,
    clock: Clock,
    identity: IdentityProvider | None,
    facilitator: Facilitator | None,
) -> CallerParts:
    """Put together who calls; what is given stands in for what the settings name."""
    provider = identity_provider(settings, clock) if identity is None else identity
    if facilitator is None and settings.takes_payments:
        facilitator = HttpFacilitator(settings, clock=clock)
    pepper = load_pepper(settings)
    allowances, limits_failing = _allowance_store(settings, pepper, clock)
    keys = ApiKeys(database, pepper, clock)
    registrations = None
    if settings.sends_mail:
        registrations = Registrations(database, keys, base_url=settings.base_url, clock=clock)
    gate = Gate(allowances, keys.verify, settings.proxy_networks)
    return CallerParts(provider, facilitator, allowances, limits_failing, registrations, gate)


def free_parts(
    settings: Settings,
    database: Database,
    callers: CallerParts,
    signed: SignedHeads,
    clock: Clock,
) -> FreeParts:
    """Put together what is read, and the board that it is read from."""
    bounds = market_bounds(settings)
    catalog = load_catalog(settings.guides_file)
    index, guides = index_document(settings.base_url), guides_document(catalog, settings.base_url)
    markets, signals, briefs = MarketReader(bounds), SignalsReader(settings), BriefsReader(settings)
    status = StatusReader(
        bounds,
        clock(),
        callers.limits_failing,
        signed,
        identity=_contacts(callers.provider),
        payments=None if callers.facilitator is None else _contacts(callers.facilitator),
    )
    badges = BadgeReader(
        markets,
        status,
        record_since=settings.record_since,
        signals=signals.labels,
        signal_names={method.key: method.name for method in METHODS},
        signal_sources=signals.sources,
    )

    def render(board: Board, now: int) -> Mapping[HotKey, Document]:
        standing = {(INDEX_PATH, b""): index, (GUIDES_PATH, b""): guides}
        return {**standing, **hot_badges(board, badges, now), **_hot(board, markets, briefs, now)}

    feeds = (*FEEDS, SIGNALS, BRIEFS, STANCES, MACRO_HEALTH)
    board = Board(database, feeds, clock=clock, render=render)
    return FreeParts(board, catalog, index, guides, markets, signals, briefs, status, badges)


def record_parts(
    settings: Settings, history: Database, board: Board, signed: SignedHeads, clock: Clock
) -> RecordParts:
    """Put together how the record of stances is read, and its checkpoints signed."""
    ledger = Ledger(history, clock)
    continuity = Continuity(ledger, lambda: board.latest(STANCES))
    logs = PublicLogs(ledger, load_history_key(settings), settings.base_url, signed, continuity)
    return RecordParts(ledger, continuity, logs, StanceReader(board, history, continuity))


def entitled_parts(
    settings: Settings, database: Database, callers: CallerParts, clock: Clock
) -> EntitledParts:
    """Put together the doors of Feed and of payments."""
    entitlements = Entitlements(database, clock)
    paying = paying_parts(settings, database, callers.gate, callers.facilitator, clock)
    door = FeedDoor(callers.provider, entitlements, paying.entry, paying.wallets)
    grants = FeedGrants(entitlements, clock, period_days=settings.feed_period_days)
    return EntitledParts(entitlements, grants, paying, door, paying.door(door))


def status_keeper(
    database: Database, free: FreeParts, callers: CallerParts, logs: PublicLogs, clock: Clock
) -> Keeper:
    """Who records the status."""
    return Keeper(
        database,
        lambda now: free.status.status(free.board, now),
        [*_watched(callers.provider, callers.facilitator), logs],
        clock=clock,
    )


def _hot(
    board: Board, markets: MarketReader, briefs: BriefsReader, now: int
) -> Mapping[HotKey, Document]:
    """What is fresh; what is stale is not kept hot, and the routes say so."""
    documents: dict[HotKey, Document] = {}
    with suppress(RecordUnavailable):
        documents |= briefs.hot_documents(board, now)
    with suppress(UpstreamUnavailable):
        documents |= hot_documents(markets.view(board, now))
    return documents


def _allowance_store(
    settings: Settings, pepper: bytes, clock: Clock
) -> tuple[AllowanceStore, LimitsFailing]:
    """Where requests are counted, and since when workers don't share their counts."""
    local = MemoryStore(clock)
    if not settings.limits_are_shared:
        return local, lambda: None
    store = FallbackStore(SQLiteStore(settings.limits_path, clock, pepper), local, clock)
    return store, lambda: store.failing_since


def _watched(*parts: object) -> list[Watched]:
    return [each for each in parts if isinstance(each, Watched)]


def _contacts(part: IdentityProvider | Facilitator) -> Sequence[Contact] | None:
    """How questions to a part went; None where no such part is configured."""
    if isinstance(part, Watched):
        return part.contacts
    return None if isinstance(part, NoIdentityProvider) else ()


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
    pages: Templates


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
        pages=Templates(settings.base_url, settings.exchange_source),
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
        render_queue=RenderQueue(callers.gate, parts.clock),
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
