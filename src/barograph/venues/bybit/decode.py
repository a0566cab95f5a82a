"""Decodes the result of each REST endpoint into frozen records, without network or clock.

Every decoder raises `InvalidReply` if the result has another shape or is about another contract.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Generic, NamedTuple, TypeVar

from msgspec import Meta, Struct

from barograph.errors import InvalidReply, UnknownToUpstream
from barograph.kit.timestamps import iso_timestamp
from barograph.venues import exchange as ranges
from barograph.venues.kit import cells
from barograph.venues.kit.cells import (
    Cell,
    Name,
    Refused,
    UnreadableError,
    moment,
    parse,
    plausible,
)
from barograph.venues.kit.contract_cache import ListedContracts
from barograph.venues.kit.past_pages import check_contract
from barograph.venues.records import LongAccounts, Perpetual
from barograph.venues.registry import BYBIT, coin_of

T = TypeVar("T")

_NANOSECOND_DIGITS = 6
_MINUTES = 60
_RATIO_TOLERANCE = 0.01

MAX_SETTLEMENTS = 200
"""The exchange reports this many settlements at once."""

CRYPTO_CLASSES = frozenset({"", "innovation"})
OTHER_CLASSES = frozenset({"stock", "commodity", "forex", "ETF"})
"""The exchange's words for perpetuals that follow something else."""

UNCLASSIFIED = "unclassified"
"""A contract without a word in a list that has words for others."""


class ShareOutOfRange(UnknownToUpstream):
    """A long-account share is below 0 or above 100 percent."""


class Instrument(Struct, frozen=True):
    """A perpetual that is traded against USDT."""

    contract: str
    base: str
    funding_interval_hours: float | None
    asset_class: str | None = None
    """The exchange's word for what it follows; None if the reply has none."""


class InstrumentPage(NamedTuple):
    """One page of the list of contracts."""

    instruments: tuple[Instrument, ...]
    """The live perpetuals against USDT, of every class."""
    symbols: frozenset[str]
    """Every name on the page."""
    cursor: str
    """Requests the next page; empty on the last one."""


class Tickers(NamedTuple):
    """The kept perpetuals of one reading."""

    perpetuals: tuple[Perpetual, ...]
    symbols: frozenset[str]
    """Every name in the reading, kept or not."""
    refused: Refused
    sides: Mapping[str, int]
    """How many sides of a position the exchange's `openInterest` counts, where that is proved."""
    unusable: list[str]
    """The coins of kept contracts that are left out."""


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


def decode_time(result: bytes) -> int:
    """The exchange's clock: https://bybit-exchange.github.io/docs/v5/market/time ."""
    nanoseconds = parse(result, _TimeResult, "the time").time_nano
    try:
        return moment(nanoseconds[:-_NANOSECOND_DIGITS])
    except UnreadableError as error:
        raise InvalidReply(f"the time cannot be read: {error}") from error


def decode_announcement(result: bytes) -> str:
    """Futures' maintenance (product 1): https://bybit-exchange.github.io/docs/v5/system-status ."""
    texts = []
    for row in parse(result, Rows[_StatusRow], "the system status").list:
        if row.state in {"scheduled", "ongoing"} and 1 in row.product and row.env in {1, "1"}:
            try:
                begin, end = (iso_timestamp(moment(cell)) for cell in (row.begin, row.end))
            except UnreadableError as error:
                raise InvalidReply(f"the system status cannot be read: {error}") from error
            texts.append(f"{row.title} ({row.state}, {begin} to {end})")
    return cells.announcement("; ".join(texts))


def decode_instruments(result: bytes) -> InstrumentPage:
    """A page of contracts: https://bybit-exchange.github.io/docs/v5/market/instrument .

    The list also holds USDC perpetuals, dated futures and contracts before their launch. About a
    third of the live perpetuals follow stocks, commodities, currencies or ETFs.
    """
    page = parse(result, _InstrumentResult, "the list of contracts")
    return InstrumentPage(
        instruments=tuple(_instrument(row) for row in page.list if _is_live(row)),
        symbols=frozenset(row.symbol for row in page.list),
        cursor=page.next_page_cursor or "",
    )


class ContractList(ListedContracts[Instrument], frozen=True):
    """The complete list of contracts."""

    @classmethod
    def of(cls, pages: Sequence[InstrumentPage]) -> "ContractList":
        """Join the pages of a list.

        A list without any class is older than the field, and all of it is crypto.
        """
        instruments = {row.contract: row for page in pages for row in page.instruments}
        has_classes = any(row.asset_class is not None for row in instruments.values())
        usual = UNCLASSIFIED if has_classes else ""
        classes = {
            name: usual if row.asset_class is None else row.asset_class
            for name, row in instruments.items()
        }
        others = {name: word for name, word in classes.items() if word not in CRYPTO_CLASSES}
        kept = {name: row for name, row in instruments.items() if name not in others}
        symbols = frozenset().union(*(page.symbols for page in pages))
        return cls(kept, symbols, others, OTHER_CLASSES)


def decode_tickers(result: bytes, kept: Mapping[str, Instrument]) -> Tickers:
    """All contracts at once: https://bybit-exchange.github.io/docs/v5/market/tickers .

    We leave out a kept contract whose row can't be read. If only its open interest can't be read,
    that is unknown.

    Raises:
        TooFewContracts: fewer than half of the kept contracts can be read.
    """
    rows = parse(result, Rows[_TickerRow], "the tickers").list
    listed = [(row.symbol, row) for row in rows if row.symbol in kept]
    perpetuals, refused = cells.read_perpetuals(listed, partial(_perpetual, kept), len(kept))
    symbols = frozenset(row.symbol for row in rows)
    sides = {row.symbol: sides for row in rows if (sides := _sides(row)) is not None}
    left_out = (symbols & kept.keys()) - perpetuals.keys()
    unusable = [coin_of(BYBIT, kept[symbol].base)[0] for symbol in sorted(left_out)]
    return Tickers(tuple(perpetuals.values()), symbols, refused, sides, unusable)


def decode_long_accounts(result: bytes, contract: str) -> LongAccounts:
    """The newest share: https://bybit-exchange.github.io/docs/v5/market/long-short-ratio .

    Raises:
        UnknownToUpstream: there is no share of this contract, or it is out of range
            (`ShareOutOfRange`).
    """
    rows = parse(result, Rows[RatioRow], "the account ratio").list
    if not rows:
        raise UnknownToUpstream(f"the exchange has no account ratio of {contract}")
    try:
        sampled_at, row = max(((moment(row.timestamp), row) for row in rows), key=lambda it: it[0])
        check_contract([row.symbol], contract)
        return LongAccounts(contract, cells.long_pct(row.buy_ratio, row.sell_ratio), sampled_at)
    except cells.OutOfRangeError as error:
        raise ShareOutOfRange(str(error)) from error
    except UnreadableError as error:
        raise InvalidReply(f"the account ratio cannot be read: {error}") from error


def _is_live(row: _InstrumentRow) -> bool:
    known = (row.contract_type, row.quote_coin, row.status)
    return known == ("LinearPerpetual", "USDT", "Trading")


def _instrument(row: _InstrumentRow) -> Instrument:
    minutes = row.funding_interval
    hours = None if minutes is None or minutes <= 0 else minutes / _MINUTES
    asset_class = None if row.symbol_type is None else cells.class_word(row.symbol_type)
    return Instrument(row.symbol, row.base_coin, hours, asset_class)


def _perpetual(
    kept: Mapping[str, Instrument], name: str, row: _TickerRow, refused: Refused
) -> Perpetual:
    """The open interest is single-sided: `openInterestValue` counts both sides of a position."""
    instrument = kept[name]
    coin, multiplier = coin_of(BYBIT, instrument.base)

    def amount(cell: Cell, expected: ranges.PlausibleRange) -> float | None:
        return cells.usable(name, refused, lambda: plausible(cells.number(cell), expected))

    return Perpetual(
        contract=name,
        base=instrument.base,
        last_price=cells.price(row.last_price),
        funding_rate_pct=plausible(cells.percent(row.funding_rate), ranges.FUNDING_RATE),
        funding_interval_hours=plausible(_interval(row, instrument), ranges.FUNDING_INTERVAL),
        next_funding_time=moment(row.next_funding_time),
        open_interest_usd=amount(row.single_open_interest_value, ranges.OPEN_INTEREST),
        open_interest_coins=amount(row.single_open_interest, ranges.OPEN_INTEREST_COINS),
        coin="" if multiplier == 1 else coin,
        multiplier=multiplier,
        mark_price=cells.or_none(cells.price, row.mark_price),
    )


def _interval(row: _TickerRow, instrument: Instrument) -> float:
    hours = cells.or_none(cells.above_zero, row.funding_interval_hour)
    if hours is None:
        hours = instrument.funding_interval_hours
    if hours is None:
        raise UnreadableError("the funding interval is unknown")
    return hours


def _sides(row: _TickerRow) -> int | None:
    """How many sides `openInterest` counts, by its ratio to the single-sided field."""
    counted = cells.or_none(cells.above_zero, row.open_interest)
    single = cells.or_none(cells.above_zero, row.single_open_interest)
    if counted is None or single is None:
        return None
    ratio = counted / single
    return next((sides for sides in (1, 2) if abs(ratio / sides - 1) <= _RATIO_TOLERANCE), None)
