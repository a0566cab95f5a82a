"""What may be posted: one message of JSON-RPC 2.0 (pure).

The SDK would refuse the rest as well, in a page of words about its own classes.
"""

from typing import Any, Literal

import msgspec

from barograph.errors import BarographError

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
        self, code: int, message: str, *, to: Message | None = None, data: object = None
    ) -> None:
        """Refuse a message, or with `to` None what is none."""
        super().__init__(message)
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        identity = to.id if to is not None and to.is_request else None
        self.answer = msgspec.json.encode({"jsonrpc": "2.0", "id": identity, "error": error})


def read_message(body: bytes) -> Message:
    """The message that a body is.

    Raises:
        Refused: it is none.
    """
    try:
        return _DECODER.decode(body)
    except msgspec.ValidationError as error:
        is_batch = body.lstrip().startswith(b"[")
        raise Refused(INVALID_REQUEST, _BATCH if is_batch else _NO_MESSAGE) from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested too deeply
        raise Refused(PARSE_ERROR, "the body is not JSON") from error


_NO_MESSAGE = "the body must be one JSON-RPC 2.0 request or notification"
_BATCH = "batches are not taken: send one JSON-RPC 2.0 request or notification at a time"
_DECODER = msgspec.json.Decoder(Message)
