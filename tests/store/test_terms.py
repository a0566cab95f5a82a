"""What a database was created for, and which terms its operator has confirmed."""

import asyncio

from barograph.collector.judge import Judge, write_conclusions
from barograph.collector.leader import collector_lease
from barograph.kit.database import Database
from barograph.kit.timestamps import DAY
from barograph.macro.records import Figure
from barograph.macro.store import record_figures
from barograph.settings import Settings
from barograph.terms.sources import SOURCES, Confirmation, Instance, Unconfirmed
from barograph.terms.store import (
    configured_sources,
    confirm,
    mark_instance,
    read_terms,
    revoke,
    start_with_terms,
)
from support.clock import START, HandClock
from support.markets import reading
from support.payments import PAYMENTS

EVERYTHING = Settings.model_validate(
    {
        "etf_url": "https://issuer.example/f.csv",
        "venues": "bybit,hyperliquid,binance",
        **PAYMENTS,
    }
)


def begin(database: Database, runner: asyncio.Runner, now: int, **given: str) -> Unconfirmed:
    settings = EVERYTHING.model_copy(update=given)
    return runner.run(database.write(lambda tx: start_with_terms(tx, settings, now)))


async def measure(database: Database) -> None:
    """Record a reading, as a collector does."""
    lease = collector_lease(EVERYTHING, database, HandClock())
    await lease.acquire()
    await write_conclusions(database, lease, [Judge(EVERYTHING).conclude(reading(START))])


async def use(database: Database, series: str) -> None:
    """Record a daily figure."""
    figure = Figure(series, "2026-11-02", 4.1, "a publisher")
    await database.write(lambda tx: record_figures(tx, [figure], START))


def test_a_confirmation_has_the_date_of_the_terms_and_holds_until_renewed_or_revoked(
    database: Database, runner: asyncio.Runner
) -> None:
    first = begin(database, runner, START, accept_terms="bybit, treasury")
    begin(database, runner, START + DAY, accept_terms="bybit")
    dated = SOURCES["bybit"].terms_date

    assert first.unused == ["hyperliquid", "binance", "nyfed", "ishares", "selling"]
    _, held = runner.run(database.read(read_terms))
    assert (list(held), held["bybit"]) == (["bybit", "treasury"], Confirmation(dated, START))
    older = "UPDATE terms_confirmations SET terms_date = '2020-01-01'"
    runner.run(database.write(lambda tx: tx.execute(older)))
    runner.run(database.write(lambda tx: confirm(tx, ["bybit"], START + DAY)))
    _, held = runner.run(database.read(read_terms))
    assert held["bybit"] == Confirmation(dated, START + DAY)
    runner.run(database.write(lambda tx: revoke(tx, ["bybit"])))
    assert "bybit" in begin(database, runner, START + 2 * DAY).unused


def test_after_an_upgrade_exactly_the_sources_in_use_have_30_days(
    database: Database, runner: asyncio.Runner
) -> None:
    runner.run(measure(database))
    runner.run(use(database, "etf-ibit-btc"))
    runner.run(database.write(lambda tx: mark_instance(tx, "live", START)))
    runner.run(use(database, "us10y"))
    # Neither a later start nor a source that is read later changes what the upgrade decided.
    runner.run(database.write(lambda tx: mark_instance(tx, "live", START + DAY)))

    during = begin(database, runner, START + 30 * DAY - 1)
    after = begin(database, runner, START + 30 * DAY)

    until = START + 30 * DAY
    used = {"bybit": until, "ishares": until}
    assert during == Unconfirmed(dict.fromkeys(SOURCES) | used)
    assert during.unused == ["hyperliquid", "binance", "treasury", "nyfed", "selling"]
    assert after.unused == list(SOURCES)


def test_an_operators_own_etf_file_is_no_use_of_the_issuers(
    database: Database, runner: asyncio.Runner
) -> None:
    for series in ("etf-operator-flow", "sofr"):
        runner.run(use(database, series))
    runner.run(database.write(lambda tx: mark_instance(tx, "live", START)))

    instance, _ = runner.run(database.read(read_terms))
    assert instance == Instance("live", START, "nyfed")


def test_a_demo_needs_no_confirmation_and_keeps_its_mark(
    database: Database, runner: asyncio.Runner
) -> None:
    runner.run(database.write(lambda tx: mark_instance(tx, "demo", START)))
    runner.run(database.write(lambda tx: mark_instance(tx, "live", START + DAY)))

    assert begin(database, runner, START, accept_terms="bybit") == Unconfirmed({})
    assert runner.run(database.read(read_terms)) == (Instance("demo", START), {})


def test_only_configured_sources_need_a_confirmation() -> None:
    off = {"treasury_url": "", "nyfed_url": "", "etf_file": "flows.csv"}
    assert configured_sources(Settings.model_validate(off)) == ["bybit"]
    assert configured_sources(EVERYTHING) == list(SOURCES)
    two = Settings.model_validate({**off, "venues": "binance,hyperliquid"})
    assert configured_sources(two) == ["hyperliquid", "binance"]
