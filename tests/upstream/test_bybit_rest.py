"""What Bybit's REST interface does wrong, and what becomes of it."""

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from barograph.errors import (
    Forbidden,
    InvalidReply,
    Throttled,
    UnknownToUpstream,
    Unreachable,
    UpstreamError,
)
from barograph.settings import Settings
from barograph.venues.bybit.exchange import BybitExchange
from support.scripted_venue import ScriptedVenue

REPLIES = Path(__file__).parent / "bybit_replies"
NOW = 1_794_787_212_345

Answer = Callable[[httpx2.Request], httpx2.Response | Awaitable[httpx2.Response]]


def reply(name: str, status: int = 200, reset: str | None = None) -> httpx2.Response:
    body = (REPLIES / name).read_bytes()
    kind = "text/html" if name.endswith(".html") else "application/json; charset=utf-8"
    headers = {"content-type": kind}
    if reset is not None:
        headers["X-Bapi-Limit-Reset-Timestamp"] = reset
    return httpx2.Response(status, content=body, headers=headers)


def changed(name: str, change: Callable[[Any], None]) -> httpx2.Response:
    document = json.loads((REPLIES / name).read_bytes())
    change(document)
    return httpx2.Response(200, json=document)


def coded(code: int) -> httpx2.Response:
    return changed("server_error.json", lambda document: document.update(retCode=code))


class Bybit(ScriptedVenue[BybitExchange]):
    """Bybit by stored replies: its answers can be replaced, and its clock and ours moved."""

    def __init__(self, **parts: Any) -> None:
        settings = Settings(exchange_rest_url="https://exchange.example")
        super().__init__(BybitExchange, NOW, settings, **parts)
        self.asked: list[httpx2.Request] = []
        self.answers: dict[str, Answer] = {}

    def calls(self, endpoint: str) -> int:
        return sum(request.url.path.endswith(endpoint) for request in self.asked)

    def wait(self, seconds: float) -> None:
        self.now += round(seconds * 1000)

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        endpoint = request.url.path.removeprefix("/v5/market/")
        answer = self.answers.get(endpoint, self._well)(request)
        return answer if isinstance(answer, httpx2.Response) else await answer

    def _well(self, request: httpx2.Request) -> httpx2.Response:
        names = {"instruments-info": "instruments.json", "account-ratio": "account_ratio.json"}
        endpoint = request.url.path.removeprefix("/v5/market/")
        name = names.get(endpoint, f"{endpoint}.json")
        return changed(name, lambda document: document.update(time=self.now - 40))


def run(bybit: Bybit, *calls: Callable[[BybitExchange], Awaitable[object]]) -> list[object]:
    """Make the calls one after another; a failure is a result as well."""

    async def all_calls() -> list[object]:
        results: list[object] = []
        for call in calls:
            try:
                results.append(await call(bybit.exchange))
            except UpstreamError as error:
                results.append(error)
        await bybit.exchange.close()
        return results

    return asyncio.run(all_calls())


def perpetuals(exchange: BybitExchange) -> Awaitable[object]:
    return exchange.perpetuals()


def bitcoin(exchange: BybitExchange) -> Awaitable[object]:
    return exchange.long_accounts("BTCUSDT")


def time(exchange: BybitExchange) -> Awaitable[object]:
    return exchange.server_time()


def replaced(bybit: Bybit, answer: Answer) -> Callable[[BybitExchange], Awaitable[object]]:
    async def replace(_: BybitExchange) -> None:
        bybit.answers["tickers"] = answer

    return replace


def test_a_share_is_asked_for_by_contract() -> None:
    bybit = Bybit()
    [share] = run(bybit, bitcoin)
    assert share.long_account_pct == 57.77  # type: ignore[attr-defined]
    assert dict(bybit.asked[0].url.params) == {
        "category": "linear",
        "symbol": "BTCUSDT",
        "period": "5min",
        "limit": "1",
    }


def test_values_out_of_range_are_named_until_they_are_read_well_again() -> None:
    bybit = Bybit()

    def spoil(document: Any) -> None:
        document.update(time=bybit.now - 40)
        rows = document["result"]["list"]
        if "buyRatio" in rows[0]:
            rows[0].update(buyRatio="1e99")
        else:
            next(each for each in rows if each["symbol"] == "ETHUSDT").update(lastPrice="1e99")

    bybit.answers["account-ratio"] = lambda _: changed("account_ratio.json", spoil)
    bybit.answers["tickers"] = lambda _: changed("tickers.json", spoil)

    async def heal(_: BybitExchange) -> None:
        bybit.answers.clear()
        bybit.wait(5)

    _, spoiled, *_, well = run(bybit, bitcoin, perpetuals, heal, bitcoin, perpetuals)
    assert spoiled.refused == {  # type: ignore[attr-defined]
        "lastPrice": ["ETHUSDT"],
        "longAccountPct": ["BTCUSDT"],
    }
    assert bybit.calls("account-ratio") == 2
    assert well.refused == {}  # type: ignore[attr-defined]


def test_the_exchange_clock_is_read_as_it_is_however_wrong() -> None:
    bybit = Bybit()
    bybit.now += 3_600_000
    assert run(bybit, lambda exchange: exchange.server_time()) == [NOW]


def updated(name: str, **members: Any) -> Callable[[], httpx2.Response]:
    return lambda: changed(name, lambda document: document.update(members))


def share(**members: Any) -> Callable[[], httpx2.Response]:
    return lambda: changed("account_ratio.json", lambda d: d["result"]["list"][0].update(members))


def plain(content: bytes) -> Callable[[], httpx2.Response]:
    return lambda: httpx2.Response(200, content=content)


BROKEN_GZIP = gzip.compress(b"{}")[:-4] + b"oops"
FAILURES: dict[str, tuple[Callable[[], httpx2.Response], type[UpstreamError]]] = {
    "symbol invalid": (lambda: reply("symbol_invalid.json"), UnknownToUpstream),
    "another parameter": (updated("symbol_invalid.json", retMsg="period wrong"), InvalidReply),
    "illegal category": (updated("symbol_invalid.json", retMsg="Illegal category"), InvalidReply),
    "10006": (lambda: reply("too_many_visits.json"), Throttled),
    "429": (partial(coded, 429), Throttled),
    **{f"{code}": (partial(coded, code), Forbidden) for code in (10009, 10024, 10029)},
    "10016": (lambda: reply("server_error.json"), Unreachable),
    "10000": (partial(coded, 10000), Unreachable),
    "another code": (partial(coded, 10002), InvalidReply),
    "HTTP 429": (lambda: httpx2.Response(429), Throttled),
    "HTTP 403 JSON": (lambda: reply("too_frequent.json", 403), Throttled),
    "HTTP 403 page": (lambda: reply("region.html", 403), Forbidden),
    "HTTP 200 block page": (lambda: reply("region.html"), Forbidden),
    "HTTP 403 without a reason": (lambda: httpx2.Response(403), Forbidden),
    "HTTP 451": (lambda: httpx2.Response(451), Forbidden),
    "HTTP 502": (lambda: httpx2.Response(502, html="<h1>Bad gateway</h1>"), Unreachable),
    "HTTP 404": (lambda: httpx2.Response(404, json={}), InvalidReply),
    "HTTP 204": (lambda: httpx2.Response(204), InvalidReply),
    "a redirect": (
        lambda: httpx2.Response(302, headers={"location": "https://elsewhere.example/"}),
        InvalidReply,
    ),
    "a truncated body": (plain((REPLIES / "account_ratio.json").read_bytes()[:150]), InvalidReply),
    "an empty body": (plain(b""), InvalidReply),
    "a page": (lambda: httpx2.Response(200, html="<h1>Maintenance</h1>"), InvalidReply),
    "not UTF-8": (plain(b'{"retCode":0,"retMsg":"\xff"}'), InvalidReply),
    "nested without end": (plain(b'{"retCode":0,"result":' + b"[" * 200_000), InvalidReply),
    "broken packing": (
        lambda: httpx2.Response(
            200, stream=httpx2.ByteStream(BROKEN_GZIP), headers={"content-encoding": "gzip"}
        ),
        InvalidReply,
    ),
    "a code that is no number": (updated("account_ratio.json", retCode="0"), InvalidReply),
    "a huge time": (updated("account_ratio.json", time=10**400), InvalidReply),
    "no time": (lambda: changed("account_ratio.json", lambda d: d.pop("time")), InvalidReply),
    "an old time": (updated("account_ratio.json", time=NOW - 31_000), InvalidReply),
    "a future time": (updated("account_ratio.json", time=NOW + 61_000), InvalidReply),
    "a future share": (share(timestamp=str(NOW + 400_000)), InvalidReply),
    "no share": (updated("account_ratio.json", result={"list": []}), UnknownToUpstream),
}


@pytest.mark.parametrize("name", FAILURES)
def test_each_failure_has_its_kind_and_only_a_reading_is_tried_again_if_it_may_pass(
    name: str,
) -> None:
    answer, kind = FAILURES[name]
    bybit = Bybit()
    bybit.answers["account-ratio"] = lambda request: answer()
    [error] = run(bybit, bitcoin)
    assert type(error) is kind
    assert len(bybit.asked) == 1
    bybit = Bybit()
    bybit.answers["tickers"] = lambda request: answer()
    [error] = run(bybit, perpetuals)
    assert bybit.calls("tickers") == (4 if isinstance(error, Unreachable | InvalidReply) else 1)


@pytest.mark.parametrize(
    "error", [httpx2.ConnectError("refused"), httpx2.ReadError("reset"), OSError("no route")]
)
def test_a_broken_connection_is_unreachable(error: Exception) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        raise error

    bybit = Bybit()
    bybit.answers["account-ratio"] = answer
    [result] = run(bybit, bitcoin)
    assert type(result) is Unreachable


def test_a_reply_without_end_is_cut_off() -> None:
    sent = 0

    class Endless(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            nonlocal sent
            while True:
                sent += 1
                yield b" " * 1024 * 1024

    bybit = Bybit(seconds=30)
    bybit.answers["account-ratio"] = lambda request: httpx2.Response(200, stream=Endless())
    [error] = run(bybit, bitcoin)
    assert type(error) is InvalidReply
    assert sent == 17


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (str(NOW + 1500), 1.5),
        (str(NOW - 1), 5.0),
        (str(NOW + 700_000), 5.0),
        ("soon", 5.0),
        ("", 5.0),
    ],
)
def test_the_pause_of_a_throttled_call_is_the_one_that_the_exchange_names(
    header: str, seconds: float
) -> None:
    bybit = Bybit()
    bybit.answers["account-ratio"] = lambda request: reply("too_many_visits.json", reset=header)
    [error] = run(bybit, bitcoin)
    assert isinstance(error, Throttled)
    assert error.retry_after == seconds


@pytest.mark.parametrize(("endpoint", "stopped"), [("tickers", 2), ("account-ratio", 1)])
def test_a_banned_reading_stops_every_call_and_a_banned_share_all_but_the_reading(
    endpoint: str, stopped: int
) -> None:
    bybit = Bybit()
    bybit.answers[endpoint] = lambda request: reply("too_frequent.json", 403)
    calls = [perpetuals, bitcoin, time] if stopped == 2 else [bitcoin, time, perpetuals]
    results = run(bybit, *calls)
    pauses = [getattr(each, "retry_after", None) for each in results]
    assert pauses == [*[600.0] * (1 + stopped), *[None] * (2 - stopped)]
    assert bybit.calls(endpoint) == 1
    assert len(bybit.asked) == (2 if stopped == 2 else 3)


@pytest.mark.parametrize(
    ("answer", "calls", "seconds"),
    [(partial(reply, "too_frequent.json", 403), 1, 600), (partial(httpx2.Response, 502), 4, 5)],
)
def test_after_a_ban_or_failures_one_call_tries_and_frees_the_others(
    answer: Callable[[], httpx2.Response], calls: int, seconds: float
) -> None:
    bybit = Bybit()
    bybit.answers["account-ratio"] = lambda request: answer()

    async def later(exchange: BybitExchange) -> object:
        bybit.wait(seconds)
        bybit.answers.clear()
        return await exchange.long_accounts("BTCUSDT")

    *_, share, reading = run(bybit, *[bitcoin] * calls, later, perpetuals)
    assert not isinstance(share, UpstreamError)
    assert not isinstance(reading, UpstreamError)


def test_three_refusals_hold_every_endpoint_for_a_minute() -> None:
    bybit = Bybit()
    bybit.answers["tickers"] = lambda request: reply("region.html", 403)

    async def later(exchange: BybitExchange) -> object:
        bybit.wait(61)
        return await exchange.long_accounts("BTCUSDT")

    *refused, last = run(bybit, *[perpetuals] * 3, bitcoin, later)
    assert {type(each) for each in refused} == {Forbidden}
    assert not isinstance(last, UpstreamError)
    assert bybit.calls("account-ratio") == 1


@pytest.mark.outcome(
    "An exchange refuses or fails one of its other routes, such as the long-account shares",
    "Only the data of that route is missing. No other venue takes over.",
)
@pytest.mark.parametrize(("status", "calls"), [(502, 4), (403, 3)])
def test_failing_or_refused_shares_do_not_stop_the_tickers(status: int, calls: int) -> None:
    bybit = Bybit()
    bybit.answers["account-ratio"] = lambda request: httpx2.Response(status)
    *errors, clock, reading = run(bybit, *[bitcoin] * 6, time, perpetuals)
    assert {type(error) for error in errors} == {Forbidden if status == 403 else Unreachable}
    assert bybit.calls("account-ratio") == calls
    assert not isinstance(clock, UpstreamError)
    assert not isinstance(reading, UpstreamError)


def test_a_passing_failure_is_not_seen() -> None:
    bybit = Bybit()
    answers = iter([httpx2.Response(502), reply("server_error.json")])
    well = bybit._well
    bybit.answers["tickers"] = lambda request: next(answers, None) or well(request)
    [reading] = run(bybit, perpetuals)
    assert not isinstance(reading, UpstreamError)
    assert len(bybit.pauses) == 2
    assert 0 <= bybit.pauses[0] <= 0.2
    assert 0 <= bybit.pauses[1] <= 0.4


def test_retries_stay_inside_the_budget() -> None:
    bybit = Bybit(seconds=1)

    def slow(request: httpx2.Request) -> httpx2.Response:
        bybit.wait(0.5)
        return httpx2.Response(502)

    _, _, error = run(bybit, perpetuals, replaced(bybit, slow), perpetuals)
    assert type(error) is Unreachable
    assert bybit.calls("tickers") == 1 + 2


def test_a_hanging_exchange_is_given_up_at_half_the_budget_and_tried_again() -> None:
    bybit, hung = Bybit(seconds=0.06), []

    async def hang(request: httpx2.Request) -> httpx2.Response:
        hung.append(request)
        try:
            await asyncio.Event().wait()
        finally:
            bybit.wait(0.03)
        raise AssertionError

    _, _, error = run(bybit, perpetuals, replaced(bybit, hang), perpetuals)
    assert type(error) is Unreachable
    assert "no answer" in str(error)
    assert 1 <= len(hung) <= 2  # the reading before it may have needed a second call


def test_a_reply_that_comes_by_the_byte_is_given_up() -> None:
    class Drip(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                yield b" "
                await asyncio.sleep(0.005)

    bybit = Bybit(seconds=0.06)

    def drip(request: httpx2.Request) -> httpx2.Response:
        bybit.wait(0.06)
        return httpx2.Response(200, stream=Drip())

    bybit.answers["account-ratio"] = drip
    [error] = run(bybit, bitcoin)
    assert type(error) is Unreachable


def test_a_failure_is_logged_when_it_begins_and_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="barograph")
    bybit = Bybit()
    bybit.answers["account-ratio"] = lambda request: httpx2.Response(502)

    async def recover(exchange: BybitExchange) -> object:
        bybit.wait(60)
        bybit.answers.clear()
        return await exchange.long_accounts("BTCUSDT")

    run(bybit, *[bitcoin] * 6, recover, bitcoin)
    assert [record.message for record in caplog.records] == [
        "exchange call failed",
        "exchange call recovered",
    ]
    assert caplog.records[0].__dict__["kind"] == "unreachable"
