"""A live service on this machine: an exchange, the collector and the web, each its own process."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from barograph.kit.clock import system_clock
from barograph.settings import Settings
from barograph_demo.files import load_or_create_anchor
from barograph_demo.servers.exchange import ExchangeAddress
from benchmarks.market import EXTRA
from benchmarks.processes import (
    BAROGRAPH,
    HOST,
    Child,
    answers,
    running,
    until,
    unused_port,
    web_service,
)

SEED = 1
POLL_SECONDS = 1


class Live(NamedTuple):
    """The running processes and their addresses."""

    exchange: ExchangeAddress
    collector: Child
    web: Child
    web_port: int


def simulated_exchange(data: Path, port: int, *, wide: bool = False) -> Sequence[str]:
    """The command that runs the demo's exchange alone; a wide one is as large as a real one."""
    world = data / "world"  # beside a database it would mark a demo
    load_or_create_anchor(world, SEED, system_clock())
    command = (*BAROGRAPH, "demo", "world", "--port", str(port), "--data", str(world))
    return (*command, "--extra-contracts", str(EXTRA)) if wide else command


@contextmanager
def live_service(data: Path, *, wide: bool = False, **changed: object) -> Iterator[Live]:
    """Run all of them, perhaps with other settings; the service collects and answers."""
    exchange = ExchangeAddress(HOST, unused_port())
    settings = live_settings(data, exchange).model_copy(update=changed)
    command = simulated_exchange(data, exchange.port, wide=wide)
    with running(command, log=data / "exchange.log") as world:
        until(lambda: answers(exchange.port, "/v5/market/time"), world)
        collect = (*BAROGRAPH, "collect", f"--child={os.getpid()}")
        environment = settings.to_environment()
        with (
            running(collect, log=data / "collector.log", environment=environment) as collector,
            web_service(settings) as web,
        ):
            yield Live(exchange, collector, web, settings.port)


def live_settings(data: Path, exchange: ExchangeAddress) -> Settings:
    """A service that reads this exchange."""
    return Settings(
        port=unused_port(),
        data=data,
        accept_terms="bybit",
        log_level="warning",
        exchange_rest_url=exchange.url,
        poll_seconds=POLL_SECONDS,
    )
