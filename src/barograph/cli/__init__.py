"""The operator's commands, one file per noun."""

import errno
import logging
import os
import sys
from importlib.metadata import entry_points

import click

from barograph import __version__
from barograph.cli.audit import audit
from barograph.cli.backup import backup, restore
from barograph.cli.briefs import briefs
from barograph.cli.common import drop_output
from barograph.cli.doctor import doctor
from barograph.cli.entitlements import entitlements
from barograph.cli.events import events
from barograph.cli.guides import guides
from barograph.cli.keys import keys
from barograph.cli.macro import macro
from barograph.cli.payments import payments
from barograph.cli.processes import collect, db, serve
from barograph.cli.settings import settings
from barograph.cli.stances import stances
from barograph.cli.terms import terms
from barograph.cli.watch import watch
from barograph.cli.webhooks import webhooks
from barograph.errors import EXIT_CONFIGURATION, BarographError, ConfigurationError

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a full or failing disk, which output can hit too."""


class Commands(click.Group):
    """The commands of the service, and those of other packages such as the demo."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Say how to install the demo where its package is missing."""
        if args[0] == "demo" and "demo" not in self.commands:
            ctx.fail("the demo is a package of its own: install it with pip install barograph-demo")
        return super().resolve_command(ctx, args)


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


for command in (
    *(serve, collect, db, backup, restore, doctor, settings, terms),
    *(briefs, events, guides, keys, webhooks, macro, stances, entitlements, payments, watch),
    audit,
):
    cli.add_command(command)
for added in entry_points(group="barograph.commands"):  # such as `demo`, a package of its own
    cli.add_command(added.load(), added.name)


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


def _report(problem: str) -> None:
    from barograph.kit.logs import logs_are_json

    if logs_are_json():
        logging.getLogger("barograph").critical(problem)
    else:
        click.echo(f"barograph: {problem}", err=True)
