"""Every field that Bybit sends and we ignore, by the reason; and the words that we know."""

_TRADING = "for traders who place orders"
_DATED = "for contracts with a delivery date"
_LAUNCH = "for contracts before their launch, which we leave out"
_ASKED = "we asked for it"
_BY_TIME = "we ask by time"
_BOTH_SIDES = "counts both sides of a position"
_OWN_RANGE = "we check rates against our own wide range"

IGNORED: dict[str, dict[str, str]] = {
    "envelope": {"empty on public endpoints": "retExtInfo"},
    "tickers": {
        _ASKED: "category",
        "we compute changes from our own record": "prevPrice24h price24hPcnt highPrice24h "
        "lowPrice24h prevPrice1h",
        _BOTH_SIDES: "openInterest openInterestValue",
        _DATED: "predictedDeliveryPrice basisRate basis basisRateYear deliveryFeeRate deliveryTime",
        _TRADING: "ask1Size bid1Price ask1Price bid1Size",
        _LAUNCH: "preOpenPrice preQty curPreListingPhase",
        _OWN_RANGE: "fundingCap",
    },
    "instruments": {
        _ASKED: "category",
        "the history ends where the contract begins": "launchTime",
        _DATED: "deliveryTime deliveryFeeRate",
        "prices come as text with all their digits": "priceScale",
        _TRADING: "leverageFilter priceFilter lotSizeFilter unifiedMarginTrade copyTrading "
        "riskParameters forbidUplWithdrawal",
        "equal to the quote coin": "settleCoin",
        _OWN_RANGE: "upperFundingRate lowerFundingRate",
        _LAUNCH: "isPreListing preListingInfo",
        "we use the contract's name": "displayName symbolId",
        "we publish symbols": "fullName",
        "for contracts that are not crypto": "marketRegion underlyingTicker",
        "empty wherever it was recorded": "tags",
    },
    "kline": {_ASKED: "category"},
    "open_interest": {
        _ASKED: "category",
        _BY_TIME: "nextPageCursor",
        _BOTH_SIDES: "openInterest",
    },
    "account_ratio": {_BY_TIME: "nextPageCursor"},
    "funding_history": {_ASKED: "category"},
    "stream": {
        "always a snapshot": "type",
        "each liquidation has its own time": "ts",
        "for support cases": "conn_id",
    },
}
WORDS = {
    "contractType": {"LinearPerpetual", "LinearFutures"},
    "status": {"Trading", "PreLaunch"},
    "quoteCoin": {"USDT", "USDC"},
    "symbolType": {"", "innovation", "stock", "commodity", "forex", "ETF"},
}
"""Words that decide whether a contract is kept."""
