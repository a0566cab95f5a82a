"""The official SDK's server: the only file that imports it, and it is imported late.

That takes most of a second and tens of megabytes, which nobody pays who never asks for `/api/mcp`.
Stateless, so that any worker may answer any request: of the revisions with a handshake and of those
without one alike.
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
from barograph.discovery.mcp_description import PROTOCOLS
from barograph.kit.http import Receive, Scope, Send
from barograph.kit.timestamps import HOUR
from barograph.limits.rate_limits import TOOL_CALLS
from barograph.mcp.calls import Outcome, ToolCalls
from barograph.mcp.card import DESCRIPTION, NAME, TITLE, icons
from barograph.mcp.tools import BY_NAME, tool_list

Context = ServerRequestContext[Any, Any]

INSTRUCTIONS = (
    "Crypto market data that is measured and recorded by this service. Begin with "
    "get_market_state. Null is not known, zero is data. All tools together take "
    f"{TOOL_CALLS.requests} calls a minute from one address. {NOTICE}"
)
_UNCHANGED = CacheHint(ttl_ms=HOUR, scope="public")
_CALL = "tools/call"
_NO_PAGES = "unknown cursor: all tools are on one page, so send none"
_LONGEST_NAME = 100
"""How many characters of a parameter's name an error repeats."""


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
    entries = [Tool.model_validate(each) for each in tool_list(base_url)]
    listed = ListToolsResult(tools=entries)

    async def list_tools(
        context: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, _NO_PAGES)
        return listed.model_copy(update={"meta": _said_by(context.protocol_version)})

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
        icons=[Icon.model_validate(each) for each in icons(base_url)],
        cache_hints={"tools/list": _UNCHANGED, "server/discover": _UNCHANGED},
        # Without it the list of tools would be made anew for each call.
        get_tool_input_schema=_input_schema,
        on_list_tools=list_tools,
        on_call_tool=_no_such_tool,
    )
    server.add_request_handler("server/discover", RequestParams, discover)
    # In the place of the SDK's spans, of which nobody here makes use.
    server.middleware[:] = [_naming, _offered, _answering(calls)]
    return server


async def _naming(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Name the invalid parameter, which the SDK leaves out."""
    try:
        return await call_next(ctx)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"] if part != "params")[:_LONGEST_NAME]
        fault = "is missing" if first["type"] == "missing" else "is not valid"
        told = f"Invalid request parameters: {name or 'params'} {fault}"
        raise MCPError(INVALID_PARAMS, told) from error


async def _offered(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Limit a handshake to the revisions that we offer; the SDK supports one more."""
    if ctx.method == "initialize" and ctx.params is not None:
        asked = ctx.params.get("protocolVersion")
        if isinstance(asked, str) and asked not in PROTOCOLS:
            settled = {**ctx.params, "protocolVersion": LATEST_HANDSHAKE_VERSION}
            return await call_next(replace(ctx, params=settled))
    return await call_next(ctx)


def _answering(calls: ToolCalls) -> ServerMiddleware[Any]:
    """Answer calls of tools in the form of the wire.

    By way of the SDK's models a result would be checked, copied and taken apart several times,
    which costs more than all the rest of a call.
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


def call_result(outcome: Outcome, revision: str) -> dict[str, Any]:
    """What a call came to, as it is written in a revision of the protocol."""
    result: dict[str, Any] = {
        "content": [{"type": "text", "text": text} for text in outcome.texts],
        "isError": outcome.body is None,
    }
    if outcome.body is not None:
        result["structuredContent"] = outcome.body
    if revision in MODERN_PROTOCOL_VERSIONS:
        result |= {"resultType": "complete", "_meta": _said_by(revision)}
    return result


async def _no_such_tool(_: Context, __: CallToolRequestParams) -> CallToolResult:
    """Calls of the tools that there are do not come this far."""
    raise MCPError(INVALID_PARAMS, f"no such tool; there are {', '.join(BY_NAME)}")


def _said_by(revision: str) -> dict[str, Any] | None:
    """Who answers: wanted in each answer by the revisions without a handshake."""
    if revision not in MODERN_PROTOCOL_VERSIONS:
        return None
    return {SERVER_INFO_META_KEY: {"name": NAME, "version": __version__}}


def _input_schema(name: str) -> Mapping[str, Any] | None:
    tool = BY_NAME.get(name)
    return None if tool is None else tool.input_schema
