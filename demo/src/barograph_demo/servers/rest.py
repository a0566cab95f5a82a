"""The exchange's REST answers: a pure function of path, query and time.

https://bybit-exchange.github.io/docs/v5/guide
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

import msgspec

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph_demo.servers.tickers import CLOSED, decimal, instrument, ratio_json, ticker_json
from barograph_demo.world.candles import Candle, candles
from barograph_demo.world.contracts import FUTURE, Contract
from barograph_demo.world.world import World, reported_rate

Query = Mapping[str, str]
Result = dict[str, object]

PARAMETER_ERROR: Final = 10001

_HOURLY: Final = "60"
"""The only interval of candles that is simulated."""

_PERIODS: Final = {
    "5min": 5 * MINUTE,
    "15min": 15 * MINUTE,
    "30min": 30 * MINUTE,
    "1h": HOUR,
    "4h": 4 * HOUR,
    "1d": DAY,
}


class _ParameterError(Exception):
    """The exchange answers the request with its parameter error."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """The world at the time of a request; `closed` are the delisted contracts."""

    world: World
    now: int
    closed: frozenset[str]

    def status(self, contract: Contract) -> str:
        is_closed = contract.symbol in self.closed or not contract.is_listed(self.now)
        return CLOSED if is_closed else contract.status

    def listed(self) -> list[Contract]:
        """Every contract that has a ticker."""
        return [c for c in self.world.contracts(self.now) if self.status(c) != CLOSED]

    def first(self, contract: Contract) -> int:
        """When its history begins."""
        return max(self.world.birth, contract.launched(self.now))

    def contract(self, query: Query) -> Contract:
        symbol = query.get("symbol", "")
        found = self.world.contract(symbol, self.now)
        if found is None or self.status(found) == CLOSED:
            raise _ParameterError("params error: symbol invalid")
        return found


def answer(
    world: World, path: str, query: Query, now: int, closed: frozenset[str] = frozenset()
) -> tuple[int, bytes]:
    """The HTTP status and body for a request at a time."""
    endpoint = _ENDPOINTS.get(path)
    if endpoint is None:
        return HTTPStatus.NOT_FOUND, b"404 page not found\n"
    try:
        result = endpoint(_Moment(world, now, closed), query)
    except _ParameterError as refusal:
        return HTTPStatus.OK, envelope(now, code=PARAMETER_ERROR, message=str(refusal))
    return HTTPStatus.OK, envelope(now, result)


def envelope(now: int, result: Result | None = None, code: int = 0, message: str = "OK") -> bytes:
    """The wrapper of every answer."""
    return msgspec.json.encode(
        {
            "retCode": code,
            "retMsg": message,
            "result": result or {},
            "retExtInfo": {},
            "time": now,
        }
    )


def _time(moment: _Moment, _query: Query) -> Result:
    return {"timeSecond": str(moment.now // 1000), "timeNano": str(moment.now * 1_000_000)}


def _instruments(moment: _Moment, query: Query) -> Result:
    """Lists every status, so that a reader that ignores `status` fails here.

    The real exchange lists only some unless asked.
    """
    _linear(query)
    found = [
        contract
        for contract in moment.world.contracts(moment.now)
        if query.get("symbol") in {None, "", contract.symbol}
        and query.get("baseCoin") in {None, "", contract.coin}
        and query.get("status") in {None, "", moment.status(contract)}
    ]
    if query.get("symbol") and not found:
        raise _ParameterError("params error: symbol invalid")
    limit = _limit(query, 500, 1000)
    offset = _cursor(query, "page") or 0
    more = offset + limit < len(found)
    return {
        "category": "linear",
        "list": [
            instrument(contract, moment.status(contract), moment.world.epoch, moment.now)
            for contract in found[offset : offset + limit]
        ],
        "nextPageCursor": f"page%3D{offset + limit}" if more else "",
    }


def _tickers(moment: _Moment, query: Query) -> Result:
    _linear(query)
    wanted = [moment.contract(query)] if query.get("symbol") else moment.listed()
    rows = ",".join([ticker_json(moment.world, contract, moment.now) for contract in wanted])
    return {"category": "linear", "list": msgspec.Raw(f"[{rows}]".encode())}


def _account_ratio(moment: _Moment, query: Query) -> Result:
    _linear(query)
    contract = moment.contract(query)
    times, cursor = _periods(moment, contract, query, "period", 500)
    rows = ",".join([ratio_json(moment.world, contract, time) for time in times])
    return {"list": msgspec.Raw(f"[{rows}]".encode()), "nextPageCursor": cursor}


def _open_interest(moment: _Moment, query: Query) -> Result:
    """Counts both sides of each position, as `openInterest` of a ticker does."""
    _linear(query)
    contract = moment.contract(query)
    times, cursor = _periods(moment, contract, query, "intervalTime", 200)
    rows = [
        {
            "openInterest": f"{2 * moment.world.open_interest(contract, time):.8f}",
            "singleOpenInterest": f"{moment.world.open_interest(contract, time):.8f}",
            "timestamp": str(time),
        }
        for time in times
    ]
    head = {"symbol": contract.symbol, "category": "linear"}
    return {**head, "list": rows, "nextPageCursor": cursor}


def _funding_history(moment: _Moment, query: Query) -> Result:
    _linear(query)
    contract = moment.contract(query)
    if contract.kind == FUTURE:
        raise _ParameterError("params error: symbol invalid")
    limit = _limit(query, 200, 200)
    start, end = _integer(query, "startTime"), _integer(query, "endTime")
    if start is not None and end is None:
        raise _ParameterError("params error: endTime is required with startTime")
    last = moment.now if end is None else min(end, moment.now)
    first = last - limit * contract.funding_hours * HOUR if start is None else start
    world, symbol = moment.world, contract.symbol
    settled = world.settlements(contract, max(first, moment.first(contract) + 1), last)
    rows = [
        {
            "symbol": symbol,
            "fundingRate": decimal(reported_rate(world.seed, symbol, time, rate, moment.now)),
            "fundingRateTimestamp": str(time),
        }
        for time, rate in settled[: -limit - 1 : -1]
    ]
    return {"category": "linear", "list": rows}


def _kline(moment: _Moment, query: Query) -> Result:
    if query.get("category"):
        _linear(query)
    contract = moment.contract(query)
    if query.get("interval") != _HOURLY:
        raise _ParameterError("params error: interval invalid")
    rows = [
        _candle_row(contract, candle)
        for candle in candles(
            moment.world, contract, _candle_starts(moment, contract, query), moment.now
        )
    ]
    return {"symbol": contract.symbol, "category": "linear", "list": rows[::-1]}


def _candle_starts(moment: _Moment, contract: Contract, query: Query) -> Sequence[int]:
    limit = _limit(query, 200, 1000)
    start, end = _integer(query, "start"), _integer(query, "end")
    last = moment.now if end is None else min(end, moment.now)
    first = last - limit * HOUR if start is None else start
    starts = range(max(-(-first // HOUR) * HOUR, moment.first(contract)), last + 1, HOUR)
    return starts[:limit] if end is None and start is not None else starts[-limit:]


def _candle_row(contract: Contract, candle: Candle) -> list[str]:
    places = contract.price_decimals
    prices = (candle.open, candle.high, candle.low, candle.close)
    return [
        str(candle.start),
        *(f"{price:.{places}f}" for price in prices),
        f"{candle.volume:.{contract.size_decimals}f}",
        f"{candle.turnover:.4f}",
    ]


def _periods(
    moment: _Moment, contract: Contract, query: Query, name: str, most: int
) -> tuple[list[int], str]:
    """The times of a history, newest first, and the cursor of its next page."""
    period = _PERIODS.get(query.get(name, ""))
    if period is None:
        raise _ParameterError(f"params error: {name} invalid")
    limit = _limit(query, 50, most)
    start, end = _integer(query, "startTime"), _integer(query, "endTime")
    before = _cursor(query, "lasttime")
    last = moment.now if end is None else min(end, moment.now)
    last = last if before is None else min(last, before * 1000 - 1)
    earliest = max(moment.first(contract), start or 0)
    times = list(range(last - last % period, earliest - 1, -period)[:limit])
    more = bool(times) and times[-1] - period >= earliest
    return times, f"lastid%3D0%26lasttime%3D{times[-1] // 1000}" if more else ""


def _linear(query: Query) -> None:
    if query.get("category") != "linear":
        raise _ParameterError("Illegal category")


def _integer(query: Query, name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise _ParameterError(f"params error: {name} invalid")
    return int(text)


def _limit(query: Query, usual: int, most: int) -> int:
    limit = _integer(query, "limit")
    if limit == 0:
        raise _ParameterError("params error: limit invalid")
    return usual if limit is None else min(limit, most)


def _cursor(query: Query, name: str) -> int | None:
    """A number inside the cursor, which clients return encoded or not."""
    text = unquote(query.get("cursor", ""))
    if not text:
        return None
    fields = dict(part.partition("=")[::2] for part in text.split("&"))
    value = fields.get(name, "")
    if not (value.isascii() and value.isdigit()):
        raise _ParameterError("params error: cursor invalid")
    return int(value)


def _system_status(moment: _Moment, _query: Query) -> Result:
    """Maintenance an hour ago; a fault makes it last."""
    times = {"begin": str(moment.now - 2 * HOUR), "end": str(moment.now - HOUR)}
    about = {"serviceTypes": [2, 3], "product": [1, 2], "maintainType": 1, "env": 1}
    return {"list": [{"title": "System upgrade", "state": "completed", **times, **about}]}


_ENDPOINTS: Final[dict[str, Callable[[_Moment, Query], Result]]] = {
    "/v5/market/time": _time,
    "/v5/market/instruments-info": _instruments,
    "/v5/market/tickers": _tickers,
    "/v5/market/account-ratio": _account_ratio,
    "/v5/market/open-interest": _open_interest,
    "/v5/market/funding/history": _funding_history,
    "/v5/market/kline": _kline,
    "/v5/system/status": _system_status,
}

PATHS: Final = tuple(_ENDPOINTS)
"""All endpoints."""
