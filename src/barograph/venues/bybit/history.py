"""The exchange's own record of the past, by the hour."""

from typing import Generic, TypeVar

from msgspec import Struct

from barograph.errors import InvalidReply
from barograph.venues.bybit.decode import MAX_SETTLEMENTS, RatioRow, Rows, SettlementRow
from barograph.venues.kit.cells import Cell, coins, long_pct, parse, price, settled_pct
from barograph.venues.kit.past_pages import Page, Past, PastSeries, check_contract, page_of

T = TypeVar("T")


class _OfOne(Rows[T], Generic[T]):
    """The rows of a result about one contract."""

    symbol: str


class _OpenInterestRow(Struct, rename="camel"):
    single_open_interest: Cell = None
    timestamp: Cell = None


def decode_klines(result: bytes, contract: str) -> Page:
    """Opening prices: https://bybit-exchange.github.io/docs/v5/market/kline ."""
    klines = parse(result, _OfOne[list[Cell]], "the klines")
    check_contract([klines.symbol] if klines.rows else [], contract)
    if any(len(row) < 2 for row in klines.rows):  # noqa: PLR2004 -- the start and the open
        raise InvalidReply("a kline has no opening price")
    return page_of(klines.rows, lambda row: row[0], lambda row: price(row[1]))


def decode_open_interest(result: bytes, contract: str) -> Page:
    """One side, in coins: https://bybit-exchange.github.io/docs/v5/market/open-interest ."""
    hours = parse(result, _OfOne[_OpenInterestRow], "the open-interest history")
    check_contract([hours.symbol] if hours.rows else [], contract)
    return page_of(
        hours.rows, lambda row: row.timestamp, lambda row: coins(row.single_open_interest)
    )


def decode_ratios(result: bytes, contract: str) -> Page:
    """Shares in percent: https://bybit-exchange.github.io/docs/v5/market/long-short-ratio ."""
    rows = parse(result, Rows[RatioRow], "the account-ratio history").rows
    check_contract((row.symbol for row in rows), contract)
    return page_of(
        rows, lambda row: row.timestamp, lambda row: long_pct(row.buy_ratio, row.sell_ratio)
    )


def decode_rates(result: bytes, contract: str) -> Page:
    """In percent: https://bybit-exchange.github.io/docs/v5/market/history-fund-rate ."""
    rows = parse(result, Rows[SettlementRow], "the funding history").rows
    check_contract((row.symbol for row in rows), contract)
    return page_of(
        rows,
        lambda row: row.funding_rate_timestamp,
        lambda row: settled_pct(row.funding_rate),
    )


_LINEAR = {"category": "linear"}
_PATH = "/v5/market/"

PAST = Past(
    PastSeries(
        _PATH + "kline",
        {**_LINEAR, "interval": "60"},
        1000,
        decode_klines,
        names=("symbol", "start", "end", "limit"),
    ),
    PastSeries(
        _PATH + "funding/history", _LINEAR, MAX_SETTLEMENTS, decode_rates, is_newest_first=True
    ),
    PastSeries(
        _PATH + "open-interest", {**_LINEAR, "intervalTime": "1h"}, 200, decode_open_interest
    ),
    PastSeries(_PATH + "account-ratio", {**_LINEAR, "period": "1h"}, 500, decode_ratios),
    newest_share={"period": "5min"},
)
