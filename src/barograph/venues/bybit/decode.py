"""Decodes the result of each REST endpoint into frozen records, without network or clock.

Every decoder raises `InvalidReply` if the result has another shape or is about another contract.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Generic, NamedTuple, TypeVar

from msgspec import Meta, Struct, field

from barograph.errors import InvalidReply
from barograph.kit.timestamps import iso_timestamp
from barograph.venues.bybit.facts import VENUE
from barograph.venues.kit import cells
from barograph.venues.kit.adapter import Reading
from barograph.venues.kit.cells import Cell, Name, Refused, UnreadableError, moment, parse
from barograph.venues.kit.contract_cache import Contract, ListedContracts
from barograph.venues.records import Perpetual

T = TypeVar("T")

_NANOSECOND_DIGITS = 6
_MINUTES = 60

MAX_SETTLEMENTS = 200
"""The exchange reports this many settlements at once."""

CRYPTO_CLASSES = frozenset({"", "innovation"})
OTHER_CLASSES = frozenset({"stock", "commodity", "forex", "ETF"})
"""The exchange's words for perpetuals that follow something else."""

UNCLASSIFIED = "unclassified"
"""A contract without a word in a list that has words for others."""


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


class _InstrumentRow(Struct, rename="camel"):
    symbol: Name
    contract_type: str
    status: str
    base_coin: Name
    quote_coin: str
    funding_interval: Annotated[int, Meta(ge=0, lt=2**31)] | None = None
    symbol_type: Cell = None


class _InstrumentResult(Struct, rename="camel"):
    rows: list[_InstrumentRow] = field(name="list")
    next_page_cursor: str | None = None


class _TickerRow(Struct, rename="camel"):
    symbol: Name
    last_price: Cell = None
    mark_price: Cell = None
    index_price: Cell = None
    funding_rate: Cell = None
    funding_interval_hour: Cell = None
    next_funding_time: Cell = None
    single_open_interest: Cell = None
    single_open_interest_value: Cell = None
    turnover24h: Cell = None
    volume24h: Cell = None


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

    rows: list[T] = field(name="list")


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
    for row in parse(result, Rows[_StatusRow], "the system status").rows:
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
        instruments=tuple(_instrument(row) for row in page.rows if _is_live(row)),
        symbols=frozenset(row.symbol for row in page.rows),
        cursor=page.next_page_cursor or "",
    )


def contracts_of(pages: Sequence[InstrumentPage]) -> ListedContracts:
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
    kept = {
        name: Contract(row.base, row.funding_interval_hours)
        for name, row in instruments.items()
        if name not in others
    }
    symbols = frozenset().union(*(page.symbols for page in pages))
    return ListedContracts(kept, symbols, others, OTHER_CLASSES)


def decode_tickers(result: bytes, kept: Mapping[str, Contract], time: int) -> Reading:
    """All contracts at once: https://bybit-exchange.github.io/docs/v5/market/tickers .

    We leave out a kept contract whose row can't be read. The open interest is single-sided:
    `openInterestValue` counts both sides of a position.

    Raises:
        TooFewContracts: fewer than half of the kept contracts can be read.
    """
    rows = parse(result, Rows[_TickerRow], "the tickers").rows

    def read(name: str, row: _TickerRow, refused: Refused) -> Perpetual:
        hours = cells.or_none(cells.above_zero, row.funding_interval_hour)
        values = cells.Values(
            row.last_price,
            row.funding_rate,
            kept[name].funding_interval_hours if hours is None else hours,
            row.next_funding_time,
            row.single_open_interest,
            row.single_open_interest_value or "",
            mark_price=row.mark_price,
            index_price=row.index_price,
            volume_usd=row.turnover24h,
            volume_coins=row.volume24h,
        )
        return cells.perpetual(VENUE, name, kept[name].base, values, refused)

    listed = [(row.symbol, row) for row in rows if row.symbol in kept]
    perpetuals, refused = cells.read_perpetuals(listed, read, len(kept))
    return Reading(time, perpetuals, refused, frozenset(row.symbol for row in rows))


def _is_live(row: _InstrumentRow) -> bool:
    known = (row.contract_type, row.quote_coin, row.status)
    return known == ("LinearPerpetual", "USDT", "Trading")


def _instrument(row: _InstrumentRow) -> Instrument:
    minutes = row.funding_interval
    hours = None if minutes is None or minutes <= 0 else minutes / _MINUTES
    asset_class = None if row.symbol_type is None else cells.class_word(row.symbol_type)
    return Instrument(row.symbol, row.base_coin, hours, asset_class)
