"""A contract as the exchange shows it: ticker, account ratio and specification.

https://bybit-exchange.github.io/docs/v5/market/tickers
https://bybit-exchange.github.io/docs/v5/market/long-short-ratio
https://bybit-exchange.github.io/docs/v5/market/instrument
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec

from barograph.kit.timestamps import DAY, MINUTE
from barograph_demo.world.coin_market import TickerInputs
from barograph_demo.world.contracts import FUTURE, PRE_LAUNCH, Contract
from barograph_demo.world.randomness import key, mix
from barograph_demo.world.world import RATIO_PERIOD, World

CLOSED: Final = "Closed"

_LIQUID_USD: Final = 1e9
_YEAR_DAYS: Final = 365

_POSITION_FIELDS: Final = (
    "symbol",
    "lastPrice",
    "singleOpenInterest",
    "singleOpenInterestValue",
    "fundingRate",
    "nextFundingTime",
    "fundingIntervalHour",
)

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
    inputs = world.market(contract).ticker_inputs(now)
    carry = world.carry(contract, now)
    values = _prices(inputs, carry) + _positions(contract, inputs, carry)
    if contract.kind == FUTURE:
        values += _delivery(contract, inputs, carry, now)
    else:
        rate = decimal(world.funding_rate(contract, now))
        values += (rate, world.next_funding(contract, now))
    return _template(contract) % (values + _book(contract, inputs.last * carry, now))


def position_tickers(world: World, contracts: Iterable[Contract], now: int) -> bytes:
    """The tickers of perpetuals, with only the price, open interest and funding.

    The replay reads all contracts at many times; the other fields, most of them about the last
    day, would only cost time.
    """
    rows = ",".join([_position_json(world, contract, now) for contract in contracts])
    return f'{{"category":"linear","list":[{rows}]}}'.encode()


def _position_json(world: World, contract: Contract, now: int) -> str:
    price = world.price(contract, now)
    coins = world.open_interest(contract, now)
    rate = decimal(world.funding_rate(contract, now))
    values = (price, coins, coins * price, rate, world.next_funding(contract, now))
    return _position_template(contract) % values


@lru_cache(maxsize=512)
def _position_template(contract: Contract) -> str:
    """A row with placeholders in the order of `_position_json`."""
    fields = _fields(contract)
    return msgspec.json.encode({name: fields[name] for name in _POSITION_FIELDS}).decode()


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


def _prices(inputs: TickerInputs, carry: float) -> tuple[object, ...]:
    last, day_ago, hour_ago, high, low, premium, _, _ = inputs
    index = last / (1.0 + premium)
    return (
        last * carry,
        index,
        index * (1.0 + 0.9 * premium) * carry,
        day_ago * carry,
        last / day_ago - 1.0,
        high * carry,
        low * carry,
        hour_ago * carry,
    )


def _positions(contract: Contract, inputs: TickerInputs, carry: float) -> tuple[object, ...]:
    """Open interest, of both sides and of one side, and turnover."""
    price = inputs.last * carry
    interest = contract.open_interest_usd / contract.price * inputs.interest
    value = interest * price
    turnover = contract.open_interest_usd * inputs.turnover
    return (2.0 * interest, 2.0 * value, interest, value, turnover, turnover / price)


def _delivery(
    contract: Contract, inputs: TickerInputs, carry: float, now: int
) -> tuple[object, ...]:
    index = inputs.last / (1.0 + inputs.premium)
    basis = inputs.last * carry - index
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
    """The row of one count, formatted in one step because the replay needs very many."""
    longs = f"{world.long_share(contract, time):.4f}"
    return (
        f'{{"symbol":"{contract.symbol}","buyRatio":"{longs}",'
        f'"sellRatio":"{1 - float(longs):.4f}","timestamp":"{time}"}}'
    )


def newest_ratio(world: World, contract: Contract, now: int) -> bytes:
    """The exchange's result for the newest count, without a cursor to older ones."""
    row = ratio_json(world, contract, now - now % RATIO_PERIOD)
    return f'{{"list":[{row}]}}'.encode()


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
