"""How a caller is refused, and told what to do about it.

RequestError
└── Refusal              carries the standing, for the rate-limit fields
    ├── InvalidKey       401
    └── TooManyRequests  429
"""

from functools import lru_cache
from typing import NamedTuple, Protocol

from barograph.errors import BarographError, RequestError
from barograph.kit.documents import Headers
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND


class Allowance(NamedTuple):
    """So many requests in any `window` milliseconds; at least one."""

    name: str
    requests: int
    window: int


ANONYMOUS = Allowance("anon", 120, HOUR)
"""Without a key, by caller group."""

PERSONAL = Allowance("key", 1_000, HOUR)
"""With a personal key, by the mailbox that it belongs to."""

BAD_KEYS = Allowance("bad-key", 60, HOUR)
"""With a key that is not valid, by caller group."""

REGISTRATIONS = Allowance("register", 10, HOUR)
"""Asking for a key, by caller group."""

MAILBOX = Allowance("mailbox", 3, DAY)
"""Mails to one mailbox, whoever asks for them."""

PROOFS = Allowance("proof", 30, MINUTE)
"""Payment proofs that a facilitator is asked about, by caller group."""

TOOL_CALLS = Allowance("mcp", 300, MINUTE)
"""Calls of tools, by caller group. A loop is stopped soon and may go on soon: behind one address of
an assistant's operator there are many people."""

RENDERS = Allowance("render", 600, MINUTE)
"""Uncached pages, downloads and history proofs, by caller group: all of them have to be rendered. A
tab that refreshes itself every five seconds needs 12 per minute."""


MCP_POSTS = Allowance("mcp-post", 600, MINUTE)
"""Messages to the MCP server, by caller group: room for another message with each tool call."""


class Standing(NamedTuple):
    """What became of a request, and where it leaves the caller."""

    allowance: Allowance
    accepted: bool
    remaining: int
    resets_in: int
    """Milliseconds until the oldest counted request leaves the window, which gives one back."""


class AllowancesUnavailable(BarographError):
    """A shared store can't count now; nothing was charged. `FallbackStore` handles it."""


class AllowanceStore(Protocol):
    """Where requests are counted."""

    async def spend(self, allowance: Allowance, caller: str) -> Standing:
        """Charge one request to a caller, if the allowance has one left."""

    async def close(self) -> None:
        """Release what the store holds."""


def rate_limit_fields(standing: Standing, now: int) -> Headers:
    """The rate-limit fields of an answer that is given now.

    `RateLimit-Policy` and `RateLimit` are the fields of the IETF's draft, the `X-RateLimit-` trio
    is what clients still read. A refusal says with `Retry-After` when to come again; who waits
    exactly that long, and lets nobody of the same group come first, is accepted.
    """
    allowance, accepted, remaining, resets_in = standing
    seconds = -(-resets_in // SECOND)
    policy, template, limit = _constant_parts(allowance)
    fields = [
        policy,
        (b"ratelimit", template % (remaining, seconds)),
        limit,
        (b"x-ratelimit-remaining", b"%d" % remaining),
        (b"x-ratelimit-reset", b"%d" % -(-(now + resets_in) // SECOND)),
    ]
    if not accepted:
        fields.append((b"retry-after", b"%d" % retry_seconds(standing)))
    return fields


def policy_field(allowance: Allowance) -> tuple[bytes, bytes]:
    """What an allowance is, where nothing can be said about what is left of it."""
    return _constant_parts(allowance)[0]


def retry_seconds(standing: Standing) -> int:
    """After how many whole seconds a refused caller is accepted again."""
    return max(1, -(-standing.resets_in // SECOND))


@lru_cache(maxsize=64)
def _constant_parts(allowance: Allowance) -> tuple[tuple[bytes, bytes], bytes, tuple[bytes, bytes]]:
    name, requests, window = allowance
    policy = f'"{name}";q={requests};w={window // SECOND}'.encode()
    limit = str(requests).encode()
    template = f'"{name}";r=%d;t=%d'.encode()
    return (b"ratelimit-policy", policy), template, (b"x-ratelimit-limit", limit)


KEYS_PATH = "/api/v1/keys"


class Refusal(RequestError):
    """A request that is not let in, and where that leaves the caller."""

    def __init__(self, message: str, standing: Standing) -> None:
        super().__init__(message)
        self.standing = standing

    def fields(self, now: int) -> Headers:
        """The header fields that the answer carries beside its body."""
        return rate_limit_fields(self.standing, now)


class InvalidKey(Refusal):
    """The caller presented a key, and it is not a valid one."""

    status = 401

    def __init__(self, standing: Standing) -> None:
        super().__init__(_INVALID_KEY, standing)

    def fields(self, now: int) -> Headers:
        """The rate-limit fields, and how to present a key."""
        return [*super().fields(now), (b"www-authenticate", b'ApiKey header="X-API-Key"')]


class TooManyRequests(Refusal):
    """The allowance is spent; the refused request was not charged."""

    status = 429

    def __init__(self, standing: Standing) -> None:
        name, requests, window = standing.allowance
        subject, advice = _WORDS.get(name, (f"requests ({name})", ""))
        span = _SPANS.get(window, f"{window // SECOND} seconds")
        seconds = retry_seconds(standing)
        unit = "second" if seconds == 1 else "seconds"
        super().__init__(
            f"too many requests: {requests:,} {subject} are allowed in any {span}; "
            f"try again in {seconds} {unit}{advice}",
            standing,
        )


_INVALID_KEY = (
    "the API key is not valid: send one valid key in the X-API-Key header, leave the header out to "
    f"use the anonymous allowance, or get a free key with POST {KEYS_PATH}"
)
_WORDS = {
    ANONYMOUS.name: (
        "requests without a key",
        f", or get a free key for {PERSONAL.requests:,} requests an hour with POST {KEYS_PATH}",
    ),
    PERSONAL.name: ("requests with this key", ""),
    BAD_KEYS.name: ("requests with a key that is not valid", ", or send a valid key or none"),
    REGISTRATIONS.name: ("registrations from one address", ""),
    MAILBOX.name: ("mails to one mailbox", ""),
    TOOL_CALLS.name: ("calls of tools from one address", ""),
    MCP_POSTS.name: ("requests to the MCP server from one address", ""),
    RENDERS.name: ("uncached pages, downloads and proofs from one address", ""),
}
_SPANS = {MINUTE: "minute", HOUR: "hour", DAY: "24 hours"}
