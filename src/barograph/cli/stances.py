"""`barograph stances`: the record, from the operator's hand."""

import json
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barograph.cli.options import data_option, read_settings

if TYPE_CHECKING:
    from barograph.kit.database import Database
    from barograph.stances.ledger import Appended, Ledger
    from barograph.stances.records import Event, Version

T = TypeVar("T")

KINDS = ("btc-etf-stance", "rates-desk", "funding-regime-stance")
LABELS = ("constructive", "neutral", "cautious", "stand-aside")

_kind = click.argument("kind", type=click.Choice(KINDS))
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def stances() -> None:
    """Read the record of stances, and add to it; nothing in it can be changed.

    \b
    Examples:
      barograph stances list rates-desk --last 5
      barograph stances revise rates-desk --decision neutral --why "auction tomorrow"
      barograph stances verify
    """


@stances.command("list")
@_kind
@click.option("--last", type=click.IntRange(1, 1000), default=10, show_default=True)
@_json
@data_option
def list_versions(kind: str, last: int, as_json: bool, data: Path | None) -> None:
    """List the newest versions of a kind, newest first.

    \b
    Example:
      barograph stances list funding-regime-stance --last 3 --json
    """

    async def look(ledger: "Ledger") -> "tuple[list[Version], list[Event]]":
        return await ledger.newest(kind, last), await ledger.events(kind)

    found, events = _on_ledger(data, look)
    if as_json:
        click.echo(json.dumps([_described(version, events) for version in found]))
        return
    for version in found:
        click.echo(_line(version))
    if not found:
        click.echo(f"no {kind} is recorded yet")


@stances.command()
@_kind
@click.option("--sequence", type=click.IntRange(1), help="Which one (default: the newest).")
@_json
@data_option
def show(kind: str, sequence: int | None, as_json: bool, data: Path | None) -> None:
    """Show one version whole.

    \b
    Example:
      barograph stances show rates-desk --json
    """
    from barograph.errors import BarographError

    async def look(ledger: "Ledger") -> "tuple[Version | None, list[Event]]":
        events = await ledger.events(kind)
        if sequence is not None:
            return await ledger.by_sequence(kind, sequence), events
        newest = await ledger.newest(kind, 1)
        return newest[0] if newest else None, events

    version, events = _on_ledger(data, look)
    if version is None:
        raise BarographError(f"there is no such version: `barograph stances list {kind}`")
    if as_json:
        click.echo(json.dumps(_described(version, events)))
        return
    click.echo(_line(version))
    click.echo(f"  {version.leg.decision.rationale}")
    for name, value in version.leg.levels.items():
        click.echo(f"  {name:<20} {value}")
    click.echo(f"  evidence   {version.leg.evidence.source}")
    click.echo(f"  digest     {version.history_digest}")


@stances.command()
@_kind
@click.option("--decision", required=True, type=click.Choice(LABELS))
@click.option("--why", required=True, help="The reason, which becomes the rationale.")
@click.option("--by", default="operator", show_default=True, help="Who decides.")
@_json
@data_option
def revise(kind: str, decision: str, why: str, by: str, as_json: bool, data: Path | None) -> None:
    """Record another decision on the same leg and the same evidence, as its next revision.

    \b
    Example:
      barograph stances revise rates-desk --decision neutral --why "auction tomorrow"
    """
    from barograph.kit.clock import system_clock
    from barograph.stances.revising import revision_of

    async def work(ledger: "Ledger") -> "tuple[Appended, list[Event]]":
        newest, events = await ledger.newest(kind, 1), await ledger.events(kind)
        proposal = revision_of(newest, kind, label=decision, why=why, by=by, now=system_clock())
        return await ledger.append(proposal, expected_head=newest[0].history_digest), events

    (version, is_new), events = _on_ledger(data, work)
    said = f"{'recorded' if is_new else 'recorded already:'} {_line(version)}"
    click.echo(json.dumps(_described(version, events)) if as_json else said)


@stances.command()
@_kind
@click.option("--why", required=True, help="The reason.")
@click.option("--by", default="operator", show_default=True, help="Who decides.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_json
@data_option
def withdraw(kind: str, why: str, by: str, yes: bool, as_json: bool, data: Path | None) -> None:
    """Withdraw the newest version: it is terminal, until the next one is recorded.

    \b
    Example:
      barograph stances withdraw rates-desk --why "a wrong file was read" --yes
    """
    from barograph.errors import BarographError
    from barograph.stances.revising import signed

    reason, who = signed(why, by)
    newest = _on_ledger(data, lambda ledger: ledger.newest(kind, 1))
    if not newest:
        raise BarographError(f"no {kind} is recorded yet")
    if not yes:
        # What was looked at is what is withdrawn, however long the answer takes.
        click.confirm(f"Withdraw {_line(newest[0]).strip()}? It cannot be undone", abort=True)
    head = newest[0].history_digest

    async def work(ledger: "Ledger") -> "Event":
        return await ledger.withdraw(kind, why=reason, by=who, expected_head=head)

    event = _on_ledger(data, work)
    said = f"withdrawn: {kind} number {event.version_sequence}"
    click.echo(json.dumps(_described_event(event)) if as_json else said)


@stances.command()
@_json
@data_option
def verify(as_json: bool, data: Path | None) -> None:
    """Recompute every digest of the record; exit code 1 names the first broken one.

    \b
    Example:
      barograph stances verify --data /var/lib/barograph
    """
    from barograph.cli.progress import progress_bar
    from barograph.stances.verify import Broken
    from barograph.stances.verify import verify as verify_record

    with progress_bar("verifying the record") as progress:
        found = _on_history(data, lambda database: verify_record(database, progress))
    if isinstance(found, Broken):
        told = {"ok": False, **found._asdict()}
        place = "the record" if found.kind is None else f"{found.kind} number {found.sequence}"
        click.echo(json.dumps(told) if as_json else f"broken: {place}: {found.what}")
        sys.exit(1)
    counts = {kind: each._asdict() for kind, each in found.counts.items()}
    if as_json:
        click.echo(json.dumps({"ok": True, "kinds": counts}))
        return
    if not counts:
        click.echo("nothing is recorded yet")
    for kind, each in found.counts.items():
        click.echo(f"{kind}: {each.versions} versions, {each.events} events, all as recorded")


@stances.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--kept",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An older checkpoint that you kept.",
)
@_json
@data_option
def prove(file: Path, kept: Path | None, as_json: bool, data: Path | None) -> None:
    """Prove that the stance in FILE (a delivered body) is in the record's signed checkpoint.

    \b
    Examples:
      barograph stances prove stance.json
      barograph stances prove stance.json --kept checkpoint-of-last-month.txt
    """
    from barograph.errors import BarographError
    from barograph.stances.proving import prove_in

    settings = read_settings(data=data)
    try:
        body = json.loads(file.read_bytes())
    except ValueError as error:
        raise BarographError("the file holds no JSON") from error
    note = None if kept is None else kept.read_text("utf-8")
    found = _on_ledger(data, lambda ledger: prove_in(ledger, settings, body, note))
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
        click.echo(f"  nothing before number {found.older_size} was rewritten, added or left out")


def _on_ledger(data: Path | None, use: "Callable[[Ledger], Coroutine[Any, Any, T]]") -> T:
    from barograph.kit.clock import system_clock
    from barograph.stances.ledger import Ledger

    return _on_history(data, lambda database: use(Ledger(database, system_clock)))


def _on_history(data: Path | None, use: "Callable[[Database], Coroutine[Any, Any, T]]") -> T:
    from barograph.cli.history import open_history

    return open_history(read_settings(data=data), use)


def _described(version: "Version", events: "Sequence[Event]") -> dict[str, object]:
    """A version as it was recorded, with its digest and what happened to it since."""
    from barograph.stances.digest import version_document

    return {
        **version_document(version),
        "history_digest": version.history_digest,
        "events": [
            _described_event(event)
            for event in events
            if event.version_sequence == version.sequence
        ],
    }


def _described_event(event: "Event") -> dict[str, object]:
    """An event as it was recorded, salt and all: its digests can be made again from it."""
    from barograph.stances.digest import event_document

    return {**event_document(event), "event_digest": event.event_digest}


def _line(version: "Version") -> str:
    from barograph.kit.timestamps import iso_timestamp

    decision = version.leg.decision
    return (
        f"{version.sequence:>6}  {iso_timestamp(version.issued_at)}  {version.leg_id}  "
        f"revision {version.revision}  {decision.label} ({decision.confidence}, {decision.by})"
    )
