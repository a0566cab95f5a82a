"""Cells and rows of exchange replies: decimal strings, times in milliseconds, strict JSON.

The functions that read a cell raise `UnreadableError` if it is empty or has another format.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from decimal import Context, Decimal
from functools import cache, partial
from typing import Annotated, Any, NamedTuple, TypeVar, cast

import msgspec
from msgspec import Meta

from barograph.errors import InvalidReply
from barograph.venues import exchange as ranges
from barograph.venues.exchange import PlausibleRange
from barograph.venues.facts import Venue
from barograph.venues.records import Liquidation, Perpetual, Side

T = TypeVar("T")
Row = TypeVar("Row")
Refused = dict[str, list[str]]
"""Contracts with an implausible value, by its field."""

Cell = str | int | float | bool | None
"""A field that should be a decimal string. Any other value makes only its own row unreadable."""

# Binance lists `牛来USDT`, Hyperliquid `kPEPE` and `xyz:AAPL`, Bybit `BTCUSDT-25DEC26`.
# The fillers of Hangul count as letters, but nobody sees them.
_EMOJI = r"[\u2600-\u27bf\U0001f000-\U0001faff]\ufe0f?"
_NAME = rf"^(?![-._:])(?!.*[\u115f\u1160\u3164\uffa0])(?:[\w.:-]|{_EMOJI})+\Z"

Name = Annotated[str, Meta(max_length=40, pattern=_NAME)]
"""The name of a contract or a coin: letters and digits of any script, emoji, and `.`, `:`, `-` or
`_` between them. The longest known name has 19 characters. Any other name makes the whole reply
invalid, because names get into the permanent log, into addresses and into spreadsheets."""

_WORD_LIMIT = 40

# Python's own float() also takes "nan", "1_000", " 1 " and digits of other scripts.
_DECIMAL = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?")
_DIGITS = re.compile(r"[0-9]{1,16}")
_WIDE = Context(prec=120)
_MOMENTS = range(10**12, 4 * 10**12)
_SUM_TOLERANCE_PCT = 1.0
_MAX_VOLUME_RATIO = 6.0  # a wrong unit or multiplier is a factor of ten or more


class TooFewContracts(InvalidReply):
    """A reading holds fewer than half of the listed contracts."""


class UnreadableError(ValueError):
    """A cell doesn't hold what its name says."""


class OutOfRangeError(UnreadableError):
    """A cell holds a number outside its plausible range."""

    def __init__(self, value: float, expected: PlausibleRange) -> None:
        super().__init__(f"{expected.field} of {value:g} is out of range")
        self.field = expected.field


def plausible(value: float, expected: PlausibleRange) -> float:
    """Return a value, or raise `OutOfRangeError` if it is not plausible."""
    if not expected.contains(value):
        raise OutOfRangeError(value, expected)
    return value


def class_word(cell: Cell) -> str:
    """The exchange's word for what a contract follows, as short printable text."""
    return "".join(sign if sign.isprintable() else "?" for sign in str(cell)[:_WORD_LIMIT])


def as_text(cell: Cell) -> Cell:
    """A JSON number as a decimal string, which is what the other functions read."""
    is_number = isinstance(cell, int | float) and not isinstance(cell, bool)
    return str(cell) if is_number else cell


def number(cell: Cell) -> float:
    """Read a decimal string as a finite number, never minus zero."""
    return float(_text(cell)) + 0.0


def percent(cell: Cell) -> float:
    """Read a fraction as percent by moving the decimal point of the text.

    Multiplying the float by 100 would turn "0.00057" into 0.056999999999999995.
    """
    return float(_WIDE.scaleb(Decimal(_text(cell)), 2)) + 0.0


def above_zero(cell: Cell) -> float:
    """Read a decimal string that must be positive."""
    value = number(cell)
    if value <= 0:
        raise UnreadableError(f"{cell!r:.40} is not positive")
    return value


def price(cell: Cell) -> float:
    """Read a plausible price."""
    return plausible(above_zero(cell), ranges.LAST_PRICE)


def coins(cell: Cell) -> float:
    """Read a plausible open interest in coins."""
    return plausible(number(cell), ranges.OPEN_INTEREST_COINS)


def settled_pct(cell: Cell) -> float:
    """Read a plausible settled funding rate in percent."""
    return plausible(percent(cell), ranges.SETTLED_RATE)


def long_pct(long: Cell, short: Cell) -> float:
    """Read the share of long accounts in percent, which must fit that of short ones."""
    longs, shorts = (plausible(percent(cell), ranges.LONG_ACCOUNTS) for cell in (long, short))
    if abs(longs + shorts - 100) > _SUM_TOLERANCE_PCT:
        raise UnreadableError(f"{longs} % and {shorts} % are not 100 %")
    return longs


def moment(cell: Cell) -> int:
    """Read milliseconds since the Unix epoch; refuse values that must be in another unit."""
    at = int(cell) if isinstance(cell, str) and _DIGITS.fullmatch(cell) else cell
    if not isinstance(at, int) or at not in _MOMENTS:
        raise UnreadableError(f"{cell!r:.40} is not a time in milliseconds")
    return at


def announcement(cell: object) -> str:
    """Read a text for people: one line of printable characters, empty if it is no text."""
    text = cell if isinstance(cell, str) else ""
    words = "".join(sign if sign.isprintable() else " " for sign in text).split()
    return " ".join(words)[:300]


def liquidation(
    at: Cell, contract: str, side: Side | None, size: Cell, order_price: Cell
) -> Liquidation:
    """Read one liquidated position; `side` is None if the exchange's word for it is unknown."""
    if side is None:
        raise UnreadableError(f"the side of a liquidation of {contract} is unknown")
    position = Liquidation(moment(at), contract, side, above_zero(size), price(order_price))
    plausible(position.notional_usd, ranges.LIQUIDATION)
    return position


def or_none(read: Callable[[Cell], T], cell: Cell) -> T | None:
    """Read a cell, if it can be read."""
    try:
        return read(cell)
    except UnreadableError:
        return None


def usable(contract: str, refused: Refused, read: Callable[[], T]) -> T | None:
    """Read a value, or return None and note an implausible one."""
    try:
        return read()
    except OutOfRangeError as error:
        refused[error.field].append(contract)
    except UnreadableError:
        pass
    return None


class Values(NamedTuple):
    """The values of one contract as an exchange sends them."""

    price: Cell
    funding: Cell
    """The rate of the current interval, as a fraction."""

    interval_hours: float | None
    next_funding_time: Cell
    open_interest: Cell = None
    open_interest_usd: Cell = None
    """If it is not sent, that of the coins at the mark price."""

    open_interest_at: int | None = None
    mark_price: Cell = None
    index_price: Cell = None
    volume_usd: Cell = None
    volume_coins: Cell = None
    unit: float = 1.0
    """How many coins 1 of the open interest is, on one side: 0.5 if it counts both sides."""


def perpetual(
    venue: Venue, contract: str, base: str, values: Values, refused: Refused
) -> Perpetual:
    """The record of one contract; values other than price and funding may be unknown.

    Raises:
        UnreadableError: the price, the funding or its interval can't be used.
    """
    if values.interval_hours is None:
        raise UnreadableError("the funding interval is unknown")
    coin, multiplier = venue.coin_of(base)
    last = price(values.price)
    mark = or_none(price, values.mark_price)

    def amount(cell: Cell, expected: PlausibleRange, unit: float = 1.0) -> float | None:
        if cell is None:
            return None
        return usable(contract, refused, lambda: plausible(number(cell) * unit, expected))

    coins = amount(values.open_interest, ranges.OPEN_INTEREST_COINS, values.unit)
    usd = amount(values.open_interest_usd, ranges.OPEN_INTEREST)
    if coins is not None and values.open_interest_usd is None:
        value = coins * (last if mark is None else mark)
        usd = usable(contract, refused, lambda: plausible(value, ranges.OPEN_INTEREST))
        coins = None if usd is None else coins
    volume_usd = amount(values.volume_usd, ranges.VOLUME)
    volume_coins = amount(values.volume_coins, ranges.VOLUME_COINS)
    if volume_usd is not None and volume_coins is not None:
        value = volume_coins * last
        if max(volume_usd, value) > _MAX_VOLUME_RATIO * min(volume_usd, value):
            refused[ranges.VOLUME.field].append(contract)
            volume_usd = volume_coins = None
    return Perpetual(
        contract=contract,
        base=base,
        last_price=last,
        funding_rate_pct=plausible(percent(values.funding), ranges.FUNDING_RATE),
        funding_interval_hours=plausible(values.interval_hours, ranges.FUNDING_INTERVAL),
        next_funding_time=moment(values.next_funding_time),
        open_interest_usd=usd,
        open_interest_coins=coins,
        coin="" if multiplier == 1 else coin,
        multiplier=multiplier,
        quote=venue.quote,
        price_kind=venue.price_kind,
        mark_price=mark,
        open_interest_at=None if coins is None else values.open_interest_at,
        index_price=or_none(price, values.index_price),
        volume_24h_usd=volume_usd,
        volume_24h_coins=volume_coins,
    )


def read_perpetuals(
    rows: Iterable[tuple[str, Row]], read: Callable[[str, Row, Refused], Perpetual], listed: int
) -> tuple[dict[str, Perpetual], Refused]:
    """Read the rows of contracts, without those that can't be read.

    Raises:
        TooFewContracts: fewer than half of the `listed` contracts can be read.
    """
    perpetuals: dict[str, Perpetual] = {}
    refused: Refused = defaultdict(list)
    for contract, row in rows:
        perpetual = usable(contract, refused, partial(read, contract, row, refused))
        if perpetual is not None:
            perpetuals[contract] = perpetual
    if not perpetuals or 2 * len(perpetuals) < listed:
        raise TooFewContracts(f"{len(perpetuals)} of {listed} live contracts can be read")
    return perpetuals, dict(refused)


def parse(data: bytes | str, shape: type[T], what: str) -> T:
    """Decode JSON of a known shape, or raise `InvalidReply`."""
    try:
        return cast("T", _decoder(cast("Hashable", shape)).decode(data))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidReply(f"{what} cannot be read: {error}") from error


@cache
def _decoder(shape: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape)


def _text(cell: Cell) -> str:
    if not isinstance(cell, str) or not _DECIMAL.fullmatch(cell):
        raise UnreadableError(f"{cell!r:.40} is not a number")
    return cell
