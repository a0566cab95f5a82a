"""The adapter reads the samples of Bybit, and accounts for every field and word in them."""

import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from barograph.errors import (
    Forbidden,
    InvalidReply,
    Throttled,
    UnknownToUpstream,
    Unreachable,
    UpstreamError,
)
from barograph.kit.timestamps import DAY, HOUR
from barograph.venues.bybit import decode, history, messages
from barograph.venues.bybit import rest as bybit_rest
from barograph.venues.bybit.exchange import BybitExchange
from barograph.venues.exchange import PastValue
from barograph.venues.records import Liquidation, Perpetual, SettledRate
from barograph_demo.servers import rest
from barograph_demo.servers.stream import liquidation_messages
from barograph_demo.world.world import World
from support.bybit_fields import IGNORED, WORDS
from support.scripted_venue import ScriptedVenue
from support.shapes import differences, fields_of

SAMPLES = Path(__file__).parent / "samples/bybit"
NOW = 1_794_787_212_345
END = NOW // HOUR * HOUR
ERRORS: dict[str, Any] = json.loads((SAMPLES / "errors.json").read_text())
FRAMES = [json.loads(line) for line in (SAMPLES / "stream.jsonl").read_text().splitlines()]
QUERIES: dict[str, tuple[str, dict[str, str]]] = {
    "tickers": ("tickers", {}),
    "instruments": ("instruments-info", {"limit": "1000"}),
    "kline": ("kline", {"symbol": "BTCUSDT", "interval": "60"}),
    "open_interest": ("open-interest", {"symbol": "BTCUSDT", "intervalTime": "1h"}),
    "account_ratio": ("account-ratio", {"symbol": "BTCUSDT", "period": "1h"}),
    "funding_history": ("funding/history", {"symbol": "BTCUSDT"}),
}
FILES = {endpoint: name for name, (endpoint, _) in QUERIES.items()}
WORLD = World(7, END - 3 * DAY)


def sample(name: str) -> Any:
    return json.loads((SAMPLES / f"{name}.json").read_text())


def simulated(name: str) -> Any:
    endpoint, query = QUERIES[name]
    found = rest.answer(WORLD, f"/v5/market/{endpoint}", {"category": "linear", **query}, NOW)
    assert found[0] == 200
    return json.loads(found[1])


def ask(
    call: Callable[[BybitExchange], Awaitable[Any]], answers: dict[str, Any] | None = None
) -> Any:
    """Make a call to an exchange that answers with the samples."""

    class Sampled(ScriptedVenue[BybitExchange]):
        def _answer(self, request: httpx2.Request) -> httpx2.Response:
            endpoint = request.url.path.removeprefix("/v5/market/")
            reply = (answers or {}).get(endpoint) or sample(FILES[endpoint])
            return httpx2.Response(200, json=reply)

    return Sampled(BybitExchange, NOW).run(call)


def test_a_reading_of_the_samples_is_the_crypto_perpetuals_against_usdt() -> None:
    reading = ask(lambda exchange: exchange.perpetuals())
    found = {each.contract: each for each in reading.contracts}
    assert set(found) == {
        *("1000PEPEUSDT", "ARKUSDT", "AVNTUSDT", "BTCUSDT", "ETHUSDT", "KAVAUSDT")
    }
    assert found["BTCUSDT"] == Perpetual(
        contract="BTCUSDT",
        base="BTC",
        last_price=94230.4,
        funding_rate_pct=0.005747,
        funding_interval_hours=8.0,
        next_funding_time=END + 8 * HOUR,
        open_interest_usd=2686430068.73,
        open_interest_coins=28509.1655,
        mark_price=94239.82,
        index_price=94258.67,
        volume_24h_usd=3761002096.2237,
        volume_24h_coins=39912.8317,
    )
    assert [each.funding_interval_hours for each in reading.contracts] == [4, 1, 4, 8, 8, 8]
    assert (found["KAVAUSDT"].last_price, found["KAVAUSDT"].open_interest_usd) == (0.4112, None)
    assert reading.left_out == {"forex": 1, "ETF": 1, "commodity": 1, "stock": 1}
    assert (reading.unknown_classes, reading.refused) == ([], {})


def test_the_history_in_the_samples_is_read_and_open_interest_is_single_sided() -> None:
    async def read(exchange: BybitExchange) -> list[Any]:
        await exchange.perpetuals()
        span = ("BTCUSDT", END - 3 * HOUR, END + HOUR)
        return [
            await exchange.past_prices(*span),
            await exchange.past_open_interest(*span),
            await exchange.past_long_accounts(*span),
            await exchange.past_settlements("BTCUSDT", END - 16 * HOUR, END + HOUR),
        ]

    prices, interest, shares, rates = ask(read)
    assert prices[-2:] == [PastValue(END - HOUR, 94198.9), PastValue(END, 94230.4)]
    assert interest[-1] == PastValue(END, 28509.1655)
    assert shares[0] == PastValue(END - 3 * HOUR, 57.14)
    assert [len(each) for each in (prices, interest, shares)] == [4, 4, 4]
    assert rates == [
        SettledRate("BTCUSDT", END - 16 * HOUR, -0.000057),
        SettledRate("BTCUSDT", END - 8 * HOUR, 0.01),
        SettledRate("BTCUSDT", END, 0.005747),
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("symbol_invalid", UnknownToUpstream),
        ("symbol_invalid_with_list", UnknownToUpstream),
        ("illegal_category", InvalidReply),
        ("too_many_visits", Throttled),
        ("address_refused", Forbidden),
        ("compliance_rules", Forbidden),
        ("not_on_whitelist", Forbidden),
        ("server_error", Unreachable),
    ],
)
def test_every_error_in_the_samples_has_its_kind(name: str, kind: type[UpstreamError]) -> None:
    answers = dict.fromkeys(("account-ratio", "kline"), ERRORS[name])
    assert type(ask(lambda exchange: exchange.long_accounts("BTCUSDT"), answers)) is kind
    assert type(ask(lambda exchange: exchange.past_prices("X", END - HOUR, END), answers)) is kind


def test_every_frame_in_the_samples_is_distinguished_and_a_side_is_that_of_the_position() -> None:
    batch, confirmed, pong, unknown, known = (
        messages.decode_message(msgspec.json.encode(frame)) for frame in FRAMES
    )
    assert batch == messages.Batch(
        (
            Liquidation(NOW - 400, "BTCUSDT", "long", 0.35, 93810.2),
            Liquidation(NOW - 120, "BTCUSDT", "short", 0.002, 94991.0),
        )
    )
    assert confirmed == messages.Subscribed(accepted=True, detail="", request_id="1")
    assert pong == messages.Pong()
    assert unknown == messages.Subscribed(False, FRAMES[3]["ret_msg"], "2")
    assert known == messages.Subscribed(False, FRAMES[4]["ret_msg"], "3")


DECODERS: dict[str, list[Any]] = {
    "envelope": [bybit_rest.Envelope],
    "tickers": [decode._TickerRow, decode.Rows],
    "instruments": [decode._InstrumentRow, decode._InstrumentResult],
    "kline": [history._OfOne],
    "open_interest": [history._OpenInterestRow, history._OfOne],
    "account_ratio": [decode.RatioRow, decode.Rows],
    "funding_history": [decode.SettlementRow, decode.Rows],
    "stream": [messages._Message, messages._LiquidationRow],
}


def undecided(name: str, sent: Iterable[str]) -> set[str]:
    """Fields that are sent and neither read nor ignored, or the other way round."""
    ignored = {field for fields in IGNORED[name].values() for field in fields.split()}
    known = [field for shape in DECODERS[name] for field in msgspec.structs.fields(shape)]
    read = {field.encode_name for field in known}
    assert not read & ignored
    paths = [field.replace("[]", "").split(".") for field in sent]
    # What is inside an object that we ignore needs no decision.
    names = {path[-1] for path in paths if not ignored.intersection(path[:-1])}
    return (names - {""}) ^ (read | ignored)


@pytest.mark.parametrize("name", QUERIES)
def test_every_field_of_the_samples_is_simulated_and_read_or_ignored_on_purpose(name: str) -> None:
    reply = sample(name)
    assert undecided("envelope", reply) == set()
    assert undecided(name, fields_of(reply["result"])) == set()
    assert differences(reply, simulated(name)) == []


def test_every_field_of_the_stream_is_simulated_and_read_or_ignored_on_purpose() -> None:
    assert undecided("stream", fields_of(FRAMES)) == set()
    WORLD.simulate_to(NOW)
    liquidations = [json.loads(each) for each in liquidation_messages(WORLD, NOW - HOUR, NOW)]
    assert differences(FRAMES[:1], liquidations) == []


def test_every_word_that_decides_about_a_contract_is_known_and_simulated() -> None:
    rows, ours = (read("instruments")["result"]["list"] for read in (sample, simulated))
    for name, words in WORDS.items():
        assert {row[name] for row in rows} == words <= {row[name] for row in ours}
    known = decode.CRYPTO_CLASSES | decode.OTHER_CLASSES
    assert WORDS["symbolType"] == known
