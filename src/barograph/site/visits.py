"""What changed, for visitors who come back (pure): the newest event about each subject."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from barograph.events.records import Event
from barograph.site.paths import (
    BRIEFS_FOLDER,
    MARKETS_FOLDER,
    RECORD_FOLDER,
    SIGNALS_FOLDER,
    STATUS_PAGE,
    VENUES_PAGE,
)
from barograph.site.record_pages import TITLES as STANCES
from barograph.site.status_pages import title_of

KEPT = 16
"""More than the eight that the script shows, because a visitor may have seen the newest."""

Members = Mapping[str, Any]


class Change(NamedTuple):
    """An event in plain words."""

    id: int
    at: int
    text: str
    path: str
    """What it links to; empty if nothing."""


def changes(events: Sequence[Event]) -> list[Change]:
    """The newest event about each subject, newest first.

    A signal near an edge changes back and forth, so only its last label is of interest.
    """
    found: dict[str, Change] = {}
    for event in reversed(events):
        if len(found) == KEPT:
            break
        members = msgspec.json.decode(event.body)
        write = _WORDS.get(event.type, _other)
        subject, text, path = write(members)
        found.setdefault(subject, Change(event.id, event.at, text, path))
    return list(found.values())


def _signal(event: Members) -> tuple[str, str, str]:
    path = f"{SIGNALS_FOLDER}{event['key']}"
    return path, f"{event['name']} became {event['label']}: {event['value']}", path


def _regime(event: Members) -> tuple[str, str, str]:
    # The same news as the signal of this name, which has it with its value.
    path = f"{SIGNALS_FOLDER}btc-funding-regime"
    return path, f"The {event['symbol']} regime became {event['label']}", path


def _brief(event: Members) -> tuple[str, str, str]:
    path = f"{BRIEFS_FOLDER}{event['slug']}"
    return path, event["headline"], path


def _listed(event: Members) -> tuple[str, str, str]:
    contract = event["contract"]
    return contract, f"{contract} was listed", f"{MARKETS_FOLDER}{event['symbol']}"


def _delisted(event: Members) -> tuple[str, str, str]:
    return event["contract"], f"{event['contract']} is no longer listed", ""


def _down(event: Members) -> tuple[str, str, str]:
    return event["feed"], f"{title_of(event['feed'])}: data became stale", STATUS_PAGE


def _recovered(event: Members) -> tuple[str, str, str]:
    return event["feed"], f"{title_of(event['feed'])}: data is fresh again", STATUS_PAGE


def _switched(event: Members) -> tuple[str, str, str]:
    return VENUES_PAGE, f"The venue in use is {title_of(event['venue'])}", VENUES_PAGE


def _stance(event: Members) -> tuple[str, str, str]:
    kind = event["kind"]
    text = f"Stance “{STANCES.get(kind, kind)}”: version {event['sequence']} was recorded"
    return kind, text, f"{RECORD_FOLDER}{kind}"


def _other(event: Members) -> tuple[str, str, str]:
    text = event.get("headline", event["type"])
    return text, text, ""


_WORDS: dict[str, Callable[[Members], tuple[str, str, str]]] = {
    "signal.changed": _signal,
    "regime.changed": _regime,
    "brief.published": _brief,
    "contract.listed": _listed,
    "contract.delisted": _delisted,
    "feed.down": _down,
    "feed.recovered": _recovered,
    "venue.switched": _switched,
    "stance.recorded": _stance,
}
