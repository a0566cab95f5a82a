"""What may be posted: one message of JSON-RPC 2.0 (pure).

The SDK would refuse the rest as well, in a page of words about its own classes.
"""

import json
from math import isfinite
from typing import Any, Literal

import msgspec

from barograph.errors import BarographError

DEEPEST = 64
"""So many objects and lists may lie within each other; no tool takes anything near that."""

MOST_BRACKETS = 128
"""Opening brackets and braces in a body, also within strings: checking thousands of short lists
takes tens of milliseconds, and no client needs more than a few dozen."""

LARGEST = 10**18
"""Whole numbers beyond it are all alike to every tool, and readers differ in how many digits they
take."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600

RequestId = int | str


class Message(msgspec.Struct):
    """A request, or a notification when it has no id."""

    jsonrpc: Literal["2.0"]
    method: str
    id: RequestId | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_request(self) -> bool:
        """Whether it is to be answered."""
        return self.id is not msgspec.UNSET


class Refused(BarographError):
    """A body that is not looked into any further; `answer` says so in the protocol's way."""

    def __init__(
        self, code: int, message: str, *, to: "Message | _Identified", data: object = None
    ) -> None:
        """Refuse a message, or what has no more of one than perhaps its id."""
        super().__init__(message)
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        identity = None if to.id is msgspec.UNSET else to.id
        self.answer = msgspec.json.encode({"jsonrpc": "2.0", "id": identity, "error": error})


class _Identified(msgspec.Struct):
    """What can be told of a body that is no message."""

    id: RequestId | msgspec.UnsetType = msgspec.UNSET


def read_message(body: bytes) -> tuple[Message, bytes]:
    """The message that a body is, and bytes of it that any reader takes.

    Raises:
        Refused: it is none.
    """
    if body.count(b"[") + body.count(b"{") > MOST_BRACKETS:
        told = f"more than {MOST_BRACKETS} lists and objects are within it"
        raise Refused(INVALID_REQUEST, told, to=_Identified())
    try:
        message = _DECODER.decode(body)
    except msgspec.ValidationError:
        message, body = _read_again(body)
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested too deeply
        raise Refused(PARSE_ERROR, "the body is not JSON", to=_Identified()) from error
    if message.params is not msgspec.UNSET and _is_deep(message.params, DEEPEST):
        raise Refused(INVALID_REQUEST, f"more than {DEEPEST} levels are within it", to=message)
    return message, body


def _read_again(body: bytes) -> tuple[Message, bytes]:
    """Read what is JSON once more, with numbers of any length.

    Raises:
        Refused: it is no message for another reason.
    """
    try:
        message = _of_any_numbers(body)
        return message, msgspec.json.encode(message)
    except (ValueError, RecursionError) as error:
        is_batch = body.lstrip().startswith(b"[")
        told = _BATCH if is_batch else _NO_MESSAGE
        raise Refused(INVALID_REQUEST, told, to=_identified(body)) from error


def _of_any_numbers(body: bytes) -> Message:
    found = json.loads(body, parse_int=_bounded, parse_float=_finite)
    message = msgspec.convert(found, Message)
    if isinstance(message.id, int) and abs(message.id) >= LARGEST:
        raise ValueError("the id cannot be told from others")
    return message


def _identified(body: bytes) -> _Identified:
    try:
        return msgspec.json.decode(body, type=_Identified)
    except ValueError:
        return _Identified()


def _bounded(digits: str) -> int:
    if len(digits) <= len(str(LARGEST)):
        return int(digits)
    return -LARGEST if digits.startswith("-") else LARGEST


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError("the number is out of range")
    return number


def _is_deep(value: object, levels: int) -> bool:
    """Whether more levels than these are within a value."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return False
    return levels == 0 or any(_is_deep(each, levels - 1) for each in value)


_NO_MESSAGE = "the body must be one JSON-RPC 2.0 request or notification"
_BATCH = "batches are not taken: send one JSON-RPC 2.0 request or notification at a time"
_DECODER = msgspec.json.Decoder(Message)
