"""The service with rate limits that no benchmark reaches; it still counts every request.

Run as `python -m benchmarks.unlimited` with the service's settings in the environment.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import barograph.limits.rate_limits
import barograph.mcp.calls
import barograph.mcp.endpoints
import barograph.web.server
from barograph.kit.http import ASGIApp
from barograph.settings import Settings
from benchmarks import bench
from benchmarks.peers import run_instead

LIMITS = (
    (barograph.limits.rate_limits, "ANONYMOUS"),
    (barograph.limits.rate_limits, "PERSONAL"),
    (barograph.mcp.calls, "TOOL_CALLS"),
    (barograph.mcp.endpoints, "MCP_POSTS"),
)
REQUESTS = 100_000_000


@contextmanager
def unlimited_service(settings: Settings, look: Callable[[], object]) -> Iterator[bench.Child]:
    """Run it as a process; `look` returns None until the service answers."""
    command = (sys.executable, "-m", "benchmarks.unlimited")
    log, environment = settings.data / "web.log", settings.to_environment()
    with bench.running(command, log=log, environment=environment) as child:
        bench.until(look, child)
        yield child


def unlimited_web_app() -> ASGIApp:
    """The service's own application with high limits in this process."""
    for module, name in LIMITS:
        high = getattr(module, name)._replace(requests=REQUESTS)
        patch.object(module, name, high).start()
    return barograph.web.server.web_app()


if __name__ == "__main__":
    run_instead("benchmarks.unlimited:unlimited_web_app", Settings.from_environment(os.environ))
