"""Several processes as one: what dies is started again, and nothing is left behind."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from barograph.errors import ConfigurationError
from barograph.supervisor import Child, Supervisor
from support.processes import none_left, unused_port

NOTHING: dict[str, str] = {}


def exchange(data: str) -> Child:
    """A child that needs no other: the simulated exchange."""
    ports = ["--port", str(unused_port()), "--mail-port", str(unused_port())]
    arguments = ["demo", "world", *ports, "--data", data]
    return Child("exchange", arguments, NOTHING)


def children() -> list[psutil.Process]:
    """What this process started, less what has ended and what Python keeps for itself."""
    return [each for each in psutil.Process().children() if _is_ours(each)]


def _is_ours(process: psutil.Process) -> bool:
    try:
        return "barograph" in process.cmdline()
    except psutil.Error:  # it has just ended
        return False


async def until(seen: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not seen():  # noqa: ASYNC110 (processes announce nothing)
            await asyncio.sleep(0.02)


@asynccontextmanager
async def supervising() -> AsyncIterator[Supervisor]:
    supervisor = Supervisor()
    try:
        yield supervisor
    finally:
        family = children()
        await supervisor.stop()
        assert none_left(family)


@pytest.mark.outcome(
    "A process of the service dies", "It is started again. The others keep answering."
)
async def test_a_child_that_dies_is_started_again(tmp_path: Path) -> None:
    async with supervising() as supervisor:
        await supervisor.start(exchange(str(tmp_path)))
        (first,) = children()
        first.kill()
        await until(lambda: any(child.pid != first.pid for child in children()))


async def test_a_child_that_cannot_work_as_configured_stops_everything() -> None:
    async def ready() -> None:
        await asyncio.Event().wait()

    async with supervising() as supervisor:
        await supervisor.start(Child("web", ["serve"], {"BAROGRAPH_PORT": "many"}))
        with pytest.raises(ConfigurationError, match="web cannot start"):
            await asyncio.wait_for(supervisor.until_stopped(ready), 60)


async def test_other_settings_reach_no_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAROGRAPH_NO_SUCH_SETTING", "1")

    async with supervising() as supervisor:
        await supervisor.start(exchange(str(tmp_path)))
        (child,) = children()
        assert "BAROGRAPH_NO_SUCH_SETTING" not in child.environ()


async def test_a_held_child_begins_when_it_is_released_also_if_it_died_before(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    environment = {"BAROGRAPH_DATA": str(data), "BAROGRAPH_PORT": str(unused_port())}
    async with supervising() as supervisor:
        await supervisor.start(Child("web", ["serve"], environment), is_held=True)
        (first,) = children()
        first.kill()
        await until(lambda: any(child.pid != first.pid for child in children()))
        assert not data.exists()
        supervisor.release("web")
        await until((data / "barograph.sqlite3").exists)


async def test_a_signal_ends_the_waiting_also_before_all_is_ready() -> None:
    async def ready() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    async with supervising() as supervisor:
        await asyncio.wait_for(supervisor.until_stopped(ready), 60)
