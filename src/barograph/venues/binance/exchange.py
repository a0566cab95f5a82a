"""Binance as the markets' `Exchange`.

A reading takes two calls. The open interest takes one call per contract, so `keep_up` collects it
in the background (`sweep.py`).
"""

import math
from collections.abc import Collection, Sequence
from typing import Unpack

from barograph.errors import InvalidReply, UnknownToUpstream, UpstreamError
from barograph.kit.http_client import TimeBudget
from barograph.kit.timestamps import MINUTE, SECOND
from barograph.settings import Settings
from barograph.venues.binance import decode, history
from barograph.venues.binance.decode import Contract, Row
from barograph.venues.binance.history import LONG_SHARES
from barograph.venues.binance.rest import RestClient
from barograph.venues.binance.stream import LiquidationStream
from barograph.venues.binance.sweep import FIRST_WEIGHT_PER_MINUTE, OpenInterestSweep
from barograph.venues.exchange import LiquidationWatcher, PastValue
from barograph.venues.kit.client import Parts, VenueAdapter
from barograph.venues.kit.contract_cache import ContractCache, ListedContracts
from barograph.venues.kit.past_pages import Pacer
from barograph.venues.records import LongAccounts, Perpetuals, SettledRate
from barograph.venues.registry import BINANCE, VENUES

LISTING_SECONDS = 240.0
"""Seconds between two readings of the list of contracts with their funding intervals."""

READING_WEIGHT = 12
"""Of one reading: 10 for the premium index and 2 for the prices."""

_RATIO_PERIOD = 5 * MINUTE


def live_weight_per_minute(poll_seconds: float) -> int:
    """The most request weight that live calls take; the exchange allows 2,400 per minute.

    The list of contracts and the clock add 1 each.
    """
    return math.ceil(60 / poll_seconds) * READING_WEIGHT + FIRST_WEIGHT_PER_MINUTE + 2


class BinanceExchange(VenueAdapter):
    """Binance's public data of USDT perpetuals.

    https://developers.binance.com/docs/derivatives/usds-margined-futures/general-info
    """

    venue = VENUES[BINANCE]
    client = RestClient
    _rest: RestClient

    def __init__(self, settings: Settings, **parts: Unpack[Parts]) -> None:
        super().__init__(settings, settings.binance_rest_url, parts)
        clock, sleep = self._clock, self._sleep
        self._history = history.BinanceHistory(self._rest, clock=clock, sleep=sleep)
        self._stream = LiquidationStream(
            BINANCE,
            settings,
            self._metrics,
            clock=clock,
            sleep=sleep,
            random=self._random,
            ping_seconds=self._ping_seconds,
        )
        self._sweep = OpenInterestSweep(self._rest, clock=clock, sleep=sleep)
        self._catalogue = ContractCache(self._listing, clock, LISTING_SECONDS)
        self._doubts = decode.IntervalDoubts()
        # However often the collector asks, the history keeps its half of the limit.
        self._statistics = Pacer(1 / history.CALLS_PER_SECOND, clock=clock, sleep=sleep)

    async def perpetuals(self) -> Perpetuals:
        """Read every live crypto perpetual against USDT at once; raises `UpstreamError`."""
        is_first = self._times.last_as_of == 0 or self._catalogue.is_empty
        budget = self._rest.start_budget() if is_first else self._rest.budget()
        listing = await self._catalogue.current(budget)
        self._sweep.follow(listing.kept)
        if is_first:
            budget = self._rest.start_budget()
        ask = self._rest.ask
        rows = await ask("/fapi/v1/premiumIndex", {}, self._fresh_rows, budget, "reading")
        prices = await ask("/fapi/v2/ticker/price", {}, self._fresh_rows, budget, "reading")
        changed = await self._changed_intervals(listing, budget)
        doubtful = self._doubts.of(rows, listing.kept, self._clock()) | changed
        reading = self._reading(rows, prices, listing, doubtful)
        if budget.is_half_left():
            symbols = {row.symbol for row in rows}
            await self._catalogue.review(symbols, budget, in_doubt=bool(doubtful))
        return reading

    async def keep_up(self) -> None:
        """Read the open interest of one contract after the other, until cancelled."""
        await self._sweep.run()

    async def long_accounts(self, contract: str) -> LongAccounts:
        """Read the newest long-account share of one contract; raises `UpstreamError`."""

        def read(body: bytes) -> LongAccounts:
            page, now = LONG_SHARES.decode(body, contract), self._clock()
            if not page:
                raise UnknownToUpstream(f"the exchange has no account ratio of {contract}")
            sampled_at = max(page)
            share = page[sampled_at]
            if share is None or sampled_at > now + _RATIO_PERIOD:
                raise InvalidReply(f"the account ratio of {contract} can't be right")
            return LongAccounts(contract, share, min(sampled_at, now))

        await self._statistics.wait()
        params = {"symbol": contract, "period": "5m", "limit": "1"}
        return await self._rest.ask(LONG_SHARES.path, params, read)

    async def past_prices(self, contract: str, start: int, end: int) -> list[PastValue]:
        """Read prices at the full hour, in USDT; raises `UpstreamError`."""
        return await self._history.hours(history.PRICES, contract, start, end)

    async def past_open_interest(self, contract: str, start: int, end: int) -> list[PastValue]:
        """Read single-sided open interest in coins; raises `UpstreamError`."""
        return await self._history.hours(history.OPEN_INTEREST, contract, start, end)

    async def past_long_accounts(self, contract: str, start: int, end: int) -> list[PastValue]:
        """Read long-account shares in percent; raises `UpstreamError`."""
        return await self._history.hours(LONG_SHARES, contract, start, end)

    async def past_settlements(self, contract: str, start: int, end: int) -> list[SettledRate]:
        """Read settled funding rates; raises `UpstreamError`."""
        return await self._history.settlements(contract, start, end)

    async def server_time(self) -> int:
        """Read the exchange's clock in Unix milliseconds, unchecked; raises `UpstreamError`."""
        return await self._rest.ask("/fapi/v1/time", {}, decode.decode_time)

    async def listen(self, contracts: Sequence[str], watcher: LiquidationWatcher) -> None:
        """Receive the liquidations of `contracts` until cancelled, reconnecting as needed."""
        await self._stream.listen(contracts, watcher)

    async def _listing(self, budget: TimeBudget) -> ListedContracts[Contract]:
        ask = self._rest.ask
        rows = await ask(
            "/fapi/v1/exchangeInfo", {}, decode.decode_exchange_info, budget, "reading"
        )
        # It shares a limit with settled rates, so it must not speak for the exchange.
        funding = await ask("/fapi/v1/fundingInfo", {}, decode.decode_rows, budget)
        return decode.contracts_of(rows, funding)

    async def _changed_intervals(
        self, listing: ListedContracts[Contract], budget: TimeBudget
    ) -> set[str]:
        """Look with every reading: with an old interval, the rate per 8 hours would be wrong."""
        try:
            funding = await self._rest.ask("/fapi/v1/fundingInfo", {}, decode.decode_rows, budget)
        except UpstreamError:
            return set()  # the list of contracts is read again soon
        return decode.changed_intervals(funding, listing.kept)

    def _fresh_rows(self, body: bytes) -> list[Row]:
        rows = decode.decode_rows(body)
        self._times.check(decode.newest_time(rows))
        return rows

    def _reading(
        self,
        rows: Sequence[Row],
        prices: Sequence[Row],
        listing: ListedContracts[Contract],
        doubtful: Collection[str],
    ) -> Perpetuals:
        # Half of the freshness limit, or one contract that lags would make the reading stale.
        oldest = decode.newest_time(rows) - round(self._settings.feed_max_age_seconds * SECOND / 2)
        with self._catalogue.fitting():
            reading = decode.reading_of(
                rows,
                prices,
                listing.kept,
                self._sweep.values(),
                oldest=oldest,
                doubtful=doubtful,
            )
        return Perpetuals(
            self._times.as_of(self._times.check(reading.as_of)),
            self.source,
            reading.perpetuals,
            reading.refused,
            left_out=listing.left_out,
            unknown_classes=listing.unknown_classes,
            not_crypto=sorted(listing.others),
            venue=BINANCE,
            unusable=sorted({*reading.unusable, *listing.unusable}),
        )
