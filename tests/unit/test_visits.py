"""What changed since a visit: plain words, and each subject once."""

import json

from barograph.events.records import Event
from barograph.site.visits import KEPT, changes

MEMBERS = {
    "key": "btc-funding-regime",
    "name": "BTC funding regime",
    "label": "neutral",
    "previous": "neutral",
    "venue": "bybit",
    "value": "+0.0100 % per 8 h",
    "slug": "a-brief",
    "headline": "Shorts {crowd} in",
    "symbol": "BTC",
    "feed": "market-feed",
    "kind": "rates-desk",
    "sequence": 3,
}


def an_event(number: int, kind: str = "signal.changed", **members: object) -> Event:
    body = {"id": number, "type": kind, "at": "then", **MEMBERS, **members}
    return Event(number, kind, 100 * number, (), json.dumps(body))


def told(events: list[Event]) -> list[tuple[int, str, str]]:
    return [(event.id, text.title, text.path) for event, text in changes(events)]


def test_a_type_or_a_member_that_is_missing_costs_nothing_else() -> None:
    bare = Event(2, "regime.changed", 200, (), '{"symbol": "BTC"}')

    assert told([an_event(1, "news.later"), bare]) == [
        (2, "BTC funding regime: unknown → unknown", "/signals/btc-funding-regime"),
        (1, "news.later", ""),
    ]


def test_a_label_that_went_back_and_forth_is_told_once() -> None:
    events = [
        an_event(1, key="other", name="Other"),
        an_event(2, "regime.changed"),
        an_event(3, label="long-leaning"),
        an_event(4, "brief.published"),
    ]

    assert told(events) == [
        (4, "Brief: Shorts {crowd} in", "/briefs/a-brief"),
        (3, "BTC funding regime: neutral → long-leaning", "/signals/btc-funding-regime"),
        (1, "Other: neutral → neutral", "/signals/other"),
    ]


def test_a_contract_is_told_once_and_another_one_by_itself() -> None:
    gone = [an_event(n, "contract.delisted", contract=f"C{n}", symbol=f"C{n}") for n in (2, 3)]

    assert told([an_event(1, "contract.listed", contract="C2", symbol="C2"), *gone]) == [
        (3, "C3 perpetual delisted from Bybit", "/markets/C3"),
        (2, "C2 perpetual delisted from Bybit", "/markets/C2"),
    ]


def test_only_the_newest_are_listed() -> None:
    events = [an_event(n, "brief.published", slug=f"brief-{n}") for n in range(1, 3 * KEPT)]

    assert [event.id for event, _ in changes(events)] == [*range(3 * KEPT - 1, 2 * KEPT - 1, -1)]
