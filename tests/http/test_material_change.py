"""`/api/agents/material-change`: who gets in, which pair it compares, and how it refuses."""

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.history.records import Version
from barograph.kit.timestamps import DAY
from barograph.web.app import Timeouts
from support.history import tamper
from support.service import BASE_URL, Answer, ask
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

ALL_METHODS = ("HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW")
UNAVAILABLE = {"comparison_unavailable", "feed_unavailable", "stance_unavailable"}


@pytest.fixture
def subscribed(tmp_path: Path) -> Iterator[SubscriberService]:
    service = SubscriberService(tmp_path)
    yield service
    service.close()


@pytest.fixture
def pair(subscribed: SubscriberService) -> tuple[Version, Version]:
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
    return (
        answer.status == status
        and list(body) == ["error", "message"]
        and body["error"] == code
        and is_private(answer)
    )


def test_entitled_answers_are_never_compressed(
    subscribed: SubscriberService, pair: tuple[Version, Version]
) -> None:
    fields = {"authorization": f"Bearer {FEED_TOKEN}", "accept_encoding": "gzip"}
    for path in (comparison_of(*pair), *ENTITLED_PATHS):
        headers = subscribed.ask(path, **fields).headers
        assert not headers.keys() & {"content-encoding", "vary"}


@pytest.mark.contract("material-change.compares-two-latest")
@pytest.mark.contract("material-change.purpose")
@pytest.mark.contract("comparison.schema", "comparison.further-members")
@pytest.mark.contract("versioning.comparison-schema")
@pytest.mark.contract("auth.bearer.header")
@pytest.mark.contract("auth.material-change")
@pytest.mark.contract("material-change.no-store")
def test_a_feed_subscriber_compares_the_latest_two_versions(
    subscribed: SubscriberService, pair: tuple[Version, Version]
) -> None:
    answer = subscribed.compare(*pair)
    body = answer.json()
    assert answer.status == 200
    assert is_private(answer)
    assert list(body) == [
        "schema",
        "kind",
        "before",
        "after",
        "compared_at",
        "assessment",
        "notice",
    ]
    assert body["schema"] == "feed-material-change-v1"
    assert body["assessment"]["change"] == "decision_revision_only"
    assert body["kind"] == FUNDING
    for side, version in zip(("before", "after"), pair, strict=True):
        assert body[side]["leg_id"] == version.leg_id
        assert body[side]["revision"] == version.revision
        assert body[side]["history_digest"] == version.history_digest
        assert list(body[side]) == ["leg_id", "revision", "history_digest", "issued_at"]


@pytest.mark.contract("material-change.certifies-nothing")
def test_the_answer_claims_nothing_but_what_was_recorded(
    subscribed: SubscriberService, pair: tuple[Version, Version]
) -> None:
    body = subscribed.compare(*pair).json()
    assert body["notice"] == "Information only, not financial advice."
    assert "edge" not in json.dumps(body["assessment"])


@pytest.mark.parametrize("method", ALL_METHODS)
@pytest.mark.contract("material-change.only-get", "errors.material-change-body")
@pytest.mark.contract("errors.method-not-allowed")
def test_any_method_but_get_is_refused_before_anything_else(
    subscribed: SubscriberService, pair: tuple[Version, Version], method: str
) -> None:
    for fields in ([], [("authorization", f"Bearer {FEED_TOKEN}")]):
        answer = ask(subscribed.app, comparison_of(*pair), method, fields)
        assert refused(answer, 405, "method_not_allowed")
        assert answer.headers["allow"] == "GET"
    assert subscribed.identities.asked == []


@pytest.mark.parametrize("path", ENTITLED_PATHS)
@pytest.mark.contract("errors.not-found")
def test_without_credentials_the_closed_feed_entry_is_not_found(
    subscribed: SubscriberService, path: str
) -> None:
    assert refused(subscribed.ask(path), 404, "not_found")


def test_the_entry_itself_is_closed_while_feed_x402_is_disabled(
    subscribed: SubscriberService,
) -> None:
    assert refused(subscribed.ask(FEED_ENTRY), 404, "not_found")
    assert refused(subscribed.read(FEED_ENTRY), 404, "not_found")
    assert refused(ask(subscribed.app, FEED_ENTRY, "POST"), 405, "method_not_allowed")


@pytest.mark.parametrize("path", ENTITLED_PATHS)
def test_a_payment_proof_while_feed_x402_is_disabled_is_not_found(
    subscribed: SubscriberService, path: str
) -> None:
    for name in ("payment-signature", "x-payment"):
        answer = ask(subscribed.app, path, fields=[(name, "eyJ4NDAyVmVyc2lvbiI6Mn0=")])
        assert refused(answer, 404, "not_found")


@pytest.mark.parametrize(
    "fields",
    [
        [("cookie", f"access_token={FEED_TOKEN}; sb-access-token={FEED_TOKEN}")],
        [("x-api-key", FEED_TOKEN)],
        [("authorization", f"Basic {FEED_TOKEN}")],
        [("authorization", FEED_TOKEN)],
        [("authorization", "Bearer")],
        [("authorization", "Bearer ")],
        [("authorization", "")],
        [("x-user-id", "user-feed"), ("x-wallet", "0x" + "1" * 40)],
    ],
    ids=["cookie", "api-key", "basic", "bare", "no-token", "empty-token", "empty", "identifiers"],
)
@pytest.mark.contract("auth.not-accepted")
def test_what_is_no_credential_counts_as_none(
    subscribed: SubscriberService, pair: tuple[Version, Version], fields: list[tuple[str, str]]
) -> None:
    target = comparison_of(*pair)
    assert refused(ask(subscribed.app, target, fields=fields), 404, "not_found")
    assert subscribed.identities.asked == []


@pytest.mark.contract("auth.not-accepted")
def test_identifiers_in_query_or_body_are_no_credential(
    subscribed: SubscriberService, pair: tuple[Version, Version]
) -> None:
    target = f"{comparison_of(*pair)}&email=name@example.com&wallet=0x{'1' * 40}&customer=user-feed"
    body = json.dumps({"email": "name@example.com", "access_token": FEED_TOKEN})
    assert refused(subscribed.ask(target, body=body), 404, "not_found")


@pytest.mark.contract("auth.not-accepted")
def test_a_personal_api_key_does_not_open_feed(
    subscribed: SubscriberService, pair: tuple[Version, Version]
) -> None:
    key = subscribed.create_key().key
    as_bearer = ask(
        subscribed.app, comparison_of(*pair), fields=[("authorization", f"Bearer {key}")]
    )
    assert refused(as_bearer, 401, "verified_feed_identity_required")
    as_key = ask(subscribed.app, comparison_of(*pair), fields=[("x-api-key", key)])
    assert refused(as_key, 404, "not_found")


@pytest.mark.parametrize("path", ENTITLED_PATHS)
@pytest.mark.contract("errors.verified-feed-identity-required")
def test_a_token_that_does_not_verify_is_401(subscribed: SubscriberService, path: str) -> None:
    answer = subscribed.read(path, token="nobody-knows-it")
    assert refused(answer, 401, "verified_feed_identity_required")
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_bearer_decides_alone_whatever_proof_comes_with_it(
    subscribed: SubscriberService, pair: tuple[Version, Version]
) -> None:
    fields = [("authorization", f"Bearer {FEED_TOKEN}"), ("payment-signature", "nonsense")]
    assert ask(subscribed.app, comparison_of(*pair), fields=fields).status == 200
    fields = [("authorization", "Bearer nobody-knows-it"), ("payment-signature", "nonsense")]
    answer = ask(subscribed.app, comparison_of(*pair), fields=fields)
    assert refused(answer, 401, "verified_feed_identity_required")


@pytest.mark.parametrize("path", ENTITLED_PATHS)
@pytest.mark.contract("errors.feed-entitlement-required", "errors.material-change-body")
@pytest.mark.contract("errors.402-feed-entry-resource")
@pytest.mark.contract("errors.402-no-second-payment")
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


@pytest.mark.contract("auth.reserve-insufficient")
def test_reserve_only_caller_gets_402(
    subscribed: SubscriberService, pair: tuple[Version, Version]
) -> None:
    assert subscribed.compare(*pair, token=RESERVE_TOKEN).status == 402
    subscribed.grant("user-reserve", "feed")
    assert subscribed.compare(*pair, token=RESERVE_TOKEN).status == 200


@pytest.mark.contract("auth.bearer.verified-and-entitled")
def test_a_lapsed_entitlement_is_402(subscribed: SubscriberService) -> None:
    pair = subscribed.two_versions()
    assert subscribed.compare(*pair).status == 200
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


def test_an_eighth_parameter_is_400(
    subscribed: SubscriberService, pair: tuple[Version, Version]
) -> None:
    for extra in ("utm_source=x", "limit=2", "=", "a"):
        answer = subscribed.read(f"{comparison_of(*pair)}&{extra}")
        assert refused(answer, 400, "invalid_comparison_reference")


def unavailable(answer: Answer) -> bool:
    return refused(answer, 404, "comparison_reference_unavailable")


@pytest.mark.contract("errors.comparison-reference-unavailable")
@pytest.mark.contract("errors.404-caller-stops")
@pytest.mark.contract("material-change.query.before-digest")
@pytest.mark.contract("material-change.query.after-digest")
def test_a_pair_that_is_mismatched_in_any_member_is_unavailable(
    subscribed: SubscriberService, pair: tuple[Version, Version]
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
@pytest.mark.contract("material-change.pair.counts-all-versions")
@pytest.mark.contract("material-change.no-discovery")
def test_only_the_newest_and_the_one_immediately_before_it_are_compared(
    subscribed: SubscriberService, pair: tuple[Version, Version]
) -> None:
    first, second = pair
    (third,) = subscribed.record(proposal(1))
    assert unavailable(subscribed.compare(first, second))  # no longer the latest two
    assert unavailable(subscribed.compare(first, third))  # skips one
    assert subscribed.compare(second, third).status == 200


def test_a_kind_with_fewer_than_two_versions_has_no_pair(subscribed: SubscriberService) -> None:
    (only,) = subscribed.record(proposal())
    assert unavailable(subscribed.compare(only, only))


@pytest.mark.contract("material-change.expired-or-terminal-unavailable")
@pytest.mark.contract("stance.states")
def test_an_expired_latest_version_makes_a_comparison_unavailable(
    subscribed: SubscriberService, pair: tuple[Version, Version]
) -> None:
    subscribed.clock.now += PERIOD - 1
    assert subscribed.compare(*pair).status == 200
    subscribed.clock.now += 1
    assert unavailable(subscribed.compare(*pair))


@pytest.mark.contract("material-change.expired-or-terminal-unavailable", "stance.transitions")
@pytest.mark.contract("stance.states")
def test_a_withdrawn_latest_version_makes_a_comparison_unavailable(
    subscribed: SubscriberService, pair: tuple[Version, Version]
) -> None:
    _, after = pair
    withdrawal = subscribed.ledger.withdraw(
        FUNDING, why="wrong", by="operator", expected_head=after.history_digest
    )
    asyncio.run(withdrawal)
    assert unavailable(subscribed.compare(*pair))
    (third,) = subscribed.record(proposal(1))
    assert subscribed.compare(after, third).status == 200  # open again


@pytest.mark.contract("material-change.recheck")
@pytest.mark.contract("material-change.bounded-reads")
@pytest.mark.parametrize("event", ["moved", "withdrawn", "expired"])
def test_what_happens_between_the_two_looks_is_not_given_away(
    subscribed: SubscriberService, pair: tuple[Version, Version], event: str
) -> None:
    _, after = pair

    async def meanwhile() -> None:
        if event == "moved":
            await subscribed.ledger.append(proposal(1))
        elif event == "withdrawn":
            await subscribed.ledger.withdraw(
                FUNDING, why="wrong", by="operator", expected_head=after.history_digest
            )
        else:
            subscribed.clock.now += PERIOD

    subscribed.after_first_look(meanwhile)
    assert unavailable(subscribed.compare(*pair))
    assert subscribed.watched.looks == 2


@pytest.mark.contract("errors.comparison-unavailable")
@pytest.mark.parametrize("path", ENTITLED_PATHS)
def test_an_identity_provider_that_is_down_is_503(subscribed: SubscriberService, path: str) -> None:
    subscribed.identities.is_down = True
    answer = subscribed.read(path)
    assert answer.status == 503
    assert is_private(answer)
    assert answer.json()["error"] in UNAVAILABLE


@pytest.mark.contract("errors.comparison-unavailable")
def test_an_entitlement_store_that_cannot_be_asked_is_503(
    subscribed: SubscriberService, pair: tuple[Version, Version]
) -> None:
    subscribed.execute("ALTER TABLE entitlements RENAME TO aside")
    assert refused(subscribed.compare(*pair), 503, "comparison_unavailable")


@pytest.mark.contract("errors.comparison-unavailable")
def test_a_history_that_cannot_be_read_is_503(
    subscribed: SubscriberService, pair: tuple[Version, Version]
) -> None:
    subscribed.lose_history()
    assert refused(subscribed.compare(*pair), 503, "comparison_unavailable")


def test_a_damaged_version_is_503_never_a_comparison(
    subscribed: SubscriberService, pair: tuple[Version, Version]
) -> None:
    changed = "UPDATE stance_versions SET document = replace(document, 'cautious', 'neutral')"
    asyncio.run(tamper(subscribed.history, changed))
    assert refused(subscribed.compare(*pair), 503, "comparison_unavailable")


@pytest.mark.contract("errors.comparison-unavailable")
@pytest.mark.contract("material-change.bounded-reads")
def test_what_takes_longer_than_the_budget_is_503(tmp_path: Path) -> None:
    service = SubscriberService(tmp_path, timeouts=Timeouts(entitled_read=0.05))
    pair = service.two_versions()

    async def forever() -> None:
        await asyncio.Event().wait()

    service.identities.before_answer = forever
    assert refused(service.compare(*pair), 503, "comparison_unavailable")
    service.close()


def test_a_failure_that_nobody_foresaw_is_503_and_says_nothing_of_itself(
    subscribed: SubscriberService, pair: tuple[Version, Version]
) -> None:
    async def fail() -> None:
        raise RuntimeError("secret detail")

    subscribed.identities.before_answer = fail
    answer = subscribed.compare(*pair)
    assert refused(answer, 503, "comparison_unavailable")
    assert b"secret" not in answer.body


@pytest.mark.contract("material-change.no-charge")
def test_a_comparison_changes_no_row_anywhere(
    subscribed: SubscriberService, pair: tuple[Version, Version]
) -> None:
    before = subscribed.counts()
    assert len(before) > 10
    assert subscribed.compare(*pair).status == 200
    assert subscribed.compare(*pair, token=PLAIN_TOKEN).status == 402
    assert unavailable(subscribed.compare(pair[1], pair[0]))
    assert subscribed.counts() == before


@pytest.mark.contract("stance.only-durable-referenced")
def test_a_stance_without_a_digest_cannot_be_referred_to(
    subscribed: SubscriberService, pair: tuple[Version, Version]
) -> None:
    for digest in ("null", "None", ""):
        answer = subscribed.compare(*pair, after_digest=digest)
        assert refused(answer, 400, "invalid_comparison_reference")
