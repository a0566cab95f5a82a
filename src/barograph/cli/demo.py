"""`barograph demo`: a whole simulated world on this machine."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from barograph.cli.options import child_option

DEFAULT_DATA = Path("data/demo")
_PACKAGES = ("aiosmtpd", "coincurve")

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
@click.option("--x402/--no-x402", default=True, help="Take simulated payments, or none at all.")
@click.pass_context
def demo(
    context: click.Context, port: int, data: Path, seed: int, workers: int, x402: bool
) -> None:
    """Run a simulated exchange, the collector and the API; needs no network and no account.

    A folder that was used before continues its own world; its seed is the one it began with.

    \b
    Examples:
      barograph demo
      barograph demo --port 9000 --data /tmp/world
      barograph demo fault exchange on
      barograph demo mail
      barograph demo token --tier feed
      barograph demo proof --wallet none
    """
    if any(find_spec(name) is None for name in _PACKAGES):
        raise click.ClickException(
            "The demo needs more packages than the service. "
            "Install them with: pip install 'barograph[demo]'"
        )
    if context.invoked_subcommand is None:
        from barograph.cli.demo_run import run_demo

        run_demo(port, data, seed, workers, x402)


@demo.command()
@click.argument(
    "part",
    type=click.Choice(["exchange", "macro", "identity", "facilitator", "history", "stance"]),
)
@click.argument("state", type=click.Choice(["on", "off"]))
@click.option("--kind", help="Which fault (default: outage); `--kind list` names them all.")
@click.option("--symbol", help="The contract that a delisting takes away.")
@click.option("--path", help="Limit a fault of answers, such as hang, to one path or file.")
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
      barograph demo fault identity on --kind hang
      barograph demo fault facilitator on --kind settle-timeout
      barograph demo fault history on
      barograph demo fault stance on --kind expired

    An expired stance stays expired until `off`, or until new evidence gives it a new version.
    """
    if part == "history":
        if kind is not None:
            raise click.UsageError("the history has one fault: it is away; leave --kind out")
        from barograph.cli.demo_run import put_history_aside

        _running(data)
        put_history_aside(data, state == "on")
        click.echo(f"history: {'away' if state == 'on' else 'no fault'}")
        return
    if part == "stance":
        _break_stances(data, state == "on", kind)
        return
    if kind == "list":
        from barograph.demo.servers.faults import FAULTS_BY_SERVER

        click.echo("\n".join(FAULTS_BY_SERVER[part]))
        return
    from barograph.demo.servers.control import send_command

    command: dict[str, object] = {"fault": kind or "outage", "on": state == "on"}
    if state == "off" and kind is None:
        command = {"off": "all"}
    command |= {name: value for name, value in limits.items() if value is not None}
    reply: dict[str, Any] = send_command(_place(data, part), command)
    if not reply["ok"]:
        raise click.UsageError(reply["error"])
    click.echo(f"{part}: {', '.join(reply['active']) or 'no fault'}")


def _break_stances(data: Path, on: bool, kind: str | None) -> None:
    from barograph.cli.demo_run import EXPIRED, switch_stances

    if kind == "list":
        click.echo(EXPIRED)
        return
    if kind not in {None, EXPIRED}:
        raise click.UsageError(f"stances have no fault {kind!r}; the only one is {EXPIRED}")
    _running(data)
    switch_stances(data, expired=on)
    click.echo(f"stance: {EXPIRED if on else 'no fault'}")


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
    print_demo_mail(data, as_json)


@demo.command()
@click.option(
    "--tier",
    type=click.Choice(["feed", "reserve", "none", "anonymous", "unconfirmed"]),
    default="feed",
    show_default=True,
    help="Whose token: a subscriber of that tier, or somebody without.",
)
@_data_option
def token(tier: str, data: Path) -> None:
    """Print a bearer token of a running demo, good for one hour.

    \b
    Examples:
      barograph demo token
      barograph demo token --tier reserve
    """
    print_demo_token(data, tier, _place(data, "identity"))


@demo.command()
@click.option(
    "--wallet",
    type=click.Choice(["feed", "reserve", "none"]),
    default="feed",
    show_default=True,
    help="Who pays: the wallet of a subscriber of that tier, or one without.",
)
@click.option(
    "--for",
    "what",
    type=click.Choice(["feed", "stance"]),
    default="feed",
    show_default=True,
    help="What it pays for: a period of Feed, or one read of a stance.",
)
@_data_option
def proof(wallet: str, what: str, data: Path) -> None:
    """Print a payment proof of a running demo, good for one minute; the money is simulated.

    It is the value of the header PAYMENT-SIGNATURE.

    \b
    Examples:
      barograph demo proof
      barograph demo proof --wallet none --for stance
    """
    from barograph.cli.demo_run import print_demo_proof

    print_demo_proof(data, wallet, what, _place(data, "facilitator"))


@demo.command(hidden=True)
@click.option("--port", type=int, required=True)
@click.option("--mail-port", type=int)
@click.option("--macro-port", type=int)
@click.option("--identity-port", type=int)
@click.option("--facilitator-port", type=int)
@_data_option
@child_option
def world(
    port: int,
    mail_port: int | None,
    macro_port: int | None,
    identity_port: int | None,
    facilitator_port: int | None,
    data: Path,
    child: int | None,
) -> None:
    """Run only the simulated exchange, and each other part that has a port."""
    import asyncio
    from contextlib import AsyncExitStack

    from barograph.cli.demo_run import HOST, load_world
    from barograph.demo.servers.exchange import run_exchange
    from barograph.demo.servers.facilitator import load_ledger, running_facilitator
    from barograph.demo.servers.identity import load_or_create_key, running_identity
    from barograph.demo.servers.macro_server import running_macro
    from barograph.demo.servers.mailbox import running_mailbox
    from barograph.demo.world.macro import MacroWorld
    from barograph.kit.clock import system_clock
    from barograph.kit.logs import configure_logs
    from barograph.kit.process import die_with_parent

    if child is not None:
        die_with_parent(child)
    configure_logs("warning")

    simulated = load_world(data, seed=0)

    async def run() -> None:
        async with AsyncExitStack() as stack:
            if mail_port is not None:
                await stack.enter_async_context(running_mailbox(data, host=HOST, port=mail_port))
            if macro_port is not None:
                figures = MacroWorld(simulated)
                server = running_macro(figures, port=macro_port, clock=system_clock)
                await stack.enter_async_context(server)
            if identity_port is not None:
                key = load_or_create_key(data)
                provider = running_identity(key, port=identity_port, clock=system_clock)
                await stack.enter_async_context(provider)
            if facilitator_port is not None:
                ledger = load_ledger(data)
                facilitator = running_facilitator(ledger, port=facilitator_port, clock=system_clock)
                await stack.enter_async_context(facilitator)
            await run_exchange(simulated, HOST, port, clock=system_clock)

    asyncio.run(run())


def _place(data: Path, part: str) -> str:
    """Where a part of the running demo listens."""
    from barograph.errors import ConfigurationError

    running = _running(data)
    if part not in running:
        raise ConfigurationError(f"this demo has no {part}; was it started with --no-x402?")
    return running[part]


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


def print_demo_mail(data: Path, as_json: bool) -> None:
    """Print the mails that the demo in this folder captured."""
    import msgspec

    from barograph.demo.servers.mailbox import read_mailbox

    mails = read_mailbox(data)
    if as_json:
        click.echo(msgspec.json.encode(mails))
        return
    for mail in mails:
        click.echo(f"from: {mail.sender}\nto: {', '.join(mail.to)}\ndate: {mail.date}")
        click.echo(f"subject: {mail.subject}\n\n{mail.text}")
    if not mails:
        click.echo("no mail yet")


def print_demo_token(data: Path, tier: str, place: str) -> None:
    """Print a token for a tier's user of the provider at `host:port`, and nothing else."""
    from barograph.demo.servers.identity import demo_token
    from barograph.kit.clock import system_clock

    click.echo(demo_token(data, tier, system_clock(), f"http://{place}"))
