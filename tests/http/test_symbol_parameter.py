"""The `symbol` parameter, byte for byte, with and without the front door."""

import pytest

from support.service import Service, ask

PATH = b"/api/agent/derivatives"
INVALID = b'{"error":"symbol must be 1 to 15 letters or digits, given once"}'


def as_text(query: bytes) -> str:
    return query.decode("latin-1").encode("unicode_escape").decode() or "empty query"


@pytest.mark.contract(
    "derivatives.symbol.optional",
    "derivatives.symbol.pattern",
    "derivatives.symbol.default",
    "derivatives.symbol.case-insensitive",
    "derivatives.symbol",
    "limits.symbol.length",
    "limits.symbol.characters",
)
@pytest.mark.parametrize(
    ("query", "symbol"),
    [
        (b"", "BTC"),
        (b"symbol=BTC", "BTC"),
        (b"symbol=btc", "BTC"),
        (b"symbol=bTc", "BTC"),
        (b"symbol=eth", "ETH"),
        (b"symbol=BTCUSDT", "BTCUSDT"),
        (b"symbol=btcUsdt", "BTCUSDT"),
        (b"symbol=A", "A"),
        (b"symbol=7", "7"),
        (b"symbol=0", "0"),
        (b"symbol=ABCDEFGHIJKLMNO", "ABCDEFGHIJKLMNO"),
        (b"symbol=abcdefghij12345", "ABCDEFGHIJ12345"),
        (b"symbol=null", "NULL"),
        (b"symbol=%42TC", "BTC"),
        (b"symbol=%65%74%68", "ETH"),
        (b"s%79mbol=ETH", "ETH"),
        (b"%73%79%6d%62%6F%6c=ETH", "ETH"),
        (b"symbol=BTC&x=1", "BTC"),
        (b"x=1&symbol=ETH", "ETH"),
        (b"&&symbol=ETH&", "ETH"),
        (b"=BTC&symbol=ETH", "ETH"),
        (b"x=1", "BTC"),
        (b"x", "BTC"),
        (b"x=%ff&y=%00", "BTC"),
        (b"limit=abc&limit=", "BTC"),
        (b"Symbol=ETH", "BTC"),
        (b"SYMBOL=ETH", "BTC"),
        (b"symbol=ETH&SYMBOL=SOL", "ETH"),
        (b"symbols=ETH", "BTC"),
        (b"symbol[]=ETH", "BTC"),
        (b"symbol+=ETH", "BTC"),
        (b"symbol%00=ETH", "BTC"),
    ],
    ids=lambda value: as_text(value) if isinstance(value, bytes) else None,
)
def test_a_symbol_of_the_pattern_is_read_and_normalized_to_upper_case(
    market: Service, query: bytes, symbol: str
) -> None:
    for app in (market.app, market.routes):
        answer = ask(app, PATH + b"?" + query)

        assert answer.status == 200
        assert answer.json()["symbol"] == symbol


@pytest.mark.contract(
    "derivatives.400",
    "derivatives.symbol.pattern",
    "errors.400",
    "errors.body",
    "limits.symbol.length",
    "limits.symbol.characters",
)
@pytest.mark.parametrize(
    "query",
    [
        b"symbol=",
        b"symbol",
        b"symbol&x=1",
        b"symbol=ABCDEFGHIJKLMNOP",
        b"symbol=" + b"A" * 5_000,
        b"symbol=%20",
        b"symbol=+",
        b"symbol=BTC+",
        b"symbol=+BTC",
        b"symbol=%20BTC",
        b"symbol=BTC%20",
        b"symbol=BTC%0A",
        b"symbol=BTC%0a",
        b"symbol=BTC%0D%0A",
        b"symbol=%0ABTC",
        b"symbol=BTC%09",
        b"symbol=%00",
        b"symbol=BTC%00",
        b"symbol=ABCDEFGHIJKLMNO%0A",
        b"symbol=BTC-USDT",
        b"symbol=BTC_USDT",
        b"symbol=BTC/USDT",
        b"symbol=BTC.P",
        b"symbol=BTC%2CETH",
        b"symbol=BTC,ETH",
        b"symbol=BTC;x=1",
        b"symbol=BTC=",
        b"symbol=%22BTC%22",
        b"symbol=%",
        b"symbol=%zz",
        b"symbol=%2542TC",
        b"symbol=%D9%A1%D9%A2",
        b"symbol=%E0%A5%A7",
        b"symbol=%C2%B2",
        b"symbol=%EF%BC%A2%EF%BC%B4%EF%BC%A3",
        b"symbol=%EF%BC%91",
        b"symbol=%C3%A9",
        b"symbol=%C3%9F",
        b"symbol=%C5%BFOL",
        b"symbol=%E2%84%AAAVA",
        b"symbol=BTC%E2%80%8B",
        b"symbol=%ff",
        b"symbol=BTC%ff",
        b"symbol=%C0%C2TC",
        b"symbol=%ED%A0%80",
        b"symbol=\xff",
        b"symbol=\xc3\xa9",
        b"symbol=\xc5\xbfOL",
        b"symbol=BTC&symbol=BTC",
        b"symbol=BTC&symbol=ETH",
        b"symbol=BTC&x=1&symbol=BTC",
        b"symbol=BTC&s%79mbol=BTC",
        b"symbol=BTC&symbol=",
        b"symbol=&symbol=BTC",
        b"symbol=BTC&symbol",
        b"symbol=&symbol=",
        b"symbol=BTC&symbol=%ff",
    ],
    ids=lambda query: as_text(query)[:40],
)
def test_any_other_symbol_gets_400_with_the_one_error_body(market: Service, query: bytes) -> None:
    for app in (market.app, market.routes):
        answer = ask(app, PATH + b"?" + query)

        assert answer.status == 400
        assert answer.body == INVALID
        assert answer.headers["content-type"] == "application/json"


@pytest.mark.contract("derivatives.symbol.default", "derivatives.symbol.case-insensitive")
def test_no_symbol_and_any_spelling_of_btc_are_the_same_answer(market: Service) -> None:
    bare = market.ask(PATH)

    for query in (b"?symbol=BTC", b"?symbol=btc", b"?symbol=%62tc&x=1", b"?SYMBOL=ETH", b"?"):
        assert market.ask(PATH + query) == bare
