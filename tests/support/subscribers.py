"""A service with subscribers and a record to compare."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from barograph.board.feeds import Publication
from barograph.entitlements.store import Entitlements, Holder, HolderKind, Tier
from barograph.history.ledger import HISTORY, Ledger
from barograph.history.records import ChainEnd, Proposal, Stances, Version, VersionEvent
from barograph.identity.provider import Identity, IdentityRefused, IdentityUnavailable
from barograph.kit.database import Database, Work
from barograph.kit.migrations import SERVICE
from barograph.kit.opening import list_tables
from barograph.kit.timestamps import DAY
from barograph.payments.records import Facilitator
from barograph.stances.reader import STANCES
from support.databases import DatabaseDouble, database_address
from support.service import Answer, Service
from support.stances import FUNDING, proposal

T = TypeVar("T")

FEED_TOKEN = "token-of-a-feed-subscriber"
RESERVE_TOKEN = "token-of-a-reserve-subscriber"
PLAIN_TOKEN = "token-of-somebody-without-anything"
MATERIAL_CHANGE = "/api/agents/material-change"
FEED_NOW = "/api/feed/now"
STANCE_READS = {
    "btc-etf-stance": "/api/x402/btc-etf-stance",
    "rates-desk": "/api/x402/rates-desk",
    "funding-regime-stance": "/api/x402/funding-regime",
}
FEED_ENTRY = "/api/x402/feed"
ENTITLED_PATHS = (MATERIAL_CHANGE, FEED_NOW, *STANCE_READS.values())


class Identities:
    """An identity provider with a few tokens, which can fail."""

    def __init__(self) -> None:
        self.users = {FEED_TOKEN: "user-feed", RESERVE_TOKEN: "user-reserve", PLAIN_TOKEN: "user"}
        self.asked: list[str] = []
        self.is_down = False
        self.before_answer: Callable[[], Awaitable[None]] | None = None

    async def identify(self, token: str) -> Identity:
        self.asked.append(token)
        if self.before_answer is not None:
            await self.before_answer()
        if self.is_down:
            raise IdentityUnavailable("the provider is down")
        if token not in self.users:
            raise IdentityRefused("nobody's token")
        return Identity(self.users[token])

    async def close(self) -> None:
        pass


Meanwhile = Callable[[], Awaitable[None]]


class WatchedHistory(DatabaseDouble):
    """The record, with an action after its first read."""

    def __init__(self, history: Database) -> None:
        super().__init__(history)
        self.looks = 0
        self.after_first: Meanwhile | None = None

    async def read(self, work: Work[T]) -> T:
        found = await super().read(work)
        self.looks += 1
        if self.looks == 1 and self.after_first is not None:
            await self.after_first()
        return found


class SubscriberService(Service):
    """A service with one Feed subscriber, one Reserve subscriber and one user without either."""

    def __init__(
        self, folder: Path, *, facilitator: Facilitator | None = None, **settings: Any
    ) -> None:
        self.identities = Identities()
        super().__init__(
            folder,
            identity=self.identities,
            facilitator=facilitator,
            watch=self._watch,
            **settings,
        )
        self.entitlements = Entitlements(self.database, self.clock)
        self.ledger = Ledger(self.history, self.clock)
        self.grant("user-feed", "feed")
        self.grant("user-reserve", "reserve")

    def grant(self, user: str, tier: Tier, days: int = 30, kind: HolderKind = "user") -> None:
        now = self.clock()
        asyncio.run(
            self.entitlements.grant(
                Holder(kind, user),
                tier,
                starts_at=now,
                ends_at=now + days * DAY,
                source="test",
                by="test",
                why="a test needs it",
            )
        )

    def record(self, *proposals: Proposal) -> list[Version]:
        """Record proposals one after the other, as operator and collector do."""
        return [asyncio.run(self.ledger.append(each)).version for each in proposals]

    async def withdraw(self, version: Version) -> VersionEvent:
        said = {"why": "a wrong file", "by": "night desk"}
        head = version.history_digest
        return await self.ledger.withdraw(version.kind, **said, expected_head=head)

    def two_versions(self, kind: str = FUNDING) -> tuple[Version, Version]:
        """Two versions of one leg, the second with another decision."""
        before, after = self.record(
            proposal(kind=kind), proposal(kind=kind, label="cautious", by="operator")
        )
        return before, after

    def issue_all(self) -> None:
        """One version of each kind."""
        self.record(*(proposal(kind=kind) for kind in STANCE_READS))

    def compare(
        self, before: Version, after: Version, token: str = FEED_TOKEN, **changes: str
    ) -> Answer:
        return self.ask(comparison_of(before, after, **changes), authorization=f"Bearer {token}")

    def read(self, path: str, token: str = FEED_TOKEN) -> Answer:
        return self.ask(path, authorization=f"Bearer {token}")

    def after_first_look(self, meanwhile: Meanwhile) -> None:
        """Run an action after the next request has read the record once."""
        self.watched.looks = 0
        self.watched.after_first = meanwhile

    def _watch(self, history: Database) -> Database:
        self.watched = WatchedHistory(history)
        return self.watched

    def counts(self) -> dict[str, int]:
        """How many rows every table of both databases has."""
        paths = {self.settings.database_path: SERVICE, self.settings.history_path: HISTORY}
        databases = (self.database, self.history)
        found: dict[str, int] = {}
        for database, path in zip(databases, paths.items(), strict=True):
            for name in asyncio.run(list_tables(database_address(*path))):
                counted = asyncio.run(database.fetch(f"SELECT count(*) FROM {name}"))
                found[name] = counted[0][0]
        return found


def publish_stances(
    service: SubscriberService, *stances: Any, recorded: dict[str, ChainEnd] | None = None
) -> None:
    """Publish stances as the collector does."""
    published = Stances(service.clock(), stances, {}, recorded or {})

    service.put(Publication.of(STANCES, published))


def parameters_of(before: Version, after: Version) -> dict[str, str]:
    """The seven parameters that refer to two versions."""
    return {
        "kind": after.kind,
        "before_leg": before.leg_id,
        "before_revision": str(before.revision),
        "before_digest": before.history_digest,
        "after_leg": after.leg_id,
        "after_revision": str(after.revision),
        "after_digest": after.history_digest,
    }


def comparison_of(before: Version, after: Version, **changes: str) -> str:
    """The address that compares two versions."""
    return f"{MATERIAL_CHANGE}?{urlencode(parameters_of(before, after) | changes)}"
