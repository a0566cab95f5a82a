"""Every field that Bybit sends, and what we do with it: `READ`, or why we ignore it."""

READ = "read"
_TRADING = "for traders who place orders"
_DATED = "for contracts with a delivery date"
_LAUNCH = "for contracts before their launch, which we leave out"
_OTHER_PRICE = "we publish the last price"
_DAY = "we compute changes from our own record"
_BOTH_SIDES = "counts both sides of a position"

ENVELOPE = {
    "retCode": READ,
    "retMsg": READ,
    "result": READ,
    "retExtInfo": "empty on public endpoints",
    "time": READ,
}
TICKERS = {
    "category": "we asked for it",
    "list": READ,
    "list[].symbol": READ,
    "list[].lastPrice": READ,
    "list[].indexPrice": _OTHER_PRICE,
    "list[].markPrice": _OTHER_PRICE,
    "list[].prevPrice24h": _DAY,
    "list[].price24hPcnt": _DAY,
    "list[].highPrice24h": _DAY,
    "list[].lowPrice24h": _DAY,
    "list[].prevPrice1h": _DAY,
    "list[].openInterest": READ,
    "list[].openInterestValue": _BOTH_SIDES,
    "list[].singleOpenInterest": READ,
    "list[].singleOpenInterestValue": READ,
    "list[].turnover24h": _DAY,
    "list[].volume24h": _DAY,
    "list[].fundingRate": READ,
    "list[].nextFundingTime": READ,
    "list[].predictedDeliveryPrice": _DATED,
    "list[].basisRate": _DATED,
    "list[].deliveryFeeRate": _DATED,
    "list[].deliveryTime": _DATED,
    "list[].ask1Size": _TRADING,
    "list[].bid1Price": _TRADING,
    "list[].ask1Price": _TRADING,
    "list[].bid1Size": _TRADING,
    "list[].basis": _DATED,
    "list[].preOpenPrice": _LAUNCH,
    "list[].preQty": _LAUNCH,
    "list[].curPreListingPhase": _LAUNCH,
    "list[].fundingIntervalHour": READ,
    "list[].basisRateYear": _DATED,
    "list[].fundingCap": "we check rates against our own wide range",
}
INSTRUMENTS = {
    "category": "we asked for it",
    "nextPageCursor": READ,
    "list": READ,
    "list[].symbol": READ,
    "list[].contractType": READ,
    "list[].status": READ,
    "list[].baseCoin": READ,
    "list[].quoteCoin": READ,
    "list[].launchTime": "the history ends where the contract begins",
    "list[].deliveryTime": _DATED,
    "list[].deliveryFeeRate": _DATED,
    "list[].priceScale": "prices come as text with all their digits",
    "list[].leverageFilter": _TRADING,
    "list[].priceFilter": _TRADING,
    "list[].lotSizeFilter": _TRADING,
    "list[].unifiedMarginTrade": _TRADING,
    "list[].fundingInterval": READ,
    "list[].settleCoin": "equal to the quote coin",
    "list[].copyTrading": _TRADING,
    "list[].upperFundingRate": "we check rates against our own wide range",
    "list[].lowerFundingRate": "we check rates against our own wide range",
    "list[].isPreListing": _LAUNCH,
    "list[].preListingInfo": _LAUNCH,
    "list[].riskParameters": _TRADING,
    "list[].displayName": "we use the contract's name",
    "list[].symbolType": READ,
    "list[].forbidUplWithdrawal": _TRADING,
    "list[].symbolId": "we use the contract's name",
    "list[].fullName": "we publish symbols",
    "list[].marketRegion": "for contracts that are not crypto",
    "list[].underlyingTicker": "for contracts that are not crypto",
    "list[].tags": "empty wherever it was recorded",
}
KLINE = {"category": "we asked for it", "symbol": READ, "list": READ}
OPEN_INTEREST = {
    "category": "we asked for it",
    "symbol": READ,
    "list": READ,
    "list[].openInterest": READ,
    "list[].timestamp": READ,
    "nextPageCursor": "we ask by time",
}
ACCOUNT_RATIO = {
    "list": READ,
    "list[].symbol": READ,
    "list[].buyRatio": READ,
    "list[].sellRatio": READ,
    "list[].timestamp": READ,
    "nextPageCursor": "we ask by time",
}
FUNDING_HISTORY = {
    "category": "we asked for it",
    "list": READ,
    "list[].symbol": READ,
    "list[].fundingRate": READ,
    "list[].fundingRateTimestamp": READ,
}
STREAM = {
    "topic": READ,
    "type": "always a snapshot",
    "ts": "each liquidation has its own time",
    "data": READ,
    "data[].T": READ,
    "data[].s": READ,
    "data[].S": READ,
    "data[].v": READ,
    "data[].p": READ,
    "success": READ,
    "ret_msg": READ,
    "conn_id": "for support cases",
    "req_id": READ,
    "op": READ,
}
REST = {
    "tickers": TICKERS,
    "instruments": INSTRUMENTS,
    "kline": KLINE,
    "open_interest": OPEN_INTEREST,
    "account_ratio": ACCOUNT_RATIO,
    "funding_history": FUNDING_HISTORY,
}
WORDS = {
    "list[].contractType": {"LinearPerpetual", "LinearFutures"},
    "list[].status": {"Trading", "PreLaunch"},
    "list[].quoteCoin": {"USDT", "USDC"},
    "list[].symbolType": {"", "innovation", "stock", "commodity", "forex", "ETF"},
}
"""Words that decide whether a contract is kept."""
