"""Charts for pages: each is read and drawn once per minute, however often its page is rendered."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

from barograph.kit.clock import Clock
from barograph.kit.minute_cache import MinuteCache
from barograph.markets.samples import Measure
from barograph.markets.series_reader import SeriesReader
from barograph.site.series.figures import Chart, liquidations_chart, measure_chart

KEPT_CHARTS = 1_024
"""At most 5 kB each."""


class ChartReader:
    """Draws charts from the record for pages below `root`."""

    def __init__(self, series: SeriesReader, root: str, clock: Clock) -> None:
        self._series = series
        self._root = root
        self._kept: MinuteCache[Hashable, Chart] = MinuteCache(clock, KEPT_CHARTS)

    async def measure(self, contract: str, symbol: str, measure: Measure, days: int) -> Chart:
        """The chart of one measure of a contract that pages call `symbol`.

        Raises:
            DatabaseUnavailable: the record cannot be read.
        """

        async def draw() -> Chart:
            series = await self._series.reading(contract, measure, days)
            return measure_chart(series, symbol, self._root)

        return await self._once((contract, symbol, measure, days), draw)

    async def liquidations(self, days: int) -> Chart:
        """The chart of the liquidations of all contracts.

        Raises:
            DatabaseUnavailable: the record cannot be read.
        """

        async def draw() -> Chart:
            series = await self._series.liquidations(days)
            return liquidations_chart(series, self._series.min_watched_pct, self._root)

        return await self._once(days, draw)

    async def _once(self, key: Hashable, draw: Callable[[], Awaitable[Chart]]) -> Chart:
        chart = self._kept.get(key)
        if chart is None:
            minute = self._kept.minute
            chart = await draw()
            self._kept.put(key, minute, chart)
            await asyncio.sleep(0)  # let hot reads pass between two drawings
        return chart
