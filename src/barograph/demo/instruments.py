"""A contract's specification, as the exchange publishes it.

https://bybit-exchange.github.io/docs/v5/market/instrument
"""

from typing import Final

from barograph.demo.chance import key
from barograph.demo.contracts import FUTURE, PRE_LAUNCH, Contract
from barograph.demo.tickers import decimal

CLOSED: Final = "Closed"

_LIQUID_USD: Final = 1e9
_MINUTE: Final = 60_000


def instrument(contract: Contract, status: str, epoch: int) -> dict[str, object]:
    """The specification of one contract; `status` may differ from the one it was listed with."""
    pre_market = contract.status == PRE_LAUNCH
    return {
        "symbol": contract.symbol,
        "symbolId": key(contract.symbol) % 100_000,
        "contractType": contract.kind,
        "status": status,
        "baseCoin": contract.coin,
        "quoteCoin": contract.quote,
        "launchTime": str(contract.launch),
        "deliveryTime": str(contract.delivery),
        "deliveryFeeRate": "0.0005" if contract.kind == FUTURE else "",
        "priceScale": str(contract.price_decimals),
        **_filters(contract),
        "unifiedMarginTrade": True,
        "fundingInterval": 0 if contract.kind == FUTURE else contract.funding_hours * 60,
        "settleCoin": contract.quote,
        "copyTrading": "none" if pre_market else "both",
        "upperFundingRate": decimal(contract.funding_cap),
        "lowerFundingRate": decimal(-contract.funding_cap),
        "isPreListing": pre_market,
        "preListingInfo": _pre_listing(epoch) if pre_market else None,
        "riskParameters": {"priceLimitRatioX": "0.01", "priceLimitRatioY": "0.02"},
        "displayName": "",
        "forbidUplWithdrawal": False,
        "symbolType": "",
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
    """How a contract that is not quite launched came to trade."""
    begin = epoch - 24 * 60 * _MINUTE
    lengths = {"CallAuction": 50, "CallAuctionNoCancel": 5, "CrossMatching": 5}
    phases: list[dict[str, str]] = []
    for phase, minutes in lengths.items():
        end = begin + minutes * _MINUTE
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
