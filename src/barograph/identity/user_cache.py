"""Caches what the identity provider says about the user of a token, for a short time."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from barograph.identity.bearer import Identity, IdentityRefused, IdentityUnavailable
from barograph.identity.tokens import Token
from barograph.kit.caches import SingleFlight
from barograph.kit.clock import Clock
from barograph.kit.dependency_health import DependencyHealth
from barograph.kit.timestamps import SECOND

MAX_ENTRIES = 10_000
REFUSAL_SECONDS = 5.0
"""How long a refusal is cached, so that a refused token can't make us ask all the time."""

Ask = Callable[[], Coroutine[Any, Any, Identity]]


@dataclass(frozen=True, slots=True)
class _Entry:
    asked_at: int
    lasts: int
    """Both in milliseconds."""

    identity: Identity | None
    reason: str = ""

    def is_valid(self, now: int) -> bool:
        """Whether it is recent; false after the clock was set back."""
        return 0 <= now - self.asked_at < self.lasts


class UserCache:
    """Asks the provider once for many requests with the same token; stores only token hashes."""

    def __init__(self, clock: Clock, seconds: float, limit: int = MAX_ENTRIES) -> None:
        self._clock = clock
        self._seconds = seconds
        self._limit = limit
        self._entries: dict[bytes, _Entry] = {}
        self._flight: SingleFlight[bytes, _Entry] = SingleFlight()
        self.health = DependencyHealth(clock)

    def known(self, text: str) -> Identity | None:
        """The cached user of a token. An entry never outlives the token, which was verified."""
        entry = self._entries.get(sha256(text.encode()).digest())
        return entry.identity if entry is not None and entry.is_valid(self._clock()) else None

    async def check(self, text: str, token: Token, ask: Ask) -> Identity:
        """The user of a verified token; calls `ask` unless the cache has a recent answer.

        Raises:
            IdentityRefused: the provider does not accept the user.
            IdentityUnavailable: the provider is unavailable, which is not cached.
        """
        key = sha256(text.encode()).digest()
        entry = self._entries.get(key)
        if entry is None or not entry.is_valid(self._clock()):
            entry = await self._flight.do(key, lambda: self._ask(key, token, ask))
        if entry.identity is None:
            raise IdentityRefused(entry.reason)
        return entry.identity

    async def _ask(self, key: bytes, token: Token, ask: Ask) -> _Entry:
        asked_at = self._clock()  # before the call: the answer may be as old as that
        try:
            identity = await ask()
        except IdentityUnavailable:
            self.health.failed()
            raise
        except IdentityRefused as refusal:
            lasts = int(min(self._seconds, REFUSAL_SECONDS) * SECOND)
            entry = _Entry(asked_at, lasts, None, str(refusal))
        else:
            lasts = min(int(self._seconds * SECOND), token.expires_at - asked_at)
            entry = _Entry(asked_at, lasts, identity)
        self.health.answered()
        self._store(key, entry)
        return entry

    def _store(self, key: bytes, entry: _Entry) -> None:
        self._entries.pop(key, None)
        if not entry.is_valid(self._clock()):
            return
        self._entries[key] = entry
        while len(self._entries) > self._limit:
            del self._entries[next(iter(self._entries))]
