"""Gate as the markets' `Exchange`: https://www.gate.com/docs/developers/apiv4/en/#futures .

A reading takes three calls: the clock, because no reply has a time; the contracts with prices,
rates and positions; and the tickers with volumes. The exchange allows an address 200 calls of each
endpoint in ten seconds.

Liquidations come by REST, which has the sides of the position and of the order: the websocket
doesn't document whose side the sign of a size is. A call for the past also leaves no gap.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress

from barograph.errors import UpstreamError
from barograph.kit.http_client import TimeBudget
from barograph.kit.timestamps import HOUR, MINUTE, SECOND
from barograph.venues.exchange import LiquidationWatcher, PastValue
from barograph.venues.gate import decode
from barograph.venues.gate.facts import VENUE
from barograph.venues.kit.adapter import Reading, VenueAdapter
from barograph.venues.kit.cells import price, settled_pct
from barograph.venues.kit.contract_cache import ListedContracts
from barograph.venues.kit.past_pages import Past, PastSeries, settled_hour
from barograph.venues.kit.refusals import Refusals

log = logging.getLogger(__name__)

CONTRACTS = "/api/v4/futures/usdt/contracts"
TICKERS = "/api/v4/futures/usdt/tickers"
LIQUIDATIONS = "/api/v4/futures/usdt/liq_orders"

_PRICES = PastSeries(
    "/api/v4/futures/usdt/candlesticks",
    {"interval": "1h"},
    1000,
    decode.past(lambda row: decode.moment(row.t), lambda row: price(row.o)),
    names=("contract", "from", "to", ""),
    unit=SECOND,
)
_RATES = PastSeries(
    "/api/v4/futures/usdt/funding_rate",
    {},
    1000,
    decode.past(lambda row: settled_hour(decode.moment(row.t)), lambda row: settled_pct(row.r)),
    names=("contract", "from", "to", "limit"),
    unit=SECOND,
    is_newest_first=True,
)
_OPEN_INTEREST = PastSeries(
    "/api/v4/futures/usdt/contract_stats",
    {"interval": "1h"},
    100,
    decode.past(lambda row: decode.moment(row.time), decode.past_coins),
    names=("contract", "from", "to", "limit"),
    unit=SECOND,
)
_LONG_ACCOUNTS = _OPEN_INTEREST._replace(
    decode=decode.past(lambda row: decode.moment(row.time), decode.long_pct)
)
LIQUIDATION_SECONDS = 10.0
"""Between two calls for liquidations."""

_MOST = 1000
"""Rows of one call; if there are so many, others may be missing."""

_OVERLAP = MINUTE
"""Asked for again, because a liquidation may be listed late."""

_LONGEST = HOUR - MINUTE
"""The exchange answers for an hour at most."""

_SAME_SIDES = 0.7, 1.4
"""The newest past open interest by the live one; if it counted both sides, it would be twice it."""


class GateExchange(VenueAdapter):
    """Gate's public data of USDT perpetuals."""

    venue = VENUE
    past = Past(_PRICES, _RATES, _OPEN_INTEREST, _LONG_ACCOUNTS, {"interval": "5m"})
    history_weight = 300.0
    """Calls per minute, of the 1,200 that the exchange allows each endpoint."""

    time_path = "/api/v4/spot/time"
    refusals = Refusals({"CONTRACT_NOT_FOUND"}, pause=10.0)
    _reading: Reading | None = None
    _unreadable: Sequence[str] = ()

    async def server_time(self) -> int:
        """Read the exchange's clock in Unix milliseconds, unchecked; raises `UpstreamError`."""
        return await self.ask(self.time_path, {}, decode.decode_time)

    async def _list(self, budget: TimeBudget) -> ListedContracts:
        return decode.contracts_of(await self._rows(CONTRACTS, budget))

    async def _read(self, listing: ListedContracts, budget: TimeBudget) -> Reading:
        """Read the clock first, so that the values are never older than we say."""
        time = await self.ask(self.time_path, {}, decode.decode_time, budget, "reading")
        rows, tickers = await self._rows(CONTRACTS, budget), await self._rows(TICKERS, budget)
        self._reading = decode.reading_of(time, rows, tickers, listing.kept)
        return self._reading

    async def _rows(self, path: str, budget: TimeBudget) -> list[decode.Row]:
        return await self.ask(path, {}, decode.decode_rows, budget, "reading")

    async def listen(self, contracts: Sequence[str], watcher: LiquidationWatcher) -> None:
        """Ask for the liquidations since the last call, again and again, until cancelled."""
        since = self._clock()
        while True:
            with suppress(UpstreamError):  # the next call asks for this time too
                since = await self.liquidations(contracts, since, watcher)
            await self._sleep(LIQUIDATION_SECONDS)

    async def liquidations(
        self, contracts: Sequence[str], since: int, watcher: LiquidationWatcher
    ) -> int:
        """Pass on the liquidations of a span until now, and return now; raises `UpstreamError`."""
        now = self._clock()
        start = max(since, now - _LONGEST)
        first = max(start - _OVERLAP, now - _LONGEST)
        span = {"from": str(first // SECOND), "to": str(now // SECOND)}
        listing = await self._contracts.current(self._rest.budget())
        rows = await self.ask(LIQUIDATIONS, {**span, "limit": str(_MOST)}, decode.decode_rows)
        found, unreadable = decode.liquidations(rows, listing.kept, frozenset(contracts))
        if unreadable and unreadable != self._unreadable:  # several calls list the same ones
            log.warning("liquidations left out", extra={"rows": unreadable})
        self._unreadable = unreadable
        watcher.liquidated([it for it in found if first - SECOND < it.at <= now + SECOND])
        if start < now and len(rows) < _MOST and not unreadable:
            watcher.watched(start, now)
        return now

    async def past_open_interest(self, contract: str, start: int, end: int) -> list[PastValue]:
        """Read open interest in coins, if it counts the same sides as the live one.

        Only those of the live one are documented. Raises `UpstreamError`.
        """
        listed = self._reading and self._reading.perpetuals.get(contract)
        params = {"contract": contract, "limit": "1", **self.past.newest_share}
        page = await self._ask_past(
            _OPEN_INTEREST, params, lambda body: _OPEN_INTEREST.decode(body, contract)
        )
        then, live = page and page[max(page)], listed and listed.open_interest_coins
        if not live or not then or not _SAME_SIDES[0] < then / live < _SAME_SIDES[1]:
            return []
        return await super().past_open_interest(contract, start, end)


ADAPTER = GateExchange
