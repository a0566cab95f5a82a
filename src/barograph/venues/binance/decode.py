"""Decodes replies of the REST endpoints into frozen records, without network or clock.

Every decoder raises `InvalidReply` if the reply has another shape or is about another contract.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from barograph.errors import InvalidReply
from barograph.kit.timestamps import HOUR, MINUTE
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
from barograph.venues.records import Perpetual
from barograph.venues.registry import BINANCE, coin_of

COIN: Final = "COIN"
OTHER_CLASSES = frozenset(
    {"EQUITY", "HK_EQUITY", "KR_EQUITY", "CN_EQUITY", "COMMODITY", "INDEX", "PREMARKET"}
)
"""The exchange's words for perpetuals that follow something else than a coin."""


class Contract(NamedTuple):
    """A live crypto perpetual against USDT."""

    base: str
    funding_interval_hours: float


class OpenInterest(NamedTuple):
    """The open interest of one contract in coins, single-sided, at its own time."""

    coins: float
    at: int


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
    last_funding_rate: Cell = None
    next_funding_time: Cell = None
    price: Cell = None
    open_interest: Cell = None
    time: Cell = None
    long_account: Cell = None
    short_account: Cell = None
    sum_open_interest: Cell = None
    timestamp: Cell = None
    funding_rate: Cell = None
    funding_time: Cell = None


class Reading(NamedTuple):
    """The kept perpetuals of one reading."""

    perpetuals: tuple[Perpetual, ...]
    as_of: int
    """The oldest time of a kept row."""
    refused: Refused
    unusable: list[str]
    """The coins of kept contracts that are left out."""


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


def decode_open_interest(body: bytes, contract: str) -> OpenInterest:
    """The open interest of one contract."""
    row = parse(body, Row, "the open interest")
    check_contract([row.symbol], contract)
    try:
        return OpenInterest(cells.number(row.open_interest), moment(row.time))
    except UnreadableError as error:
        raise InvalidReply(f"the open interest cannot be read: {error}") from error


def contracts_of(rows: Sequence[Row], funding: Sequence[Row]) -> ListedContracts[Contract]:
    """Join the list of contracts with their funding intervals.

    It also holds dated futures and other quote currencies. About a fifth of the live perpetuals
    follow stocks, commodities or indices. A contract without an interval is not kept: 8 hours would
    be a guess.
    """
    hours = _intervals(funding)
    classes = {row.symbol: _class_of(row) for row in rows if _is_live(row)}
    kept = {
        row.symbol: Contract(str(row.base_asset), hours[row.symbol])
        for row in rows
        if classes.get(row.symbol) == COIN and row.symbol in hours
    }
    others = {symbol: word for symbol, word in classes.items() if word != COIN}
    coins = {row.symbol: _coin(str(row.base_asset)) for row in rows if row.symbol in classes}
    unusable = [coins[symbol] for symbol in classes.keys() - kept.keys() - others.keys()]
    symbols = frozenset(row.symbol for row in rows)
    return ListedContracts(kept, symbols, others, OTHER_CLASSES, unusable)


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
    prices: Sequence[Row],
    kept: Mapping[str, Contract],
    interests: Mapping[str, OpenInterest],
    *,
    oldest: int,
    doubtful: Collection[str],
) -> Reading:
    """Join the premium index with last prices and open interest.

    We leave out a kept contract that is doubtful, older than `oldest`, or can't be read.

    Raises:
        TooFewContracts: fewer than half of the kept contracts can be read.
    """
    last_prices = {row.symbol: row.price for row in prices}

    def read(name: str, row: Row, refused: Refused) -> Perpetual:
        perpetual = _perpetual(row, last_prices.get(name), kept[name])
        interest = interests.get(name)
        if interest is None:
            return perpetual
        with_interest = partial(_with_open_interest, perpetual, interest)
        return cells.usable(name, refused, with_interest) or perpetual

    times = {row.symbol: cells.or_none(moment, row.time) or 0 for row in rows}
    usual = [
        (row.symbol, row)
        for row in rows
        if row.symbol in kept and row.symbol not in doubtful and times[row.symbol] >= oldest
    ]
    perpetuals, refused = cells.read_perpetuals(usual, read, len(kept))
    unusable = (times.keys() & kept.keys()) - perpetuals.keys()
    as_of = min(times[name] for name in perpetuals)
    coins = [_coin(kept[name].base) for name in unusable]
    return Reading(tuple(perpetuals.values()), as_of, refused, coins)


def _coin(base: str) -> str:
    return coin_of(BINANCE, base)[0]


def _is_live(row: Row) -> bool:
    is_perpetual = str(row.contract_type).endswith("PERPETUAL")
    return is_perpetual and (row.quote_asset, row.status) == ("USDT", "TRADING")


def _class_of(row: Row) -> str:
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


def _perpetual(row: Row, last_price: Cell, contract: Contract) -> Perpetual:
    """Without open interest. `lastFundingRate` is the running estimate, despite its name."""
    coin, multiplier = coin_of(BINANCE, contract.base)
    return Perpetual(
        contract=row.symbol,
        base=contract.base,
        last_price=cells.price(last_price),
        funding_rate_pct=plausible(cells.percent(row.last_funding_rate), ranges.FUNDING_RATE),
        funding_interval_hours=plausible(contract.funding_interval_hours, ranges.FUNDING_INTERVAL),
        next_funding_time=moment(row.next_funding_time),
        open_interest_usd=None,
        coin="" if multiplier == 1 else coin,
        multiplier=multiplier,
        mark_price=cells.price(row.mark_price),
    )


def _with_open_interest(perpetual: Perpetual, interest: OpenInterest) -> Perpetual:
    coins = plausible(interest.coins, ranges.OPEN_INTEREST_COINS)
    usd = plausible(coins * perpetual.mark, ranges.OPEN_INTEREST)
    return msgspec.structs.replace(
        perpetual,
        open_interest_usd=usd,
        open_interest_coins=coins,
        open_interest_at=interest.at,
    )


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
            interval = kept[row.symbol].funding_interval_hours * HOUR
            moved = at - self._settlements.get(row.symbol, at)
            if moved > 0:
                self._contradicted[row.symbol] = interval if moved % interval else 0
            is_contradicted = self._contradicted.get(row.symbol) == interval
            if moved < 0 or is_contradicted or at - now > interval + MINUTE:
                self._doubtful.add(row.symbol)
            self._settlements[row.symbol] = at
        return self._doubtful
