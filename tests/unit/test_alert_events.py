"""Which recorded events an alert is about."""

from typing import Any

import msgspec
import pytest

from barograph.alerts.from_events import AROUND_SWITCH, fired_by
from barograph.alerts.records import Fired
from barograph.alerts.rules import Rule
from barograph.events.records import Event
from support.clock import START


def event(kind: str, *symbols: str, **members: Any) -> Event:
    return Event(1, kind, START, symbols, msgspec.json.encode(members).decode())


REGIME = event("regime.changed", "BTC", venue="bybit", label="long-crowded", previous="neutral")
BRIEF = event(
    *("brief.published", "SOL", "ETH"), slug="a-b", headline="SOL rises", category="movers"
)
SIGNAL = event("signal.changed", key="carry", name="Carry", label="high", previous="low")
LISTED = event("contract.listed", "PEPE", venue="gate", contract="PEPE_USDT")


@pytest.mark.parametrize(
    ("rule", "about", "text", "path"),
    [
        (Rule("regime"), REGIME, "the market regime is now long-crowded (was neutral)", "/"),
        (Rule("regime", label="long-crowded"), REGIME, "the market regime is now", "/"),
        (Rule("signal", key="carry"), SIGNAL, "Carry is now high (was low)", "/signals/carry"),
        (Rule("brief", ("ETH",)), BRIEF, "SOL rises", "/briefs/a-b"),
        (Rule("brief", key="movers"), BRIEF, "SOL rises", "/briefs/a-b"),
        (
            *(Rule("event", key="contract.listed"), LISTED),
            *("a contract is listed: PEPE_USDT (Gate)", "/markets/PEPE"),
        ),
        (
            Rule("event", ("PEPE",), key="contract.listed"),
            event("contract.listed", "1000PEPE", venue="bybit", contract="1000PEPEUSDT"),
            *("a contract is listed: 1000PEPEUSDT (Bybit)", "/markets/PEPE"),
        ),
    ],
)
def test_event_fires_the_rules_about_it(rule: Rule, about: Event, text: str, path: str) -> None:
    fired = fired_by(rule, about, [])
    assert fired is not None
    assert (fired.text.startswith(text), fired.path, fired.value) == (True, path, None)


@pytest.mark.parametrize(
    ("rule", "about"),
    [
        (Rule("regime", label="neutral"), REGIME),
        (Rule("regime"), event("regime.changed", "BTC", label="neutral", previous=None)),
        (Rule("signal", key="other"), SIGNAL),
        (Rule("signal", key="carry"), event("signal.changed", key="carry", label="unknown")),
        (Rule("brief", ("BTC",)), BRIEF),
        (Rule("brief", key="other"), BRIEF),
        (Rule("brief", until=START), BRIEF),
        (Rule("event", key="contract.delisted"), LISTED),
    ],
)
def test_other_events_fire_nothing(rule: Rule, about: Event) -> None:
    assert fired_by(rule, about, []) is None


@pytest.mark.outcome(
    "The regime or a signal changes within two minutes of a switch to another exchange",
    "No alert fires, because only the exchange may have changed.",
)
def test_label_that_changed_around_a_switch_of_the_venue_fires_nothing() -> None:
    assert fired_by(Rule("regime"), REGIME, [START + AROUND_SWITCH]) is None
    assert fired_by(Rule("regime"), REGIME, [START + AROUND_SWITCH + 1]) is not None


def test_message_names_the_coin_that_was_asked_for() -> None:
    fired = fired_by(Rule("brief", ("ETH",)), BRIEF, [])
    assert fired == Fired("ETH", "", None, START, text="SOL rises", path="/briefs/a-b")
