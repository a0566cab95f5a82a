"""The REST answers of the simulated Binance: a pure function of market, path, query and time.

https://developers.binance.com/docs/derivatives/usds-margined-futures/general-info
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph_demo.servers import binance_rows as rows
from barograph_demo.servers.faulty_market import FaultyMarket
from barograph_demo.world.venues import TRADING, VenueContract, VenueMarket

Query = Mapping[str, str]

WEIGHT: Final = "weight"
FUNDING: Final = "funding"
DATA: Final = "data"
LIMITS: Final = {WEIGHT: (2400, MINUTE), FUNDING: (500, 5 * MINUTE), DATA: (1000, 5 * MINUTE)}
"""How much each group of endpoints allows an address per span of time."""

HISTORY_MS: Final = 30 * DAY
"""How far back the statistics of open interest and accounts go."""

_INVALID: Final = -1130
_PERIODS: Final = {"5m": 5 * MINUTE, "15m": 15 * MINUTE, "1h": HOUR, "4h": 4 * HOUR, "1d": DAY}
_KLINE_WEIGHTS: Final = ((100, 1), (500, 2), (1001, 5))
"""What a request for fewer candles than these weighs; one for more weighs 10."""

_HOURLY: Final = "1h"
"""The only interval of candles that is simulated."""


class _Refused(Exception):
    """Binance answers the request with an error code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class _Moment:
    """The market at the time of a request."""

    live: FaultyMarket
    now: int

    def contract(self, query: Query) -> VenueContract:
        name = query.get("symbol", "")
        if not name:
            raise _Refused(-1102, "Mandatory parameter 'symbol' was not sent.")
        found = self.live.contract(name, self.now)
        if found is None or found.status != TRADING:
            raise _Refused(-1121, "Invalid symbol.")
        return found

    def contract_before(self, query: Query) -> VenueContract:
        """The contract as it was: faults leave the past alone."""
        changed = self.contract(query)
        return self.live.market.contract(changed.name, self.now) or changed


_Answer = Callable[[_Moment, Query], object]


def answer(market: FaultyMarket, path: str, query: Query, now: int) -> tuple[int, bytes]:
    """The HTTP status and body for a request at a time."""
    endpoint = ENDPOINTS.get(path)
    if endpoint is None:
        return HTTPStatus.NOT_FOUND, error_body(-5000, f"Path {path}, Method GET is invalid")
    try:
        result = endpoint.answer(_Moment(market, now), query)
    except _Refused as refusal:
        return HTTPStatus.BAD_REQUEST, error_body(refusal.code, str(refusal))
    return HTTPStatus.OK, msgspec.json.encode(result)


def error_body(code: int, message: str) -> bytes:
    """The body of every error."""
    return msgspec.json.encode({"code": code, "msg": message})


def _exchange_info(moment: _Moment, _query: Query) -> object:
    limit = {"rateLimitType": "REQUEST_WEIGHT", "interval": "MINUTE", "intervalNum": 1}
    return {
        "timezone": "UTC",
        "serverTime": moment.now,
        "rateLimits": [limit | {"limit": LIMITS[WEIGHT][0]}],
        "symbols": [rows.instrument(contract) for contract in moment.live.contracts(moment.now)],
    }


def _open_interest(moment: _Moment, query: Query) -> object:
    return rows.open_interest(moment.live, moment.contract(query), moment.now)


def _funding_rates(moment: _Moment, query: Query) -> object:
    """Oldest first: from the start if there is one, otherwise the newest."""
    contract = moment.contract_before(query)
    limit = _limit(query, 100, 1000)
    start, end = _span(moment, query)
    first = end - limit * contract.funding_hours * HOUR if start is None else start
    settled = moment.live.market.settlements(contract, first, end)
    kept = settled[-limit:] if start is None else settled[:limit]
    return [rows.settlement(moment.live.market, contract, each) for each in kept]


def _klines(moment: _Moment, query: Query) -> object:
    contract = moment.contract_before(query)
    if query.get("interval") != _HOURLY:
        raise _Refused(-1120, "Invalid interval.")
    limit = _limit(query, 500, 1500)
    start, end = _span(moment, query)
    first = end - limit * HOUR if start is None else start
    starts = range(max(-(-first // HOUR) * HOUR, moment.live.market.world.birth), end + 1, HOUR)
    kept = starts[-limit:] if start is None else starts[:limit]
    candles = moment.live.market.candles(contract, kept, moment.now)
    return [rows.candle(contract, candle) for candle in candles]


def _times(moment: _Moment, query: Query) -> Sequence[int]:
    """The times of a statistic, oldest first, counted back from the end."""
    period = _PERIODS.get(query.get("period", ""))
    if period is None:
        raise _Refused(_INVALID, "parameter 'period' is invalid.")
    start, end = _span(moment, query)
    earliest = moment.now - HISTORY_MS
    if start is not None and start < earliest:
        raise _Refused(_INVALID, "parameter 'startTime' is invalid.")
    first = max(moment.live.market.world.birth, earliest if start is None else start)
    return range(-(-first // period) * period, end + 1, period)[-_limit(query, 30, 500) :]


def _span(moment: _Moment, query: Query) -> tuple[int | None, int]:
    start, end = _integer(query, "startTime"), _integer(query, "endTime")
    return start, moment.now if end is None else min(end, moment.now)


def _limit(query: Query, usual: int, most: int) -> int:
    limit = _integer(query, "limit")
    if limit is not None and not 0 < limit <= most:
        raise _Refused(_INVALID, "Data sent for parameter 'limit' is not valid.")
    return usual if limit is None else limit


def _integer(query: Query, name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise _Refused(_INVALID, f"Data sent for parameter '{name}' is not valid.")
    return int(text)


def _current(row: Callable[[FaultyMarket, VenueContract, int], rows.Row]) -> _Answer:
    """Answers with the row of the contract that the query names, or with those of all."""

    def answer_now(moment: _Moment, query: Query) -> object:
        if query.get("symbol"):
            return row(moment.live, moment.contract(query), moment.now)
        listed = moment.live.contracts(moment.now)
        return [row(moment.live, each, moment.now) for each in listed if each.status == TRADING]

    return answer_now


def _statistic(row: Callable[[VenueMarket, VenueContract, int], rows.Row]) -> _Answer:
    """Answers with a row for each period of the past."""

    def answer_then(moment: _Moment, query: Query) -> object:
        contract = moment.contract_before(query)
        return [row(moment.live.market, contract, time) for time in _times(moment, query)]

    return answer_then


class Endpoint(NamedTuple):
    """How a path is answered, and what a request for it weighs."""

    answer: _Answer
    one: int = 1
    every: int | None = None
    """The weight without a symbol, if that differs."""

    group: str = WEIGHT
    """The limit that a request counts against."""

    def weight(self, query: Query) -> int:
        """What one request weighs."""
        if self.answer is _klines:
            asked = query.get("limit", "")
            rows_asked = int(asked) if asked.isdecimal() else 500
            return next((weight for most, weight in _KLINE_WEIGHTS if rows_asked < most), 10)
        return self.one if self.every is None or query.get("symbol") else self.every


ENDPOINTS: Final[Mapping[str, Endpoint]] = {
    "/fapi/v1/ping": Endpoint(lambda _moment, _query: {}),
    "/fapi/v1/time": Endpoint(lambda moment, _query: {"serverTime": moment.now}),
    "/fapi/v1/exchangeInfo": Endpoint(_exchange_info),
    "/fapi/v1/premiumIndex": Endpoint(_current(rows.premium_index), 1, 10),
    "/fapi/v1/ticker/price": Endpoint(_current(rows.price), 1, 2),
    "/fapi/v2/ticker/price": Endpoint(_current(rows.price), 1, 2),
    "/fapi/v1/ticker/24hr": Endpoint(_current(rows.day_ticker), 1, 40),
    "/fapi/v1/fundingInfo": Endpoint(_current(rows.funding_info), group=FUNDING),
    "/fapi/v1/fundingRate": Endpoint(_funding_rates, group=FUNDING),
    "/fapi/v1/openInterest": Endpoint(_open_interest),
    "/fapi/v1/klines": Endpoint(_klines),
    "/futures/data/openInterestHist": Endpoint(_statistic(rows.past_open_interest), group=DATA),
    "/futures/data/globalLongShortAccountRatio": Endpoint(_statistic(rows.accounts), group=DATA),
}
"""All paths."""
