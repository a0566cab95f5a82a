"""What may be posted: one message of JSON-RPC 2.0 (pure).

The SDK would refuse the rest as well, in a page of words about its own classes.
"""

import json
import re
from collections.abc import Sequence
from ipaddress import ip_address
from math import isfinite
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from barograph.discovery.mcp_description import PROTOCOLS
from barograph.errors import BarographError

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Authority(NamedTuple):
    """A host and its port, which is that of the scheme where none is given."""

    name: str
    port: int


class Names:
    """The names of the service at a base address."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        self.host = parts.hostname or ""
        self._scheme = parts.scheme
        self._usual = parts.netloc.encode()
        self._port = parts.port or _DEFAULT_PORTS[parts.scheme]
        self._is_local = is_loopback(self.host)

    def is_host(self, field: bytes) -> bool:
        """Whether a `Host` is the one of the base address."""
        # A proxy may speak another scheme to the service than the public does.
        return field == self._usual or self._is_own(_authority(field, self._scheme))

    def _is_own(self, found: Authority | None) -> bool:
        """Whether it is this service's; on loopback, people write any of its names."""
        if found is None or found.port != self._port:
            return False
        return found.name == self.host or (self._is_local and is_loopback(found.name))


def is_loopback(name: str) -> bool:
    """Whether a host is this machine itself."""
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _authority(field: bytes, scheme: str) -> Authority | None:
    found = _HOST.fullmatch(field.decode("latin-1"))
    if found is None:
        return None
    port = _DEFAULT_PORTS[scheme] if found[2] is None else int(found[2])
    return Authority(found[1].strip("[]").lower(), port)


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


FIELD = b"mcp-protocol-version"
HEADER_MISMATCH = -32020
UNSUPPORTED_PROTOCOL_VERSION = -32022

_NEWEST = [PROTOCOLS[0].encode()]
_MEMBER = "io.modelcontextprotocol/protocolVersion"


def check_revision(message: Message, named: Sequence[bytes]) -> None:
    """Hold a message against the revisions that its header fields name.

    Raises:
        Refused: they differ, or what they name is not spoken.
    """
    if named == _NEWEST:  # the SDK holds the two against each other itself
        return
    if len(set(named)) > 1:
        raise Refused(HEADER_MISMATCH, "MCP-Protocol-Version names several revisions", to=message)
    header = named[0].decode("latin-1") if named else None
    inside = _named_inside(message)
    # A handshake is of one of the older revisions, whatever a client stamps on its inside.
    if inside is not None and inside != header and message.method != "initialize":
        raise Refused(HEADER_MISMATCH, _mismatch(header), to=message)
    if header is not None and header not in PROTOCOLS:
        data = {"supported": PROTOCOLS, "requested": header}
        raise Refused(
            UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", to=message, data=data
        )


def _named_inside(message: Message) -> object:
    """What a message of the newest revision names itself; None for one of the older ones."""
    params = message.params
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get(_MEMBER) if isinstance(meta, dict) else None


def _mismatch(header: str | None) -> str:
    if header is None:
        return f"the MCP-Protocol-Version header is missing; _meta has {_MEMBER}"
    return f"the MCP-Protocol-Version header differs from {_MEMBER} in _meta"
