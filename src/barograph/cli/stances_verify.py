"""`barograph stances verify` and `prove`: whether the record is what it was."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barograph.cli.common import data_option, read_ledger, read_settings

if TYPE_CHECKING:
    from barograph.history.records import Stances
    from barograph.history.verify import Broken, Verified
    from barograph.kit.database import Database
    from barograph.settings import Settings


_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@_json
@data_option
def verify(as_json: bool, data: Path | None) -> None:
    """Recompute every digest of the record; exit code 1 names the first broken one.

    Where the service's own database is beside it, the record must also hold what the service
    published: an older copy of the record, or a new one, does not.

    \b
    Example:
      barograph stances verify --data /var/lib/barograph
    """
    from barograph.history.verify import Broken

    settings = read_settings(data=data)
    published = _published(settings)
    found = _verify(settings, published)
    if isinstance(found, Broken):
        told = {"ok": False, **found._asdict()}
        place = f"{found.kind} {found.record} number {found.sequence}"
        said = f"broken: {'the record' if found.kind is None else place}: {found.what}"
        click.echo(json.dumps(told) if as_json else said)
        sys.exit(1)
    ends = {} if published is None else published.recorded
    if as_json:
        counts = {kind: each._asdict() for kind, each in found.counts.items()}
        numbers = {kind: mark.sequence for kind, mark in ends.items()} if ends else None
        click.echo(json.dumps({"ok": True, "kinds": counts, "published": numbers}))
        return
    if not found.counts:
        click.echo("nothing is recorded yet")
    for kind, each in found.counts.items():
        known = f", up to number {ends[kind].sequence} as published" if kind in ends else ""
        counts_of = f"{each.versions} versions, {each.events} events"
        click.echo(f"{kind}: {counts_of}, all as recorded{known}")
    if found.counts and not ends:
        click.echo("nothing is published here with which to compare the record", err=True)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--kept",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An older checkpoint that you kept.",
)
@_json
@data_option
def prove(file: Path, kept: Path | None, as_json: bool, data: Path | None) -> None:
    """Prove that the stance in FILE (a delivered body) is in the record as it was recorded.

    With an older checkpoint, also that nothing it covers was rewritten. A checkpoint bears the
    name of its log, which begins with the address of the instance: set BAROGRAPH_BASE_URL as the
    service has it. The address of a running demo is known from its folder.

    \b
    Examples:
      barograph stances prove stance.json
      barograph stances prove stance.json --kept checkpoint-of-last-month.txt
    """
    from barograph.cli.common import named_as_served
    from barograph.history.proving import prove_in

    settings = named_as_served(read_settings(data=data))
    body = _read_body(file)
    note = None if kept is None else _read_note(kept)
    published = _published(settings)
    found = read_ledger(settings, lambda ledger: prove_in(ledger, settings, body, note, published))
    told = {
        "sequence": found.sequence,
        "history_digest": found.history_digest,
        "size": found.size,
        "root": found.root.hex(),
        "inclusion": [each.hex() for each in found.inclusion],
        "older_size": found.older_size,
        "consistency": [each.hex() for each in found.consistency],
    }
    if as_json:
        click.echo(json.dumps(told))
        return
    click.echo(f"number {found.sequence} of {found.size}: it is what was recorded")
    click.echo(f"  digest  {found.history_digest}")
    click.echo(f"  root    {found.root.hex()}")
    if found.older_size is not None:
        click.echo(f"  nothing up to number {found.older_size} was rewritten, added or left out")


def _published(settings: "Settings") -> "Stances | None":
    """What the service published, if it can be read: the record is worth verifying without."""
    from barograph.cli.common import published_stances
    from barograph.kit.database import DatabaseUnavailable

    try:
        return published_stances(settings)
    except DatabaseUnavailable as error:
        click.echo(f"what was published cannot be read: {error}", err=True)
        return None


def _verify(settings: "Settings", published: "Stances | None") -> "Verified | Broken":
    from barograph.cli.common import progress_bar, read_history
    from barograph.history.ledger import Ledger
    from barograph.history.verify import Broken, verify_published
    from barograph.history.verify import verify as verify_record
    from barograph.kit.clock import system_clock

    with progress_bar(f"verifying {settings.history_path}") as progress:

        async def look(database: "Database") -> "Verified | Broken":
            found = await verify_record(database, progress)
            if published is None or isinstance(found, Broken):
                return found
            replaced = await verify_published(Ledger(database, system_clock), published)
            return found if replaced is None else replaced

        return read_history(settings, look)


def _read_body(file: Path) -> object:
    from barograph.errors import BarographError

    try:
        return json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BarographError(f"{file.name} holds no JSON that could be a stance") from error


def _read_note(file: Path) -> str:
    from barograph.errors import BarographError

    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise BarographError(f"{file.name} is not a signed note: it is not even text") from error
