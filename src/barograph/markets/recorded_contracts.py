"""Contracts that have a record, listed or not."""

from barograph.errors import NotFound
from barograph.kit.database import Queryable
from barograph.markets.aliases import UNKNOWN_SYMBOL, find_contract, require_name
from barograph.markets.symbols import ContractIndex
from barograph.markets.venues import VENUES


async def recorded_contract(
    queryable: Queryable, venue: str, listed: ContractIndex, text: str
) -> str:
    """The full name of the contract that a request names, even if it is no longer listed.

    Raises:
        InvalidRequest: the text can't name any.
        NotFound: it names none that we know.
    """
    found = find_contract(listed, require_name(text))
    if found is not None:
        return found.contract
    name = text.upper() if text.isascii() else text  # upper() makes ASCII of some others
    for contract in dict.fromkeys((text, name, VENUES[venue].contract(name))):
        if await queryable.fetch(_RECORDED, venue, contract):
            return contract
    raise NotFound(UNKNOWN_SYMBOL)


def symbol_from(venue: str, contract: str) -> str:
    """The base asset in upper case, by the contract's name, which outlives the listing."""
    return (contract.removesuffix(VENUES[venue].suffix) or contract).upper()


_RECORDED = """
SELECT 1 WHERE EXISTS (
    SELECT 1 FROM readings WHERE venue = $1 AND resolution = 'hour' AND contract = $2)
OR EXISTS (SELECT 1 FROM liquidations WHERE venue = $1 AND contract = $2)
"""
