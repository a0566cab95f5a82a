"""`/api/v1/events`: one log of what changed, by pages, without a gap."""

import asyncio
from typing import Any

from barograph import NOTICE
from barograph.collector.judge import write_conclusions
from barograph.errors import Unreachable
from barograph.events.documents import EventList
from barograph.events.records import RECENT, NewEvent
from barograph.history.ledger import Ledger
from barograph.kit.timestamps import DAY, MINUTE, SECOND, iso_timestamp
from barograph.markets.market_events import DELISTED_AFTER
from barograph.markets.reader import MarketReader, freshness_limits
from barograph.stances.log_entries import LogEntries
from support.clock import START
from support.databases import bring_back, take_away
from support.events import add_events, change
from support.lists import pages
from support.markets import BTC, ETH, MARKET, PEPE, changed, reading
from support.service import BASE_URL, Service
from support.stances import FUNDING, proposal

PATH = "/api/v1/events"


def store(service: Service, new: list[NewEvent]) -> None:
    asyncio.run(add_events(service.database, new))
    service.refresh()


def append(service: Service, count: int, **members: Any) -> None:
    start = len(service.rows("SELECT id FROM events"))
    numbers = range(start, start + count)
    store(service, [change(number, "signal.changed", **members) for number in numbers])


def listed(service: Service, query: str = "") -> list[dict[str, Any]]:
    """Every event from an address on, by following `next`."""
    bodies = list(pages(service, f"{PATH}?{query}"))
    for body in bodies:
        EventList.model_validate(body)
        assert body["count"] == len(body["events"])
    return [event for body in bodies for event in body["events"]]


def test_following_next_gives_every_event_once_in_order(service: Service) -> None:
    append(service, RECENT + 77)

    ids = [each["id"] for each in listed(service, "limit=50")]

    assert ids == list(range(1, len(ids) + 1))
    assert len(ids) > RECENT + 77


def test_a_poll_for_what_is_new_needs_no_database(service: Service) -> None:
    append(service, 5)
    last = listed(service)[-1]["id"]
    take_away(service.settings.database_path)

    assert listed(service, f"after={last}") == []
    assert [each["id"] for each in listed(service, f"after={last - 2}")] == [last - 1, last]
    assert service.ask(f"{PATH}?since=2026-11-06").status == 503
    bring_back(service.settings.database_path)


def test_a_poller_starts_from_now_with_the_last_id(service: Service) -> None:
    append(service, RECENT + 10)
    service.clock.pass_seconds(90)
    service.refresh()
    for query in ("limit=1", "after=1&limit=1", "type=feed.down"):
        page = service.ask(f"{PATH}?{query}").json()
        assert list(page)[4:7] == ["count", "last_id", "events"]
        assert page["as_of"] == "2026-11-06T21:21:00.000Z"
        assert listed(service, f"after={page['last_id']}") == []
    # The log of another worker is ahead of this one's.
    asyncio.run(add_events(service.database, [change(9_999)]))
    assert listed(service, f"after={page['last_id'] + 1}") == []


def test_filters_leave_out_other_types_and_symbols(service: Service) -> None:
    append(service, 300, symbol="ETH")
    append(service, 2, symbols=["SOL", "BTC"])

    found = listed(service, "type=signal.changed&symbol=solana,PEPE&limit=1")

    assert [each["symbols"] for each in found] == [["SOL", "BTC"]] * 2
    assert {each["type"] for each in listed(service, "type=regime.changed")} == {"regime.changed"}


def test_a_time_finds_the_first_event_since_then(service: Service) -> None:
    append(service, RECENT + 10)
    since = START + RECENT + 5

    found = listed(service, f"since={since}")

    assert found[0]["at"] == "2026-11-06T21:20:00.205Z"
    assert found[-1]["id"] == listed(service)[-1]["id"]
    append(service, 1)
    assert len(listed(service, f"since={since}")) == len(found) + 1  # not a minute later


def test_a_regime_change_and_the_signals_are_in_the_log(service: Service) -> None:
    for minute in range(1, 30):
        hot = changed(BTC, funding_rate_pct=0.09)
        service.clock.now = START + minute * MINUTE
        service.publish(reading(service.clock.now, (hot, *MARKET[1:])))

    changes = [each for each in listed(service) if each["type"] == "regime.changed"]

    assert [each["label"] for each in changes] == ["neutral", "long-crowded"]
    assert changes[1] | {"id": 0, "at": ""} == {
        "id": 0,
        "type": "regime.changed",
        "at": "",
        "notice": NOTICE,
        "venue": "bybit",
        "symbol": "BTC",
        "label": "long-crowded",
        "previous": "neutral",
        "fundingRatePct8h": 0.09,
    }
    signals = [each for each in listed(service) if each.get("key") == "btc-funding-regime"]
    assert (signals[-1]["previous"], signals[-1]["label"]) == ("neutral", "long-crowded")


def test_a_contract_is_listed_at_once_and_delisted_after_15_minutes(
    service: Service,
) -> None:
    doge = changed(PEPE, contract="DOGEUSDT", base="DOGE")
    for after in (0, DELISTED_AFTER - SECOND):
        service.publish(reading(START + MINUTE + after, (BTC, *MARKET[2:], doge)))
        assert not [each for each in listed(service) if each["type"] == "contract.delisted"]
    service.publish(reading(START + MINUTE + DELISTED_AFTER, (BTC, *MARKET[2:], doge)))
    service.publish(reading(START + DAY, (BTC, ETH, *MARKET[2:], doge)))

    found = [each for each in listed(service) if each["type"].startswith("contract.")]

    assert [(each["type"], each["contract"], each["at"][11:16]) for each in found] == [
        ("contract.listed", "DOGEUSDT", "21:21"),
        ("contract.delisted", "ETHUSDT", "21:36"),
        ("contract.listed", "ETHUSDT", "21:20"),
    ]
    assert found[1]["missing_since"][11:16] == "21:21"
    assert listed(service, "symbol=dogecoin") == found[:1]


def test_an_outage_is_recorded_once_although_collector_and_web_see_it(service: Service) -> None:
    limit = int(service.settings.feed_max_age_seconds)
    web = MarketReader(freshness_limits(service.settings))
    assert web.outages(service.board, service.clock()) == []
    for _ in range(3):
        service.clock.pass_seconds(limit)
        service.publish_failure(Unreachable("no reply"))
        store(service, web.outages(service.board, service.clock()))
    publish_now(service)
    for _ in range(3):  # the database takes no reading, and the web notices it
        service.clock.pass_seconds(limit - 1)
        service.judge.conclude(reading(service.clock()), service.clock())
    store(service, web.outages(service.board, service.clock()))
    publish_now(service)

    found = [each for each in listed(service) if each["type"].startswith("feed.")]

    assert [each["type"] for each in found] == ["feed.down", "feed.recovered"] * 2
    assert {(each["venue"], each["feed"]) for each in found} == {("bybit", "market-feed")}
    assert found == sorted(found, key=lambda each: each["at"])
    assert found[0]["stale_since"] == iso_timestamp(START + limit * SECOND)


def publish_now(service: Service) -> None:
    """Publish a reading that has just arrived."""
    at = service.clock.now = service.clock() + SECOND
    conclusion = service.judge.conclude(reading(at), at)
    asyncio.run(write_conclusions(service.database, service.lease, [conclusion]))
    service.judge.written(conclusion)
    service.refresh()


def test_recorded_versions_are_announced_once_with_their_digest_only(service: Service) -> None:
    ledger = Ledger(service.history, service.clock)
    recorded = asyncio.run(ledger.append(proposal())).version
    for _ in range(2):
        # The second one is another collector, which knows nothing of the first.
        entries = LogEntries(service.database, ledger, BASE_URL, service.clock)
        asyncio.run(entries.append(service.lease))
    service.refresh()

    (found,) = [each for each in listed(service) if each["type"] == "stance.recorded"]

    assert found | {"id": 0, "at": ""} == {
        "id": 0,
        "type": "stance.recorded",
        "at": "",
        "notice": NOTICE,
        "kind": FUNDING,
        "sequence": 1,
        "history_digest": recorded.history_digest,
    }
