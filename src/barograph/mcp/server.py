"""The official SDK's server, the only module that imports the SDK.

It is imported on the first request, because that takes most of a second and tens of megabytes.
The server is stateless, so any worker can answer any request, with or without a handshake.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from mcp.server import CacheHint, Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    SERVER_INFO_META_KEY,
    CallToolRequestParams,
    CallToolResult,
    DiscoverResult,
    Icon,
    ListToolsResult,
    PaginatedRequestParams,
    RequestParams,
    Tool,
)
from mcp.types.methods import validate_client_request
from mcp.types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from barograph import NOTICE, __version__
from barograph.discovery.mcp_description import DESCRIPTION, NAME, PROTOCOLS, TITLE, icons
from barograph.kit.http import Receive, Scope, Send
from barograph.kit.timestamps import HOUR
from barograph.limits.rate_limits import TOOL_CALLS
from barograph.mcp.calls import CallOutcome, ToolCalls
from barograph.mcp.tools import BY_NAME, TOOLS

Context = ServerRequestContext[Any, Any]

INSTRUCTIONS = (
    "Crypto market data that this service measures and records. Start with get_market_state. Null "
    "means unknown; zero is a value. fundingRatePct is in percent per 8 hours, "
    f"statedFundingRatePct per fundingIntervalHours. Limit: {TOOL_CALLS.requests} calls per "
    f"minute and address, all tools together. {NOTICE}"
)
_UNCHANGED = CacheHint(ttl_ms=HOUR, scope="public")
_CALL = "tools/call"
_NO_PAGES = "unknown cursor: all tools are on one page, so send no cursor"
_MAX_NAME = 100
"""Characters of a parameter's name in an error message."""


class Transport:
    """Serves HTTP requests of every supported revision."""

    def __init__(self, calls: ToolCalls, base_url: str, max_body_bytes: int) -> None:
        logging.getLogger("mcp").setLevel(logging.WARNING)  # it logs every request
        self._server = _server(calls, base_url)
        self._max_body_bytes = max_body_bytes
        self._running: _Running | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one POST."""
        running = self._running
        if running is None or running.task.done():
            running = self._running = self._start()
        await running.started.wait()
        await running.manager.handle_request(scope, receive, send)

    async def close(self) -> None:
        """Close the session manager."""
        if self._running is not None:
            self._running.task.cancel()
            await asyncio.wait([self._running.task])

    def _start(self) -> "_Running":
        manager = StreamableHTTPSessionManager(
            self._server,
            json_response=True,
            stateless=True,
            max_request_body_size=self._max_body_bytes,
        )
        started = asyncio.Event()
        return _Running(manager, started, asyncio.create_task(_run(manager, started)))


class _Running(NamedTuple):
    manager: StreamableHTTPSessionManager
    started: asyncio.Event
    task: "asyncio.Task[None]"


async def _run(manager: StreamableHTTPSessionManager, started: asyncio.Event) -> None:
    """Keep the manager open until cancelled: the task that opens it must also close it."""
    try:
        async with manager.run():
            started.set()
            await asyncio.Event().wait()
    finally:
        started.set()  # also on failure, so that waiting requests get an error


def _server(calls: ToolCalls, base_url: str) -> Server[Any]:
    listed = ListToolsResult(tools=[Tool.model_validate(tool.entry()) for tool in TOOLS])

    async def list_tools(
        context: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, _NO_PAGES)
        return listed.model_copy(update={"meta": _server_info(context.protocol_version)})

    async def discover(context: Context, _: RequestParams | None) -> DiscoverResult:
        return DiscoverResult(
            supported_versions=list(PROTOCOLS),
            capabilities=server.get_capabilities(protocol_version=context.protocol_version),
            instructions=server.instructions,
        )

    server: Server[Any] = Server(
        NAME,
        version=__version__,
        title=TITLE,
        description=DESCRIPTION,
        instructions=INSTRUCTIONS,
        website_url=base_url + "/",
        icons=[Icon.model_validate(icon) for icon in icons(base_url)],
        cache_hints={"tools/list": _UNCHANGED, "server/discover": _UNCHANGED},
        # Without this, the SDK would build the list of tools for each call.
        get_tool_input_schema=_input_schema,
        on_list_tools=list_tools,
        on_call_tool=_no_such_tool,
    )
    server.add_request_handler("server/discover", RequestParams, discover)
    # These replace the SDK's tracing, which we don't use.
    server.middleware[:] = [_name_parameter, _limit_revisions, _answering(calls)]
    return server


async def _name_parameter(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Name the invalid parameter, which the SDK leaves out."""
    try:
        return await call_next(ctx)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"] if part != "params")[:_MAX_NAME]
        fault = "is missing" if first["type"] == "missing" else "is not valid"
        reason = f"Invalid request parameters: {name or 'params'} {fault}"
        raise MCPError(INVALID_PARAMS, reason) from error


async def _limit_revisions(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Limit a handshake to our revisions; the SDK supports one more."""
    if ctx.method == "initialize" and ctx.params is not None:
        asked = ctx.params.get("protocolVersion")
        if isinstance(asked, str) and asked not in PROTOCOLS:
            params = {**ctx.params, "protocolVersion": LATEST_HANDSHAKE_VERSION}
            return await call_next(replace(ctx, params=params))
    return await call_next(ctx)


def _answering(calls: ToolCalls) -> ServerMiddleware[Any]:
    """Answer tool calls without the SDK's models.

    Through them a result is validated and copied several times, which costs more than the rest of
    the call.
    """

    async def answer(ctx: Context, call_next: CallNext) -> HandlerResult:
        params = ctx.params
        name = params.get("name") if params is not None else None
        tool = BY_NAME.get(name) if isinstance(name, str) else None
        if params is None or tool is None or ctx.method != _CALL:
            return await call_next(ctx)
        validate_client_request(_CALL, ctx.protocol_version, params)
        assert ctx.request is not None  # it came over HTTP
        outcome = await calls.call(tool, params.get("arguments") or {}, ctx.request.scope)
        return call_result(outcome, ctx.protocol_version)

    return answer


def call_result(outcome: CallOutcome, revision: str) -> dict[str, Any]:
    """The result of a call in the format of a revision."""
    result: dict[str, Any] = {
        "content": [{"type": "text", "text": text} for text in outcome.texts],
        "isError": outcome.body is None,
    }
    if outcome.body is not None:
        result["structuredContent"] = outcome.body
    if revision in MODERN_PROTOCOL_VERSIONS:
        result |= {"resultType": "complete", "_meta": _server_info(revision)}
    return result


async def _no_such_tool(_: Context, __: CallToolRequestParams) -> CallToolResult:
    """`_answering` handles the tools that exist."""
    raise MCPError(INVALID_PARAMS, f"unknown tool; the tools are {', '.join(BY_NAME)}")


def _server_info(revision: str) -> dict[str, Any] | None:
    """The server's name and version, which revisions without a handshake require."""
    if revision not in MODERN_PROTOCOL_VERSIONS:
        return None
    return {SERVER_INFO_META_KEY: {"name": NAME, "version": __version__}}


def _input_schema(name: str) -> Mapping[str, Any] | None:
    tool = BY_NAME.get(name)
    return None if tool is None else tool.input_schema
