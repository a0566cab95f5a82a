"""Bybit's list of contracts, and its words for what a contract follows."""

from collections.abc import Sequence

from barograph.upstream.bybit.decode import Instrument, InstrumentPage
from barograph.upstream.contract_cache import ListedContracts

CRYPTO_CLASSES = frozenset({"", "innovation"})
OTHER_CLASSES = frozenset({"stock", "commodity", "forex", "ETF"})
"""The exchange's words for perpetuals that follow something else."""

UNCLASSIFIED = "unclassified"
"""A contract without a word in a list that has words for others."""


class ContractList(ListedContracts[Instrument], frozen=True):
    """The complete list of contracts."""

    @classmethod
    def of(cls, pages: Sequence[InstrumentPage]) -> "ContractList":
        """Join the pages of a list.

        A list without any class is older than the field, and all of it is crypto.
        """
        instruments = [each for page in pages for each in page.instruments]
        has_classes = any(each.asset_class is not None for each in instruments)
        usual = UNCLASSIFIED if has_classes else ""
        classes = {
            each.contract: usual if each.asset_class is None else each.asset_class
            for each in instruments
        }
        others = {name: word for name, word in classes.items() if word not in CRYPTO_CLASSES}
        kept = {each.contract: each for each in instruments if each.contract not in others}
        symbols = frozenset().union(*(page.symbols for page in pages))
        return cls(kept, symbols, others, OTHER_CLASSES)
