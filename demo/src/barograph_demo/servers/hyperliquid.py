"""The simulated Hyperliquid: one path, whose requests name their type in the body.

https://hyperliquid.gitbook.io/hyperliquid-docs/for-developers/api/info-endpoint
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, Literal

import msgspec
from websockets.http11 import Response

from barograph.kit.clock import Clock, system_clock
from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph_demo.servers.control import (
    HOST,
    OTHER,
    SLOW_SECONDS,
    TEXT,
    ServerAddress,
    bad_gateway,
    blocked_country,
    reply,
    truncated,
)
from barograph_demo.servers.faults import HyperliquidFaults, VenueFault
from barograph_demo.servers.faulty_market import FaultyMarket
from barograph_demo.servers.http import BodyRequest, BodyServer, ResetConnection, stays_until
from barograph_demo.world.randomness import MAJORS, key
from barograph_demo.world.venues import DELISTED, HYPERLIQUID, VenueContract, VenueMarket
from barograph_demo.world.world import World

INFO_PATH: Final = "/info"

WEIGHT_PER_MINUTE: Final = 1200
"""An address may use this weight per minute."""

_USUAL_WEIGHT: Final = 20
_WEIGHTS: Final = {"exchangeStatus": 2}
_ROWS_PER_WEIGHT: Final = {"fundingHistory": 20, "candleSnapshot": 60}
_MOST_SETTLEMENTS: Final = 500
_MOST_CANDLES: Final = 5000
_STAMPED_AFTER: Final = 28
"""Settlements are stamped 28 to 76 ms after the hour."""

_PLACES: Final = 10
_USDC: Final = {"name": "USDC", "szDecimals": 8, "weiDecimals": 8, "index": 0, "isCanonical": True}
_SPOT: Final = {"tokens": [_USDC], "universe": []}


class InfoRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A request; the times bound a history, and `req` holds the fields of one about candles."""

    type: str = ""
    coin: str = ""
    start_time: int = 0
    end_time: int | None = None
    interval: Literal["1h"] = "1h"
    req: "InfoRequest | None" = None


class Info:
    """The answers of the venue: a pure function of request, time and faults."""

    def __init__(self, world: World, faults: HyperliquidFaults) -> None:
        self._history = VenueMarket(world, HYPERLIQUID)
        self._market = FaultyMarket(self._history, faults)
        self._faults = faults
        self._answers: dict[str, Callable[[InfoRequest, int], object]] = {
            "exchangeStatus": self._status,
            "meta": lambda _, now: self._meta(now),
            "metaAndAssetCtxs": self._meta_and_contexts,
            "fundingHistory": self._funding_history,
            "candleSnapshot": self._candles,
            "perpDexs": lambda *_: [None],
            "spotMeta": lambda *_: _SPOT,
            "spotMetaAndAssetCtxs": lambda *_: [_SPOT, []],
        }

    def knows(self, kind: str) -> bool:
        """Whether there is such a type of request."""
        return kind in self._answers

    def answer(self, request: InfoRequest, now: int) -> object:
        """The content of the answer; None for a contract that doesn't exist."""
        return self._answers[request.type](request, now)

    def _status(self, _request: InfoRequest, now: int) -> dict[str, object]:
        is_on = self._faults.is_on(VenueFault.ANNOUNCEMENT)
        return {"specialStatuses": "Network upgrade in progress" if is_on else None, "time": now}

    def _meta(self, now: int) -> dict[str, object]:
        rows = [self._asset(contract) for contract in self._market.contracts(now)]
        return {"universe": rows, "marginTables": [], "collateralToken": 0}

    def _asset(self, contract: VenueContract) -> dict[str, object]:
        row: dict[str, object] = {
            "szDecimals": contract.size_decimals,
            "name": contract.name,
            "maxLeverage": 40 if contract.coin in MAJORS else 10,
            "marginTableId": 56 if contract.coin in MAJORS else 10,
        }
        if contract.status == DELISTED:
            row["isDelisted"] = True
        return row | self._unknown_fields

    @property
    def _unknown_fields(self) -> dict[str, object]:
        is_on = self._faults.is_on(VenueFault.UNKNOWN_FIELDS)
        return {"growthMode": {"enabled": [True, None]}} if is_on else {}

    def _meta_and_contexts(self, request: InfoRequest, now: int) -> list[object]:
        """The contracts and their states, which belong together by position alone."""
        if self._faults.is_on(VenueFault.EMPTY_LIST, request.type):
            return [{"universe": [], "marginTables": [], "collateralToken": 0}, []]
        contexts = [self._context(contract, now) for contract in self._market.contracts(now)]
        if self._faults.is_on(VenueFault.UNEQUAL_LISTS, request.type):
            del contexts[len(contexts) // 2]
        return [self._meta(now), contexts]

    def _context(self, contract: VenueContract, now: int) -> dict[str, object]:
        """The state of one contract. Open interest counts both sides; funding is per hour."""
        places = contract.price_decimals
        mark = self._market.mark(contract, now)
        turnover = self._history.quote(contract, now).turnover
        row: dict[str, object] = {
            "funding": _text(self._market.funding_rate(contract, now)),
            "openInterest": _text(2 * self._market.open_interest(contract, now)),
            "prevDayPx": _text(self._history.quote(contract, now - DAY).mark_price, places),
            "dayNtlVlm": _text(turnover),
            "premium": _text(self._history.quote(contract, now).premium),
            "oraclePx": _text(self._market.index(contract, now), places),
            "markPx": _text(mark, places),
            "midPx": _text(self._market.price(contract, now), places),
            "impactPxs": [_text(mark * (1 + each), places) for each in (-0.0001, 0.0001)],
            "dayBaseVlm": _text(turnover / mark),
        }
        if contract.status == DELISTED:
            row |= dict.fromkeys(("funding", "openInterest", "dayNtlVlm", "dayBaseVlm"), "0.0")
            row |= dict.fromkeys(("premium", "midPx", "impactPxs"))
        return row | self._unknown_fields

    def _funding_history(self, request: InfoRequest, now: int) -> object:
        contract = self._market.contract(request.coin, now)
        if contract is None:
            return None
        end = min(request.end_time or now, now - 2 * _STAMPED_AFTER)
        settled = self._history.settlements(contract, request.start_time, end)
        return [
            {
                "coin": contract.name,
                "fundingRate": _text(rate),
                "premium": _text(self._history.quote(contract, time).premium),
                "time": time + _STAMPED_AFTER + key(contract.name, time) % _STAMPED_AFTER,
            }
            for time, rate in settled[:_MOST_SETTLEMENTS]
        ]

    def _candles(self, outer: InfoRequest, now: int) -> object:
        """Hourly candles; only the newest 5,000 exist."""
        request = outer if outer.req is None else outer.req
        contract = self._market.contract(request.coin, now)
        if contract is None:
            return None
        first = max(request.start_time, self._history.world.birth, now - _MOST_CANDLES * HOUR)
        last = min(request.end_time or now, now)
        starts = range(-(-first // HOUR) * HOUR, last + 1, HOUR)
        return [
            {
                "t": candle.start,
                "T": candle.start + HOUR - 1,
                "s": contract.name,
                "i": "1h",
                "o": _text(candle.open, contract.price_decimals),
                "c": _text(candle.close, contract.price_decimals),
                "h": _text(candle.high, contract.price_decimals),
                "l": _text(candle.low, contract.price_decimals),
                "v": _text(candle.volume, contract.size_decimals),
                "n": int(candle.turnover // 5000),
            }
            for candle in self._history.candles(contract, starts, now)
        ]


def _text(value: float, places: int = _PLACES) -> str:
    """A number as the venue writes it: no exponent, and `.0` at least."""
    whole, _, rest = f"{value:.{max(places, 1)}f}".partition(".")
    return f"{whole}.{rest.rstrip('0') or '0'}"


class HyperliquidServer(BodyServer[HyperliquidFaults]):
    """Answers `/info` within the weight that an address may use per minute."""

    def __init__(self, world: World, clock: Clock, faults: HyperliquidFaults) -> None:
        super().__init__(clock, faults)
        self._info = Info(world, faults)
        self._spent: deque[tuple[int, int]] = deque()

    async def respond(self, request: BodyRequest, client: asyncio.StreamReader) -> Response | None:
        """Answer a request; None closes the connection without a reply."""
        if (request.path, request.method) != (INFO_PATH, "POST"):
            self.requests[OTHER] += 1
            return reply(HTTPStatus.NOT_FOUND, b"null")
        try:
            info = msgspec.json.decode(request.body, type=InfoRequest)
        except msgspec.MsgspecError:
            info = InfoRequest()
        self.requests[info.type if self._info.knows(info.type) else OTHER] += 1
        if not self._info.knows(info.type):
            message = b"Failed to deserialize the JSON body into the target type"
            return reply(HTTPStatus.UNPROCESSABLE_ENTITY, message, TEXT)
        if self._is_throttled(_WEIGHTS.get(info.type, _USUAL_WEIGHT)):
            return reply(HTTPStatus.TOO_MANY_REQUESTS, b"null")
        return await self._unless_faulty(info, client)

    def _is_throttled(self, weight: int) -> bool:
        now = self._clock()
        # A request that seems to be in the future was counted before the clock was set back.
        while self._spent and not now - MINUTE < self._spent[0][0] <= now:
            self._spent.popleft()
        self._spent.append((now, weight))
        return sum(each for _, each in self._spent) > WEIGHT_PER_MINUTE

    async def _unless_faulty(
        self, request: InfoRequest, client: asyncio.StreamReader
    ) -> Response | None:
        if self._faults.is_on(VenueFault.SLOW, request.type):
            await stays_until(client, asyncio.sleep(SLOW_SECONDS))
        while (fault := self._faults.replacing(request.type)) == VenueFault.HANG:
            if not await stays_until(client, self._faults.changed()):
                return None
        match fault:
            case None:
                return self._answer(request)
            case VenueFault.RESET:
                raise ResetConnection
            case VenueFault.GEO_BLOCK:
                return blocked_country()
            case VenueFault.OVERLOADED:
                return reply(HTTPStatus.TOO_MANY_REQUESTS, b"null")
            case _:
                return bad_gateway()

    def _answer(self, request: InfoRequest) -> Response:
        answer = self._info.answer(request, self.now(request.type))
        if isinstance(answer, list) and request.type in _ROWS_PER_WEIGHT:
            self._spent.append((self._clock(), len(answer) // _ROWS_PER_WEIGHT[request.type]))
        content = msgspec.json.encode(answer)
        is_cut = self._faults.is_on(VenueFault.TRUNCATED, request.type)
        return (truncated if is_cut else reply)(HTTPStatus.OK, content)


@asynccontextmanager
async def running_hyperliquid(
    world: World,
    clock: Clock = system_clock,
    faults: HyperliquidFaults | None = None,
    *,
    host: str = HOST,
    port: int = 0,
) -> AsyncIterator[ServerAddress]:
    """Run a simulated Hyperliquid until the context ends; port 0 picks a free one."""
    server = HyperliquidServer(world, clock, HyperliquidFaults() if faults is None else faults)
    async with server.running(host, port) as bound:
        yield ServerAddress(host, bound)
