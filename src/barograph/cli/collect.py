"""`barograph collect`: the write side."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from barograph.cli.open_history import prepare_history
from barograph.cli.options import (
    child_option,
    data_option,
    read_settings,
    upgrade_database,
    warn_if_world_writable,
)

if TYPE_CHECKING:
    from barograph.kit.clock import Clock
    from barograph.kit.database import Database
    from barograph.payments.reconcile import Reconciler
    from barograph.payments.records import Chain
    from barograph.settings import Settings

FILE_SECONDS = 20.0
"""The budget of one file of daily figures, its retries included."""


@click.command()
@data_option
@child_option
def collect(data: Path | None, child: int | None) -> None:
    """Collect from the exchange until stopped; a second collector stands by.

    \b
    Example:
      BAROGRAPH_EXCHANGE_REST_URL=https://api.bybit.eu barograph collect
    """
    import asyncio

    from barograph.kit.logs import configure_logs
    from barograph.kit.operating_system import die_with_parent

    if child is not None:
        die_with_parent(child)
    settings = read_settings(data=data)
    configure_logs(settings.log_level)
    if child is None:
        warn_if_world_writable(settings.data)
    prepare_history(settings)
    upgrade_database(settings)
    asyncio.run(_collect(settings))


async def _collect(settings: "Settings") -> None:
    import asyncio
    import signal

    from barograph.collector.daily_jobs import (
        Duty,
        MacroDuty,
        ReconcilingDuty,
        SettlementDuty,
        StanceDuty,
    )
    from barograph.collector.leader import Collector
    from barograph.history.ledger import Ledger
    from barograph.kit.clock import system_clock
    from barograph.kit.database import SQLiteDatabase
    from barograph.stances.issue import StanceDesk
    from barograph.upstream.bybit import BybitExchange
    from barograph.upstream.chain import JsonRpcChain
    from barograph.upstream.files import FileClient
    from barograph.upstream.macro import macro_sources
    from barograph.upstream.mail import SmtpSender

    mail = SmtpSender(settings, clock=system_clock) if settings.sends_mail else None
    database = SQLiteDatabase(settings.database_path, create=False)
    # Reading is done on the spot: a record that is locked must not hold up measuring.
    history = SQLiteDatabase(settings.history_path, busy_ms=50, write_busy_ms=5_000, create=False)
    files = FileClient(seconds=FILE_SECONDS, clock=system_clock)
    sources = macro_sources(settings, files, clock=system_clock)
    ledger = Ledger(history, system_clock)
    desk = StanceDesk(settings, database, ledger, system_clock)
    exchange = BybitExchange(settings, clock=system_clock)
    duties: list[Duty] = [
        MacroDuty(sources, database, seconds=settings.macro_seconds, clock=system_clock),
        SettlementDuty(exchange, database, clock=system_clock),
        StanceDuty(desk, ledger),
    ]
    chain = JsonRpcChain(settings) if settings.x402_chain_url else None
    if settings.takes_payments:
        duties.append(
            ReconcilingDuty(
                database, lambda fenced: reconciler(settings, fenced, chain, system_clock)
            )
        )
    collector = Collector(
        settings, exchange, database, clock=system_clock, mail=mail, duties=duties
    )
    running = asyncio.create_task(collector.run())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    try:
        await asyncio.wait([running])
        if not running.cancelled():
            running.result()
    finally:
        await exchange.close()
        await files.close()
        if chain is not None:
            await chain.close()
        await history.close()
        await database.close()


def reconciler(
    settings: "Settings", database: "Database", chain: "Chain | None", clock: "Clock"
) -> "Reconciler":
    """Who finds out what became of payments, and grants what was paid for."""
    from barograph.entitlements.purchases import FeedGrants
    from barograph.entitlements.store import Entitlements
    from barograph.payments.journal import Journal
    from barograph.payments.reconcile import Reconciler

    entitlements = Entitlements(database, clock)
    grants = FeedGrants(entitlements, clock, period_days=settings.feed_period_days)
    return Reconciler(Journal(database, clock), chain, clock, grants.grant_for)
