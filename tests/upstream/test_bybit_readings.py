"""Reading all perpetuals: which contracts, how old, and what a bad reply may not do."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from barograph.errors import InvalidReply, Unreachable, UpstreamError
from barograph.kit.timestamps import HOUR, MINUTE, SECOND
from barograph.settings import Settings
from barograph.venues.bybit.exchange import BybitExchange
from barograph.venues.exchange import Exchange
from barograph.venues.records import Perpetuals
from support.scripted_venue import ScriptedVenue

REPLIES = Path(__file__).parent / "bybit_replies"
START = 1_794_787_212_345
KEPT = {
    "1000000BABYDOGEUSDT",
    "1000PEPEUSDT",
    "BTCUSDT",
    "ETHUSDT",
    "SHIB1000USDT",
    "SOLUSDT",
}


def _document(name: str) -> Any:
    return json.loads((REPLIES / name).read_bytes())


def _pages(cursor: str = "more") -> list[Any]:
    """The list of contracts on two pages."""
    first, last = _document("instruments.json"), _document("instruments.json")
    first["result"]["nextPageCursor"] = cursor
    del first["result"]["list"][6:], last["result"]["list"][:6]
    return [first, last]


class Venue(ScriptedVenue[BybitExchange]):
    """Bybit by stored replies, with a list and tickers that can be changed."""

    def __init__(self, **settings: Any) -> None:
        settings = {"exchange_source": "a test", **settings}
        super().__init__(BybitExchange, START, Settings(**settings))
        self.ahead = 0
        self.stuck_at: int | None = None
        self.instruments: list[Any] = [_document("instruments.json")]
        self.tickers = _document("tickers.json")
        self.broken: set[str] = set()
        self.seconds: dict[str, float] = {}
        self.asked: list[httpx2.Request] = []

    def listings(self) -> int:
        return sum(request.url.path.endswith("instruments-info") for request in self.asked)

    def rows(self, document: Any) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = document["result"]["list"]
        return rows

    async def read(self, later: int = 0) -> Perpetuals:
        self.now += later
        return await self.exchange.perpetuals()

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        endpoint = request.url.path.removeprefix("/v5/market/")
        self.now += round(self.seconds.get(endpoint, 0) * SECOND)
        if endpoint in self.broken:
            return httpx2.Response(503)
        document = self.tickers
        if endpoint == "instruments-info":
            cursor = request.url.params.get("cursor")
            document = self.instruments[0 if cursor is None else 1]
        time = self.now + self.ahead if self.stuck_at is None else self.stuck_at
        return httpx2.Response(200, json={**document, "time": time})


def names(reading: Perpetuals) -> set[str]:
    return {perpetual.contract for perpetual in reading.contracts}


async def failure(venue: Venue, later: int = 0) -> UpstreamError:
    with pytest.raises(UpstreamError) as raised:
        await venue.read(later)
    return raised.value


def test_a_reading_has_every_live_perpetual_its_source_and_the_exchange_time() -> None:
    venue = Venue()
    exchange: Exchange = venue.exchange
    assert exchange.venue.name == "bybit"
    venue.ahead = -250
    reading = asyncio.run(venue.read())
    assert names(reading) == KEPT
    assert reading.source == "a test"
    assert reading.as_of == START - 250


@pytest.mark.parametrize(
    ("cursor", "sent"),
    [
        ("first%3DBTCUSDT%26last%3dETHUSDT", "first%3DBTCUSDT%26last%3dETHUSDT"),
        ("a+b/c==", "a+b/c=="),
        ("a&limit=1#b c", "a%26limit=1%23b%20c"),
    ],
)
def test_the_list_is_read_page_by_page_and_the_cursor_goes_back_as_it_came(
    cursor: str, sent: str
) -> None:
    venue = Venue()
    venue.instruments = _pages(cursor)
    assert names(asyncio.run(venue.read())) == KEPT
    first, second = (request.url.query.decode() for request in venue.asked[:2])
    assert (first, second) == ("category=linear&limit=1000", f"{first}&cursor={sent}")


def _classify(venue: Venue, **words: object) -> None:
    """Change the class of some contracts; `...` takes the field away."""
    for row in venue.rows(venue.instruments[0]):
        row["symbolType"] = words.get(str(row["symbol"]), row["symbolType"])
        if row["symbolType"] is ...:
            del row["symbolType"]


@pytest.mark.outcome(
    "The exchange lists stocks, commodities, currencies or ETFs as perpetuals",
    "The collector leaves them out. `/api/status` counts them by class.",
)
async def test_contracts_that_are_not_crypto_are_left_out_and_counted_by_class(
    caplog: pytest.LogCaptureFixture,
) -> None:
    venue = Venue()
    _classify(venue, SOLUSDT="innovation", ETHUSDT="stock", SHIB1000USDT="weather")

    for _ in range(3):
        reading = await venue.read(HOUR)
    assert names(reading) == KEPT - {"ETHUSDT", "SHIB1000USDT"}
    assert reading.left_out == {"stock": 1, "weather": 1}
    assert reading.not_crypto == ["ETHUSDT", "SHIB1000USDT"]
    assert reading.unknown_classes == ["weather"]
    told = [each for each in caplog.records if "unknown class" in each.message]
    assert [each.__dict__["classes"] for each in told] == [["weather"]]


def test_a_list_without_classes_is_crypto_and_one_of_other_classes_is_refused() -> None:
    venue, partly = Venue(), Venue()
    _classify(venue, **{str(row["symbol"]): ... for row in venue.rows(venue.instruments[0])})
    assert names(asyncio.run(venue.read())) == KEPT
    _classify(partly, ETHUSDT=...)
    reading = asyncio.run(partly.read())
    assert names(reading) == KEPT - {"ETHUSDT"}
    assert reading.left_out == {"unclassified": 1}
    other = Venue()
    _classify(other, **dict.fromkeys(KEPT, "coin"))
    assert "6 contracts of other classes: coin" in str(asyncio.run(failure(other)))


async def test_a_slow_line_starts_late_and_later_calls_have_their_usual_time() -> None:
    venue = Venue()
    venue.seconds = {"instruments-info": 15, "tickers": 15}

    assert names(await venue.read()) == KEPT
    venue.broken = {"tickers"}
    venue.seconds = {"tickers": 3}
    error = await failure(venue, 5 * SECOND)
    assert len(venue.asked) == 2 + 2  # a retry within four seconds
    assert type(error) is Unreachable


def test_a_list_without_an_end_is_invalid() -> None:
    venue = Venue()
    venue.instruments = _pages()[:1] * 2
    assert isinstance(asyncio.run(failure(venue)), InvalidReply)
    assert len(venue.asked) == 20


def test_an_empty_last_page_with_a_null_cursor_is_no_fault() -> None:
    venue = Venue()
    first, last = venue.instruments[0], _document("instruments.json")
    first["result"]["nextPageCursor"] = "more"
    venue.rows(last).clear()
    last["result"]["nextPageCursor"] = None
    venue.instruments = [first, last]
    assert names(asyncio.run(venue.read())) == KEPT


async def test_the_list_is_remembered_and_read_again_after_its_time() -> None:
    venue = Venue()
    counts = []
    for later in (0, 5 * SECOND, 594 * SECOND, 5 * SECOND, 5 * SECOND):
        await venue.read(later)
        counts.append(venue.listings())
    assert counts == [1, 1, 1, 2, 2]


async def test_a_new_contract_is_looked_up_once_and_then_kept() -> None:
    venue = Venue()
    await venue.read()
    row = {**venue.rows(venue.tickers)[5], "symbol": "NEWUSDT"}
    venue.rows(venue.tickers).append(row)
    assert "NEWUSDT" not in names(await venue.read(5 * SECOND))
    assert venue.listings() == 1
    instrument = {**venue.rows(venue.instruments[0])[5], "symbol": "NEWUSDT"}
    venue.rows(venue.instruments[0]).append(instrument)
    await venue.read(MINUTE)
    assert venue.listings() == 2
    assert "NEWUSDT" in names(await venue.read(5 * SECOND))


async def test_a_name_that_is_never_listed_is_not_looked_up_again_and_again() -> None:
    venue = Venue()
    venue.rows(venue.tickers).append({**venue.rows(venue.tickers)[2], "symbol": "SOONUSDT"})

    for _ in range(10):
        await venue.read(MINUTE)
    assert venue.listings() == 2


async def test_an_older_list_is_used_for_six_hours_when_no_newer_one_can_be_read() -> None:
    venue = Venue()
    await venue.read()
    venue.broken = {"instruments-info"}
    for _ in range(5):
        assert names(await venue.read(HOUR)) == KEPT
    assert names(await venue.read(HOUR - MINUTE)) == KEPT
    error = await failure(venue, 2 * MINUTE)
    venue.broken = set()
    assert names(await venue.read(HOUR)) == KEPT
    assert type(error) is Unreachable


@pytest.mark.parametrize("rows_left", [0, 2])
async def test_a_list_that_lost_most_of_its_contracts_is_not_believed(rows_left: int) -> None:
    venue = Venue()
    await venue.read()
    del venue.rows(venue.instruments[0])[rows_left:]
    for _ in range(3):
        assert names(await venue.read(11 * MINUTE)) == KEPT


INFLATED = 10_000


def _inflate(venue: Venue) -> None:
    rows = venue.rows(venue.instruments[0])
    model = next(row for row in rows if row["symbol"] == "BTCUSDT")
    rows += [{**model, "symbol": f"NO{n}USDT", "baseCoin": f"NO{n}"} for n in range(INFLATED)]


@pytest.mark.thorough
async def test_inflated_list_is_read_again_and_never_replaces_a_matching_one() -> None:
    first, later = Venue(), Venue()

    _inflate(first)
    assert isinstance(await failure(first), InvalidReply)
    del first.rows(first.instruments[0])[-INFLATED:]
    for _ in range(9):
        await failure(first, 5 * SECOND)
    assert first.listings() == 1
    assert names(await first.read(45 * SECOND)) == KEPT  # the breaker's pause is over too
    assert first.listings() == 2

    await later.read()
    _inflate(later)
    for _ in range(4):
        assert names(await later.read(11 * MINUTE)) == KEPT


async def test_readings_that_never_fit_have_the_list_read_once_a_minute_at_most() -> None:
    venue = Venue()
    await venue.read()
    del venue.rows(venue.tickers)[1:]
    for _ in range(5 * 12):
        await failure(venue, 5 * SECOND)
    assert venue.listings() in {5, 6}  # in five minutes


async def test_a_delisted_contract_disappears_alone() -> None:
    venue = Venue()
    await venue.read()
    for document in (venue.tickers, venue.instruments[0]):
        rows = venue.rows(document)
        rows[:] = [row for row in rows if row["symbol"] != "SOLUSDT"]
    assert names(await venue.read(11 * MINUTE)) == KEPT - {"SOLUSDT"}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda venue: venue.rows(venue.instruments[0]).clear(),
        lambda venue: [row.update(status="Closed") for row in venue.rows(venue.instruments[0])],
        lambda venue: venue.rows(venue.tickers).clear(),
        lambda venue: [row.update(fundingRate="") for row in venue.rows(venue.tickers)],
        lambda venue: setattr(venue, "ahead", -31_000),
        lambda venue: setattr(venue, "ahead", 61_000),
    ],
    ids=["no list", "nothing trades", "no tickers", "no rates", "old", "ahead"],
)
def test_a_reading_that_cannot_be_true_is_invalid_and_never_empty(
    spoil: Callable[[Venue], object],
) -> None:
    venue = Venue()
    spoil(venue)
    assert isinstance(asyncio.run(failure(venue)), InvalidReply)


@pytest.mark.parametrize("ahead", [-2_000, 0, 20_000])
async def test_the_same_reply_again_does_not_look_fresh(ahead: int) -> None:
    venue = Venue()
    venue.stuck_at = START + ahead
    first = await venue.read()
    assert first.as_of == START + min(ahead, 0)
    assert (await venue.read(5 * SECOND)).as_of == first.as_of
    assert (await venue.read(15 * SECOND)).as_of == first.as_of
    assert type(await failure(venue, 60 * SECOND)) is InvalidReply
