"""The official SDK's server: the only file that imports it, and it is imported late.

That takes most of a second and tens of megabytes, which nobody pays who never asks for `/api/mcp`.
Stateless, so that any worker may answer any request: of the revisions with a handshake and of those
without one alike.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from mcp.server import CacheHint, Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    SERVER_INFO_META_KEY,
    CallToolRequestParams,
    CallToolResult,
    Icon,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from barograph import __version__
from barograph.kit.http import Receive, Scope, Send
from barograph.kit.timestamps import HOUR
from barograph.mcp.calls import ToolCalls
from barograph.mcp.card import DESCRIPTION, NAME, TITLE, icons
from barograph.mcp.tools import BY_NAME, TOOLS
from barograph.notice import NOTICE

Context = ServerRequestContext[Any, Any]

INSTRUCTIONS = (
    "Crypto market data that is measured and recorded by this service. Begin with "
    f"get_market_state. Null is not known, zero is data. {NOTICE}"
)
_UNCHANGED = CacheHint(ttl_ms=HOUR, scope="public")


class Transport:
    """Serves HTTP requests of the protocol, whatever revision they are of."""

    def __init__(self, calls: ToolCalls, base_url: str, longest_body: int) -> None:
        logging.getLogger("mcp").setLevel(logging.WARNING)  # it tells of every request
        self._server = _server(calls, base_url)
        self._longest_body = longest_body
        self._running: _Running | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one POST."""
        running = self._running
        if running is None or running.keeper.done():
            running = self._running = self._start()
        await running.started.wait()
        await running.manager.handle_request(scope, receive, send)

    async def close(self) -> None:
        """End what runs beside the requests."""
        if self._running is not None:
            self._running.keeper.cancel()
            await asyncio.wait([self._running.keeper])

    def _start(self) -> "_Running":
        manager = StreamableHTTPSessionManager(
            self._server,
            json_response=True,
            stateless=True,
            max_request_body_size=self._longest_body,
        )
        started = asyncio.Event()
        return _Running(manager, started, asyncio.create_task(_keep(manager, started)))


class _Running(NamedTuple):
    manager: StreamableHTTPSessionManager
    started: asyncio.Event
    keeper: "asyncio.Task[None]"


async def _keep(manager: StreamableHTTPSessionManager, started: asyncio.Event) -> None:
    """Hold the manager open until cancelled: the task that opens it must be the one to close it."""
    try:
        async with manager.run():
            started.set()
            await asyncio.Event().wait()
    finally:
        started.set()  # whoever waits must learn that it could not be opened


def _server(calls: ToolCalls, base_url: str) -> Server[Any]:
    listed = ListToolsResult(tools=[Tool.model_validate(each.entry) for each in TOOLS])

    async def list_tools(context: Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        return listed.model_copy(update={"meta": _said_by(context)})

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        tool = BY_NAME.get(params.name)
        if tool is None:
            known = ", ".join(BY_NAME)
            raise MCPError(INVALID_PARAMS, f"no such tool; there are {known}")
        assert context.request is not None  # it came over HTTP
        outcome = await calls.call(tool, params.arguments or {}, context.request.scope)
        return CallToolResult(
            content=[TextContent(text=text) for text in outcome.texts],
            structured_content=outcome.body,
            is_error=outcome.body is None,
            meta=_said_by(context),
        )

    return Server(
        NAME,
        version=__version__,
        title=TITLE,
        description=DESCRIPTION,
        instructions=INSTRUCTIONS,
        website_url=base_url + "/",
        icons=[Icon.model_validate(each) for each in icons(base_url)],
        cache_hints={"tools/list": _UNCHANGED, "server/discover": _UNCHANGED},
        # Without it the list of tools would be made anew for each call.
        get_tool_input_schema=_input_schema,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _said_by(context: Context) -> dict[str, Any] | None:
    """Who answers: wanted in each answer by the revisions without a handshake."""
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return None
    return {SERVER_INFO_META_KEY: {"name": NAME, "version": __version__}}


def _input_schema(name: str) -> Mapping[str, Any] | None:
    tool = BY_NAME.get(name)
    return None if tool is None else tool.input_schema
