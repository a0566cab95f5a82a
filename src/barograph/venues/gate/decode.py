"""Decodes replies of the REST endpoints into frozen records, without network or clock.

Times are in seconds; some numbers are texts. Another shape is an `InvalidReply`.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from barograph.errors import InvalidReply
from barograph.kit.timestamps import HOUR, SECOND
from barograph.venues.gate.facts import VENUE
from barograph.venues.kit import cells
from barograph.venues.kit.adapter import Reading
from barograph.venues.kit.cells import Cell, Name, Refused, UnreadableError, parse
from barograph.venues.kit.contract_cache import Contract, ListedContracts
from barograph.venues.kit.past_pages import Page, page_of
from barograph.venues.records import Liquidation, Perpetual, Side

_CRYPTO = ""  # Gate's own word
_PRE_MARKET = "pre-market"
_OTHER_CLASSES = frozenset({"stocks", "indices", "metals", "commodities", "forex", _PRE_MARKET})


class Row(Struct):
    """One row of a reply, or the reply of the clock; each endpoint fills some of the fields."""

    name: Name = "-"
    contract: Name = "-"
    quanto_multiplier: Cell = None
    last_price: Cell = None
    mark_price: Cell = None
    index_price: Cell = None
    funding_rate: Cell = None
    funding_interval: Cell = None
    funding_next_apply: Cell = None
    position_size: Cell = None
    in_delisting: Cell = None
    is_pre_market: Cell = None
    status: Cell = None
    contract_type: Cell = None
    volume_24h_base: Cell = None
    volume_24h_quote: Cell = None
    open_interest_usd: Cell = None
    long_users: Cell = None
    short_users: Cell = None
    size: Cell = None
    fill_price: Cell = None
    time: Cell = None
    t: Cell = None
    o: Cell = None
    r: Cell = None
    server_time: Cell = None


def decode_time(body: bytes) -> int:
    """The exchange's clock, in milliseconds."""
    try:
        return cells.moment(parse(body, Row, "the time").server_time)
    except UnreadableError as error:
        raise InvalidReply(f"the time cannot be read: {error}") from error


def decode_rows(body: bytes) -> list[Row]:
    """The rows of a reply."""
    return parse(body, list[Row], "the reply")


def contracts_of(rows: Sequence[Row]) -> ListedContracts:
    """The live perpetuals against USDT, by class."""
    live = {row.name: row for row in rows if _is_live(row)}
    classes = {name: _class_of(row) for name, row in live.items()}
    kept = {name: _contract(row) for name, row in live.items() if classes[name] == _CRYPTO}
    others = {name: word for name, word in classes.items() if word != _CRYPTO}
    return ListedContracts(kept, frozenset(row.name for row in rows), others, _OTHER_CLASSES)


def reading_of(
    time: int, rows: Sequence[Row], tickers: Sequence[Row], kept: Mapping[str, Contract]
) -> Reading:
    """Join the contracts with their volumes; multipliers and intervals are those of `rows`.

    Raises:
        TooFewContracts: fewer than half of the kept contracts can be read.
    """
    volumes = {ticker.contract: ticker for ticker in tickers}

    def read(name: str, row: Row, refused: Refused) -> Perpetual:
        contract, volume = _contract(row), volumes.get(name, row)
        values = cells.Values(
            row.last_price,
            row.funding_rate,
            contract.funding_interval_hours,
            cells.or_none(moment, row.funding_next_apply),
            cells.as_text(row.position_size),
            mark_price=row.mark_price,
            index_price=row.index_price,
            volume_usd=cells.as_text(volume.volume_24h_quote),
            volume_coins=cells.as_text(volume.volume_24h_base),
            unit=contract.unit,
        )
        return cells.perpetual(VENUE, name, contract.base, values, refused)

    live = [(row.name, row) for row in rows if row.name in kept and _is_live(row)]
    perpetuals, refused = cells.read_perpetuals(live, read, len(kept))
    return Reading(time, perpetuals, refused, frozenset(row.name for row in rows))


def past(at: Callable[[Row], int], value: Callable[[Row], float]) -> Callable[[bytes, str], Page]:
    """A decoder of past values; the rows don't name their contract."""
    return lambda body, _contract: page_of(decode_rows(body), at, value)


def liquidations(
    rows: Sequence[Row], units: Mapping[str, Contract], wanted: frozenset[str]
) -> tuple[list[Liquidation], list[str]]:
    """Liquidations, and why rows can't be read; the size has the sign of the position's side."""
    found, unreadable = [], []
    for row in rows:
        if row.contract in units and row.contract in wanted:
            try:
                found.append(_liquidation(row, units[row.contract].unit))
            except UnreadableError as error:
                unreadable.append(f"{row.contract}: {error}")
    return found, unreadable


def moment(cell: Cell) -> int:
    """Read seconds since the Unix epoch, as milliseconds."""
    return cells.moment(round(cells.number(cells.as_text(cell)) * SECOND))


def past_coins(row: Row) -> float:
    """Open interest in coins: the value holds even if the multiplier has changed since."""
    mark = cells.price(cells.as_text(row.mark_price))
    return cells.coins(str(cells.number(cells.as_text(row.open_interest_usd)) / mark))


def long_pct(row: Row) -> float:
    """The share of the accounts that are long, in percent."""
    longs, shorts = (
        cells.number(cells.as_text(row.long_users)),
        cells.number(cells.as_text(row.short_users)),
    )
    if longs < 0 or shorts < 0 or longs + shorts == 0:
        raise UnreadableError(f"{longs:g} and {shorts:g} accounts are no shares")
    return 100 * longs / (longs + shorts)


def _is_live(row: Row) -> bool:
    """Whether it trades. While it is delisted, positions can only be closed."""
    is_usdt = row.name.endswith(VENUE.suffix)
    return is_usdt and row.status == "trading" and row.in_delisting is not True


def _class_of(row: Row) -> str:
    if row.is_pre_market is True:
        return _PRE_MARKET
    return "unclassified" if row.contract_type is None else cells.class_word(row.contract_type)


def _contract(row: Row) -> Contract:
    """Without a multiplier, the open interest is implausible and so unknown."""
    seconds = cells.or_none(cells.above_zero, cells.as_text(row.funding_interval))
    hours = None if seconds is None else seconds * SECOND / HOUR
    unit = cells.or_none(cells.above_zero, cells.as_text(row.quanto_multiplier))
    return Contract(row.name.removesuffix(VENUE.suffix), hours, unit or float("nan"))


def _liquidation(row: Row, unit: float) -> Liquidation:
    size = cells.number(cells.as_text(row.size)) * unit
    side: Side = "long" if size > 0 else "short"
    return cells.liquidation(moment(row.time), row.contract, side, str(abs(size)), row.fill_price)
