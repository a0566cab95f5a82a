"""Bybit as the markets' `Exchange`.

When the exchange hangs or fails, `rest.py` applies timeouts, retries and circuit breakers, and
`stream.py` reconnects.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Unpack

from msgspec import structs

from barograph.errors import InvalidReply, UnknownToUpstream, UpstreamError
from barograph.kit.http_client import TimeBudget
from barograph.kit.timestamps import MINUTE
from barograph.settings import Settings
from barograph.venues.bybit import decode
from barograph.venues.bybit.decode import ContractList, InstrumentPage, Tickers
from barograph.venues.bybit.history import LONG_SHARES, OPEN_INTEREST, PRICES, BybitHistory
from barograph.venues.bybit.rest import Envelope, RestClient
from barograph.venues.bybit.stream import LiquidationStream
from barograph.venues.exchange import (
    LONG_ACCOUNTS,
    LiquidationWatcher,
    PastValue,
    PlausibleRange,
)
from barograph.venues.kit.client import Parts, VenueAdapter
from barograph.venues.kit.contract_cache import ContractCache
from barograph.venues.records import LongAccounts, Perpetuals, SettledRate
from barograph.venues.registry import BYBIT, VENUES

log = logging.getLogger(__name__)

_PAGES = 20
_RATIO_PERIOD = 5 * MINUTE

LISTING_SECONDS = 600.0
"""Seconds between two readings of the list of contracts."""

ANNOUNCEMENT_SECONDS = 300.0


class BybitExchange(VenueAdapter):
    """Bybit's public data of USDT perpetuals: https://bybit-exchange.github.io/docs/v5/intro ."""

    venue = VENUES[BYBIT]
    client = RestClient
    _rest: RestClient

    def __init__(
        self,
        settings: Settings,
        *,
        listing_seconds: float = LISTING_SECONDS,
        **parts: Unpack[Parts],
    ) -> None:
        super().__init__(settings, settings.exchange_rest_url, parts)
        clock, sleep = self._clock, self._sleep
        self._history = BybitHistory(self._rest, clock=clock, sleep=sleep, time_of=self._time)
        self._stream = LiquidationStream(
            BYBIT,
            settings,
            self._metrics,
            clock=clock,
            sleep=sleep,
            random=self._random,
            ping_seconds=self._ping_seconds,
        )
        self._catalogue = ContractCache(self._listing, clock, listing_seconds)
        self._refused: dict[str, list[str]] = {}
        self._unknown_classes: list[str] = []
        self._sides: Mapping[str, int] = {}
        self._announcement = ""

    async def perpetuals(self) -> Perpetuals:
        """Read every live crypto perpetual against USDT at once; raises `UpstreamError`."""
        is_first = self._times.last_as_of == 0 or self._catalogue.is_empty
        budget = self._rest.start_budget() if is_first else self._rest.budget()
        listing = await self._catalogue.current(budget)
        if is_first:
            budget = self._rest.start_budget()

        def read(envelope: Envelope) -> tuple[int, Tickers]:
            time = self._time(envelope)
            with self._catalogue.fitting():
                return time, decode.decode_tickers(envelope.result, listing.kept)

        time, tickers = await self._rest.ask(
            "tickers", {"category": "linear"}, read, budget, "reading"
        )
        self._sides = tickers.sides
        reading = self._reading(self._times.as_of(time), listing, tickers)
        if budget.is_half_left():
            await self._catalogue.review(tickers.symbols, budget)
        return reading

    def _reading(self, as_of: int, listing: ContractList, tickers: Tickers) -> Perpetuals:
        refused = dict(tickers.refused)
        for field, names in self._refused.items():
            if live := [name for name in names if name in listing.kept]:
                refused[field] = live
        unknown = listing.unknown_classes
        if unknown != self._unknown_classes:
            self._unknown_classes = unknown
            if unknown:
                log.warning("contracts of an unknown class left out", extra={"classes": unknown})
        return Perpetuals(
            as_of,
            self.source,
            tickers.perpetuals,
            refused,
            left_out=listing.left_out,
            unknown_classes=unknown,
            not_crypto=sorted(listing.others),
            unwatched=self._stream.left_out,
            unusable=tickers.unusable,
            announcement=self._announcement,
        )

    async def keep_up(self) -> None:
        """Read what the exchange announces, until cancelled. If that fails, the last one counts."""
        while True:
            budget = self._rest.budget()
            with suppress(UpstreamError):
                self._announcement = await self._rest.ask(
                    "/v5/system/status",
                    {},
                    lambda reply: decode.decode_announcement(reply.result),
                    budget,
                )
            await self._sleep(ANNOUNCEMENT_SECONDS)

    async def long_accounts(self, contract: str) -> LongAccounts:
        """Read the newest long-account share of one contract; raises `UpstreamError`."""

        def read(envelope: Envelope) -> LongAccounts:
            time = self._time(envelope)
            share = decode.decode_long_accounts(envelope.result, contract)
            if share.sampled_at > time + _RATIO_PERIOD:
                raise InvalidReply(f"the account ratio of {contract} is from the future")
            return structs.replace(share, sampled_at=min(share.sampled_at, time, self._clock()))

        params = {"category": "linear", "symbol": contract, "period": "5min", "limit": "1"}
        try:
            share = await self._rest.ask("account-ratio", params, read, self._rest.budget())
        except UnknownToUpstream as error:
            self._note_refused(
                LONG_ACCOUNTS, contract, int(isinstance(error, decode.ShareOutOfRange))
            )
            raise
        self._note_refused(LONG_ACCOUNTS, contract, 0)
        return share

    async def past_prices(self, contract: str, start: int, end: int) -> list[PastValue]:
        """Read prices at the full hour, in USDT; raises `UpstreamError`."""
        return await self._history.hours(PRICES, contract, start, end)

    async def past_open_interest(self, contract: str, start: int, end: int) -> list[PastValue]:
        """Read single-sided open interest in coins; raises `UpstreamError`.

        The history counts sides as the live `openInterest` does, so we read none until a live
        reading has shown how many sides that is.
        """
        sides = self._sides.get(contract)
        if sides is None:
            return []
        counted = await self._history.hours(OPEN_INTEREST, contract, start, end)
        return [PastValue(at, coins / sides) for at, coins in counted]

    async def past_long_accounts(self, contract: str, start: int, end: int) -> list[PastValue]:
        """Read long-account shares in percent; raises `UpstreamError`."""
        return await self._history.hours(LONG_SHARES, contract, start, end)

    async def past_settlements(self, contract: str, start: int, end: int) -> list[SettledRate]:
        """Read settled funding rates; raises `UpstreamError`."""
        return await self._history.settlements(contract, start, end)

    async def server_time(self) -> int:
        """Read the exchange's clock in Unix milliseconds, unchecked; raises `UpstreamError`."""
        budget = self._rest.budget()
        return await self._rest.ask(
            "time", {}, lambda reply: decode.decode_time(reply.result), budget
        )

    async def listen(self, contracts: Sequence[str], watcher: LiquidationWatcher) -> None:
        """Receive the liquidations of `contracts` until cancelled, reconnecting as needed."""
        await self._stream.listen(contracts, watcher)

    async def _listing(self, budget: TimeBudget) -> ContractList:
        pages: list[InstrumentPage] = []
        cursor = ""
        for _ in range(_PAGES):
            pages.append(await self._page(cursor, budget))
            cursor = pages[-1].cursor
            if not cursor:
                return ContractList.of(pages)
        raise InvalidReply(f"the list of contracts has more than {_PAGES} pages")

    async def _page(self, cursor: str, budget: TimeBudget) -> InstrumentPage:
        def read(envelope: Envelope) -> InstrumentPage:
            self._time(envelope)
            page = decode.decode_instruments(envelope.result)
            if not page.symbols and not cursor:
                raise InvalidReply("the list of contracts is empty")
            return page

        params = {"category": "linear", "limit": "1000"}
        if cursor:
            params["cursor"] = cursor
        return await self._rest.ask("instruments-info", params, read, budget, "reading")

    def _note_refused(self, expected: PlausibleRange, contract: str, count: int) -> None:
        """Remember how many values of a contract were implausible when last read."""
        others = [name for name in self._refused.pop(expected.field, []) if name != contract]
        if others or count:
            self._refused[expected.field] = [*others, *[contract] * count]

    def _time(self, envelope: Envelope) -> int:
        return self._times.check(envelope.time)
