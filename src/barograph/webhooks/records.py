"""Webhooks as frozen records, and how attempts change them (pure)."""

from collections.abc import Awaitable, Callable
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from barograph.errors import RequestError
from barograph.events.query import EventFilter
from barograph.kit.timestamps import HOUR, MINUTE, SECOND

State = Literal["pending", "active", "failed", "disabled"]
Format = Literal["json", "telegram", "discord", "slack", "ntfy", "matrix"]
"""`json` gets events and alerts. The others are those of chat services, which get alerts only."""

MAX_WEBHOOKS = 5
"""The most webhooks per mailbox, in any state."""

CHALLENGE_PAUSES: Final = (5 * SECOND, 30 * SECOND, 2 * MINUTE, 10 * MINUTE, 45 * MINUTE)
PAUSES: Final = (*CHALLENGE_PAUSES, HOUR, 2 * HOUR, *[4 * HOUR] * 5)
"""After each failure in a row: an hour for a challenge, a day for an event, then we give up."""

GONE = 410


class Webhook(NamedTuple):
    """An endpoint."""

    id: str
    mailbox: str
    url: str
    types: str
    symbols: str
    secret: str
    state: State
    created_at: int
    delivered_up_to: int
    failures: int = 0
    """Since the last success."""

    failing_since: int | None = None
    next_try_at: int = 0
    last_delivery_at: int | None = None
    why: str | None = None
    """Why nothing is delivered any more."""

    email: str | None = None
    """The owner's; None while they have no valid key, which pauses deliveries."""

    previous_secret: str | None = None
    previous_until: int = 0
    """The secret before this one also signs until then."""

    is_slow: bool = False
    """Whether it answered slowly or not at all; read only with the endpoints that are due."""

    format: Format = "json"
    messages_up_to: int = 0
    """The last message of an alert that was delivered or is for other targets."""

    def secrets(self, now: int) -> list[str]:
        """What signs now, the newest first."""
        old = self.previous_secret if now < self.previous_until else None
        return [self.secret] if old is None else [self.secret, old]

    @property
    def is_live(self) -> bool:
        """Whether it may still get messages."""
        return self.state in {"pending", "active"}

    @property
    def host(self) -> str:
        """All of the address that may be shown: the rest can hold a secret."""
        return urlsplit(self.url).hostname or ""

    @property
    def wanted(self) -> EventFilter:
        """The events that it asked for."""
        return EventFilter(frozenset(words(self.types)), frozenset(words(self.symbols)))

    def after_success(self, position: int, now: int) -> "Webhook":
        """The same endpoint after it accepted a message."""
        return self._replace(
            state="active",
            delivered_up_to=position,
            failures=0,
            failing_since=None,
            next_try_at=now,
            # A challenge is no delivery.
            last_delivery_at=now if self.state == "active" else None,
        )

    def after_failure(self, status: int | None, now: int, jitter: float) -> "Webhook":
        """The same endpoint after a failed attempt: retried later, or given up."""
        since = now if self.failing_since is None else self.failing_since
        failed = self._replace(failures=self.failures + 1, failing_since=since)
        is_pending = self.state == "pending"
        pauses = CHALLENGE_PAUSES if is_pending else PAUSES
        if status != GONE and self.failures < len(pauses):
            return failed._replace(next_try_at=now + round(pauses[self.failures] * jitter))
        why = f"every attempt of {'an hour' if is_pending else 'a day'} failed"
        return failed._replace(
            state="failed" if is_pending else "disabled",
            why="the endpoint answered 410 Gone" if status == GONE else why,
        )


class Delivery(NamedTuple):
    """One attempt. Never what the endpoint answered."""

    message: str
    event: int | None
    at: int
    attempt: int
    status: int | None
    failure: str | None
    """The kind of failure, if the attempt failed."""

    duration_ms: int


class Reply(NamedTuple):
    """An endpoint's answer."""

    status: int
    start: bytes
    """The first bytes of its body."""


Post = Callable[[str, dict[str, str], bytes], Awaitable[Reply]]
"""Sends header fields and a body to a URL; raises UpstreamError if there was no answer."""


class AlertRequest(NamedTuple):
    """The next message of the owner's alerts; its body is empty if it is for other targets."""

    number: int
    url: str = ""
    body: bytes = b""


NextAlert = Callable[[Webhook], Awaitable[AlertRequest | None]]


class TooManyWebhooks(RequestError):
    """The mailbox has as many webhooks as it may."""

    status = 409
    text = f"you can have {MAX_WEBHOOKS} webhooks, in any state; delete one first"


def words(text: str) -> list[str]:
    """The values of a list that is stored with commas."""
    return text.split(",") if text else []
