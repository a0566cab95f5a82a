"""What may be posted: one message of JSON-RPC 2.0 (pure).

The SDK would refuse the rest as well, in a page of words about its own classes.
"""

from typing import Any, Literal

import msgspec

from barograph.errors import BarographError

PARSE_ERROR = -32700
INVALID_REQUEST = -32600


class Message(msgspec.Struct):
    """A request, or a notification when it has no id."""

    jsonrpc: Literal["2.0"]
    method: str
    id: int | str | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class NotAMessage(BarographError):
    """A body that is no message; `answer` says so in the protocol's way."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        error = {"code": code, "message": message}
        self.answer = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})


def is_request(body: bytes) -> bool:
    """Whether a body is a request, which is answered, or a notification, which is not.

    Raises:
        NotAMessage: it is neither.
    """
    try:
        message = _DECODER.decode(body)
    except msgspec.ValidationError as error:
        raise NotAMessage(INVALID_REQUEST, _NOT_ONE) from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested too deeply
        raise NotAMessage(PARSE_ERROR, "the body is not JSON") from error
    return message.id is not msgspec.UNSET


_NOT_ONE = "send one JSON-RPC 2.0 request or notification; batches are not taken"
_DECODER = msgspec.json.Decoder(Message)
