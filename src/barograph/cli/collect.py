"""`barograph collect`: the collector of a live instance."""

import asyncio
import logging
import signal
from pathlib import Path

import click

from barograph.cli.common import (
    begin_service,
    child_option,
    data_option,
    prepare_databases,
    read_settings,
)
from barograph.collector.app import open_collector
from barograph.kit.clock import system_clock
from barograph.settings import Settings
from barograph.terms.sources import SELLING, require_venue
from barograph.terms.store import without_unconfirmed

log = logging.getLogger(__name__)


@click.command()
@data_option
@child_option
def collect(data: Path | None, child: int | None) -> None:
    """Collect from the exchanges until stopped; a second collector waits to take over.

    It reads only sources whose terms you have confirmed: see `barograph terms`.

    \b
    Example:
      barograph collect --data /var/lib/barograph
    """
    settings = read_settings(data=data)
    begin_service(settings, child)
    unconfirmed = prepare_databases(settings)
    require_venue(settings.venue_names, unconfirmed)
    for name in unconfirmed.names:
        if name != SELLING:  # the web side says so
            why = {"source": name, "why": unconfirmed.explain(name)}
            log.warning("terms are not confirmed", extra=why)
    # Payments stay configured: the collector resolves earlier ones even while nothing is sold.
    asyncio.run(_collect(without_unconfirmed(settings, unconfirmed)))


async def _collect(settings: Settings) -> None:
    async with open_collector(settings, system_clock) as collector:
        running = asyncio.create_task(collector.run())
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, running.cancel)
        await asyncio.wait([running])
        if not running.cancelled():
            running.result()
