"""`barograph serve` as a process, with a market that does not change."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from barograph.briefs.records import Brief
from barograph.briefs.store import record_briefs
from barograph.collector.judge import Judge, write_conclusions
from barograph.collector.leader import collector_lease
from barograph.kit.clock import system_clock
from barograph.kit.database import Transaction
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import DAY, HOUR
from barograph.settings import Settings
from support.markets import reading, shares
from support.processes import HOST, answer_200, eventually, running, unused_port

LASTING = {"BAROGRAPH_FEED_MAX_AGE_SECONDS": "3600"}


@contextmanager
def published_server(folder: Path, *, workers: int = 2, **environment: str) -> Iterator[str]:
    """Serve four contracts, their signals and a brief; yields the base address."""
    data = folder / "data"
    data.mkdir()
    asyncio.run(publish(Settings(data=data, exchange_source="test venue")))
    port = unused_port()
    settings = {
        "BAROGRAPH_DATA": str(data),
        "BAROGRAPH_PORT": str(port),
        "BAROGRAPH_WORKERS": str(workers),
        "BAROGRAPH_ACCEPT_TERMS": "bybit",
        **LASTING,
        **environment,
    }
    with running("serve", log=folder / "web.log", **settings):
        base_url = f"http://{HOST}:{port}"
        eventually(lambda: answer_200(f"{base_url}/api/agent/market-state"), "the first answer")
        yield base_url


async def publish(settings: Settings) -> None:
    """Write the market into a database, which is created if it is missing."""
    now = system_clock()
    judge = Judge(settings)
    judge.of("bybit").watched(now - DAY, now)
    for share in shares(now):
        judge.of("bybit").sampled(share)
    database = SQLiteDatabase(settings.database_path)
    await upgrade(database, packaged_migrations(), system_clock)
    lease = collector_lease(database, system_clock)
    await lease.acquire()
    # Also the full hour, which is what an hourly series has.
    readings = [judge.conclude(reading(at)) for at in (now // HOUR * HOUR, now)]
    await write_conclusions(database, lease, readings)
    await lease.release()
    await database.write(lambda tx: _keep_brief(tx, now))
    await database.close()


async def _keep_brief(tx: Transaction, now: int) -> None:
    brief = Brief(
        slug="funding-turns",
        published_at=now,
        category="funding",
        headline="BTC funding turns negative",
        coins=("BTC",),
        summary="Shorts pay.",
        body="Shorts pay longs.",
        source="test venue",
        rule="btc-funding-sign",
        window_start=now - HOUR,
        window_end=now,
        inputs="{}",
        inputs_digest="0" * 64,
        cooldown_key="btc-funding-sign:negative",
    )
    await record_briefs(tx, (brief,))
