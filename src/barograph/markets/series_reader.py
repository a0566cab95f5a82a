"""Reads the record for charts and downloads, once for everybody who asks."""

from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any, TypeVar, cast

from barograph.kit.clock import Clock
from barograph.kit.database import Database, Transaction
from barograph.kit.minute_cache import MinuteCache
from barograph.kit.single_flight import SingleFlight
from barograph.kit.timestamps import DAY
from barograph.markets.samples import LiquidationSeries, Measure, PastRegime, Series
from barograph.markets.series import liquidation_series, reading_series, regimes_at

T = TypeVar("T")

KEPT_SERIES = 128


class SeriesReader:
    """Reads series from the record, each at most once a minute, which is its finest step."""

    def __init__(self, database: Database, clock: Clock, min_watched_pct: float) -> None:
        self.min_watched_pct = min_watched_pct
        """A column of liquidations that was watched less than this is partial."""

        self._database = database
        self._kept: MinuteCache[Hashable, object] = MinuteCache(clock, KEPT_SERIES)
        self._reading: SingleFlight[Hashable, object] = SingleFlight()

    async def reading(self, contract: str, measure: Measure, days: int) -> Series:
        """One measure of a contract, by its full name, over one of `DAYS`.

        Raises:
            DatabaseUnavailable: the record cannot be read.
        """

        async def work(tx: Transaction, minute: int) -> Series:
            return await reading_series(tx, contract, measure, days, minute)

        return await self._once((contract, measure, days), work)

    async def liquidations(self, days: int) -> LiquidationSeries:
        """Liquidations of all contracts over one of `DAYS`.

        Raises:
            DatabaseUnavailable: the record cannot be read.
        """

        async def work(tx: Transaction, minute: int) -> LiquidationSeries:
            return await liquidation_series(tx, days, minute, self.min_watched_pct)

        return await self._once(("liquidations", days), work)

    async def regimes(self, contract: str, days_ago: Sequence[int]) -> list[PastRegime]:
        """The regime that was in force so many days ago, with the rate of a contract.

        Raises:
            DatabaseUnavailable: the record cannot be read.
        """

        async def work(tx: Transaction, minute: int) -> list[PastRegime]:
            return await regimes_at(tx, contract, [minute - days * DAY for days in days_ago])

        return list(await self._once(("regimes", contract, *days_ago), work))

    async def _once(
        self, key: Hashable, work: Callable[[Transaction, int], Coroutine[Any, Any, T]]
    ) -> T:
        """Read at the first question of a minute, for everybody who asks in it."""
        kept = self._kept.get(key)
        if kept is not None:
            return cast("T", kept)
        minute = self._kept.minute

        async def read() -> object:
            return await self._database.read(lambda tx: work(tx, minute))

        found = await self._reading.do((key, minute), read)
        self._kept.put(key, minute, found)
        return cast("T", found)
