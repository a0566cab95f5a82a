"""The `symbol` parameter, byte for byte (pure)."""

import re
from urllib.parse import parse_qsl

from barograph.errors import InvalidRequest

DEFAULT = "BTC"
MAX_LENGTH = 15
PATTERN = f"^[A-Za-z0-9]{{1,{MAX_LENGTH}}}$"
INVALID = f"symbol must be 1 to {MAX_LENGTH} letters or digits, given once"

_SYMBOL = re.compile(rf"[A-Za-z0-9]{{1,{MAX_LENGTH}}}", re.ASCII)


def is_normalized(name: str) -> bool:
    """Whether a name is what `symbol_from_query` could return."""
    return _SYMBOL.fullmatch(name) is not None and name == name.upper()


def normalized(text: str) -> str | None:
    """A text as the symbol that it is, in upper case; None where it can be none."""
    # Looked at before it is turned: outside ASCII, other letters may become A to Z in upper case.
    return text.upper() if _SYMBOL.fullmatch(text) is not None else None


def symbol_from_query(query_string: bytes) -> str:
    """Read the symbol of a raw query string, in upper case; BTC when it is absent.

    The raw bytes are read because a framework's parser drops empty values and picks one of
    several, and because `$` would let a trailing newline pass.

    Raises:
        InvalidRequest: it is empty, malformed or given more than once.
    """
    pairs = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True)
    given = [value for name, value in pairs if name == "symbol"]
    if not given:
        return DEFAULT
    if len(given) > 1 or _SYMBOL.fullmatch(given[0]) is None:
        raise InvalidRequest(INVALID)
    return given[0].upper()
