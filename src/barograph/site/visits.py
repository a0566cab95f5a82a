"""What changed, for visitors who come back (pure): the newest event about each subject."""

from collections import defaultdict
from collections.abc import Sequence
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
"""More than the script shows, because a visitor may have seen the newest."""


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
        # An event of an earlier version may lack a member, which must not cost the page.
        members = defaultdict(str, msgspec.json.decode(event.body, type=dict[str, Any]))
        part, stance = title_of(members["feed"] or members["venue"]), STANCES.get(members["kind"])
        members |= {"part": part, "stance": stance or members["kind"]}
        words = _WORDS.get(event.type, ("{type}", "{type}", ""))
        subject, text, path = (each.format_map(members) for each in words)
        found.setdefault(subject, Change(event.id, event.at, text, path))
        if len(found) == KEPT:
            break
    return list(found.values())


REGIME = "btc-funding-regime"
"""The signal that says the same as the regime."""

_WORDS = {
    "signal.changed": ("{key}", "{name} became {label}: {value}", f"{SIGNALS_FOLDER}{{key}}"),
    "regime.changed": (REGIME, "The {symbol} regime became {label}", f"{SIGNALS_FOLDER}{REGIME}"),
    "brief.published": ("{slug}", "{headline}", f"{BRIEFS_FOLDER}{{slug}}"),
    "brief.updated": ("{slug}", "{headline}", f"{BRIEFS_FOLDER}{{slug}}"),
    "contract.listed": ("{contract}", "{contract} was listed", f"{MARKETS_FOLDER}{{symbol}}"),
    "contract.delisted": ("{contract}", "{contract} is no longer listed", ""),
    "feed.down": ("{feed}", "{part}: data became stale", STATUS_PAGE),
    "feed.recovered": ("{feed}", "{part}: data is fresh again", STATUS_PAGE),
    "venue.switched": ("venue", "{part} became the venue in use", VENUES_PAGE),
    "stance.recorded": (
        "{kind}",
        "Stance “{stance}”: version {sequence} was recorded",
        f"{RECORD_FOLDER}{{kind}}",
    ),
}
"""For each type: its subject, its text and what it links to."""
