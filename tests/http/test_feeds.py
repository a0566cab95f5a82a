"""Atom and JSON feeds of briefs and events."""

import asyncio
from typing import Any

import feedparser
import pytest

from barograph import NOTICE
from barograph.events.records import EVENT_TYPES, EventType, NewEvent
from barograph.events.store import append_events
from barograph.kit.json import Json
from support.clock import START
from support.databases import bring_back, take_away
from support.markets import reading
from support.pages import NOTE, SiteService
from support.service import BASE_URL, Service

FEEDS = {
    "/briefs/feed.atom": "application/atom+xml",
    "/briefs/feed.json": "application/feed+json",
    "/api/v1/events/feed.atom": "application/atom+xml",
    "/api/v1/events/feed.json": "application/feed+json",
}
BRIEF = {"slug": NOTE.slug, "headline": NOTE.headline, "category": "note"}
MEMBERS: dict[EventType, dict[str, Json]] = {
    "regime.changed": {"symbol": "BTC", "label": "long-leaning", "previous": "neutral"},
    "signal.changed": {"key": "funding-breadth", "name": "Breadth", "label": "b", "previous": None},
    "brief.published": {**BRIEF, "symbols": ["BTC", "ETH"]},
    "brief.updated": {**BRIEF, "symbols": ["BTC", "ETH"], "version": 2},
    "contract.listed": {"venue": "bybit", "symbol": "PEPÉ", "contract": "PEPÉUSDT"},
    "contract.delisted": {"venue": "bybit", "symbol": "OLD", "contract": "O\x0bLD\uffffUSDT"},
    "feed.down": {"venue": "bybit", "feed": "market-feed"},
    "feed.recovered": {"venue": "bybit", "feed": "market-feed"},
    "venue.switched": {"venue": "hyperliquid", "previous": "bybit", "reason": "refused"},
    "stance.recorded": {"kind": "rates-desk", "sequence": 3, "history_digest": "ab"},
    "stance.withdrawn": {"kind": "rates-desk", "sequence": 1, "event_digest": "cd"},
    "history.merged": {"logs": []},
    "liquidations.filed": {"venue": "bybit", "day": "2026-11-14", "rows": 3, "sha256": "ab"},
    "reveal.announced": {"after_days": 7},
    "accuracy.defined": {"definition": {"method": "a"}},
}


def record_events(service: Service, count: int = 1) -> None:
    """One event of each type, `count` times."""
    events = [
        NewEvent(each, START + number, f"{number}", MEMBERS[each])
        for number in range(count)
        for each in EVENT_TYPES
    ]
    asyncio.run(service.database.write(lambda tx: append_events(tx, events)))
    service.refresh()


def items(service: Service, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.ask(path).json()["items"]
    return found


@pytest.mark.parametrize("path", [path for path in FEEDS if path.endswith(".atom")])
@pytest.mark.parametrize("is_empty", [False, True])
def test_feedparser_has_no_complaint(
    site: SiteService, empty_service: Service, path: str, *, is_empty: bool
) -> None:
    record_events(site.service)
    service = empty_service if is_empty else site.service
    found = feedparser.parse(service.ask(path).body)
    twin = items(service, path.replace(".atom", ".json"))

    # The name of a contract has control characters.
    assert (found.bozo, found.version) == (False, "atom10")
    assert found.feed.id == BASE_URL + path
    assert {each.rel for each in found.feed.links} == {"self", "alternate"}
    assert NOTICE in found.feed.rights
    assert found.feed.updated == max(
        (each["date_published"] for each in twin), default="1970-01-01T00:00:00.000Z"
    )
    assert [(each.id, each.link, each.title_detail.value) for each in found.entries] == [
        (each["id"], each["url"], each["title"]) for each in twin
    ]


def test_a_brief_in_a_feed_is_its_page_without_markup_from_its_text(site: SiteService) -> None:
    entries = items(site.service, "/briefs/feed.json")
    note = next(each for each in entries if each["title"] == NOTE.headline)
    page = site.service.ask(note["url"].removeprefix(BASE_URL)).body.decode()
    raw = site.service.ask("/briefs/feed.atom").body

    assert note["id"] == note["url"] == f"{BASE_URL}/briefs/{NOTE.slug}"
    assert "A summary with &lt;i&gt;marks&lt;/i&gt;." in note["content_html"]
    assert note["content_html"].partition("\n")[2] in page
    assert "<script" not in note["content_html"]
    assert b"&amp;lt;script&amp;gt;" in raw
    assert note["tags"] == ["note", "BTC", "ETH"]


def test_every_type_of_event_has_a_title_in_words_and_a_page(site: SiteService) -> None:
    record_events(site.service)
    site.service.execute("INSERT INTO listings VALUES ('bybit', 'OLDUSDT', 1, 2, 'OLD', 1)")
    entries = items(site.service, "/api/v1/events/feed.json")[: len(EVENT_TYPES)]

    assert [each["title"] for each in reversed(entries)] == [
        "BTC funding regime: neutral → long-leaning",
        "Breadth: unknown → b",
        "Brief: Fees & <b>spreads</b>",
        "Brief updated: Fees & <b>spreads</b>",
        "PEPÉ perpetual listed on Bybit",
        "OLD perpetual delisted from Bybit",
        "Market data from Bybit is down",
        "Market data is fresh again, from Bybit",
        "Market data now comes from Hyperliquid",
        "Stance “US rates”: version 3 recorded",
        "Stance “US rates”: a version was withdrawn",
        "Liquidations of 2026-11-14 on Bybit: 3 in the daily file",
        "Days until new stances become public: 7",
        "New definition of the accuracy figures",
        "The logs of stances became part of this log",
    ]
    for entry, event in zip(reversed(entries), EVENT_TYPES, strict=True):
        page = site.service.ask(entry["url"].removeprefix(BASE_URL))
        # 503: the record doesn't hold the versions that these events name.
        expected = {"contract.listed": 404, "history.merged": 503}.get(event, 200)
        assert page.status == expected, entry["url"]
        alone = site.service.ask(entry["id"].removeprefix(BASE_URL)).json()
        assert [each["type"] for each in alone["events"]] == [event]


def test_a_feed_has_the_newest_fifty_and_changes_with_its_data_alone(site: SiteService) -> None:
    site.service.publish(reading())
    record_events(site.service, 7)
    before = [site.service.ask(path) for path in FEEDS]
    site.service.publish(reading())
    same = [site.service.ask(path) for path in FEEDS]
    record_events(site.service, 8)
    after = [site.service.ask(path) for path in FEEDS]
    old, new = ([each["id"] for each in got[3].json()["items"]] for got in (before, after))

    assert same == before
    assert after[:2] == before[:2]
    assert (len(old), len(new)) == (50, 50)
    assert old[: -len(EVENT_TYPES)] == new[len(EVENT_TYPES) :]


def test_briefs_that_cannot_be_read_are_503_and_known_events_stay(site: SiteService) -> None:
    record_events(site.service)
    take_away(site.service.settings.database_path)
    briefs, events = (site.service.ask(path) for path in list(FEEDS)[1::2])
    bring_back(site.service.settings.database_path)

    assert (briefs.status, briefs.headers["retry-after"]) == (503, "5")
    assert events.status == 200


def test_every_page_names_the_feeds(site: SiteService) -> None:
    for path in ("/", "/briefs", "/status"):
        page = site.service.ask(path).body.decode()
        for feed, media_type in FEEDS.items():
            assert f'<link rel="alternate" type="{media_type}"' in page
            assert f'href="{feed}">' in page
    assert '<a href="/briefs/feed.atom">Atom</a>' in site.service.ask("/briefs").body.decode()
