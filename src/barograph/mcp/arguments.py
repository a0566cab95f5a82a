"""What callers give to tools (pure).

An argument that is null counts as absent, because callers that must name every argument send that.
"""

from collections.abc import Mapping
from typing import Any

from barograph.briefs.limits import DEFAULT as DEFAULT_LIMIT
from barograph.briefs.limits import HIGHEST, LOWEST
from barograph.errors import InvalidRequest
from barograph.markets.symbols import DEFAULT as DEFAULT_SYMBOL
from barograph.markets.symbols import is_normalized
from barograph.mcp.tools import Tool

Arguments = Mapping[str, Any]

_NOT_A_LIMIT = f"limit must be a whole number; {LOWEST} to {HIGHEST} are possible"
_NOT_A_SYMBOL = "symbol must be 1 to 15 letters or digits, such as BTC or BTCUSDT"


def check_names(tool: Tool, given: Arguments) -> None:
    """Look whether a tool knows every argument.

    Raises:
        InvalidRequest: it does not.
    """
    if not given.keys() <= tool.parameters.keys():
        known = " and ".join(tool.parameters)
        takes = f"only {known}" if known else "no arguments"
        raise InvalidRequest(f"{tool.name} takes {takes}")


def limit_of(given: Arguments) -> int:
    """Read `limit`: any whole number is brought into the range.

    Raises:
        InvalidRequest: it is something else.
    """
    limit = given.get("limit")
    if limit is None:
        return DEFAULT_LIMIT
    is_whole = isinstance(limit, int) or (isinstance(limit, float) and limit.is_integer())
    if isinstance(limit, bool) or not is_whole:
        raise InvalidRequest(_NOT_A_LIMIT)
    return int(min(max(limit, LOWEST), HIGHEST))


def symbol_of(given: Arguments) -> str:
    """Read `symbol`, in upper case.

    Raises:
        InvalidRequest: it is empty or malformed.
    """
    symbol = given.get("symbol")
    if symbol is None:
        return DEFAULT_SYMBOL
    # ASCII first: there are letters elsewhere that become ASCII ones in upper case.
    if not isinstance(symbol, str) or not symbol.isascii() or not is_normalized(symbol.upper()):
        raise InvalidRequest(_NOT_A_SYMBOL)
    return symbol.upper()
