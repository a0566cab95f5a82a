"""Events in words (pure): for feeds, and for visitors who come back."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from barograph.briefs.records import in_words
from barograph.events.records import Event
from barograph.site.record_pages import TITLES as STANCES

KEPT = 16
"""More than the script shows, because a visitor may have seen the newest."""

REGIME = "btc-funding-regime"
"""The signal that says the same as the regime."""

EVENT_TEXTS: Mapping[str, tuple[str, str, str]] = {
    "regime.changed": (
        "{symbol} funding regime: {previous} → {label}",
        "Funding per 8 hours: {fundingRatePct8h} %.",
        f"/signals/{REGIME}",
    ),
    "signal.changed": ("{name}: {previous} → {label}", "Measured: {value}.", "/signals/{key}"),
    "brief.published": ("Brief: {headline}", "Category: {category}.", "/briefs/{slug}"),
    "brief.updated": (
        "Brief updated: {headline}",
        "Category: {category}. Version {version} of this brief.",
        "/briefs/{slug}",
    ),
    "contract.listed": (
        "{symbol} perpetual listed on {venue}",
        "Contract: {contract}.",
        "/markets/{symbol}",
    ),
    "contract.delisted": (
        "{symbol} perpetual delisted from {venue}",
        "Contract: {contract}.",
        "/markets/{symbol}",
    ),
    "feed.down": (
        "Market data from {venue} is down",
        "It is older than its freshness limit.",
        "/status",
    ),
    "feed.recovered": (
        "Market data is fresh again, from {venue}",
        "An outage of the market feed is over.",
        "/status",
    ),
    "venue.switched": (
        "Market data now comes from {venue}",
        "Before: {previous}. Reason: {reason}.",
        "/venues",
    ),
    "stance.recorded": (
        "Stance “{stance}”: version {sequence} recorded",
        "Digest: {history_digest}.",
        "/record/{kind}",
    ),
    "stance.withdrawn": (
        "Stance “{stance}”: a version was withdrawn",
        "Digest: {event_digest}.",
        "/record/{kind}/events",
    ),
    "liquidations.filed": (
        "Liquidations of {day} on {venue}: {rows} in the daily file",
        "SHA-256: {sha256}.",
        "/liquidations",
    ),
    "reveal.announced": (
        "Days until new stances become public: {after_days}",
        "0 means never. Earlier versions keep their own terms.",
        "/accuracy",
    ),
    "accuracy.defined": (
        "New definition of the accuracy figures",
        "It applies to stances recorded from now on.",
        "/accuracy",
    ),
    "history.merged": (
        "The logs of stances became part of this log",
        "Their last checkpoints are in this entry.",
        "/record",
    ),
}
"""Title, detail and page by type, with the names of the event's members."""


class EventText(NamedTuple):
    """An event in plain words."""

    title: str
    detail: str
    path: str
    subject: str
    """What it is about: a contract, or a page."""


def event_text(event: Event) -> EventText:
    """Write an event in words; a member that it lacks is unknown."""
    given = msgspec.json.decode(event.body, type=dict[str, Any])
    known = {name: value for name, value in given.items() if value is not None}
    names = ("venue", "previous") if event.type == "venue.switched" else ("venue",)
    known |= {name: known[name].capitalize() for name in names if name in known}
    kind = known.get("kind", "unknown")
    known["category"] = in_words(known.get("category", "unknown"))
    members = defaultdict(lambda: "unknown", known, stance=STANCES.get(kind, kind))
    words = EVENT_TEXTS.get(event.type, (event.type, "", ""))
    title, detail, path = (word.format_map(members) for word in words)
    subject = known.get("contract") or path or title
    if event.type.startswith(("feed.", "contract.")):
        subject += f" {members['venue']}"
    return EventText(title, detail, quote(path), subject)


def changes(events: Sequence[Event]) -> list[tuple[Event, EventText]]:
    """The newest event about each subject, newest first.

    A signal near an edge changes back and forth, so only its last label is of interest.
    """
    newest: dict[str, tuple[Event, EventText]] = {}
    for event in reversed(events):
        text = event_text(event)
        newest.setdefault(text.subject, (event, text))
        if len(newest) == KEPT:
            break
    return list(newest.values())
