"""`/api/v1/signals`: every signal, fresh or `unknown`, and who may ask how often."""

import asyncio
import re

import pytest

from barograph import NOTICE
from barograph.board.feeds import Publication
from barograph.markets.view import PERPETUALS
from barograph.signals.endpoints import KEY_NOT_CHECKED
from barograph.signals.methods import METHODS
from barograph.signals.records import SIGNALS, Signal, Signals
from support.clock import START
from support.markets import reading, shares
from support.service import BASE_URL, Answer, Service, ask

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
    "All say `unknown` in a 200. `updatedAt` stays the time of the last evaluation.",
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
    "The market feed is stale when signals are read",
    "Signals that depend on it say `unknown` in a 200, never 502 or their last label.",
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


def statuses(service: Service, times: int, **headers: str) -> list[int]:
    return [service.ask(PATH, **headers).status for _ in range(times)]


@pytest.mark.contract("limits.signals.anonymous", "auth.signals-none")
@pytest.mark.not_on_servers("the test expects exact times, and the clock of Valkey runs")
def test_without_a_key_120_requests_are_accepted_and_the_121st_is_429(side: Service) -> None:
    answers = [side.ask(PATH) for _ in range(120)]
    refused = side.ask(PATH)

    assert [each.status for each in answers] == [200] * 120
    assert [remaining(each) for each in answers] == list(range(119, -1, -1))
    assert answers[0].headers["ratelimit-policy"] == '"anon";q=120;w=3600'
    assert answers[0].headers["ratelimit"] == '"anon";r=119;t=3600'
    assert answers[0].headers["x-ratelimit-limit"] == "120"
    assert answers[0].headers["x-ratelimit-reset"] == str(START // 1000 + 3_600)
    assert refused.status == 429
    assert refused.headers["ratelimit"] == '"anon";r=0;t=3600'


@pytest.mark.contract("limits.signals.exceeded")
@pytest.mark.not_on_servers("the test moves the clock, and Valkey counts by its own")
def test_a_429_says_clearly_what_to_do_and_is_kept_by_nobody(side: Service) -> None:
    etag = side.ask(PATH).headers["etag"]
    statuses(side, 119)
    side.clock.pass_seconds(60)

    answer, head = side.ask(PATH, if_none_match=etag), side.ask(PATH, "HEAD")

    assert (answer.status, head.status, head.body) == (429, 429, b"")
    assert answer.json() == {
        "error": "too many requests: 120 requests without a key are allowed in any hour; try again "
        "in 3540 seconds, or get a free key for 1,000 requests per hour with POST /api/v1/keys"
    }
    assert answer.headers["retry-after"] == "3540"
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers.keys() >= LIMIT_FIELDS
    assert "etag" not in answer.headers


@pytest.mark.contract("limits.signals.personal-key", "auth.key-raises-allowance")
@pytest.mark.contract("auth.key-presented")
@pytest.mark.not_on_servers("the test moves the clock, and Valkey counts by its own")
def test_with_a_key_1000_requests_are_accepted_and_its_owner_is_not_charged_without(
    service: Service,
) -> None:
    key = service.create_key().key

    answers = [service.ask(PATH, x_api_key=key) for _ in range(1_000)]
    refused = service.ask(PATH, x_api_key=key)

    assert {each.status for each in answers} == {200}
    assert [remaining(each) for each in answers] == list(range(999, -1, -1))
    assert answers[0].headers["ratelimit-policy"] == '"key";q=1000;w=3600'
    assert refused.status == 429
    assert "1,000 requests with this key" in refused.json()["error"]
    assert refused.headers["retry-after"] == "3600"
    assert remaining(service.ask(PATH)) == 119
    service.clock.pass_seconds(3_600)
    assert remaining(service.ask(PATH, x_api_key=key)) == 999


@pytest.mark.contract("auth.key-raises-allowance")
def test_a_key_is_one_allowance_from_everywhere_and_gets_the_same_bytes(side: Service) -> None:
    first, second = (side.create_key(f"{name}@example.com").key for name in ("one", "two"))

    seen = [side.ask(PATH, peer=f"198.51.100.{n}", x_api_key=first) for n in range(3)]

    assert [remaining(each) for each in seen] == [999, 998, 997]
    assert remaining(side.ask(PATH, x_api_key=second)) == 999
    assert {each.body for each in seen} == {side.ask(PATH).body}
    assert seen[0].headers["cache-control"] == "private, no-cache"


def bad_keys(service: Service) -> list[list[tuple[str, str]]]:
    """Ways to present a key that is not valid; the real one is near all of them."""
    key, revoked = service.create_key().key, service.create_key("other@example.com")
    assert asyncio.run(service.keys.revoke(revoked.id))
    wrong = key[:-1] + ("0" if key[-1] != "0" else "1")
    texts = ["unknown", key[:-1], key.upper(), revoked.key, "", wrong, f"{key} ", f"Bearer {key}"]
    texts += [key + "0", "bg_" + "0" * 16 + "_" + "0" * 64, "x" * 5_000, "\u00e9", "' OR 1=1 --"]
    return [[("X-API-Key", text)] for text in texts] + [[("X-API-Key", key)] * 2]


@pytest.mark.parametrize("is_spent", [False, True], ids=["fresh", "spent"])
def test_a_key_that_is_not_valid_is_401_and_never_falls_to_the_anonymous_allowance(
    side: Service, is_spent: bool
) -> None:
    before = 120 if is_spent else 0
    statuses(side, before)

    for fields in bad_keys(side):
        answer = ask(side.app, PATH, fields=fields)
        assert answer.status == 401
        assert list(answer.json()) == ["error"]
        assert "not valid" in answer.json()["error"]
        for remedy in ("X-API-Key", "POST /api/v1/keys"):
            assert remedy in answer.json()["error"]
        assert answer.headers["www-authenticate"] == 'ApiKey header="X-API-Key"'
        assert "retry-after" not in answer.headers
        assert answer.headers["ratelimit-policy"] == '"bad-key";q=60;w=3600'
        assert answer.headers.keys() >= LIMIT_FIELDS
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["access-control-allow-origin"] == "*"
    last = side.ask(PATH)
    assert (last.status, remaining(last)) == ((429, 0) if is_spent else (200, 119))


def test_api_key_outside_its_header_is_ignored(side: Service) -> None:
    key = side.create_key().key

    for headers in ({"authorization": f"Bearer {key}"}, {"cookie": f"X-API-Key={key}"}):
        assert side.ask(PATH, **headers).headers["x-ratelimit-limit"] == "120"
    assert side.ask(f"{PATH}?x-api-key={key}").headers["x-ratelimit-limit"] == "120"


@pytest.mark.not_on_servers("the test expects exact times, and the clock of Valkey runs")
def test_invalid_keys_have_a_separate_limit(side: Service) -> None:
    key = side.create_key().key
    assert statuses(side, 60, x_api_key="unknown") == [401] * 60

    refused = side.ask(PATH, x_api_key="unknown")

    assert refused.status == 429
    assert refused.headers["ratelimit-policy"] == '"bad-key";q=60;w=3600'
    assert refused.headers["retry-after"] == "3600"
    assert side.ask(PATH, x_api_key="unknown", peer="198.51.100.9").status == 401
    assert remaining(side.ask(PATH)) == 119
    assert remaining(side.ask(PATH, x_api_key=key)) == 999


@pytest.mark.outcome(
    "The database is unavailable when signals are requested",
    "With a key, 503 with `Retry-After`. Without one, served.",
)
def test_without_the_database_keys_get_503_and_other_callers_are_served(side: Service) -> None:
    key = side.create_key().key
    side.execute("ALTER TABLE api_keys RENAME TO away")

    refused = side.ask(PATH, x_api_key=key)

    assert refused.status == 503
    assert refused.json() == {"error": KEY_NOT_CHECKED}
    assert refused.headers["retry-after"] == "5"
    assert refused.headers["ratelimit-policy"] == '"key";q=1000;w=3600'
    assert LIMIT_FIELDS & refused.headers.keys() == {"ratelimit-policy"}
    assert refused.headers["cache-control"] == "no-store"
    assert side.ask(PATH, x_api_key="unknown").status == 401
    assert remaining(side.ask(PATH)) == 119
    side.execute("ALTER TABLE away RENAME TO api_keys")
    assert remaining(side.ask(PATH, x_api_key=key)) == 999
