"""Hyperliquid as the markets' `Exchange`.

The exchange publishes no liquidations, no long-account shares and no prices of last trades. When
it hangs or fails, `VenueClient` applies timeouts, retries and circuit breakers.

An address may use a weight of 1,200 per minute. Live calls use `live_weight_per_minute`, history
less than 600 and no more than live calls leave: its calls run one at a time, and each waits for
the weight of the one before it.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar, Unpack

import msgspec

from barograph.errors import Forbidden, Throttled, UnknownToUpstream
from barograph.kit.timestamps import HOUR, SECOND
from barograph.markets.exchange import SETTLED_RATE, LiquidationWatcher, PastValue
from barograph.markets.records import LongAccounts, Perpetuals
from barograph.markets.settlements import SettledRate
from barograph.markets.venues import HYPERLIQUID, VENUES
from barograph.settings import Settings
from barograph.upstream.http import TimeBudget
from barograph.upstream.hyperliquid import decode
from barograph.upstream.past_pages import Page
from barograph.upstream.venue_adapter import Parts, VenueAdapter
from barograph.upstream.venue_client import Purpose, VenueReply, check_status, retry_after

T = TypeVar("T")

WEIGHT_PER_MINUTE = 1200
_MAX_HISTORY_WEIGHT = 490
_RESERVE = 150
"""One page of history may come on top in any 60 seconds; it weighs at most 104."""

PAUSE_SECONDS = 10.0
"""How long to pause when the exchange throttles us without saying for how long."""

_MAX_PAUSE_SECONDS = 600.0
_NEWEST = 200


def live_weight_per_minute(poll_seconds: float) -> float:
    """The weight of a reading every `poll_seconds` and of one report of settlements per minute."""
    return 60 / poll_seconds * (2 + decode.CALL_WEIGHT) + decode.SETTLEMENTS.weight(_NEWEST)


def history_weight_per_minute(poll_seconds: float) -> float:
    """The weight that the history may use, without its last page."""
    left = WEIGHT_PER_MINUTE - live_weight_per_minute(poll_seconds) - _RESERVE
    return max(decode.CALL_WEIGHT, min(_MAX_HISTORY_WEIGHT, left))


class HyperliquidExchange(VenueAdapter):
    """Hyperliquid's public data of the perpetuals that it lists itself, in USD."""

    venue = VENUES[HYPERLIQUID]

    def __init__(self, settings: Settings, **parts: Unpack[Parts]) -> None:
        super().__init__(settings, settings.hyperliquid_url, parts)
        self._has_read = False
        self._refused_rates: dict[str, list[str]] = {}
        self._turn = asyncio.Lock()
        self._called_at = self._used = 0
        self._seconds_per_weight = 60 / history_weight_per_minute(settings.poll_seconds)

    async def perpetuals(self) -> Perpetuals:
        """Read every live perpetual in USD at once; raises `UpstreamError`.

        The values have no time of their own. We read the chain's time before them, so that they are
        never older than we say.
        """
        budget = self._rest.budget() if self._has_read else self._rest.start_budget()
        time, announcement = await self._ask("exchangeStatus", self._status, budget, "reading")
        as_of = self._times.as_of(time)
        contracts, refused, unusable = await self._ask(
            "metaAndAssetCtxs", partial(decode.decode_contexts, time=time), budget, "reading"
        )
        self._has_read = True
        rates = [name for each in contracts for name in self._refused_rates.get(each.contract, ())]
        if rates:
            refused[SETTLED_RATE.field] = rates
        return Perpetuals(
            as_of,
            self.source,
            contracts,
            refused,
            venue=HYPERLIQUID,
            unusable=unusable,
            announcement=announcement,
        )

    async def long_accounts(self, contract: str) -> LongAccounts:
        """Raise `UnknownToUpstream`: the exchange publishes no long-account shares."""
        raise UnknownToUpstream(f"the exchange publishes no long-account share of {contract}")

    async def listen(self, contracts: Sequence[str], watcher: LiquidationWatcher) -> None:  # noqa: ARG002
        """Wait: the exchange publishes no liquidations."""
        await asyncio.Event().wait()

    async def settlements(self, contract: str) -> list[SettledRate]:
        """Read the newest settlements of one contract, oldest first; raises `UpstreamError`."""
        end = self._clock() + 1
        # The report begins with the oldest, so it must not begin too early.
        start = (end // HOUR - _NEWEST + 1) * HOUR
        page = await self._page(decode.SETTLEMENTS, contract, start, end, "side")
        rates = [SettledRate(contract, *each) for each in _known(page)]
        self._refused_rates[contract] = [contract] * (len(page) - len(rates))
        if not rates:
            raise UnknownToUpstream(f"the exchange has no usable settlement of {contract}")
        return rates

    async def past_prices(self, contract: str, start: int, end: int) -> list[PastValue]:
        """Read prices of trades at the full hour, in USD; raises `UpstreamError`."""
        return await self._past(decode.CANDLES, contract, start, end)

    async def past_open_interest(self, contract: str, start: int, end: int) -> list[PastValue]:  # noqa: ARG002
        """Read nothing: the exchange has no such history."""
        return []

    past_long_accounts = past_open_interest

    async def past_settlements(self, contract: str, start: int, end: int) -> list[SettledRate]:
        """Read settled funding rates; raises `UpstreamError`."""
        rates = await self._past(decode.SETTLEMENTS, contract, start, end)
        return [SettledRate(contract, *each) for each in rates]

    async def server_time(self) -> int:
        """Read the exchange's clock in Unix milliseconds, unchecked; raises `UpstreamError`."""
        return (await self._ask("exchangeStatus", decode.decode_status, self._rest.budget()))[0]

    async def _past(
        self, series: decode.PastSeries, contract: str, start: int, end: int
    ) -> list[PastValue]:
        """All pages, the oldest first, as the exchange reports them."""
        values: list[PastValue] = []
        start = -(-start // HOUR) * HOUR
        while start < end:
            async with self._turn:
                await self._wait(series.weight((end - start) // HOUR + 1))
                page = await self._page(series, contract, start, end, "history")
            values += _known(page)
            if not page or max(page) + HOUR >= end:
                break
            # The stamp of a settlement is after its hour, and must not be read again.
            start = max(page) + HOUR // 2
        return values

    async def _wait(self, weight: int) -> None:
        """Wait until the weight of the last history call has passed; the next has `weight`."""
        spent = max(0.0, (self._clock() - self._called_at) / SECOND)
        pause = self._used * self._seconds_per_weight - spent
        if pause > 0:
            await self._sleep(pause)
        self._called_at, self._used = self._clock(), weight

    async def _page(
        self, series: decode.PastSeries, contract: str, start: int, end: int, purpose: Purpose
    ) -> Page:
        """Ask for one page of values with `start <= at < end`, none in the future."""
        span = {"coin": contract, "startTime": start, "endTime": end - 1}
        details = {"req": {**span, "interval": "1h"}} if series is decode.CANDLES else span

        def read(body: bytes) -> Page:
            page, until = decode.decode_past(body, series, contract), min(end, self._clock() + 1)
            return {at: value for at, value in page.items() if start <= at < until}

        return await self._ask(series.kind, read, self._rest.budget(), purpose, **details)

    async def _ask(
        self,
        kind: str,
        read: Callable[[bytes], T],
        budget: TimeBudget,
        purpose: Purpose = "side",
        **details: object,
    ) -> T:
        """Send a request; `read` takes the body of the reply."""

        def unwrap(reply: VenueReply) -> T:
            # 422 answers a request about a contract that does not exist.
            if reply.status == 422 and details:  # noqa: PLR2004
                raise UnknownToUpstream(f"HTTP 422 to {kind}")
            _check(reply)
            return read(reply.body)

        return await self._rest.call(
            kind,
            "/info",
            unwrap,
            budget,
            purpose=purpose,
            body=msgspec.json.encode({"type": kind, **details}),
        )

    def _status(self, body: bytes) -> tuple[int, str]:
        time, announcement = decode.decode_status(body)
        return self._times.check(time), announcement


def _known(page: Page) -> list[PastValue]:
    return [PastValue(at, value) for at, value in sorted(page.items()) if value is not None]


def _check(reply: VenueReply) -> None:
    match reply.status:
        case 429:
            raise Throttled("HTTP 429", retry_after(reply, PAUSE_SECONDS, _MAX_PAUSE_SECONDS))
        case 403 | 451:
            raise Forbidden(f"HTTP {reply.status}: the exchange does not serve this address")
        case _:
            check_status(reply)
