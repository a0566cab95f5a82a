"""Tool calls, compared with the SDK's own server and a trivial tool.

The peer returns a prepared result: it has no limit and no market and reads no arguments. Both
return the same result, in both eras of the protocol. The service has a rate limit that the
benchmark does not reach.
"""

import http.client
import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

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
from benchmarks.peers import FILE_VARIABLE, running_peer
from benchmarks.unlimited import unlimited_service

TITLE = "Tool calls: requests per CPU-second, against a trivial tool on the SDK's own server"
SDK_SHARE = 0.9
PATH = "/api/mcp"
TOOL = BY_NAME[MARKET_STATE]

Context = ServerRequestContext[Any, Any]


class Era(NamedTuple):
    """How a call is made: its additional header fields and parameters."""

    revision: str
    fields: Mapping[str, str]
    parameters: Mapping[str, Any]

    @property
    def message(self) -> bytes:
        """The request body."""
        parameters = {"name": TOOL.name, "arguments": {}, **self.parameters}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters}
        return msgspec.json.encode(call)

    @property
    def headers(self) -> dict[str, str]:
        """All header fields."""
        version = {"MCP-Protocol-Version": self.revision, "Content-Type": "application/json"}
        return {**version, **self.fields}


ERAS = (
    Era(
        "2026-07-28",
        {"Mcp-Method": "tools/call", "Mcp-Name": TOOL.name},
        {
            "_meta": {
                types.PROTOCOL_VERSION_META_KEY: "2026-07-28",
                types.CLIENT_CAPABILITIES_META_KEY: {},
                types.CLIENT_INFO_META_KEY: {"name": "barograph-benchmark", "version": "1"},
            }
        },
    ),
    Era("2025-11-25", {}, {}),
)


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """One tool in both eras."""
    settings = benchmark_settings(folder)
    publish_market(settings)
    file = folder / "result.json"
    figures: list[bench.Figure] = []
    with unlimited_service(settings, lambda: _call(settings.port, ERAS[0])) as child:
        file.write_bytes(msgspec.json.encode(_result(settings.port, ERAS[0])))
        with _peer(file) as first, _peer(file) as twin:
            peers = {"sdk": first, "service": (child, settings.port), "twin": twin}
            for era in ERAS:
                figures += _compare(peers, era, folder / f"{era.revision}.lua", plan.rounds)
    return bench.Section(TITLE, figures)


def _compare(
    peers: Mapping[str, tuple[bench.Child, int]], era: Era, script: Path, rounds: int
) -> list[bench.Figure]:
    print(f"tool calls: {era.revision}", file=sys.stderr)
    script.write_text(_script(era))
    contenders = {
        name: Contender(child, port, script=script) for name, (child, port) in peers.items()
    }
    _check_same(contenders, era)
    rates = alternate(contenders, PATH, rounds)
    _check_same(contenders, era)
    name = f"{TOOL.name}, {era.revision} / trivial tool"
    return bench.between(rates, name, "trivial tool", SDK_SHARE)


def _script(era: Era) -> str:
    """The wrk script that makes this call."""
    headers = [
        f"wrk.headers[{_quoted(name)}] = {_quoted(era.headers[name])}" for name in era.headers
    ]
    call = f'wrk.method = "POST"\nwrk.body = {_quoted(era.message.decode())}'
    return "\n".join([call, *headers, ""])


def _quoted(text: str) -> str:
    """An ASCII string in Lua, which is the same as in JSON."""
    return msgspec.json.encode(text).decode()


def _check_same(contenders: Mapping[str, Contender], era: Era) -> None:
    """Compare only servers that send the same result."""
    expected = _result(contenders["service"].port, era)
    for name, contender in contenders.items():
        if _result(contender.port, era) != expected:
            raise bench.BenchmarkFailed(f"{name} returns a different response to {TOOL.name}")


def _result(port: int, era: Era) -> dict[str, Any]:
    result = _call(port, era)
    if result is None or result.get("isError", False):
        raise bench.BenchmarkFailed(f"{TOOL.name} failed: {result}")
    return result


def _call(port: int, era: Era) -> dict[str, Any] | None:
    """Make one call; None unless it is answered with a result."""
    connection = http.client.HTTPConnection(bench.HOST, port, timeout=5)
    usual = dict(field.split(": ", 1) for field in load.REQUEST_HEADERS)
    try:
        connection.request("POST", PATH, era.message, {**usual, **era.headers})
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    if response.status != http.HTTPStatus.OK:
        return None
    result: dict[str, Any] | None = msgspec.json.decode(body).get("result")
    return result


def _peer(file: Path) -> AbstractContextManager[tuple[bench.Child, int]]:
    return running_peer(
        "benchmarks.mcp:peer",
        lambda port: _call(port, ERAS[0]),
        file.with_suffix(".log"),
        **{FILE_VARIABLE: str(file)},
    )


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
