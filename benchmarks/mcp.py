"""Tool calls, compared with the SDK's own server and a trivial tool.

The peer returns a prepared result: it has no limit and no market and reads no arguments. Both
return the same result. The service has a rate limit that the benchmark does not reach.
"""

import http.client
import json
import os
from collections.abc import Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import mcp_types as types
import msgspec
from mcp.server import Server as ToolServer
from mcp.server import ServerRequestContext

from barograph.kit.http import ASGIApp
from barograph.kit.operating_system import die_with_parent
from barograph.mcp.tools import BY_NAME, MARKET_STATE
from benchmarks import bench, load
from benchmarks.hot_reads import Contender, alternate
from benchmarks.market import benchmark_settings, publish_market
from benchmarks.peers import FILE_VARIABLE, running_peer, unlimited_service

TITLE = "Tool calls: requests per CPU-second, against a trivial tool on the SDK's own server"
SDK_SHARE = 0.9
PATH = "/api/mcp"
TOOL = BY_NAME[MARKET_STATE]

Context = ServerRequestContext[Any, Any]


REVISION = "2026-07-28"
CALL = msgspec.json.encode(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": TOOL.name,
            "arguments": {},
            "_meta": {
                types.PROTOCOL_VERSION_META_KEY: REVISION,
                types.CLIENT_CAPABILITIES_META_KEY: {},
                types.CLIENT_INFO_META_KEY: {"name": "barograph-benchmark", "version": "1"},
            },
        },
    }
)
HEADERS = {
    "MCP-Protocol-Version": REVISION,
    "Content-Type": "application/json",
    "Mcp-Method": "tools/call",
    "Mcp-Name": TOOL.name,
}


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """One tool, without a handshake."""
    settings = benchmark_settings(folder)
    publish_market(settings)
    file, script = folder / "result.json", folder / "call.lua"
    script.write_text(_script())
    with unlimited_service(settings) as child, ExitStack() as stack:
        file.write_bytes(msgspec.json.encode(_result(settings.port)))
        peer, twin = (
            stack.enter_context(running_peer("benchmarks.mcp:peer", _call, file)) for _ in range(2)
        )
        servers = {"sdk": peer, "service": (child, settings.port), "twin": twin}
        contenders = {name: Contender(*each, script=script) for name, each in servers.items()}
        _check_same(contenders)
        rates = alternate(contenders, PATH, plan.rounds)
        _check_same(contenders)
    name = f"{TOOL.name}, {REVISION} / trivial tool"
    return bench.Section(TITLE, bench.between(rates, name, "trivial tool", SDK_SHARE))


def _script() -> str:
    """The wrk script that makes this call. An ASCII string in Lua is the same as in JSON."""
    quoted = partial(json.dumps, ensure_ascii=True)
    headers = [f"wrk.headers[{quoted(name)}] = {quoted(HEADERS[name])}" for name in HEADERS]
    return "\n".join(['wrk.method = "POST"', f"wrk.body = {quoted(CALL.decode())}", *headers, ""])


def _check_same(contenders: Mapping[str, Contender]) -> None:
    """Compare only servers that send the same result."""
    if any(_result(each.port) != _result(contenders["sdk"].port) for each in contenders.values()):
        raise bench.BenchmarkFailed(f"the servers return different responses to {TOOL.name}")


def _result(port: int) -> dict[str, Any]:
    result = _call(port)
    if result is None or result.get("isError", False):
        raise bench.BenchmarkFailed(f"{TOOL.name} failed: {result}")
    return result


def _call(port: int) -> dict[str, Any] | None:
    """Make one call; None unless it is answered with a result."""
    usual = dict(field.split(": ", 1) for field in load.REQUEST_HEADERS)
    try:
        with closing(http.client.HTTPConnection(bench.HOST, port, timeout=5)) as connection:
            connection.request("POST", PATH, CALL, {**usual, **HEADERS})
            response = connection.getresponse()
            body = response.read()
    except (OSError, http.client.HTTPException):
        return None
    if response.status != http.HTTPStatus.OK:
        return None
    result: dict[str, Any] | None = msgspec.json.decode(body).get("result")
    return result


def peer() -> ASGIApp:
    """A server with one tool, by the SDK alone."""
    die_with_parent()
    stored = msgspec.json.decode(Path(os.environ[FILE_VARIABLE]).read_bytes())
    server_info = types.Implementation.model_validate(
        stored.pop("_meta")[types.SERVER_INFO_META_KEY]
    )
    result = types.CallToolResult.model_validate(stored)
    tool = types.Tool(name=TOOL.name, input_schema=TOOL.input_schema)

    async def list_tools(
        _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool])

    async def call_tool(_: Context, __: types.CallToolRequestParams) -> types.CallToolResult:
        return result

    server = ToolServer(
        server_info.name,
        version=server_info.version,
        title=server_info.title,
        description=server_info.description,
        website_url=server_info.website_url,
        icons=server_info.icons,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=lambda _: tool.input_schema,
    )
    return server.streamable_http_app(
        streamable_http_path=PATH, json_response=True, stateless_http=True
    )
