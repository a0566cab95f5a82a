"""Webhooks: a challenge, then every event in order, at least once, until a day of them fails."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.collector.jobs.deliveries import (
    MAX_OF_AN_OWNER_AT_ONCE,
    MAX_SLOW_AT_ONCE,
    WEBHOOK_SECONDS,
    WebhookJob,
)
from barograph.collector.jobs.job import FencedDatabase
from barograph.errors import LeaseLost, UpstreamError
from barograph.events.query import EventFilter
from barograph.events.records import EventType, NewEvent
from barograph.events.store import append_events
from barograph.keys.api_keys import ApiKeys
from barograph.kit.database import Database, DatabaseUnavailable, Row, Transaction, Value
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, HOUR, SECOND
from barograph.webhooks.delivery import Deliveries
from barograph.webhooks.keys import Keys
from barograph.webhooks.records import PAUSES, Delivery, Reply, Webhook
from barograph.webhooks.store import (
    KEPT_DELIVERIES,
    SLOW_MS,
    add_webhook,
    deliveries_of,
    due_webhooks,
    find_webhook,
    log_delivery,
    save_webhook,
)
from support.steps import Steps

URL = "https://hooks.example/in?token=private"
ALL = EventFilter()
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


async def load_keys() -> Keys:
    return [KEY]


class Endpoint:
    """Accepts what it gets, or answers as it is told."""

    def __init__(self) -> None:
        self.got: list[dict[str, object]] = []
        self.ids: list[str] = []
        self.answer: int | UpstreamError = 200
        self.text: bytes | None = None
        self.meanwhile: list[Callable[[], Awaitable[object]]] = []
        """What happens before the next answer."""

        self.accepted = asyncio.Event()
        self.hanging = 0

    async def post(self, url: str, fields: dict[str, str], body: bytes) -> Reply:
        if url != URL:
            self.hanging += 1
            await asyncio.Event().wait()  # hangs
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


class Office(Steps):
    """The tables, the leader that sends, and an endpoint."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        super().__init__(database, runner)
        self.endpoint = Endpoint()
        self.deliveries = Deliveries(database, self.endpoint.post, self.clock, load_keys)
        self.keys = ApiKeys(database, b"p" * 32, self.clock)
        self.key = self.run(self.keys.create("Name+tag@example.com"))
        self.lease = Lease(database, "c", "first", clock=self.clock, milliseconds=15_000)
        assert self.run(self.lease.acquire())

    def add(
        self, wanted: EventFilter = ALL, url: str = URL, mailbox: str = "name@example.com"
    ) -> Webhook:
        return self.write(lambda tx: add_webhook(tx, mailbox, url, wanted, self.clock()))

    def active(self, wanted: EventFilter = ALL) -> Webhook:
        new = self.add(wanted)
        self.turn()
        assert self.shown(new).state == "active"
        return self.shown(new)

    def happen(self, *symbols: str, kind: EventType = "contract.listed") -> None:
        events = [NewEvent(kind, self.clock(), each, {"symbol": each}) for each in symbols]
        self.write(lambda tx: append_events(tx, events))

    def turn(self) -> None:
        for webhook in self.run(due_webhooks(self.database, self.clock(), 100)):
            self.run(self.deliveries.take_turn(webhook, self.lease))

    def shown(self, webhook: Webhook) -> Webhook:
        return self.run(find_webhook(self.database, webhook.id))

    def mails(self) -> list[Row]:
        return self.fetch("SELECT recipient, body FROM outbox")

    def fail(self, webhook: Webhook) -> list[int]:
        """Try again at every due time until the endpoint is given up; returns the pauses."""
        pauses = []
        self.turn()
        while (shown := self.shown(webhook)).state == webhook.state:
            assert self.run(due_webhooks(self.database, shown.next_try_at - 1, 9)) == []
            pauses.append(shown.next_try_at - self.clock())
            self.clock.now = shown.next_try_at
            self.turn()
        return pauses

    def log(self, webhook: Webhook) -> list[Delivery]:
        return self.run(deliveries_of(self.database, webhook.id))

    def lead(
        self, sleep: Callable[[float], Awaitable[None]], database: Database | None = None
    ) -> None:
        """Run the leader's job until `sleep` takes the lease away."""
        job = WebhookJob(database or self.database, self.deliveries, clock=self.clock, sleep=sleep)
        with pytest.raises(ExceptionGroup):
            self.run(job(self.lease))


@pytest.fixture
def office(database: Database, runner: asyncio.Runner) -> Office:
    return Office(database, runner)


@pytest.mark.both_engines
def test_endpoint_gets_a_challenge_and_then_every_later_event_once(office: Office) -> None:
    office.happen("OLD")
    webhook = office.active()
    office.happen("BTC", "ETH")
    office.turn()
    office.turn()
    office.happen("SOL")
    office.turn()

    assert office.endpoint.events() == [2, 3, 4]
    assert office.endpoint.ids[1:] == [f"msg_{webhook.id}_{number}" for number in (2, 3, 4)]
    logged = [(each.event, each.attempt, each.status, each.failure) for each in office.log(webhook)]
    assert logged == [(event, 1, 200, None) for event in (4, 3, 2, None)]


def test_endpoint_without_the_challenge_fails_after_an_hour(office: Office) -> None:
    webhook = office.add()
    office.endpoint.text = b'{"challenge": "another"}'

    assert abs(sum(office.fail(webhook)) - HOUR) < HOUR / 4
    assert office.shown(webhook).state == "failed"
    assert {each.failure for each in office.log(webhook)} == {"wrong challenge"}
    assert office.mails() == []


def test_filters_skip_other_events_without_delivering_them(office: Office) -> None:
    webhook = office.active(EventFilter(frozenset({"contract.listed"}), frozenset({"ETH"})))
    office.happen("BTC", "ETH", "SOL")
    office.happen("ETH", kind="contract.delisted")
    office.turn()

    assert office.endpoint.events() == [2]
    assert office.shown(webhook).delivered_up_to == 4


def test_events_that_wait_for_a_failed_one_follow_it(office: Office) -> None:
    webhook = office.active()
    office.happen("BTC", "ETH")
    office.endpoint.answer = UpstreamError("no answer")
    office.turn()
    office.endpoint.answer = 200
    office.clock.now = office.shown(webhook).next_try_at
    office.turn()

    assert office.endpoint.events() == [1, 2]
    assert (office.shown(webhook).failures, office.shown(webhook).failing_since) == (0, None)


@pytest.mark.outcome(
    "A webhook's endpoint fails",
    "The collector retries for a day, and later events wait. Then it switches the webhook "
    "off and mails the owner.",
)
def test_day_of_failures_switches_the_endpoint_off_and_mails_its_owner(office: Office) -> None:
    webhook = office.active()
    office.happen("BTC")
    office.endpoint.answer = 500
    pauses = office.fail(webhook)

    assert abs(sum(PAUSES) - DAY) < HOUR
    for pause, planned in zip(pauses, PAUSES, strict=True):
        assert abs(pause - planned) <= planned / 10
    assert office.shown(webhook).state == "disabled"
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
    unanswered = office.add()
    office.turn()
    assert office.shown(unanswered).state == "failed"
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


@pytest.mark.thorough
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
        found = await find_webhook(office.database, webhook.id)
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


async def attempted(tx: Transaction, webhooks: list[Webhook], how: str) -> None:
    if how == "failing":
        await tx.execute("UPDATE webhooks SET failures = 1")
    if how == "slow":
        for webhook in webhooks:
            for duration in (8_000, 20):
                sent = Delivery("msg", None, 0, 1, 200, None, duration)
                await log_delivery(tx, webhook.id, sent)


@pytest.mark.both_engines
@pytest.mark.parametrize(
    ("how", "owners", "places"),
    [
        ("failing", 16, MAX_SLOW_AT_ONCE),
        ("slow", 16, MAX_SLOW_AT_ONCE),
        ("new", 1, MAX_OF_AN_OWNER_AT_ONCE),
        ("new", 20, 20 * MAX_OF_AN_OWNER_AT_ONCE),
    ],
)
def test_hanging_endpoints_leave_room(office: Office, how: str, owners: int, places: int) -> None:
    mailboxes = [f"{number}@example.com" for number in range(owners)]
    for mailbox in mailboxes:
        office.run(office.keys.create(mailbox))
    slow = [office.add(url="https://slow.example/", mailbox=each) for each in mailboxes * 5]

    office.write(lambda tx: attempted(tx, slow, how))
    rounds = iter([True])

    async def sleep(_: float) -> None:
        if next(rounds, False):  # the slow ones have their places by now
            office.clock.pass_seconds(SLOW_MS / SECOND)
            await office.database.write(
                lambda tx: add_webhook(tx, "name@example.com", URL, ALL, office.clock())
            )
            return
        await office.endpoint.accepted.wait()
        raise LeaseLost

    office.lead(sleep)
    assert len(office.endpoint.got) == 1
    assert office.endpoint.hanging == places


def test_attempt_that_cannot_be_recorded_is_not_repeated_every_second(office: Office) -> None:
    office.add()
    rounds = iter(range(5))

    async def break_down() -> None:
        office.endpoint.accepted.set()
        raise DatabaseUnavailable("full disk")

    async def sleep(seconds: float) -> None:
        if seconds > WEBHOOK_SECONDS:
            await asyncio.Event().wait()
        await office.endpoint.accepted.wait()
        if next(rounds, None) is None:
            raise LeaseLost

    office.endpoint.meanwhile = [break_down] * 9
    office.lead(sleep)
    assert len(office.endpoint.meanwhile) == 8


class LateReads(FencedDatabase):
    """Returns the rows of the second list of due endpoints only after those got their events."""

    def __init__(self, office: Office, webhook: Webhook) -> None:
        super().__init__(office.database, office.lease)
        self._office = office
        self._webhook = webhook
        self._lists = 0

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        rows = await super().fetch(sql, *values)
        if "next_try_at <=" in sql:
            self._lists += 1
            while self._lists == 2 and not await self._is_delivered():
                pass
        return rows

    async def _is_delivered(self) -> bool:
        webhook = await find_webhook(self._office.database, self._webhook.id)
        return webhook.delivered_up_to == 1


@pytest.mark.both_engines
def test_outdated_list_of_due_endpoints_sends_nothing_twice(office: Office) -> None:
    webhook = office.active()
    office.happen("BTC")
    rounds = iter([True, True])

    async def sleep(_: float) -> None:
        if next(rounds, None) is None:
            raise LeaseLost

    database = LateReads(office, webhook)
    office.lead(sleep, database)
    assert office.endpoint.events() == [1]
