"""Hyperliquid's public data: https://hyperliquid.gitbook.io/hyperliquid-docs/for-developers/api .

The exchange publishes no liquidations, no long-account shares and no prices of last trades. When
it hangs or fails, `VenueClient` applies timeouts, retries and circuit breakers.

An address may use a weight of 1,200 per minute. Live calls use `live_weight_per_minute`, history
less than 600 and no more than live calls leave: its calls run one at a time, and each waits for
the weight of the one before it.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, Unpack

import msgspec
from msgspec import Struct

from barograph.errors import Forbidden, InvalidReply, Throttled, UnknownToUpstream
from barograph.kit.http_client import HttpReply, TimeBudget, check_status, retry_after
from barograph.kit.timestamps import HOUR, MINUTE, SECOND
from barograph.settings import Settings
from barograph.venues import exchange as ranges
from barograph.venues.exchange import LiquidationWatcher, PastValue
from barograph.venues.kit import cells
from barograph.venues.kit.cells import Cell, Name, Refused, parse, plausible
from barograph.venues.kit.client import Parts, Purpose, VenueAdapter
from barograph.venues.kit.past_pages import Page, check_contract, page_of
from barograph.venues.records import LongAccounts, Perpetual, Perpetuals, SettledRate
from barograph.venues.registry import HYPERLIQUID, VENUES, coin_of

T = TypeVar("T")

WEIGHT_PER_MINUTE = 1200
CALL_WEIGHT = 20
"""What a call costs of the exchange's rate limit; `exchangeStatus` costs 2, and rows cost more."""

_MAX_HISTORY_WEIGHT = 490
_RESERVE = 150
"""One page of history may come on top in any 60 seconds; it weighs at most 104."""

PAUSE_SECONDS = 10.0
"""How long to pause when the exchange throttles us without saying for how long."""

_MAX_PAUSE_SECONDS = 600.0
_SIDES = 2
"""`openInterest` counts the long and the short side of each position."""


class PastRequest(NamedTuple):
    """A type of request for the past of a contract, and the fields of its rows."""

    kind: str
    contract: str
    time: str
    value: str
    read: Callable[[Cell], float]
    max_rows: int
    rows_per_weight: int

    def weight(self, rows: int) -> int:
        """The weight of a request for so many rows."""
        return CALL_WEIGHT + -(-min(rows, self.max_rows) // self.rows_per_weight)


CANDLES = PastRequest("candleSnapshot", "s", "t", "o", cells.price, 5000, 60)
"""The price of the first trade of each hour. The exchange has the newest 5,000 hours."""

SETTLEMENTS = PastRequest(
    "fundingHistory", "coin", "time", "fundingRate", cells.settled_pct, 500, 20
)
"""Settled rates per hour, in percent."""


class Status(Struct, rename="camel"):
    """The chain's time in milliseconds, and what the exchange announces (`exchangeStatus`)."""

    time: int
    special_statuses: object = None


class _Asset(Struct, rename="camel"):
    name: Name
    is_delisted: bool | None = None


class _Meta(Struct):
    universe: list[_Asset]


class _Context(Struct, rename="camel"):
    funding: Cell = None
    open_interest: Cell = None
    mark_px: Cell = None


class _MetaAndContexts(Struct, array_like=True):
    meta: _Meta
    contexts: list[_Context | None]


class Contexts(NamedTuple):
    """All live perpetuals."""

    perpetuals: tuple[Perpetual, ...]
    refused: Refused
    unusable: list[str]
    """The coins of live contracts that can't be read."""


def live_weight_per_minute(poll_seconds: float) -> float:
    """The weight of a reading every `poll_seconds`."""
    return 60 / poll_seconds * (2 + CALL_WEIGHT)


def history_weight_per_minute(poll_seconds: float) -> float:
    """The weight that the history may use, without its last page."""
    left = WEIGHT_PER_MINUTE - live_weight_per_minute(poll_seconds) - _RESERVE
    return max(CALL_WEIGHT, min(_MAX_HISTORY_WEIGHT, left))


class HyperliquidExchange(VenueAdapter):
    """Hyperliquid's public data of the perpetuals that it lists itself, in USD."""

    venue = VENUES[HYPERLIQUID]

    def __init__(self, settings: Settings, **parts: Unpack[Parts]) -> None:
        super().__init__(settings, settings.hyperliquid_url, parts)
        self._has_read = False
        self._turn = asyncio.Lock()
        self._called_at = self._used = 0
        self._seconds_per_weight = 60 / history_weight_per_minute(settings.poll_seconds)

    async def perpetuals(self) -> Perpetuals:
        """Read every live perpetual in USD at once; raises `UpstreamError`.

        The values have no time of their own. We read the chain's time before them, so that they are
        never older than we say.
        """
        budget = self._rest.budget() if self._has_read else self._rest.start_budget()
        status = await self._ask("exchangeStatus", self._fresh_status, budget, "reading")
        as_of = self._times.as_of(status.time)
        contexts = await self._ask(
            "metaAndAssetCtxs", partial(decode_contexts, time=status.time), budget, "reading"
        )
        self._has_read = True
        return Perpetuals(
            as_of,
            self.source,
            contexts.perpetuals,
            contexts.refused,
            venue=HYPERLIQUID,
            unusable=contexts.unusable,
            announcement=cells.announcement(status.special_statuses),
        )

    async def long_accounts(self, contract: str) -> LongAccounts:
        """Raise `UnknownToUpstream`: the exchange publishes no long-account shares."""
        raise UnknownToUpstream(f"the exchange publishes no long-account share of {contract}")

    async def listen(self, contracts: Sequence[str], watcher: LiquidationWatcher) -> None:  # noqa: ARG002
        """Wait: the exchange publishes no liquidations."""
        await asyncio.Event().wait()

    async def past_prices(self, contract: str, start: int, end: int) -> list[PastValue]:
        """Read prices of trades at the full hour, in USD; raises `UpstreamError`."""
        return await self._past(CANDLES, contract, start, end)

    async def past_open_interest(self, contract: str, start: int, end: int) -> list[PastValue]:  # noqa: ARG002
        """Read nothing: the exchange has no such history."""
        return []

    past_long_accounts = past_open_interest

    async def past_settlements(self, contract: str, start: int, end: int) -> list[SettledRate]:
        """Read settled funding rates; raises `UpstreamError`."""
        rates = await self._past(SETTLEMENTS, contract, start, end)
        return [SettledRate(contract, *value) for value in rates]

    async def server_time(self) -> int:
        """Read the exchange's clock in Unix milliseconds, unchecked; raises `UpstreamError`."""
        return (await self._ask("exchangeStatus", _status, self._rest.budget())).time

    async def _past(
        self, request: PastRequest, contract: str, start: int, end: int
    ) -> list[PastValue]:
        """All pages, the oldest first, as the exchange reports them."""
        values: list[PastValue] = []
        start = -(-start // HOUR) * HOUR
        while start < end:
            async with self._turn:
                await self._wait(request.weight((end - start) // HOUR + 1))
                page = await self._page(request, contract, start, end)
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

    async def _page(self, request: PastRequest, contract: str, start: int, end: int) -> Page:
        """Ask for one page of values with `start <= at < end`, none in the future."""
        span = {"coin": contract, "startTime": start, "endTime": end - 1}
        details = {"req": {**span, "interval": "1h"}} if request is CANDLES else span

        def read(body: bytes) -> Page:
            page, until = decode_past(body, request, contract), min(end, self._clock() + 1)
            return {at: value for at, value in page.items() if start <= at < until}

        return await self._ask(request.kind, read, self._rest.budget(), "history", **details)

    async def _ask(
        self,
        kind: str,
        read: Callable[[bytes], T],
        budget: TimeBudget,
        purpose: Purpose = "side",
        **details: object,
    ) -> T:
        def unwrap(reply: HttpReply) -> T:
            match reply.status:
                case 422 if details:  # a request about a contract that does not exist
                    raise UnknownToUpstream(f"HTTP 422 to {kind}")
                case 429:
                    pause = retry_after(reply.headers, PAUSE_SECONDS, _MAX_PAUSE_SECONDS)
                    raise Throttled("HTTP 429", pause)
                case 403 | 451 as status:
                    raise Forbidden(f"HTTP {status}: the exchange does not serve this address")
            check_status(reply.status)
            return read(reply.body)

        body = msgspec.json.encode({"type": kind, **details})
        return await self._rest.call(kind, "/info", unwrap, budget, purpose=purpose, body=body)

    def _fresh_status(self, body: bytes) -> Status:
        status = _status(body)
        self._times.check(status.time)
        return status


def _status(body: bytes) -> Status:
    return parse(body, Status, "the status")


def _known(page: Page) -> list[PastValue]:
    return [PastValue(at, value) for at, value in sorted(page.items()) if value is not None]


def decode_contexts(body: bytes, time: int) -> Contexts:
    """All live perpetuals after `time`, from `metaAndAssetCtxs`.

    Names and values are two lists that belong together by position. We leave out delisted
    contracts, those of other operators (`dex:COIN`), and rows that can't be read.

    Raises:
        InvalidReply: it has another shape, or fewer than half of the live contracts can be read.
    """
    reply = parse(body, _MetaAndContexts, "the contexts")
    universe, contexts = reply.meta.universe, reply.contexts
    if len(universe) != len(contexts):
        raise InvalidReply(f"{len(universe)} contracts have {len(contexts)} contexts")
    live = [
        (asset.name, row or _Context())
        for asset, row in zip(universe, contexts, strict=True)
        if not (asset.is_delisted or ":" in asset.name)
    ]
    perpetuals, refused = cells.read_perpetuals(live, partial(_perpetual, time), len(live))
    unusable = [coin_of(HYPERLIQUID, name)[0] for name, _ in live if name not in perpetuals]
    return Contexts(tuple(perpetuals.values()), refused, unusable)


def decode_past(body: bytes, request: PastRequest, contract: str) -> Page:
    """One page of a contract's past.

    Raises:
        UnknownToUpstream: the exchange does not know the contract.
    """
    if body.strip() == b"null":
        raise UnknownToUpstream(f"the exchange does not know {contract}")
    rows = parse(body, list[dict[str, Any]], request.kind)
    check_contract((str(row.get(request.contract)) for row in rows), contract)
    return page_of(
        rows,
        lambda row: _hour(cells.moment(row.get(request.time))),
        lambda row: request.read(row.get(request.value)),
    )


def _hour(at: int) -> int:
    """The hour of a stamp: a minute early at most, and late by up to 24 minutes (2023-05-23)."""
    return (at + MINUTE - 1) // HOUR * HOUR


def _perpetual(time: int, name: str, row: _Context, refused: Refused) -> Perpetual:
    coin, multiplier = coin_of(HYPERLIQUID, name)
    price = cells.price(row.mark_px)
    funding = plausible(cells.percent(row.funding), ranges.FUNDING_RATE)
    interest = cells.usable(name, refused, partial(_open_interest, row, price))
    coins, usd = interest or (None, None)
    return Perpetual(
        contract=name,
        base=name,
        last_price=price,
        funding_rate_pct=funding,
        funding_interval_hours=1.0,
        next_funding_time=(time // HOUR + 1) * HOUR,
        open_interest_usd=usd,
        open_interest_coins=coins,
        coin="" if multiplier == 1 else coin,
        multiplier=multiplier,
        quote="USD",
        price_kind="mark",
    )


def _open_interest(row: _Context, price: float) -> tuple[float, float]:
    """One side, in coins and in USD."""
    coins = plausible(cells.number(row.open_interest) / _SIDES, ranges.OPEN_INTEREST_COINS)
    return coins, plausible(coins * price, ranges.OPEN_INTEREST)
