"""What all tests share."""

import asyncio
import gc
import inspect
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from support.databases import services_on_servers

# How long one example takes says more about the machine than about the code.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# A shell starts its background jobs with Ctrl-C ignored, and the processes of tests inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests create thousands of applications. With Python's default thresholds, collecting garbage takes
# a tenth of their time.
gc.set_threshold(100_000, 20, 100)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--servers",
        action="store_true",
        help="run the service on PostgreSQL and Valkey instead of SQLite files (tests/http only)",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs SQLite files or local rate limits when the service uses servers."""
    if not config.getoption("servers"):
        return
    left_out = [each for each in items if each.get_closest_marker("not_on_servers") is not None]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [each for each in items if each not in left_out]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test on the loop of its `runner`, or else on a new one."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    runner = pyfuncitem.funcargs.get("runner")
    if isinstance(runner, asyncio.Runner):
        runner.run(test)
    else:
        asyncio.run(test)
    return True


@pytest.fixture(scope="session", autouse=True)
def servers(request: pytest.FixtureRequest) -> Iterator[None]:
    """The servers that `--servers` asks for."""
    if not request.config.getoption("servers"):
        yield
        return
    with services_on_servers():
        yield
