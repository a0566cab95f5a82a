"""Webhooks: a challenge, then every event in order, at least once, until a day of them fails."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from barograph.collector.jobs import WEBHOOK_SECONDS, WebhookJob
from barograph.errors import LeaseLost, Unreachable, UpstreamError
from barograph.events.query import EventFilter
from barograph.events.records import NewEvent
from barograph.events.store import append_events
from barograph.keys.api_keys import ApiKeys
from barograph.kit.database import Database, DatabaseUnavailable, Row, Transaction
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, HOUR
from barograph.webhooks.delivery import Deliveries
from barograph.webhooks.records import (
    Delivery,
    Reply,
    Webhook,
)
from barograph.webhooks.store import (
    KEPT_DELIVERIES,
    add_webhook,
    deliveries_of,
    due_webhooks,
    find_webhook,
    save_webhook,
)
from support.clock import HandClock

URL = "https://hooks.example/in?token=private"


class Endpoint:
    """Accepts what it gets, or answers as it is told."""

    def __init__(self) -> None:
        self.got: list[dict[str, object]] = []
        self.ids: list[str] = []
        self.answer: int | UpstreamError = 200
        self.text: bytes | None = None
        self.meanwhile: list[Callable[[], Awaitable[object]]] = []
        """What happens before the next answer."""

        self.hangs = ""
        self.accepted = asyncio.Event()

    async def post(self, url: str, fields: dict[str, str], body: bytes) -> Reply:
        if url == self.hangs:
            await asyncio.Event().wait()
        while self.meanwhile:
            await self.meanwhile.pop()()
        if isinstance(self.answer, UpstreamError):
            raise self.answer
        message = json.loads(body)
        self.got.append(message)
        self.ids.append(fields["webhook-id"])
        self.accepted.set()
        challenge = str(message["data"].get("challenge", "")).encode()
        return Reply(self.answer, challenge if self.text is None else self.text)

    def events(self) -> list[object]:
        data = [each["data"] for each in self.got if each["type"] != "webhook.challenge"]
        return [each["id"] for each in data if isinstance(each, dict)]


class Office:
    """The tables, the leader that sends, and an endpoint."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        self.clock, self.endpoint, self.database = HandClock(), Endpoint(), database
        self.run = runner.run
        self.deliveries = Deliveries(database, self.endpoint.post, self.clock)
        self.keys = ApiKeys(database, b"p" * 32, self.clock)
        self.key = self.run(self.keys.create("Name+tag@example.com"))
        self.lease = self.claim("first")

    def claim(self, holder: str) -> Lease:
        lease = Lease(self.database, "c", holder, clock=self.clock, milliseconds=15_000)
        assert self.run(lease.acquire())
        return lease

    def add(self, url: str = URL, types: tuple[str, ...] = (), *symbols: str) -> Webhook:
        wanted = EventFilter(frozenset(types), frozenset(symbols))

        async def work(tx: Transaction) -> Webhook:
            return await add_webhook(tx, "name@example.com", url, wanted, self.clock())

        return self.run(self.database.write(work))

    def active(self, types: tuple[str, ...] = (), *symbols: str) -> Webhook:
        new = self.add(URL, types, *symbols)
        self.turn()
        assert self.shown(new).state == "active"
        return new

    def happen(self, *symbols: str, kind: str = "contract.listed") -> None:
        events = [NewEvent(kind, self.clock(), each, {"symbol": each}) for each in symbols]  # type: ignore[arg-type]
        self.run(self.database.write(lambda tx: append_events(tx, events)))

    def turn(self) -> None:
        for each in self.run(due_webhooks(self.database, self.clock(), 100)):
            self.run(self.deliveries.take_turn(each, self.lease))

    def shown(self, webhook: Webhook) -> Webhook:
        return self.run(find_webhook(self.database, webhook.id, None))

    def mails(self) -> list[Row]:
        return self.run(self.database.fetch("SELECT recipient, body FROM outbox"))

    def fail(self, webhook: Webhook) -> Webhook:
        """Try again at every due time until the endpoint is given up."""
        while (shown := self.shown(webhook)).state == webhook.state:
            self.clock.now = shown.next_try_at
            self.turn()
        return shown

    def log(self, webhook: Webhook) -> list[Delivery]:
        return self.run(deliveries_of(self.database, webhook.id))


@pytest.fixture
def office(database: Database, runner: asyncio.Runner) -> Office:
    return Office(database, runner)


@pytest.mark.both_engines
def test_endpoint_gets_a_challenge_and_then_every_later_event_once_and_in_order(
    office: Office,
) -> None:
    office.happen("OLD")
    webhook = office.active()
    office.happen("BTC", "ETH")
    office.turn()
    office.turn()
    office.happen("SOL")
    office.turn()

    assert [each["type"] for each in office.endpoint.got] == [
        "webhook.challenge",
        *["contract.listed"] * 3,
    ]
    assert office.endpoint.events() == [2, 3, 4]
    assert office.endpoint.ids[1:] == [f"msg_{webhook.id}_{number}" for number in (2, 3, 4)]
    logged = office.log(webhook)
    assert [(each.event, each.attempt, each.status, each.failure) for each in logged] == [
        *[(number, 1, 200, None) for number in (4, 3, 2)],
        (None, 1, 200, None),
    ]


def test_endpoint_that_does_not_repeat_the_challenge_fails_after_an_hour_without_a_mail(
    office: Office,
) -> None:
    webhook = office.add()
    office.endpoint.text = b'{"challenge": "another"}'

    assert office.fail(webhook).state == "failed"
    assert abs(office.clock() - webhook.created_at - HOUR) < HOUR / 5
    assert {each.failure for each in office.log(webhook)} == {"wrong challenge"}
    assert office.mails() == []


def test_filters_skip_other_events_without_delivering_them(office: Office) -> None:
    webhook = office.active(("contract.listed",), "ETH")
    office.happen("BTC", "ETH", "SOL")
    office.happen("ETH", kind="contract.delisted")
    office.turn()

    assert office.endpoint.events() == [2]
    assert office.shown(webhook).delivered_up_to == 4


def test_failed_event_is_retried_with_growing_pauses_and_later_events_wait(office: Office) -> None:
    webhook = office.active()
    office.happen("BTC", "ETH")
    office.endpoint.answer = Unreachable("no answer")
    for pause in PAUSES[:-1]:
        office.turn()
        shown = office.shown(webhook)
        assert abs(shown.next_try_at - office.clock() - pause) <= pause / 10
        assert office.run(due_webhooks(office.database, shown.next_try_at - 1, 9)) == []
        office.clock.now = shown.next_try_at
    office.endpoint.answer = 200
    office.turn()

    assert office.endpoint.events() == [1, 2]
    assert (office.shown(webhook).failures, office.shown(webhook).failing_since) == (0, None)


@pytest.mark.outcome(
    "A webhook's endpoint fails",
    "The collector retries with growing pauses for a day, and later events wait. Then it switches "
    "the webhook off and mails the owner.",
)
def test_day_of_failures_switches_the_endpoint_off_and_mails_its_owner(office: Office) -> None:
    webhook = office.active()
    office.happen("BTC")
    office.endpoint.answer = 500
    since = office.clock()
    assert office.fail(office.shown(webhook)).state == "disabled"

    assert abs(office.clock() - since - DAY) < DAY / 8
    [(recipient, text)] = office.mails()
    assert recipient == "Name+tag@example.com"
    assert "hooks.example" in text
    assert "private" not in text
    office.happen("ETH")
    assert office.run(due_webhooks(office.database, office.clock() + DAY, 9)) == []


def test_410_switches_the_endpoint_off_at_once(office: Office) -> None:
    webhook = office.active()
    office.happen("BTC")
    office.endpoint.answer = 410
    office.turn()

    assert office.shown(webhook).state == "disabled"
    assert len(office.mails()) == 1


def test_revoked_key_pauses_its_endpoints_and_a_new_one_catches_up(office: Office) -> None:
    office.active()
    office.run(office.keys.revoke(office.key.id))
    office.happen("BTC", "ETH")
    office.turn()
    assert office.endpoint.events() == []
    office.run(office.keys.create("name@example.com"))
    office.turn()
    assert office.endpoint.events() == [1, 2]


@pytest.mark.outcome(
    "The collector is killed while it sends a webhook",
    "The next leader sends the same message again, with the same `webhook-id`.",
)
@pytest.mark.both_engines
def test_crash_after_sending_repeats_the_same_message(office: Office) -> None:
    webhook = office.active()
    office.happen("BTC")

    other = Lease(office.database, "c", "other", clock=office.clock, milliseconds=15_000)
    office.endpoint.meanwhile = [other.acquire]
    office.clock.pass_seconds(60)
    with pytest.raises(LeaseLost):
        office.turn()
    office.lease = other
    office.turn()

    assert office.endpoint.ids[1:] == [f"msg_{webhook.id}_1"] * 2
    assert office.shown(webhook).delivered_up_to == 1


def test_endpoint_that_is_disabled_during_an_attempt_stays_disabled(office: Office) -> None:
    webhook = office.active()
    office.happen("BTC", "ETH")

    async def disable() -> None:
        found = await find_webhook(office.database, webhook.id, None)
        off = found._replace(state="disabled", why="by hand")
        await office.database.write(lambda tx: save_webhook(tx, found, off, office.clock()))

    office.endpoint.meanwhile = [disable]
    office.turn()

    assert office.endpoint.events() == [1]
    assert (office.shown(webhook).state, office.shown(webhook).why) == ("disabled", "by hand")


def test_log_of_deliveries_holds_the_newest_hundred(office: Office) -> None:
    webhook = office.active()
    office.happen(*(f"A{number}" for number in range(KEPT_DELIVERIES + 5)))
    for _ in range(10):
        office.turn()

    logged = office.log(webhook)
    assert [each.event for each in logged] == list(range(105, 5, -1))


def test_hanging_endpoint_delays_no_other(office: Office) -> None:
    office.add("https://slow.example/")
    office.add("https://quick.example/")
    office.endpoint.hangs = "https://slow.example/"

    async def until_accepted(_: float) -> None:
        await office.endpoint.accepted.wait()
        raise LeaseLost

    job = WebhookJob(office.database, office.deliveries, clock=office.clock, sleep=until_accepted)
    with pytest.raises(ExceptionGroup):
        office.run(job(office.lease))
    assert len(office.endpoint.got) == 1


def test_attempt_that_cannot_be_recorded_is_not_repeated_every_second(office: Office) -> None:
    office.add()

    async def break_down() -> None:
        office.endpoint.accepted.set()
        raise DatabaseUnavailable("full disk")

    office.endpoint.meanwhile = [break_down] * 9
    rounds = iter(range(5))

    async def sleep(seconds: float) -> None:
        if seconds > WEBHOOK_SECONDS:
            await asyncio.Event().wait()
        await office.endpoint.accepted.wait()
        if next(rounds, None) is None:
            raise LeaseLost

    job = WebhookJob(office.database, office.deliveries, clock=office.clock, sleep=sleep)
    with pytest.raises(ExceptionGroup):
        office.run(job(office.lease))
    assert len(office.endpoint.meanwhile) == 8
