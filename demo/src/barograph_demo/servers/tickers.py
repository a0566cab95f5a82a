"""A contract as the exchange shows it: ticker, account ratio and specification.

https://bybit-exchange.github.io/docs/v5/market/tickers
https://bybit-exchange.github.io/docs/v5/market/long-short-ratio
https://bybit-exchange.github.io/docs/v5/market/instrument
"""

from functools import lru_cache
from typing import Final

import msgspec

from barograph.kit.timestamps import DAY, MINUTE
from barograph_demo.world.coin_market import DayChange, MarketState
from barograph_demo.world.contracts import FUTURE, PRE_LAUNCH, Contract
from barograph_demo.world.randomness import key, mix
from barograph_demo.world.world import World

CLOSED: Final = "Closed"

_LIQUID_USD: Final = 1e9
_YEAR_DAYS: Final = 365

_PERPETUAL_FIELDS: Final = {
    "fundingRate": "%s",
    "nextFundingTime": "%d",
    "predictedDeliveryPrice": "",
    "basisRate": "",
    "basis": "",
    "basisRateYear": "",
    "deliveryFeeRate": "",
}

_FUTURE_FIELDS: Final = {
    "fundingRate": "",
    "nextFundingTime": "0",
    "fundingIntervalHour": "",
    "fundingCap": "",
    "predictedDeliveryPrice": "0.0",
    "basisRate": "%.8f",
    "basis": "%.2f",
    "basisRateYear": "%.8f",
    "deliveryFeeRate": "0",
}


@lru_cache(maxsize=4096)
def decimal(value: float) -> str:
    """A number as the exchange writes rates: no exponent, no zeros at the end."""
    text = f"{value:.8f}".rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text


def ticker_json(world: World, contract: Contract, now: int) -> str:
    """The ticker of one contract as JSON.

    It is formatted in one step, because requests for all contracts are frequent.
    """
    market, carry = world.market(contract), world.carry(contract, now)
    state = market.state(now)
    values = _prices(state, market.day_change(now), carry) + _positions(contract, state, carry)
    if contract.kind == FUTURE:
        values += _delivery(contract, state, carry, now)
    else:
        rate = decimal(world.funding_rate(contract, now))
        values += (rate, world.next_funding(contract, now))
    return _template(contract) % (values + _book(contract, state.last * carry, now))


@lru_cache(maxsize=512)
def _template(contract: Contract) -> str:
    """A row with placeholders in the order of the functions below."""
    return msgspec.json.encode(_fields(contract)).decode()


def _fields(contract: Contract) -> dict[str, str]:
    """Every field of a row, as a fixed value or a placeholder."""
    price, size = f"%.{contract.price_decimals}f", f"%.{contract.size_decimals}f"
    fields = {
        "symbol": contract.symbol,
        "lastPrice": price,
        "indexPrice": price,
        "markPrice": price,
        "prevPrice24h": price,
        "price24hPcnt": "%.6f",
        "highPrice24h": price,
        "lowPrice24h": price,
        "prevPrice1h": price,
        "openInterest": size,
        "openInterestValue": "%.2f",
        "singleOpenInterest": size,
        "singleOpenInterestValue": "%.2f",
        "turnover24h": "%.4f",
        "volume24h": "%.4f",
        **(_FUTURE_FIELDS if contract.kind == FUTURE else _PERPETUAL_FIELDS),
        "deliveryTime": str(contract.delivery),
        "preOpenPrice": "",
        "preQty": "",
        "curPreListingPhase": "ContinuousTrading" if contract.status == PRE_LAUNCH else "",
        "bid1Price": price,
        "bid1Size": size,
        "ask1Price": price,
        "ask1Size": size,
    }
    if contract.kind != FUTURE:
        fields["fundingIntervalHour"] = str(contract.funding_hours)
        fields["fundingCap"] = decimal(contract.funding_cap)
    return fields


def _prices(state: MarketState, day: DayChange, carry: float) -> tuple[object, ...]:
    return (
        state.last * carry,
        state.index_price,
        state.mark_price * carry,
        day.day_ago * carry,
        state.last / day.day_ago - 1.0,
        day.high * carry,
        day.low * carry,
        day.hour_ago * carry,
    )


def _positions(contract: Contract, state: MarketState, carry: float) -> tuple[object, ...]:
    """Open interest, of both sides and of one side, and turnover."""
    price = state.last * carry
    interest = contract.open_interest_usd / contract.price * state.interest
    value = interest * price
    turnover = contract.open_interest_usd * state.turnover
    return (2.0 * interest, 2.0 * value, interest, value, turnover, turnover / price)


def _delivery(contract: Contract, state: MarketState, carry: float, now: int) -> tuple[object, ...]:
    index = state.index_price
    basis = state.last * carry - index
    years = max(1 / _YEAR_DAYS, (contract.delivery - now) / DAY / _YEAR_DAYS)
    return (basis / index, basis, basis / index / years)


@lru_cache(maxsize=512)
def _depth(contract: Contract) -> tuple[int, float, float]:
    """The order book's random key, its price tick and its typical size at the best price."""
    step = 10.0**-contract.size_decimals
    typical = contract.open_interest_usd / contract.price / 50_000
    return key("book", contract.symbol), 10.0**-contract.price_decimals, max(typical, step)


def _book(contract: Contract, last: float, now: int) -> tuple[object, ...]:
    """The best bid and ask: one tick apart, with the last trade at one of them."""
    own, tick, typical = _depth(contract)
    state = mix(own ^ (now // 1000))
    bid = last - tick if state & 1 else last
    bid_size, ask_size = state % 997 / 100.0, state // 997 % 991 / 100.0
    return (bid, typical * (1.0 + bid_size), bid + tick, typical * (1.0 + ask_size))


def ratio_json(world: World, contract: Contract, time: int) -> str:
    """The row of one count."""
    longs = f"{world.long_share(contract, time):.4f}"
    return (
        f'{{"symbol":"{contract.symbol}","buyRatio":"{longs}",'
        f'"sellRatio":"{1 - float(longs):.4f}","timestamp":"{time}"}}'
    )


def instrument(contract: Contract, status: str, epoch: int, now: int) -> dict[str, object]:
    """The specification of one contract; a fault may have changed its `status`."""
    pre_market = contract.status == PRE_LAUNCH
    is_future = contract.kind == FUTURE
    cap = 0.0 if is_future else contract.funding_cap
    return {
        "symbol": contract.symbol,
        "contractType": contract.kind,
        "status": status,
        "baseCoin": contract.coin,
        "quoteCoin": contract.quote,
        "launchTime": str(contract.launched(now)),
        "deliveryTime": str(contract.delivery),
        "deliveryFeeRate": "0" if is_future else "",
        "priceScale": str(contract.price_decimals),
        **_filters(contract),
        "unifiedMarginTrade": True,
        "fundingInterval": 0 if is_future else contract.funding_hours * 60,
        "settleCoin": contract.quote,
        "copyTrading": "none" if pre_market or is_future else "both",
        "upperFundingRate": decimal(cap),
        "lowerFundingRate": decimal(-cap),
        "isPreListing": pre_market,
        "preListingInfo": _pre_listing(epoch) if pre_market else None,
        "riskParameters": {"priceLimitRatioX": "0.01", "priceLimitRatioY": "0.02"},
        "displayName": contract.symbol.replace("PERP", "USDC"),
        "symbolType": contract.symbol_type,
        "forbidUplWithdrawal": False,
        "symbolId": key(contract.symbol) % 100_000,
        **dict.fromkeys(("fullName", "marketRegion", "underlyingTicker"), ""),
        "tags": [],
    }


def _filters(contract: Contract) -> dict[str, object]:
    places, sizes = contract.price_decimals, contract.size_decimals
    most = f"{contract.open_interest_usd * 0.02 / contract.price:.{sizes}f}"
    liquid = contract.open_interest_usd > _LIQUID_USD
    return {
        "leverageFilter": {
            "minLeverage": "1",
            "maxLeverage": "100.00" if liquid else "50.00",
            "leverageStep": "0.01",
        },
        "priceFilter": {
            "minPrice": contract.tick_size,
            "maxPrice": f"{contract.price * 20:.{places}f}",
            "tickSize": contract.tick_size,
        },
        "lotSizeFilter": {
            "maxOrderQty": most,
            "minOrderQty": contract.size_step,
            "qtyStep": contract.size_step,
            "postOnlyMaxOrderQty": most,
            "maxMktOrderQty": most,
            "minNotionalValue": "5",
        },
    }


def _pre_listing(epoch: int) -> dict[str, object]:
    """The auction phases of a contract before its launch."""
    begin = epoch - DAY
    lengths = {"CallAuction": 50, "CallAuctionNoCancel": 5, "CrossMatching": 5}
    phases: list[dict[str, str]] = []
    for phase, minutes in lengths.items():
        end = begin + minutes * MINUTE
        phases.append({"phase": phase, "startTime": str(begin), "endTime": str(end)})
        begin = end
    phases.append({"phase": "ContinuousTrading", "startTime": str(begin), "endTime": ""})
    return {
        "curAuctionPhase": "ContinuousTrading",
        "phases": phases,
        "auctionFeeInfo": {
            "auctionFeeRate": "0",
            "takerFeeRate": "0.001",
            "makerFeeRate": "0.0004",
        },
        "skipCallAuction": False,
    }
