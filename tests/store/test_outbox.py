"""Mails are sent at least once, by the leader, and given up in the end."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from barograph.errors import Forbidden, LeaseLost, Throttled, Unreachable, UpstreamError
from barograph.keys.outbox import (
    BATCH,
    IN_FLIGHT,
    Deferred,
    Mail,
    Undeliverable,
    deliver_due,
    pause_after,
    put_mail,
)
from barograph.kit.database import Database, Row
from barograph.kit.lease import Lease
from support.steps import Steps

SECRET_ADDRESS = "somebody.secret@example.com"
LIFE_MS = 12 * 3_600_000


class Server:
    """A mail server that takes mails, or fails as it is told."""

    def __init__(self) -> None:
        self.taken: list[Mail] = []
        self.tried = 0
        self.failures: dict[str, UpstreamError] = {}
        self.before_answer: Callable[[], None] = lambda: None

    async def send(self, mail: Mail) -> None:
        self.tried += 1
        self.before_answer()
        if mail.subject in self.failures:
            raise self.failures[mail.subject]
        self.taken.append(mail)

    @property
    def subjects(self) -> list[str]:
        return [mail.subject for mail in self.taken]


class Office(Steps):
    """An outbox, its leader and a server."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        super().__init__(database, runner)
        self.server = Server()
        self.lease = self.claim("first")
        assert self.run(self.lease.acquire())

    def claim(self, holder: str) -> Lease:
        return Lease(self.database, "collector", holder, clock=self.clock, milliseconds=15_000)

    def put(self, subject: str, to: str = SECRET_ADDRESS, message: int | None = None) -> None:
        now, words = self.clock(), (to, subject, "text")
        until = now + LIFE_MS
        self.write(lambda tx: put_mail(tx, *words, now=now, give_up_at=until, message=message))
        self.clock.now += 1

    def deliver(self, lease: Lease | None = None) -> int:
        return self.run(deliver_due(self.database, lease or self.lease, self.server, self.clock))

    def waiting(self) -> list[Row]:
        """The subject and the attempts of every mail that is still there."""
        return self.fetch("SELECT subject, attempts FROM outbox ORDER BY created_at")


@pytest.fixture
def office(database: Database, runner: asyncio.Runner) -> Office:
    return Office(database, runner)


def test_a_mail_goes_out_once_and_is_forgotten(office: Office) -> None:
    office.put("a")

    assert (office.deliver(), office.deliver()) == (1, 0)
    assert [(mail.recipient, mail.subject, mail.body) for mail in office.server.taken] == [
        (SECRET_ADDRESS, "a", "text")
    ]
    assert office.waiting() == []


def test_mails_go_out_in_order_and_a_bounded_number_at_a_time(office: Office) -> None:
    subjects = [f"{number:02}" for number in range(BATCH + 3)]
    for subject in subjects:
        office.put(subject)

    assert office.deliver() == BATCH
    assert office.deliver() == 3
    assert office.server.subjects == subjects


def test_pauses_double_from_ten_seconds_to_a_quarter_of_an_hour() -> None:
    seconds = [pause_after(attempts) // 1_000 for attempts in range(1, 10)]
    assert seconds == [10, 20, 40, 80, 160, 320, 640, 900, 900]
    assert pause_after(1_000_000) == 900_000


@pytest.mark.outcome(
    "The mail server is down or defers an e-mail",
    "The collector retries after 10 s, then at growing intervals of up to 15 min.",
)
@pytest.mark.parametrize(
    "failure",
    [
        Unreachable("away"),
        Throttled("slow down", retry_after=0.0),
        Deferred("later"),
        Forbidden("no login"),
    ],
)
def test_deferred_mail_is_retried_later(office: Office, failure: UpstreamError) -> None:
    office.put("a")
    office.server.failures["a"] = failure
    for seconds, tried in ((0.0, 1), (9.9, 1), (0.1, 2)):
        office.clock.pass_seconds(seconds)
        assert (office.deliver(), office.server.tried) == (0, tried)
    assert office.waiting() == [("a", 2)]
    office.server.failures.clear()
    office.clock.pass_seconds(20)
    assert (office.deliver(), office.waiting()) == (1, [])


@pytest.mark.outcome(
    "The mail server rejects an e-mail permanently (550)",
    "The collector gives up on that e-mail at once.",
)
def test_permanently_rejected_mail_is_dropped_and_others_are_sent(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    for subject in ("a-secret", "b-secret", "c"):
        office.put(subject)
    office.server.failures |= {"a-secret": Undeliverable("refused"), "b-secret": Deferred("later")}

    with caplog.at_level(logging.DEBUG):
        assert office.deliver() == 1

    assert office.server.subjects == ["c"]
    assert office.waiting() == [("b-secret", 1)]
    said = [vars(record) for record in caplog.records]
    assert [(line["message"], line["kind"]) for line in said] == [
        ("mail given up", "refused"),
        ("mail deferred", "deferred"),
    ]
    assert SECRET_ADDRESS not in str(said)
    assert "-secret" not in str(said)


def test_mail_is_given_up_in_the_end(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    office.put("a")
    office.server.failures["a"] = Unreachable("away")
    began = office.clock()
    while office.waiting():
        office.deliver()
        office.clock.pass_seconds(1 if office.server.tried < 6 else 60)

    assert office.clock() - began <= LIFE_MS
    assert office.clock() - began >= LIFE_MS - 960_000
    assert [record.message for record in caplog.records][-1] == "mail given up"


@pytest.mark.parametrize("failure", [Unreachable("away"), Throttled("slow down", retry_after=0.0)])
def test_throttling_server_is_asked_once_per_round(office: Office, failure: UpstreamError) -> None:
    for subject in "abc":
        office.put(subject)
    office.server.failures["a"] = failure

    office.deliver()
    assert office.server.tried == 1
    office.deliver()
    assert office.server.subjects == ["b", "c"], "one mail does not keep the others back"


def test_who_does_not_lead_sends_nothing(office: Office) -> None:
    office.put("a")
    with pytest.raises(LeaseLost):
        office.deliver(office.claim("second"))
    assert office.server.tried == 0
    assert office.waiting() == [("a", 0)]


@pytest.mark.outcome(
    "A leader freezes or dies while it sends an e-mail",
    "The e-mail goes out at least once, and perhaps again after a minute.",
)
@pytest.mark.parametrize(
    ("frozen_seconds", "sent"), [(15, ["a", "b"]), (IN_FLIGHT / 1_000, ["a", "a", "b"])]
)
def test_next_leader_waits_a_minute_before_sending_a_mail_in_progress(
    office: Office, frozen_seconds: float, sent: list[str]
) -> None:
    office.put("a")
    office.put("b")
    second = office.claim("second")

    class Freezing(Server):
        async def send(self, mail: Mail) -> None:
            office.clock.pass_seconds(frozen_seconds)
            assert await second.acquire()
            await deliver_due(office.database, second, office.server, office.clock)
            office.server.taken.append(mail)

    with pytest.raises(LeaseLost):
        office.run(deliver_due(office.database, office.lease, Freezing(), office.clock))

    assert sorted(office.server.subjects) == sent
    assert len({mail.id for mail in office.server.taken}) == 2, "the same mail has the same id"
    assert office.waiting() == []


@pytest.mark.outcome(
    "A leader freezes or dies while it sends an e-mail",
    "The e-mail goes out at least once, and perhaps again after a minute.",
)
def test_mail_is_sent_again_a_minute_after_a_crash(office: Office) -> None:
    office.put("a")

    class Crash(BaseException):
        pass

    def crash() -> None:
        raise Crash

    office.server.before_answer = crash
    with pytest.raises(Crash):
        office.deliver()
    office.server.before_answer = lambda: None
    office.clock.pass_seconds(59)
    assert office.deliver() == 0
    office.clock.pass_seconds(1)
    assert office.deliver() == 1


@pytest.mark.both_engines
def test_alerts_reach_a_recipient_in_order_and_do_not_hold_up_others(office: Office) -> None:
    office.server.failures["1"] = Deferred("full")
    for number, recipient in enumerate((SECRET_ADDRESS, SECRET_ADDRESS, "other@example.com"), 1):
        office.put(str(number), recipient, message=number)
    office.put("a link")
    office.deliver()
    office.put("4", message=4)
    office.deliver()
    assert office.server.subjects == ["a link", "3"]
    office.server.failures.clear()
    office.clock.now += pause_after(1)
    office.deliver()
    assert office.server.subjects[2:] == ["1", "2", "4"]
