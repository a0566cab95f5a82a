"""`barograph serve`, `collect` and `db`, and the supervisor that runs several of them as one."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from barograph.cli.common import (
    child_option,
    data_option,
    make_folder,
    prepare_history,
    read_settings,
    upgrade_database,
    upgrade_history,
    warn_if_world_writable,
)
from barograph.errors import ConfigurationError

if TYPE_CHECKING:
    from barograph.settings import Settings

log = logging.getLogger(__name__)

STOP_SECONDS = 5.0
"""How long a child may take to stop before it is killed."""

RESTART_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)
STEADY_SECONDS = 30.0
"""After this long, a child's earlier failures don't delay its restart any more."""

EXIT_CONFIGURATION = 3
"""The exit code of a child that a restart would not help."""


@click.command()
@data_option
@click.option("--host", help="Address to bind (BAROGRAPH_HOST).")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to bind (BAROGRAPH_PORT).")
@click.option("--workers", type=click.IntRange(1, 64), help="Web workers (BAROGRAPH_WORKERS).")
@click.option("--base-url", help="Public address, for links (BAROGRAPH_BASE_URL).")
@click.option("--collect", is_flag=True, help="Run the collector beside the web workers.")
@child_option
def serve(collect: bool, child: int | None, **options: Path | str | int | None) -> None:
    """Serve the API until stopped.

    \b
    Examples:
      barograph serve --workers 2
      barograph serve --collect --port 8080
    """
    from barograph.kit.logs import configure_logs
    from barograph.kit.operating_system import die_with_parent, require_free_port
    from barograph.web.app import check_configuration

    settings = read_settings(**options)
    configure_logs(settings.log_level)
    make_folder(settings.data)
    if child is None:
        warn_if_world_writable(settings.data)
    check_configuration(settings)
    prepare_history(settings)
    if collect:
        require_free_port(settings.host, settings.port)
        upgrade_database(settings)
        asyncio.run(_serve_and_collect(settings))
        return
    if child is None:
        click.echo(f"serving on {settings.base_url}")
    else:
        die_with_parent(child)
    upgrade_database(settings)
    from barograph.web.server import serve as run_server

    os.environ.update(settings.to_environment())  # the workers read it after the fork
    run_server(settings)


async def _serve_and_collect(settings: "Settings") -> None:
    async def ready() -> None:
        click.echo(f"serving on {settings.base_url}")

    supervisor = Supervisor()
    environment = settings.to_environment()
    try:
        await supervisor.start(Child("collector", ["collect"], environment))
        await supervisor.start(Child("web", ["serve"], environment, settings.stop_seconds + 2))
        await supervisor.until_stopped(ready)
    finally:
        await supervisor.stop()


@click.command()
@data_option
@child_option
def collect(data: Path | None, child: int | None) -> None:
    """Collect from the exchange until stopped; a second collector waits to take over.

    \b
    Example:
      BAROGRAPH_EXCHANGE_REST_URL=https://api.bybit.eu barograph collect
    """
    from barograph.kit.logs import configure_logs
    from barograph.kit.operating_system import die_with_parent

    if child is not None:
        die_with_parent(child)
    settings = read_settings(data=data)
    configure_logs(settings.log_level)
    if child is None:
        warn_if_world_writable(settings.data)
    prepare_history(settings)
    upgrade_database(settings)
    asyncio.run(_collect(settings))


async def _collect(settings: "Settings") -> None:
    from barograph.collector.app import open_collector
    from barograph.kit.clock import system_clock

    async with open_collector(settings, system_clock) as collector:
        running = asyncio.create_task(collector.run())
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, running.cancel)
        await asyncio.wait([running])
        if not running.cancelled():
            running.result()


@click.group()
def db() -> None:
    """Manage the databases."""


@db.command()
@data_option
def upgrade(data: Path | None) -> None:
    """Bring the schema up to date; you can run this at any time, even several times at once.

    \b
    Example:
      barograph db upgrade --data /var/lib/barograph
    """
    settings = read_settings(data=data)
    applied = upgrade_database(settings)
    upgrade_history(settings)
    for name in applied:
        click.echo(f"applied {name}")
    click.echo("the schema is up to date")


class Child(NamedTuple):
    """A barograph command to run as a child process, with these settings and no others."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    stop_seconds: float = STOP_SECONDS


class Supervisor:
    """Starts children in order, restarts what dies, and stops them together."""

    def __init__(self) -> None:
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._stop_seconds: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._misconfigured: str | None = None

    async def start(self, child: Child) -> None:
        """Start a child, and restart it whenever it ends."""
        self._stop_seconds[child.name] = child.stop_seconds
        await self._spawn(child)
        self._tasks.append(asyncio.create_task(self._keep(child)))

    async def until_stopped(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Call `ready`, then wait for Ctrl-C or SIGTERM; either ends it before it is ready, too.

        Raises:
            ConfigurationError: the configuration of a child is wrong.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopping.set)
        stopping = asyncio.create_task(self._stopping.wait())
        becoming_ready = asyncio.ensure_future(ready())
        await asyncio.wait([stopping, becoming_ready], return_when=asyncio.FIRST_COMPLETED)
        if becoming_ready.done():
            becoming_ready.result()
        becoming_ready.cancel()
        await stopping
        if self._misconfigured is not None:
            raise ConfigurationError(f"{self._misconfigured} cannot start; the reason is above")

    async def stop(self) -> None:
        """Stop every child, the last started first."""
        self._stopping.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        ending = (
            _end(process, self._stop_seconds[name])
            for name, process in reversed(self._processes.items())
        )
        await asyncio.gather(*ending)

    async def _keep(self, child: Child) -> None:
        failures = 0
        while not self._stopping.is_set():
            started = asyncio.get_running_loop().time()
            code = await self._processes[child.name].wait()
            if code == EXIT_CONFIGURATION:
                self._misconfigured = child.name
                self._stopping.set()
                return
            if asyncio.get_running_loop().time() - started > STEADY_SECONDS:
                failures = 0
            pause = RESTART_SECONDS[min(failures, len(RESTART_SECONDS) - 1)]
            failures += 1
            log.warning("child ended", extra={"child": child.name, "code": code, "pause": pause})
            await asyncio.sleep(pause)
            with contextlib.suppress(OSError):  # out of memory or processes: retry later
                await self._spawn(child)

    async def _spawn(self, child: Child) -> None:
        from barograph.settings import is_setting

        inherited = {name: text for name, text in os.environ.items() if not is_setting(name)}
        self._processes[child.name] = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "barograph",
            *child.arguments,
            f"--child={os.getpid()}",
            env={**inherited, **child.environment},
            stdin=asyncio.subprocess.DEVNULL,
            # A session of its own: Ctrl-C reaches only the supervisor, which stops in order.
            start_new_session=True,
        )


async def _end(process: asyncio.subprocess.Process, seconds: float) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    try:
        await asyncio.wait_for(process.wait(), seconds)
    except TimeoutError:
        log.warning("child did not stop and is killed", extra={"child": process.pid})
    # This also kills what the child left behind in its session.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
