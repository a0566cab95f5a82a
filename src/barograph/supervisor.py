"""Run several processes as one service: start them in order, restart them, stop them together."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from barograph.errors import EXIT_CONFIGURATION, ConfigurationError
from barograph.settings import is_setting

log = logging.getLogger(__name__)

STOP_SECONDS = 5.0
"""How long a child may take to stop before it is killed."""

RESTART_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)
STEADY_SECONDS = 30.0
"""After this long, a child's earlier failures don't delay its restart any more."""


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
        self._held: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._misconfigured: str | None = None

    async def start(self, child: Child, *, is_held: bool = False) -> None:
        """Start a child, and restart it whenever it ends.

        A held child loads its program and then waits until it is released.
        """
        self._stop_seconds[child.name] = child.stop_seconds
        if is_held:
            self._held.add(child.name)
        await self._spawn(child)
        self._tasks.append(asyncio.create_task(self._keep(child)))

    def release(self, name: str) -> None:
        """Let a held child begin."""
        self._held.discard(name)
        _close_stdin(self._processes[name])

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
        pipes = asyncio.subprocess
        inherited = {name: text for name, text in os.environ.items() if not is_setting(name)}
        self._processes[child.name] = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "barograph",
            *child.arguments,
            f"--child={os.getpid()}",
            env={**inherited, **child.environment},
            stdin=pipes.PIPE if child.name in self._held else pipes.DEVNULL,
            # A session of its own: Ctrl-C reaches only the supervisor, which stops in order.
            start_new_session=True,
        )
        if child.name not in self._held:  # it may have been released meanwhile
            _close_stdin(self._processes[child.name])


def _close_stdin(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()


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
