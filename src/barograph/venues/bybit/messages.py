"""The messages of the public websocket, both ways, and subscribing to topics (no network, clock).

The exchange refuses a whole request if it doesn't know one of the topics. The refusal usually names
the topic, and we request the others again. If it names none, we halve the batch until one is left.
"""

import re
from collections import deque
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from barograph.errors import Forbidden, InvalidReply
from barograph.venues.kit.cells import Cell, Name, UnreadableError, liquidation, parse
from barograph.venues.records import Liquidation, Side

PING = '{"op":"ping"}'

MAX_ARGS_CHARACTERS = 20_000
"""The exchange allows 21,000 for all subscriptions of one connection."""

BATCH = 10
"""Topics per request."""

MAX_UNANSWERED = 5
"""Requests that wait for their replies at the same time."""

_BETWEEN_WORDS = re.compile(r"[\s,;:\[\]\"']+")

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


def decode_message(data: bytes) -> Batch | Subscribed | Pong | None:
    """Decode a message: https://bybit-exchange.github.io/docs/v5/ws/connect ; None for others."""
    message = parse(data, _Message, "the message")
    if message.topic is not None and message.topic.startswith(_TOPIC):
        return Batch(_liquidations(message.data))
    if message.op == "subscribe":
        detail = (message.ret_msg or "")[:200]
        return Subscribed(message.success is True, detail, message.req_id or "")
    if message.op == "pong" or message.ret_msg == "pong":
        return Pong()
    return None


def _liquidations(data: bytes) -> tuple[Liquidation, ...]:
    """A batch: https://bybit-exchange.github.io/docs/v5/websocket/public/all-liquidation .

    `S` is the side of the position, not of the order that closed it.
    """
    rows = parse(data, list[_LiquidationRow], "the liquidations")
    try:
        return tuple(liquidation(row.T, row.s, _SIDES.get(row.S), row.v, row.p) for row in rows)
    except UnreadableError as error:
        raise InvalidReply(f"the liquidations cannot be read: {error}") from error


class Subscriptions:
    """The topics of one connection, confirmed request by request."""

    def __init__(self, topics: Sequence[str]) -> None:
        self._count = len(topics)
        self._sent = 0
        self._waiting = deque(
            topics[start : start + BATCH] for start in range(0, len(topics), BATCH)
        )
        self._unanswered: dict[str, Sequence[str]] = {}
        self.left_out: list[str] = []
        """The topics that the exchange doesn't know."""

    @property
    def is_complete(self) -> bool:
        """Whether every topic is confirmed or left out."""
        return not self._waiting and not self._unanswered

    def next_requests(self) -> list[str]:
        """The requests to send now."""
        requests: list[str] = []
        while self._waiting and len(self._unanswered) < MAX_UNANSWERED:
            self._sent += 1
            self._unanswered[str(self._sent)] = self._waiting.popleft()
            requests.append(subscribe_request(self._sent, self._unanswered[str(self._sent)]))
        return requests

    def answered(self, reply: Subscribed) -> None:
        """Take the reply to one request.

        Raises:
            Forbidden: the exchange refused more than half of the topics, so they are not the cause.
        """
        topics = self._unanswered.pop(reply.request_id, ())
        if reply.accepted or not topics:
            return
        named = set(topics).intersection(_BETWEEN_WORDS.split(reply.detail))
        if not named and len(topics) > 1:
            self._retry(topics[: len(topics) // 2])
            self._retry(topics[len(topics) // 2 :])
            return
        if "already subscribed" not in reply.detail:
            self.left_out += sorted(named or topics)
        if 2 * len(self.left_out) > self._count:
            raise Forbidden(f"the subscription: {reply.detail}")
        if named:
            self._retry([topic for topic in topics if topic not in named])

    def _retry(self, topics: Sequence[str]) -> None:
        if topics:
            self._waiting.append(topics)
