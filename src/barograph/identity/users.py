"""What the identity provider said about the user of a token, kept for a short while."""

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

MAX_VERDICTS = 10_000
REFUSAL_SECONDS = 5.0
"""A refusal counts this long, so that a refused token cannot make us ask all the time."""

Question = Callable[[], Coroutine[Any, Any, Identity]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was said: who it is, or why not; times are in milliseconds."""

    asked: int
    lasts: int
    identity: Identity | None
    reason: str = ""

    def counts(self, now: int) -> bool:
        """Whether it was asked for lately; not so after the clock was set back."""
        return 0 <= now - self.asked < self.lasts


class UserVerdicts:
    """Asks once for many requests with the same token; tokens are known by their hash only."""

    def __init__(self, clock: Clock, seconds: float, limit: int = MAX_VERDICTS) -> None:
        self._clock = clock
        self._seconds = seconds
        self._limit = limit
        self._verdicts: dict[bytes, Verdict] = {}
        self._flight: SingleFlight[bytes, Verdict] = SingleFlight()
        self.health = DependencyHealth(clock)

    def known(self, text: str) -> Identity | None:
        """Who a token was found to be lately; it was verified then, and has not expired since."""
        verdict = self._verdicts.get(sha256(text.encode()).digest())
        return verdict.identity if verdict is not None and verdict.counts(self._clock()) else None

    async def judge(self, text: str, token: Token, ask: Question) -> Identity:
        """Say who a verified token is; `ask` is asked unless it was lately.

        Raises:
            IdentityRefused: the provider says that it is nobody who is accepted.
            IdentityUnavailable: the provider cannot be asked, which is not remembered.
        """
        key = sha256(text.encode()).digest()
        verdict = self._verdicts.get(key)
        if verdict is None or not verdict.counts(self._clock()):
            verdict = await self._flight.do(key, lambda: self._ask(key, token, ask))
        if verdict.identity is None:
            raise IdentityRefused(verdict.reason)
        return verdict.identity

    async def _ask(self, key: bytes, token: Token, ask: Question) -> Verdict:
        asked = self._clock()  # what is said may have been so since then
        try:
            identity = await ask()
        except IdentityUnavailable:
            self.health.failed()
            raise
        except IdentityRefused as refusal:
            lasts = int(min(self._seconds, REFUSAL_SECONDS) * SECOND)
            verdict = Verdict(asked, lasts, None, str(refusal))
        else:
            lasts = min(int(self._seconds * SECOND), token.expires_at - asked)
            verdict = Verdict(asked, lasts, identity)
        self.health.answered()
        self._keep(key, verdict)
        return verdict

    def _keep(self, key: bytes, verdict: Verdict) -> None:
        self._verdicts.pop(key, None)
        if not verdict.counts(self._clock()):
            return
        self._verdicts[key] = verdict
        while len(self._verdicts) > self._limit:
            del self._verdicts[next(iter(self._verdicts))]
