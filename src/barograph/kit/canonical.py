"""Canonical JSON (RFC 8785) and its digest: the same bytes for the same content, everywhere."""

from hashlib import sha256

import rfc8785

Json = bool | int | float | str | None | list["Json"] | tuple["Json", ...] | dict[str, "Json"]


def canonical(value: Json) -> str:
    """Write a value as canonical JSON."""
    return rfc8785.dumps(value).decode()


def digest(text: str) -> str:
    """SHA-256 of a text in lower-case hex."""
    return sha256(text.encode()).hexdigest()
