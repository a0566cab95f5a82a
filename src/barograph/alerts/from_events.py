"""Alerts about recorded events: the regime, signals, briefs and others (pure)."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from barograph.alerts.records import Fired
from barograph.alerts.rules import Rule, key_words
from barograph.briefs.documents import BRIEF_PAGES
from barograph.events.records import Event
from barograph.kit.timestamps import MINUTE
from barograph.markets.symbols import has_page
from barograph.signals.documents import SIGNAL_PAGES
from barograph.venues.registry import VENUES, coin_of

AROUND_SWITCH = 2 * MINUTE
"""Around a switch to another venue, a new label may only mean that the venue is another one."""

_TYPES = {"regime": "regime.changed", "signal": "signal.changed", "brief": "brief.published"}
_LABELLED = ("regime.changed", "signal.changed")
_NAMES = ("name", "headline", "label", "contract", "feed", "kind")
_UNKNOWN = (None, "unknown")


def fired_by(rule: Rule, event: Event, switches: Collection[int]) -> Fired | None:
    """The message about an event; None if it isn't one that the rule is about.

    `switches` are the times at which the venue in use changed.
    """
    if event.type != _TYPES.get(rule.measure, rule.key):
        return None
    members: dict[str, Any] = msgspec.json.decode(event.body)
    if event.type in _LABELLED and (
        members.get("label") in _UNKNOWN
        or members.get("previous") in _UNKNOWN
        or any(abs(event.at - at) <= AROUND_SWITCH for at in switches)
    ):
        return None
    named = {"signal": "key", "brief": "category"}.get(rule.measure, "")
    coins: Sequence[str] = event.symbols
    if event.type.startswith("contract."):  # which name 1000PEPE
        coins = [coin_of(members["venue"], each)[0] for each in coins]
    symbols = [each for each in coins if each in rule.symbols or not rule.symbols]
    if (
        (rule.label and members["label"] != rule.label)
        or (named and rule.key and members[named] != rule.key)
        or (rule.symbols and not symbols)
        or (rule.until is not None and event.at >= rule.until)
    ):
        return None
    symbol = symbols[0] if symbols and rule.measure != "regime" else ""
    return Fired(
        symbol, "", None, event.at, text=_text(event.type, members), path=_path(members, symbol)
    )


def _text(kind: str, members: dict[str, Any]) -> str:
    said = ", ".join(str(members[name]) for name in _NAMES if isinstance(members.get(name), str))
    if kind == "brief.published":
        return str(members["headline"])
    if kind in _LABELLED:
        name = members.get("name", "the market regime")
        return f"{name} is now {members['label']} (was {members['previous']})"
    venue = VENUES.get(members.get("venue", ""))
    place = f" ({venue.title})" if venue is not None else ""
    return f"{key_words('event', kind)}{': ' if said else ''}{said}{place}"


def _path(members: dict[str, Any], symbol: str) -> str:
    if "slug" in members:
        return f"{BRIEF_PAGES}{members['slug']}"
    if "key" in members:
        return f"{SIGNAL_PAGES}{members['key']}"
    return f"/markets/{symbol}" if symbol and has_page(symbol) else "/"
