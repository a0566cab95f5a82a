"""`/api/mcp` while the SDK is loading, or if it cannot be loaded."""

import asyncio
import json
import threading
from typing import Any

import pytest

from barograph.kit.http import Receive, Scope, Send
from barograph.limits.rate_limits import RateLimiter
from barograph.limits.stores import MemoryStore
from barograph.mcp.endpoints import McpEndpoint
from support.clock import HandClock
from support.mcp_peer import FIELDS, PATH
from support.service import BASE_URL, Answer, ask

PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()


class Echo:
    """Echoes the body of every request, or fails after the first byte."""

    def __init__(self, *, breaks_off: bool = False) -> None:
        self._breaks_off = breaks_off

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if self._breaks_off:
            raise ConnectionError
        await send({"type": "http.response.body", "body": (await receive())["body"]})

    async def close(self) -> None:
        return


def post_ping(endpoint: Any) -> Answer:
    fields = [(name.replace("_", "-"), value) for name, value in FIELDS.items()]
    return ask(endpoint, PATH, "POST", fields, body=PING)


def endpoint_with(load: Any) -> McpEndpoint:
    async def nobody(_: str) -> None:
        return None

    clock = HandClock()
    return McpEndpoint(BASE_URL, RateLimiter(MemoryStore(clock), nobody, ()), clock, load)


REQUEST = {"type": "http.request", "body": PING, "more_body": False}


async def status_of(endpoint: McpEndpoint, received: dict[str, Any]) -> int:
    """The status of the answer to a request with this as its first message."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return received

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in FIELDS.items()]
    scope = {"type": "http", "method": "POST", "path": PATH, "headers": headers}
    await endpoint(scope, receive, send)
    return int(sent[0]["status"])


@pytest.mark.outcome(
    "The MCP library can't be loaded", "500 at `/api/mcp` only. The next request tries again."
)
def test_a_failed_load_is_500_and_tried_again() -> None:
    tries: list[int] = []

    def load() -> Echo:
        tries.append(1)
        if len(tries) == 1:
            raise ImportError("away")
        return Echo()

    endpoint = endpoint_with(load)

    first, second = post_ping(endpoint), post_ping(endpoint)

    assert (first.status, first.json()) == (500, {"error": "internal error"})
    assert (second.status, second.body) == (200, PING)


async def test_concurrent_requests_wait_for_one_load_without_blocking_the_loop() -> None:
    may_end, has_begun = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loads: list[threading.Thread] = []

    def load() -> Echo:
        loads.append(threading.current_thread())
        loop.call_soon_threadsafe(has_begun.set)
        assert may_end.wait(10)
        return Echo()

    endpoint = endpoint_with(load)
    waiting = [asyncio.create_task(status_of(endpoint, REQUEST)) for _ in range(5)]
    await has_begun.wait()  # the loop goes on while the load waits for it
    may_end.set()

    assert await asyncio.gather(*waiting) == [200] * 5
    assert len(loads) == 1
    assert loads[0] is not threading.main_thread()


def test_a_response_that_failed_midway_is_not_restarted() -> None:
    answer = post_ping(endpoint_with(lambda: Echo(breaks_off=True)))

    assert (answer.status, answer.body) == (200, b"")


async def test_a_request_whose_body_ends_early_is_400() -> None:
    assert await status_of(endpoint_with(Echo), {"type": "http.disconnect"}) == 400
