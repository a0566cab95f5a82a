"""`/api/feed/now` and the direct stance reads, for Feed subscribers."""

import asyncio
import json
from hashlib import sha256
from typing import Any

import pytest
import rfc8785
from msgspec.structs import replace

from barograph import NOTICE
from barograph.history.records import NOT_RECORDED, ChainEnd
from barograph.kit.timestamps import iso_timestamp
from barograph.stances.reader import recorded_stance
from support.service import BASE_URL, Answer
from support.stances import FUNDING, PERIOD, STANCE_MEMBERS
from support.subscribers import (
    FEED_NOW,
    STANCE_READS,
    SubscriberService,
    publish_stances,
)


def body_of(answer: Answer) -> Any:
    assert answer.status == 200
    assert answer.headers["cache-control"] == "private, no-store"
    assert "etag" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers
    return answer.json()


@pytest.mark.contract("x402.stance-reads", "feed-now.shape", "stance.other-fields", "stance.kinds")
@pytest.mark.contract("stance.leg-id")
@pytest.mark.parametrize("kind", STANCE_READS)
def test_a_feed_subscriber_reads_the_newest_stance_of_each_kind(
    subscribed: SubscriberService, kind: str
) -> None:
    _, after = subscribed.two_versions(kind)
    body = body_of(subscribed.read(STANCE_READS[kind]))
    assert tuple(body) == STANCE_MEMBERS
    assert (body["schema"], body["notice"]) == ("stance-v1", NOTICE)
    assert (body["kind"], body["leg_id"], body["revision"]) == (kind, after.leg_id, 2)
    assert body["history_durable"] is True
    assert body["history_digest"] == after.history_digest
    assert body["state"] == "active"


def test_a_delivered_stance_has_its_members_in_order_and_the_digest_can_be_recomputed(
    subscribed: SubscriberService,
) -> None:
    before, _ = subscribed.two_versions()
    body = body_of(subscribed.read(STANCE_READS[FUNDING]))
    document = {name: body[name] for name in ("schema", "kind", "leg_id", "revision")}
    document |= {name: body[name] for name in ("issued_at", "expires_at", "leg", "salt")}
    document |= {"sequence": 2, "previous_digest": before.history_digest}
    assert sha256(rfc8785.dumps(document)).hexdigest() == body["history_digest"]
    leg = body["leg"]
    assert list(leg) == ["period", "levels", "decision", "conditions", "method", "evidence"]
    assert list(leg["decision"]) == ["label", "confidence", "rationale", "by"]
    assert list(leg["evidence"]) == ["digest", "source", "observed_at", "inputs"]
    evidence = {leg["evidence"]["digest"], body["events"][0]["evidence_digest"]}
    assert body["history_digest"] not in evidence


def test_rereading_records_nothing(subscribed: SubscriberService) -> None:
    subscribed.two_versions()
    before = subscribed.counts()
    first = body_of(subscribed.read(STANCE_READS[FUNDING]))
    assert body_of(subscribed.read(STANCE_READS[FUNDING])) == first
    body_of(subscribed.read(FEED_NOW))
    assert subscribed.counts() == before


@pytest.mark.contract("stance.states", "stance.transitions", "stance.evidence-digests-distinct")
def test_expired_and_withdrawn_stances_say_so(subscribed: SubscriberService) -> None:
    _, after = subscribed.two_versions()
    subscribed.clock.now += PERIOD - 1
    assert body_of(subscribed.read(STANCE_READS[FUNDING]))["state"] == "active"
    subscribed.clock.now += 1
    assert body_of(subscribed.read(STANCE_READS[FUNDING]))["state"] == "expired"
    event = asyncio.run(subscribed.withdraw(after))
    body = body_of(subscribed.read(STANCE_READS[FUNDING]))
    assert body["state"] == "terminal"
    issued, withdrawn = body["events"]
    assert (issued["type"], withdrawn["type"]) == ("issued", "withdrawn")
    assert withdrawn["at"] == iso_timestamp(event.at)
    assert withdrawn["evidence_digest"] == event.evidence_digest != body["history_digest"]
    for withheld in (event.why, event.by, event.salt):
        assert withheld not in json.dumps(body)


def test_what_could_not_be_recorded_is_delivered_as_not_durable(
    subscribed: SubscriberService,
) -> None:
    before, after = subscribed.two_versions()
    publish_stances(subscribed, replace(recorded_stance(after, None), **NOT_RECORDED))
    on_record_again = body_of(subscribed.read(STANCE_READS[FUNDING]))
    assert on_record_again["history_durable"] is True
    later = {**NOT_RECORDED, "issued_at": subscribed.clock() + 1, "revision": 3}
    publish_stances(subscribed, replace(recorded_stance(before, None), **later))
    body = body_of(subscribed.read(STANCE_READS[FUNDING]))
    assert (body["history_durable"], body["history_digest"], body["salt"]) == (False, None, None)
    assert body["revision"] == 3


@pytest.mark.parametrize("digest", ["0" * 64, None])
def test_a_record_that_lacks_what_was_recorded_is_not_believed(
    subscribed: SubscriberService, digest: str | None
) -> None:
    _, after = subscribed.two_versions()
    mark = ChainEnd(2, digest) if digest is not None else ChainEnd(3, after.history_digest)
    publish_stances(subscribed, recorded_stance(after, None), recorded={FUNDING: mark})
    assert body_of(subscribed.read(STANCE_READS[FUNDING]))["history_durable"] is False
    assert subscribed.ask("/api/history/checkpoint").status == 503
    good = {FUNDING: ChainEnd(2, after.history_digest)}
    publish_stances(subscribed, recorded_stance(after, None), recorded=good)
    assert body_of(subscribed.read(STANCE_READS[FUNDING]))["history_durable"] is True
    assert subscribed.ask("/api/history/checkpoint").status == 200


def test_while_the_record_is_away_nothing_is_durable(subscribed: SubscriberService) -> None:
    _, after = subscribed.two_versions()
    publish_stances(subscribed, recorded_stance(after, None))
    assert body_of(subscribed.read(STANCE_READS[FUNDING]))["history_durable"] is True
    subscribed.lose_history()
    body = body_of(subscribed.read(STANCE_READS[FUNDING]))
    assert (body["history_durable"], body["history_digest"]) == (False, None)
    tape = body_of(subscribed.read(FEED_NOW))["tape"]["stance_tape"]
    assert [each["history_durable"] for each in tape if each["kind"] == FUNDING] == [False]


def test_a_withdrawal_that_was_seen_stays_when_the_record_goes_away(
    subscribed: SubscriberService,
) -> None:
    _, after = subscribed.two_versions()
    publish_stances(subscribed, recorded_stance(after, None))  # the collector has not looked since
    asyncio.run(subscribed.withdraw(after))
    assert body_of(subscribed.read(STANCE_READS[FUNDING]))["state"] == "terminal"
    subscribed.lose_history()
    body = body_of(subscribed.read(STANCE_READS[FUNDING]))
    assert (body["state"], body["history_durable"]) == ("terminal", False)


def test_without_record_and_publication_a_stance_is_unavailable(
    subscribed: SubscriberService,
) -> None:
    subscribed.lose_history()
    answer = subscribed.read(STANCE_READS[FUNDING])
    assert (answer.status, answer.json()["error"]) == (503, "stance_unavailable")
    answer = subscribed.read(FEED_NOW)
    assert (answer.status, answer.json()["error"]) == (503, "feed_unavailable")


@pytest.mark.contract("feed-now.stance-tape", "feed-now.shape")
def test_the_feed_links_to_the_direct_reads(subscribed: SubscriberService) -> None:
    newest = {kind: subscribed.two_versions(kind)[1] for kind in STANCE_READS}
    body = body_of(subscribed.read(FEED_NOW))
    assert list(body) == ["as_of", "tape", "market_state", "briefs", "notice"]
    tape = body["tape"]["stance_tape"]
    assert {each["kind"]: each["href"] for each in tape} == {
        kind: BASE_URL + path for kind, path in STANCE_READS.items()
    }
    members = ("leg_id", "revision", "history_digest", "issued_at", "history_durable", "state")
    for entry in tape:
        stance = body_of(subscribed.read(STANCE_READS[entry["kind"]]))
        assert tuple(entry) == ("kind", "href", *members)
        assert [entry[name] for name in members] == [stance[name] for name in members]
        assert entry["history_digest"] == newest[entry["kind"]].history_digest


def test_the_feed_shows_the_same_market_and_briefs_as_the_free_reads(
    subscribed: SubscriberService,
) -> None:
    subscribed.two_versions()
    body = body_of(subscribed.read(FEED_NOW))
    assert body["market_state"] == subscribed.ask("/api/agent/market-state").json()
    assert body["briefs"] == subscribed.ask("/api/agent/briefs").json()["briefs"]
    assert body["notice"] == "Information only, not financial advice."
    subscribed.clock.pass_seconds(31)
    stale = body_of(subscribed.read(FEED_NOW))
    assert (stale["market_state"], len(stale["tape"]["stance_tape"])) == (None, 1)


def test_a_copy_from_before_a_withdrawal_is_not_the_record(subscribed: SubscriberService) -> None:
    before, after = subscribed.two_versions()
    mark = ChainEnd(2, after.history_digest, 1, "0" * 64)  # an event that this record does not have
    publish_stances(subscribed, recorded_stance(after, None), recorded={FUNDING: mark})
    assert body_of(subscribed.read(STANCE_READS[FUNDING]))["history_durable"] is False
    answer = subscribed.compare(before, after)
    assert (answer.status, answer.json()["error"]) == (503, "comparison_unavailable")
    assert subscribed.ask(f"/api/history/{FUNDING}").status == 503
    assert subscribed.ask(f"/api/history/{FUNDING}/events").status == 503
