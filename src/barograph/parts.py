"""What the web side is made of, group by group; `app.py` puts the groups together."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from barograph.access.allowances import AllowanceStore
from barograph.access.contact import Contact, Watched
from barograph.access.entitlements import Entitlements
from barograph.access.fallback_store import FallbackStore
from barograph.access.feed_door import FeedDoor
from barograph.access.feed_grants import FeedGrants
from barograph.access.gate import Gate
from barograph.access.identity import IdentityProvider, NoIdentityProvider
from barograph.access.keys import ApiKeys
from barograph.access.memory_store import MemoryStore
from barograph.access.paid_door import PaidDoor
from barograph.access.pepper import load_pepper
from barograph.access.registration import Registrations
from barograph.access.sqlite_store import SQLiteStore
from barograph.badges.endpoints import hot_badges
from barograph.badges.reader import BadgeReader
from barograph.board.board import Board
from barograph.briefs.feeds import BRIEFS
from barograph.briefs.reader import BriefsReader
from barograph.discovery.index import index_document
from barograph.discovery.paths import INDEX_PATH
from barograph.errors import RecordUnavailable, UpstreamUnavailable
from barograph.guides.catalog import Catalog
from barograph.guides.documents import GUIDES_PATH, guides_document
from barograph.guides.files import load_catalog
from barograph.kit.clock import Clock
from barograph.kit.database import Database
from barograph.kit.documents import Document, HotKey
from barograph.macro.feeds import MACRO_HEALTH
from barograph.markets.documents import hot_documents
from barograph.markets.feeds import FEEDS
from barograph.markets.reader import MarketReader, market_bounds
from barograph.mcp.readers import Readers, free_readers
from barograph.paying import PayingParts, paying_parts
from barograph.payments.ports import Facilitator
from barograph.settings import Settings
from barograph.signals.catalog import METHODS
from barograph.signals.feeds import SIGNALS
from barograph.signals.reader import SignalsReader
from barograph.stances.continuity import Continuity
from barograph.stances.feeds import STANCES
from barograph.stances.ledger import Ledger
from barograph.stances.public_log import PublicLogs
from barograph.stances.reading import StanceReader
from barograph.stances.signed_heads import SignedHeads
from barograph.stances.signing import load_history_key
from barograph.status.keeper import Keeper
from barograph.status.reader import LimitsFailing, StatusReader
from barograph.upstream.facilitator import HttpFacilitator
from barograph.upstream.identity import identity_provider


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
