"""What calls of tools come to when something fails that nobody thought of."""

import asyncio
import logging
from typing import Any

import pytest

from barograph.limits.memory_store import MemoryStore
from barograph.limits.rate_limits import RateLimiter
from barograph.mcp.calls import INTERNAL, Outcome, Readers, ToolCalls
from barograph.mcp.tools import BY_NAME, TOOLS
from support.clock import HandClock

SCOPE: dict[str, Any] = {"type": "http", "headers": [], "client": ("203.0.113.7", 40_000)}


async def nobody(_: str) -> str | None:
    return None


def calls(readers: Readers) -> ToolCalls:
    return ToolCalls(readers, RateLimiter(MemoryStore(HandClock()), nobody, ()))


def call(readers: Readers, name: str, **given: Any) -> Outcome:
    return asyncio.run(calls(readers).call(BY_NAME[name], given, SCOPE))


def broken(*_: object) -> bytes:
    raise KeyError("a secret of the inside")


BROKEN = Readers(*[broken] * len(Readers._fields))
ECHO = Readers(
    briefs=lambda limit: b'{"limit":%d}' % limit,
    derivatives=lambda symbol: b'{"symbol":"%s"}' % symbol.encode(),
    **{name: lambda: b"{}" for name in ("market", "market_state", "guides", "signals", "status")},
)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_an_unexpected_failure_is_logged_and_says_nothing_of_the_inside(
    tool: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        outcome = call(BROKEN, tool.name)

    assert outcome == Outcome((INTERNAL,))
    assert [record.message for record in caplog.records] == ["unexpected failure"]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_tool_has_a_reader(tool: Any) -> None:
    assert call(ECHO, tool.name).body is not None


def test_arguments_reach_the_reader_as_the_endpoint_would_read_them() -> None:
    assert call(ECHO, "get_briefs").body == {"limit": 15}
    assert call(ECHO, "get_briefs", limit=0).body == {"limit": 1}
    assert call(ECHO, "get_derivatives").body == {"symbol": "BTC"}
    assert call(ECHO, "get_derivatives", symbol="eth").body == {"symbol": "ETH"}
