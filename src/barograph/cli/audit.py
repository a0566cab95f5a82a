"""`barograph audit`: check what a service has logged, from outside."""

import click

from barograph_client.audit.command import main

NO_HELP = {"help_option_names": list[str](), "ignore_unknown_options": True}
"""The client parses the command line, and has the help: outsiders run it as `barograph-audit`."""


@click.command(context_settings=NO_HELP)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def audit(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Check everything that a service has logged, as an outsider."""
    context.exit(main(arguments, "barograph audit"))
