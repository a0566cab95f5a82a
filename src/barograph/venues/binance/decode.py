"""Decodes replies of the REST endpoints into frozen records, without network or clock.

Every decoder raises `InvalidReply` if the reply has another shape or is about another contract.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct

from barograph.errors import InvalidReply
from barograph.kit.timestamps import HOUR, MINUTE
from barograph.venues.facts import Venue
from barograph.venues.kit import cells
from barograph.venues.kit.adapter import Reading
from barograph.venues.kit.cells import Cell, Name, Refused, UnreadableError, moment, parse
from barograph.venues.kit.contract_cache import Contract, ListedContracts
from barograph.venues.kit.past_pages import Page, check_contract, page_of
from barograph.venues.kit.sweep import TimedCell
from barograph.venues.records import Perpetual

COIN: Final = "COIN"
OTHER_CLASSES = frozenset(
    {"EQUITY", "HK_EQUITY", "KR_EQUITY", "CN_EQUITY", "COMMODITY", "INDEX", "PREMARKET"}
)
"""The exchange's words for perpetuals that follow something else than a coin."""


class Row(Struct, rename="camel"):
    """One contract in a reply; each endpoint fills some of the fields."""

    symbol: Name
    contract_type: Cell = None
    status: Cell = None
    base_asset: Name | None = None
    quote_asset: Cell = None
    underlying_type: Cell = None
    funding_interval_hours: Cell = None
    mark_price: Cell = None
    index_price: Cell = None
    last_funding_rate: Cell = None
    next_funding_time: Cell = None
    price: Cell = None
    volume: Cell = None
    quote_volume: Cell = None
    open_interest: Cell = None
    time: Cell = None
    long_account: Cell = None
    short_account: Cell = None
    sum_open_interest: Cell = None
    timestamp: Cell = None
    funding_rate: Cell = None
    funding_time: Cell = None


class _ExchangeInfo(Struct):
    symbols: list[Row]


class _Time(Struct, rename="camel"):
    server_time: Cell


def decode_time(body: bytes) -> int:
    """The exchange's clock."""
    try:
        return moment(parse(body, _Time, "the time").server_time)
    except UnreadableError as error:
        raise InvalidReply(f"the time cannot be read: {error}") from error


def decode_rows(body: bytes) -> list[Row]:
    """The rows of a reply."""
    return parse(body, list[Row], "the reply")


def decode_exchange_info(body: bytes) -> list[Row]:
    """The list of all contracts."""
    return parse(body, _ExchangeInfo, "the list of contracts").symbols


def decode_open_interest(body: bytes, contract: str) -> TimedCell:
    """The open interest of one contract in coins, single-sided."""
    row = parse(body, Row, "the open interest")
    check_contract([row.symbol], contract)
    try:
        cells.number(row.open_interest)
        return TimedCell(row.open_interest, moment(row.time))
    except UnreadableError as error:
        raise InvalidReply(f"the open interest cannot be read: {error}") from error


def decode_klines(body: bytes, _contract: str) -> Page:
    """Opening prices; the rows don't name their contract."""
    rows = parse(body, list[Annotated[list[Cell], Meta(min_length=2)]], "the klines")
    return page_of(rows, lambda row: row[0], lambda row: cells.price(row[1]))


def past_decoder(
    time: Callable[[Row], Cell], value: Callable[[Row], float]
) -> Callable[[bytes, str], Page]:
    """A decoder of rows about one contract."""

    def decode(body: bytes, contract: str) -> Page:
        rows = decode_rows(body)
        check_contract((row.symbol for row in rows), contract)
        return page_of(rows, time, value)

    return decode


def contracts_of(
    rows: Sequence[Row], funding: Sequence[Row], venue: Venue, class_of: Callable[[Row], str]
) -> ListedContracts:
    """Join the list of contracts with their funding intervals.

    It also holds dated futures and other quote currencies. About a fifth of the live perpetuals
    follow stocks, commodities or indices. A contract without an interval is not kept: 8 hours would
    be a guess.
    """
    hours = _intervals(funding)
    classes = {row.symbol: class_of(row) for row in rows if _is_live(row)}
    kept = {
        row.symbol: Contract(str(row.base_asset), hours[row.symbol])
        for row in rows
        if classes.get(row.symbol) == COIN and row.symbol in hours
    }
    others = {symbol: word for symbol, word in classes.items() if word != COIN}
    bases = {row.symbol: str(row.base_asset) for row in rows if row.symbol in classes}
    missing = classes.keys() - kept.keys() - others.keys()
    unusable = [venue.coin_of(bases[symbol])[0] for symbol in missing]
    symbols = frozenset(row.symbol for row in rows)
    return ListedContracts(kept, symbols, others, unusable=unusable)


def changed_intervals(funding: Sequence[Row], kept: Mapping[str, Contract]) -> set[str]:
    """The kept contracts that are listed with another interval now."""
    hours = {row.symbol: None for row in funding} | _intervals(funding)
    return {
        name
        for name, contract in kept.items()
        if name in hours and hours[name] != contract.funding_interval_hours
    }


def newest_time(rows: Sequence[Row]) -> int:
    """The newest time of a reply; raises `InvalidReply` if no row has one."""
    times = [at for row in rows if (at := cells.or_none(moment, row.time)) is not None]
    if not times:
        raise InvalidReply(f"none of {len(rows)} rows has a time")
    return max(times)


def reading_of(
    rows: Sequence[Row],
    prices: Mapping[str, Row],
    volumes: Mapping[str, Row],
    kept: Mapping[str, Contract],
    interests: Mapping[str, TimedCell],
    *,
    venue: Venue,
    oldest: int,
    doubtful: Collection[str],
) -> Reading:
    """Join the premium index with the rows of the last prices and volumes, and open interest.

    We leave out a kept contract that is doubtful, older than `oldest`, or can't be read.

    Raises:
        TooFewContracts: fewer than half of the kept contracts can be read.
    """
    nothing = Row("-")

    def read(name: str, row: Row, refused: Refused) -> Perpetual:
        """`lastFundingRate` is the running estimate, despite its name."""
        interest, volume = interests.get(name), volumes.get(name, nothing)
        values = cells.Values(
            prices.get(name, nothing).price,
            row.last_funding_rate,
            kept[name].funding_interval_hours,
            row.next_funding_time,
            interest and interest.cell,
            open_interest_at=interest and interest.at,
            mark_price=row.mark_price,
            index_price=row.index_price,
            volume_usd=volume.quote_volume,
            volume_coins=volume.volume,
        )
        return cells.perpetual(venue, name, kept[name].base, values, refused)

    times = {row.symbol: cells.or_none(moment, row.time) or 0 for row in rows}
    usual = [
        (row.symbol, row)
        for row in rows
        if row.symbol in kept and row.symbol not in doubtful and times[row.symbol] >= oldest
    ]
    perpetuals, refused = cells.read_perpetuals(usual, read, len(kept))
    as_of = min(times[name] for name in perpetuals)
    return Reading(as_of, perpetuals, refused, frozenset(times), in_doubt=bool(doubtful))


def _is_live(row: Row) -> bool:
    is_perpetual = str(row.contract_type).endswith("PERPETUAL")
    return is_perpetual and (row.quote_asset, row.status) == ("USDT", "TRADING")


def class_of(row: Row) -> str:
    """What a contract follows. Only the plain kind of perpetual follows a coin."""
    is_other = row.underlying_type == COIN and row.contract_type != "PERPETUAL"
    cell = row.contract_type if is_other else row.underlying_type
    return "unclassified" if cell is None else cells.class_word(cell)


def _intervals(funding: Sequence[Row]) -> dict[str, float]:
    """The funding intervals that can be read, in hours."""
    cells_of = ((row.symbol, row.funding_interval_hours) for row in funding)
    return {
        symbol: float(cell)
        for symbol, cell in cells_of
        if isinstance(cell, int | float) and not isinstance(cell, bool) and cell > 0
    }


class IntervalDoubts:
    """Finds contracts whose interval changed after we read it.

    Their next settlement moves by something else than the interval, or is further away. They stay
    in doubt until the list of contracts is read again, and if a settlement contradicted the
    interval, until another interval is listed or the next settlement fits.
    """

    def __init__(self) -> None:
        self._settlements: dict[str, int] = {}
        self._kept: Mapping[str, Contract] = {}
        self._doubtful: set[str] = set()
        self._contradicted: dict[str, float] = {}

    def of(self, rows: Sequence[Row], kept: Mapping[str, Contract], now: int) -> set[str]:
        """The contracts whose interval is in doubt."""
        if kept is not self._kept:
            self._kept, self._doubtful = kept, set()
        for row in rows:
            at = cells.or_none(moment, row.next_funding_time)
            if at is None or row.symbol not in kept:
                continue
            interval = (kept[row.symbol].funding_interval_hours or 0) * HOUR
            moved = at - self._settlements.get(row.symbol, at)
            if moved > 0:
                self._contradicted[row.symbol] = interval if moved % interval else 0
            is_contradicted = self._contradicted.get(row.symbol) == interval
            if moved < 0 or is_contradicted or at - now > interval + MINUTE:
                self._doubtful.add(row.symbol)
            self._settlements[row.symbol] = at
        return self._doubtful
