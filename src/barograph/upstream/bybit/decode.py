"""Decodes the result of each REST endpoint into frozen records, without network or clock.

Every decoder raises `InvalidReply` if the result has another shape or is about another contract.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from barograph.errors import InvalidReply, UnknownToUpstream
from barograph.kit.timestamps import iso_timestamp
from barograph.markets.exchange import (
    FUNDING_INTERVAL,
    FUNDING_RATE,
    OPEN_INTEREST,
    OPEN_INTEREST_COINS,
    SETTLED_RATE,
    PlausibleRange,
)
from barograph.markets.records import LongAccounts, Perpetual
from barograph.markets.settlements import SettledRate
from barograph.markets.venues import BYBIT, coin_of
from barograph.upstream.cells import (
    Cell,
    Name,
    OutOfRangeError,
    UnreadableError,
    above_zero,
    announcement,
    class_word,
    long_pct,
    moment,
    number,
    parse,
    percent,
    plausible,
    price,
)
from barograph.upstream.contract_cache import TooFewContracts
from barograph.upstream.past_pages import check_contract

T = TypeVar("T")

_NANOSECOND_DIGITS = 6
_MINUTES = 60
_RATIO_TOLERANCE = 0.01

MAX_SETTLEMENTS = 200
"""The exchange reports this many settlements at once."""


class ShareOutOfRange(UnknownToUpstream):
    """A long-account share is below 0 or above 100 percent."""


class Instrument(Struct, frozen=True):
    """A perpetual that is traded against USDT."""

    contract: str
    base: str
    funding_interval_hours: float | None
    asset_class: str | None = None
    """The exchange's word for what it follows; None if the reply has none."""


class InstrumentPage(Struct, frozen=True):
    """One page of the list of contracts."""

    instruments: tuple[Instrument, ...]
    """The live perpetuals against USDT, of every class."""
    symbols: frozenset[str]
    """Every name on the page."""
    cursor: str
    """Requests the next page; empty on the last one."""


class Tickers(Struct, frozen=True):
    """The kept perpetuals of one reading."""

    perpetuals: tuple[Perpetual, ...]
    symbols: frozenset[str]
    """Every name in the reading, kept or not."""
    refused: Mapping[str, Sequence[str]]
    """Kept contracts with an implausible value, by its field."""
    sides: Mapping[str, int]
    """How many sides of a position the exchange's `openInterest` counts, where that is proved."""
    unusable: Sequence[str] = ()
    """The coins of kept contracts that are left out."""


class Settlements(Struct, frozen=True):
    """The settlements of one contract, oldest first."""

    rates: tuple[SettledRate, ...]
    refused: int
    """How many we leave out because their rate is implausible."""


class _InstrumentRow(Struct, rename="camel"):
    symbol: Name
    contract_type: str
    status: str
    base_coin: Name
    quote_coin: str
    funding_interval: Annotated[int, Meta(ge=0, lt=2**31)] | None = None
    symbol_type: Cell = None


class _InstrumentResult(Struct, rename="camel"):
    list: list[_InstrumentRow]
    next_page_cursor: str | None = None


class _TickerRow(Struct, rename="camel"):
    symbol: Name
    last_price: Cell = None
    mark_price: Cell = None
    funding_rate: Cell = None
    funding_interval_hour: Cell = None
    next_funding_time: Cell = None
    open_interest: Cell = None
    single_open_interest: Cell = None
    single_open_interest_value: Cell = None


class RatioRow(Struct, rename="camel"):
    """One sample of the account ratio."""

    symbol: str
    buy_ratio: Cell
    sell_ratio: Cell
    timestamp: Cell


class SettlementRow(Struct, rename="camel"):
    """One settled funding rate."""

    symbol: str
    funding_rate: Cell
    funding_rate_timestamp: Cell


class Rows(Struct, Generic[T]):
    """The rows of a result."""

    list: list[T]


class _StatusRow(Struct):
    title: str
    state: str
    begin: Cell
    end: Cell
    product: list[Cell]
    env: Cell


class _TimeResult(Struct, rename="camel"):
    time_nano: str


_INSTRUMENTS = msgspec.json.Decoder(_InstrumentResult)
_TICKERS = msgspec.json.Decoder(Rows[_TickerRow])
_RATIOS = msgspec.json.Decoder(Rows[RatioRow])
_SETTLEMENTS = msgspec.json.Decoder(Rows[SettlementRow])
_STATUS = msgspec.json.Decoder(Rows[_StatusRow])
_TIME = msgspec.json.Decoder(_TimeResult)


def decode_time(result: bytes) -> int:
    """The exchange's clock: https://bybit-exchange.github.io/docs/v5/market/time ."""
    nanoseconds = parse(result, _TIME, "the time").time_nano
    try:
        return moment(nanoseconds[:-_NANOSECOND_DIGITS])
    except UnreadableError as error:
        raise InvalidReply(f"the time cannot be read: {error}") from error


def decode_announcement(result: bytes) -> str:
    """Futures' maintenance (product 1): https://bybit-exchange.github.io/docs/v5/system-status ."""
    texts = []
    for row in parse(result, _STATUS, "the system status").list:
        if row.state in {"scheduled", "ongoing"} and 1 in row.product and row.env in {1, "1"}:
            try:
                begin, end = (iso_timestamp(moment(each)) for each in (row.begin, row.end))
            except UnreadableError as error:
                raise InvalidReply(f"the system status cannot be read: {error}") from error
            texts.append(f"{row.title} ({row.state}, {begin} to {end})")
    return announcement("; ".join(texts))


def decode_instruments(result: bytes) -> InstrumentPage:
    """A page of contracts: https://bybit-exchange.github.io/docs/v5/market/instrument .

    The list also holds USDC perpetuals, dated futures and contracts before their launch. About a
    third of the live perpetuals follow stocks, commodities, currencies or ETFs.
    """
    page = parse(result, _INSTRUMENTS, "the list of contracts")
    return InstrumentPage(
        instruments=tuple(_instrument(row) for row in page.list if _is_live(row)),
        symbols=frozenset(row.symbol for row in page.list),
        cursor=page.next_page_cursor or "",
    )


def decode_tickers(result: bytes, kept: Mapping[str, Instrument]) -> Tickers:
    """All contracts at once: https://bybit-exchange.github.io/docs/v5/market/tickers .

    We leave out a kept contract whose row can't be read. If only its open interest can't be read,
    that is unknown. If more than half are left out, the whole reading is invalid.

    Raises:
        TooFewContracts: fewer than half of the kept contracts can be read.
    """
    rows = parse(result, _TICKERS, "the tickers").list
    perpetuals: dict[str, Perpetual] = {}
    refused: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.symbol not in kept:
            continue
        try:
            perpetuals[row.symbol] = _perpetual(row, kept[row.symbol], refused)
        except OutOfRangeError as error:
            refused[error.field].append(row.symbol)
        except UnreadableError:
            continue
    if not perpetuals or 2 * len(perpetuals) < len(kept):
        raise TooFewContracts(
            f"the tickers have {len(rows)} rows, and {len(perpetuals)} of {len(kept)} contracts "
            "can be read"
        )
    symbols = frozenset(row.symbol for row in rows)
    sides = {row.symbol: sides for row in rows if (sides := _sides(row)) is not None}
    left_out = (symbols & kept.keys()) - perpetuals.keys()
    unusable = [coin_of(BYBIT, kept[symbol].base)[0] for symbol in sorted(left_out)]
    return Tickers(tuple(perpetuals.values()), symbols, dict(refused), sides, unusable)


def decode_long_accounts(result: bytes, contract: str) -> LongAccounts:
    """The newest share: https://bybit-exchange.github.io/docs/v5/market/long-short-ratio .

    Raises:
        UnknownToUpstream: there is no share of this contract, or it is out of range
            (`ShareOutOfRange`).
    """
    rows = parse(result, _RATIOS, "the account ratio").list
    if not rows:
        raise UnknownToUpstream(f"the exchange has no account ratio of {contract}")
    try:
        sampled_at, row = max(((moment(row.timestamp), row) for row in rows), key=lambda it: it[0])
        check_contract([row.symbol], contract)
        return LongAccounts(contract, long_pct(row.buy_ratio, row.sell_ratio), sampled_at)
    except OutOfRangeError as error:
        raise ShareOutOfRange(str(error)) from error
    except UnreadableError as error:
        raise InvalidReply(f"the account ratio cannot be read: {error}") from error


def decode_settlements(result: bytes, contract: str) -> Settlements:
    """Settled rates: https://bybit-exchange.github.io/docs/v5/market/history-fund-rate .

    We leave out implausible rates: those settlements are unknown.

    Raises:
        UnknownToUpstream: there is no settlement of this contract.
    """
    rows = parse(result, _SETTLEMENTS, "the funding history").list
    if not rows:
        raise UnknownToUpstream(f"the exchange has no settlement of {contract}")
    check_contract((row.symbol for row in rows), contract)
    try:
        rates = {moment(row.funding_rate_timestamp): percent(row.funding_rate) for row in rows}
    except UnreadableError as error:
        raise InvalidReply(f"the funding history cannot be read: {error}") from error
    if len(rates) < len(rows) or len(rows) > MAX_SETTLEMENTS:
        raise InvalidReply(f"the funding history has {len(rows)} rows of {len(rates)} settlements")
    known = {at: rate for at, rate in rates.items() if SETTLED_RATE.contains(rate)}
    if not known:
        raise InvalidReply(f"every settled rate of {contract} is out of range")
    found = tuple(SettledRate(contract, at, rate) for at, rate in sorted(known.items()))
    return Settlements(found, len(rates) - len(known))


def _is_live(row: _InstrumentRow) -> bool:
    known = (row.contract_type, row.quote_coin, row.status)
    return known == ("LinearPerpetual", "USDT", "Trading")


def _instrument(row: _InstrumentRow) -> Instrument:
    minutes = row.funding_interval
    hours = None if minutes is None or minutes <= 0 else minutes / _MINUTES
    asset_class = None if row.symbol_type is None else class_word(row.symbol_type)
    return Instrument(row.symbol, row.base_coin, hours, asset_class)


def _perpetual(row: _TickerRow, instrument: Instrument, refused: dict[str, list[str]]) -> Perpetual:
    coin, multiplier = coin_of(BYBIT, instrument.base)
    return Perpetual(
        contract=row.symbol,
        base=instrument.base,
        last_price=price(row.last_price),
        funding_rate_pct=plausible(percent(row.funding_rate), FUNDING_RATE),
        funding_interval_hours=plausible(_interval(row, instrument), FUNDING_INTERVAL),
        next_funding_time=moment(row.next_funding_time),
        open_interest_usd=_open_interest(
            row, row.single_open_interest_value, OPEN_INTEREST, refused
        ),
        open_interest_coins=_open_interest(
            row, row.single_open_interest, OPEN_INTEREST_COINS, refused
        ),
        coin="" if multiplier == 1 else coin,
        multiplier=multiplier,
        mark_price=_mark_price(row),
    )


def _mark_price(row: _TickerRow) -> float | None:
    try:
        return price(row.mark_price)
    except UnreadableError:
        return None


def _interval(row: _TickerRow, instrument: Instrument) -> float:
    try:
        return above_zero(row.funding_interval_hour)
    except UnreadableError:
        if instrument.funding_interval_hours is None:
            raise
        return instrument.funding_interval_hours


def _open_interest(
    row: _TickerRow, cell: Cell, expected: PlausibleRange, refused: dict[str, list[str]]
) -> float | None:
    """Only the single-sided fields: `openInterestValue` counts both sides of a position."""
    try:
        return plausible(number(cell), expected)
    except OutOfRangeError as error:
        refused[error.field].append(row.symbol)
    except UnreadableError:
        pass
    return None


def _sides(row: _TickerRow) -> int | None:
    """How many sides `openInterest` counts, by its ratio to the single-sided field."""
    try:
        ratio = above_zero(row.open_interest) / above_zero(row.single_open_interest)
    except UnreadableError:
        return None
    return next((sides for sides in (1, 2) if abs(ratio / sides - 1) <= _RATIO_TOLERANCE), None)
