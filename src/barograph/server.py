"""The web server: the only file that configures Granian.

Its defaults have traps; each line below that avoids one has a test in `tests/e2e/`.
"""

import os
from multiprocessing import parent_process

from granian.constants import HTTPModes, Interfaces, Loops
from granian.log import LogLevels
from granian.server import Server

from barograph.app import create_app
from barograph.kit.database import SQLiteDatabase
from barograph.kit.http import ASGIApp
from barograph.kit.logs import configure_logs
from barograph.kit.process import die_with_parent, require_free_port
from barograph.settings import Settings

BUSY_MS = 50
"""A web worker waits this long for the database at most when it reads, and everybody with it."""

WRITE_BUSY_MS = 2_000
"""Writing waits on a thread of its own, behind the collector's larger transactions."""


def serve(settings: Settings) -> None:
    """Run the web workers until told to stop.

    Raises:
        ConfigurationError: the port is taken.
    """
    require_free_port(settings.host, settings.port)
    Server(
        "barograph.server:web_app",
        factory=True,
        address=settings.host,
        port=settings.port,
        workers=settings.workers,
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,
        http=HTTPModes.http1,
        websockets=False,
        log_level=LogLevels.warning,
        # One worker that dies must not end the service.
        respawn_failed_workers=True,
        respawn_interval=0.5,
        # A worker that does not stop, because it just started or holds open streams, is ended.
        workers_kill_timeout=settings.stop_seconds,
        # Counts connections, not requests: the default lets idle ones block everybody.
        backpressure=20_000,
        backlog=4_096,
    ).serve()


def web_app() -> ASGIApp:
    """Make the application inside a worker; nothing that it opens is shared with another."""
    server = parent_process()
    die_with_parent(None if server is None else server.pid)
    settings = Settings.from_environment(os.environ)
    configure_logs(settings.log_level)
    database = SQLiteDatabase(
        settings.database_path, busy_ms=BUSY_MS, write_busy_ms=WRITE_BUSY_MS, create=False
    )
    history = SQLiteDatabase(settings.history_path, busy_ms=BUSY_MS, create=False)
    return create_app(settings, database, history).app
