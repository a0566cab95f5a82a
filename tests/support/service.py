"""The production web application in process, over a real database, with a clock held by hand."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import httpx

from barograph.app import create_app
from barograph.collector import collector_lease
from barograph.errors import UpstreamError
from barograph.kit.database import SQLiteDatabase
from barograph.kit.lease import Lease
from barograph.kit.migrations import packaged_migrations, upgrade
from barograph.markets.desk import Conclusion, MarketDesk, write_conclusions
from barograph.markets.records import Liquidation, LongAccounts, Perpetuals
from barograph.settings import Settings
from support.clock import HandClock

BASE_URL = "https://barograph.example"


class Service:
    """Publishes as the collector does and reads as a caller does."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.settings = Settings.model_validate(
            {"data": folder, "base_url": BASE_URL, "exchange_source": "test venue", **settings}
        )
        self.clock = HandClock()
        self.database = SQLiteDatabase(self.settings.database_path)
        asyncio.run(upgrade(self.database, packaged_migrations(), self.clock))
        self.desk = MarketDesk(self.settings)
        self.lease: Lease = collector_lease(self.settings, self.database, self.clock)
        asyncio.run(self.lease.acquire())
        self.app, self.board = create_app(self.settings, self.database, clock=self.clock)

    def publish(self, reading: Perpetuals, shares: Iterable[LongAccounts] = ()) -> None:
        for share in shares:
            self.desk.sampled(share)
        self._store(self.desk.conclude(reading))

    def publish_failure(self, error: UpstreamError) -> None:
        self._store(self.desk.conclude_failure(error, self.clock()))

    def watch_day(self, liquidations: Sequence[Liquidation] = ()) -> None:
        """Watch the whole last day and hear these liquidations."""
        self.desk.watched(self.clock() - 86_400_000, self.clock())
        self.desk.liquidated(liquidations)

    def get(self, path: str, method: str = "GET", **headers: str) -> httpx.Response:
        names = {name.replace("_", "-"): value for name, value in headers.items()}

        async def call() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
                return await client.request(method, path, headers=names)

        return asyncio.run(call())

    def refresh(self) -> None:
        asyncio.run(self.board.refresh())

    def close(self) -> None:
        asyncio.run(self.database.close())

    def _store(self, conclusion: Conclusion) -> None:
        asyncio.run(write_conclusions(self.database, self.lease, [conclusion]))
        self.desk.written(conclusion)
        self.refresh()
