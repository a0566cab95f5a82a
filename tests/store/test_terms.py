"""What a start reads from a database about the terms of its sources."""

import pytest

from barograph.errors import ConfigurationError
from barograph.kit.database import Database, Transaction
from barograph.settings import Settings
from barograph.terms.sources import Unconfirmed
from barograph.terms.store import mark_instance, start_with_terms


async def test_a_demo_needs_no_confirmation_and_keeps_its_mark(database: Database) -> None:
    async def start(tx: Transaction) -> Unconfirmed:
        await mark_instance(tx, "demo", 1)
        await mark_instance(tx, "live", 2)
        return await start_with_terms(tx, Settings())

    assert await database.write(start) == Unconfirmed()


async def test_stored_confirmations_confirm_nothing_without_the_setting(database: Database) -> None:
    async def store(tx: Transaction) -> None:
        await tx.execute("INSERT INTO terms_confirmations VALUES ('bybit', '', 'terms', 1)")
        await mark_instance(tx, "live", 1)

    await database.write(store)
    with pytest.raises(ConfigurationError, match="set BAROGRAPH_ACCEPT_TERMS=bybit,"):
        await database.write(lambda tx: start_with_terms(tx, Settings()))
    only = Settings(accept_terms="treasury,nyfed")
    unconfirmed = await database.write(lambda tx: start_with_terms(tx, only))
    assert unconfirmed == Unconfirmed(("bybit", "ishares"))
