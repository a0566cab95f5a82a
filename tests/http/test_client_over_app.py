"""Both clients over the production application."""

import asyncio
import gzip
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from hashlib import sha256
from inspect import signature
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from msgspec.structs import replace

from barograph.events.records import NewEvent
from barograph.events.store import append_events
from barograph.history.records import KINDS, NOT_RECORDED, Version
from barograph.kit.database import Transaction
from barograph.kit.timestamps import DAY, HOUR, iso_timestamp
from barograph.markets.liquidation_files import DailyFile, store_file
from barograph.markets.store import ReadingRow, record_rows
from barograph.stances.reader import recorded_stance
from barograph.venues.records import Liquidation, Perpetuals
from barograph_client import Barograph, Patience, ReferenceFile
from barograph_client import calls as every_call
from barograph_client.decode import to_builtins
from barograph_client.errors import (
    CredentialRefused,
    InvalidRequest,
    NoPair,
    NotFound,
    PaymentRequired,
    Refused,
    Unavailable,
)
from barograph_client.records import Presence, RecordedDecisions, Reference
from barograph_client.subscriber import Compared, Kept, Later, NotComparable, Skipped, Stopped
from support.clock import START
from support.markets import BTC
from support.pages import MAIL
from support.payments import FEED, PAYMENTS, HandFacilitator, header, payload, proof
from support.readers import InProcess, Reader, result
from support.reveals import announce
from support.service import BASE_URL, Service, fresh_service
from support.stances import FUNDING, RATES, proposal
from support.subscribers import (
    FEED_TOKEN,
    PLAIN_TOKEN,
    RESERVE_TOKEN,
    SubscriberService,
    publish_stances,
)

FREE = {
    "index": "/api/agent",
    "briefs": "/api/agent/briefs",
    "derivatives": "/api/agent/derivatives?symbol=BTC",
    "market": "/api/agent/market",
    "market_state": "/api/agent/market-state",
    "guides": "/api/agent/guides",
    "signals": "/api/v1/signals",
    "status": "/api/status",
    "perpetuals": "/api/v1/perpetuals",
    "venues": "/api/v1/venues",
    "cross": "/api/v1/cross",
    "carry": "/api/v1/carry",
}
LISTS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "series": (["open-interest"], {"symbol": "eth", "start": START - 8 * HOUR, "limit": 3}),
    "listings": ([], {"venue": "bybit", "limit": 3}),
    "liquidations": ([], {"start": datetime.fromtimestamp(START / 1_000 - 90, UTC), "limit": 2}),
    "events": ([], {"after": 0, "types": ["feed.down", "feed.recovered"]}),
    "incidents": ([], {"check": "market-feed"}),
}
ENTRIES = {
    "series": (3, 8),
    "listings": (2, 4),
    "liquidations": (2, 3),
    "events": (3, 230),
    "incidents": (1, 1),
}
"""Pages and entries."""


@pytest.fixture(params=["sync", "async"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def reader(way: str, service: Service) -> Iterator[Reader]:
    reader = Reader(way, InProcess(service.app), sleep=service.clock.pass_seconds)
    yield reader
    reader.close()


class Follower:
    """A subscriber with a store, over one of the two clients."""

    def __init__(self, way: str, service: SubscriberService, folder: Path) -> None:
        self.way = way
        self.service = service
        self.transport = InProcess(service.app)
        self.store = ReferenceFile(folder / "references.json")
        self.come_again(FEED_TOKEN)

    def come_again(self, token: str | None) -> None:
        """Restart with the kept references."""
        self.reader = Reader(self.way, self.transport, bearer=token)
        self.subscriber = self.reader.subscriber(self.store)

    def look(self) -> tuple[Any, ...]:
        found: tuple[Any, ...] = result(self.subscriber.look())
        return found

    def paths(self) -> list[str]:
        return [request.url.path for request in self.transport.asked]


@pytest.fixture
def follower(way: str, subscribed: SubscriberService, tmp_path: Path) -> Iterator[Follower]:
    follower = Follower(way, subscribed, tmp_path)
    yield follower
    follower.reader.close()


def reference(version: Version) -> Reference:
    at = iso_timestamp(version.issued_at)
    return Reference(version.leg_id, version.revision, version.history_digest, at)


def known(value: Any) -> Any:
    """JSON without its nulls: in a record, what is missing is None too."""
    if isinstance(value, dict):
        return {name: known(each) for name, each in value.items() if each is not None}
    return [known(each) for each in value] if isinstance(value, list | tuple) else value


def test_free_reads_lose_nothing_of_the_answers(reader: Reader, service: Service) -> None:
    for name, target in FREE.items():
        found = reader.read(name)
        assert isinstance(found, get_args(get_type_hints(getattr(every_call, name))["return"])[0])
        assert known(to_builtins(found)) == known(service.ask(target).json())


def test_an_agent_writes_previews_pauses_and_deletes_an_alert(way: str, tmp_path: Path) -> None:
    with fresh_service(tmp_path, **MAIL) as service:
        key = service.create_key().key
        with closing(Reader(way, InProcess(service.app), api_key=key)) as reader:
            rule = {"symbols": ["BTC"], "when": "above", "value": 0.05}
            assert reader.read("preview_alert", "funding", **rule)["days"] == 30
            made = reader.read("create_alert", "funding", **rule)
            assert reader.read("alerts") == {"alerts": [made]}
            assert reader.read("change_alert", made["id"], "paused")["state"] == "paused"
            assert reader.read("alert_messages", after=0) == {"messages": []}
            with pytest.raises(InvalidRequest, match=r"the rule can.t fire"):
                reader.read("create_alert", "funding", **{**rule, "value": 50})
            assert reader.read("delete_alert", made["id"]) == b""
            with pytest.raises(NotFound):
                reader.read("delete_alert", made["id"])


def test_lists_are_read_to_the_end_and_lose_nothing(reader: Reader, service: Service) -> None:
    fill_lists(service)
    for name, (arguments, named) in LISTS.items():
        wanted = getattr(every_call, name)(*arguments, **named)
        bodies, target = [], wanted.first.target
        while target:
            bodies.append(service.ask(target).json())
            target = (bodies[-1]["next"] or "").removeprefix(BASE_URL)
        pages = reader.first(999, "pages", wanted)
        assert known(to_builtins(tuple(pages))) == known(bodies)
        entries = [entry for page in pages for entry in wanted.entries(page)]
        assert reader.first(999, name, *arguments, **named) == entries
        assert (len(pages), len(entries)) == ENTRIES[name]


def test_every_read_that_the_api_has_for_one_venue_takes_a_venue(service: Service) -> None:
    taken = {
        path.removeprefix("/api/v1/").removesuffix(".csv")
        for path, item in service.ask("/openapi.json").json()["paths"].items()
        for each in item.get("get", {}).get("parameters", ())
        if (each.get("name"), each.get("in")) == ("venue", "query")
    }
    assert taken == {
        *("perpetuals", "perpetuals/{symbol}", "series/{measure}", "liquidations"),
        *("incidents", "events", "events/stream", "listings"),
    }
    lists = ("perpetuals", "liquidations", "incidents", "events")
    for name in (*lists, "perpetual", "series", "follow"):
        assert "venue" in signature(getattr(Barograph, name)).parameters
    for call in (every_call.series("funding", venue="a b"), every_call.events(venue="a b")):
        assert call.first.target.endswith("venue=a%20b")


def test_daily_files_accuracy_and_revealed_stances_are_read(
    way: str, subscribed: SubscriberService
) -> None:
    body = gzip.compress(b"at,symbol\n")
    file = DailyFile("2026-11-05", 0, len(body), sha256(body).hexdigest(), [])
    asyncio.run(subscribed.database.write(lambda tx: store_file(tx, "bybit", file, body, START)))
    (version,) = subscribed.record(proposal())
    announce(subscribed, 7, version.issued_at)
    subscribed.clock.now = version.issued_at + 7 * DAY
    reader = Reader(way, InProcess(subscribed.app))

    (listed,) = reader.read("liquidation_files", "bybit").files
    assert (listed.sha256, listed.day) == (file.sha256, file.day)
    assert reader.read("liquidation_file", "bybit", listed.day) == body
    assert reader.read("accuracy") == subscribed.ask("/api/v1/accuracy").json()
    (revealed,) = reader.first(9, "revealed", FUNDING)
    assert (revealed.history_digest, revealed.leg.decision.label) == (
        version.history_digest,
        version.leg.decision.label,
    )


@pytest.mark.parametrize(
    ("name", "target"),
    [("perpetual", "/api/v1/perpetuals/1000PEPE"), ("cross_coin", "/api/v1/cross/PEPE")],
)
def test_an_alias_finds_its_coin(reader: Reader, service: Service, name: str, target: str) -> None:
    found = to_builtins(reader.read(name, "pepe"))
    assert known(found) == known(service.ask(target).json())
    with pytest.raises(NotFound, match=target.rpartition("/")[0]):
        reader.read(name, "nosuch")


def test_new_data_is_seen_at_once(reader: Reader, service: Service) -> None:
    assert reader.read("derivatives").lastPrice == BTC.last_price
    service.clock.pass_seconds(1)
    service.publish(Perpetuals(service.clock(), "test venue", (replace(BTC, last_price=1.0),)))
    assert reader.read("derivatives").lastPrice == 1.0
    assert reader.transport.statuses == [200, 200]


@pytest.mark.not_on_servers("the test moves the clock, and Valkey counts by its own")
def test_an_allowance_that_is_spent_is_waited_for(way: str, service: Service) -> None:
    patient = Reader(
        way,
        InProcess(service.app),
        sleep=service.clock.pass_seconds,
        patience=Patience(tries=2, seconds=4_000),
    )
    for _ in range(120):
        patient.read("signals")
    assert patient.slept == []
    assert patient.read("signals").ok is True
    assert patient.slept == [3_600.0]
    assert patient.transport.statuses[-2:] == [429, 200]


def test_a_key_raises_the_allowance_and_a_bad_one_is_refused(way: str, service: Service) -> None:
    transport = InProcess(service.app)
    key = service.create_key().key
    holder = Reader(way, transport, api_key=key)
    for _ in range(121):
        holder.read("signals")
    with pytest.raises(CredentialRefused, match="not valid"):
        Reader(way, transport, api_key="bg_wrong").read("signals")


def test_entitled_reads_are_typed_too(follower: Follower) -> None:
    _, after = follower.service.two_versions()
    stance = follower.reader.read("stance", FUNDING)
    assert (stance.history_digest, stance.leg.decision.label) == (after.history_digest, "cautious")
    feed = follower.reader.read("feed_now")
    assert feed.market_state.regime.label == "neutral"
    assert feed.briefs == ()
    follower.service.clock.pass_seconds(31)
    assert follower.reader.read("feed_now").market_state is None


@pytest.mark.contract(
    "material-change.references-from-durable-reads", "material-change.caller-keeps-references"
)
def test_a_subscriber_goes_through_new_versions(follower: Follower) -> None:
    service = follower.service
    (first,) = service.record(proposal())
    (kept,) = follower.look()
    assert isinstance(kept, Kept)
    assert kept.reference.history_digest == first.history_digest
    assert follower.look() == ()

    (second,) = service.record(proposal(label="cautious", by="operator"))
    (revised,) = follower.look()
    assert isinstance(revised, Compared)
    assessment = revised.comparison.assessment
    assert (assessment.change, assessment.same_source_evidence) == ("decision_revision_only", True)
    assert isinstance(assessment.recorded_decisions, RecordedDecisions)
    assert assessment.recorded_decisions.after.label == "cautious"
    assert assessment.evidence_field_presence == Presence((), ())
    assert assessment.ready_for_paid_delivery is False
    assert revised.comparison.after.history_digest == second.history_digest

    service.record(proposal(1))
    (next_period,) = follower.look()
    assert isinstance(next_period, Compared)
    assert next_period.comparison.assessment.change == "new_period"
    assert next_period.comparison.assessment.evidence_field_presence is None
    assert set(follower.paths()) == {"/api/feed/now", "/api/agents/material-change"}


def test_every_kind_is_followed_across_restarts_and_outages(follower: Follower) -> None:
    service = follower.service
    for kind in KINDS:
        service.record(proposal(kind=kind))
    assert [type(event) for event in follower.look()] == [Kept] * 3
    follower.come_again(FEED_TOKEN)
    assert follower.look() == ()
    service.record(proposal(kind=RATES, label="cautious", by="operator"))
    before = follower.store.read()
    service.identities.is_down = True
    (later,) = follower.look()
    assert isinstance(later, Later)
    assert (later.kind, follower.transport.statuses[-1]) == (None, 503)
    assert (follower.store.read(), follower.reader.slept) == (before, [])
    service.identities.is_down = False
    (event,) = follower.look()
    assert (type(event), event.kind) == (Compared, RATES)


@pytest.mark.contract("errors.404-caller-stops", "material-change.pair.counts-all-versions")
def test_a_skipped_version_is_not_searched_for(follower: Follower) -> None:
    service = follower.service
    (first,) = service.record(proposal())
    follower.look()
    _, third = service.record(
        proposal(label="cautious", by="operator"), proposal(label="constructive", by="operator")
    )
    (event,) = follower.look()
    assert isinstance(event, NotComparable)
    assert event.before.history_digest == first.history_digest
    assert event.after.history_digest == third.history_digest
    assert follower.transport.statuses.count(404) == 1
    service.record(proposal(label="neutral", by="operator"))
    (compared,) = follower.look()
    assert compared.comparison.before == event.after


@pytest.mark.contract("stance.digest-never-invented", "material-change.caller-keeps-references")
def test_what_is_not_durable_is_skipped(follower: Follower) -> None:
    service = follower.service
    (first,) = service.record(proposal())
    follower.look()
    not_recorded = {**NOT_RECORDED, "issued_at": service.clock() + 1, "revision": 2}
    publish_stances(service, replace(recorded_stance(first, None), **not_recorded))
    assert follower.look() == (Skipped(FUNDING, first.leg_id, 2),)
    assert follower.store.read() == {FUNDING: reference(first)}
    service.clock.pass_seconds(2)
    service.record(proposal(label="cautious", by="operator", issued_at=service.clock()))
    (event,) = follower.look()
    assert isinstance(event, Compared)
    assert event.comparison.before == reference(first)


@pytest.mark.contract("errors.402-no-second-payment")
@pytest.mark.parametrize(
    ("token", "status", "error"),
    [
        ("nobody's", 401, CredentialRefused),
        (RESERVE_TOKEN, 402, PaymentRequired),
        (PLAIN_TOKEN, 402, PaymentRequired),
        (None, 404, NotFound),
    ],
)
def test_a_subscriber_stops_without_feed_and_asks_nothing_more(
    follower: Follower, token: str | None, status: int, error: type[Refused]
) -> None:
    follower.service.two_versions()
    follower.come_again(token)
    (stopped,) = follower.look()
    assert isinstance(stopped, Stopped)
    assert stopped.status == status
    with pytest.raises(error):
        follower.look()
    assert follower.transport.statuses == [status]
    assert follower.store.read() == {}


def test_the_errors_of_a_comparison_are_told_apart(follower: Follower) -> None:
    before, after = follower.service.two_versions()
    pair = (FUNDING, reference(before), reference(after))
    assert follower.reader.read("material_change", *pair).before == reference(before)
    with pytest.raises(NoPair):
        follower.reader.read("material_change", FUNDING, pair[2], pair[1])
    with pytest.raises(InvalidRequest) as caught:
        follower.reader.read("material_change", "gold", *pair[1:])
    assert caught.value.code == "invalid_comparison_reference"
    follower.service.identities.is_down = True
    with pytest.raises(Unavailable):
        follower.reader.read("material_change", *pair)


def test_a_wallet_with_feed_follows_without_a_payment(way: str, tmp_path: Path) -> None:
    facilitator = HandFacilitator()
    with closing(SubscriberService(tmp_path, facilitator=facilitator, **PAYMENTS)) as service:
        service.grant(proof().payer, "feed", kind="wallet")
        service.two_versions()
        signed = header(payload(proof(offer=FEED)))
        reader = Reader(way, InProcess(service.app), proof=lambda: signed)
        subscriber = reader.subscriber(ReferenceFile(tmp_path / "references.json"))
        assert [type(event) for event in result(subscriber.look())] == [Kept]
        service.record(proposal(label="constructive", by="operator"))
        assert [type(event) for event in result(subscriber.look())] == [Compared]
        assert facilitator.verified
        with pytest.raises(PaymentRequired):  # its proof is not shown there
            reader.read("stance", FUNDING)
        assert (facilitator.asked, facilitator.charged) == ([], [])
        reader.close()


def fill_lists(service: Service) -> None:
    async def work(tx: Transaction) -> None:
        hours = range(START // HOUR * HOUR - 7 * HOUR, START, HOUR)
        await record_rows(
            tx,
            "bybit",
            readings=[ReadingRow("hour", "ETHUSDT", at, 1.0, 0.0, 8, 0.0, None) for at in hours],
            liquidations=[Liquidation(START - at, "BTCUSDT", "long", 0.1, 2.0) for at in range(3)],
        )
        down = [NewEvent("feed.down", START, f"{cause}", {"feed": "a"}) for cause in range(230)]
        await append_events(tx, down)

    asyncio.run(service.database.write(work))
    incident = "('market-feed', $1, NULL, 'down', 'late', NULL, NULL, 0)"
    service.execute(f"INSERT INTO status_incidents VALUES {incident}", START - HOUR)
    service.clock.pass_seconds(1)
    service.refresh()
