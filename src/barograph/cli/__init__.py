"""The operator's commands, one file per noun. A command's module is imported when it runs."""

import errno
import logging
import os
import sys
from importlib.metadata import entry_points
from pkgutil import resolve_name

import click

from barograph import __version__
from barograph.errors import EXIT_CONFIGURATION, BarographError, ConfigurationError
from barograph.kit.logs import logs_are_json

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a full or failing disk, which output can hit too."""

HELP = {
    "audit": "Check everything that a service has logged, as an outsider.",
    "backup": "Back up both databases and the keys to the new folder DIR, while the service runs.",
    "briefs": "Publish a brief, or list the newest ones.",
    "collect": "Collect from the exchanges until stopped; a second collector waits to take over.",
    "db": "Manage the databases.",
    "demo": "Run the complete service on simulated data.",
    "doctor": "Check what could keep this instance from working.",
    "entitlements": "Grant, revoke and list entitlements to Feed and Reserve.",
    "events": "Remove texts from the public log of events.",
    "guides": "Check the catalog of paid guides.",
    "keys": "Create, list and revoke personal API keys.",
    "macro": "Import earlier days of a BTC ETF.",
    "payments": "List payments, and resolve the ones with an unknown outcome.",
    "restore": "Restore the backup in DIR to an empty data folder, or to empty PostgreSQL "
    "databases.",
    "serve": "Serve the API until stopped.",
    "settings": "Show every setting by group, with its value and where the value comes from.",
    "stances": "Read the record of stances and add to it.",
    "terms": "Show the terms of the data sources.",
    "watch": "Follow the stances of a service and print a comparison for each new version.",
    "webhooks": "List, test and disable webhooks, and rotate the key that signs messages.",
}
"""The commands, and what `barograph --help` says of each without importing it."""

PLACES = {name: f"barograph.cli.{name}:{name}" for name in HELP if name != "demo"}
PLACES["restore"] = "barograph.cli.backup:restore"
PLACES |= {command.name: command.value for command in entry_points(group="barograph.commands")}
"""Where each command is. Other packages, such as the demo, add theirs as entry points."""


class Commands(click.Group):
    """Imports the module of a command when it is invoked."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Load the command, or say how to install the demo where its package is missing."""
        if args[0] == "demo" and "demo" not in PLACES:
            ctx.fail("the demo is a package of its own: install it with pip install barograph-demo")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and resolve_name(PLACES[args[0]]), rest


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Settings come from BAROGRAPH_* variables: `barograph settings` lists them all. Exit "
    "codes: 0 success, also when a running service is stopped; 1 the command failed, or `doctor` "
    "found a problem; 2 the command line is wrong; 3 the configuration is wrong, or terms are not "
    "confirmed; 130 the work was interrupted.",
)
@click.version_option(__version__, prog_name="barograph")
def cli() -> None:
    """Measure, record and publish crypto market intelligence.

    \b
    Examples:
      barograph demo                 run a simulated world on this machine
      barograph doctor               check what a live instance needs
      barograph serve --collect      run a live instance in one command
    """


for name in PLACES:
    cli.add_command(click.Command(name, help=HELP.get(name)))


def main() -> None:
    """Run the program; expected errors print one line and no traceback."""
    # The files hold e-mail addresses, and links that work like keys.
    os.umask(0o077)
    try:
        code = cli.main(prog_name="barograph", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except ConfigurationError as error:
        _report(str(error))
        sys.exit(EXIT_CONFIGURATION)
    except BarographError as error:
        is_unusable = str(error).startswith("the database cannot be used")
        advice = ": run `barograph doctor` to find out why" if is_unusable else ""
        _report(f"{error}{advice}")
        sys.exit(EXIT_FAILED)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        drop_output()
        _report(f"can't write any more ({error.strerror})")
        sys.exit(EXIT_FAILED)


def drop_output() -> None:
    """Discard output that can't be written, or Python would try to write it again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(problem: str) -> None:
    if logs_are_json():
        logging.getLogger("barograph").critical(problem)
    else:
        click.echo(f"barograph: {problem}", err=True)
