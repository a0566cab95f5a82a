"""The simulated Gate: public futures data by REST. Numbers are texts, times are in seconds.

https://www.gate.com/docs/developers/apiv4/en/#futures
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from websockets.http11 import Response

from barograph.kit.clock import Clock
from barograph.kit.timestamps import DAY, HOUR, MINUTE, SECOND
from barograph_demo.servers.faults import WITHOUT_STREAM, VenueFault, VenueFaults
from barograph_demo.servers.faulty_market import FaultyMarket
from barograph_demo.servers.venue_server import Query, VenueServer, labelled, runner
from barograph_demo.world.liquidations import LONG, SimulatedLiquidation
from barograph_demo.world.venues import GATE, TRADING, VenueContract, VenueMarket, contract_names
from barograph_demo.world.world import World

Row = dict[str, object]
LIMIT_REQUESTS: Final = 200
LIMIT_MS: Final = 10 * SECOND
"""An address may call each endpoint 200 times in ten seconds."""

_CLASSES: Final = {"COIN": "", "EQUITY": "stocks", "COMMODITY": "metals"}
_PERIODS: Final = {"5m": 5 * MINUTE, "1h": HOUR, "1d": DAY}
_USERS, _MOST_ROWS, _MOST_STATISTICS = 4000, 1000, 100


class _Refused(Exception):
    """Gate answers the request with a label."""


class _Answers:
    """The answers of the venue at a time: a pure function of market and query."""

    def __init__(self, live: FaultyMarket, now: int) -> None:
        self._live, self._market, self._now = live, live.market, now
        self.listed = live.contracts(now)

    def time(self, _query: Query) -> object:
        return {"server_time": self._now}

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
        if "limit" in query:
            raise _Refused("INVALID_PARAM_VALUE")
        return [
            {"t": each.start // SECOND, "o": _text(each.open, contract.price_decimals)}
            for each in self._market.candles(contract, starts, self._now)
        ]

    def contract_stats(self, query: Query) -> object:
        """From the start if there is one, otherwise the newest; the oldest first."""
        contract, period = self._contract(query), _PERIODS[query.get("interval", "5m")]
        limit = _limit(query, 30, _MOST_STATISTICS)
        start, _ = self._span(query, self._now - self._now % period - (limit - 1) * period)
        start = max(start, self._market.world.birth)
        times = range(-(-start // period) * period, self._now, period)
        return [self._statistics(contract, at) for at in times[:limit]]

    def liq_orders(self, query: Query) -> object:
        """The newest first, of an hour at most."""
        start, end = self._span(query, self._now - HOUR)
        if end - start > HOUR:
            raise _Refused("INVALID_PARAM_VALUE")
        rows = [self._liquidation(each) for each in self._live.liquidations(start, end + SECOND)]
        return rows[::-1][: _limit(query, 100, _MOST_ROWS)]

    def contract(self, contract: VenueContract) -> Row:
        live, now, places = self._live, self._now, contract.price_decimals
        return {
            "name": contract.name,
            "quanto_multiplier": f"{contract.lot:.10f}".rstrip("0").rstrip("."),
            "last_price": _text(live.price(contract, now), places),
            "mark_price": _text(live.mark(contract, now), places + 1),
            "index_price": _text(live.index(contract, now), places + 1),
            "funding_rate": _text(live.funding_rate(contract, now), 6),
            "funding_interval": live.stated_hours(contract) * HOUR // SECOND,
            "funding_next_apply": self._market.next_funding(contract, now) // SECOND,
            "position_size": round(live.open_interest(contract, now) / contract.lot),
            **dict.fromkeys(("in_delisting", "is_pre_market"), False),
            "status": "trading" if contract.status == TRADING else "delisted",
            "contract_type": _CLASSES.get(contract.asset_class, contract.asset_class.lower()),
        }

    def ticker(self, contract: VenueContract) -> Row:
        turnover = self._market.quote(contract, self._now).turnover
        last = self._live.price(contract, self._now)
        return {
            "contract": contract.name,
            "last": _text(last, contract.price_decimals),
            "volume_24h_base": _text(turnover / last, 0),
            "volume_24h_quote": _text(turnover, 0),
        }

    def _statistics(self, contract: VenueContract, at: int) -> Row:
        longs = round(_USERS * self._market.long_share(contract, at))
        quote = self._market.quote(contract, at)
        return {
            "time": at // SECOND,
            "long_users": longs,
            "short_users": _USERS - longs,
            "mark_price": quote.mark_price,
            "open_interest_usd": quote.open_interest * quote.mark_price,
        }

    def _liquidation(self, each: SimulatedLiquidation) -> Row:
        """The sign of the size is the side of the position; the order is the opposite."""
        contract = self._market.contract(each.symbol, self._now)
        lot = 1.0 if contract is None else contract.lot
        size = max(1, round(float(each.size) / lot)) * (1 if each.side == LONG else -1)
        return {
            "contract": each.symbol,
            "size": str(size),
            "order_size": str(-size),
            "fill_price": each.price,
            "time": each.time // SECOND,
        }

    def _contract(self, query: Query) -> VenueContract:
        """The contract of a query as it was: faults leave the past alone."""
        found = self._market.contract(query.get("contract", ""), self._now)
        if found is None:
            raise _Refused("CONTRACT_NOT_FOUND")
        return found

    def _span(self, query: Query, start: int) -> tuple[int, int]:
        """The first and the last time of a query, both included."""
        end = min(int(query["to"]) * SECOND, self._now) if "to" in query else self._now
        return (int(query["from"]) * SECOND if "from" in query else start), end


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
    f"{_FUTURES}contracts": lambda it, _: [it.contract(each) for each in it.listed],
    f"{_FUTURES}tickers": lambda it, _: [it.ticker(each) for each in it.listed],
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
    limit = LIMIT_REQUESTS, LIMIT_MS

    def __init__(self, world: World, clock: Clock, faults: GateFaults) -> None:
        super().__init__(clock, faults)
        self._market = FaultyMarket(VenueMarket(world, GATE), faults)

    def answer(self, path: str, query: Query) -> Response:
        """The answer to a request, perhaps distorted."""
        if path not in _ENDPOINTS:
            return labelled(HTTPStatus.NOT_FOUND, "NOT_FOUND")
        try:
            result = _ENDPOINTS[path](_Answers(self._market, self.now(path)), query)
        except _Refused as refusal:
            return labelled(HTTPStatus.BAD_REQUEST, str(refusal))
        return self.distorted(path, HTTPStatus.OK, msgspec.json.encode(result))


running_gate = runner(GateServer, GateFaults)
