"""Hyperliquid's public data: https://hyperliquid.gitbook.io/hyperliquid-docs/for-developers/api .

The exchange publishes no liquidations, no long-account shares and no prices of last trades. When
it hangs or fails, `VenueClient` applies timeouts, retries and circuit breakers.

An address may use a weight of 1,200 per minute. Live calls use `live_weight_per_minute`, history
less than 600 and no more than live calls leave: its calls run one at a time, and each waits for
the weight of the one before it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar, Unpack

import msgspec
from msgspec import Struct

from barograph.errors import InvalidReply, UnknownToUpstream
from barograph.kit.http_client import HttpReply, TimeBudget
from barograph.kit.timestamps import HOUR
from barograph.settings import Settings
from barograph.venues.hyperliquid.facts import VENUE
from barograph.venues.kit import cells
from barograph.venues.kit.adapter import Parts, Reading, VenueAdapter
from barograph.venues.kit.cells import Cell, Name, Refused, parse
from barograph.venues.kit.client import Purpose
from barograph.venues.kit.contract_cache import Contract, ListedContracts
from barograph.venues.kit.past_pages import (
    Page,
    Past,
    PastSeries,
    check_contract,
    page_of,
    settled_hour,
)
from barograph.venues.kit.refusals import Refusals
from barograph.venues.records import Perpetual, Perpetuals

T = TypeVar("T")

WEIGHT_PER_MINUTE = 1200
CALL_WEIGHT = 20
"""What a call costs of the exchange's rate limit; `exchangeStatus` costs 2, and rows cost more."""

_MAX_HISTORY_WEIGHT = 490
_RESERVE = 150
"""One page of history may come on top in any 60 seconds; it weighs at most 104."""

_UNKNOWN = 422
_SIDES = 2
"""`openInterest` counts the long and the short side of each position."""


class Status(Struct, rename="camel"):
    """The chain's time in milliseconds, and what the exchange announces (`exchangeStatus`)."""

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
    oracle_px: Cell = None
    day_ntl_vlm: Cell = None
    day_base_vlm: Cell = None


class _MetaAndContexts(Struct, array_like=True):
    meta: _Meta
    contexts: list[_Context | None]


def live_weight_per_minute(poll_seconds: float) -> float:
    """The weight of a reading every `poll_seconds`."""
    return 60 / poll_seconds * (2 + CALL_WEIGHT)


def history_weight_per_minute(poll_seconds: float) -> float:
    """The weight that the history may use, without its last page."""
    left = WEIGHT_PER_MINUTE - live_weight_per_minute(poll_seconds) - _RESERVE
    return max(CALL_WEIGHT, min(_MAX_HISTORY_WEIGHT, left))


def decode_past(
    kind: str, contract_field: str, value: str, read: Callable[[Cell], float]
) -> Callable[[bytes, str], Page]:
    """A decoder of one page of a contract's past; raises `UnknownToUpstream`."""

    def decode(body: bytes, contract: str) -> Page:
        if body.strip() == b"null":
            raise UnknownToUpstream(f"the exchange does not know {contract}")
        rows = parse(body, list[dict[str, Any]], kind)
        check_contract((str(row.get(contract_field)) for row in rows), contract)
        return page_of(
            rows,
            lambda row: settled_hour(row.get("t", row.get("time"))),
            lambda row: read(row.get(value)),
        )

    return decode


CANDLES = "candleSnapshot"
_SPAN = ("coin", "startTime", "endTime", "")

PAST = Past(
    # The price of the first trade of each hour. The exchange has the newest 5,000 hours.
    PastSeries(
        CANDLES,
        {"interval": "1h"},
        5000,
        decode_past(CANDLES, "s", "o", cells.price),
        weight=CALL_WEIGHT,
        rows_per_weight=60,
        names=_SPAN,
    ),
    PastSeries(
        "fundingHistory",
        {},
        500,
        decode_past("fundingHistory", "coin", "fundingRate", cells.settled_pct),
        weight=CALL_WEIGHT,
        rows_per_weight=20,
        names=_SPAN,
    ),
)


class HyperliquidExchange(VenueAdapter):
    """Hyperliquid's public data of the perpetuals that it lists itself, in USD."""

    venue = VENUE
    past = PAST
    refusals = Refusals(pause=10.0)
    time_path = "/info"

    def __init__(self, settings: Settings, **parts: Unpack[Parts]) -> None:
        self.history_weight = history_weight_per_minute(settings.poll_seconds)
        super().__init__(settings, **parts)

    async def perpetuals(self) -> Perpetuals:
        """Read every live perpetual in USD at once; raises `UpstreamError`.

        The values have no time of their own. We read the chain's time before them, so that they are
        never older than we say.
        """
        is_first = self._times.last_as_of == 0
        budget = self._rest.start_budget() if is_first else self._rest.budget()
        status = await self.ask("exchangeStatus", {}, self._fresh_status, budget, "reading")
        self._announcement = cells.announcement(status.special_statuses)
        decode = partial(decode_contexts, time=status.time)
        return self.published(*await self.ask("metaAndAssetCtxs", {}, decode, budget, "reading"))

    async def ask(
        self,
        path: str,
        params: Mapping[str, str],
        read: Callable[[bytes], T],
        budget: TimeBudget | None = None,
        purpose: Purpose = "side",
    ) -> T:
        """Make a request of the type `path`; `read` takes the body of a success."""
        details: dict[str, Any] = dict(params)
        for name in details.keys() & {"startTime", "endTime"}:
            details[name] = int(details[name])
        if path == CANDLES:
            details = {"req": details}

        def unwrap(reply: HttpReply) -> T:
            if reply.status == _UNKNOWN and details:  # about a contract that does not exist
                raise UnknownToUpstream(f"HTTP {_UNKNOWN} to {path}")
            return read(self.body_of(reply))

        body = msgspec.json.encode({"type": path, **details})
        budget = budget or self._rest.budget()
        return await self._rest.call(
            path, self.time_path, unwrap, budget, purpose=purpose, body=body
        )

    async def server_time(self) -> int:
        """Read the exchange's clock in Unix milliseconds, unchecked; raises `UpstreamError`."""
        return (await self.ask("exchangeStatus", {}, _status)).time

    def _fresh_status(self, body: bytes) -> Status:
        status = _status(body)
        self._times.check(status.time)
        return status


def _status(body: bytes) -> Status:
    return parse(body, Status, "the status")


def decode_contexts(body: bytes, time: int) -> tuple[Reading, ListedContracts]:
    """All live perpetuals after `time`, from `metaAndAssetCtxs`.

    Names and values are two lists that belong together by position. We leave out delisted
    contracts, those of other operators (`dex:COIN`), and rows that can't be read.

    Raises:
        InvalidReply: it has another shape, or fewer than half of the live contracts can be read.
    """
    reply = parse(body, _MetaAndContexts, "the contexts")
    universe, contexts = reply.meta.universe, reply.contexts
    if len(universe) != len(contexts):
        raise InvalidReply(f"{len(universe)} contracts have {len(contexts)} contexts")
    live = {
        asset.name: row or _Context()
        for asset, row in zip(universe, contexts, strict=True)
        if not (asset.is_delisted or ":" in asset.name)
    }
    perpetuals, refused = cells.read_perpetuals(live.items(), partial(_perpetual, time), len(live))
    listing = ListedContracts({name: Contract(name) for name in live}, live.keys())
    return Reading(time, perpetuals, refused, live.keys()), listing


def _perpetual(time: int, name: str, row: _Context, refused: Refused) -> Perpetual:
    values = cells.Values(
        row.mark_px,
        row.funding,
        1.0,
        (time // HOUR + 1) * HOUR,
        row.open_interest,
        index_price=row.oracle_px,
        volume_usd=row.day_ntl_vlm,
        volume_coins=row.day_base_vlm,
        unit=1 / _SIDES,
    )
    return cells.perpetual(VENUE, name, name, values, refused)


ADAPTER = HyperliquidExchange
