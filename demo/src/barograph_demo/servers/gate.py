"""The simulated Gate: public futures data by REST. Numbers are texts, times are in seconds.

https://www.gate.com/docs/developers/apiv4/en/#futures
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

import msgspec
from websockets.http11 import Response

from barograph.kit.clock import Clock, system_clock
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph_demo.servers.control import HOST, ServerAddress, reply
from barograph_demo.servers.faults import WITHOUT_STREAM, VenueFault, VenueFaults
from barograph_demo.servers.faulty_market import FaultyMarket
from barograph_demo.servers.venue_server import Query, VenueServer
from barograph_demo.world.liquidations import LONG, SimulatedLiquidation
from barograph_demo.world.venues import (
    COIN,
    GATE,
    TRADING,
    VenueContract,
    VenueMarket,
    contract_names,
)
from barograph_demo.world.world import World

Row = dict[str, object]

LIMIT_REQUESTS: Final = 200
LIMIT_MS: Final = 10 * SECOND
"""An address may call each endpoint 200 times in ten seconds."""

_CLASSES: Final = {COIN: "", "EQUITY": "stocks", "COMMODITY": "metals"}
_PERIODS: Final = {"5m": 5 * MINUTE, "1h": HOUR, "1d": DAY}
_USERS: Final = 4000
_MOST_ROWS: Final = 1000
_MOST_STATISTICS: Final = 100
_MOST_CANDLES: Final = 2000


class _Refused(Exception):
    """Gate answers the request with a label."""


class _Answers:
    """The answers of the venue at a time: a pure function of market and query."""

    def __init__(self, live: FaultyMarket, now: int) -> None:
        self._live = live
        self._market = live.market
        self._now = now

    def time(self, _query: Query) -> object:
        return {"server_time": self._now}

    def contracts(self, _query: Query) -> object:
        return [self._contract_row(each) for each in self._live.contracts(self._now)]

    def tickers(self, _query: Query) -> object:
        return [self._ticker(each) for each in self._live.contracts(self._now)]

    def funding_rate(self, query: Query) -> object:
        """The newest first."""
        contract = self._contract(query)
        start, end = self._span(query, self._market.world.birth)
        settled = self._market.settlements(contract, start, end)[-_limit(query, 100, _MOST_ROWS) :]
        return [{"t": at // SECOND, "r": _text(rate, 6)} for at, rate in reversed(settled)]

    def candlesticks(self, query: Query) -> object:
        contract = self._contract(query)
        start, end = self._span(query, self._now - 99 * HOUR)
        starts = range(-(-max(start, self._market.world.birth) // HOUR) * HOUR, end + 1, HOUR)
        if len(starts) > _MOST_CANDLES or "limit" in query:
            raise _Refused("INVALID_PARAM_VALUE")
        places = contract.price_decimals
        return [
            {
                "t": candle.start // SECOND,
                "o": _text(candle.open, places),
                "h": _text(candle.high, places),
                "l": _text(candle.low, places),
                "c": _text(candle.close, places),
                "v": int(candle.volume / contract.lot),
                "sum": _text(candle.turnover, 2),
            }
            for candle in self._market.candles(contract, starts, self._now)
        ]

    def contract_stats(self, query: Query) -> object:
        """From the start if there is one, otherwise the newest; the oldest first."""
        contract, period = self._contract(query), _PERIODS[query.get("interval", "5m")]
        limit = _limit(query, 30, _MOST_STATISTICS)
        start, _ = self._span(query, self._now - self._now % period - (limit - 1) * period)
        times = range(
            -(-max(start, self._market.world.birth) // period) * period, self._now, period
        )
        return [self._statistics(contract, at) for at in times[:limit]]

    def liq_orders(self, query: Query) -> object:
        """The newest first, of an hour at most."""
        start, end = self._span(query, self._now - HOUR)
        if end - start > HOUR:
            raise _Refused("INVALID_PARAM_VALUE")
        rows = [self._liquidation(each) for each in self._live.liquidations(start, end + SECOND)]
        return rows[::-1][: _limit(query, 100, _MOST_ROWS)]

    def _contract_row(self, contract: VenueContract) -> Row:
        hours = self._live.stated_hours(contract)
        prices = self._prices(contract)
        last = prices.pop("last")
        return {
            **prices,
            "name": contract.name,
            "type": "direct",
            "quanto_multiplier": f"{contract.lot:.10f}".rstrip("0").rstrip("."),
            "last_price": last,
            "funding_interval": hours * HOUR // SECOND,
            "funding_next_apply": self._market.next_funding(contract, self._now) // SECOND,
            "funding_cap_ratio": "0.75",
            "position_size": round(self._live.open_interest(contract, self._now) / contract.lot),
            "leverage_max": "50",
            "in_delisting": False,
            "is_pre_market": False,
            "status": "trading" if contract.status == TRADING else "delisted",
            "contract_type": _CLASSES.get(contract.asset_class, contract.asset_class.lower()),
        }

    def _ticker(self, contract: VenueContract) -> Row:
        turnover = self._market.turnover(contract, self._now - DAY, self._now)
        prices = self._prices(contract)
        coins = turnover / float(prices["last"])
        before = self._market.price(contract, self._now - DAY)
        return {
            **prices,
            "contract": contract.name,
            "change_percentage": _text(100 * (float(prices["last"]) / before - 1), 2),
            "total_size": str(round(self._live.open_interest(contract, self._now) / contract.lot)),
            "volume_24h": str(round(coins / contract.lot)),
            "volume_24h_base": _text(coins, 0),
            "volume_24h_quote": _text(turnover, 0),
            "volume_24h_settle": _text(turnover, 0),
            "funding_rate_indicative": prices["funding_rate"],
        }

    def _prices(self, contract: VenueContract) -> dict[str, str]:
        places = contract.price_decimals
        return {
            "last": _text(self._live.price(contract, self._now), places),
            "mark_price": _text(self._live.mark(contract, self._now), places + 1),
            "index_price": _text(self._live.index(contract, self._now), places + 1),
            "funding_rate": _text(self._live.funding_rate(contract, self._now), 6),
        }

    def _statistics(self, contract: VenueContract, at: int) -> Row:
        """Positions and accounts at a past time. The times of accounts say when they end."""
        longs = round(_USERS * self._market.long_share(contract, at))
        coins, mark = self._market.open_interest(contract, at), self._market.mark(contract, at)
        return {
            "time": at // SECOND,
            "lsr_account": longs / (_USERS - longs),
            "long_users": longs,
            "short_users": _USERS - longs,
            "mark_price": mark,
            "open_interest": round(coins / contract.lot),
            "open_interest_usd": coins * mark,
        }

    def _liquidation(self, each: SimulatedLiquidation) -> Row:
        """The sign of the size is the side of the position; the order is the opposite."""
        contract = self._market.contract(each.symbol, self._now)
        lot = 1.0 if contract is None else contract.lot
        size = max(1, round(float(each.size) / lot)) * (1 if each.side == LONG else -1)
        return {
            "contract": each.symbol,
            "left": "0",
            "size": str(size),
            "order_size": str(-size),
            "fill_price": each.price,
            "order_price": each.price,
            "time": each.time // SECOND,
        }

    def _contract(self, query: Query) -> VenueContract:
        """The contract of a query as it was: faults leave the past alone."""
        name = query.get("contract", "")
        listed = self._live.contract(name, self._now)
        found = self._market.contract(name, self._now)
        if found is None or listed is None or listed.status != TRADING:
            raise _Refused("CONTRACT_NOT_FOUND")
        return found

    def _span(self, query: Query, start: int) -> tuple[int, int]:
        """The first and the last time of a query, both included."""
        first, last = query.get("from", ""), query.get("to", "")
        end = min(int(last) * SECOND, self._now) if last else self._now
        return (int(first) * SECOND if first else start), end


def _limit(query: Query, usual: int, most: int) -> int:
    limit = int(query.get("limit", usual))
    if not 0 < limit <= most:
        raise _Refused("INVALID_PARAM_VALUE")
    return limit


def _text(value: float, places: int) -> str:
    return f"{value:.{places}f}"


_FUTURES: Final = "/api/v4/futures/usdt/"
_ENDPOINTS: Final[Mapping[str, Callable[[_Answers, Query], object]]] = {
    "/api/v4/spot/time": _Answers.time,
    f"{_FUTURES}contracts": _Answers.contracts,
    f"{_FUTURES}tickers": _Answers.tickers,
    f"{_FUTURES}funding_rate": _Answers.funding_rate,
    f"{_FUTURES}candlesticks": _Answers.candlesticks,
    f"{_FUTURES}contract_stats": _Answers.contract_stats,
    f"{_FUTURES}liq_orders": _Answers.liq_orders,
}


class GateFaults(VenueFaults):
    """The active faults of Gate."""

    names = WITHOUT_STREAM
    last_replacing = VenueFault.OVERLOADED
    default_contract = "SOL_USDT"
    paths = tuple(_ENDPOINTS)
    contracts = frozenset(contract_names(GATE))


class GateServer(VenueServer[GateFaults]):
    """Answers REST requests; there is no stream here, because nobody reads it."""

    paths = _ENDPOINTS

    def __init__(self, world: World, clock: Clock, faults: GateFaults) -> None:
        super().__init__(clock, faults)
        self._market = FaultyMarket(VenueMarket(world, GATE), faults)
        self._used: dict[str, tuple[int, int]] = {}

    def over_limit(self, path: str, _query: Query) -> Response | None:
        """The refusal of an address that calls an endpoint too often."""
        span = self._clock() // LIMIT_MS
        known, used = self._used.get(path, (span, 0))
        used = used + 1 if known == span else 1
        self._used[path] = span, used
        return _error(429, "TOO_MANY_REQUESTS") if used > LIMIT_REQUESTS else None

    def answer(self, path: str, query: Query) -> Response:
        """The answer to a request, perhaps distorted."""
        endpoint = _ENDPOINTS.get(path)
        if endpoint is None:
            return _error(HTTPStatus.NOT_FOUND, "NOT_FOUND")
        try:
            result = endpoint(_Answers(self._market, self.now(path)), query)
        except _Refused as refusal:
            return _error(HTTPStatus.BAD_REQUEST, str(refusal))
        return self.distorted(path, HTTPStatus.OK, msgspec.json.encode(result))


def _error(status: int, label: str) -> Response:
    return reply(status, msgspec.json.encode({"label": label, "message": label.lower()}))


@asynccontextmanager
async def running_gate(
    world: World,
    clock: Clock = system_clock,
    faults: GateFaults | None = None,
    *,
    host: str = HOST,
    port: int = 0,
) -> AsyncIterator[ServerAddress]:
    """Run a simulated Gate until the context ends; port 0 picks a free one."""
    server = GateServer(world, clock, GateFaults() if faults is None else faults)
    async with server.running(host, port) as bound:
        yield ServerAddress(host, bound)
