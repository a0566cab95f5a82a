"""No exchange can bring a name into the record that is no name."""

import json
from collections.abc import Callable

import pytest

from barograph.errors import InvalidReply
from barograph.upstream.binance.decode import decode_rows
from barograph.upstream.binance.stream import decode_liquidation
from barograph.upstream.bybit.decode import Instrument, decode_instruments, decode_tickers
from barograph.upstream.bybit.messages import decode_message
from barograph.upstream.cells import class_word
from barograph.upstream.hyperliquid.decode import decode_contexts

AT = 1_794_787_212_345
LISTED = {"contractType": "LinearPerpetual", "status": "Trading", "quoteCoin": "USDT"}
TICKER = {"lastPrice": "1", "fundingRate": "0", "nextFundingTime": str(AT)}
CONTEXT = {"funding": "0", "openInterest": "1", "markPx": "1"}
ORDER = {"T": AT, "v": "1", "p": "1", "z": "1", "ap": "1"}


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


DECODERS: dict[str, Callable[[str], object]] = {
    "Bybit's list": lambda name: decode_instruments(
        encoded({"list": [{**LISTED, "symbol": name, "baseCoin": "BTC"}]})
    ),
    "Bybit's coins": lambda name: decode_instruments(
        encoded({"list": [{**LISTED, "symbol": "BTCUSDT", "baseCoin": name}]})
    ),
    "Bybit's tickers": lambda name: decode_tickers(
        encoded({"list": [{**TICKER, "symbol": name}]}), {name: Instrument(name, "BTC", 8.0)}
    ),
    "Bybit's liquidations": lambda name: decode_message(
        encoded({"topic": "allLiquidation.BTCUSDT", "data": [{**ORDER, "S": "Buy", "s": name}]})
    ),
    "Binance's list": lambda name: decode_rows(encoded([{"symbol": name}])),
    "Binance's coins": lambda name: decode_rows(encoded([{"symbol": "A", "baseAsset": name}])),
    "Binance's liquidations": lambda name: decode_liquidation(
        encoded({"o": {**ORDER, "S": "BUY", "s": name}}), {name}
    ),
    "Hyperliquid's contracts": lambda name: decode_contexts(
        encoded([{"universe": [{"name": "BTC"}, {"name": name}]}, [CONTEXT, CONTEXT]]), AT
    ),
}


@pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize(
    "name",
    [
        *("", "BTC\0USDT", "BTC\nUSDT", "BTC USDT", "BTC\u00a0USDT", "BTC\u2028USDT", "BTCUSDT\n"),
        *("=1+1", "+BTC", "-BTC", "@BTC", "BTC,USDT", "BTC/USDT", '"BTC"', "<b>", "BTC\u202eUSDT"),
        "B" * 41,
    ],
)
def test_a_reply_with_a_name_that_is_none_is_invalid(
    decode: Callable[[str], object], name: str
) -> None:
    with pytest.raises(InvalidReply):
        decode(name)


@pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize(
    "name",
    [
        *("BTCUSDT", "kPEPE", "xyz:AAPL", "1000000BABYDOGEUSDT", "BTCUSDT-25DEC26"),
        *("BTCUSDT_260925", "牛来USDT", "PEPÉUSDT", "🐶USDT", "B" * 40),
    ],
)
def test_names_that_exchanges_use_are_accepted(decode: Callable[[str], object], name: str) -> None:
    assert decode(name)


def test_the_word_for_a_class_is_short_and_printable() -> None:
    assert class_word("st\0ock\n" + "x" * 100) == "st?ock?" + "x" * 33
