"""`barograph stances`: reads, verifies and adds to the record of stances."""

import json
import sys
from pathlib import Path

import click

from barograph.cli.common import (
    change_ledger,
    data_option,
    history_place,
    json_option,
    progress_bar,
    published_snapshot,
    published_stances,
    read_history,
    read_ledger,
    read_settings,
    served_settings,
    yes_option,
)
from barograph.cli.databases import tables_in
from barograph.cli.stances_signing import on_record, resume, rotate_key
from barograph.cli.stances_text import (
    event_json,
    verified_json,
    verified_text,
    version_json,
    version_line,
    version_text,
    withdrawal_of,
    withdrawal_text,
)
from barograph.errors import BarographError
from barograph.history.ledger import Appended, Ledger
from barograph.history.proof import prove_delivered
from barograph.history.reader import HistoryReader
from barograph.history.records import KINDS, LABELS, Stances, Version, VersionEvent
from barograph.history.signing import existing_key
from barograph.history.verify import BrokenRecord, IntactRecord, verify_event_log, verify_published
from barograph.history.verify import verify as verify_alone
from barograph.kit.clock import system_clock
from barograph.kit.database import Database, DatabaseUnavailable
from barograph.kit.opening import open_database
from barograph.kit.timestamps import DAY, iso_timestamp
from barograph.settings import Settings
from barograph.stances.reveals import NOT_ANNOUNCED, REVEALS, in_days, revealed_at
from barograph.stances.revise import CannotRevise, reason, revision_of, signer

MAX_SEQUENCE = 2**63 - 1


def _acceptable(_context: click.Context, option: click.Parameter, given: str) -> str:
    """A reason or a name that can be recorded."""
    try:
        return reason(given) if option.name == "why" else signer(given)
    except CannotRevise as error:
        raise click.BadParameter(str(error)) from error


_kind = click.argument("kind", type=click.Choice(KINDS))
_file = click.Path(exists=True, dir_okay=False, path_type=Path)
_why = click.option(
    "--why", required=True, callback=_acceptable, help="The reason (one line, recorded)."
)
_by = click.option(
    "--by",
    default="operator",
    show_default=True,
    callback=_acceptable,
    help="Name of the person making the decision (one line, recorded).",
)


@click.group()
def stances() -> None:
    """Read the record of stances and add to it. Nothing in it can be changed.

    \b
    Examples:
      barograph stances list rates-desk --last 5
      barograph stances revise rates-desk --decision neutral --why "auction tomorrow"
      barograph stances verify
    """


stances.add_command(resume)
stances.add_command(rotate_key)


@stances.command("list")
@_kind
@click.option(
    "--last", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many."
)
@json_option
@data_option
def list_versions(kind: str, last: int, as_json: bool, data: Path | None) -> None:
    """List the newest versions of a kind, newest first.

    The word after a decision is its confidence: how complete the data was, not a probability.

    \b
    Example:
      barograph stances list funding-regime-stance --last 3 --json
    """
    found, events = _newest(data, kind, last)
    now = system_clock()
    if as_json:
        click.echo(json.dumps([version_json(version, events, now) for version in found]))
        return
    for version in found:
        click.echo(version_line(version, events, now))
    if not found:
        click.echo(f"no {kind} is recorded yet")


@stances.command()
@_kind
@click.option(
    "--sequence",
    type=click.IntRange(1, MAX_SEQUENCE),
    help="The number of the version (default: the newest).",
)
@json_option
@data_option
def show(kind: str, sequence: int | None, as_json: bool, data: Path | None) -> None:
    """Show every member of one version.

    \b
    Example:
      barograph stances show rates-desk --json
    """

    async def work(ledger: Ledger) -> tuple[Version | None, list[VersionEvent]]:
        events = await ledger.events(kind)
        if sequence is not None:
            return await ledger.version_at(kind, sequence), events
        newest = await ledger.newest_versions(kind, 1)
        return newest[0] if newest else None, events

    version, events = read_ledger(read_settings(data=data), work)
    if version is None:
        raise BarographError(f"there is no such version: see `barograph stances list {kind}`")
    now = system_clock()
    if as_json:
        click.echo(json.dumps(version_json(version, events, now)))
    else:
        click.echo(version_text(version, events, now))


@stances.command()
@_kind
@click.option("--decision", required=True, type=click.Choice(LABELS))
@_why
@_by
@json_option
@data_option
def revise(kind: str, decision: str, why: str, by: str, as_json: bool, data: Path | None) -> None:
    """Record a different decision for the newest period (leg).

    It becomes the next revision, on the same evidence. The reason becomes its rationale. If the
    service reveals stances, the command says when the reason and the name become public.

    \b
    Example:
      barograph stances revise rates-desk --decision neutral --why "auction tomorrow"
    """
    now, settings = system_clock(), read_settings(data=data)

    async def work(ledger: Ledger) -> tuple[Appended, list[VersionEvent]]:
        newest, events = await ledger.newest_versions(kind, 1), await ledger.events(kind)
        proposal = revision_of(newest, kind, label=decision, why=why, by=by, now=now)
        return await ledger.append(proposal, expected_head=newest[0].history_digest), events

    _warn_of_reveal(settings, now)
    (version, is_new), events = change_ledger(settings, work)
    text = f"{'recorded' if is_new else 'recorded already:'} {version_line(version, events, now)}"
    click.echo(json.dumps(version_json(version, events, now)) if as_json else text)


@stances.command()
@_kind
@_why
@_by
@yes_option
@json_option
@data_option
def withdraw(kind: str, why: str, by: str, yes: bool, as_json: bool, data: Path | None) -> None:
    """Permanently withdraw the newest version.

    Until the next version is recorded, this kind has no active stance. If the service reveals the
    version, your reason and name become public with it, and the command says when.

    \b
    Example:
      barograph stances withdraw rates-desk --why "a wrong file was read" --yes
    """
    newest, events = _newest(data, kind, 1)
    if not newest:
        raise BarographError(f"no {kind} is recorded yet")
    event = withdrawal_of(newest[0], events)
    is_ours = event is None
    if event is None:
        settings = read_settings(data=data)
        _warn_of_reveal(settings, newest[0].issued_at)
        if not yes and not _is_confirmed(newest[0]):
            click.echo("nothing was withdrawn", err=True)
            sys.exit(1)
        # The version that the operator confirmed, however long the answer took.
        head = newest[0].history_digest
        event = change_ledger(
            settings,
            lambda ledger: ledger.withdraw(kind, why=why, by=by, expected_head=head),
        )
        is_ours = (event.why, event.by) == (why, by)
    name = f"{kind} number {event.version_sequence}"
    already = f"{name} was withdrawn already, {withdrawal_text(event)}"
    text = f"withdrawn: {name}" if is_ours else already
    click.echo(json.dumps(event_json(event)) if as_json else text)


@stances.command()
@json_option
@data_option
def verify(as_json: bool, data: Path | None) -> None:
    """Recompute every digest of the record, and of the log of events.

    Exit code 1 means that the record is broken; the output names the first broken entry. If there
    is a database of the service, the record must also hold everything that the service published,
    so the check fails for an older copy of the record or a new, empty one. The events in that
    database must be the ones that were signed. The check also fails if that database can't be read.

    \b
    Example:
      barograph stances verify --data /var/lib/barograph
    """
    verified = verify_record(read_settings(data=data))
    click.echo(json.dumps(verified_json(*verified)) if as_json else verified_text(*verified))
    end_verification(*verified)


@stances.command()
@click.argument("file", type=_file)
@click.option("--kept", type=_file, help="An older checkpoint that you kept.")
@json_option
@data_option
def prove(file: Path, kept: Path | None, as_json: bool, data: Path | None) -> None:
    """Prove that a delivered stance is in the public log.

    FILE is the delivered body. With an older checkpoint, also prove that nothing it covers was
    rewritten. The name of a checkpoint begins with the address of the instance, so set
    BAROGRAPH_BASE_URL to the value that the service uses. For a running demo the command knows
    the address.

    \b
    Examples:
      barograph stances prove stance.json
      barograph stances prove stance.json --kept checkpoint-of-last-month.txt
    """
    settings = served_settings(data)
    body = _read_body(file)
    note = None if kept is None else _read_note(kept)
    key = existing_key(settings)
    proof = on_record(
        settings, lambda record: prove_delivered(record, body, note, key), is_read_only=True
    )
    if as_json:
        hashes = {
            "root": proof.root.hex(),
            "inclusion": [hashed.hex() for hashed in proof.inclusion],
            "consistency": [hashed.hex() for hashed in proof.consistency],
        }
        click.echo(json.dumps({**proof._asdict(), **hashes}))
        return
    click.echo(f"number {proof.sequence} of its kind: it is what was recorded")
    click.echo(f"  digest  {proof.history_digest}")
    click.echo(f"  entry   {proof.entry} of {proof.size} in the public log")
    click.echo(f"  root    {proof.root.hex()}")
    if proof.older_size is not None:
        click.echo(f"  nothing up to entry {proof.older_size} was rewritten, added or left out")


def _is_confirmed(version: Version) -> bool:
    what = version_line(version, (), system_clock()).strip()
    return click.confirm(f"Withdraw {what}? This cannot be undone", err=True)


def _warn_of_reveal(settings: Settings, issued_at: int) -> None:
    """Say when the reason and the name become public, with the version issued at this time."""
    words = "your reason and name"
    try:
        reveals = published_snapshot(settings, REVEALS) or NOT_ANNOUNCED
    except DatabaseUnavailable as error:
        why = f"the terms that the service announced can't be read: {error}"
        click.echo(f"warning: {words} may become public; {why}", err=True)
        return
    at = revealed_at(issued_at, reveals.announced)
    if at is not None:
        later = f"{in_days((at - issued_at) // DAY)} after the version is issued"
        click.echo(f"warning: {words} become public at {iso_timestamp(at)}, {later}", err=True)


def _newest(data: Path | None, kind: str, count: int) -> tuple[list[Version], list[VersionEvent]]:
    async def work(ledger: Ledger) -> tuple[list[Version], list[VersionEvent]]:
        return await ledger.newest_versions(kind, count), await ledger.events(kind)

    return read_ledger(read_settings(data=data), work)


def _published(settings: Settings) -> tuple[Stances | None, str | None]:
    """What the service published, or else, with a warning, why that can't be read."""
    try:
        return published_stances(settings), None
    except DatabaseUnavailable as error:
        why = f"not compared with what the service published, which can't be read: {error}"
        click.echo(why, err=True)
        return None, why


def verify_record(settings: Settings) -> tuple[IntactRecord | BrokenRecord, Stances | None]:
    """Verify the record against itself and against what the service published."""
    published, not_compared = _published(settings)
    # An older version's database may lack digests of events.
    has_log = not_compared is None and "cosignatures" in tables_in(settings.database_address)
    with progress_bar(f"verifying {history_place(settings)}") as progress:

        async def work(database: Database) -> IntactRecord | BrokenRecord:
            result = await verify_alone(database, progress)
            if isinstance(result, BrokenRecord):
                return result
            reader = HistoryReader(database)
            broken = None if published is None else await verify_published(reader, published)
            if broken is not None or not has_log:
                return broken or result._replace(not_compared=not_compared)
            service = open_database(settings.database_address, create=False)
            try:
                logged = await verify_event_log(service, database)
            finally:
                await service.close()
            return logged if isinstance(logged, BrokenRecord) else result._replace(logged=logged)

        return read_history(settings, work), published


def end_verification(result: IntactRecord | BrokenRecord, published: Stances | None) -> None:
    """Exit with 1 if the record is broken, or could not be compared with the published one."""
    if isinstance(result, BrokenRecord) or result.not_compared is not None:
        sys.exit(1)
    if result.counts and (published is None or not published.recorded):
        click.echo("the service has published nothing to compare the record with", err=True)


def _read_body(file: Path) -> object:

    try:
        return json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BarographError(f"{file.name} is not a stance: it is not valid JSON") from error


def _read_note(file: Path) -> str:

    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise BarographError(f"{file.name} is not a signed note: it is not text") from error
