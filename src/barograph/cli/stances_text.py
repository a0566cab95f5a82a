"""What `barograph stances` prints of a version, and of the whole record."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from barograph.history.digest import event_document
from barograph.history.records import Stances, Version, VersionEvent
from barograph.history.verify import BrokenRecord, IntactRecord
from barograph.kit.json import Json
from barograph.kit.timestamps import iso_timestamp
from barograph.stances.documents import stance_body, state_of
from barograph.stances.reader import recorded_stance

STATES = {"active": "active", "expired": "expired", "terminal": "withdrawn"}
"""The states of a stance in an operator's words."""

WIDTH = 17

_CONDITION = frozenset({"text", "path", "compare", "value"})


def version_json(version: Version, events: Sequence[VersionEvent], now: int) -> dict[str, Any]:
    """A version as it is delivered at `now`, with its place in the record and complete events."""
    withdrawal = withdrawal_of(version, events)
    body = stance_body(recorded_stance(version, withdrawal), now)
    if withdrawal is not None:
        issued, withdrawn = body["events"]
        body["events"] = [issued, {**withdrawn, **event_json(withdrawal)}]
    return {**body, "sequence": version.sequence, "previous_digest": version.previous_digest}


def event_json(event: VersionEvent) -> dict[str, Any]:
    """An event as it was recorded, with its salt, so that its digests can be recomputed."""
    return {**event_document(event), "event_digest": event.event_digest}


def withdrawal_of(version: Version, events: Sequence[VersionEvent]) -> VersionEvent | None:
    """The event that withdrew a version, if one did."""
    return next((event for event in events if event.version_sequence == version.sequence), None)


def version_line(version: Version, events: Sequence[VersionEvent], now: int) -> str:
    """A version in one line."""
    decision = version.leg.decision
    return (
        f"{version.sequence:>6}  {iso_timestamp(version.issued_at)}  {version.leg_id}  "
        f"revision {version.revision}  {_state(version, events, now)}  "
        f"{decision.label} ({decision.confidence}, {_plain(decision.by)})"
    )


def withdrawal_text(event: VersionEvent) -> str:
    """When a version was withdrawn, by whom and why."""
    return f"{iso_timestamp(event.at)} by {_plain(event.by)}: {_plain(event.why)}"


def version_text(version: Version, events: Sequence[VersionEvent], now: int) -> str:
    """All members of a version, one per row."""
    leg, withdrawal = version.leg, withdrawal_of(version, events)
    decision, evidence = leg.decision, leg.evidence
    happened = [f"issued {iso_timestamp(version.issued_at)}"]
    if withdrawal is not None:
        happened.append(f"withdrawn {withdrawal_text(withdrawal)}")
    decided = f"{decision.label}, by {_plain(decision.by)}"
    confidence = (
        f"{decision.confidence} (how complete the data was; not a probability, never scored)"
    )
    members: list[tuple[str, list[str]]] = [
        ("state", [_state(version, events, now)]),
        ("expires_at", [iso_timestamp(version.expires_at)]),
        ("period", [f"{leg.period['start']} to {leg.period['end']}"]),
        ("decision", [decided, _plain(decision.rationale)]),
        ("confidence", [confidence]),
        ("levels", _pairs(leg.levels)),
        ("conditions", [_condition(condition) for condition in leg.conditions]),
        ("method", [leg.method]),
        ("evidence", [_plain(evidence.source), f"observed_at {evidence.observed_at}"]),
        ("", [f"digest {evidence.digest}", *_pairs(evidence.inputs)]),
        ("events", happened),
        ("history_digest", [version.history_digest]),
        ("previous_digest", [version.previous_digest]),
    ]
    return "\n".join([version_line(version, events, now), *_rows(members)])


def _state(version: Version, events: Sequence[VersionEvent], now: int) -> str:
    return STATES[state_of(recorded_stance(version, withdrawal_of(version, events)), now)]


def _rows(members: Sequence[tuple[str, list[str]]]) -> Iterator[str]:
    for name, values in members:
        for number, value in enumerate(values):
            yield f"  {name if number == 0 else '':<{WIDTH}}{value}"


def _pairs(values: Mapping[str, Json]) -> list[str]:
    return [f"{name:<20} {_value(value)}" for name, value in values.items()]


def _condition(condition: Json) -> str:
    """A condition in words; one of another method as JSON."""
    if not isinstance(condition, Mapping) or not condition.keys() >= _CONDITION:
        return _value(condition)
    text, path, compare = (_plain(str(condition[name])) for name in ("text", "path", "compare"))
    return f"{text} ({path} {compare} {_value(condition['value'])})"


def _value(value: Json) -> str:
    return _plain(value) if isinstance(value, str) else json.dumps(value)


def _plain(text: str) -> str:
    """The text without control characters, which could move a terminal's cursor."""
    return text if text.isprintable() else json.dumps(text)


def verified_json(result: IntactRecord | BrokenRecord, published: Stances | None) -> dict[str, Any]:
    """What a verification found."""
    if isinstance(result, BrokenRecord):
        return {"ok": False, **result._asdict()}
    counts = {kind: count._asdict() for kind, count in result.counts.items()}
    ends = {} if published is None else published.recorded
    numbers = {kind: end.sequence for kind, end in ends.items()} if ends else None
    if result.not_compared is not None:
        return {"ok": False, "kinds": counts, "published": None, "what": result.not_compared}
    return {"ok": True, "kinds": counts, "published": numbers, "events": result.logged}


def verified_text(result: IntactRecord | BrokenRecord, published: Stances | None) -> str:
    """What a verification found, for people."""
    if isinstance(result, BrokenRecord):
        place = f"{result.kind} {result.record} number {result.sequence}"
        return f"broken: {'the record' if result.kind is None else place}: {result.what}"
    ends = {} if published is None else published.recorded
    lines = [
        f"{kind}: {count.versions} versions, {count.events} events, all as recorded"
        + (f", up to number {ends[kind].sequence} as published" if kind in ends else "")
        for kind, count in result.counts.items()
    ]
    if result.logged:
        lines.append(f"log of events: {result.logged} events, all as logged and signed")
    return "\n".join(lines) or "nothing is recorded yet"
