"""`barograph demo`: a complete simulated service on this machine."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Any

import click
import msgspec

from barograph.cli.common import (
    child_option,
    echo,
    environment_settings,
    read_settings,
    running_demo,
)
from barograph.errors import ConfigurationError
from barograph.kit.clock import system_clock
from barograph.kit.logs import configure_logs
from barograph.kit.operating_system import die_with_parent
from barograph_demo.configuration import make_proof
from barograph_demo.databases import move_history_away
from barograph_demo.run import EXPIRED, SERVERS, run_demo, run_servers, run_world, switch_stances
from barograph_demo.servers.control import send_command
from barograph_demo.servers.faults import SILENCING, SQUEEZE
from barograph_demo.servers.identity import demo_token
from barograph_demo.servers.mailbox import read_mailbox
from barograph_demo.servers.registry import FAULTS_BY_SERVER, VENUE_SERVERS
from barograph_demo.servers.wallets import DECIMALS, NETWORK, address_of
from barograph_demo.world.venues import VENUES

DEFAULT_DATA = Path("data/demo")


def _venue_ports(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for the port of each simulated venue; that of Bybit is `--port`."""
    for name in VENUE_SERVERS:
        command = click.option(f"--{name}-port", type=int)(command)
    return command


_data_option = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DATA,
    show_default=True,
    help="The demo's data folder.",
)


@click.group(invoke_without_command=True)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=8080,
    show_default=True,
    help="Port of the site and the API.",
)
@_data_option
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Random seed of a new simulation."
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of web processes.",
)
@click.option("--x402/--no-x402", default=True, help="Turn simulated x402 payments on or off.")
@click.option(
    "--fresh",
    is_flag=True,
    help="Delete the demo in the data folder, and start as a live service does: with an empty "
    "record that the collector back-fills from the exchange's history.",
)
@click.pass_context
def demo(
    context: click.Context, port: int, data: Path, seed: int, workers: int, x402: bool, fresh: bool
) -> None:
    """Run the complete service on simulated data. It needs no network and no account.

    The first start replays 60 simulated days before the site opens. While it serves, the demo adds
    older samples to the charts. Later starts in the same folder continue the same simulation and
    ignore --seed.

    With --fresh, the demo shows the first minutes of a live service. It replays nothing, and later
    starts in the same folder don't either. The collector back-fills the last 30 days from the
    simulated exchange while it takes live readings. Exchanges publish no past liquidations, so the
    24-hour total is unavailable on the first day.

    BAROGRAPH_DATABASE_URL, BAROGRAPH_HISTORY_URL and BAROGRAPH_LIMITS_URL put the demo on
    PostgreSQL and Valkey. The data folder remembers them for later starts and commands. With
    --fresh, the demo deletes its own tables there. BAROGRAPH_HOST is the address on which the
    site and the API listen; a container needs 0.0.0.0.

    While the demo runs, use the commands below in a second terminal: break a server, read
    captured mail, get a token, a payment proof or a wallet.

    \b
    Examples:
      barograph demo
      barograph demo --port 9000 --data /tmp/world
      barograph demo --fresh --data /tmp/first-day
      barograph demo fault exchange on
      barograph demo fault exchange off
      barograph demo mail
      barograph demo token --tier feed
      barograph demo proof --wallet none
    """
    if context.invoked_subcommand is None:
        run_demo(port, data, seed, workers, x402=x402, fresh=fresh)


@demo.command()
@click.argument(
    "part",
    type=click.Choice(
        [
            *("exchange", *VENUE_SERVERS),
            *("macro", "identity", "facilitator", "witness", "phone", "history", "stance"),
            SQUEEZE,
        ]
    ),
)
@click.argument("state", type=click.Choice(["on", "off"]))
@click.option("--kind", help="The fault (default: outage). `--kind list` shows all of them.")
@click.option("--symbol", help="Only this contract, for kinds that take one, such as `delisting`.")
@click.option("--path", help="Break only one path, file or witness.")
@click.option("--days", type=int, help="The delay of macro data, with `--kind late`.")
@_data_option
def fault(part: str, state: str, kind: str | None, data: Path, **limits: str | int | None) -> None:
    """Break a part of the running demo, or repair it.

    `exchange` breaks Bybit. If the fault stops Bybit's readings, it breaks the other exchanges too,
    so that none of them takes over.

    The last kinds of each exchange (doubled-open-interest, inverted-side, wrong-unit,
    wrong-interval) put wrong numbers into replies that look right, for all contracts or for one
    --symbol.

    `witness` breaks all three witnesses, or the one that --path names. You see it when a log has a
    new entry, for example after `demo fault stance on`. With `--kind fork`, witnesses say that they
    have cosigned another tree.

    `squeeze` is not a fault. BTC's funding rises to 0.08 % per 8 hours at all exchanges, so that
    alerts fire.

    `off` without --kind ends all faults of that part. An expired stance stays expired until you
    switch the fault off, or until new evidence gives the stance a new version.

    \b
    Examples:
      barograph demo fault exchange on
      barograph demo fault exchange off
      barograph demo fault bybit on
      barograph demo fault bybit on --kind hang
      barograph demo fault hyperliquid on --kind geo-block
      barograph demo fault gate on --kind doubled-open-interest
      barograph demo fault macro on --kind late --days 5
      barograph demo fault identity on --kind hang
      barograph demo fault facilitator on --kind settle-timeout
      barograph demo fault witness on --path simulated-3
      barograph demo fault witness on --path simulated-3 --kind fork
      barograph demo fault history on
      barograph demo fault stance on --kind expired
      barograph demo fault squeeze on
    """
    switches = {"history": _break_history, "stance": _break_stances, SQUEEZE: _squeeze}
    if part in switches:
        switches[part](data, state == "on", kind)
        return
    if kind == "list":
        click.echo("\n".join(FAULTS_BY_SERVER[part]))
        return
    command: dict[str, object] = {"fault": kind or "outage", "on": state == "on"}
    if state == "off" and kind is None:
        command = {"off": "all"}
    command |= {name: value for name, value in limits.items() if value is not None}
    server = "exchange" if part == "bybit" else part
    reply: dict[str, Any] = send_command(_place(data, server), command)
    if not reply["ok"]:
        raise click.UsageError(reply["error"])
    for shared in _shared(command) if part == "exchange" else ():
        for name in VENUES:
            send_command(_place(data, name), shared)
    click.echo(f"{part}: {', '.join(reply['active']) or 'no fault'}")


def _shared(command: dict[str, object]) -> list[dict[str, object]]:
    """The command for the other exchanges; none if the fault leaves readings of Bybit."""
    if "off" in command:
        return [command]
    name = SILENCING.get(str(command["fault"]))
    if name is None or command.get("path") not in {None, "tickers"}:
        return []
    return [{"fault": name, "on": command["on"]}]


def _break_history(data: Path, on: bool, kind: str | None) -> None:
    if kind is not None:
        raise click.UsageError("the history has one fault, a missing database; leave --kind out")
    _running(data)
    move_history_away(read_settings(data=data), on)
    click.echo(f"history: {'away' if on else 'no fault'}")


def _squeeze(data: Path, on: bool, _kind: str | None) -> None:
    for name in ("exchange", *VENUES):
        send_command(_place(data, name), {"fault": SQUEEZE, "on": on})
    click.echo(f"squeeze: {'on' if on else 'off'}")


def _break_stances(data: Path, on: bool, kind: str | None) -> None:
    if kind == "list":
        click.echo(EXPIRED)
        return
    if kind not in {None, EXPIRED}:
        raise click.UsageError(f"stances have no fault {kind!r}; the only one is {EXPIRED}")
    _running(data)
    switch_stances(read_settings(data=data), expired=on)
    click.echo(f"stance: {EXPIRED if on else 'no fault'}")


@demo.command()
@click.option("--json", "as_json", is_flag=True, help="Print the e-mails as JSON.")
@_data_option
def mail(as_json: bool, data: Path) -> None:
    """Show the e-mails that the demo captured instead of delivering.

    \b
    Examples:
      barograph demo mail
      barograph demo mail --json
    """
    mails = read_mailbox(data)
    if as_json:
        click.echo(msgspec.json.encode(mails))
        return
    for mail in mails:
        click.echo(f"from: {mail.sender}\nto: {', '.join(mail.to)}\ndate: {mail.date}")
        click.echo(f"subject: {mail.subject}\n\n{mail.text}")
    if not mails:
        click.echo("no mail yet")


@demo.command()
@click.option(
    "--tier",
    type=click.Choice(["feed", "reserve", "none", "anonymous", "unconfirmed"]),
    default="feed",
    show_default=True,
    help="The user: a subscriber of this tier, or one without a subscription.",
)
@_data_option
def token(tier: str, data: Path) -> None:
    """Print a bearer token for the running demo, valid for one hour.

    \b
    Examples:
      barograph demo token
      barograph demo token --tier reserve
    """
    provider = f"http://{_place(data, 'identity')}"
    click.echo(demo_token(data, tier, system_clock(), provider))


@demo.command()
@click.option(
    "--wallet",
    type=click.Choice(["feed", "reserve", "none"]),
    default="feed",
    show_default=True,
    help="The payer: the wallet of a subscriber of this tier, or one without a subscription.",
)
@click.option(
    "--for",
    "what",
    type=click.Choice(["feed", "stance"]),
    default="feed",
    show_default=True,
    help="The purchase: a period of Feed, or one read of a stance.",
)
@_data_option
def proof(wallet: str, what: str, data: Path) -> None:
    """Print a payment proof for the running demo, valid for one minute.

    Send it in the PAYMENT-SIGNATURE header. The money is simulated.

    \b
    Examples:
      barograph demo proof
      barograph demo proof --wallet none --for stance
    """
    click.echo(make_proof(data, wallet, what, _place(data, "facilitator")))


@demo.command()
@click.argument("address", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the wallet as JSON.")
@_data_option
def wallet(address: str | None, as_json: bool, data: Path) -> None:
    """Give a wallet 1,000 simulated USDC, so that it can buy from the running demo.

    Without an ADDRESS, the command creates a wallet and prints its private key, for any x402
    client. Use that key only with the demo.

    \b
    Examples:
      barograph demo wallet
      barograph demo wallet 0x1111111111111111111111111111111111111111 --json
    """
    shown = {"address": address, "network": NETWORK}
    if address is None:
        shown["private_key"] = key = f"0x{token_hex(32)}"
        shown["address"] = address_of(int(key, 16))
    reply: dict[str, Any] = send_command(_place(data, "facilitator"), {"fund": shown["address"]})
    if not reply["ok"]:
        raise click.UsageError(reply["error"])
    shown["usdc"] = f"{reply['balance'] / 10**DECIMALS:.2f}"
    lines = "\n".join(f"{name.replace('_', ' ')}: {value}" for name, value in shown.items())
    echo(shown, lines, as_json=as_json)


@demo.command()
@click.option(
    "--port",
    type=click.IntRange(1, 65536 - len(SERVERS)),
    default=9000,
    show_default=True,
    help=f"Port of the simulated Bybit. The {len(SERVERS) - 1} other servers use the ports after "
    "it.",
)
@_data_option
def servers(port: int, data: Path) -> None:
    """Run only the simulated servers, to rehearse a live instance without a network.

    The command prints the settings that make `serve` and `collect` use these servers. Give the same
    --data to `demo fault`, `demo mail`, `demo token`, `demo proof` and `demo wallet`.

    \b
    Examples:
      barograph demo servers --data rehearsal/world > rehearsal/world.env
      barograph demo fault bybit on --data rehearsal/world
    """
    asyncio.run(run_servers(data, port))


@demo.command(hidden=True)
@click.option("--port", type=int, required=True)
@click.option("--mail-port", type=int)
@click.option("--macro-port", type=int)
@click.option("--identity-port", type=int)
@click.option("--facilitator-port", type=int)
@click.option("--witness-port", type=int)
@click.option("--phone-port", type=int)
@_venue_ports
@click.option("--extra-contracts", type=click.IntRange(0, 2000), default=0)
@_data_option
@child_option
def world(data: Path, child: int | None, port: int, **ports: int | None) -> None:
    """Run only the simulated exchange, and each other server that has a port."""
    if child is not None:
        die_with_parent(child)
    configure_logs("warning", environment_settings().log_format)
    asyncio.run(run_world(data, port, **ports))


def _place(data: Path, part: str) -> str:
    """Where a server of the running demo listens, as `host:port`."""
    running = _running(data)
    if part not in running:
        raise ConfigurationError(f"this demo has no {part}; was it started with --no-x402?")
    return running[part]


def _running(data: Path) -> dict[str, str]:

    running = running_demo(data)
    if not running:
        raise ConfigurationError(
            f"no demo runs in {data}: start one with `barograph demo --data {data}`"
        )
    return running
