"""How many accounts are long in a contract, as the exchange writes it.

https://bybit-exchange.github.io/docs/v5/market/long-short-ratio
"""

from barograph.demo.contracts import Contract
from barograph.demo.world import RATIO_PERIOD, World


def ratio_json(world: World, contract: Contract, time: int) -> str:
    """The row of one count, in one formatting: a long past has very many of them."""
    longs = f"{world.long_share(contract, time):.4f}"
    return (
        f'{{"symbol":"{contract.symbol}","buyRatio":"{longs}",'
        f'"sellRatio":"{1 - float(longs):.4f}","timestamp":"{time}"}}'
    )


def newest_ratio(world: World, contract: Contract, now: int) -> bytes:
    """What the exchange answers about the newest count, without the cursor of those before it.

    Who walks through a long past, looking at all contracts at many steps, never turns that page.
    """
    row = ratio_json(world, contract, now - now % RATIO_PERIOD)
    return f'{{"list":[{row}]}}'.encode()
