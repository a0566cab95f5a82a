"""The adapter of an exchange. Each exchange adds its endpoints, decoders and weights.

When an exchange hangs or fails, `client.py` applies timeouts, retries and circuit breakers, and
`stream.py` reconnects.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from random import Random
from typing import NamedTuple, Required, TypedDict, TypeVar, Unpack
from urllib.parse import quote, urlencode

from msgspec.structs import replace

from barograph.errors import InvalidReply, UnknownToUpstream
from barograph.kit.clock import Clock
from barograph.kit.http_client import HttpReply, Sleep, TimeBudget, Transport
from barograph.kit.metrics import NO_METRICS, Metrics
from barograph.kit.timestamps import MINUTE
from barograph.settings import REQUEST_SECONDS, Settings
from barograph.venues.exchange import LONG_ACCOUNTS, LiquidationWatcher, PastValue
from barograph.venues.facts import Venue
from barograph.venues.kit.cells import Refused
from barograph.venues.kit.client import (
    BREAKER_SECONDS,
    DEMO_BREAKER_SECONDS,
    Purpose,
    ReadingTimes,
    VenueClient,
)
from barograph.venues.kit.contract_cache import ContractCache, ListedContracts
from barograph.venues.kit.past_pages import Pacer, Page, Past, PastPages, PastSeries, newest_share
from barograph.venues.kit.refusals import Refusals
from barograph.venues.kit.stream import PING_SECONDS, VenueStream
from barograph.venues.records import LongAccounts, Perpetual, Perpetuals, SettledRate
from barograph.venues.registry import source_of

log = logging.getLogger(__name__)

T = TypeVar("T")

_SHARE_PERIOD = 5 * MINUTE
_IN_QUERIES = "%=+/:;,?@!$'()*"
"""Not percent-encoded: a cursor already is, and is sent back unchanged."""


class Parts(TypedDict, total=False):
    """What an adapter is made of; tests replace all of it."""

    clock: Required[Clock]
    transport: Transport | None
    sleep: Sleep
    random: Random
    metrics: Metrics
    seconds: float
    breaker_seconds: float
    ping_seconds: float


class Reading(NamedTuple):
    """What the calls of one reading say about the listed contracts."""

    time: int
    """The oldest time of its values."""

    perpetuals: Mapping[str, Perpetual]
    refused: Refused
    symbols: AbstractSet[str]
    """Every name in the replies, kept or not."""

    in_doubt: bool = False
    """Whether the list of contracts should be read again."""


class VenueAdapter(ABC):
    """An exchange: REST calls, its list of contracts, its past and its liquidations.

    A subclass sets the attributes, and implements `server_time`, and `_list` and `_read` or else
    `perpetuals`.
    """

    venue: Venue
    past = Past()
    history_weight: float = 60.0
    """The request weight per minute that calls for the past may take, and as much again those for
    live long-account shares."""

    time_path: str
    """Where the exchange's clock is."""

    refusals = Refusals()
    listing_seconds = 600.0
    """Seconds between two readings of the list of contracts."""

    stream: type[VenueStream] | None = None

    def __init__(self, settings: Settings, **parts: Unpack[Parts]) -> None:
        url = self.rest_url(settings)
        self.source = source_of(self.venue.name, settings.exchange_source)
        self._settings = settings
        self._clock = parts["clock"]
        self._sleep = parts.get("sleep", asyncio.sleep)
        self._times = ReadingTimes(self._clock, settings.feed_max_age_seconds)
        self._refused: dict[str, list[str]] = {}
        self._unknown_classes: list[str] = []
        self._announcement = ""
        metrics, random = parts.get("metrics", NO_METRICS), parts.get("random", Random())
        breaker = DEMO_BREAKER_SECONDS if settings.is_demo else BREAKER_SECONDS
        self._rest = VenueClient(
            self.venue.name,
            url,
            settings,
            metrics,
            clock=self._clock,
            transport=parts.get("transport"),
            sleep=self._sleep,
            random=random,
            seconds=parts.get("seconds", REQUEST_SECONDS),
            breaker_seconds=parts.get("breaker_seconds", breaker),
        )
        pacer = partial(Pacer, self.history_weight, clock=self._clock, sleep=self._sleep)
        self._history = PastPages(self._ask_past, pacer(), self._clock)
        self._live_shares = pacer()
        self._contracts = ContractCache(
            self._list, self._clock, self.listing_seconds, self.venue.suffix
        )
        stream: type[VenueStream] | None = self.stream
        self._stream: VenueStream | None = (
            None
            if stream is None
            else stream(
                self.venue,
                url,
                settings,
                metrics,
                clock=self._clock,
                sleep=self._sleep,
                random=random,
                ping_seconds=parts.get("ping_seconds", PING_SECONDS),
            )
        )

    @classmethod
    def rest_url(cls, settings: Settings) -> str:
        """The base address of the REST API."""
        return settings.venue_url(cls.venue.name) or cls.venue.url

    async def ask(
        self,
        path: str,
        params: Mapping[str, str],
        read: Callable[[bytes], T],
        budget: TimeBudget | None = None,
        purpose: Purpose = "side",
    ) -> T:
        """Call an endpoint; `read` takes the body of a success. Raises `UpstreamError`."""
        return await self._rest.call(
            path,
            f"{path}?{urlencode(params, safe=_IN_QUERIES, quote_via=quote)}",
            lambda reply: read(self.body_of(reply)),
            budget or self._rest.budget(),
            purpose=purpose,
        )

    def body_of(self, reply: HttpReply) -> bytes:
        """The content of a reply, or raise an `UpstreamError`."""
        self.refusals.check(reply, self._clock())
        return reply.body

    async def perpetuals(self) -> Perpetuals:
        """Read every live crypto perpetual at once; raises `UpstreamError`."""
        is_first = self._times.last_as_of == 0 or self._contracts.is_empty
        budget = self._rest.start_budget() if is_first else self._rest.budget()
        listing = await self._contracts.current(budget)
        if is_first:
            budget = self._rest.start_budget()
        with self._contracts.fitting():
            reading = await self._read(listing, budget)
        published = self.published(reading, listing)
        if budget.is_half_left():
            await self._contracts.review(reading.symbols, budget, in_doubt=reading.in_doubt)
        return published

    async def _list(self, budget: TimeBudget) -> ListedContracts:  # noqa: ARG002
        """Read the complete list of contracts; raises `UpstreamError`."""
        raise TypeError(f"the adapter of {self.venue.title} has neither _list nor perpetuals")

    async def _read(self, listing: ListedContracts, budget: TimeBudget) -> Reading:  # noqa: ARG002
        """Read the values of the listed contracts; raises `UpstreamError`."""
        raise TypeError(f"the adapter of {self.venue.title} has neither _read nor perpetuals")

    def published(self, reading: Reading, listing: ListedContracts) -> Perpetuals:
        """The record of a reading."""
        refused = dict(reading.refused)
        for field, names in self._refused.items():
            if live := [name for name in names if name in listing.kept]:
                refused[field] = live
        if listing.unknown_classes != self._unknown_classes:
            self._unknown_classes = listing.unknown_classes
            if self._unknown_classes:
                log.warning(
                    "contracts of an unknown class left out",
                    extra={"venue": self.venue.name, "classes": self._unknown_classes},
                )
        missing = (reading.symbols & listing.kept.keys()) - reading.perpetuals.keys()
        coins = {self.venue.coin_of(listing.kept[name].base)[0] for name in missing}
        return Perpetuals(
            self._times.as_of(self._times.check(reading.time)),
            self.source,
            tuple(reading.perpetuals.values()),
            refused,
            left_out=listing.left_out,
            unknown_classes=listing.unknown_classes,
            not_crypto=sorted(listing.others),
            unwatched=[] if self._stream is None else self._stream.left_out,
            venue=self.venue.name,
            unusable=sorted(coins.union(listing.unusable)),
            announcement=self._announcement,
        )

    async def keep_up(self) -> None:
        """Wait: one reading has everything."""
        await asyncio.Event().wait()

    async def long_accounts(self, contract: str) -> LongAccounts:
        """Read the newest long-account share of one contract; raises `UpstreamError`."""
        series = self.past.long_accounts
        if series is None:
            raise UnknownToUpstream(f"the exchange publishes no long-account share of {contract}")

        def read(body: bytes) -> LongAccounts:
            page, now = series.decode(body, contract), self._clock()
            self._note_share(contract, is_refused=None in page.values())
            share = newest_share(page, contract)
            if share.sampled_at > now + _SHARE_PERIOD:
                raise InvalidReply(f"the account ratio of {contract} is from the future")
            return replace(share, sampled_at=min(share.sampled_at, now))

        await self._live_shares.wait(series.weight)
        name, *_, limit = series.names
        params = {**series.params, **self.past.newest_share, name: contract, limit: "1"}
        return await self.ask(series.path, params, read)

    async def listen(self, contracts: Sequence[str], watcher: LiquidationWatcher) -> None:
        """Receive the liquidations of `contracts` until cancelled, reconnecting as needed."""
        if self._stream is None or not contracts:
            await asyncio.Event().wait()
        else:
            await self._stream.listen(contracts, watcher)

    async def past_prices(self, contract: str, start: int, end: int) -> list[PastValue]:
        """Read prices at the full hour; raises `UpstreamError`."""
        return await self._history.hours(self.past.prices, contract, start, end)

    async def past_open_interest(self, contract: str, start: int, end: int) -> list[PastValue]:
        """Read single-sided open interest in coins; raises `UpstreamError`."""
        return await self._history.hours(self.past.open_interest, contract, start, end)

    async def past_long_accounts(self, contract: str, start: int, end: int) -> list[PastValue]:
        """Read long-account shares in percent; raises `UpstreamError`."""
        return await self._history.hours(self.past.long_accounts, contract, start, end)

    async def past_settlements(self, contract: str, start: int, end: int) -> list[SettledRate]:
        """Read settled funding rates; raises `UpstreamError`."""
        return await self._history.settlements(self.past.settlements, contract, start, end)

    @abstractmethod
    async def server_time(self) -> int:
        """Read the exchange's clock in Unix milliseconds, unchecked; raises `UpstreamError`."""

    async def close(self) -> None:
        """Release every connection."""
        await self._rest.close()

    def _note_share(self, contract: str, *, is_refused: bool) -> None:
        """Remember whether the share of a contract was unusable when last read."""
        field = LONG_ACCOUNTS.field
        names = [name for name in self._refused.pop(field, []) if name != contract]
        if is_refused:
            names.append(contract)
        if names:
            self._refused[field] = names

    async def _ask_past(
        self, series: PastSeries, params: Mapping[str, str], read: Callable[[bytes], Page]
    ) -> Page:
        return await self.ask(series.path, params, read, purpose="history")
