"""Aster as the markets' `Exchange`: Binance's wire format at its own address.

https://github.com/asterdex/api-docs . It lists stocks too, often without a class, and contracts
in USD, which we leave out. It publishes no long-account shares and no past open interest.
"""

from barograph.venues.aster.facts import COINS, VENUE
from barograph.venues.binance import decode
from barograph.venues.binance.exchange import PAST, BinanceExchange

UNKNOWN = "of no class that we know"


def class_of(row: decode.Row) -> str:
    """What a contract follows, by the class that is sent, or by the name of its coin."""
    coin, _ = VENUE.coin_of(str(row.base_asset))
    if row.underlying_type is None:
        return decode.COIN if coin in COINS else UNKNOWN
    return decode.class_of(row)


class AsterExchange(BinanceExchange):
    """Aster's public data of USDT perpetuals. It allows the same weight per minute as Binance."""

    venue = VENUE
    past = PAST._replace(open_interest=None, long_accounts=None)
    price_path = "/fapi/v1/ticker/price"
    class_of = staticmethod(class_of)
    known_classes = decode.OTHER_CLASSES | {UNKNOWN}


ADAPTER = AsterExchange
