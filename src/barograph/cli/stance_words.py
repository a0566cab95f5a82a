"""How a recorded stance is told to an operator: as JSON, in a line, and whole."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from barograph.kit.canonical import Json
from barograph.kit.timestamps import iso_timestamp
from barograph.stances.delivery import stance_body, state_of
from barograph.stances.digest import event_document
from barograph.stances.records import Event, Version
from barograph.stances.standing import durable

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
