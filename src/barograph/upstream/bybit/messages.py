"""The messages of the public websocket, both ways, without network or clock."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from barograph.errors import InvalidReply
from barograph.markets.exchange import LAST_PRICE, LIQUIDATION
from barograph.markets.records import Liquidation, Side
from barograph.upstream.cells import (
    Cell,
    Name,
    UnreadableError,
    above_zero,
    moment,
    parse,
    plausible,
)

PING = '{"op":"ping"}'

MAX_ARGS_CHARACTERS = 20_000
"""The exchange allows 21,000 for all subscriptions of one connection."""

_TOPIC = "allLiquidation."
_SIDES: dict[Cell, Side] = {"Buy": "long", "Sell": "short"}


class Batch(Struct, frozen=True):
    """Liquidations that the exchange pushed together."""

    liquidations: tuple[Liquidation, ...]


class Subscribed(Struct, frozen=True):
    """The reply to one subscribe request."""

    accepted: bool
    detail: str
    request_id: str


class Pong(Struct, frozen=True):
    """The reply to a ping."""


class Other(Struct, frozen=True):
    """A message that we ignore."""


Message = Batch | Subscribed | Pong | Other


class _Message(Struct):
    op: str | None = None
    success: bool | None = None
    ret_msg: str | None = None
    req_id: str | None = None
    topic: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")


class _LiquidationRow(Struct):
    T: Cell
    s: Name
    S: Cell
    v: Cell
    p: Cell


_MESSAGE = msgspec.json.Decoder(_Message)
_ROWS = msgspec.json.Decoder(list[_LiquidationRow])


def topics_by_connection(contracts: Sequence[str]) -> list[list[str]]:
    """The liquidation topics of `contracts`, divided among connections.

    Limits: https://bybit-exchange.github.io/docs/v5/ws/connect#public-channel---args-limits .
    """
    connections: list[list[str]] = []
    characters = MAX_ARGS_CHARACTERS
    for contract in contracts:
        topic = _TOPIC + contract
        characters += len(topic) + len('"",')
        if characters > MAX_ARGS_CHARACTERS:
            connections.append([])
            characters = len(topic) + len('"",')
        connections[-1].append(topic)
    return connections


def contract_of(topic: str) -> str:
    """The contract that a topic is about."""
    return topic.removeprefix(_TOPIC)


def subscribe_request(number: int, topics: Sequence[str]) -> str:
    """A request for some topics; the reply repeats its number."""
    request = {"req_id": str(number), "op": "subscribe", "args": topics}
    return msgspec.json.encode(request).decode()


def decode_message(data: bytes) -> Message:
    """Decode a message of the stream: https://bybit-exchange.github.io/docs/v5/ws/connect ."""
    message = parse(data, _MESSAGE, "the message")
    if message.topic is not None and message.topic.startswith(_TOPIC):
        return Batch(_liquidations(message.data))
    if message.op == "subscribe":
        detail = (message.ret_msg or "")[:200]
        return Subscribed(message.success is True, detail, message.req_id or "")
    if message.op == "pong" or message.ret_msg == "pong":
        return Pong()
    return Other()


def _liquidations(data: bytes) -> tuple[Liquidation, ...]:
    """A batch: https://bybit-exchange.github.io/docs/v5/websocket/public/all-liquidation .

    `S` is the side of the position, not of the order that closed it.
    """
    try:
        return tuple(_liquidation(row) for row in parse(data, _ROWS, "the liquidations"))
    except UnreadableError as error:
        raise InvalidReply(f"the liquidations cannot be read: {error}") from error


def _liquidation(row: _LiquidationRow) -> Liquidation:
    side = _SIDES.get(row.S)
    if side is None:
        raise UnreadableError(f"{row.S!r:.40} is not a side")
    found = Liquidation(moment(row.T), row.s, side, above_zero(row.v), above_zero(row.p))
    plausible(found.price, LAST_PRICE)
    plausible(found.notional_usd, LIQUIDATION)
    return found
