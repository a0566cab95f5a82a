"""The `symbol` parameter, and finding contracts by it (pure)."""

import re
from collections.abc import Mapping

from starlette.datastructures import QueryParams

from barograph.errors import InvalidRequest
from barograph.markets.records import Perpetual, Perpetuals, majors_of

DEFAULT_SYMBOL = "BTC"
MAX_LENGTH = 15
PATTERN = f"^[A-Za-z0-9]{{1,{MAX_LENGTH}}}$"
RULE = f"symbol must be 1 to {MAX_LENGTH} letters or digits"
INVALID = f"{RULE}, given once"

_SYMBOL = re.compile(rf"[A-Za-z0-9]{{1,{MAX_LENGTH}}}", re.ASCII)


def is_normalized(name: str) -> bool:
    """Whether a name is one that `symbol_from_query` could return."""
    return _SYMBOL.fullmatch(name) is not None and name == name.upper()


def normalized(text: str) -> str | None:
    """A symbol in upper case; None if it is not a symbol."""
    # Checked before upper(), which turns some non-ASCII letters into A to Z.
    return text.upper() if _SYMBOL.fullmatch(text) is not None else None


def symbol_from_query(query: QueryParams) -> str:
    """Read the symbol of a query, in upper case; BTC when it is absent.

    Raises:
        InvalidRequest: it is empty, malformed or repeated.
    """
    given = query.getlist("symbol")
    if not given:
        return DEFAULT_SYMBOL
    symbol = normalized(given[0]) if len(given) == 1 else None
    if symbol is None:
        raise InvalidRequest(INVALID)
    return symbol


ContractIndex = Mapping[str, Perpetual]
"""The contracts of one reading by base asset and by full name, in upper case."""


def index_of(reading: Perpetuals) -> ContractIndex:
    """Index a reading by asset and by full name.

    An asset wins over a full name. If two contracts share an asset, the first wins, but BTC is the
    contract behind the regime.
    """
    later_first = reading.contracts[::-1]
    by_contract = {each.contract.upper(): each for each in later_first}
    by_asset = {each.base.upper(): each for each in later_first}
    return by_contract | by_asset | majors_of(reading)


def symbol_of(index: ContractIndex, perpetual: Perpetual) -> str | None:
    """The symbol of a contract's page; None if no symbol can name it.

    If two contracts share an asset, the second is named by its full name.
    """
    names = (perpetual.base.upper(), perpetual.contract.upper())
    return next((name for name in names if _names(index, name, perpetual)), None)


def _names(index: ContractIndex, name: str, perpetual: Perpetual) -> bool:
    return is_normalized(name) and index.get(name) is perpetual
