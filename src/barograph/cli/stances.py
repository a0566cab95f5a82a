"""`barograph stances`: the record, from the operator's hand."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barograph.cli.common import change_ledger, data_option, read_ledger, read_settings
from barograph.cli.stances_verify import prove, verify

if TYPE_CHECKING:
    from barograph.history.ledger import Appended, Ledger
    from barograph.history.records import Event, Version
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from barograph.history.digest import event_document
from barograph.history.records import Event, Version
from barograph.kit.json import Json
from barograph.kit.timestamps import iso_timestamp
from barograph.stances.documents import stance_body, state_of
from barograph.stances.reader import durable

KINDS = ("btc-etf-stance", "rates-desk", "funding-regime-stance")
LABELS = ("constructive", "neutral", "cautious", "stand-aside")

LAST = 2**63 - 1
"""No place in a chain has a higher number."""


def _accepted(_context: click.Context, option: click.Parameter, given: str) -> str:
    """A reason or a name that can be recorded."""
    from barograph.stances.revise import CannotRevise, reason, signer

    try:
        return reason(given) if option.name == "why" else signer(given)
    except CannotRevise as error:
        raise click.BadParameter(str(error)) from error


_kind = click.argument("kind", type=click.Choice(KINDS))
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_why = click.option(
    "--why", required=True, callback=_accepted, help="The reason, one line, which is recorded."
)
_by = click.option(
    "--by", default="operator", show_default=True, callback=_accepted, help="Who decides, one line."
)


@click.group()
def stances() -> None:
    """Read the record of stances, and add to it; nothing in it can be changed.

    \b
    Examples:
      barograph stances list rates-desk --last 5
      barograph stances revise rates-desk --decision neutral --why "auction tomorrow"
      barograph stances verify
    """


stances.add_command(verify)
stances.add_command(prove)


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
    from barograph.kit.clock import system_clock

    found, events = _newest(data, kind, last)
    now = system_clock()
    if as_json:
        click.echo(json.dumps([described(version, events, now) for version in found]))
        return
    for version in found:
        click.echo(line(version, events, now))
    if not found:
        click.echo(f"no {kind} is recorded yet")


@stances.command()
@_kind
@click.option("--sequence", type=click.IntRange(1, LAST), help="Which one (default: the newest).")
@_json
@data_option
def show(kind: str, sequence: int | None, as_json: bool, data: Path | None) -> None:
    """Show one version whole.

    \b
    Example:
      barograph stances show rates-desk --json
    """
    from barograph.errors import BarographError
    from barograph.kit.clock import system_clock

    async def look(ledger: "Ledger") -> "tuple[Version | None, list[Event]]":
        events = await ledger.events(kind)
        if sequence is not None:
            return await ledger.by_sequence(kind, sequence), events
        newest = await ledger.newest(kind, 1)
        return newest[0] if newest else None, events

    version, events = read_ledger(read_settings(data=data), look)
    if version is None:
        raise BarographError(f"there is no such version: `barograph stances list {kind}`")
    now = system_clock()
    told = described(version, events, now) if as_json else None
    click.echo(whole(version, events, now) if told is None else json.dumps(told))


@stances.command()
@_kind
@click.option("--decision", required=True, type=click.Choice(LABELS))
@_why
@_by
@_json
@data_option
def revise(kind: str, decision: str, why: str, by: str, as_json: bool, data: Path | None) -> None:
    """Record another decision on the same leg and the same evidence, as its next revision.

    The reason becomes its rationale, and who decides is recorded with it.

    \b
    Example:
      barograph stances revise rates-desk --decision neutral --why "auction tomorrow"
    """
    from barograph.kit.clock import system_clock
    from barograph.stances.revise import revision_of

    async def work(ledger: "Ledger") -> "tuple[Appended, list[Event]]":
        newest, events = await ledger.newest(kind, 1), await ledger.events(kind)
        proposal = revision_of(newest, kind, label=decision, why=why, by=by, now=system_clock())
        return await ledger.append(proposal, expected_head=newest[0].history_digest), events

    (version, is_new), events = change_ledger(read_settings(data=data), work)
    now = system_clock()
    said = f"{'recorded' if is_new else 'recorded already:'} {line(version, events, now)}"
    click.echo(json.dumps(described(version, events, now)) if as_json else said)


@stances.command()
@_kind
@_why
@_by
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

    newest, events = _newest(data, kind, 1)
    if not newest:
        raise BarographError(f"no {kind} is recorded yet")
    event = withdrawal_of(newest[0], events)
    is_ours = event is None
    if event is None:
        if not yes and not _is_confirmed(newest[0]):
            click.echo("nothing was withdrawn", err=True)
            sys.exit(1)
        # What was looked at is what is withdrawn, however long the answer takes.
        head = newest[0].history_digest
        event = change_ledger(
            read_settings(data=data),
            lambda ledger: ledger.withdraw(kind, why=why, by=by, expected_head=head),
        )
        is_ours = (event.why, event.by) == (why, by)
    place = f"{kind} number {event.version_sequence}"
    said = f"withdrawn: {place}" if is_ours else f"{place} was withdrawn already, {said_of(event)}"
    click.echo(json.dumps(described_event(event)) if as_json else said)


def _is_confirmed(version: "Version") -> bool:
    from barograph.kit.clock import system_clock

    what = line(version, (), system_clock()).strip()
    return click.confirm(f"Withdraw {what}? It cannot be undone", err=True)


def _newest(data: Path | None, kind: str, count: int) -> "tuple[list[Version], list[Event]]":
    async def look(ledger: "Ledger") -> "tuple[list[Version], list[Event]]":
        return await ledger.newest(kind, count), await ledger.events(kind)

    return read_ledger(read_settings(data=data), look)


STATES = {"active": "active", "expired": "expired", "terminal": "withdrawn"}
"""The states of a stance in an operator's words."""

WIDTH = 17

_CONDITION = frozenset({"text", "path", "compare", "value"})


def described(version: Version, events: Sequence[Event], now: int) -> dict[str, Any]:
    """A version as it is delivered at `now`, with its place in the record and its whole events."""
    withdrawal = withdrawal_of(version, events)
    body = stance_body(durable(version, withdrawal), now)
    if withdrawal is not None:
        issued, withdrawn = body["events"]
        body["events"] = [issued, {**withdrawn, **described_event(withdrawal)}]
    return {**body, "sequence": version.sequence, "previous_digest": version.previous_digest}


def described_event(event: Event) -> dict[str, Any]:
    """An event as it was recorded, salt and all: its digests can be made again from it."""
    return {**event_document(event), "event_digest": event.event_digest}


def withdrawal_of(version: Version, events: Sequence[Event]) -> Event | None:
    """The event that ended a version, if one did."""
    return next((each for each in events if each.version_sequence == version.sequence), None)


def line(version: Version, events: Sequence[Event], now: int) -> str:
    """A version in one line."""
    decision = version.leg.decision
    return (
        f"{version.sequence:>6}  {iso_timestamp(version.issued_at)}  {version.leg_id}  "
        f"revision {version.revision}  {_state(version, events, now)}  "
        f"{decision.label} ({decision.confidence}, {_plain(decision.by)})"
    )


def said_of(event: Event) -> str:
    """When a version was withdrawn, by whom and why."""
    return f"{iso_timestamp(event.at)} by {_plain(event.by)}: {_plain(event.why)}"


def whole(version: Version, events: Sequence[Event], now: int) -> str:
    """Everything about a version, under the names that its members have."""
    leg, withdrawal = version.leg, withdrawal_of(version, events)
    decision, evidence = leg.decision, leg.evidence
    happened = [f"issued {iso_timestamp(version.issued_at)}"]
    if withdrawal is not None:
        happened.append(f"withdrawn {said_of(withdrawal)}")
    signed = f"{decision.label}, {decision.confidence} confidence, by {_plain(decision.by)}"
    members: list[tuple[str, list[str]]] = [
        ("state", [_state(version, events, now)]),
        ("expires_at", [iso_timestamp(version.expires_at)]),
        ("period", [f"{leg.period['start']} to {leg.period['end']}"]),
        ("decision", [signed, _plain(decision.rationale)]),
        ("levels", _named(leg.levels)),
        ("conditions", [_in_words(each) for each in leg.conditions]),
        ("method", [leg.method]),
        ("evidence", [_plain(evidence.source), f"observed_at {evidence.observed_at}"]),
        ("", [f"digest {evidence.digest}", *_named(evidence.inputs)]),
        ("events", happened),
        ("history_digest", [version.history_digest]),
        ("previous_digest", [version.previous_digest]),
    ]
    return "\n".join([line(version, events, now), *_rows(members)])


def _state(version: Version, events: Sequence[Event], now: int) -> str:
    return STATES[state_of(durable(version, withdrawal_of(version, events)), now)]


def _rows(members: Sequence[tuple[str, list[str]]]) -> Iterator[str]:
    for name, values in members:
        for label, value in zip([name, *[""] * len(values)], values, strict=False):
            yield f"  {label:<{WIDTH}}{value}"


def _named(values: Mapping[str, Json]) -> list[str]:
    return [f"{name:<20} {_written(value)}" for name, value in values.items()]


def _in_words(condition: Json) -> str:
    """A condition as `conditions.py` makes it; one of another method as it is written."""
    if not isinstance(condition, Mapping) or not condition.keys() >= _CONDITION:
        return _written(condition)
    text, path, compare = (_plain(str(condition[name])) for name in ("text", "path", "compare"))
    return f"{text} ({path} {compare} {_written(condition['value'])})"


def _written(value: Json) -> str:
    return _plain(value) if isinstance(value, str) else json.dumps(value)


def _plain(text: str) -> str:
    """Text that cannot move a terminal's cursor, whoever recorded it."""
    return text if text.isprintable() else json.dumps(text)
