"""Who may ask for signals how often: the anonymous allowance, keys, and whom it is charged to."""

import asyncio
from pathlib import Path

import pytest

from barograph.signals.endpoints import KEY_NOT_CHECKED
from support.clock import START
from support.service import Answer, Service, ask, fresh_service

PATH = "/api/v1/signals"
HOUR_S = 3_600
LIMIT_FIELDS = {
    *("ratelimit-policy", "ratelimit"),
    *("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"),
}


def remaining(answer: Answer) -> int:
    return int(answer.headers["x-ratelimit-remaining"])


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
    assert answers[0].headers["x-ratelimit-reset"] == str(START // 1000 + HOUR_S)
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
    service.clock.pass_seconds(HOUR_S)
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
        assert answer.headers["ratelimit-policy"] == '"bad-key";q=60;w=3600'
        assert answer.headers.keys() >= LIMIT_FIELDS | {"www-authenticate"}
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


def test_a_new_key_of_a_mailbox_ends_the_old_one(service: Service) -> None:
    old, new = service.create_key().key, service.create_key().key

    assert service.ask(PATH, x_api_key=old).status == 401
    assert service.ask(PATH, x_api_key=new).status == 200


def test_a_forged_forwarding_changes_nothing_without_trusted_proxies(side: Service) -> None:
    answers = [
        side.ask(PATH, x_forwarded_for=f"198.51.100.{n}", forwarded=f"for=198.51.100.{n}")
        for n in range(5)
    ]

    assert [remaining(each) for each in answers] == [119, 118, 117, 116, 115]


def test_callers_behind_a_trusted_proxy_are_told_apart_and_cannot_forge(tmp_path: Path) -> None:
    proxy, other = "10.1.2.3", "198.51.100.7"
    with fresh_service(tmp_path, trusted_proxies="10.0.0.0/8") as service:

        def left(peer: str, forwarded: str) -> int:
            return remaining(service.ask(PATH, peer=peer, x_forwarded_for=forwarded))

        assert left(proxy, other) == 119
        assert left(proxy, f"192.0.2.1, {other}") == 118
        assert left(proxy, f"192.0.2.2,{other}, 10.9.9.9") == 117
        assert left(proxy, "198.51.100.8") == 119
        assert left(other, "192.0.2.3") == 116
        assert remaining(service.ask(PATH, peer=proxy)) == 119


def test_ipv6_callers_are_counted_by_their_network(side: Service) -> None:
    def left(peer: str) -> int:
        return remaining(side.ask(PATH, peer=peer))

    assert left("2001:db8:0:1::1") == 119
    assert left("2001:db8:0:1:ffff:ffff:ffff:ffff") == 118
    assert left("2001:db8:0:2::1") == 119
    assert left("::ffff:198.51.100.7") == 119
    assert left("198.51.100.7") == 118


@pytest.mark.outcome(
    "The database is unavailable when signals are requested",
    "With a key: 503 with `Retry-After`, because it can't be checked. Without one: served.",
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


@pytest.mark.parametrize(
    "path", ["/api/agent", "/api/agent/market", "/api/status", "/badge/status.svg", "/signals"]
)
def test_no_other_free_read_has_an_allowance(market: Service, path: str) -> None:
    answers = [market.ask(path) for _ in range(125)]

    assert {each.status for each in answers} == {200}
    assert not LIMIT_FIELDS & answers[-1].headers.keys()
