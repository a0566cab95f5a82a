"""The language of alerts: a rule reads back as a sentence, and one that can't fire is refused."""

from typing import Any

import pytest

from barograph.alerts.rules import FACTS, Rule, checked, parsed, sentence
from barograph.errors import InvalidRequest, NotFound
from barograph.events.records import EVENT_TYPES

NOW = 1_795_000_000_000
AT_MOST = "At most one message every hour."


def resolve(text: str) -> str:
    if text.upper() in {"BTC", "ETH", "PEPE"}:
        return text.upper()
    raise NotFound("unknown coin")


def rule_of(measure: str, **members: Any) -> Any:
    given = {"measure": measure, **members}
    return checked(parsed(given), resolve, ["bybit", "hyperliquid"], NOW, lists)


def lists(venue: str, symbol: str) -> bool:
    return (venue, symbol) != ("hyperliquid", "PEPE")


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (
            {"measure": "funding", "symbols": ["btc"], "venue": "any", "value": 0.05},
            (
                "Tells you when BTC funding at any exchange is above 0.0500 % per 8 h. It can tell "
                f"you again once the value has fallen below 0.0490 % per 8 h. {AT_MOST}"
            ),
        ),
        (
            {"measure": "open-interest", "symbols": ["ETH"], "when": "falls", "value": 5}
            | {"within": "1h", "every": "4h"},
            (
                "Tells you when ETH open interest at all exchanges together falls by 5 % within 1 "
                "hour, counted in coins. It can tell you again once the change has dropped below "
                "4.9 %. At most one message every 4 hours."
            ),
        ),
        (
            {"measure": "liquidations", "value": 2e7, "within": "1h"},
            (
                "Tells you when liquidations at all exchanges together exceed $20.00M within 1 "
                f"hour. It can tell you again once the value has fallen below $19.60M. {AT_MOST}"
            ),
        ),
        ({"measure": "regime"}, f"Tells you when the market regime changes. {AT_MOST}"),
        (
            {"measure": "brief", "key": "etf-flows", "symbols": ["BTC", "ETH"]},
            (
                "Tells you when a brief on ETF flows about BTC or ETH is published. At most one "
                "message per coin every hour."
            ),
        ),
        (
            {"measure": "event", "key": "contract.listed", "symbols": ["PEPE"]},
            f"Tells you when a contract of PEPE is listed. {AT_MOST}",
        ),
        (
            {"measure": "signal", "key": "funding-breadth", "label": "longs-pay"}
            | {"until": NOW + 1},
            (
                f"Tells you when the signal Funding breadth becomes longs-pay. {AT_MOST} It ends "
                "on 18 November, 11:06 UTC."
            ),
        ),
        (
            {"measure": "price", "symbols": ["BTC"], "when": "crosses", "value": 100_000},
            (
                "Tells you when the BTC price at any exchange crosses 100,000. On the way down, "
                f"the crossing counts only below 98,000.0. {AT_MOST}"
            ),
        ),
    ],
)
def test_a_rule_reads_back_as_a_sentence(members: dict[str, Any], words: str) -> None:
    if "value" in members:
        members = {"when": "above", **members}
    rule = rule_of(**members)
    assert sentence(rule) == words
    assert checked(rule, resolve, ["bybit"], NOW) == rule


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"measure": "funding", "symbols": ["NOSUCH"], "when": "above", "value": 1}, "unknown"),
        ({"measure": "funding", "when": "above", "value": 1}, "symbols must name"),
        ({"measure": "funding", "symbols": ["BTC"], "when": "above", "value": 21}, "-20 to 20"),
        ({"measure": "funding", "symbols": ["BTC"], "when": "happens"}, "when must be one of"),
        ({"measure": "price", "symbols": ["BTC"], "when": "falls", "value": 100}, "to 99"),
        ({"measure": "price", "symbols": ["BTC"], "when": "rises", "value": 5}, "within must be"),
        (
            {"measure": "price", "symbols": ["BTC"], "when": "above", "value": 5, "within": "1h"},
            "within must be left out for price above",
        ),
        (
            {"measure": "settled-funding", "symbols": ["PEPE"], "when": "above", "value": 1},
            "settled funding is available only for BTC, ETH, SOL",
        ),
        (
            {"measure": "liquidations", "when": "above", "value": 2e7, "within": "1h"}
            | {"venue": "hyperliquid"},
            "venue must be one of all, any, bybit",
        ),
        (
            {"measure": "funding", "symbols": ["BTC"], "when": "rises", "value": 41}
            | {"within": "1h"},
            "value must be from 0.0001 to 40",
        ),
        (
            {"measure": "price", "symbols": ["BTC", "PEPE"], "when": "above", "value": 1}
            | {"venue": "hyperliquid"},
            "Hyperliquid does not list PEPE",
        ),
        ({"measure": "regime", "symbols": ["BTC"]}, "takes no symbols"),
        ({"measure": "signal", "key": "funding-breadth", "symbols": ["BTC"]}, "takes no symbols"),
        ({"measure": "event", "key": "feed.down", "symbols": ["BTC"]}, "takes no symbols"),
        ({"measure": "regime", "label": "sideways"}, "label must be one of short-crowded"),
        ({"measure": "signal"}, "key must be one of"),
        ({"measure": "regime", "until": NOW}, "in the future"),
        ({"measure": "regime", "color": "red"}, "can't be read"),
    ],
)
def test_a_rule_that_can_never_fire_is_refused_with_the_reason(
    members: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidRequest, match=why):
        rule_of(**members)


def test_a_difference_between_exchanges_needs_two() -> None:
    rule = parsed({"measure": "funding-spread", "symbols": ["BTC"], "when": "above", "value": 0.1})
    assert checked(rule, resolve, ["bybit", "gate"], NOW).venue == "all"
    with pytest.raises(InvalidRequest, match="only one"):
        checked(rule, resolve, ["bybit"], NOW)


def test_every_measure_has_a_name_with_and_without_coins() -> None:
    for fact in FACTS.values():
        assert fact.title
        assert "  " not in fact.of("BTC")


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_every_type_of_event_reads_back_but_not_each_is_offered(kind: str) -> None:
    assert sentence(Rule("event", key=kind)).startswith("Tells you when")
    if kind in {"regime.changed", "signal.changed", "brief.published"}:  # measures of their own
        with pytest.raises(InvalidRequest, match="key must be one of"):
            rule_of("event", key=kind)
