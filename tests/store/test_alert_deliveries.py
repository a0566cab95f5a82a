"""Messages of alerts reach the outbox and each webhook: in order, none lost, none for others."""

import asyncio
import json
from collections.abc import Sequence

import pytest

from barograph.alerts.records import Alert, Fired, NewMessage
from barograph.alerts.rules import Rule
from barograph.alerts.store import active_alerts, add_alert, alerts_of, record_alerts, stop_by_token
from barograph.collector.jobs.alerts import (
    MESSAGES_PER_DAY,
    PAUSED,
    AlertJob,
    alert_mails,
    alert_requests,
)
from barograph.collector.jobs.deliveries import MailJob
from barograph.errors import LeaseLost, UpstreamError
from barograph.events.query import EventFilter
from barograph.events.records import NewEvent
from barograph.events.store import append_events
from barograph.keys.api_keys import ApiKeys
from barograph.keys.outbox import Mail, RecipientRefused, Undeliverable
from barograph.kit.database import Database
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.webhooks.delivery import Deliveries
from barograph.webhooks.keys import Keys
from barograph.webhooks.records import PAUSES, Format, Reply, Webhook
from barograph.webhooks.store import add_webhook, delete_webhooks, due_webhooks, find_webhook
from support.judged_alerts import Watch
from support.steps import Steps

OWNER = "name@example.com"
FUNDING = Rule("funding", ("BTC",), "any", "above", 0.05)
BRIEF = Rule("brief")
BASE = "https://b.example"


async def no_keys() -> Keys:
    return []


class Service(Steps):
    """The leader, an owner with a key, and chat services that note what they get."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        super().__init__(database, runner)
        self.keys = ApiKeys(database, b"p" * 32, self.clock)
        self.key = self.run(self.keys.create(OWNER))
        self.lease = Lease(database, "c", "first", clock=self.clock, milliseconds=15_000)
        assert self.run(self.lease.acquire())
        self.got: list[tuple[str, str, float]] = []
        self.down = False
        self.start_job()
        requests = alert_requests(database, BASE, self.clock)
        self.deliveries = Deliveries(database, self.post, self.clock, no_keys, requests)

    def start_job(self) -> None:
        self.job = AlertJob(self.database, BASE, clock=self.clock)
        self.round()

    async def post(self, url: str, fields: dict[str, str], body: bytes) -> Reply:
        if self.down:
            raise UpstreamError("no answer")
        message = json.loads(body)
        value = float(message["title"].rpartition(": ")[2].split()[0])
        self.got.append((message["topic"], fields["webhook-id"], value))
        return Reply(200, b"")

    def target(self, url: str = "https://ntfy.sh/first", of: Format = "ntfy") -> Webhook:
        return self.write(
            lambda tx: add_webhook(tx, OWNER, url, EventFilter(), self.clock(), webhook_format=of)
        )

    def add(self, *targets: str, rule: Rule = FUNDING) -> Alert:
        return self.write(lambda tx: add_alert(tx, OWNER, rule, targets, self.clock()))

    def fire(self, alert: Alert, *values: float) -> None:
        messages = [
            NewMessage(alert.id, OWNER, Fired("BTC", "bybit", value, self.clock()))
            for value in values
        ]
        self.write(lambda tx: record_alerts(tx, [], messages, self.clock()))

    def publish(self, *slugs: str, after: int = 0) -> None:
        self.clock.now += after
        events = [
            NewEvent(
                "brief.published",
                self.clock(),
                slug,
                {"slug": slug, "headline": slug, "category": "movers", "symbols": ["SOL"]},
            )
            for slug in slugs
        ]
        self.write(lambda tx: append_events(tx, events))

    def round(self) -> None:
        self.run(self.job.run_once(self.lease))

    def turn(self) -> None:
        self.round()  # which counts the messages
        for webhook in self.run(due_webhooks(self.database, self.clock(), 100)):
            self.run(self.deliveries.take_turn(webhook, self.lease))

    def mails(self) -> Sequence[tuple[str, str]]:
        rows = self.fetch("SELECT subject, body FROM outbox ORDER BY message")
        return [(subject, body) for subject, body in rows]

    def values(self) -> list[float]:
        return [value for *_, value in self.got]


@pytest.fixture
def service(database: Database, runner: asyncio.Runner) -> Service:
    return Service(database, runner)


@pytest.mark.outcome(
    "The collector stops after it stored the message of an alert",
    "The next collector mails it once and sends it to each target, with the same id.",
)
@pytest.mark.both_engines
def test_message_is_mailed_once_with_the_link_that_stops_it(service: Service) -> None:
    alert = service.add("mail")
    service.fire(alert, 0.06, 0.07)
    service.round()
    service.start_job()  # another leader goes on where this one was
    service.round()

    assert ["0.0600" in body for _, body in service.mails()] == [True, False]
    assert len(service.mails()) == 2
    stop = f"{BASE}/alerts/stop/{alert.stop_token}"
    assert service.fetch("SELECT stop_url, message FROM outbox ORDER BY message") == [
        (stop, 1),
        (stop, 2),
    ]


@pytest.mark.both_engines
def test_each_target_gets_its_messages_in_order_with_ids_that_stay(service: Service) -> None:
    first, second = service.target(), service.target("https://ntfy.sh/second")
    to_first, to_second = service.add("mail", first.id), service.add(second.id)
    service.fire(to_first, 0.06)
    service.fire(to_second, 0.07)
    service.fire(to_first, 0.08)
    service.turn()
    service.turn()

    assert sorted(service.got) == [
        ("first", f"msg_{first.id}_alert_1", 0.06),
        ("first", f"msg_{first.id}_alert_3", 0.08),
        ("second", f"msg_{second.id}_alert_2", 0.07),
    ]
    assert service.run(due_webhooks(service.database, service.clock(), 100)) == []


def test_nothing_is_lost_while_a_target_is_down(service: Service) -> None:
    target = service.target()
    alert = service.add(target.id)
    service.down = True
    service.fire(alert, 0.06)
    service.turn()
    service.fire(alert, 0.07)
    service.turn()
    assert service.got == []
    service.down = False
    service.clock.now = service.run(find_webhook(service.database, target.id)).next_try_at
    service.turn()
    assert service.values() == [0.06, 0.07]


@pytest.mark.outcome(
    "A target of alerts is down",
    "Its messages wait in order. After a day of failures, the collector switches it off and mails "
    "the owner.",
)
def test_target_that_fails_for_a_day_is_switched_off_and_its_owner_gets_a_mail(
    service: Service,
) -> None:
    target = service.target()
    service.fire(service.add(target.id), 0.06)
    service.down = True
    for _ in range(len(PAUSES) + 1):
        service.clock.now = service.run(find_webhook(service.database, target.id)).next_try_at
        service.turn()

    assert service.run(find_webhook(service.database, target.id)).state == "disabled"
    [(_, body)] = service.mails()
    assert "/alerts" in body


@pytest.mark.outcome(
    "An alert is stopped while its messages wait",
    "None of them is sent.",
)
def test_stopped_alert_sends_nothing_that_still_waits(service: Service) -> None:
    target = service.target()
    stopped, other = service.add("mail", target.id), service.add(target.id)
    service.fire(stopped, 0.06)
    service.fire(other, 0.07)
    service.write(lambda tx: stop_by_token(tx, stopped.stop_token, service.clock()))
    service.round()
    service.turn()
    assert (service.values(), service.mails()) == ([0.07], [])


def test_chat_service_gets_no_events(service: Service) -> None:
    service.target()
    service.publish("a-brief")
    assert service.run(due_webhooks(service.database, service.clock(), 100)) == []


@pytest.mark.both_engines
def test_events_become_messages_once_and_not_those_before_the_alert(service: Service) -> None:
    service.publish("before")
    service.clock.now += 1
    service.add("mail", rule=BRIEF)
    service.publish("first")
    service.round()
    service.publish("too-soon", after=HOUR - 1)
    service.round()
    service.start_job()
    service.publish("second", after=1)
    service.round()
    assert [subject for subject, _ in service.mails()] == ["First", "Second"]


@pytest.mark.outcome(
    "The alerts of a mailbox send more than 200 messages in 24 hours, regardless of target",
    "The collector pauses the alert that sent the most and mails the owner why. The others go on.",
)
@pytest.mark.both_engines
def test_the_alert_that_sends_the_most_is_paused_before_it_sends_too_many(service: Service) -> None:
    target = service.target()
    quiet, noisy = service.add("mail"), service.add(target.id)
    service.fire(noisy, *[0.06] * (MESSAGES_PER_DAY - 1))
    service.fire(quiet, 0.07, 0.08)
    for _ in range(3):
        service.turn()
    service.fire(noisy, 0.09)
    service.turn()

    assert 0.09 not in service.values()
    assert len(service.got) < MESSAGES_PER_DAY
    assert [subject == PAUSED for subject, _ in service.mails()].count(True) == 1
    assert len(service.mails()) == 3
    states = {each.id: each for each in service.run(alerts_of(service.database, OWNER))}
    assert (states[quiet.id].state, states[noisy.id].state) == ("active", "paused")
    assert "200 messages" in str(states[noisy.id].why)


class Refusing:
    """A mail server that takes nothing."""

    def __init__(self, service: Service, error: UpstreamError) -> None:
        self.error, self.tried = error, 0
        alerts = alert_mails(service.database, service.clock)
        self.job = MailJob(service.database, self, clock=service.clock, alerts=alerts)

    async def send(self, mail: Mail) -> None:
        self.tried += 1
        raise self.error


def states_of(service: Service) -> dict[str, tuple[str, str]]:
    alerts = service.run(alerts_of(service.database, OWNER))
    return {each.id: (each.state, each.targets) for each in alerts}


@pytest.mark.outcome(
    "A mail server permanently refuses the address of an owner of alerts",
    "The collector deletes its waiting alert mails. Alerts with another target that works go on "
    "without mail; the others pause.",
)
@pytest.mark.both_engines
def test_alerts_to_a_dead_mailbox_go_on_elsewhere_or_are_paused(service: Service) -> None:
    server = Refusing(service, RecipientRefused("no such mailbox"))
    live, off = service.target(), service.target("https://ntfy.sh/off")
    service.execute(f"UPDATE webhooks SET state = 'disabled' WHERE id = '{off.id}'")
    alert, other = service.add("mail"), service.add(live.id)
    both, dead = service.add("mail", live.id), service.add("mail", off.id)
    service.fire(alert, 0.06, 0.07)
    service.round()
    for _ in range(2):
        service.run(server.job.run_once(service.lease))
    assert (server.tried, service.mails()) == (1, [])
    assert states_of(service) == {
        alert.id: ("paused", "mail"),
        other.id: ("active", live.id),
        both.id: ("active", live.id),
        dead.id: ("paused", f"mail,{off.id}"),
    }
    service.fire(both, 0.08)
    service.turn()
    assert (service.values(), service.mails()) == ([0.08], [])


@pytest.mark.outcome(
    "A mail server permanently refuses a mail of an alert, such as for its text or size",
    "The collector gives up on that mail. The alert goes on.",
)
def test_one_refused_mail_pauses_nothing(service: Service) -> None:
    server = Refusing(service, Undeliverable("it looks like spam"))
    alert = service.add("mail")
    service.fire(alert, 0.06, 0.07)
    service.round()
    for left in (1, 0):
        service.run(server.job.run_once(service.lease))
        assert len(service.mails()) == left
    assert states_of(service) == {alert.id: ("active", "mail")}


def test_a_collector_that_no_longer_leads_pauses_nothing(service: Service) -> None:
    second = Lease(service.database, "c", "second", clock=service.clock, milliseconds=15_000)

    class Slow(Refusing):
        async def send(self, mail: Mail) -> None:
            service.clock.now += 15_000
            assert await second.acquire()
            await super().send(mail)

    server, alert = Slow(service, RecipientRefused("no such mailbox")), service.add("mail")
    service.fire(alert, 0.06)
    service.round()
    with pytest.raises(LeaseLost):
        service.run(server.job.run_once(service.lease))
    assert states_of(service) == {alert.id: ("active", "mail")}
    service.clock.now += MINUTE  # the next leader is refused too
    service.run(Refusing(service, server.error).job.run_once(second))
    assert states_of(service) == {alert.id: ("paused", "mail")}


@pytest.mark.outcome(
    "The stored rule or message of an alert can't be read",
    "The collector logs the id of that alert and skips it. All others go on. Its owner sees that "
    "it can't be read, and can delete it.",
)
def test_what_can_not_be_read_stops_only_its_own_alert(service: Service) -> None:
    target = service.target()
    broken, other = service.add("mail", target.id), service.add("mail", target.id)
    event = service.add("mail", rule=BRIEF)
    service.fire(broken, 0.06)
    service.fire(other, 0.07)
    service.execute("UPDATE alert_messages SET body = '{}' WHERE id = 1")
    service.turn()
    assert (service.values(), len(service.mails())) == ([0.07], 1)

    service.execute(
        f"UPDATE alerts SET rule = '{{}}', version = version + 9 WHERE id = '{broken.id}'"
    )
    service.fire(broken, 0.08)
    service.publish("a-brief", after=1)
    service.turn()
    assert [subject for subject, _ in service.mails()][1:] == ["A-brief"]
    active = service.run(active_alerts(service.database))
    assert {each.id for each in active} == {other.id, event.id}


@pytest.mark.outcome(
    "All targets of an alert were deleted or switched off",
    "The collector pauses it within a minute, and `/alerts` says why.",
)
@pytest.mark.both_engines
def test_alert_without_a_target_is_paused(service: Service) -> None:
    gone, off, kept = (service.target(f"https://ntfy.sh/{n}") for n in range(3))
    alerts = [service.add(gone.id, off.id), service.add(gone.id, "mail"), service.add(kept.id)]
    service.write(lambda tx: delete_webhooks(tx, [gone]))
    service.execute(f"UPDATE webhooks SET state = 'disabled' WHERE id = '{off.id}'")
    service.clock.now += MINUTE
    service.round()
    states = {each.id: each.state for each in service.run(alerts_of(service.database, OWNER))}
    assert [states[each.id] for each in alerts] == ["paused", "active", "active"]


def test_alert_ends_at_its_time_and_mails_what_happened_before(service: Service) -> None:
    until = service.clock() + DAY
    alert = service.add("mail", rule=Rule("funding", ("BTC",), "any", "above", 0.05, until=until))
    service.round()
    service.clock.now = until
    service.round()
    assert [each.state for each in service.run(alerts_of(service.database, OWNER))] == ["ended"]
    service.execute("UPDATE alerts SET state = 'active'")
    service.fire(alert, 0.06)
    service.execute("UPDATE alerts SET state = 'ended'")
    service.round()
    assert len(service.mails()) == 1


def test_owner_without_a_valid_key_gets_nothing(service: Service) -> None:
    target = service.target()
    alert = service.add("mail", target.id)
    service.run(service.keys.revoke(service.key.id))
    service.fire(alert, 0.06)
    service.round()
    service.turn()
    assert (service.got, service.mails()) == ([], [])
    assert service.run(active_alerts(service.database)) == []


@pytest.mark.both_engines
def test_mail_has_a_picture_of_the_recorded_day_if_there_is_one(
    database: Database, runner: asyncio.Runner
) -> None:
    watch = Watch(database, runner)
    alert = watch.add()
    for rate in [0.01] * 24 + [0.06]:
        watch.rate(rate, after=5 * MINUTE)
    [message] = watch.messages
    draw = alert_mails(database, watch.clock).draw
    picture = runner.run(draw(message.id))
    assert (message.alert, picture and picture[:4]) == (alert.id, b"\x89PNG")
    assert runner.run(draw(message.id + 1)) is None
