"""`barograph serve`: the web workers of a live instance, and perhaps the collector beside them."""

import asyncio
import logging
import os
from ipaddress import ip_address
from pathlib import Path

import click

from barograph.cli.common import (
    begin_service,
    child_option,
    data_option,
    prepare_databases,
    read_settings,
    run_on_database,
)
from barograph.kit.operating_system import require_free_port
from barograph.settings import Settings, reachable
from barograph.supervisor import Child, Supervisor
from barograph.terms.sources import SELLING, Unconfirmed, require_venue
from barograph.terms.store import without_selling, without_unconfirmed
from barograph.web.server import check_configuration, run_server
from barograph.web.shared_secrets import require_shared_secrets, web_secrets

log = logging.getLogger(__name__)


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
    settings = read_settings(**options)
    begin_service(settings, child)
    if child is None:
        warn_if_links_are_local(settings)
    check_configuration(settings)
    if collect:
        require_free_port(settings.host, settings.port)
    unconfirmed = prepare_databases(settings)
    secrets = web_secrets(settings)
    run_on_database(settings, lambda it: require_shared_secrets(it, settings.data, secrets))
    if collect:
        require_venue(settings.venue_names, unconfirmed)
        asyncio.run(_serve_and_collect(settings))
        return
    if child is None:
        _say_ready(settings)
    # The web side must have the same primary venue as the collector.
    settings = without_unconfirmed(_without_unconfirmed_sale(settings, unconfirmed), unconfirmed)
    os.environ.update(settings.to_environment())  # the workers read it after the fork
    run_server(settings)


def warn_if_links_are_local(settings: Settings) -> None:
    """Log a warning if others can call this instance, but its links name no public address."""
    is_derived = settings.base_url == f"http://{reachable(settings.host)}:{settings.port}"
    if is_derived and (settings.trusted_proxies or not ip_address(settings.host).is_loopback):
        advice = "set it to the public address; `barograph settings` shows what else you must set"
        log.warning("BAROGRAPH_BASE_URL is not set, so links name this host", extra={"do": advice})


def _say_ready(settings: Settings) -> None:
    if settings.log_format == "json":
        log.info("serving", extra={"url": settings.base_url})
    else:
        click.echo(f"serving on {settings.base_url}")


def _without_unconfirmed_sale(settings: Settings, unconfirmed: Unconfirmed) -> Settings:
    if SELLING not in unconfirmed.names:
        return settings
    log.critical("selling is not confirmed", extra={"why": unconfirmed.explain(SELLING)})
    return without_selling(settings)


async def _serve_and_collect(settings: Settings) -> None:
    async def ready() -> None:
        _say_ready(settings)

    supervisor = Supervisor()
    environment = settings.to_environment()
    try:
        await supervisor.start(Child("collector", ["collect"], environment))
        await supervisor.start(Child("web", ["serve"], environment, settings.stop_seconds + 2))
        await supervisor.until_stopped(ready)
    finally:
        await supervisor.stop()
