"""Which contract a symbol means (pure), for the API, the pages and the downloads alike."""

from collections.abc import Mapping

from barograph.markets.records import Perpetual, Perpetuals
from barograph.markets.symbols import is_normalized, normalized

Index = Mapping[str, Perpetual]
"""The contracts of one reading by base asset and by full name, in upper case."""


def index_of(reading: Perpetuals) -> Index:
    """Index a reading: an asset goes before a full name, and of two alike the first counts.

    So it does for `majors_of`: what the regime rests on is what BTC means.
    """
    later_first = reading.contracts[::-1]
    by_contract = {each.contract.upper(): each for each in later_first}
    return by_contract | {each.base.upper(): each for each in later_first}


def contract_of(index: Index, symbol: str) -> Perpetual | None:
    """The contract that somebody means, in any case; None for what is no symbol or not listed."""
    name = normalized(symbol)
    return None if name is None else index.get(name)


def symbol_of(index: Index, perpetual: Perpetual) -> str | None:
    """The one symbol of a contract, by which its page goes; None where no symbol can name it.

    Two contracts may share an asset: the one that does not have its name goes by the full name.
    """
    names = (perpetual.base.upper(), perpetual.contract.upper())
    return next((name for name in names if _names(index, name, perpetual)), None)


def _names(index: Index, name: str, perpetual: Perpetual) -> bool:
    return is_normalized(name) and index.get(name) is perpetual
