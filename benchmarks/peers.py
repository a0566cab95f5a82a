"""Other applications on the service's server configuration, and the service without low limits.

Run as `python -m benchmarks.peers MODULE:APPLICATION`, with the settings in the environment.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
from fastapi import FastAPI, Response
from granian.server import Server

import barograph.limits.rate_limits
import barograph.mcp.calls
import barograph.mcp.endpoints
import barograph.web.server
from barograph.kit.http import ASGIApp, Receive, Scope, Send
from barograph.kit.operating_system import die_with_parent
from barograph.markets.documents import MARKET_STATE_PATH, MarketState
from barograph.settings import Settings
from benchmarks import bench

FILE_VARIABLE = "BENCHMARK_ANSWER"
# The server adds these two to every answer by itself.
OF_THE_SERVER = ("server", "date")
# And FastAPI these.
OF_THE_FRAMEWORK = ("content-type", "content-length")
LIMITS = (
    (barograph.limits.rate_limits, "ANONYMOUS"),
    (barograph.limits.rate_limits, "PERSONAL"),
    (barograph.mcp.calls, "TOOL_CALLS"),
    (barograph.mcp.endpoints, "MCP_POSTS"),
)
REQUESTS = 100_000_000


class Stored(msgspec.Struct, frozen=True):
    """A response that a peer sends."""

    headers: list[tuple[str, str]]
    body: bytes


def store(file: Path, answer: bench.Answer) -> None:
    """Store a response for a peer."""
    headers = [field for field in answer.headers if field[0].lower() not in OF_THE_SERVER]
    file.write_bytes(msgspec.json.encode(Stored(headers, answer.body)))


def bare() -> ASGIApp:
    """The minimum that an ASGI application can do: send prepared bytes."""
    stored = _stored()
    headers = [(name.encode(), value.encode()) for name, value in stored.headers]
    start = {"type": "http.response.start", "status": 200, "headers": headers}
    body = {"type": "http.response.body", "body": stored.body, "more_body": False}

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await send(start)
            await send(body)

    return app


def fastapi() -> ASGIApp:
    """The usual way: a route that builds a model and leaves the rest to FastAPI."""
    stored = _stored()
    facts: dict[str, Any] = msgspec.json.decode(stored.body)
    fields = {name: value for name, value in stored.headers if name not in OF_THE_FRAMEWORK}
    app = FastAPI()

    @app.get(MARKET_STATE_PATH, response_model=MarketState)
    async def read(response: Response) -> MarketState:
        response.headers.update(fields)
        return MarketState(**facts)

    return app


def unlimited() -> ASGIApp:
    """The service's own application with high limits in this process."""
    for module, name in LIMITS:
        high = getattr(module, name)._replace(requests=REQUESTS)
        patch.object(module, name, high).start()
    return barograph.web.server.web_app()


@contextmanager
def running_app(
    app: str, settings: Settings, look: Callable[[], object | None], log: Path, **environment: str
) -> Iterator[bench.Child]:
    """Run an application as a process; `look` returns None until it answers."""
    command = (sys.executable, "-m", "benchmarks.peers", app)
    environment = {**settings.to_environment(), **environment}
    with bench.running(command, log=log, environment=environment) as child:
        bench.until(look, child)
        yield child


def unlimited_service(settings: Settings) -> AbstractContextManager[bench.Child]:
    """The service as a process; it still counts every request."""
    ready = partial(bench.answers, settings.port, MARKET_STATE_PATH)
    return running_app("benchmarks.peers:unlimited", settings, ready, settings.data / "web.log")


@contextmanager
def running_peer(
    app: str, look: Callable[[int], object | None], file: Path
) -> Iterator[tuple[bench.Child, int]]:
    """An application that sends what a file holds, and its port."""
    port = bench.unused_port()
    settings = Settings(host=bench.HOST, port=port, data=file.parent)
    stored, log = {FILE_VARIABLE: str(file)}, file.with_suffix(".log")
    with running_app(app, settings, partial(look, port), log, **stored) as child:
        yield child, port


def python_peer(
    kind: str, target: str, file: Path
) -> AbstractContextManager[tuple[bench.Child, int]]:
    """One of the applications above as a process, answering; its port comes along."""
    return running_peer(f"benchmarks.peers:{kind}", lambda port: bench.answers(port, target), file)


def _stored() -> Stored:
    die_with_parent()
    return msgspec.json.decode(Path(os.environ[FILE_VARIABLE]).read_bytes(), type=Stored)


if __name__ == "__main__":
    die_with_parent()
    with patch.object(
        barograph.web.server, "WebServer", lambda _, **options: Server(sys.argv[1], **options)
    ):
        barograph.web.server.run_server(Settings.from_environment(os.environ))
