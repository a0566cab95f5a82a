"""A market as large as the real one: the simulated exchange, widened to 700 perpetuals.

It fills a database by the service's own functions, or runs the exchange, the collector and the web.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import cast

from barograph.collector.judge import Judge, write_conclusions
from barograph.collector.leader import collector_lease
from barograph.kit import opening
from barograph.kit.clock import system_clock
from barograph.kit.database import Database
from barograph.kit.http_client import HttpReply
from barograph.kit.lease import Lease
from barograph.kit.migrations import SERVICE, packaged_migrations, upgrade
from barograph.kit.timestamps import DAY, HOUR
from barograph.settings import Settings
from barograph.venues.bybit.decode import (
    contracts_of,
    decode_instruments,
    decode_tickers,
)
from barograph.venues.bybit.messages import Batch, decode_message
from barograph.venues.bybit.rest import open_envelope
from barograph.venues.kit.contract_cache import Contract
from barograph.venues.records import LongAccounts, Perpetuals
from barograph_demo.files import load_or_create_anchor
from barograph_demo.servers.control import send_command
from barograph_demo.servers.rest import answer
from barograph_demo.servers.stream import liquidation_messages
from barograph_demo.world.contracts import live_symbols
from barograph_demo.world.world import World
from benchmarks import bench

CONTRACTS = 700
EXTRA = CONTRACTS - len(live_symbols(system_clock()))
SEED = 1


class Market:
    """The wide market as the collector sees it: replies of the exchange, and the kept contracts."""

    def __init__(self, now: int) -> None:
        self.world = World(SEED, now // HOUR * HOUR - 2 * DAY, EXTRA)
        self.kept = self._kept(now)
        assert len(self.kept) == CONTRACTS

    def tickers(self, at: int) -> bytes:
        """The exchange's answer about all contracts."""
        return answer(self.world, "/v5/market/tickers", {"category": "linear"}, at)[1]

    def read(self, body: bytes, at: int) -> Perpetuals:
        """Decode such an answer the way the adapter does."""
        envelope = open_envelope(HttpReply(200, {}, body), at)
        tickers = decode_tickers(envelope.result, self.kept, envelope.time)
        return Perpetuals(envelope.time, "benchmark", tuple(tickers.perpetuals.values()))

    def brief(self, judge: Judge, now: int) -> None:
        """Give a judge everything except prices: all shares, and a whole day of liquidations."""
        judge.of("bybit").watched(now - DAY, now)
        for message in liquidation_messages(self.world, now - DAY, now):
            decoded = decode_message(message)
            if isinstance(decoded, Batch):
                judge.of("bybit").liquidated(decoded.liquidations)
        for contract in self.world.contracts(now):
            if contract.symbol in self.kept:
                share = round(100 * self.world.long_share(contract, now), 2)
                judge.of("bybit").sampled(LongAccounts(contract.symbol, share, now))

    def _kept(self, now: int) -> Mapping[str, Contract]:
        query = {"category": "linear", "limit": "1000"}
        body = answer(self.world, "/v5/market/instruments-info", query, now)[1]
        envelope = open_envelope(HttpReply(200, {}, body), now)
        return contracts_of([decode_instruments(envelope.result)]).kept


def benchmark_settings(data: Path) -> Settings:
    """The default settings on a free port, with freshness limits longer than a benchmark."""
    return Settings(
        data=data,
        port=bench.unused_port(),
        workers=1,
        log_level="warning",
        feed_max_age_seconds=3600,
    )


async def make_database(address: opening.Address, schema: str = SERVICE) -> Database:
    """A new database with its schema."""
    database = opening.open_database(address)
    await upgrade(database, packaged_migrations(schema, database.engine), system_clock)
    return database


async def open_leased_database(settings: Settings) -> tuple[Database, Lease]:
    """A new database with its schema, and the lease that a writer needs."""
    database = await make_database(settings.database_address)
    lease = collector_lease(database, system_clock)
    await lease.acquire()
    return database, lease


def publish_market(settings: Settings) -> None:
    """Fill a new database with the current market, by the service's own functions."""

    async def work() -> None:
        now = system_clock()
        market, judge = Market(now), Judge(settings)
        market.brief(judge, now)
        database, lease = await open_leased_database(settings)
        try:
            reading = market.read(market.tickers(now), now)
            await write_conclusions(database, lease, [judge.conclude(reading)])
            await lease.release()
        finally:
            await database.close()

    asyncio.run(work())


POLL_SECONDS = 1


@contextmanager
def running_world(data: Path, *servers: str, wide: bool = False) -> Iterator[dict[str, str]]:
    """The demo's exchange and other servers, by name: their addresses. Data is in `data/world`.

    A wide exchange is as large as a real one.
    """
    world = data / "world"  # beside a database it would mark a demo
    load_or_create_anchor(world, SEED, system_clock())
    port, ports = bench.unused_port(), {name: bench.unused_port() for name in servers}
    command = [*bench.BAROGRAPH, "demo", "world", "--port", str(port), "--data", str(world)]
    command += [f"--{name}-port={number}" for name, number in ports.items()]
    command += ["--extra-contracts", str(EXTRA)] if wide else []
    with bench.running(command, log=data / "world.log") as child:
        bench.until(lambda: bench.answers(port, "/v5/market/time"), child)
        places = {"bybit": port, **ports}
        yield {name: f"http://{bench.HOST}:{number}" for name, number in places.items()}


def calls(address: str) -> Counter[str]:
    """The requests that a simulated server has had, by path."""
    return Counter(cast("dict[str, int]", send_command(address, {"count": True})["requests"]))


def collector(settings: Settings) -> AbstractContextManager[bench.Child]:
    """`barograph collect` with these settings."""
    command = (*bench.BAROGRAPH, "collect", f"--child={os.getpid()}")
    log, environment = settings.data / "collector.log", settings.to_environment()
    return bench.running(command, log=log, environment=environment)


def live_settings(data: Path, exchange: str) -> Settings:
    """A service that reads this exchange."""
    return Settings(
        port=bench.unused_port(),
        data=data,
        accept_terms="bybit",
        log_level="warning",
        exchange_rest_url=exchange,
        poll_seconds=POLL_SECONDS,
    )
