"""Tool calls that fail unexpectedly, and results, which are compared with the SDK's models."""

import asyncio
import logging
from typing import Any

import pytest
from mcp.types.methods import serialize_server_result
from mcp.types.version import KNOWN_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from barograph.discovery.mcp_description import PROTOCOLS
from barograph.limits.rate_limits import RateLimiter
from barograph.limits.stores import MemoryStore
from barograph.mcp.calls import INTERNAL, CallOutcome, ToolCalls, ToolReads
from barograph.mcp.server import call_result
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
def test_a_failed_call_is_logged_and_private(tool: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        outcome = call(BROKEN, tool.name)

    assert outcome == CallOutcome((INTERNAL,))
    assert [record.message for record in caplog.records] == ["unexpected failure"]


FACTS = {"zero": 0, "unknown": None, "list": [None, {"within": None}], "text": "\u00df"}
OUTCOMES = {
    "one text": CallOutcome(("{}",), {}),
    "two texts": CallOutcome(('{"zero":0}', "119 of 120 are left"), FACTS),
    "a failure": CallOutcome(("too many requests",)),
}


@pytest.mark.parametrize("revision", PROTOCOLS)
@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
def test_a_result_is_what_the_sdk_would_have_written(outcome: CallOutcome, revision: str) -> None:
    written = call_result(outcome, revision)

    assert serialize_server_result("tools/call", revision, written) == written


def test_every_sdk_revision_except_the_one_with_batches_is_supported() -> None:
    spoken = [each for each in reversed(KNOWN_PROTOCOL_VERSIONS) if each != "2025-03-26"]
    assert tuple(spoken) == PROTOCOLS
    assert PROTOCOLS[:1] == MODERN_PROTOCOL_VERSIONS
