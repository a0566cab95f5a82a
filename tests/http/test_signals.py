"""`/api/v1/signals`: every signal, fresh or `unknown`, within the caller's allowance."""

import re

import pytest

from barograph import NOTICE
from barograph.board.feeds import Publication
from barograph.markets.view import PERPETUALS
from barograph.signals.methods import METHODS
from barograph.signals.records import SIGNALS, Signal, Signals
from support.clock import START
from support.markets import reading, shares
from support.service import BASE_URL, Answer, Service

PATH = "/api/v1/signals"
BOUND_MS = 150_000
MARKET_BOUND_MS = 30_000
KEYS = [
    *("btc-funding-regime", "funding-breadth", "liquidation-pressure"),
    *("btc-long-accounts", "btc-open-interest-trend", "btc-realised-volatility"),
    *("cross-venue-funding", "btc-etf-flow", "us-rates"),
]
LIMIT_FIELDS = {
    *("ratelimit-policy", "ratelimit"),
    *("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"),
}


def labels(answer: Answer) -> dict[str, str]:
    return {each["key"]: each["label"] for each in answer.json()["signals"]}


def remaining(answer: Answer) -> int:
    return int(answer.headers["x-ratelimit-remaining"])


@pytest.mark.contract("endpoints.signals", "free.signals", "signals.envelope")
@pytest.mark.contract("versioning.signals-v1")
def test_the_envelope_has_exactly_the_contracts_members_in_order(market: Service) -> None:
    answer = market.ask(PATH)

    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    body = answer.json()
    assert list(body) == [
        *("ok", "version", "source", "updatedAt", "signals", "attribution", "docs")
    ]
    assert [body[name] for name in ("ok", "version", "source", "updatedAt")] == [
        *(True, "v1", "test venue", "2026-11-06T21:20:00.000Z")
    ]


@pytest.mark.contract("signals.signal", "free.signals")
def test_a_signal_has_exactly_the_contracts_members_and_all_are_words(market: Service) -> None:
    signals = market.ask(PATH).json()["signals"]

    assert [each["key"] for each in signals] == KEYS
    for each in signals:
        assert list(each) == ["key", "name", "label", "value", "url"]
        assert all(isinstance(value, str) and value for value in each.values())
        assert re.fullmatch("[a-z]+(-[a-z]+)*", each["label"])
    assert signals[0] == {
        "key": "btc-funding-regime",
        "name": "BTC funding regime",
        "label": "neutral",
        "value": "+0.0100 % per 8 h",
        "url": f"{BASE_URL}/signals/btc-funding-regime",
    }


@pytest.mark.contract("signals.attribution", "notice.briefs-guides-signals")
def test_the_attribution_holds_the_terms_and_the_notice(market: Service) -> None:
    attribution = market.ask(PATH).json()["attribution"].lower()

    assert "free for non-commercial use" in attribution
    assert "attribution is appreciated but not required" in attribution
    assert NOTICE.lower() in attribution


@pytest.mark.contract("signals.docs", "signals.signal", "service.base-address")
def test_every_link_is_absolute_and_leads_to_a_page(market: Service) -> None:
    body = market.ask(PATH).json()

    assert body["docs"] == f"{BASE_URL}/developers"
    for link in (body["docs"], *(each["url"] for each in body["signals"])):
        page = market.ask(link.removeprefix(BASE_URL))
        assert page.status == 200
        assert page.headers["content-type"].startswith("text/html")


@pytest.mark.contract("endpoints.signals")
@pytest.mark.parametrize("query", ["?limit=1", "?key=x", "?%ff=%00", "?", "?version=v2&ok=false"])
def test_a_query_is_ignored(market: Service, query: str) -> None:
    assert market.ask(PATH + query).body == market.ask(PATH).body


def test_new_signals_are_shown_with_their_time_and_the_old_etag_gets_them(service: Service) -> None:
    old = service.ask(PATH)
    service.clock.pass_seconds(60)
    service.publish(reading(service.clock.now), shares(service.clock.now))

    new = service.ask(PATH, if_none_match=old.headers["etag"])

    assert new.status == 200
    assert new.json()["updatedAt"] == "2026-11-06T21:21:00.000Z"
    assert new.headers["last-modified"] == "Fri, 06 Nov 2026 21:21:00 GMT"


@pytest.mark.outcome(
    "Signals are older than their freshness limit",
    "Every signal says `unknown` in a 200. `updatedAt` stays the time of the last evaluation.",
)
def test_every_signal_is_unknown_past_its_freshness_limit(side: Service) -> None:
    etag = side.ask(PATH).headers["etag"]
    side.clock.now = START + BOUND_MS - 1
    side.put(Publication.of(PERPETUALS, reading(side.clock.now)))
    assert labels(side.ask(PATH))["btc-funding-regime"] == "neutral"

    for late in (0, 1, 86_400_000):
        side.clock.now = START + BOUND_MS + late
        side.put(Publication.of(PERPETUALS, reading(side.clock.now)))
        answer = side.ask(PATH, if_none_match=etag)
        assert answer.status == 200
        assert labels(answer) == dict.fromkeys(KEYS, "unknown")
        assert answer.json()["updatedAt"] == "2026-11-06T21:20:00.000Z"
        assert {each["value"] for each in answer.json()["signals"]} == {"n/a"}


def test_before_anything_was_judged_every_signal_is_unknown(empty_service: Service) -> None:
    answer = empty_service.ask(PATH)

    assert (answer.status, answer.json()["ok"]) == (200, True)
    assert labels(answer) == dict.fromkeys(KEYS, "unknown")
    assert answer.json()["updatedAt"] == "1970-01-01T00:00:00.000Z"
    empty_service.watch_day()
    empty_service.publish(reading(), shares())
    assert labels(empty_service.ask(PATH))["btc-funding-regime"] == "neutral"


def test_a_judgement_from_the_future_is_unknown(service: Service) -> None:
    service.clock.now = START - 86_400_000

    assert set(labels(service.ask(PATH)).values()) == {"unknown"}


def test_a_collector_that_knows_other_signals_makes_none_disappear(empty_service: Service) -> None:
    known = METHODS[2]
    judged = (
        Signal("other", "Other", "calm", "1", START),
        Signal(known.key, known.name, "quiet", "2", START),
    )

    empty_service.put(
        Publication.of(SIGNALS, Signals(START, "test venue", judged)),
        Publication.of(PERPETUALS, reading()),
    )

    assert labels(empty_service.ask(PATH)) == dict.fromkeys(KEYS, "unknown") | {known.key: "quiet"}


@pytest.mark.outcome(
    "The market feed is stale when signals are requested",
    "Signals that depend on it say `unknown` in a 200, never 502.",
)
def test_signals_of_a_stale_market_are_unknown_and_never_502(side: Service) -> None:
    etag = side.ask(PATH).headers["etag"]
    side.clock.now = START + MARKET_BOUND_MS - 1
    assert side.ask("/api/agent/market").status == 200
    assert labels(side.ask(PATH))["btc-funding-regime"] == "neutral"

    side.clock.now = START + MARKET_BOUND_MS
    answer = side.ask(PATH, if_none_match=etag)

    assert side.ask("/api/agent/market").status == 502
    assert answer.status == 200
    assert labels(answer) == dict.fromkeys(KEYS, "unknown")
    assert answer.json()["updatedAt"] == "2026-11-06T21:20:00.000Z"


def test_head_and_304_count_as_much_as_a_read_and_no_shared_cache_may_keep_them(
    side: Service,
) -> None:
    whole = side.ask(PATH)
    tag = whole.headers["etag"]
    answers = [side.ask(PATH, "HEAD"), *(side.ask(PATH, if_none_match=each) for each in (tag, "*"))]

    assert [(each.status, each.body) for each in answers] == [(200, b""), (304, b""), (304, b"")]
    assert [remaining(each) for each in (whole, *answers)] == [119, 118, 117, 116]
    assert whole.headers["cache-control"] == "private, no-cache"
    assert whole.headers.keys() == LIMIT_FIELDS | {
        *("content-type", "content-length", "etag", "last-modified", "cache-control"),
        *("access-control-allow-origin", "access-control-expose-headers"),
        "x-content-type-options",
    }


def test_a_preflight_and_another_method_cost_nothing(side: Service) -> None:
    for method, status in (("OPTIONS", 204), ("POST", 405)):
        answer = side.ask(PATH, method, access_control_request_headers="x-api-key")
        assert (answer.status, LIMIT_FIELDS & answer.headers.keys()) == (status, set())
    assert remaining(side.ask(PATH)) == 119
