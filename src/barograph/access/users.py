"""What the identity provider said about the user of a token, kept for a short while."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from barograph.access.identity import Identity, IdentityRefused
from barograph.access.tokens import Token
from barograph.kit.clock import Clock
from barograph.kit.single_flight import SingleFlight
from barograph.kit.timestamps import SECOND

MAX_VERDICTS = 10_000
REFUSAL_SECONDS = 5.0
"""A refusal counts this long, so that a refused token cannot make us ask all the time."""

Question = Callable[[], Coroutine[Any, Any, Identity]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was said: who it is, or why not; it counts until a time in milliseconds."""

    until: int
    identity: Identity | None
    reason: str = ""


class UserVerdicts:
    """Asks once for many requests with the same token; tokens are known by their hash only."""

    def __init__(self, clock: Clock, seconds: float, limit: int = MAX_VERDICTS) -> None:
        self._clock = clock
        self._seconds = seconds
        self._limit = limit
        self._verdicts: dict[bytes, Verdict] = {}
        self._flight: SingleFlight[bytes, Verdict] = SingleFlight()

    async def judge(self, text: str, token: Token, ask: Question) -> Identity:
        """Say who a verified token is; `ask` is asked unless it was lately.

        Raises:
            IdentityRefused: the provider says that it is nobody who is accepted.
            IdentityUnavailable: the provider cannot be asked, which is not remembered.
        """
        key = sha256(text.encode()).digest()
        verdict = self._verdicts.get(key)
        if verdict is None or self._clock() >= verdict.until:
            verdict = await self._flight.do(key, lambda: self._ask(key, token, ask))
        if verdict.identity is None:
            raise IdentityRefused(verdict.reason)
        return verdict.identity

    async def _ask(self, key: bytes, token: Token, ask: Question) -> Verdict:
        asked = self._clock()  # what is said may have been so since then
        try:
            identity = await ask()
        except IdentityRefused as refusal:
            kept = min(self._seconds, REFUSAL_SECONDS)
            verdict = Verdict(asked + int(kept * SECOND), None, str(refusal))
        else:
            kept_until = asked + int(self._seconds * SECOND)
            verdict = Verdict(min(kept_until, token.expires_at), identity)
        self._keep(key, verdict)
        return verdict

    def _keep(self, key: bytes, verdict: Verdict) -> None:
        self._verdicts.pop(key, None)
        if verdict.until <= self._clock():
            return
        self._verdicts[key] = verdict
        while len(self._verdicts) > self._limit:
            del self._verdicts[next(iter(self._verdicts))]
