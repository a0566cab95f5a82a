"""Runs several processes as one: starts them in order, restarts what dies, stops them together."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from barograph.errors import ConfigurationError
from barograph.settings import is_setting

log = logging.getLogger(__name__)

STOP_SECONDS = 5.0
"""How long a child may take to stop before it is ended, unless it says otherwise."""

RESTART_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)
STEADY_SECONDS = 30.0
"""A child that ran this long starts again without the pauses of its earlier failures."""


EXIT_CONFIGURATION = 3
"""A child that ends with this can't work: starting it again would not help."""


class Child(NamedTuple):
    """A barograph command that runs beside this one; its settings are these and no others."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    stop_seconds: float = STOP_SECONDS


class Supervisor:
    """Keeps children running until it is told to stop."""

    def __init__(self) -> None:
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._patience: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._misconfigured: str | None = None

    async def start(self, child: Child) -> None:
        """Start a child and keep it running."""
        self._patience[child.name] = child.stop_seconds
        await self._spawn(child)
        self._tasks.append(asyncio.create_task(self._keep(child)))

    async def until_stopped(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Call `ready`, then wait for Ctrl-C or SIGTERM, also while it is not ready yet.

        Raises:
            ConfigurationError: a child can't work as it is configured.
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
            raise ConfigurationError(f"{self._misconfigured} cannot start; its reason is above")

    async def stop(self) -> None:
        """Stop every child, the last started first, and leave none behind."""
        self._stopping.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        ending = (
            _end(process, self._patience[name])
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
            with contextlib.suppress(OSError):  # no memory or process to be had: tried again
                await self._spawn(child)

    async def _spawn(self, child: Child) -> None:
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
        log.warning("child did not stop and is ended", extra={"child": process.pid})
    # Also what the child left behind in its session.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
