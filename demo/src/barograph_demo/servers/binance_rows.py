"""A contract as the simulated Binance shows it: decimals are texts, times are numbers.

https://developers.binance.com/docs/derivatives/usds-margined-futures/market-data/rest-api
"""

from typing import Final

from barograph.kit.timestamps import DAY, HOUR, SECOND
from barograph_demo.servers.faulty_market import FaultyMarket
from barograph_demo.world.candles import Candle
from barograph_demo.world.randomness import key
from barograph_demo.world.venues import COIN, TRADING, VenueContract, VenueMarket
from barograph_demo.world.world import INTEREST_8H, SimulatedSettlement

Row = dict[str, object]

_NO_DELIVERY: Final = 4_133_404_800_000
_SUBTYPES: Final = {COIN: ["Crypto"], "INDEX": ["Index", "Crypto"]}
_TRADE_USD: Final = 400


def _texts(places: int, **values: float) -> dict[str, str]:
    return {name: f"{value:.{places}f}" for name, value in values.items()}


def premium_index(market: FaultyMarket, contract: VenueContract, now: int) -> Row:
    """Mark price and running funding rate, which Binance computes once a second."""
    time = now - now % SECOND
    texts = _texts(
        8,
        markPrice=market.mark(contract, time),
        indexPrice=market.index(contract, time),
        estimatedSettlePrice=market.index(contract, time - HOUR // 2),
        lastFundingRate=market.funding_rate(contract, time),
        interestRate=INTEREST_8H,
    )
    following = market.market.next_funding(contract, time)
    return {"symbol": contract.name, **texts, "nextFundingTime": following, "time": time}


def price(market: FaultyMarket, contract: VenueContract, now: int) -> Row:
    """The last price, with the time of its trade."""
    time = _last_trade(contract, now)
    last = _texts(contract.price_decimals, price=market.price(contract, time))
    return {"symbol": contract.name, **last, "time": time}


def day_ticker(market: FaultyMarket, contract: VenueContract, now: int) -> Row:
    """The changes of the last 24 hours."""
    start, time = now - DAY, _last_trade(contract, now)
    first, last = market.price(contract, start), market.price(contract, time)
    turnover = market.market.quote(contract, now).turnover
    prices = {"openPrice": first, "lastPrice": last, "priceChange": last - first}
    prices |= {"highPrice": max(first, last), "lowPrice": min(first, last)}
    return {
        "symbol": contract.name,
        **_texts(contract.price_decimals, weightedAvgPrice=(first + last) / 2, **prices),
        **_texts(contract.size_decimals, lastQty=_TRADE_USD / last, volume=turnover / last),
        **_texts(3, priceChangePercent=100 * (last / first - 1), quoteVolume=turnover),
        "openTime": start,
        "closeTime": time,
        **dict.fromkeys(("firstId", "lastId", "count"), int(turnover / _TRADE_USD)),
    }


def _last_trade(contract: VenueContract, now: int) -> int:
    """When a contract last traded: some are quiet for a few seconds."""
    return now - key(contract.name) % (3 * SECOND)


def funding_info(market: FaultyMarket, contract: VenueContract, _now: int) -> Row:
    """The funding interval and cap."""
    cap = contract.funding_cap
    return {
        "symbol": contract.name,
        **_texts(8, adjustedFundingRateCap=cap, adjustedFundingRateFloor=-cap),
        "fundingIntervalHours": market.stated_hours(contract),
        "disclaimer": False,
        "updateTime": contract.launch,
    }


def open_interest(market: FaultyMarket, contract: VenueContract, now: int) -> Row:
    """Open interest in units of the contract, counting one side."""
    units = _texts(contract.size_decimals, openInterest=market.open_interest(contract, now))
    return {"symbol": contract.name, **units, "time": now}


def past_open_interest(market: VenueMarket, contract: VenueContract, time: int) -> Row:
    """Open interest at a past time."""
    quote = market.quote(contract, time)
    worth = quote.open_interest * quote.mark_price
    texts = _texts(8, sumOpenInterest=quote.open_interest, sumOpenInterestValue=worth)
    return {"symbol": contract.name, **texts, "timestamp": time}


def accounts(market: VenueMarket, contract: VenueContract, time: int) -> Row:
    """The shares of long and short accounts, as fractions."""
    longs = round(market.long_share(contract, time), 4)
    shorts = 1 - longs
    texts = _texts(4, longAccount=longs, longShortRatio=longs / shorts, shortAccount=shorts)
    return {"symbol": contract.name, **texts, "timestamp": time}


def settlement(market: VenueMarket, contract: VenueContract, settled: SimulatedSettlement) -> Row:
    """A past funding payment, stamped a few milliseconds late."""
    return {
        "symbol": contract.name,
        "fundingTime": settled.time + key(contract.name, settled.time) % 12,
        **_texts(
            8, fundingRate=settled.rate, markPrice=market.quote(contract, settled.time).mark_price
        ),
        "rateType": "Regular",
    }


def candle(contract: VenueContract, hour: Candle) -> list[object]:
    """An hourly candle; takers bought half of its volume."""
    prices = (hour.open, hour.high, hour.low, hour.close)
    volumes = [f"{hour.volume * share:.{contract.size_decimals}f}" for share in (1.0, 0.5)]
    turnovers = [f"{hour.turnover * share:.5f}" for share in (1.0, 0.5)]
    return [
        hour.start,
        *(f"{each:.{contract.price_decimals}f}" for each in prices),
        *(volumes[0], hour.start + HOUR - 1, turnovers[0]),
        *(int(hour.turnover / _TRADE_USD), volumes[1], turnovers[1], "0"),
    ]


def instrument(contract: VenueContract) -> Row:
    """The specification of a contract, without the rules for orders that nobody reads here."""
    is_crypto = contract.asset_class in _SUBTYPES
    return {
        "symbol": contract.name,
        "pair": contract.name,
        "contractType": "PERPETUAL" if is_crypto else "TRADIFI_PERPETUAL",
        "deliveryDate": _NO_DELIVERY,
        "onboardDate": contract.launch,
        "status": TRADING if contract.status == TRADING else "SETTLING",
        "baseAsset": contract.base,
        "quoteAsset": contract.quote,
        "marginAsset": contract.quote,
        "pricePrecision": contract.price_decimals,
        "quantityPrecision": contract.size_decimals,
        "underlyingType": contract.asset_class,
        "underlyingSubType": _SUBTYPES.get(contract.asset_class, ["TradFi"]),
    }
