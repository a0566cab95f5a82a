"""What pages say about a coin at all venues, and what is missing from it (pure)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barograph.markets.cross_coins import CrossCoin, Missing
from barograph.markets.symbols import ContractIndex, has_page, symbol_of
from barograph.site.paths import CROSS_FOLDER, MARKETS_FOLDER
from barograph.venues.records import Perpetual
from barograph.venues.registry import VENUES


def titles_of(venues: Iterable[str]) -> str:
    """The names of venues, each once."""
    return ", ".join(dict.fromkeys(VENUES[venue].title for venue in venues))


def missing_text(missing: Sequence[Missing]) -> str:
    """Which venues are missing from a total; empty if none is."""
    return f"without {titles_of(each.venue for each in missing)}" if missing else ""


class Priced(NamedTuple):
    """The contract whose price stands for a coin."""

    venue: str
    contract: Perpetual


def priced_entry(coin: CrossCoin) -> Priced | None:
    """The contract with the largest open interest."""
    for each in coin.venues:
        if each.venue == coin.deepest and each.contract is not None:
            return Priced(each.venue, each.contract)
    return None


def liquidated_sides(coin: CrossCoin) -> tuple[float, float] | None:
    """Liquidated longs and shorts of 24 hours that we saw; None if those of no venue are known."""
    seen = [
        each.liquidated_usd
        for each in coin.venues
        if each.liquidated_usd is not None and each.state != "different asset"
    ]
    return (sum(longs for longs, _ in seen), sum(shorts for _, shorts in seen)) if seen else None


def coin_path(coin: CrossCoin, in_use: str, index: ContractIndex) -> str | None:
    """The page of a coin: that of its contract at the venue in use, or the comparison."""
    for each in coin.venues:
        if each.venue == in_use and each.contract is not None:
            symbol = symbol_of(index, each.contract)
            if symbol is not None:
                return f"{MARKETS_FOLDER}{symbol}"
    return f"{CROSS_FOLDER}{coin.asset}" if has_page(coin.asset) else None
