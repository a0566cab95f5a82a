"""`/api/agents/material-change`: who gets in, which pair it compares, and how it refuses."""

import asyncio
import base64
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from barograph.history.records import Version
from barograph.kit.timestamps import DAY
from barograph.web.app import Timeouts
from support.history import tamper
from support.service import BASE_URL, Answer
from support.stances import FUNDING, PERIOD, RATES, proposal
from support.subscribers import (
    ENTITLED_PATHS,
    FEED_ENTRY,
    FEED_TOKEN,
    MATERIAL_CHANGE,
    PLAIN_TOKEN,
    RESERVE_TOKEN,
    SubscriberService,
    comparison_of,
)

Pair = tuple[Version, Version]

ALL_METHODS = ("HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW")


@pytest.fixture
def pair(subscribed: SubscriberService) -> Pair:
    return subscribed.two_versions()


def is_private(answer: Answer) -> bool:
    fields = answer.headers
    return (
        fields["cache-control"] == "private, no-store"
        and fields["content-type"] == "application/json"
        and "etag" not in fields
        and not any(name.startswith("access-control") for name in fields)
    )


def refused(answer: Answer, status: int, code: str) -> bool:
    body = answer.json()
    is_told = (answer.status, list(body), body["error"]) == (status, ["error", "message"], code)
    return is_told and is_private(answer)


def test_entitled_answers_are_never_compressed(subscribed: SubscriberService, pair: Pair) -> None:
    fields = {"authorization": f"Bearer {FEED_TOKEN}", "accept_encoding": "gzip"}
    for path in (comparison_of(*pair), *ENTITLED_PATHS):
        headers = subscribed.ask(path, **fields).headers
        assert not headers.keys() & {"content-encoding", "vary"}


@pytest.mark.contract("material-change.compares-two-latest", "material-change.purpose")
@pytest.mark.contract("comparison.schema", "comparison.further-members")
@pytest.mark.contract("versioning.comparison-schema", "auth.bearer.header", "auth.material-change")
@pytest.mark.contract("material-change.no-store", "material-change.certifies-nothing")
def test_a_feed_subscriber_compares_the_latest_two_versions(
    subscribed: SubscriberService, pair: Pair
) -> None:
    answer = subscribed.compare(*pair)
    body = answer.json()
    assert answer.status == 200
    assert is_private(answer)
    assert list(body) == [
        *("schema", "kind", "before", "after", "compared_at", "assessment", "notice")
    ]
    assert (body["schema"], body["kind"]) == ("feed-material-change-v1", FUNDING)
    assert body["assessment"]["change"] == "decision_revision_only"
    for side, version in zip(("before", "after"), pair, strict=True):
        assert list(body[side].items())[:3] == [
            ("leg_id", version.leg_id),
            ("revision", version.revision),
            ("history_digest", version.history_digest),
        ]
        assert list(body[side])[3:] == ["issued_at"]
    assert body["notice"] == "Information only, not financial advice."
    assert "edge" not in json.dumps(body["assessment"])


@pytest.mark.parametrize("method", ALL_METHODS)
@pytest.mark.contract("material-change.only-get", "errors.material-change-body")
@pytest.mark.contract("errors.method-not-allowed")
def test_any_method_but_get_is_refused_before_anything_else(
    subscribed: SubscriberService, pair: Pair, method: str
) -> None:
    answer = subscribed.ask(comparison_of(*pair), method, authorization=f"Bearer {FEED_TOKEN}")

    assert refused(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "GET"
    assert subscribed.identities.asked == []


@pytest.mark.parametrize("path", [*ENTITLED_PATHS, FEED_ENTRY])
@pytest.mark.contract("errors.not-found")
def test_while_feed_x402_is_disabled_nothing_is_found_without_a_bearer(
    subscribed: SubscriberService, path: str
) -> None:
    proof = "eyJ4NDAyVmVyc2lvbiI6Mn0="
    answers = [
        subscribed.ask(path),
        subscribed.ask(path, payment_signature=proof),
        subscribed.ask(path, x_payment=proof),
    ]
    if path == FEED_ENTRY:
        answers.append(subscribed.read(path))

    assert all(refused(answer, 404, "not_found") for answer in answers)


@pytest.mark.parametrize(
    "fields",
    [
        {"cookie": f"access_token={FEED_TOKEN}; sb-access-token={FEED_TOKEN}"},
        *({"x_api_key": FEED_TOKEN}, {"authorization": f"Basic {FEED_TOKEN}"}),
        *({"authorization": each} for each in (FEED_TOKEN, "Bearer", "Bearer ", "")),
        {"x_user_id": "user-feed", "x_wallet": "0x" + "1" * 40},
        {"body": f'{{"email": "name@example.com", "access_token": "{FEED_TOKEN}"}}'},
    ],
    ids=[
        *("cookie", "api-key", "basic", "bare", "no-token", "empty-token", "empty"),
        *("identifiers", "body"),
    ],
)
@pytest.mark.contract("auth.not-accepted")
def test_what_is_no_credential_counts_as_none(
    subscribed: SubscriberService, pair: Pair, fields: dict[str, str]
) -> None:
    named = f"&email=name@example.com&wallet=0x{'1' * 40}&customer=user-feed"
    for target in (comparison_of(*pair), comparison_of(*pair) + named):
        assert refused(subscribed.ask(target, **fields), 404, "not_found")
    assert subscribed.identities.asked == []


@pytest.mark.contract("auth.not-accepted")
def test_a_personal_api_key_does_not_open_feed(subscribed: SubscriberService, pair: Pair) -> None:
    key = subscribed.create_key().key
    as_bearer = subscribed.compare(*pair, token=key)
    as_key = subscribed.ask(comparison_of(*pair), x_api_key=key)

    assert refused(as_bearer, 401, "verified_feed_identity_required")
    assert refused(as_key, 404, "not_found")


@pytest.mark.parametrize("path", ENTITLED_PATHS)
@pytest.mark.contract("errors.verified-feed-identity-required")
def test_a_token_that_does_not_verify_is_401(subscribed: SubscriberService, path: str) -> None:
    answer = subscribed.read(path, token="nobody-knows-it")
    assert refused(answer, 401, "verified_feed_identity_required")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", ENTITLED_PATHS)
@pytest.mark.contract("errors.feed-entitlement-required", "errors.material-change-body")
@pytest.mark.contract("errors.402-feed-entry-resource", "errors.402-no-second-payment")
@pytest.mark.contract("material-change.requires-feed")
def test_a_verified_user_without_feed_gets_402_with_the_entry_resource(
    subscribed: SubscriberService, path: str
) -> None:
    subscribed.issue_all()
    answer = subscribed.read(path, token=PLAIN_TOKEN)
    body = answer.json()
    assert answer.status == 402
    assert is_private(answer)
    assert body["x402Version"] == 2
    assert body["error"] == "Active verified Feed entitlement required"
    assert body["accepts"] == []
    assert body["resource"]["url"] == f"{BASE_URL}/pricing"
    assert "not pay again" in body["resource"]["description"]
    assert json.loads(base64.b64decode(answer.headers["payment-required"])) == body


@pytest.mark.contract("auth.reserve-insufficient", "auth.bearer.verified-and-entitled")
def test_reserve_only_caller_gets_402_and_so_does_a_lapsed_entitlement(
    subscribed: SubscriberService, pair: Pair
) -> None:
    assert subscribed.compare(*pair, token=RESERVE_TOKEN).status == 402
    subscribed.grant("user-reserve", "feed")
    for token in (RESERVE_TOKEN, FEED_TOKEN):
        assert subscribed.compare(*pair, token=token).status == 200
    subscribed.clock.now += 30 * DAY
    assert subscribed.compare(*pair).status == 402


@pytest.mark.contract("material-change.order.identity-before-query")
@pytest.mark.contract("material-change.order.identity-before-history")
def test_identity_and_entitlement_come_before_query_and_history(
    subscribed: SubscriberService,
) -> None:
    subscribed.lose_history()
    malformed = f"{MATERIAL_CHANGE}?kind=nonsense"
    assert subscribed.ask(malformed).status == 404
    assert subscribed.read(malformed, token="nobody-knows-it").status == 401
    assert subscribed.read(malformed, token=PLAIN_TOKEN).status == 402
    assert refused(subscribed.read(malformed), 400, "invalid_comparison_reference")


@pytest.mark.contract("stance.only-durable-referenced")
def test_an_eighth_parameter_and_a_digest_of_nothing_durable_are_400(
    subscribed: SubscriberService, pair: Pair
) -> None:
    targets = [f"{comparison_of(*pair)}&{extra}" for extra in ("utm_source=x", "limit=2", "=", "a")]
    targets += [comparison_of(*pair, after_digest=digest) for digest in ("null", "None", "")]
    for target in targets:
        assert refused(subscribed.read(target), 400, "invalid_comparison_reference"), target


def unavailable(answer: Answer) -> bool:
    return refused(answer, 404, "comparison_reference_unavailable")


@pytest.mark.contract("errors.comparison-reference-unavailable", "errors.404-caller-stops")
@pytest.mark.contract("material-change.query.before-digest", "material-change.query.after-digest")
def test_a_pair_that_is_mismatched_in_any_member_is_unavailable(
    subscribed: SubscriberService, pair: Pair
) -> None:
    before, after = pair
    assert "stop" in subscribed.compare(after, before).json()["message"]
    for changes in (
        {"before_digest": after.history_digest},
        {"after_digest": "0" * 64},
        {"before_digest": before.leg.evidence.digest},
        {"before_revision": "2"},
        {"after_revision": "1"},
        {"after_revision": "2147483647"},
        {"before_leg": "another"},
        {"after_leg": after.leg_id.lower()},
        {"after_leg": after.leg_id.replace(".000Z", "Z")},
        {"kind": RATES},
    ):
        assert unavailable(subscribed.compare(before, after, **changes)), changes
    assert unavailable(subscribed.compare(after, before))
    assert unavailable(subscribed.compare(after, after))


@pytest.mark.contract("material-change.pair.newest-and-preceding")
@pytest.mark.contract("material-change.pair.counts-all-versions", "material-change.no-discovery")
def test_only_the_newest_and_the_one_immediately_before_it_are_compared(
    subscribed: SubscriberService,
) -> None:
    (first,) = subscribed.record(proposal())
    assert unavailable(subscribed.compare(first, first))
    second, third = subscribed.record(proposal(label="cautious", by="operator"), proposal(1))
    assert unavailable(subscribed.compare(first, second))  # no longer the latest two
    assert unavailable(subscribed.compare(first, third))  # skips one
    assert subscribed.compare(second, third).status == 200


@pytest.mark.contract("material-change.expired-or-terminal-unavailable", "stance.transitions")
@pytest.mark.contract("stance.states")
def test_an_expired_or_withdrawn_latest_version_makes_a_comparison_unavailable(
    subscribed: SubscriberService, pair: Pair
) -> None:
    _, after = pair
    subscribed.clock.now += PERIOD - 1
    assert subscribed.compare(*pair).status == 200
    subscribed.clock.now += 1
    assert unavailable(subscribed.compare(*pair))
    subscribed.clock.now -= PERIOD
    asyncio.run(subscribed.withdraw(after))
    assert unavailable(subscribed.compare(*pair))
    (third,) = subscribed.record(proposal(1))
    assert subscribed.compare(after, third).status == 200  # open again


@pytest.mark.contract("material-change.recheck", "material-change.bounded-reads")
@pytest.mark.parametrize("event", ["moved", "withdrawn", "expired"])
def test_what_happens_between_the_two_looks_is_not_given_away(
    subscribed: SubscriberService, pair: Pair, event: str
) -> None:
    async def meanwhile() -> None:
        if event == "moved":
            await subscribed.ledger.append(proposal(1))
        elif event == "withdrawn":
            await subscribed.withdraw(pair[1])
        else:
            subscribed.clock.now += PERIOD

    subscribed.after_first_look(meanwhile)
    assert unavailable(subscribed.compare(*pair))
    assert subscribed.watched.looks == 2


async def fail() -> None:
    raise RuntimeError("secret detail")


def change_a_document(service: SubscriberService) -> None:
    change = "UPDATE stance_versions SET document = replace(document, 'cautious', 'neutral')"
    asyncio.run(tamper(service.history, change))


FAILURES: dict[str, Callable[[SubscriberService], object]] = {
    "entitlements unreadable": lambda service: service.execute(
        "ALTER TABLE entitlements RENAME TO aside"
    ),
    "identity provider away": lambda service: setattr(service.identities, "is_down", True),
    "history unreadable": SubscriberService.lose_history,
    "version damaged": change_a_document,
    "not foreseen": lambda service: setattr(service.identities, "before_answer", fail),
}


@pytest.mark.contract("errors.comparison-unavailable")
@pytest.mark.parametrize("failure", FAILURES)
def test_what_cannot_be_compared_is_503_and_says_nothing_of_its_cause(
    subscribed: SubscriberService, pair: Pair, failure: str
) -> None:
    FAILURES[failure](subscribed)
    answer = subscribed.compare(*pair)
    assert refused(answer, 503, "comparison_unavailable")
    assert b"secret" not in answer.body


@pytest.mark.contract("errors.comparison-unavailable", "material-change.bounded-reads")
def test_what_takes_longer_than_the_budget_is_503(tmp_path: Path) -> None:
    service = SubscriberService(tmp_path, timeouts=Timeouts(entitled_read=0.05))
    pair = service.two_versions()
    service.identities.before_answer = partial(asyncio.sleep, 3_600)
    assert refused(service.compare(*pair), 503, "comparison_unavailable")
    service.close()


@pytest.mark.contract("material-change.no-charge")
def test_a_comparison_changes_no_row_anywhere(subscribed: SubscriberService, pair: Pair) -> None:
    before = subscribed.counts()
    assert len(before) > 10
    assert subscribed.compare(*pair).status == 200
    assert subscribed.compare(*pair, token=PLAIN_TOKEN).status == 402
    assert unavailable(subscribed.compare(pair[1], pair[0]))
    assert subscribed.counts() == before
