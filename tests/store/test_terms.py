"""What a database was created for, and which terms its operator has confirmed."""

import asyncio

from barograph.collector.judge import Judge, write_conclusions
from barograph.collector.leader import collector_lease
from barograph.kit.database import Database
from barograph.kit.timestamps import DAY
from barograph.settings import Settings
from barograph.terms.sources import SOURCES, Confirmation, Unconfirmed
from barograph.terms.store import (
    confirm,
    mark_instance,
    read_confirmations,
    read_instance,
    read_unconfirmed,
    revoke,
    start_with_terms,
)
from support.clock import START, HandClock
from support.markets import reading
from support.payments import PAYMENTS

EVERYTHING = Settings.model_validate({"etf_url": "https://issuer.example/f.csv", **PAYMENTS})


def begin(database: Database, runner: asyncio.Runner, now: int, **given: str) -> Unconfirmed:
    settings = EVERYTHING.model_copy(update=given)
    return runner.run(database.write(lambda tx: start_with_terms(tx, settings, now)))


async def measure(database: Database) -> None:
    """Record a reading, as a collector does."""
    lease = collector_lease(EVERYTHING, database, HandClock())
    await lease.acquire()
    await write_conclusions(database, lease, [Judge(EVERYTHING).conclude(reading(START))])


def test_a_confirmation_is_stored_with_the_date_of_the_terms_and_holds_until_revoked(
    database: Database, runner: asyncio.Runner
) -> None:
    runner.run(database.write(lambda tx: mark_instance(tx, "live", START)))

    first = begin(database, runner, START, accept_terms="bybit, treasury")
    begin(database, runner, START + DAY, accept_terms="bybit")

    assert first == Unconfirmed(["nyfed", "ishares", "selling"])
    assert first.unused == first.sources
    dated = SOURCES["bybit"].terms_date
    held = runner.run(database.read(read_confirmations))
    assert (list(held), held["bybit"]) == (["bybit", "treasury"], Confirmation(dated, START))
    runner.run(database.write(lambda tx: revoke(tx, ["bybit"], START + 2 * DAY)))
    assert "bybit" in begin(database, runner, START + 2 * DAY).sources
    rows = runner.run(database.read(lambda tx: tx.fetch("SELECT * FROM terms_confirmations")))
    assert ("bybit", dated, "terms", START, START + 2 * DAY) in rows


def test_newer_terms_are_confirmed_beside_the_older_confirmation(
    database: Database, runner: asyncio.Runner
) -> None:
    runner.run(database.write(lambda tx: confirm(tx, ["bybit"], START)))
    older = "UPDATE terms_confirmations SET terms_date = '2020-01-01'"
    runner.run(database.write(lambda tx: tx.execute(older)))

    runner.run(database.write(lambda tx: confirm(tx, ["bybit"], START + DAY)))

    held = runner.run(database.read(read_confirmations))
    assert held == {"bybit": Confirmation(SOURCES["bybit"].terms_date, START + DAY)}
    count = "SELECT count(*) FROM terms_confirmations"
    assert runner.run(database.read(lambda tx: tx.fetch(count))) == [(2,)]


def test_an_upgraded_instance_has_30_days_to_confirm_except_where_consent_is_needed(
    database: Database, runner: asyncio.Runner
) -> None:
    runner.run(measure(database))
    runner.run(database.write(lambda tx: mark_instance(tx, "live", START)))
    runner.run(
        database.write(lambda tx: mark_instance(tx, "live", START + DAY))
    )  # prolongs nothing

    during = begin(database, runner, START + 30 * DAY - 1)
    after = begin(database, runner, START + 30 * DAY)

    assert during == Unconfirmed(list(SOURCES), START + 30 * DAY)
    assert during.unused == ["ishares"]
    assert after.unused == list(SOURCES)


def test_a_demo_needs_no_confirmation_and_keeps_its_mark(
    database: Database, runner: asyncio.Runner
) -> None:
    runner.run(database.write(lambda tx: mark_instance(tx, "demo", START)))
    runner.run(database.write(lambda tx: mark_instance(tx, "live", START + DAY)))

    assert begin(database, runner, START, accept_terms="bybit") == Unconfirmed([])
    instance = runner.run(database.read(read_instance))
    assert instance is not None
    assert instance.kind == "demo"
    assert runner.run(database.read(read_confirmations)) == {}


def test_only_configured_sources_need_a_confirmation(
    database: Database, runner: asyncio.Runner
) -> None:
    off = {"treasury_url": "", "nyfed_url": "", "etf_url": ""}
    bare = Settings.model_validate(off)

    found = runner.run(database.read(lambda tx: read_unconfirmed(tx, bare, START)))

    assert found == Unconfirmed(["bybit"])
