"""The `symbol` parameter, byte for byte (pure)."""

import re

from barograph.errors import InvalidRequest
from barograph.kit.query import Query

DEFAULT = "BTC"
MAX_LENGTH = 15
PATTERN = f"^[A-Za-z0-9]{{1,{MAX_LENGTH}}}$"
RULE = f"symbol must be 1 to {MAX_LENGTH} letters or digits"
INVALID = f"{RULE}, given once"

_SYMBOL = re.compile(rf"[A-Za-z0-9]{{1,{MAX_LENGTH}}}", re.ASCII)


def is_normalized(name: str) -> bool:
    """Whether a name is what `symbol_from_query` could return."""
    return _SYMBOL.fullmatch(name) is not None and name == name.upper()


def normalized(text: str) -> str | None:
    """A text as the symbol that it is, in upper case; None where it can be none."""
    # Looked at before it is turned: outside ASCII, other letters may become A to Z in upper case.
    return text.upper() if _SYMBOL.fullmatch(text) is not None else None


def symbol_from_query(query: Query) -> str:
    """Read the symbol of a query, in upper case; BTC when it is absent.

    Raises:
        InvalidRequest: it is empty, malformed or given more than once.
    """
    given = query.getlist("symbol")
    if not given:
        return DEFAULT
    symbol = normalized(given[0]) if len(given) == 1 else None
    if symbol is None:
        raise InvalidRequest(INVALID)
    return symbol
