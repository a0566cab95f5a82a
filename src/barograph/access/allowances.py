"""How many requests a caller may make, and what is left of them.

An allowance is an exact moving window: in any span as long as the window, whenever it begins, at
most `requests` are accepted. A request leaves the window exactly `window` after it was made, and
one that is refused is never charged. Counters that start anew every hour, and buckets that refill,
let nearly twice as many through around an edge.
"""

from typing import NamedTuple, Protocol

from barograph.errors import BarographError
from barograph.kit.timestamps import DAY, HOUR, MINUTE


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
