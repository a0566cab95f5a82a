"""JSON in canonical form, and strict parsing of JSON from outside (pure)."""

import json
import re
from hashlib import sha256
from typing import Any

import msgspec
import rfc8785

Json = bool | int | float | str | None | list["Json"] | tuple["Json", ...] | dict[str, "Json"]


def canonical(value: Json) -> str:
    """Write a value as canonical JSON (RFC 8785)."""
    return rfc8785.dumps(value).decode()


def digest(text: str) -> str:
    """SHA-256 of a text in lower-case hex."""
    return sha256(text.encode()).hexdigest()


MAX_NESTING = 16

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def strict_object(body: bytes) -> dict[str, Any]:
    """Read one object: UTF-8, no repeated member, no NaN, no deep nesting.

    Parsers that disagree about a repeated member disagree about what was signed.

    Raises:
        ValueError: it is not such an object.
    """
    # Only many brackets can nest deeply, so most bodies need no scan.
    if body.count(b"{") + body.count(b"[") > MAX_NESTING and _nesting(body) > MAX_NESTING:
        raise ValueError("it is nested too deeply")
    document = msgspec.json.decode(body)
    # A body that encodes back to itself repeats no member; others need the slow parser.
    if msgspec.json.encode(document) != body:
        document = _DECODER.decode(body.decode())
    if not isinstance(document, dict):
        raise ValueError("it is not an object")  # noqa: TRY004
    return document


def _nesting(text: bytes) -> int:
    # Without escapes every second quote ends a string, which is faster to split.
    outside = _STRING.sub(b"", text) if b"\\" in text else b"".join(text.split(b'"')[::2])
    deepest = depth = 0
    for bracket in outside.translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member comes twice")
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_members)
