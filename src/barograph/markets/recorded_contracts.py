"""Contracts that have a record, listed or not."""

from barograph.errors import NotFound
from barograph.kit.database import Queryable
from barograph.markets.aliases import UNKNOWN_SYMBOL, find_contract, require_name
from barograph.markets.records import VENUE
from barograph.markets.symbols import ContractIndex

QUOTE = "USDT"
"""The suffix of every contract name, after the base asset."""


async def recorded_contract(queryable: Queryable, listed: ContractIndex, text: str) -> str:
    """The full name of the contract that a request names, even if it is no longer listed.

    Raises:
        InvalidRequest: the text can't name any.
        NotFound: it names none that we know.
    """
    found = find_contract(listed, require_name(text))
    if found is not None:
        return found.contract
    name = text.upper() if text.isascii() else text  # upper() makes ASCII of some others
    for contract in (name, name + QUOTE):
        if await queryable.fetch(_RECORDED, VENUE, contract):
            return contract
    raise NotFound(UNKNOWN_SYMBOL)


def symbol_from(contract: str) -> str:
    """The base asset by the contract's name, which outlives the listing."""
    return contract.removesuffix(QUOTE) or contract


_RECORDED = """
SELECT 1 WHERE EXISTS (
    SELECT 1 FROM readings WHERE venue = $1 AND resolution = 'hour' AND contract = $2)
OR EXISTS (SELECT 1 FROM liquidations WHERE venue = $1 AND contract = $2)
"""
