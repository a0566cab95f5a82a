"""Binance as the markets' `Exchange`.

A reading takes two calls. The open interest takes one call per contract, so `keep_up` collects it
in the background, and reads the volumes, which are a call of a large weight.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from operator import attrgetter
from typing import Unpack

from msgspec.structs import replace

from barograph.errors import UpstreamError
from barograph.kit.http_client import TimeBudget
from barograph.kit.timestamps import DAY, MINUTE, SECOND
from barograph.settings import Settings
from barograph.venues.binance import decode
from barograph.venues.binance.decode import Row, past_decoder
from barograph.venues.binance.facts import VENUE
from barograph.venues.binance.stream import LiquidationStream
from barograph.venues.kit.adapter import Parts, Reading, VenueAdapter
from barograph.venues.kit.cells import coins, long_pct, settled_pct
from barograph.venues.kit.contract_cache import ListedContracts
from barograph.venues.kit.past_pages import Past, PastSeries, settled_hour
from barograph.venues.kit.refusals import Refusals
from barograph.venues.kit.sweep import MAX_AGE, Sweep, TimedCell

SWEEP_PER_MINUTE = 240
"""A tenth of what the exchange allows; one open interest has a weight of 1. With 570 contracts the
first round takes about two minutes and each later one less than three."""

FIRST_PER_MINUTE = 300
"""While the open interest of some contract has never been read."""

READING_WEIGHT = 12
"""Of one reading: 10 for the premium index and 2 for the prices."""

VOLUME_WEIGHT = 40
"""Of the volumes of all contracts, once a minute."""

HISTORY_WEIGHT = 450
"""Per minute: 90 pages of 1,000 klines, which have a weight of 5."""

_STATISTICS = 5.0
"""These have no weight but a limit of 1,000 in five minutes; so many take 450, and the live
long-account shares another 450."""

_RATES = 7.5
"""300 in five minutes: the exchange allows 500 for settled rates and the funding intervals
together, which every reading asks for."""

PAST = Past(
    PastSeries("/fapi/v1/klines", {"interval": "1h"}, 1000, decode.decode_klines, weight=5),
    PastSeries(
        "/fapi/v1/fundingRate",
        {},
        1000,
        past_decoder(
            lambda row: settled_hour(row.funding_time), lambda row: settled_pct(row.funding_rate)
        ),
        weight=_RATES,
    ),
    PastSeries(
        "/futures/data/openInterestHist",
        {"period": "1h"},
        500,
        past_decoder(attrgetter("timestamp"), lambda row: coins(row.sum_open_interest)),
        30 * DAY,
        _STATISTICS,
    ),
    PastSeries(
        "/futures/data/globalLongShortAccountRatio",
        {"period": "1h"},
        500,
        past_decoder(
            attrgetter("timestamp"), lambda row: long_pct(row.long_account, row.short_account)
        ),
        30 * DAY,
        _STATISTICS,
    ),
)


def live_weight_per_minute(poll_seconds: float) -> int:
    """The most request weight that live calls take; the exchange allows 2,400 per minute.

    The list of contracts and the clock add 1 each.
    """
    readings = math.ceil(60 / poll_seconds) * READING_WEIGHT
    return readings + FIRST_PER_MINUTE + VOLUME_WEIGHT + 2


class BinanceExchange(VenueAdapter):
    """Binance's public data of USDT perpetuals.

    https://developers.binance.com/docs/derivatives/usds-margined-futures/general-info
    """

    venue = VENUE
    past = PAST
    history_weight = HISTORY_WEIGHT
    refusals = Refusals({"-1121", "-4108"}, 60.0, 3 * 86_400.0)
    """An invalid symbol, or a contract that is being delivered, settled or not traded yet. The
    longest ban is three days."""
    listing_seconds = 240.0
    """With the funding intervals."""
    time_path = "/fapi/v1/time"
    stream = LiquidationStream
    price_path = "/fapi/v2/ticker/price"
    class_of = staticmethod(decode.class_of)
    known_classes = decode.OTHER_CLASSES

    def __init__(self, settings: Settings, **parts: Unpack[Parts]) -> None:
        super().__init__(settings, **parts)
        self._sweep = Sweep(
            self._open_interest,
            FIRST_PER_MINUTE,
            SWEEP_PER_MINUTE,
            clock=self._clock,
            sleep=self._sleep,
        )
        self._doubts = decode.IntervalDoubts()
        self._volumes: Mapping[str, Row] = {}
        self._volumes_at = self._asked_volumes_at = 0

    async def keep_up(self) -> None:
        """Read the open interest of one contract after the other, and volumes, until cancelled."""
        while True:
            if abs(self._clock() - self._asked_volumes_at) >= MINUTE:
                await self._read_volumes()
            await self._sweep.step()

    async def server_time(self) -> int:
        """Read the exchange's clock in Unix milliseconds, unchecked; raises `UpstreamError`."""
        return await self.ask(self.time_path, {}, decode.decode_time)

    async def _list(self, budget: TimeBudget) -> ListedContracts:
        rows = await self.ask(
            "/fapi/v1/exchangeInfo", {}, decode.decode_exchange_info, budget, "reading"
        )
        # It shares a limit with settled rates, so it must not speak for the exchange.
        funding = await self.ask("/fapi/v1/fundingInfo", {}, decode.decode_rows, budget)
        listing = decode.contracts_of(rows, funding, self.venue, self.class_of)
        return replace(listing, known_classes=self.known_classes)

    async def _read(self, listing: ListedContracts, budget: TimeBudget) -> Reading:
        self._sweep.follow(listing.kept)
        rows = await self.ask("/fapi/v1/premiumIndex", {}, self._fresh_rows, budget, "reading")
        prices = await self.ask(self.price_path, {}, self._fresh_rows, budget, "reading")
        changed = await self._changed_intervals(listing, budget)
        # Half of the freshness limit, or one contract that lags would make the reading stale.
        oldest = decode.newest_time(rows) - round(self._settings.feed_max_age_seconds * SECOND / 2)
        return decode.reading_of(
            rows,
            {row.symbol: row for row in prices},
            self._volumes if self._clock() - self._volumes_at <= MAX_AGE else {},
            listing.kept,
            self._sweep.values(),
            venue=self.venue,
            oldest=oldest,
            doubtful=self._doubts.of(rows, listing.kept, self._clock()) | changed,
        )

    async def _open_interest(self, contract: str) -> TimedCell:
        return await self.ask(
            "/fapi/v1/openInterest",
            {"symbol": contract},
            lambda body: decode.decode_open_interest(body, contract),
        )

    async def _read_volumes(self) -> None:
        """Once a minute; if it fails, the last ones count until they are too old."""
        self._asked_volumes_at = self._clock()
        with suppress(UpstreamError):
            rows = await self.ask("/fapi/v1/ticker/24hr", {}, decode.decode_rows)
            self._volumes, self._volumes_at = {row.symbol: row for row in rows}, self._clock()

    async def _changed_intervals(self, listing: ListedContracts, budget: TimeBudget) -> set[str]:
        """Look with every reading: with an old interval, the rate per 8 hours would be wrong."""
        try:
            funding = await self.ask("/fapi/v1/fundingInfo", {}, decode.decode_rows, budget)
        except UpstreamError:
            return set()  # the list of contracts is read again soon
        return decode.changed_intervals(funding, listing.kept)

    def _fresh_rows(self, body: bytes) -> list[Row]:
        rows = decode.decode_rows(body)
        self._times.check(decode.newest_time(rows))
        return rows


ADAPTER = BinanceExchange
