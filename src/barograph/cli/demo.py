"""`barograph demo`: a whole simulated world on this machine."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from barograph.cli.history import upgrade_history
from barograph.cli.options import child_option, make_folder, read_settings, upgrade_database

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from barograph.demo.world import World
    from barograph.settings import Settings

HOST = "127.0.0.1"
DEFAULT_DATA = Path("data/demo")
READY_SECONDS = 60

_data_option = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DATA,
    show_default=True,
    help="Folder of the demo's world.",
)


@click.group(invoke_without_command=True)
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True)
@_data_option
@click.option("--seed", type=int, default=1, show_default=True, help="Which world to simulate.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True)
@click.pass_context
def demo(context: click.Context, port: int, data: Path, seed: int, workers: int) -> None:
    """Run a simulated exchange, the collector and the API; needs no network and no account.

    A folder that was used before continues its own world; its seed is the one it began with.

    \b
    Examples:
      barograph demo
      barograph demo --port 9000 --data /tmp/world
      barograph demo fault exchange on
      barograph demo mail
    """
    if context.invoked_subcommand is None:
        _run(port, data, seed, workers)


@demo.command()
@click.argument("part", type=click.Choice(["exchange", "macro", "history"]))
@click.argument("state", type=click.Choice(["on", "off"]))
@click.option("--kind", help="Which fault (default: outage); `--kind list` names them all.")
@click.option("--symbol", help="The contract that a delisting takes away.")
@click.option("--path", help="Limit a fault to one REST path, such as account-ratio, or file.")
@click.option("--days", type=int, help="How many days late the figures are.")
@_data_option
def fault(
    part: str,
    state: str,
    kind: str | None,
    data: Path,
    **limits: str | int | None,
) -> None:
    """Break a part of a running demo, or mend it.

    \b
    Examples:
      barograph demo fault exchange on
      barograph demo fault exchange on --kind hang
      barograph demo fault exchange off
      barograph demo fault macro on --kind late --days 5
      barograph demo fault history on
    """
    if part == "history":
        _running(data)
        put_history_aside(data, state == "on")
        click.echo(f"history: {'away' if state == 'on' else 'no fault'}")
        return
    from barograph.demo import faults, macro_faults

    if kind == "list":
        known = faults.KNOWN if part == "exchange" else macro_faults.KNOWN
        click.echo("\n".join(known))
        return
    from barograph.demo.control import send_command

    command: dict[str, object] = {"fault": kind or "outage", "on": state == "on"}
    if state == "off" and kind is None:
        command = {"off": "all"}
    command |= {name: value for name, value in limits.items() if value is not None}
    reply: dict[str, Any] = send_command(_running(data)[part], command)
    if not reply["ok"]:
        raise click.UsageError(reply["error"])
    click.echo(f"{part}: {', '.join(reply['active']) or 'no fault'}")


@demo.command()
@click.option("--json", "as_json", is_flag=True, help="Print the mails as JSON.")
@_data_option
def mail(as_json: bool, data: Path) -> None:
    """Show the mails that the demo captured; it delivers none.

    \b
    Examples:
      barograph demo mail
      barograph demo mail --json
    """
    from barograph.cli.demo_mail import print_demo_mail

    print_demo_mail(data, as_json)


@demo.command(hidden=True)
@click.option("--port", type=int, required=True)
@click.option("--mail-port", type=int)
@click.option("--macro-port", type=int)
@_data_option
@child_option
def world(
    port: int, mail_port: int | None, macro_port: int | None, data: Path, child: int | None
) -> None:
    """Run only the simulated exchange; mailbox and daily figures if they have a port."""
    import asyncio
    from contextlib import AsyncExitStack

    from barograph.demo.exchange import run_exchange
    from barograph.demo.macro import MacroWorld
    from barograph.demo.macro_server import running_macro
    from barograph.demo.mailbox import running_mailbox
    from barograph.kit.clock import system_clock
    from barograph.kit.logs import configure_logs
    from barograph.kit.process import die_with_parent

    if child is not None:
        die_with_parent(child)
    configure_logs("warning")

    simulated = _world(data, seed=0)

    async def run() -> None:
        async with AsyncExitStack() as stack:
            if mail_port is not None:
                await stack.enter_async_context(running_mailbox(data, host=HOST, port=mail_port))
            if macro_port is not None:
                figures = MacroWorld(simulated)
                server = running_macro(figures, port=macro_port, clock=system_clock)
                await stack.enter_async_context(server)
            await run_exchange(simulated, HOST, port, clock=system_clock)

    asyncio.run(run())


def put_history_aside(data: Path, away: bool) -> None:
    """Take the record of stances away from under a running demo, or put it back."""
    for suffix in ("", "-wal", "-shm"):
        file = data / f"history.sqlite3{suffix}"
        aside = data / f"history.aside{suffix}"
        source, target = (file, aside) if away else (aside, file)
        if source.exists():
            source.rename(target)


def _run(port: int, data: Path, seed: int, workers: int) -> None:
    import asyncio

    from barograph.kit.clock import system_clock
    from barograph.kit.logs import configure_logs
    from barograph.kit.process import free_port, lock_folder, require_free_port

    started = system_clock()
    configure_logs("warning")
    read_settings()  # the demo has its own, but a misspelt one is refused here too
    require_free_port(HOST, port)
    make_folder(data)
    with lock_folder(data):
        names = ("exchange_port", "mail_port", "macro_port")
        settings = demo_settings(data, port, workers, **{name: free_port(HOST) for name in names})
        put_history_aside(data, away=False)  # a demo that was stopped with this fault on
        upgrade_database(settings)
        upgrade_history(settings)
        asyncio.run(_stoppable(_carry_past(settings, _world(data, seed))))
        asyncio.run(_supervise(settings, started))


def demo_settings(
    data: Path, port: int, workers: int, *, exchange_port: int, mail_port: int, macro_port: int
) -> "Settings":
    """The live configuration, pointed at the simulated world and with shorter bounds."""
    from pydantic import SecretStr

    from barograph.demo.macro_files import FUND_PATH, FUND_QUERY
    from barograph.settings import Settings

    return Settings(
        host=HOST,
        port=port,
        workers=workers,
        data=data,
        log_level="warning",
        exchange_rest_url=f"http://{HOST}:{exchange_port}",
        exchange_stream_url=f"ws://{HOST}:{exchange_port}/v5/public/linear",
        exchange_source="simulated exchange (demo data)",
        poll_seconds=2,
        feed_max_age_seconds=20,
        long_accounts_calls_per_second=10,
        stream_ping_seconds=5,
        breaker_seconds=1,
        liquidations_max_age_seconds=30,
        briefs_max_age_seconds=20,
        smtp_url=SecretStr(f"smtp://{HOST}:{mail_port}"),
        mail_from="barograph@demo.example",
        treasury_url=f"http://{HOST}:{macro_port}",
        nyfed_url=f"http://{HOST}:{macro_port}",
        etf_url=f"http://{HOST}:{macro_port}{FUND_PATH}?{FUND_QUERY}",
        macro_source="simulated daily figures (demo data)",
        macro_seconds=20,
    )


def _world(data: Path, seed: int) -> "World":
    from barograph.demo.anchor import load_or_create_anchor
    from barograph.demo.world import World
    from barograph.kit.clock import system_clock

    anchor = load_or_create_anchor(data, seed, system_clock())
    return World(anchor.seed, anchor.epoch)


async def _carry_past(settings: "Settings", world: "World") -> None:
    from barograph.cli.progress import progress_bar
    from barograph.kit.clock import system_clock
    from barograph.kit.database import SQLiteDatabase
    from barograph.replay import replay

    # The simulated past can be made again, so nobody waits for the disk.
    paths = (settings.database_path, settings.history_path)
    database, history = (SQLiteDatabase(path, survives_power_cuts=False) for path in paths)
    databases = database, history
    try:
        with progress_bar("replaying the simulated past") as progress:
            await replay(settings, world, databases, system_clock, progress)
    finally:
        await database.close()
        await history.close()


async def _stoppable(work: "Coroutine[Any, Any, None]") -> None:
    """Do some work that Ctrl-C or SIGTERM interrupts, however often they come."""
    import asyncio
    import signal

    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _supervise(settings: "Settings", started: int) -> None:
    from barograph.kit.clock import system_clock
    from barograph.kit.timestamps import SECOND
    from barograph.supervisor import Child, Supervisor

    exchange_port = settings.exchange_rest_url.rpartition(":")[2]
    mail_port = settings.smtp_url.get_secret_value().rpartition(":")[2]
    macro_port = settings.treasury_url.rpartition(":")[2]
    environment = settings.to_environment()
    supervisor = Supervisor()
    running = settings.data / "demo.json"

    async def ready() -> None:
        await _answers(f"{settings.base_url}/api/agent/market-state")
        parts = {"exchange": f"{HOST}:{exchange_port}", "macro": f"{HOST}:{macro_port}"}
        draft = running.with_suffix(".draft")
        draft.write_text(json.dumps({"base_url": settings.base_url, **parts}))
        draft.replace(running)
        click.echo(_welcome(settings, (system_clock() - started) / SECOND))
        sys.stdout.flush()

    ports = ["--port", exchange_port, "--mail-port", mail_port, "--macro-port", macro_port]
    world_arguments = ["demo", "world", *ports, "--data", str(settings.data)]
    try:
        await supervisor.start(Child("exchange", world_arguments, environment))
        await _answers(f"{settings.exchange_rest_url}/v5/market/time")
        await supervisor.start(Child("collector", ["collect"], environment))
        await supervisor.start(Child("web", ["serve"], environment))
        await supervisor.until_stopped(ready)
    finally:
        running.unlink(missing_ok=True)
        await supervisor.stop()


async def _answers(address: str) -> None:
    """Wait until an address answers with 200.

    Raises:
        BarographError: it does not within a minute.
    """
    import asyncio
    from http import HTTPStatus

    import httpx

    from barograph.errors import BarographError

    deadline = asyncio.get_running_loop().time() + READY_SECONDS
    async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
        while True:
            if asyncio.get_running_loop().time() > deadline:
                raise BarographError(f"{address} does not answer")
            try:
                if (await client.get(address)).status_code == HTTPStatus.OK:
                    return
            except httpx.TransportError:
                pass  # not listening yet
            await asyncio.sleep(0.05)


def _welcome(settings: "Settings", seconds: float) -> str:
    base = settings.base_url
    called = Path(sys.argv[0])
    program = f"{sys.executable} -m barograph" if called.suffix == ".py" else called
    return f"""\
Barograph demo, ready in {seconds:.1f} s. All of its data is simulated.

  site          {base}/
  market state  {base}/api/agent/market-state
  any perpetual {base}/api/agent/derivatives?symbol=ETH
  briefs        {base}/api/agent/briefs
  signals       {base}/api/v1/signals
  a badge       {base}/badge/regime.svg
  status        {base}/api/status
  developers    {base}/developers
  history       {base}/api/history/checkpoint
  exchange      {settings.exchange_rest_url} (simulated Bybit v5)
  data          {settings.data}

  get a key     {program} keys create --email you@example.com --data {settings.data}
  by mail       fill in the form at {base}/developers, then
                {program} demo mail --data {settings.data}
  break it      {program} demo fault exchange on --data {settings.data}
  mend it       {program} demo fault exchange off --data {settings.data}

Ctrl-C stops everything."""


def _running(data: Path) -> dict[str, str]:
    """Where the demo that uses this folder listens."""
    from barograph.errors import ConfigurationError

    try:
        found: dict[str, str] = json.loads((data / "demo.json").read_text())
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"no demo runs in {data}: start one with `barograph demo --data {data}`"
        ) from error
    return found
