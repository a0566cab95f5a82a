"""`barograph serve`: the read side."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from barograph.cli.open_history import prepare_history
from barograph.cli.options import (
    child_option,
    data_option,
    make_folder,
    read_settings,
    upgrade_database,
    warn_if_world_writable,
)

if TYPE_CHECKING:
    from barograph.settings import Settings


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
    import os

    from barograph.kit.logs import configure_logs
    from barograph.kit.operating_system import die_with_parent, require_free_port
    from barograph.web.app import check_parts

    settings = read_settings(**options)
    configure_logs(settings.log_level)
    make_folder(settings.data)
    if child is None:
        warn_if_world_writable(settings.data)
    check_parts(settings)
    prepare_history(settings)
    if collect:
        import asyncio

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
    from barograph.supervisor import Child, Supervisor

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
