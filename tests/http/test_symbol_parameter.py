"""The `symbol` parameter, byte for byte, with and without the front door."""

import pytest

from support.service import Service, ask

PATH = b"/api/agent/derivatives"
INVALID = b'{"error":"symbol must be 1 to 15 letters or digits, given once"}'


def as_text(query: bytes) -> str:
    return query.decode("latin-1").encode("unicode_escape").decode() or "empty query"


READ = {
    "BTC": b"symbol=BTC symbol=btc symbol=bTc symbol=%42TC symbol=BTC&x=1",
    "BTC by default": b"x=1 x x=%ff&y=%00 limit=abc&limit= Symbol=ETH SYMBOL=ETH symbols=ETH "
    b"symbol[]=ETH symbol+=ETH symbol%00=ETH",
    "ETH": b"symbol=eth symbol=%65%74%68 s%79mbol=ETH %73%79%6d%62%6F%6c=ETH x=1&symbol=ETH "
    b"&&symbol=ETH& =BTC&symbol=ETH symbol=ETH&SYMBOL=SOL",
    "BTCUSDT": b"symbol=BTCUSDT symbol=btcUsdt",
    "A": b"symbol=A",
    "7": b"symbol=7",
    "0": b"symbol=0",
    "NULL": b"symbol=null",
    "ABCDEFGHIJKLMNO": b"symbol=ABCDEFGHIJKLMNO",
    "ABCDEFGHIJ12345": b"symbol=abcdefghij12345",
}
"""The symbols that are read from queries, which are separated by spaces."""

REFUSED = {
    "empty": b"symbol= symbol symbol&x=1",
    "too long": b"symbol=ABCDEFGHIJKLMNOP symbol=" + b"A" * 5_000,
    "space": b"symbol=%20 symbol=+ symbol=BTC+ symbol=+BTC symbol=%20BTC symbol=BTC%20",
    "control": b"symbol=BTC%0A symbol=BTC%0a symbol=BTC%0D%0A symbol=%0ABTC symbol=BTC%09 "
    b"symbol=%00 symbol=BTC%00 symbol=ABCDEFGHIJKLMNO%0A",
    "punctuation": b"symbol=BTC-USDT symbol=BTC_USDT symbol=BTC/USDT symbol=BTC.P symbol=BTC,ETH "
    b"symbol=BTC%2CETH symbol=BTC;x=1 symbol=BTC= symbol=%22BTC%22",
    "percent": b"symbol=% symbol=%zz symbol=%2542TC",
    "other digits": b"symbol=%D9%A1%D9%A2 symbol=%E0%A5%A7 symbol=%C2%B2 symbol=%EF%BC%91",
    "other letters": b"symbol=%EF%BC%A2%EF%BC%B4%EF%BC%A3 symbol=%C3%A9 symbol=%C3%9F "
    b"symbol=%C5%BFOL symbol=%E2%84%AAAVA symbol=BTC%E2%80%8B symbol=\xc3\xa9 symbol=\xc5\xbfOL",
    "not UTF-8": b"symbol=%ff symbol=BTC%ff symbol=%C0%C2TC symbol=%ED%A0%80 symbol=\xff",
    "given twice": b"symbol=BTC&symbol=BTC symbol=BTC&symbol=ETH symbol=BTC&x=1&symbol=BTC "
    b"symbol=BTC&s%79mbol=BTC symbol=BTC&symbol= symbol=&symbol=BTC symbol=BTC&symbol "
    b"symbol=&symbol= symbol=BTC&symbol=%ff",
}
"""Queries that are not of the pattern, separated by spaces."""


@pytest.mark.contract("derivatives.symbol.optional", "derivatives.symbol.pattern")
@pytest.mark.contract("derivatives.symbol.default", "derivatives.symbol.case-insensitive")
@pytest.mark.contract("derivatives.symbol", "limits.symbol.length", "limits.symbol.characters")
@pytest.mark.parametrize(
    ("query", "symbol"),
    [
        (b"", "BTC"),
        *((query, name.split()[0]) for name, queries in READ.items() for query in queries.split()),
    ],
    ids=lambda value: as_text(value) if isinstance(value, bytes) else None,
)
def test_a_symbol_of_the_pattern_is_read_and_normalized_to_upper_case(
    market: Service, query: bytes, symbol: str
) -> None:
    for app in (market.app, market.routes):
        answer = ask(app, PATH + b"?" + query)

        assert (answer.status, answer.json()["symbol"]) == (200, symbol)


@pytest.mark.contract("derivatives.400", "derivatives.symbol.pattern", "errors.400", "errors.body")
@pytest.mark.contract("limits.symbol.length", "limits.symbol.characters")
@pytest.mark.parametrize(
    "query",
    [query for queries in REFUSED.values() for query in queries.split(b" ")],
    ids=lambda query: as_text(query)[:40],
)
def test_any_other_symbol_gets_400_with_the_one_error_body(market: Service, query: bytes) -> None:
    for app in (market.app, market.routes):
        answer = ask(app, PATH + b"?" + query)

        assert (answer.status, answer.body) == (400, INVALID)
        assert answer.headers["content-type"] == "application/json"
