"""The web server: the only file that configures Granian.

Its defaults have traps; each line below that avoids one has a test in `tests/e2e/`.
"""

import asyncio
import gc
import logging
import mmap
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing import parent_process
from typing import Any

from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import Server

from barograph.guides.catalog import load_catalog
from barograph.history.signing import load_history_key
from barograph.keys.api_keys import load_pepper
from barograph.kit.clock import system_clock
from barograph.kit.http import ASGIApp
from barograph.kit.logs import FORMATTERS, configure_logs
from barograph.kit.metrics import NO_METRICS, Metrics
from barograph.kit.opening import open_database
from barograph.kit.operating_system import (
    close_stalled_connections,
    die_with_parent,
    raise_file_limit,
    require_free_port,
)
from barograph.settings import Settings
from barograph.upstream.mail import SmtpSender
from barograph.web.app import create_app

log = logging.getLogger(__name__)

READ_MS = 50
"""The longest a read may wait for SQLite: the other requests of the worker may wait with it."""

WRITE_MS = 2_000
"""Writes wait behind the collector's larger transactions; no other request waits with them."""

STATEMENT_MS = 4_000
"""The longest a statement may take on PostgreSQL: callers don't wait much longer."""

MAX_CONNECTIONS = 20_000
"""The most connections per worker, if the limit on open files allows them."""

OWN_FILES = 256
"""Open files that a worker reserves for databases and upstream connections; half of a low limit."""

SWITCH_SECONDS = 0.0005
"""How long a thread that encodes a list may keep the event loop waiting; Python's default is ten
times as long."""

WORKER_MEMORY_MB = 1024
"""The server replaces a worker that exceeds this; an idle one uses about 100 MB."""

MEMORY_SAMPLE_SECONDS = 2

BUFFER_BYTES = 64 * 1024
"""How much of a request, or of a response that the client doesn't read, a connection buffers."""

STALLED_SECONDS = 20
"""How long a client may leave its response unread, as nginx allows."""

STOPPING = mmap.mmap(-1, 1)
"""One byte that the server shares with its workers: 1 once it was told to stop."""


def check_configuration(settings: Settings) -> None:
    """Check what the workers will need, before they start.

    Raises:
        ConfigurationError: the guide catalog, a secret or the mail server can't be used.
    """
    load_catalog(settings.guides_file)
    load_pepper(settings)
    load_history_key(settings)
    if settings.sends_mail:
        SmtpSender(settings, clock=system_clock)


def run_server(settings: Settings, worker_memory_mb: int = WORKER_MEMORY_MB) -> None:
    """Run the web workers until stopped; raises `ConfigurationError` if the port is in use."""
    require_free_port(settings.host, settings.port)
    if settings.database_url.get_secret_value() and not settings.limits_url.get_secret_value():
        advice = "set BAROGRAPH_LIMITS_URL if there are several web hosts"
        log.warning("rate limits are counted per host", extra={"advice": advice})
    files = raise_file_limit()  # the workers inherit it
    WebServer(
        "barograph.web.server:web_app",
        factory=True,
        address=settings.host,
        port=settings.port,
        workers=settings.workers,
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,
        http=HTTPModes.http1,
        websockets=False,
        http1_settings=HTTP1Settings(max_buffer_size=BUFFER_BYTES),
        log_level=LogLevels.info,
        log_dictconfig=_granian_logs(settings.log_format),
        # A worker that dies must not end the service.
        respawn_failed_workers=True,
        respawn_interval=0.5,
        # Kills a worker that does not stop, because it just started or has open streams.
        workers_kill_timeout=settings.stop_seconds,
        # Clients that don't read their responses could otherwise use up the machine's memory.
        workers_max_rss=worker_memory_mb,
        rss_sample_interval=MEMORY_SAMPLE_SECONDS,
        # Counts connections, not requests: with the default, idle ones would block the rest.
        # The limit on open files caps it; more connections wait in the backlog.
        backpressure=min(MAX_CONNECTIONS, files - min(OWN_FILES, files // 2)),
        backlog=4_096,
    ).serve()


class WebServer(Server):  # type: ignore[misc, valid-type]
    """Tells the workers when the whole service stops, and not only one of them."""

    def signal_handler_interrupt(self, *args: object, **options: object) -> None:
        """Set the shared byte before the workers are told to stop."""
        STOPPING[0] = 1
        super().signal_handler_interrupt(*args, **options)


def prepare_worker(end_streams: Callable[[], None]) -> None:
    """End the streams of this worker when it is told to stop, and close stalled connections.

    Granian waits for open streams without telling them. Its own signal handler still runs: every
    signal is also written to the event loop's wake-up pipe, where the loop's handlers read it.
    """
    loop = asyncio.get_running_loop()

    def close_stalled() -> None:
        if not close_stalled_connections(STALLED_SECONDS):
            loop.call_later(0.1, close_stalled)  # Granian listens later

    loop.call_soon(close_stalled)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(end_streams))


class WorthLogging(logging.Filter):
    """Keeps Granian's warnings, and the reason why a worker was replaced."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write the record."""
        return record.levelno >= logging.WARNING or "RSS over threshold" in record.getMessage()


_STDERR = {
    "class": "logging.StreamHandler",
    "stream": "ext://sys.stderr",
    "formatter": "generic",
    "filters": ["worth_logging"],
}


def _granian_logs(form: str) -> dict[str, Any]:
    return {
        "formatters": {"generic": {"()": FORMATTERS[form]}},
        "filters": {"worth_logging": {"()": WorthLogging}},
        # On the handlers, because a logger's filter does not see what its children log.
        "handlers": {"console": _STDERR, "access": _STDERR},
    }


def web_app() -> ASGIApp:
    """Create the application inside a worker, which shares nothing with other workers."""
    server = parent_process()
    die_with_parent(None if server is None else server.pid)
    sys.setswitchinterval(SWITCH_SECONDS)
    settings = Settings.from_environment(os.environ)
    configure_logs(settings.log_level, settings.log_format)
    try:
        app = _create_app(settings)
    except Exception:  # Python would print it, in its own format
        log.exception("a web worker can't start")
        sys.exit(1)
    gc.freeze()  # what lives as long as the worker would make every full collection longer
    return app


def _create_app(settings: Settings) -> ASGIApp:
    database, history = (
        open_database(
            address,
            create=False,
            read_ms=READ_MS,
            write_ms=WRITE_MS,
            statement_ms=STATEMENT_MS,
        )
        for address in (settings.database_address, settings.history_address)
    )
    return create_app(
        settings,
        database,
        history,
        is_stopping=lambda: STOPPING[0] == 1,
        at_start=prepare_worker,
        metrics=Metrics() if settings.metrics_port else NO_METRICS,
    ).app
