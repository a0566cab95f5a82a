"""What changed since a visit: plain words, and each subject once."""

import json

import pytest

from barograph.events.records import EVENT_TYPES, Event
from barograph.site.visits import KEPT, Change, changes

MEMBERS = {
    "key": "btc-funding-regime",
    "name": "BTC funding regime",
    "label": "neutral",
    "value": "+0.0100 % per 8 h",
    "slug": "a-brief",
    "headline": "Shorts {crowd} in",
    "contract": "BTCUSDT",
    "symbol": "BTC",
    "feed": "market-feed",
    "kind": "rates-desk",
    "sequence": 3,
}


def an_event(number: int, kind: str = "signal.changed", **members: object) -> Event:
    body = {"id": number, "type": kind, "at": "then", **MEMBERS, **members}
    return Event(number, kind, 100 * number, (), json.dumps(body))


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_every_type_has_words_of_its_own(kind: str) -> None:
    (found,) = changes([an_event(1, kind)])

    assert found.text != kind
    assert found.path.startswith("/") == (kind != "contract.delisted")


def test_a_type_or_a_member_that_is_missing_costs_nothing_else() -> None:
    bare = Event(2, "regime.changed", 200, (), '{"symbol": "BTC"}')

    assert changes([an_event(1, "news.later"), bare]) == [
        Change(2, 200, "The BTC regime became ", "/signals/btc-funding-regime"),
        Change(1, 100, "news.later", ""),
    ]


def test_a_label_that_went_back_and_forth_is_told_once() -> None:
    events = [
        an_event(1, key="other", name="Other"),
        an_event(2, "regime.changed"),
        an_event(3, label="long-leaning"),
        an_event(4, "brief.published"),
    ]

    assert [(each.id, each.text) for each in changes(events)] == [
        (4, "Shorts {crowd} in"),
        (3, "BTC funding regime became long-leaning: +0.0100 % per 8 h"),
        (1, "Other became neutral: +0.0100 % per 8 h"),
    ]


def test_only_the_newest_are_listed() -> None:
    events = [an_event(n, "brief.published", slug=f"brief-{n}") for n in range(1, 3 * KEPT)]

    assert [each.id for each in changes(events)] == [*range(3 * KEPT - 1, 2 * KEPT - 1, -1)]
