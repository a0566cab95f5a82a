"""Tool calls: the service beside the SDK's own server with a trivial tool.

The peer is what the SDK makes of a tool that returns a result which was prepared before: no limit,
no market, no reading of arguments. Both answer the same call with the same result, in both eras of
the protocol. The service has an ample allowance; every call is counted all the same.

Run as `python -m benchmarks.mcp service` with the service's settings in the environment, or as
`python -m benchmarks.mcp peer PORT FILE`; the file holds the result that the tool returns.
"""

import http.client
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import mcp_types as types
import msgspec
from granian.server import Server
from mcp.server import Server as ToolServer
from mcp.server import ServerRequestContext

import barograph.mcp.calls
import barograph.mcp.endpoints
import barograph.web.server
from barograph.kit.http import ASGIApp
from barograph.kit.operating_system import die_with_parent
from barograph.kit.timestamps import HOUR
from barograph.limits.rate_limits import RateLimit
from barograph.mcp.tools import BY_NAME, MARKET_STATE
from barograph.settings import Settings
from benchmarks.hot_reads import Contender, alternate, ratios
from benchmarks.load import REQUEST_HEADERS
from benchmarks.market import benchmark_settings, publish_market
from benchmarks.peers import FILE_VARIABLE, serve_peer
from benchmarks.plan import Plan
from benchmarks.processes import HOST, BenchmarkFailed, Child, running, until, unused_port
from benchmarks.table import Figure, Section, at_least

TITLE = "Tool calls: requests per CPU-second, against a trivial tool on the SDK's own server"
SDK_SHARE = 0.9
PATH = "/api/mcp"
TOOL = BY_NAME[MARKET_STATE]
AMPLE = RateLimit("mcp", 100_000_000, HOUR)
COMMAND = (sys.executable, "-m", "benchmarks.mcp")

Context = ServerRequestContext[Any, Any]


class Era(NamedTuple):
    """How a call is made: its header fields and parameters beside the tool's name."""

    revision: str
    fields: Mapping[str, str]
    parameters: Mapping[str, Any]

    @property
    def message(self) -> bytes:
        """The call as it is sent."""
        parameters = {"name": TOOL.name, "arguments": {}, **self.parameters}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters}
        return msgspec.json.encode(call)

    @property
    def headers(self) -> dict[str, str]:
        """Everything that is sent with it."""
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


def measure(plan: Plan, folder: Path) -> Section:
    """One tool in both eras."""
    settings = benchmark_settings(folder, unused_port())
    publish_market(settings)
    file = folder / "result.json"
    figures: list[Figure] = []
    with _service(settings) as child:
        file.write_bytes(msgspec.json.encode(_result(settings.port, ERAS[0])))
        with _peer(file) as first, _peer(file) as twin:
            peers = {"sdk": first, "service": (child, settings.port), "twin": twin}
            for era in ERAS:
                figures += _compare(peers, era, folder / f"{era.revision}.lua", plan.rounds)
    return Section(TITLE, figures)


def _compare(
    peers: Mapping[str, tuple[Child, int]], era: Era, script: Path, rounds: int
) -> list[Figure]:
    print(f"tool calls: {era.revision}", file=sys.stderr)
    script.write_text(_script(era))
    contenders = {
        name: Contender(child, port, script=script) for name, (child, port) in peers.items()
    }
    _check_same(contenders, era)
    rates = alternate(contenders, PATH, rounds)
    _check_same(contenders, era)
    name = f"{TOOL.name}, {era.revision}"
    return [
        at_least(f"{name} / trivial tool", ratios(rates, "service", "sdk", "twin"), SDK_SHARE),
        at_least("  A/A control: trivial tool / trivial tool", ratios(rates, "twin", "sdk")),
    ]


def _script(era: Era) -> str:
    """What tells wrk to make this call."""
    headers = [
        f"wrk.headers[{_quoted(name)}] = {_quoted(era.headers[name])}" for name in era.headers
    ]
    call = f'wrk.method = "POST"\nwrk.body = {_quoted(era.message.decode())}'
    return "\n".join([call, *headers, ""])


def _quoted(text: str) -> str:
    """A string of ASCII is written in Lua as it is in JSON."""
    return msgspec.json.encode(text).decode()


def _check_same(contenders: Mapping[str, Contender], era: Era) -> None:
    """Let nobody be compared who says something else, or no longer does."""
    expected = _result(contenders["service"].port, era)
    for name, contender in contenders.items():
        if _result(contender.port, era) != expected:
            raise BenchmarkFailed(f"{name} returns a different response to {TOOL.name}")


def _result(port: int, era: Era) -> dict[str, Any]:
    result = _call(port, era)
    if result is None or result.get("isError", False):
        raise BenchmarkFailed(f"{TOOL.name} failed: {result}")
    return result


def _call(port: int, era: Era) -> dict[str, Any] | None:
    """Make one call; None unless it is answered with a result."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    usual = dict(field.split(": ", 1) for field in REQUEST_HEADERS)
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


@contextmanager
def _service(settings: Settings) -> Iterator[Child]:
    environment = settings.to_environment()
    command, log = (*COMMAND, "service"), settings.data / "web.log"
    with running(command, log=log, environment=environment) as child:
        until(lambda: _call(settings.port, ERAS[0]), child)
        yield child


@contextmanager
def _peer(file: Path) -> Iterator[tuple[Child, int]]:
    port = unused_port()
    command = (*COMMAND, "peer", str(port), str(file))
    with running(command, log=file.with_suffix(".log")) as child:
        until(lambda: _call(port, ERAS[0]), child)
        yield child, port


def ample_web_app() -> ASGIApp:
    """The product's own application, with the ample allowance in this process."""
    patch.object(barograph.mcp.calls, "TOOL_CALLS", AMPLE).start()
    patch.object(barograph.mcp.endpoints, "MCP_POSTS", AMPLE).start()
    return barograph.web.server.web_app()


def peer() -> ASGIApp:
    """A server with one tool, made of the SDK alone."""
    die_with_parent()
    stored = msgspec.json.decode(Path(os.environ[FILE_VARIABLE]).read_bytes())
    said = types.Implementation.model_validate(stored.pop("_meta")[types.SERVER_INFO_META_KEY])
    result = types.CallToolResult.model_validate(stored)
    tool = types.Tool(name=TOOL.name, input_schema=TOOL.input_schema)

    async def list_tools(
        _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool])

    async def call_tool(_: Context, __: types.CallToolRequestParams) -> types.CallToolResult:
        return result

    server = ToolServer(
        said.name,
        version=said.version,
        title=said.title,
        description=said.description,
        website_url=said.website_url,
        icons=said.icons,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=lambda _: tool.input_schema,
    )
    return server.streamable_http_app(
        streamable_http_path=PATH, json_response=True, stateless_http=True
    )


def _serve() -> None:
    die_with_parent()
    target = "benchmarks.mcp:ample_web_app"
    with patch.object(
        barograph.web.server, "Server", lambda _, **options: Server(target, **options)
    ):
        barograph.web.server.run_server(Settings.from_environment(os.environ))


def _run(part: str, *rest: str) -> None:
    if part == "service":
        _serve()
    else:
        os.environ[FILE_VARIABLE] = rest[1]
        serve_peer("benchmarks.mcp:peer", int(rest[0]))


if __name__ == "__main__":
    _run(*sys.argv[1:])
