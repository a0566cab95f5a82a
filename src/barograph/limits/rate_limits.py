"""Rate limits: how many requests each caller may make, and how others are refused (pure).

A store counts the requests in a sliding window: see `stores`, `sqlite_store` and `valkey_store`.

Errors:

RequestError
└── CallerRefused        carries the usage, for the rate-limit header fields
    ├── InvalidApiKey    401
    │   └── KeyRequired  401
    └── TooManyRequests  429
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from hashlib import blake2b, sha256
from typing import NamedTuple, Protocol

from barograph.errors import BarographError, RequestError
from barograph.kit.documents import Headers
from barograph.kit.http import Scope
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph.limits.callers import Network, caller_group

KEYS_PATH = "/api/v1/keys"
KEY_FIELD = b"x-api-key"
FORWARDED_FIELD = b"x-forwarded-for"
MAX_KEY_BYTES = 200


class RateLimit(NamedTuple):
    """At most `requests`, at least one, in any `window` milliseconds."""

    name: str
    requests: int
    window: int


ANONYMOUS = RateLimit("anon", 120, HOUR)
"""Signals without a key, per caller group."""

PERSONAL = RateLimit("key", 1_000, HOUR)
"""Signals with a personal key, per mailbox that the key belongs to."""

BAD_KEYS = RateLimit("bad-key", 60, HOUR)
"""Requests with an invalid key, per caller group."""

REGISTRATIONS = RateLimit("register", 10, HOUR)
"""Requests for a key, per caller group."""

MAILBOX = RateLimit("mailbox", 3, DAY)
"""Mails to one mailbox, whichever callers ask for them."""

PROOFS = RateLimit("proof", 30, MINUTE)
"""Payment proofs that we send to the facilitator, per caller group."""

TOOL_CALLS = RateLimit("mcp", 300, MINUTE)
"""MCP tool calls, per caller group. The window is short because many people may share one address
of an assistant's operator."""

RENDERS = RateLimit("render", 600, MINUTE)
"""Uncached pages and reads, per caller group: each has to be rendered. A tab that refreshes itself
every five seconds needs 12 per minute."""

MCP_POSTS = RateLimit("mcp-post", 600, MINUTE)
"""Messages to the MCP server, per caller group: room for another message with each tool call."""


WEBHOOKS = RateLimit("webhook", 20, HOUR)
"""New webhooks, per mailbox: each one makes us send a request to an address that a caller chose."""


ALERTS = RateLimit("alert", 120, HOUR)
"""New and changed alerts and previews, per mailbox: each preview reads 30 days of the record."""


class Usage(NamedTuple):
    """Whether a request was accepted, and what is left of the caller's limit."""

    limit: RateLimit
    accepted: bool
    remaining: int
    resets_in: int
    """Milliseconds until the oldest counted request leaves the window, which gives one back."""


class CallerHash:
    """Hashes callers, so that shared stores hold no IP address and no id of a key."""

    def __init__(self, secret: bytes) -> None:
        self._key = sha256(b"callers" + secret).digest()

    def __call__(self, limit: RateLimit, caller: str) -> bytes:
        """Eight bytes, different for each limit and each change of a limit."""
        name, requests, window = limit
        text = f"{name} {requests} {window} {caller}".encode()
        return blake2b(text, digest_size=8, key=self._key).digest()


class LimitsUnavailable(BarographError):
    """A shared store doesn't say whether it counted. `FallbackStore` handles it."""


class LimitStore(Protocol):
    """Where requests are counted."""

    async def count(self, limit: RateLimit, caller: str) -> Usage:
        """Count one request of a caller, if the limit has one left."""

    async def close(self) -> None:
        """Release what the store holds."""


VerifyKey = Callable[[str], Awaitable[str | None]]
"""Returns the owner of a key that is valid now, None for any other text."""


class RateLimiter:
    """Finds the caller of each request and counts the request."""

    def __init__(
        self, store: LimitStore, verify_key: VerifyKey, trusted_networks: Sequence[Network]
    ) -> None:
        self._store = store
        self._verify_key = verify_key
        self._trusted = tuple(trusted_networks)

    async def admit(self, scope: Scope) -> Usage:
        """Count a request for which a key is optional.

        An invalid key never falls back to the anonymous limit: its owner would see the wrong limit
        and not know why.

        Raises:
            InvalidApiKey: the request has a key that is not valid.
            TooManyRequests: the limit is used up.
        """
        keys = _keys(scope)
        if not keys:
            return await self.count(ANONYMOUS, self.caller(scope))
        owner = await self._owner(keys)
        if owner is None:
            raise InvalidApiKey(await self.count(BAD_KEYS, self.caller(scope)))
        return await self.count(PERSONAL, owner)

    async def owner(self, scope: Scope) -> str:
        """Count a request that needs a key, and return its mailbox.

        Raises:
            KeyRequired: the request has no valid key.
            TooManyRequests: the limit is used up.
        """
        owner = await self._owner(_keys(scope))
        if owner is None:
            raise KeyRequired(await self.count(BAD_KEYS, self.caller(scope)))
        await self.count(PERSONAL, owner)
        return owner

    async def count(self, limit: RateLimit, caller: str) -> Usage:
        """Count one request of a caller; raises `TooManyRequests` if the limit is used up."""
        usage = await self._store.count(limit, caller)
        if not usage.accepted:
            raise TooManyRequests(usage)
        return usage

    def caller(self, scope: Scope) -> str:
        """The group that an anonymous request belongs to."""
        client = scope.get("client")
        peer = None if client is None else client[0]
        if not self._trusted:
            return caller_group(peer, (), ())
        forwarded = [value for name, value in scope["headers"] if name == FORWARDED_FIELD]
        return caller_group(peer, forwarded, self._trusted)

    async def _owner(self, keys: Sequence[bytes]) -> str | None:
        if len(keys) != 1 or not 0 < len(keys[0]) <= MAX_KEY_BYTES:
            return None
        return await self._verify_key(keys[0].decode("latin-1"))


def _keys(scope: Scope) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == KEY_FIELD]


def rate_limit_fields(usage: Usage, now: int) -> Headers:
    """The rate-limit header fields of a response that is sent now.

    `RateLimit-Policy` and `RateLimit` are the fields of the IETF draft; many clients still read the
    `X-RateLimit-` trio. A refused caller is accepted after exactly `Retry-After`, unless another
    caller of the same group comes first.
    """
    limit, accepted, remaining, resets_in = usage
    seconds = -(-resets_in // SECOND)
    policy, template, requests = _constant_parts(limit)
    fields = [
        policy,
        (b"ratelimit", template % (remaining, seconds)),
        requests,
        (b"x-ratelimit-remaining", b"%d" % remaining),
        (b"x-ratelimit-reset", b"%d" % -(-(now + resets_in) // SECOND)),
    ]
    if not accepted:
        fields.append((b"retry-after", b"%d" % retry_seconds(usage)))
    return fields


def policy_field(limit: RateLimit) -> tuple[bytes, bytes]:
    """The header field that describes a limit whose usage is not known."""
    return _constant_parts(limit)[0]


def retry_seconds(usage: Usage) -> int:
    """After how many whole seconds a refused caller is accepted again."""
    return max(1, -(-usage.resets_in // SECOND))


@lru_cache(maxsize=64)
def _constant_parts(limit: RateLimit) -> tuple[tuple[bytes, bytes], bytes, tuple[bytes, bytes]]:
    name, requests, window = limit
    policy = f'"{name}";q={requests};w={window // SECOND}'.encode()
    template = f'"{name}";r=%d;t=%d'.encode()
    return (b"ratelimit-policy", policy), template, (b"x-ratelimit-limit", b"%d" % requests)


class CallerRefused(RequestError):
    """A refused request, with the caller's usage."""

    def __init__(self, message: str, usage: Usage) -> None:
        super().__init__(message)
        self.usage = usage

    def fields(self, now: int) -> Headers:
        """The rate-limit header fields of the response."""
        return rate_limit_fields(self.usage, now)


class InvalidApiKey(CallerRefused):
    """The request has an API key that is not valid."""

    status = 401
    text = (
        "the API key is not valid: send one valid key in the X-API-Key header, leave the header "
        f"out to use the anonymous limit, or get a free key with POST {KEYS_PATH}"
    )

    def __init__(self, usage: Usage) -> None:
        super().__init__(self.text, usage)

    def fields(self, now: int) -> Headers:
        """The rate-limit header fields, and how to present a key."""
        return [*super().fields(now), (b"www-authenticate", b'ApiKey header="X-API-Key"')]


class KeyRequired(InvalidApiKey):
    """The request has no valid API key, and this endpoint needs one."""

    text = (
        "this endpoint needs a valid personal key in the X-API-Key header; get a free one with "
        f"POST {KEYS_PATH}"
    )


class TooManyRequests(CallerRefused):
    """The limit is used up; the refused request was not counted."""

    status = 429

    def __init__(self, usage: Usage) -> None:
        name, requests, window = usage.limit
        subject, advice = _WORDS.get(name, (f"requests ({name})", ""))
        span = _SPANS.get(window, f"{window // SECOND} seconds")
        seconds = retry_seconds(usage)
        unit = "second" if seconds == 1 else "seconds"
        super().__init__(
            f"too many requests: {requests:,} {subject} are allowed in any {span}; "
            f"try again in {seconds} {unit}{advice}",
            usage,
        )


_WORDS = {
    ANONYMOUS.name: (
        "requests without a key",
        f", or get a free key for {PERSONAL.requests:,} requests per hour with POST {KEYS_PATH}",
    ),
    PERSONAL.name: ("requests with this key", ""),
    BAD_KEYS.name: ("requests with an invalid key", ", or send a valid key or none"),
    WEBHOOKS.name: ("new webhooks of one mailbox", ""),
    ALERTS.name: ("new and changed alerts and previews of one mailbox", ""),
    REGISTRATIONS.name: ("registrations from one address", ""),
    MAILBOX.name: ("e-mails to one mailbox", ""),
    TOOL_CALLS.name: ("tool calls from one address", ""),
    MCP_POSTS.name: ("requests to the MCP server from one address", ""),
    RENDERS.name: ("uncached reads, pages and proofs from one address", ""),
}
_SPANS = {MINUTE: "minute", HOUR: "hour", DAY: "24 hours"}
