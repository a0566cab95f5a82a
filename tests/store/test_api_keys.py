"""Personal keys: one for each mailbox, known only by a digest."""

import asyncio
import re
from collections.abc import Callable
from functools import partial

import pytest

from barograph.keys.api_keys import ApiKeys, KeyRecord, NewKey
from barograph.keys.email_address import Address, parse_address
from barograph.keys.registration import Forgotten, forget_mailbox
from barograph.kit.database import (
    ConstraintViolated,
    Database,
    DatabaseUnavailable,
    Transaction,
)
from barograph.kit.migrations import packaged_migrations, upgrade
from support.backends import on_sqlite
from support.clock import START, HandClock

PEPPER = b"p" * 32


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def keys(database: Database, clock: HandClock) -> ApiKeys:
    return ApiKeys(database, PEPPER, clock)


async def test_a_new_key_has_the_documented_form_and_only_its_digest_is_stored(
    keys: ApiKeys, database: Database, clock: HandClock
) -> None:
    new = await keys.create("Name+x@Example.com")

    assert re.fullmatch(r"bg_[0-9a-f]{16}_[0-9a-f]{64}", new.key)
    _, key_id, secret = new.key.split("_")
    assert (key_id, new.email) == (new.id, "Name+x@example.com")
    assert await keys.verify(new.key) == parse_address(new.email).mailbox
    assert await ApiKeys(database, b"q" * 32, clock).verify(new.key) is None
    ((digest, *others),) = await database.fetch("SELECT digest, api_keys.* FROM api_keys")
    assert re.fullmatch(r"[0-9a-f]{64}", digest)
    assert not any(secret in str(value) for value in (digest, *others))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda key: "",
        lambda key: key[:-1],
        lambda key: key[1:],
        lambda key: key + "0",
        lambda key: key.upper(),
        lambda key: key[:20] + key[20:].upper(),
        lambda key: f" {key}",
        lambda key: f"{key}\n",
        lambda key: f"{key} ",
        lambda key: key.replace("_", "-"),
        lambda key: key.replace("bg_", "sk_"),
        lambda key: key.rpartition("_")[0],
        lambda key: key[:-1] + ("0" if key[-1] != "0" else "1"),
        lambda key: f"bg_{'0' * 16}_{key.rpartition('_')[2]}",
        lambda key: key[:-1] + "\u0661",
        lambda key: key[:-1] + "\uff11",
        lambda key: "clé",
        lambda key: key * 10_000,
        lambda key: "\0" + key[1:],
        lambda key: "bg_' OR '1'='1_" + "0" * 64,
    ],
)
async def test_altered_key_does_not_work(keys: ApiKeys, spoil: Callable[[str], str]) -> None:
    new = await keys.create("name@example.com")
    assert await keys.verify(spoil(new.key)) is None


async def test_revoked_key_stops_working_at_once(keys: ApiKeys, clock: HandClock) -> None:
    assert await keys.records() == []
    new = await keys.create("name@example.com")
    clock.pass_seconds(1)
    other = await keys.create("other@example.com")

    assert await keys.revoke(new.id)

    assert await keys.verify(new.key) is None
    assert await keys.verify(other.key) == parse_address(other.email).mailbox
    for unknown in (new.id, "0" * 16):
        assert not await keys.revoke(unknown)
    assert await keys.records() == [  # the oldest first
        KeyRecord(new.id, "name@example.com", START, START + 1_000),
        KeyRecord(other.id, "other@example.com", START + 1_000, None),
    ]


async def test_mailbox_has_one_working_key_however_it_is_written(keys: ApiKeys) -> None:
    made = [
        await keys.create(email)
        for email in ("name@example.com", "NAME@example.com", "name+2@EXAMPLE.com")
    ]
    other = await keys.create("eman@example.com")

    assert [await keys.verify(new.key) for new in made] == [
        None,
        None,
        parse_address(made[2].email).mailbox,
    ]
    assert await keys.verify(other.key) == parse_address(other.email).mailbox


@on_sqlite
async def test_upgrade_leaves_one_working_key_of_a_gmail_mailbox_and_a_new_key_ends_it(
    empty_database: Database, clock: HandClock
) -> None:
    steps = packaged_migrations()
    place = [step.name for step in steps].index("gmail_mailboxes")
    await upgrade(empty_database, steps[:place], clock)
    keys, made = ApiKeys(empty_database, PEPPER, clock), []

    async def as_spelled(tx: Transaction, mailbox: str) -> NewKey:
        await tx.execute("INSERT INTO registrations VALUES ($1, $1, $1, 0, 1, 0, '', 1)", mailbox)
        return await keys.issue(tx, Address(mailbox, mailbox))

    for spelled in (
        "na.me@gmail.com",
        "name@gmail.com",
        "n.a.me@googlemail.com",
        "na.me@x.example",
    ):
        clock.pass_seconds(1)
        made.append(await empty_database.write(partial(as_spelled, mailbox=spelled)))
    await upgrade(empty_database, steps, clock)

    owners = [None, None, "name@gmail.com", "na.me@x.example"]
    assert [await keys.verify(each.key) for each in made] == owners
    ended = [each.revoked_at for each in await keys.records()]
    assert ended == [START + 3_000, START + 3_000, None, None]
    await keys.create("nam.e@gmail.com")
    assert await keys.verify(made[2].key) is None
    gone = await empty_database.write(lambda tx: forget_mailbox(tx, "name@gmail.com"))
    assert gone == Forgotten(keys=4, links=3, mails=0)


async def test_of_keys_made_at_once_for_a_mailbox_one_works(
    keys: ApiKeys, open_database: Callable[[], Database], clock: HandClock
) -> None:
    rival = ApiKeys(open_database(), PEPPER, clock)

    made = await asyncio.gather(*(each.create("name@example.com") for each in (keys, rival) * 5))
    owners = [await keys.verify(new.key) for new in made]
    assert len(owners) - owners.count(None) == 1


async def test_database_refuses_a_second_key_of_a_mailbox(
    keys: ApiKeys, database: Database
) -> None:
    new = await keys.create("name@example.com")

    async def work(tx: Transaction) -> None:
        await keys.issue(tx, parse_address("name@example.com"))
        await tx.execute("UPDATE api_keys SET revoked_at = NULL")

    with pytest.raises(ConstraintViolated):
        await database.write(work)
    assert await keys.verify(new.key) == parse_address(new.email).mailbox


async def test_missing_database_is_no_answer(empty_database: Database, clock: HandClock) -> None:
    keys = ApiKeys(empty_database, PEPPER, clock)  # without tables: nothing can be asked
    with pytest.raises(DatabaseUnavailable):
        await keys.verify(f"bg_{'0' * 16}_{'0' * 64}")
    with pytest.raises(DatabaseUnavailable):
        await keys.create("name@example.com")
