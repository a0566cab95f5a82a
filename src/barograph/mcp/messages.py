"""Requests to `/api/mcp`: JSON-RPC 2.0 messages, the revision they name, and header fields (pure).

The SDK would reject the same messages, but with long errors about its own classes.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_address
from math import isfinite
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from barograph.discovery.mcp_description import PROTOCOLS
from barograph.errors import BarographError
from barograph.kit.documents import JSON
from barograph.kit.http import Scope

MAX_DEPTH = 64
"""Nested objects and lists in `params`."""

MAX_BRACKETS = 128
"""Opening brackets and braces in a body, including those in strings. Checking thousands of short
lists takes tens of milliseconds, and clients need a few dozen at most."""

MAX_INTEGER = 10**18
"""Larger integers are cut to this: parsers differ in how many digits they accept."""

REVISION_FIELD = b"mcp-protocol-version"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
HEADER_MISMATCH = -32020
UNSUPPORTED_PROTOCOL_VERSION = -32022

_NEWEST = [PROTOCOLS[0].encode()]
_REVISION_MEMBER = "io.modelcontextprotocol/protocolVersion"
_NO_MESSAGE = "the body must be one JSON-RPC 2.0 request or notification"
_BATCH = "batches are not supported: send one JSON-RPC 2.0 request or notification at a time"

RequestId = int | str


class _Identified(msgspec.Struct):
    id: RequestId | msgspec.UnsetType = msgspec.UNSET


class Message(msgspec.Struct):
    """A request, or a notification if it has no id."""

    jsonrpc: Literal["2.0"]
    method: str
    id: RequestId | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_request(self) -> bool:
        """Whether it needs a response."""
        return self.id is not msgspec.UNSET


_DECODER = msgspec.json.Decoder(Message)


class InvalidMessage(BarographError):
    """A body that is not processed; `response` is the JSON-RPC error."""

    def __init__(
        self, code: int, message: str, *, to: Message | _Identified, data: object = None
    ) -> None:
        super().__init__(message)
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        request_id = None if to.id is msgspec.UNSET else to.id
        self.response = msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": error})


def read_message(body: bytes) -> tuple[Message, bytes]:
    """Decode a body; also return it in bytes that any JSON parser accepts.

    Raises:
        InvalidMessage: it is not one message.
    """
    if body.count(b"[") + body.count(b"{") > MAX_BRACKETS:
        reason = f"the body has more than {MAX_BRACKETS} lists and objects"
        raise InvalidMessage(INVALID_REQUEST, reason, to=_Identified())
    try:
        message = _DECODER.decode(body)
    except msgspec.ValidationError:
        message, body = _read_long_numbers(body)
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested too deeply
        raise InvalidMessage(PARSE_ERROR, "the body is not JSON", to=_Identified()) from error
    if message.params is not msgspec.UNSET and _is_deeper(message.params, MAX_DEPTH):
        reason = f"the parameters are nested more than {MAX_DEPTH} levels deep"
        raise InvalidMessage(INVALID_REQUEST, reason, to=message)
    return message, body


def _read_long_numbers(body: bytes) -> tuple[Message, bytes]:
    """Decode a body whose integers may be too long for msgspec.

    Raises:
        InvalidMessage: it is not one message for another reason.
    """
    try:
        message = _with_bounded_numbers(body)
        return message, msgspec.json.encode(message)
    except (ValueError, RecursionError) as error:
        reason = _BATCH if body.lstrip().startswith(b"[") else _NO_MESSAGE
        raise InvalidMessage(INVALID_REQUEST, reason, to=_identified(body)) from error


def _with_bounded_numbers(body: bytes) -> Message:
    message = msgspec.convert(json.loads(body, parse_int=_bounded, parse_float=_finite), Message)
    if isinstance(message.id, int) and abs(message.id) >= MAX_INTEGER:
        raise ValueError("the id is too long")
    return message


def _identified(body: bytes) -> _Identified:
    try:
        return msgspec.json.decode(body, type=_Identified)
    except ValueError:
        return _Identified()


def _bounded(digits: str) -> int:
    if len(digits) <= len(str(MAX_INTEGER)):
        return int(digits)
    return -MAX_INTEGER if digits.startswith("-") else MAX_INTEGER


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError("the number is out of range")
    return number


def _is_deeper(value: object, levels: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return False
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in value)


def check_revision(message: Message, named: Sequence[bytes]) -> None:
    """Compare the revision in a message with the values of `MCP-Protocol-Version`.

    Raises:
        InvalidMessage: they differ, or the revision is not supported.
    """
    if named == _NEWEST:  # the SDK compares these itself
        return
    if len(set(named)) > 1:
        reason = "MCP-Protocol-Version names several revisions"
        raise InvalidMessage(HEADER_MISMATCH, reason, to=message)
    header = named[0].decode("latin-1") if named else None
    inside = _revision_inside(message)
    # A handshake uses one of the older revisions, whatever its `_meta` says.
    if inside is not None and inside != header and message.method != "initialize":
        problem = "is missing" if header is None else f"differs from {_REVISION_MEMBER} in _meta"
        reason = f"the MCP-Protocol-Version header {problem}"
        raise InvalidMessage(HEADER_MISMATCH, reason, to=message)
    if header is not None and header not in PROTOCOLS:
        data = {"supported": PROTOCOLS, "requested": header}
        reason = "Unsupported protocol version"
        raise InvalidMessage(UNSUPPORTED_PROTOCOL_VERSION, reason, to=message, data=data)


def _revision_inside(message: Message) -> object:
    """The revision in `_meta`, which only messages of the newest revision have."""
    params = message.params
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get(_REVISION_MEMBER) if isinstance(meta, dict) else None


HeaderValues = Mapping[bytes, Sequence[bytes]]
"""Every value of each field, by its name."""

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_USED = (b"host", b"content-type", b"accept", REVISION_FIELD)
_MEDIA_FIELDS = frozenset({b"content-type", b"accept"})
_JSON_RANGES = (JSON, b"application/*", b"*/*")
"""The media ranges that include JSON, the narrowest first."""


def header_values(scope: Scope) -> HeaderValues:
    """The fields that decide how a request is handled."""
    values: dict[bytes, list[bytes]] = {name: [] for name in _USED}
    for name, value in scope["headers"]:
        if name in values:
            values[name].append(value)
    return values


class _Authority(NamedTuple):
    host: str
    port: int


class PublicHost:
    """The host of the base address."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        self._scheme = parts.scheme
        self._netloc = parts.netloc.encode()
        self._host = parts.hostname or ""
        self._port = parts.port or _DEFAULT_PORTS[parts.scheme]
        self._is_loopback = _is_loopback(self._host)

    def matches(self, fields: Sequence[bytes]) -> bool:
        """Whether exactly one `Host` was sent and names this host."""
        return len(fields) == 1 and (fields[0] == self._netloc or self._is_same(fields[0]))

    def _is_same(self, field: bytes) -> bool:
        # The scheme is that of the base address: a proxy may use another one.
        sent = _authority(field, self._scheme)
        if sent is None or sent.port != self._port:
            return False
        # On loopback, any loopback name will do.
        return sent.host == self._host or (self._is_loopback and _is_loopback(sent.host))


def _authority(field: bytes, scheme: str) -> _Authority | None:
    match = _HOST.fullmatch(field.decode("latin-1"))
    if match is None:
        return None
    port = _DEFAULT_PORTS[scheme] if match[2] is None else int(match[2])
    return _Authority(match[1].strip("[]").lower(), port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_json(content_type: Sequence[bytes]) -> bool:
    """Whether the one `Content-Type` is JSON."""
    return _media_types(tuple(content_type)) == (JSON,)


def accepts_json(accept: Sequence[bytes]) -> bool:
    """Whether `Accept` allows JSON or is missing."""
    return not accept or _allows_json(tuple(accept))


@lru_cache(maxsize=32)
def _media_types(lines: tuple[bytes, ...]) -> tuple[bytes, ...]:
    listed = b",".join(lines).lower().split(b",")
    return tuple(each.partition(b";")[0].strip() for each in listed)


@lru_cache(maxsize=32)
def _allows_json(lines: tuple[bytes, ...]) -> bool:
    """The narrowest range that includes JSON decides."""
    weights: dict[bytes, float] = {}
    for each in b",".join(lines).lower().split(b","):
        media_type, _, parameters = each.partition(b";")
        weights[media_type.strip()] = _weight(parameters)
    return next((weights[each] > 0 for each in _JSON_RANGES if each in weights), False)


def _weight(parameters: bytes) -> float:
    """The `q` of a media range; anything but a number is ignored."""
    for each in parameters.split(b";"):
        name, _, value = each.partition(b"=")
        if name.strip() == b"q":
            with suppress(ValueError):
                return float(value)
    return 1.0


def with_plain_media_types(scope: Scope, values: HeaderValues) -> Scope:
    """The request with media types in the only spelling that the SDK accepts, in one line each."""
    others = [field for field in scope["headers"] if field[0] not in _MEDIA_FIELDS]
    accept = b", ".join([JSON, *values[b"accept"]])
    return {**scope, "headers": [(b"content-type", JSON), (b"accept", accept), *others]}
