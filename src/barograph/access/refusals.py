"""How a caller is refused, and told what to do about it.

RequestError
└── Refusal              carries the standing, for the rate-limit fields
    ├── InvalidKey       401
    └── TooManyRequests  429
"""

from barograph.access.allowances import (
    ANONYMOUS,
    BAD_KEYS,
    MAILBOX,
    MCP_POSTS,
    PERSONAL,
    REGISTRATIONS,
    RENDERS,
    TOOL_CALLS,
    Standing,
)
from barograph.access.fields import rate_limit_fields, retry_seconds
from barograph.errors import RequestError
from barograph.kit.documents import Headers
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND

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
