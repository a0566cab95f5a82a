"""From an address to a key: a link that works once, for a day."""

import asyncio
import re
from collections.abc import Callable
from typing import TypeVar

import pytest

from barograph.keys.api_keys import ApiKeys
from barograph.keys.email_address import parse_address
from barograph.keys.registration import LinkNotUsable, Registrations, forget_registrations
from barograph.kit.database import Database, DatabaseUnavailable, Row, Work
from barograph.limits.rate_limits import MAILBOX
from support.clock import START
from support.databases import DatabaseDouble
from support.steps import Steps

BASE_URL = "https://barograph.example"
DAY_SECONDS = 24 * 3600
CALLER = "203.0.113.7"
T = TypeVar("T")


class ReadOnly(DatabaseDouble):
    """A database in which nothing may be written."""

    async def write(self, work: Work[T]) -> T:
        raise AssertionError("a write transaction was begun")


class Desk(Steps):
    """Registrations over a database, and what lies in its tables."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        super().__init__(database, runner)
        self.keys = ApiKeys(database, b"p" * 32, self.clock)
        self.registrations = Registrations(database, self.keys, base_url=BASE_URL, clock=self.clock)

    def ask(self, email: str) -> None:
        self.run(self.registrations.request(parse_address(email), CALLER))

    def redeem(self, token: str) -> str:
        return self.run(self.registrations.redeem(token)).key

    def verify(self, key: str) -> str | None:
        return self.run(self.keys.verify(key))

    def mails(self) -> list[Row]:
        return self.fetch("SELECT recipient, subject, body FROM outbox ORDER BY created_at")

    def links(self) -> list[Row]:
        return self.fetch("SELECT * FROM registrations ORDER BY created_at")

    def last_token(self) -> str:
        body = self.mails()[-1][2]
        (token,) = re.findall(rf"^{BASE_URL}/keys/([\w-]+)$", body, re.MULTILINE)
        return str(token)


@pytest.fixture
def desk(database: Database, runner: asyncio.Runner) -> Desk:
    return Desk(database, runner)


def test_the_link_is_stored_only_as_a_digest(desk: Desk) -> None:
    desk.ask("name@example.com")

    (row,) = desk.links()
    token = desk.last_token()
    assert len(token) == 43
    assert not any(token in str(value) for value in row)


@pytest.mark.outcome(
    "A visitor presses the button on a key link twice",
    "One key is created.",
)
def test_link_used_twice_at_once_creates_one_key(
    desk: Desk, open_database: Callable[[], Database], runner: asyncio.Runner
) -> None:
    desk.ask("name@example.com")
    token = desk.last_token()
    desks = (desk, Desk(open_database(), runner)) * 4

    async def all_at_once() -> list[object]:
        redeemed = (each.registrations.redeem(token) for each in desks)
        return await asyncio.gather(*redeemed, return_exceptions=True)

    ended = runner.run(all_at_once())
    assert sum(isinstance(each, LinkNotUsable) for each in ended) == 7
    assert desk.fetch("SELECT COUNT(*) FROM api_keys") == [(1,)]


def test_who_tries_out_links_keeps_no_writer_waiting(
    desk: Desk, database: Database, runner: asyncio.Runner
) -> None:
    desk.ask("name@example.com")
    used = desk.last_token()
    desk.redeem(used)
    guessing = Desk(ReadOnly(database), runner)

    for token in (used, "0" * 43, "nonsense"):
        with pytest.raises(LinkNotUsable):
            guessing.redeem(token)


def test_one_gmail_mailbox_gets_three_mails_and_one_key_whatever_its_spelling(desk: Desk) -> None:
    spellings = ["ab.cd", "a.bcd", "a.b.c.d", "AB.CD+x", "abcd"]
    for number, local in enumerate(spellings):
        desk.clock.pass_seconds(1)
        desk.ask(f"{local}@{('gmail.com', 'GoogleMail.com')[number % 2]}")
        if number == 0:
            first = desk.redeem(desk.last_token())
    assert [row[0] for row in desk.mails()] == [
        "ab.cd@gmail.com",
        "a.bcd@googlemail.com",
        "a.b.c.d@gmail.com",
    ]
    desk.redeem(desk.last_token())
    assert desk.verify(first) is None


def test_a_mailbox_gets_three_mails_a_day_however_it_is_written(desk: Desk) -> None:
    for email in ("name@example.com", "NAME@example.com", "name+1@example.com"):
        desk.ask(email)
    assert len(desk.mails()) == MAILBOX.requests == 3

    desk.ask("name+2@example.com")
    assert len(desk.mails()) == 3
    assert len(desk.links()) == 4, "the same work is done, less the mail"
    desk.ask("other@example.com")
    assert len(desk.mails()) == 4
    desk.clock.pass_seconds(DAY_SECONDS)
    desk.ask("name@example.com")
    assert len(desk.mails()) == 5


def test_the_same_is_stored_for_known_and_unknown_addresses(desk: Desk) -> None:
    desk.ask("known@example.com")
    desk.redeem(desk.last_token())
    desk.clock.pass_seconds(1)
    desk.ask("known@example.com")
    desk.clock.pass_seconds(1)
    desk.ask("other@example.com")

    known, other = (row[4:] for row in desk.links()[1:])
    assert known[:2] == (START + 1_000 + DAY_SECONDS * 1_000, None)
    assert other[:2] == (START + 2_000 + DAY_SECONDS * 1_000, None)
    assert known[2:] == other[2:], "the same caller, and both were mailed"
    assert CALLER not in str(known)
    first, second = (re.sub(r"/keys/\S+", "", body) for _, _, body in desk.mails()[1:])
    assert first == second


def test_links_that_ran_out_are_forgotten_with_their_addresses(desk: Desk) -> None:
    desk.ask("name@example.com")
    desk.clock.pass_seconds(DAY_SECONDS / 2)
    desk.ask("other@example.com")
    desk.clock.pass_seconds(DAY_SECONDS / 2)

    desk.write(lambda tx: forget_registrations(tx, desk.clock()))

    assert [row[1] for row in desk.links()] == ["other@example.com"]
    assert [row[0] for row in desk.mails()] == []


def test_a_failed_transaction_leaves_the_link_as_it_was(desk: Desk) -> None:
    desk.ask("name@example.com")
    token = desk.last_token()
    desk.execute("ALTER TABLE api_keys RENAME TO away")
    with pytest.raises(DatabaseUnavailable):
        desk.redeem(token)
    assert desk.run(desk.registrations.is_usable(token))
    desk.execute("ALTER TABLE away RENAME TO api_keys")
    assert desk.verify(desk.redeem(token)) is not None
    desk.execute("ALTER TABLE outbox RENAME TO away")
    with pytest.raises(DatabaseUnavailable):
        desk.ask("other@example.com")
    assert [row[1] for row in desk.links()] == ["name@example.com"]
