"""What a start reads from a database about the terms of its sources."""

import asyncio

import pytest

from barograph.errors import ConfigurationError
from barograph.kit.database import Database, Transaction
from barograph.settings import Settings
from barograph.terms.sources import Unconfirmed
from barograph.terms.store import mark_instance, start_with_terms


def test_a_demo_needs_no_confirmation_and_keeps_its_mark(
    database: Database, runner: asyncio.Runner
) -> None:
    async def start(tx: Transaction) -> Unconfirmed:
        await mark_instance(tx, "demo", 1)
        await mark_instance(tx, "live", 2)
        return await start_with_terms(tx, Settings())

    assert runner.run(database.write(start)) == Unconfirmed()


def test_stored_confirmations_confirm_nothing_and_are_named_while_the_setting_is_missing(
    database: Database, runner: asyncio.Runner
) -> None:
    async def store(tx: Transaction) -> None:
        await tx.execute("INSERT INTO terms_confirmations VALUES ('bybit', '', 'terms', 1)")
        await mark_instance(tx, "live", 1)

    def start(settings: Settings) -> Unconfirmed:
        return runner.run(database.write(lambda tx: start_with_terms(tx, settings)))

    runner.run(database.write(store))
    with pytest.raises(ConfigurationError, match="set BAROGRAPH_ACCEPT_TERMS=bybit,"):
        start(Settings())
    only = Settings(accept_terms="treasury,nyfed")
    assert start(only) == Unconfirmed(("bybit", "ishares"))
