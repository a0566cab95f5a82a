"""How the web side is put together: its parts, its routes and its middleware, in that order."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import lru_cache, partial
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.routing import Router

from barograph.accuracy.endpoints import ACCURACY_PATH, AccuracyReader, accuracy_routes
from barograph.accuracy.records import ACCURACY
from barograph.alerts.endpoints import Alerts, alert_routes
from barograph.badges.endpoints import BadgeReader, badge_routes, hot_badges
from barograph.board.board import Board, front_door
from barograph.briefs.endpoints import BriefsReader, brief_routes, brief_text_routes
from barograph.briefs.store import BRIEFS
from barograph.discovery.catalogs import index_document
from barograph.discovery.endpoints import Descriptions, descriptions, discovery_routes
from barograph.discovery.files import INDEX_PATH
from barograph.entitlements.feed_access import FeedAccess, WalletIdentity
from barograph.entitlements.purchases import (
    FeedGrants,
    Offer,
    PaidAccess,
    feed_requirements,
    stance_requirements,
)
from barograph.entitlements.refusals import FEED_PATH, FeedEntry
from barograph.entitlements.store import Entitlements
from barograph.errors import RecordUnavailable, UpstreamUnavailable
from barograph.events.endpoints import EVENTS_PATH, EventsAnswer, event_routes, symbol_resolver
from barograph.events.records import EVENTS
from barograph.events.stream import EventStreams, stream_routes
from barograph.feed.endpoints import FeedParts, buying_routes, feed_routes
from barograph.guides.catalog import load_catalog
from barograph.guides.documents import GUIDES_PATH, guides_document
from barograph.guides.endpoints import guide_routes
from barograph.history.cosigning import CosignedCheckpoints, load_policy
from barograph.history.endpoints import history_routes
from barograph.history.guards import Continuity, SignedHeads
from barograph.history.ledger import Ledger
from barograph.history.public_log import PublicLog
from barograph.history.signing import load_history_key
from barograph.history.tile_endpoints import log_routes
from barograph.history.witnesses import WITNESSES
from barograph.identity.provider import IdentityProvider, NoIdentityProvider
from barograph.keys.api_keys import ApiKeys, load_pepper
from barograph.keys.endpoints import key_routes
from barograph.keys.registration import Registrations
from barograph.kit.clock import Clock, system_clock
from barograph.kit.database import Database
from barograph.kit.dependency_health import DependencyHealth, MonitoredDependency
from barograph.kit.documents import Document, HotKey
from barograph.kit.http import ASGIApp, HeadAndOptions, hardened
from barograph.kit.lease import HostClock, server_clock
from barograph.kit.lists import Cursors
from barograph.kit.metrics import NO_METRICS, Metrics, RequestTimes
from barograph.kit.request_limits import RequestLimits, limited
from barograph.limits.listings import Listings
from barograph.limits.rate_limits import RateLimiter
from barograph.limits.render_queue import RenderedReads, RenderQueue
from barograph.limits.stores import FallbackStore, open_limit_store
from barograph.macro.records import MACRO_HEALTH
from barograph.markets.disputes import DISPUTES
from barograph.markets.documents import hot_documents
from barograph.markets.endpoints import (
    CrossAnswer,
    PerpetualsAnswer,
    cross_routes,
    market_routes,
    perpetual_routes,
)
from barograph.markets.liquidation_endpoints import LiquidationReads, liquidation_routes
from barograph.markets.reader import CrossReader, MarketReader, freshness_limits
from barograph.markets.samples import SERIES_FOLDER
from barograph.markets.series import SeriesReader
from barograph.markets.store import HOUR_DAYS, LIQUIDATION_DAYS, MINUTE_DAYS
from barograph.markets.view import feeds_of
from barograph.material_change.endpoints import LatestPair, material_change_routes
from barograph.mcp.calls import ToolCalls, tool_reads
from barograph.mcp.endpoints import mcp_before_routing, mcp_endpoint, mcp_routes
from barograph.mcp.tools import TOOLS
from barograph.payments.checkout import Cashier
from barograph.payments.journal import Journal
from barograph.payments.records import Facilitator
from barograph.series.endpoints import SeriesAnswer, series_routes
from barograph.settings import Settings
from barograph.signals.endpoints import signals_answer, signals_before_routing, signals_routes
from barograph.signals.reader import SignalsReader
from barograph.signals.records import SIGNALS
from barograph.site.record import Recorded
from barograph.site.record_pages import Retention
from barograph.site.routes import SiteParts, page_routes
from barograph.site.site import Site
from barograph.site.templating import Templates, Terms
from barograph.stances.documents import STANCE_PATHS
from barograph.stances.endpoints import StanceReads, stance_offer, stance_routes
from barograph.stances.reader import STANCES, StanceReader
from barograph.stances.reveal_endpoints import RevealedReads, revealed_routes
from barograph.stances.reveals import NOT_ANNOUNCED, REVEALS
from barograph.status.endpoints import incident_routes, status_routes
from barograph.status.reader import StatusReader
from barograph.status.recorder import StatusRecorder
from barograph.terms.sources import TERMS
from barograph.upstream.facilitator import HttpFacilitator
from barograph.venues.registry import source_of
from barograph.web.errors import PRIVATE_PATHS, allowed_methods, error_handlers, refusal
from barograph.web.lifespan import Closing, Task, lifespan
from barograph.web.monitoring import health_routes, measured, route_finder, web_gauges
from barograph.webhooks.endpoints import webhook_routes
from barograph.webhooks.keys import load_webhook_keys
from barograph_client.audit.notes import Policy

CACHED_READS = 128
"""Rendered answers that a worker keeps for a minute; at most about 200 kB each."""

CACHED_SERIES = 16
"""Pages of series, at most about 0.5 MB each, and tables of at most 3 MiB."""


class Timeouts(NamedTuple):
    """How long a request may take, in seconds."""

    body: float = 10.0
    """For its body to arrive; a slower one gets 408, and the server closes its connection."""

    entitled_read: float = 5.0
    """For a subscriber's read, including identity; past it, the service returns 503."""


TIMEOUTS = Timeouts()


class WebApp(NamedTuple):
    """The application, and its parts for tests and benchmarks."""

    app: ASGIApp
    routes: ASGIApp
    """The application without what answers before routing."""

    board: Board


def create_app(
    settings: Settings,
    database: Database,
    history: Database,
    *,
    clock: Clock = system_clock,
    identity: IdentityProvider | None = None,
    facilitator: Facilitator | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
    at_start: Callable[[Callable[[], None]], None] = lambda _: None,
    metrics: Metrics = NO_METRICS,
    timeouts: Timeouts = TIMEOUTS,
) -> WebApp:
    """Put the web side together over the service's database and the history.

    `identity` and `facilitator` replace the ones that the settings name. `is_stopping` says whether
    the server was told to stop. `at_start` is called with the function that ends all streams.
    Without `metrics` nothing is measured.

    Raises:
        ConfigurationError: the guide catalog, the witness policy or a secret can't be used.
    """
    database, history = metrics.measured(database, "service"), metrics.measured(history, "history")
    inputs = _Inputs(settings, database, history, clock, metrics)
    parts = _Parts(inputs, _Callers(inputs, identity, facilitator))
    board = parts.public.board
    health = health_routes(board, is_stopping)

    def life(_: Starlette) -> AbstractAsyncContextManager[None]:
        at_start(parts.streams.tail.close)
        return lifespan(board, _tasks(parts), _closings(parts))

    routers = (*_api_routers(parts, timeouts.entitled_read), *_page_routers(parts), health)
    routes = Starlette(
        routes=[route for router in routers for route in router.routes],
        exception_handlers=error_handlers(parts.pages, clock),
        lifespan=life,
    )
    routes.router.redirect_slashes = False
    write_error = partial(refusal, parts.pages)
    limits = RequestLimits(timeouts.body, PRIVATE_PATHS, write_error)
    # From the inside out. MCP, signals and hot documents are answered before routing.
    free = HeadAndOptions(routes, allowed_methods)
    routed = limited(hardened(free), limits)
    app = signals_before_routing(hardened(mcp_before_routing(free, parts.mcp)), parts.signals)
    app = limited(app, limits)
    if metrics is NO_METRICS:
        app = front_door(app, board)
    else:
        times = RequestTimes(metrics, route_finder(routes.routes))
        app = front_door(measured(app, times), board, times)
    return WebApp(app, routed, board)


class _Inputs(NamedTuple):
    """What every part is made from."""

    settings: Settings
    database: Database
    history: Database
    clock: Clock
    metrics: Metrics


class _Parts:
    """Everything that routes are made of."""

    def __init__(self, inputs: _Inputs, callers: "_Callers") -> None:
        self.inputs, self.callers = inputs, callers
        signed = SignedHeads(inputs.database, inputs.history, inputs.clock)
        policy = load_policy(inputs.settings.witness_policy)
        self.public = public = _Public(inputs, callers, signed, policy)
        self.history = _History(inputs, public.board, signed, policy)
        self.subscribers = _Subscribers(inputs, callers, public.board)
        limiter, base_url = callers.limiter, inputs.settings.base_url
        self.signals = signals_answer(public.board, public.signals, limiter)
        settings = inputs.settings
        # Simulated data is served under the publishers' names.
        uses_nyfed_rates = bool(settings.nyfed_url) and not settings.macro_source
        has_venues = len(settings.venue_names) > 1
        has_guides = not public.catalog.is_sample
        self.pages = _pages(
            *(base_url, _primary_source(settings), uses_nyfed_rates, has_venues, has_guides),
            phone_url=settings.demo_phone_url,
        )
        self.render_queue = RenderQueue(limiter, inputs.clock)
        self.reads = RenderedReads(self.render_queue, inputs.clock, CACHED_READS)
        self.resolve = symbol_resolver(public.board, partial(public.markets.symbol, public.board))
        read_events = (public.board, inputs.database, self.reads)
        series_reads = RenderedReads(self.render_queue, inputs.clock, CACHED_SERIES)
        self.cursors = Cursors(load_pepper(settings), base_url)
        listings = Listings(self.render_queue, limiter, series_reads, self.cursors)
        venues = settings.venue_names
        sources = {venue: source_of(venue, settings.exchange_source) for venue in venues}
        self.events = EventsAnswer(*read_events, sources, base_url, self.resolve)
        self.streams = EventStreams(public.board, inputs.database, self.render_queue, limiter)
        self.perpetuals = PerpetualsAnswer(public.board, public.markets, venues)
        recorded = (public.board, inputs.database, public.markets, settings)
        self.liquidations = liquidation_routes(LiquidationReads(*recorded), listings)
        self.series = series_routes(SeriesAnswer(*recorded), listings)
        self.cross = CrossAnswer(public.board, public.cross)
        self.alerts = Alerts(
            inputs.database, limiter, inputs.clock, public.board, public.cross, settings
        )
        reads = tool_reads(
            public.board,
            markets=public.markets,
            briefs=public.briefs,
            signals=public.signals,
            guides=public.guides,
            status=public.status,
            perpetuals=lambda: self.perpetuals.listed("json", {}),
            cross=self.cross,
            events=event_routes(self.events).endpoint(EVENTS_PATH),
            newest_events=self.events.newest,
            series=self.series.endpoint(f"{SERIES_FOLDER}{{measure}}"),
        )
        self.mcp = mcp_endpoint(ToolCalls(reads, limiter), limiter, base_url, inputs.clock)
        self.described = _described(base_url, tuple(self.subscribers.prices.items()))


def _primary_source(settings: Settings) -> str:
    return source_of(settings.venue_names[0], settings.exchange_source)


@lru_cache(maxsize=8)
def _pages(
    base_url: str,
    source: str,
    uses_nyfed_rates: bool,
    has_venues: bool,
    has_guides: bool,
    *,
    phone_url: str,
) -> Templates:
    """The templates, compiled once per process."""
    return Templates(
        base_url,
        source,
        uses_nyfed_rates=uses_nyfed_rates,
        has_venues=has_venues,
        has_guides=has_guides,
        phone_url=phone_url,
    )


@lru_cache(maxsize=8)
def _described(base_url: str, prices: tuple[tuple[str, str], ...]) -> Descriptions:
    """The OpenAPI document, made once per process: every instance has the same routes."""
    return Descriptions(partial(descriptions, base_url=base_url, prices=dict(prices)))


class _Callers:
    """Who calls, how often they may call, and the services that verify callers and payments."""

    def __init__(
        self,
        inputs: _Inputs,
        identity: IdentityProvider | None,
        facilitator: Facilitator | None,
    ) -> None:
        settings, database, _, clock, metrics = inputs
        if facilitator is None and settings.takes_payments:
            facilitator = HttpFacilitator(settings, clock=clock, metrics=metrics)
        self.facilitator = facilitator
        if identity is None:
            identity = _identity_provider(settings, clock, metrics)
        self.provider = identity
        pepper = load_pepper(settings)
        self.keys = keys = ApiKeys(database, pepper, clock)
        self.registrations: Registrations | None = None
        if settings.sends_mail:
            base_url = settings.base_url
            self.registrations = Registrations(database, keys, base_url=base_url, clock=clock)
        self.limit_store, self.limits_failing = open_limit_store(settings, pepper, clock)
        self.limiter = RateLimiter(self.limit_store, keys.verify, settings.proxy_networks)


class _Public:
    """What anyone may read, and the board that it is read from."""

    def __init__(
        self, inputs: _Inputs, callers: _Callers, signed: SignedHeads, policy: Policy | None
    ) -> None:
        settings, database, _, clock, _ = inputs
        bounds = freshness_limits(settings)
        self.catalog = load_catalog(settings.guides_file)
        self.index = index_document(settings.base_url)
        self.guides = guides_document(self.catalog, settings.base_url)
        self.markets, self.briefs = MarketReader(bounds), BriefsReader(settings)
        self.cross = CrossReader(settings)
        self.signals = SignalsReader(settings)
        self.accuracy = AccuracyReader(_primary_source(settings), settings.base_url)
        self.host_clock = HostClock(database, clock)
        self.status = StatusReader(
            bounds,
            clock(),
            callers.limits_failing,
            signed,
            host_clock=self.host_clock,
            identity=_health(callers.provider),
            payments=None if callers.facilitator is None else _health(callers.facilitator),
            venues=settings.venue_names,
            witnesses=() if policy is None else policy.witnesses,
        )
        self.badges = BadgeReader(
            self.markets, self.signals, self.status, record_since=settings.record_since
        )
        feeds = (
            *feeds_of(settings.venue_names),
            SIGNALS,
            BRIEFS,
            STANCES,
            MACRO_HEALTH,
            TERMS,
            EVENTS,
            DISPUTES,
            ACCURACY,
            REVEALS,
            WITNESSES,
        )
        self.board = Board(database, feeds, clock=clock, render=self._hot_documents)

    def _hot_documents(self, board: Board, now: int) -> Mapping[HotKey, Document]:
        """Render what is fresh; the routes answer for everything else."""
        documents = {(INDEX_PATH, b""): self.index, (GUIDES_PATH, b""): self.guides}
        documents[ACCURACY_PATH, b""] = self.accuracy.document(board)
        documents |= hot_badges(board, self.badges, now)
        with suppress(RecordUnavailable):
            documents |= self.briefs.hot_documents(board, now)
        with suppress(UpstreamUnavailable):
            documents |= hot_documents(self.markets.view(board, now))
        return documents


def _identity_provider(settings: Settings, clock: Clock, metrics: Metrics) -> IdentityProvider:
    if settings.identity == "none":
        return NoIdentityProvider()
    # Loading joserfc takes 3 MiB and a tenth of a second, which a service without users saves.
    from barograph.upstream.identity_providers import identity_provider  # noqa: PLC0415

    return identity_provider(settings, clock, metrics=metrics)


def _health(part: IdentityProvider | Facilitator) -> Sequence[DependencyHealth] | None:
    """How requests to a dependency went; None if it is not configured."""
    if isinstance(part, MonitoredDependency):
        return part.health
    return None if isinstance(part, NoIdentityProvider) else ()


class _History:
    """The recorded stances."""

    def __init__(
        self, inputs: _Inputs, board: Board, signed: SignedHeads, policy: Policy | None
    ) -> None:
        settings = inputs.settings
        self.ledger = Ledger(inputs.history, inputs.clock)
        self.continuity = Continuity(self.ledger, lambda: board.latest(STANCES))
        self.log = PublicLog(
            load_history_key(settings),
            settings.base_url,
            signed,
            self.continuity,
            reload_key=partial(load_history_key, settings, create=False),
        )
        self.policy = policy
        self.read_note = CosignedCheckpoints(self.log, inputs.database, policy).published_note
        self.stances = StanceReader(board, self.ledger, self.continuity)


class _Subscribers:
    """What Feed and payments open; without a facilitator nothing is for sale."""

    paid: PaidAccess | None = None
    offers: Mapping[str, Offer] = {}
    prices: Mapping[str, str] = {}
    """In USD, by path."""

    closings: Sequence[Closing] = ()

    def __init__(self, inputs: _Inputs, callers: _Callers, board: Board) -> None:
        settings, database, _, clock, metrics = inputs
        provider, facilitator = callers.provider, callers.facilitator

        def terms() -> str:
            return (board.latest(REVEALS) or NOT_ANNOUNCED).sentence

        self.entitlements = Entitlements(database, clock)
        self.grants = FeedGrants(self.entitlements, clock, settings.feed_period_days)
        if facilitator is None:
            self.entry = FeedEntry(settings.base_url, terms=terms)
            self.feed = FeedAccess(provider, self.entitlements, self.entry)
            return
        feed_price, stance_price = feed_requirements(settings), stance_requirements(settings)
        journal = Journal(database, clock, metrics)
        cashier = Cashier(journal, facilitator, clock)
        wallets = WalletIdentity(facilitator, journal, callers.limiter, clock)
        self.entry = FeedEntry(settings.base_url, feed_price, terms)
        self.feed = FeedAccess(provider, self.entitlements, self.entry, wallets)
        self.paid = PaidAccess(self.feed, wallets, cashier, feed_price)
        self.offers = {
            kind: stance_offer(kind, stance_price, settings.base_url, terms)
            for kind in STANCE_PATHS
        }
        stance_prices = dict.fromkeys(STANCE_PATHS.values(), f"{settings.stance_price_usd:f}")
        self.prices = {FEED_PATH: f"{settings.feed_price_usd:f}", **stance_prices}
        self.closings = [cashier.close, facilitator.close]
        self.documents()  # an offer that is too long fails now, not at the first 402

    def documents(self) -> list[bytes]:
        """The 402 bodies of everything that is for sale."""
        if self.paid is None:
            return []
        return [
            self.entry.document(),
            *(offer.document(offer.needed) for offer in self.offers.values()),
        ]


def _api_routers(parts: _Parts, seconds: float) -> list[Router]:
    settings, database, _, clock, _ = parts.inputs
    public, history = parts.public, parts.history
    board, stances, limiter = public.board, history.stances, parts.callers.limiter
    base_url = settings.base_url
    access = parts.subscribers
    pair = LatestPair(history.ledger, history.continuity)
    feed = FeedParts(board, stances, public.markets, public.briefs, base_url)
    reads = StanceReads(stances, clock, access.feed, access.paid, access.offers)
    return [
        # First, because routes are tried in order and hot documents never reach them.
        material_change_routes(access.feed, pair, clock, seconds),
        discovery_routes(settings, public.index, parts.described, clock, access.documents),
        mcp_routes(parts.mcp),
        market_routes(board, public.markets),
        perpetual_routes(parts.perpetuals),
        cross_routes(parts.cross),
        brief_routes(board, public.briefs),
        brief_text_routes(database, parts.reads, parts.events.sources),
        guide_routes(public.guides, clock),
        signals_routes(parts.signals),
        key_routes(parts.callers.registrations, limiter, clock),
        history_routes(
            *(history.ledger, history.log, history.continuity), parts.render_queue, clock
        ),
        log_routes(history.log, history.ledger, history.read_note, board, parts.render_queue),
        stance_routes(reads, seconds, history.log.proof_url),
        revealed_routes(
            RevealedReads(board, history.ledger, history.continuity, base_url), parts.reads
        ),
        buying_routes(access.paid, access.entry, access.entitlements, access.grants),
        feed_routes(access.feed, feed, seconds),
        status_routes(board, public.status),
        incident_routes(
            board,
            public.status,
            database,
            parts.reads,
            venue=settings.venue_names[0],
            cursors=parts.cursors,
        ),
        accuracy_routes(board, public.accuracy),
        badge_routes(board, public.badges),
        event_routes(parts.events),
        stream_routes(parts.streams, settings.venue_names, parts.resolve),
        parts.series,
        parts.liquidations,
        alert_routes(parts.alerts),
        webhook_routes(
            database,
            limiter,
            clock,
            resolve=parts.resolve,
            base_url=settings.base_url,
            allow_local=settings.is_demo,
            keys=load_webhook_keys(settings),
        ),
    ]


def _page_routers(parts: _Parts) -> list[Router]:
    settings, database, _, clock, _ = parts.inputs
    callers, public, history = parts.callers, parts.public, parts.history
    site = Site(
        parts.pages,
        public.board,
        database,
        markets=public.markets,
        cross=public.cross,
        signals=public.signals,
        briefs=public.briefs,
        status=public.status,
        series=SeriesReader(
            database, clock, settings.liquidations_min_coverage_pct, settings.venue_names
        ),
        render_queue=parts.render_queue,
    )
    terms = Terms(
        feed_price=settings.feed_price_usd,
        feed_period_days=settings.feed_period_days,
        stance_price=settings.stance_price_usd,
        takes_payments=callers.facilitator is not None,
        contact=settings.sales_contact,
    )
    retention = Retention(MINUTE_DAYS, HOUR_DAYS, LIQUIDATION_DAYS)
    return page_routes(
        site,
        SiteParts(
            catalog=public.catalog,
            terms=terms,
            registrations=callers.registrations,
            limiter=callers.limiter,
            described=parts.described,
            tools={tool.name: tool.description for tool in TOOLS},
            recorded=Recorded(
                history.ledger,
                history.log,
                history.continuity,
                history.read_note,
                history.policy,
                retention,
            ),
            source=_primary_source(settings),
            bybit_source=settings.exchange_source,
            alerts=parts.alerts,
            keys=callers.keys,
        ),
    )


def _tasks(parts: _Parts) -> list[Task]:
    board, status = parts.public.board, parts.public.status
    dependencies: Sequence[object] = (parts.callers.provider, parts.callers.facilitator)
    watched = [
        dependency for dependency in dependencies if isinstance(dependency, MonitoredDependency)
    ]
    limits = parts.callers.limit_store
    shared = [limits] if isinstance(limits, FallbackStore) else []
    recorder = StatusRecorder(
        parts.inputs.database,
        lambda now: status.status(board, now),
        [*watched, *shared, parts.history.log, parts.public.host_clock],
        events=partial(parts.public.markets.outages, board),
        clock=parts.inputs.clock,
        server=server_clock(parts.inputs.database),
    )
    return [board.follow, recorder.run, parts.history.log.retry, *_exporting(parts)]


def _exporting(parts: _Parts) -> list[Task]:
    settings, _, _, clock, metrics = parts.inputs
    if not settings.metrics_port:
        return []
    # Imported late: the package adds 0.1 s to each start.
    from barograph.kit.metrics_export import MetricsExporter  # noqa: PLC0415

    sample = partial(web_gauges, parts.public.board, settings, parts.callers.limits_failing)
    return [MetricsExporter(settings, "web", metrics, sample, clock).run]


def _closings(parts: _Parts) -> list[Closing]:
    return [
        parts.mcp.close,
        *parts.subscribers.closings,
        parts.inputs.database.close,
        parts.inputs.history.close,
        parts.callers.limit_store.close,
        parts.callers.provider.close,
    ]
