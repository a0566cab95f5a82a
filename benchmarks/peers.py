"""Three other servers that send the same response, for comparison.

Run as `python -m benchmarks.peers MODULE:APPLICATION PORT`.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import msgspec
from fastapi import FastAPI, Query, Response
from granian.server import Server

import barograph.web.server
from barograph.kit.http import ASGIApp, Receive, Scope, Send
from barograph.kit.operating_system import die_with_parent
from barograph.kit.wire import WireModel
from barograph.markets.documents import (
    DERIVATIVES_PATH,
    MARKET_PATH,
    MARKET_STATE_PATH,
    Market,
    MarketState,
    PerpetualRecord,
)
from barograph.markets.symbols import DEFAULT_SYMBOL, PATTERN
from barograph.settings import Settings
from benchmarks import bench

FILE_VARIABLE = "BENCHMARK_ANSWER"
MODELS: Mapping[str, type[WireModel]] = {
    DERIVATIVES_PATH: PerpetualRecord,
    MARKET_PATH: Market,
    MARKET_STATE_PATH: MarketState,
}
# The server adds these two to every answer by itself.
OF_THE_SERVER = ("server", "date")
# And FastAPI these.
OF_THE_FRAMEWORK = ("content-type", "content-length")


class Stored(msgspec.Struct, frozen=True):
    """A response that a peer sends."""

    path: str
    headers: list[tuple[str, str]]
    body: bytes


def store(file: Path, target: str, answer: bench.Answer) -> None:
    """Store a response for a peer."""
    headers = [field for field in answer.headers if field[0].lower() not in OF_THE_SERVER]
    path = target.partition("?")[0]
    file.write_bytes(msgspec.json.encode(Stored(path, headers, answer.body)))


def bare() -> ASGIApp:
    """The minimum that an ASGI application can do: send prepared bytes."""
    stored = stored_answer()
    headers = [(name.encode(), value.encode()) for name, value in stored.headers]
    start = {"type": "http.response.start", "status": 200, "headers": headers}
    body = {"type": "http.response.body", "body": stored.body, "more_body": False}

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await send(start)
            await send(body)

    return app


def fastapi() -> ASGIApp:
    """The usual way: a route that builds a model and leaves the rest to FastAPI.

    It sends the same headers as the others.
    """
    stored = stored_answer()
    model = MODELS[stored.path]
    facts: dict[str, Any] = msgspec.json.decode(stored.body)
    fields = {name: value for name, value in stored.headers if name not in OF_THE_FRAMEWORK}
    app = FastAPI()
    if stored.path == DERIVATIVES_PATH:
        _add_derivatives(app, {facts["symbol"]: facts}, fields)
        return app

    @app.get(stored.path, response_model=model)
    async def read(response: Response) -> WireModel:
        response.headers.update(fields)
        return model(**facts)

    return app


def _add_derivatives(
    app: FastAPI, facts: Mapping[str, dict[str, Any]], fields: Mapping[str, str]
) -> None:
    """The route with a parameter: it has to read and check `symbol`, as the service does."""

    @app.get(DERIVATIVES_PATH, response_model=PerpetualRecord)
    async def read(
        response: Response, symbol: Annotated[str, Query(pattern=PATTERN)] = DEFAULT_SYMBOL
    ) -> PerpetualRecord:
        response.headers.update(fields)
        return PerpetualRecord(**facts[symbol.upper()])


@contextmanager
def running_peer(
    app: str, look: Callable[[int], object | None], log: Path, **environment: str
) -> Iterator[tuple[bench.Child, int]]:
    """An application on the service's own server configuration; `look` waits until it answers."""
    port = bench.unused_port()
    command = (sys.executable, "-m", "benchmarks.peers", app, str(port))
    with bench.running(command, log=log, environment=environment) as child:
        bench.until(lambda: look(port), child)
        yield child, port


def python_peer(
    kind: str, target: str, file: Path
) -> AbstractContextManager[tuple[bench.Child, int]]:
    """One of the two applications above as a process, answering; its port comes along."""
    return running_peer(
        f"benchmarks.peers:{kind}",
        lambda port: bench.answers(port, target),
        file.with_suffix(f".{kind}.log"),
        **{FILE_VARIABLE: str(file)},
    )


@contextmanager
def nginx_peer(target: str, file: Path) -> Iterator[tuple[bench.Child, int]]:
    """Nginx with one worker that serves a file of the same bytes."""
    stored = _read(file)
    folder = file.with_suffix(".nginx")
    page = folder / "pages" / stored.path.lstrip("/")
    page.parent.mkdir(parents=True)
    page.write_bytes(stored.body)
    port = bench.unused_port()
    configuration = folder / "nginx.conf"
    configuration.write_text(
        _NGINX.format(folder=folder, host=bench.HOST, port=port, user=_nginx_user())
    )
    command = (nginx_program() or "", "-p", str(folder), "-c", str(configuration))
    with bench.running(command, log=folder / "log") as child:
        bench.until(lambda: bench.answers(port, target), child)
        yield child, port


def nginx_program() -> str | None:
    """Where nginx is; Debian keeps it from the search path of ordinary users."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def _nginx_user() -> str:
    """Root's workers would change to a user who cannot read the temporary folder."""
    return "user root;" if os.geteuid() == 0 else ""


_NGINX = """\
{user}
worker_processes 1;
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 100000000;
    open_file_cache max=100;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen {host}:{port};
        root {folder}/pages;
        default_type application/json;
    }}
}}
"""


def _read(file: Path) -> Stored:
    return msgspec.json.decode(file.read_bytes(), type=Stored)


def stored_answer() -> Stored:
    """The answer that this worker gives."""
    die_with_parent()
    return _read(Path(os.environ[FILE_VARIABLE]))


def run_instead(app: str, settings: Settings) -> None:
    """Run the service's server with another application in place of its own."""
    die_with_parent()
    with patch.object(
        barograph.web.server, "WebServer", lambda _, **options: Server(app, **options)
    ):
        barograph.web.server.run_server(settings)


if __name__ == "__main__":
    run_instead(sys.argv[1], Settings(host=bench.HOST, port=int(sys.argv[2]), workers=1))
