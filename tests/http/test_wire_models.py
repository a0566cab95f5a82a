"""The bodies of subscriber and paid endpoints match their models."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.json import encode
from msgspec.structs import replace

from barograph.feed.documents import FeedBought, FeedNow
from barograph.history.records import KINDS, LABELS, NOT_RECORDED, SCHEMA, Proposal
from barograph.kit.timestamps import DAY, HOUR
from barograph.kit.wire import WireModel
from barograph.payments.offers import PaymentRequiredBody
from barograph.stances.documents import StanceDecision, StanceVersion, stance_body
from barograph.stances.reader import recorded_stance
from support.comparisons import EACH_KIND, FLOWS, FUNDING, YIELDS, decided
from support.descriptions import shop
from support.markets import reading, shares
from support.payments import FEED, header, payload, proof
from support.subscribers import FEED_ENTRY, FEED_NOW, STANCE_READS, SubscriberService


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[SubscriberService]:
    """A service that takes payments, with a stance of each kind."""
    service = shop(tmp_path)
    now = service.clock()
    for proposed in (FUNDING, FLOWS, YIELDS):
        service.record(replace(proposed, issued_at=now, expires_at=now + DAY))
    yield service
    service.close()


def assert_is(model: type[WireModel], body: bytes) -> None:
    """A body has exactly the members of a model, in its order, with values of its types."""
    read = model.model_validate_json(body)
    dumped = read.model_dump(mode="json", by_alias=True)

    assert dumped == json.loads(body)
    assert list(dumped) == list(json.loads(body))


@EACH_KIND
def test_a_stance_in_any_state_is_of_its_model(desk: SubscriberService, proposed: Proposal) -> None:
    path, now = STANCE_READS[proposed.kind], desk.clock()
    active = desk.read(path)
    (version,) = desk.record(replace(decided(proposed), issued_at=now, expires_at=now + HOUR))
    asyncio.run(desk.withdraw(version))
    withdrawn = desk.read(path)
    expired = encode(stance_body(recorded_stance(version, None), now + DAY))
    not_durable = replace(recorded_stance(version, None), **NOT_RECORDED)

    assert (active.json()["state"], withdrawn.json()["state"]) == ("active", "terminal")
    for body in (active.body, withdrawn.body, expired, encode(stance_body(not_durable, now))):
        assert_is(StanceVersion, body)


def test_the_feed_is_of_its_model_with_and_without_fresh_data(desk: SubscriberService) -> None:
    bare = desk.read(FEED_NOW)
    desk.watch_day()
    desk.publish(reading(), shares())
    full = desk.read(FEED_NOW)

    assert (bare.json()["market_state"], bare.json()["briefs"]) == (None, None)
    assert full.json()["market_state"] is not None
    for answer in (bare, full):
        assert len(answer.json()["tape"]["stance_tape"]) == 3
        assert_is(FeedNow, answer.body)


def test_a_purchase_of_feed_is_of_its_model(desk: SubscriberService) -> None:
    shown = header(payload(proof(offer=FEED, now_seconds=desk.clock() // 1000)))
    answer = desk.ask(FEED_ENTRY, payment_signature=shown)

    assert answer.status == 200
    assert_is(FeedBought, answer.body)


def test_what_is_asked_for_where_nothing_can_be_paid_is_of_the_model_too(tmp_path: Path) -> None:
    service = SubscriberService(tmp_path)
    answer = service.read(FEED_NOW, "token-of-somebody-without-anything")
    service.close()

    assert (answer.status, answer.json()["accepts"]) == (402, [])
    assert_is(PaymentRequiredBody, answer.body)


def test_the_models_name_the_kinds_labels_and_schema_that_there_are() -> None:
    stance = StanceVersion.model_json_schema()["properties"]
    tape = FeedNow.model_json_schema()["$defs"]["TapeEntry"]["properties"]

    assert stance["kind"]["enum"] == tape["kind"]["enum"] == list(KINDS)
    assert stance["schema"]["const"] == SCHEMA
    assert StanceDecision.model_json_schema()["properties"]["label"]["enum"] == list(LABELS)
