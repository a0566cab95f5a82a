"""Decodes the replies of Hyperliquid's `/info` into frozen records, without network or clock.

Every decoder raises `InvalidReply` if the reply has another shape or is about another contract.
Documentation: https://hyperliquid.gitbook.io/hyperliquid-docs/for-developers/api/info-endpoint .
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from barograph.errors import InvalidReply, UnknownToUpstream
from barograph.kit.timestamps import HOUR, MINUTE
from barograph.markets import exchange as ranges
from barograph.markets.records import Perpetual
from barograph.markets.venues import HYPERLIQUID, coin_of
from barograph.upstream import cells
from barograph.upstream.cells import Cell, Name, OutOfRangeError, UnreadableError, parse, plausible
from barograph.upstream.past_pages import Page, check_contract, page_of

CALL_WEIGHT = 20
"""What a call costs of the exchange's rate limit; `exchangeStatus` costs 2, and rows cost more."""

_SIDES = 2
"""`openInterest` counts the long and the short side of each position."""

Refused = dict[str, list[str]]


class PastSeries(NamedTuple):
    """A type of request for the past of a contract, and the fields of its rows."""

    kind: str
    contract: str
    time: str
    value: str
    read: Callable[[Cell], float]
    max_rows: int
    rows_per_weight: int

    def weight(self, rows: int) -> int:
        """The weight of a request for so many rows."""
        return CALL_WEIGHT + -(-min(rows, self.max_rows) // self.rows_per_weight)


CANDLES = PastSeries("candleSnapshot", "s", "t", "o", cells.price, 5000, 60)
"""The price of the first trade of each hour. The exchange has the newest 5,000 hours."""

SETTLEMENTS = PastSeries(
    "fundingHistory", "coin", "time", "fundingRate", cells.settled_pct, 500, 20
)
"""Settled rates per hour, in percent."""


class _Status(Struct, rename="camel"):
    time: int
    special_statuses: object = None


class _Asset(Struct, rename="camel"):
    name: Name
    is_delisted: bool | None = None


class _Meta(Struct):
    universe: list[_Asset]


class _Context(Struct, rename="camel"):
    funding: Cell = None
    open_interest: Cell = None
    mark_px: Cell = None


class _MetaAndContexts(Struct, array_like=True):
    meta: _Meta
    contexts: list[_Context | None]


_STATUS = msgspec.json.Decoder(_Status)
_CONTEXTS = msgspec.json.Decoder(_MetaAndContexts)
_ROWS = msgspec.json.Decoder(list[dict[str, Any]] | None)


def decode_status(body: bytes) -> tuple[int, str]:
    """The chain's time in milliseconds, and what the exchange announces, from `exchangeStatus`."""
    status = parse(body, _STATUS, "the status")
    return status.time, cells.announcement(status.special_statuses)


def decode_contexts(body: bytes, time: int) -> tuple[tuple[Perpetual, ...], Refused, list[str]]:
    """All live perpetuals after `time`, implausible values, and the coins of rows left out.

    In `metaAndAssetCtxs` names and values are two lists that belong together by position. We leave
    out delisted contracts, those of other operators (`dex:COIN`), and rows that can't be read. If
    more than half of the live contracts can't be read, the whole reading is invalid.
    """
    reply = parse(body, _CONTEXTS, "the contexts")
    universe, contexts = reply.meta.universe, reply.contexts
    if len(universe) != len(contexts):
        raise InvalidReply(f"{len(universe)} contracts have {len(contexts)} contexts")
    perpetuals: dict[str, Perpetual] = {}
    refused: Refused = defaultdict(list)
    pairs = zip(universe, contexts, strict=True)
    live = [(each, row) for each, row in pairs if not (each.is_delisted or ":" in each.name)]
    for asset, row in live:
        try:
            perpetuals[asset.name] = _perpetual(asset.name, row or _Context(), time, refused)
        except OutOfRangeError as error:
            refused[error.field].append(asset.name)
        except UnreadableError:
            continue
    if not perpetuals or 2 * len(perpetuals) < len(live):
        raise InvalidReply(f"{len(perpetuals)} of {len(live)} live contracts can be read")
    unusable = [each.name for each, _ in live if each.name not in perpetuals]
    coins = [coin_of(HYPERLIQUID, name)[0] for name in unusable]
    return tuple(perpetuals.values()), dict(refused), coins


def decode_past(body: bytes, series: PastSeries, contract: str) -> Page:
    """One page of a contract's past.

    Raises:
        UnknownToUpstream: the exchange does not know the contract.
    """
    rows = parse(body, _ROWS, series.kind)
    if rows is None:
        raise UnknownToUpstream(f"the exchange does not know {contract}")
    check_contract((str(row.get(series.contract)) for row in rows), contract)
    return page_of(
        rows,
        lambda row: _hour(cells.moment(row.get(series.time))),
        lambda row: series.read(row.get(series.value)),
    )


def _hour(at: int) -> int:
    """The hour of a stamp: a minute early at most, and late by up to 24 minutes (2023-05-23)."""
    return (at + MINUTE - 1) // HOUR * HOUR


def _perpetual(name: str, row: _Context, time: int, refused: Refused) -> Perpetual:
    coin, multiplier = coin_of(HYPERLIQUID, name)
    price = cells.price(row.mark_px)
    funding = plausible(cells.percent(row.funding), ranges.FUNDING_RATE)
    coins, usd = _open_interest(name, row, price, refused)
    return Perpetual(
        contract=name,
        base=name,
        last_price=price,
        funding_rate_pct=funding,
        funding_interval_hours=1.0,
        next_funding_time=(time // HOUR + 1) * HOUR,
        open_interest_usd=usd,
        open_interest_coins=coins,
        coin="" if multiplier == 1 else coin,
        multiplier=multiplier,
        quote="USD",
        price_kind="mark",
    )


def _open_interest(
    name: str, row: _Context, price: float, refused: Refused
) -> tuple[float | None, float | None]:
    """One side, in coins and in USD; both are None if either is unusable."""
    try:
        coins = plausible(cells.number(row.open_interest) / _SIDES, ranges.OPEN_INTEREST_COINS)
        return coins, plausible(coins * price, ranges.OPEN_INTEREST)
    except OutOfRangeError as error:
        refused[error.field].append(name)
    except UnreadableError:
        pass
    return None, None
