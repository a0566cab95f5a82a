"""Decodes replies of the REST endpoints into frozen records, without network or clock.

Every decoder raises `InvalidReply` if the reply has another shape or is about another contract.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from barograph.errors import InvalidReply
from barograph.markets.exchange import (
    FUNDING_INTERVAL,
    FUNDING_RATE,
    OPEN_INTEREST,
    OPEN_INTEREST_COINS,
)
from barograph.markets.records import Perpetual
from barograph.markets.venues import BINANCE, coin_of
from barograph.upstream.cells import (
    Cell,
    Name,
    OutOfRangeError,
    UnreadableError,
    class_word,
    moment,
    number,
    parse,
    percent,
    plausible,
    price,
)
from barograph.upstream.contract_cache import ListedContracts, TooFewContracts
from barograph.upstream.past_pages import check_contract

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
    refused: dict[str, list[str]]
    """Kept contracts with an implausible value, by its field."""
    unusable: list[str]
    """The coins of kept contracts that are left out."""


class _ExchangeInfo(Struct):
    symbols: list[Row]


class _Time(Struct, rename="camel"):
    server_time: Cell


_EXCHANGE_INFO = msgspec.json.Decoder(_ExchangeInfo)
_ROWS = msgspec.json.Decoder(list[Row])
_ROW = msgspec.json.Decoder(Row)
_TIME = msgspec.json.Decoder(_Time)


def decode_time(body: bytes) -> int:
    """The exchange's clock."""
    at = moment_or_none(parse(body, _TIME, "the time").server_time)
    if at is None:
        raise InvalidReply("the time cannot be read")
    return at


def decode_rows(body: bytes) -> list[Row]:
    """The rows of a reply."""
    return parse(body, _ROWS, "the reply")


def decode_exchange_info(body: bytes) -> list[Row]:
    """The list of all contracts."""
    return parse(body, _EXCHANGE_INFO, "the list of contracts").symbols


def decode_open_interest(body: bytes, contract: str) -> OpenInterest:
    """The open interest of one contract."""
    row = parse(body, _ROW, "the open interest")
    check_contract([row.symbol], contract)
    try:
        return OpenInterest(number(row.open_interest), moment(row.time))
    except UnreadableError as error:
        raise InvalidReply(f"the open interest cannot be read: {error}") from error


def contracts_of(rows: Sequence[Row], funding: Sequence[Row]) -> ListedContracts[Contract]:
    """Join the list of contracts with their funding intervals.

    It also holds dated futures and other quote currencies. About a fifth of the live perpetuals
    follow stocks, commodities or indices. A contract without an interval is not kept: 8 hours would
    be a guess.
    """
    hours = {row.symbol: _hours(row.funding_interval_hours) for row in funding}
    classes = {row.symbol: _class_of(row) for row in rows if _is_live(row)}
    kept = {
        row.symbol: Contract(str(row.base_asset), each)
        for row in rows
        if classes.get(row.symbol) == COIN and (each := hours.get(row.symbol)) is not None
    }
    others = {symbol: word for symbol, word in classes.items() if word != COIN}
    coins = {row.symbol: _coin(str(row.base_asset)) for row in rows if row.symbol in classes}
    unusable = [coins[symbol] for symbol in classes.keys() - kept.keys() - others.keys()]
    symbols = frozenset(row.symbol for row in rows)
    return ListedContracts(kept, symbols, others, OTHER_CLASSES, unusable)


def changed_intervals(funding: Sequence[Row], kept: Mapping[str, Contract]) -> set[str]:
    """The kept contracts that are listed with another interval now."""
    hours = {row.symbol: _hours(row.funding_interval_hours) for row in funding}
    return {
        name
        for name, each in kept.items()
        if hours.get(name, each.funding_interval_hours) != each.funding_interval_hours
    }


def newest_time(rows: Sequence[Row]) -> int:
    """The newest time of a reply; raises `InvalidReply` if no row has one."""
    times = [at for row in rows if (at := moment_or_none(row.time)) is not None]
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
    found: dict[str, tuple[int, Perpetual]] = {}
    refused: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        time = moment_or_none(row.time)
        if row.symbol not in kept or row.symbol in doubtful or time is None or time < oldest:
            continue
        try:
            perpetual = _perpetual(row, last_prices.get(row.symbol), kept[row.symbol])
            found[row.symbol] = time, perpetual
            if (interest := interests.get(row.symbol)) is not None:
                found[row.symbol] = time, _with_open_interest(perpetual, interest)
        except OutOfRangeError as error:
            refused[error.field].append(row.symbol)
        except UnreadableError:
            continue
    if not found or 2 * len(found) < len(kept):
        raise TooFewContracts(
            f"the premium index has {len(rows)} rows, and {len(found)} of {len(kept)} contracts "
            "can be read"
        )
    times, perpetuals = zip(*found.values(), strict=True)
    unusable = ({row.symbol for row in rows} & kept.keys()) - found.keys()
    coins = [_coin(kept[name].base) for name in unusable]
    return Reading(perpetuals, min(times), dict(refused), coins)


def _coin(base: str) -> str:
    return coin_of(BINANCE, base)[0]


def _is_live(row: Row) -> bool:
    is_perpetual = str(row.contract_type).endswith("PERPETUAL")
    return is_perpetual and (row.quote_asset, row.status) == ("USDT", "TRADING")


def _class_of(row: Row) -> str:
    """What a contract follows. Only the plain kind of perpetual follows a coin."""
    is_other = row.underlying_type == COIN and row.contract_type != "PERPETUAL"
    cell = row.contract_type if is_other else row.underlying_type
    return "unclassified" if cell is None else class_word(cell)


def _hours(cell: Cell) -> float | None:
    if isinstance(cell, bool) or not isinstance(cell, int | float) or cell <= 0:
        return None
    return float(cell)


def _perpetual(row: Row, last_price: Cell, contract: Contract) -> Perpetual:
    """Without open interest. `lastFundingRate` is the running estimate, despite its name."""
    coin, multiplier = coin_of(BINANCE, contract.base)
    return Perpetual(
        contract=row.symbol,
        base=contract.base,
        last_price=price(last_price),
        funding_rate_pct=plausible(percent(row.last_funding_rate), FUNDING_RATE),
        funding_interval_hours=plausible(contract.funding_interval_hours, FUNDING_INTERVAL),
        next_funding_time=moment(row.next_funding_time),
        open_interest_usd=None,
        coin="" if multiplier == 1 else coin,
        multiplier=multiplier,
        mark_price=price(row.mark_price),
    )


def _with_open_interest(perpetual: Perpetual, interest: OpenInterest) -> Perpetual:
    coins = plausible(interest.coins, OPEN_INTEREST_COINS)
    usd = plausible(coins * perpetual.mark, OPEN_INTEREST)
    return msgspec.structs.replace(
        perpetual,
        open_interest_usd=usd,
        open_interest_coins=coins,
        open_interest_at=interest.at,
    )


def moment_or_none(cell: Cell) -> int | None:
    """Read a time, if there is one."""
    try:
        return moment(cell)
    except UnreadableError:
        return None
