"""Bybit's history: every hour once, page by page, at a pace that leaves room for live calls."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from barograph.errors import Forbidden, InvalidReply, Throttled
from barograph.kit.timestamps import DAY, HOUR, SECOND
from barograph.venues.bybit.exchange import BybitExchange
from barograph.venues.exchange import MarketHistory
from barograph.venues.records import SettledRate
from support.scripted_venue import ScriptedVenue

SAMPLES = Path(__file__).parent / "samples/bybit"
NOW = 1_794_787_212_345
END = NOW // HOUR * HOUR
START = END - 30 * DAY
ENDS = {"kline": ("start", "end")}
MAX_ROWS = {"kline": 1000, "open-interest": 200, "account-ratio": 500, "funding/history": 200}

Row = Any
Answer = Callable[[Mapping[str, str]], Sequence[Row]]


def row(endpoint: str, at: int) -> Row:
    """A row whose value tells its hour."""
    hour = at // HOUR % 1000
    match endpoint:
        case "kline":
            return [str(at), f"{hour + 1}", "9999", "1", "5", "7.1", "35.5"]
        case "open-interest":
            values = {"openInterest": f"{2 * hour}.00000000", "singleOpenInterest": f"{hour}.0"}
            return {**values, "timestamp": str(at)}
        case "account-ratio":
            long = hour / 1000
            shares = {"buyRatio": f"{long:.4f}", "sellRatio": f"{1 - long:.4f}"}
            return {"symbol": "BTCUSDT", **shares, "timestamp": str(at)}
        case _:
            rate = {"fundingRate": f"{hour / 10**6:.8f}", "fundingRateTimestamp": str(at)}
            return {"symbol": "BTCUSDT", **rate}


class Past(ScriptedVenue[BybitExchange]):
    """Bybit with a past that began at `since`, whose answers can be replaced."""

    def __init__(self, since: int = 0, every: int = HOUR) -> None:
        super().__init__(BybitExchange, NOW)
        self.since = since
        self.every = every
        self.asked: list[tuple[int, str, dict[str, str]]] = []
        self.answer: Answer | None = None
        self.failures: list[httpx2.Response] = []

    def rows(self, endpoint: str, query: Mapping[str, str]) -> list[Row]:
        """Newest first, at most as many as the endpoint gives."""
        first, last = (int(query[name]) for name in ENDS.get(endpoint, ("startTime", "endTime")))
        oldest = -(-max(first, self.since) // self.every) * self.every
        found = range(oldest, min(last, self.now) + 1, self.every)
        limit = min(int(query["limit"]), MAX_ROWS[endpoint])
        return [row(endpoint, at) for at in reversed(found)][:limit]

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        endpoint, query = request.url.path.removeprefix("/v5/market/"), dict(request.url.params)
        self.asked.append((self.now, endpoint, query))
        if self.failures:
            return self.failures.pop(0)
        if endpoint in {"tickers", "instruments-info"}:
            name = endpoint.removesuffix("-info")
            result = json.loads((SAMPLES / f"{name}.json").read_text())["result"]
            result["list"] = [each for each in result["list"] if each["symbol"] == "BTCUSDT"]
        else:
            rows = self.rows(endpoint, query) if self.answer is None else self.answer(query)
            result = {"symbol": "BTCUSDT", "list": rows, "nextPageCursor": "x"}
        return httpx2.Response(200, json={"retCode": 0, "result": result, "time": self.now})

    def read(self, call: Callable[[BybitExchange], Awaitable[Any]]) -> Any:
        async def work(exchange: BybitExchange) -> Any:
            await exchange.perpetuals()
            self.asked.clear()
            return await call(exchange)

        return self.run(work)


def reading(method: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    return lambda start=START, end=END: lambda exchange: method(exchange, "BTCUSDT", start, end)


prices, interest = reading(BybitExchange.past_prices), reading(BybitExchange.past_open_interest)
shares, rates = reading(BybitExchange.past_long_accounts), reading(BybitExchange.past_settlements)


@pytest.mark.parametrize(
    ("call", "pages", "value"),
    [
        (prices, 1, lambda hour: hour + 1.0),
        (interest, 4, float),
        (shares, 2, lambda hour: hour / 10),
    ],
)
def test_thirty_days_come_hour_by_hour_oldest_first_in_as_few_requests_as_possible(
    call: Callable[[], Any], pages: int, value: Callable[[int], float]
) -> None:
    past = Past()
    history: MarketHistory = past.exchange
    assert history is past.exchange
    found = past.read(call())
    assert [each.at for each in found] == list(range(START, END, HOUR))
    expected = [value(each.at // HOUR % 1000) for each in found]
    assert [each.value for each in found] == pytest.approx(expected)
    assert len(past.asked) == pages


@pytest.mark.parametrize(("hours", "pages"), [(8, 1), (1, 4)])
def test_settlements_come_once_whatever_their_interval(hours: int, pages: int) -> None:
    past = Past(every=hours * HOUR)
    found = past.read(rates())
    first = -(-START // (hours * HOUR)) * hours * HOUR
    assert [each.at for each in found] == list(range(first, END, hours * HOUR))
    assert found[0] == SettledRate("BTCUSDT", first, first // HOUR % 1000 / 10**4)
    assert len(past.asked) == pages


@pytest.mark.parametrize(("now", "newest"), [(END, END), (END - 1, END - HOUR)])
def test_settlements_are_asked_for_by_contract_and_none_is_still_to_come(
    now: int, newest: int
) -> None:
    past = Past()
    past.now = now
    past.answer = lambda _: [row("funding/history", at) for at in (END, END - HOUR)]
    assert past.read(rates(end=END + 1))[-1].at == newest
    asked = {"category": "linear", "symbol": "BTCUSDT", "limit": "200"}
    assert asked.items() <= past.asked[0][2].items()


def test_a_young_contract_has_only_its_own_hours_and_is_not_asked_further_back() -> None:
    past = Past(since=END - 5 * HOUR)
    assert [each.at for each in past.read(interest())] == list(range(END - 5 * HOUR, END, HOUR))
    assert len(past.asked) == 2
    empty = Past(since=NOW)
    assert (empty.read(shares()), len(empty.asked)) == ([], 1)


def test_rows_that_no_hour_can_use_are_left_out_and_order_does_not_matter() -> None:
    past = Past()
    usable = [row("kline", at) for at in (START, START + 2 * HOUR, START + HOUR)]
    past.answer = lambda _: [
        *usable,
        row("kline", START - HOUR),
        row("kline", END),
        row("kline", NOW // HOUR * HOUR + HOUR),
        [str(START + 3 * HOUR + 1), "5"],
        [str(START + 4 * HOUR), ""],
        [str(START + 5 * HOUR), "1e9"],
        [str(START + 6 * HOUR), "-1"],
        [str(START + HOUR), "999999"],
    ]
    found = past.read(prices(START, START + 7 * HOUR))
    assert [each.at for each in found] == [START, START + HOUR, START + 2 * HOUR]
    assert [each.value for each in found] == [at // HOUR % 1000 + 1 for at, _ in found]


@pytest.mark.parametrize(
    ("call", "endpoint", "spoiled"),
    [
        (shares, "account-ratio", {"buyRatio": "0.9"}),
        (shares, "account-ratio", {"buyRatio": "57.7"}),
        (shares, "account-ratio", {"sellRatio": ""}),
        *[
            (rates, "funding/history", {"fundingRate": rate})
            for rate in ("0.26", "1e99", "nan", "", None, 0.0001)
        ],
        *[
            (rates, "funding/history", {"fundingRateTimestamp": time})
            for time in ("1794787200", "")
        ],
        (interest, "open-interest", {"singleOpenInterest": "-1"}),
        (interest, "open-interest", {"singleOpenInterest": None}),
    ],
)
def test_an_implausible_value_is_unknown_and_all_others_are_read(
    call: Callable[[int, int], Any], endpoint: str, spoiled: dict[str, object]
) -> None:
    past = Past()

    def spoil(query: Mapping[str, str]) -> list[Row]:
        newest, *others = past.rows(endpoint, query)
        return [{**newest, **spoiled}, *others]

    past.answer = spoil
    found = past.read(call(END - 4 * HOUR, END))
    assert [each.at for each in found] == [END - 4 * HOUR, END - 3 * HOUR, END - 2 * HOUR]


@pytest.mark.parametrize(
    ("call", "rows"),
    [
        (shares, [{**row("account-ratio", START), "symbol": "ETHUSDT"}]),
        (rates, [{**row("funding/history", START), "symbol": "ETHUSDT"}]),
        (prices, [["1794787200", "5"]]),
        (prices, [["1794787200000"]]),
        (rates, {}),
    ],
    ids=["share", "rate", "seconds", "short", "no list"],
)
def test_a_reply_of_another_contract_or_shape_is_invalid(
    call: Callable[[], Any], rows: Sequence[Row]
) -> None:
    past = Past()
    past.answer = lambda _: rows
    assert type(past.read(call())) is InvalidReply


@pytest.mark.parametrize("endless", [True, False])
def test_an_exchange_that_ignores_the_span_ends_the_reading(endless: bool) -> None:
    past = Past()
    newest = [row("funding/history", END - number * HOUR) for number in range(1, 201)]
    past.answer = lambda _: newest if endless else newest[:3]
    found = past.read(rates())
    assert len(found) == len(past.answer({}))
    assert len(past.asked) == (2 if endless else 1)


def test_calls_keep_their_pace_also_when_made_at_once() -> None:
    past = Past()

    async def both(exchange: BybitExchange) -> Any:
        await asyncio.gather(interest()(exchange), shares()(exchange), prices()(exchange))

    past.read(both)
    times = [at for at, *_ in past.asked]
    assert len(times) == 7
    assert times == [NOW + 50 * number for number in range(7)]


def test_a_history_that_fails_does_not_stop_live_shares() -> None:
    past = Past()

    async def fail_and_go_on(exchange: BybitExchange) -> Any:
        past.answer = lambda _: [{"symbol": "OTHER"}]
        for _ in range(5):
            with pytest.raises(InvalidReply):
                await exchange.past_long_accounts("BTCUSDT", START, END)
        past.answer = lambda _: [row("account-ratio", END)]
        return await exchange.long_accounts("BTCUSDT")

    assert past.read(fail_and_go_on).contract == "BTCUSDT"


@pytest.mark.parametrize(("code", "calls"), [(10006, 1), (10029, 3)])
def test_a_refused_history_does_not_stop_live_readings_but_a_refused_reading_stops_the_history(
    code: int, calls: int
) -> None:
    past = Past()

    async def both(exchange: BybitExchange) -> Any:
        refused = {"retCode": code, "retMsg": "refused"}
        past.failures = [httpx2.Response(200, json=refused) for _ in range(calls + 1)]
        past.answer = lambda _: [row("account-ratio", END)]
        for _ in range(calls + 1):
            with pytest.raises((Throttled, Forbidden)):
                await exchange.past_prices("BTCUSDT", START, END)
        past.failures.pop()
        if calls == 3:  # only throttling stops other paths of the history
            await exchange.past_long_accounts("BTCUSDT", END - HOUR, END)
        await exchange.long_accounts("BTCUSDT")
        past.now += 600 * SECOND
        past.failures = [
            httpx2.Response(200, json={**refused, "time": past.now}) for _ in range(calls)
        ]
        for _ in range(calls):
            with pytest.raises((Throttled, Forbidden)):
                await exchange.perpetuals()
        with pytest.raises((Throttled, Forbidden)):
            await rates()(exchange)

    past.read(both)
    asked = [endpoint for _, endpoint, _ in past.asked]
    shared = ["account-ratio"] * (2 if calls == 3 else 1)
    assert asked == [*["kline"] * calls, *shared, *["tickers"] * calls]
