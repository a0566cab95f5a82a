"""No exchange can bring a name into the record that is no name."""

import json
from collections.abc import Callable
from functools import partial

import pytest

from barograph.errors import InvalidReply
from barograph.venues.binance.decode import decode_rows
from barograph.venues.binance.stream import decode_liquidation
from barograph.venues.bybit.decode import decode_instruments, decode_tickers
from barograph.venues.bybit.messages import decode_message
from barograph.venues.hyperliquid.exchange import decode_contexts
from barograph.venues.kit.cells import class_word
from barograph.venues.kit.contract_cache import Contract

AT = "1794787212345"
LISTED = '"contractType": "", "status": "", "quoteCoin": ""'
TICKER = f'{{"symbol": "A", "lastPrice": "1", "fundingRate": "0", "nextFundingTime": "{AT}"}}'
CONTEXT = '{"funding": "0", "openInterest": "1", "markPx": "1"}'
ROW = f'{{"T": {AT}, "S": "Buy", "v": "1", "p": "1", "s": NAME}}'
NAMES = ("BTCUSDT", "kPEPE", "xyz:AAPL", "BTCUSDT-25DEC26", "BTCUSDT_260925", "牛来USDT", "🐶USDT")
SPACES = ("", "A\0B", "A\n", "A B", "A\u00a0B", "A\u2028B", "A\u202eB", "A\ufe0f", "A\u3164")
SIGNS = ("A,B", "A/B", '"A"', "<b>", "=1+1", "+A", "-A", "@A")


@pytest.mark.parametrize(
    ("decode", "reply"),
    [
        (decode_instruments, f'{{"list": [{{{LISTED}, "symbol": NAME, "baseCoin": "A"}}]}}'),
        (decode_instruments, f'{{"list": [{{{LISTED}, "symbol": "A", "baseCoin": NAME}}]}}'),
        (
            partial(decode_tickers, kept={"A": Contract("A", 8.0)}, time=int(AT)),
            f'{{"list": [{TICKER}, {{"symbol": NAME}}]}}',
        ),
        (decode_message, f'{{"topic": "allLiquidation.A", "data": [{ROW}]}}'),
        (decode_rows, '[{"symbol": NAME}]'),
        (decode_rows, '[{"symbol": "A", "baseAsset": NAME}]'),
        (partial(decode_liquidation, known=set()), '{"o": {"s": NAME}}'),
        (
            partial(decode_contexts, time=int(AT)),
            f'[{{"universe": [{{"name": "A"}}, {{"name": NAME}}]}}, [{CONTEXT}, {CONTEXT}]]',
        ),
    ],
)
def test_a_reply_with_a_name_that_is_none_is_invalid(
    decode: Callable[[bytes], object], reply: str
) -> None:
    for name in (*NAMES, "B" * 40):
        decode(reply.replace("NAME", json.dumps(name)).encode())
    for name in (*SPACES, *SIGNS, "B" * 41):
        with pytest.raises(InvalidReply):
            decode(reply.replace("NAME", json.dumps(name)).encode())


def test_the_word_for_a_class_is_short_and_printable() -> None:
    assert class_word("st\0ock\n" + "x" * 100) == "st?ock?" + "x" * 33
