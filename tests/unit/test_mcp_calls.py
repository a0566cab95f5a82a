"""Tool calls with unexpected failures, and their arguments."""

import asyncio
import logging
from typing import Any

import pytest

from barograph.limits.rate_limits import RateLimiter
from barograph.limits.stores import MemoryStore
from barograph.mcp.calls import INTERNAL, CallOutcome, ToolCalls, ToolReads
from barograph.mcp.tools import BY_NAME, TOOLS
from support.clock import HandClock

SCOPE: dict[str, Any] = {"type": "http", "headers": [], "client": ("203.0.113.7", 40_000)}


async def nobody(_: str) -> str | None:
    return None


def calls(reads: ToolReads) -> ToolCalls:
    return ToolCalls(reads, RateLimiter(MemoryStore(HandClock()), nobody, ()))


def call(reads: ToolReads, name: str, **given: Any) -> CallOutcome:
    return asyncio.run(calls(reads).call(BY_NAME[name], given, SCOPE))


async def broken(*_: object) -> bytes:
    raise KeyError("a secret of the inside")


BROKEN = dict.fromkeys(BY_NAME, broken)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_an_unexpected_failure_is_logged_and_leaks_nothing(
    tool: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        outcome = call(BROKEN, tool.name)

    assert outcome == CallOutcome((INTERNAL,))
    assert [record.message for record in caplog.records] == ["unexpected failure"]
