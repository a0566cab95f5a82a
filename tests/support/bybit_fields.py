"""Every field that Bybit sends, and what we do with it: `READ`, or why we ignore it."""

READ = "read"
_TRADING = "for traders who place orders"
_DATED = "for contracts with a delivery date"
_LAUNCH = "for contracts before their launch, which we leave out"
_OTHER_PRICE = "we publish the last price"
_DAY = "we compute changes from our own record"
_BOTH_SIDES = "counts both sides of a position"

_ASKED = "we asked for it"
_BY_TIME = "we ask by time"
_OWN_RANGE = "we check rates against our own wide range"
_NAME = "we use the contract's name"
_NOT_CRYPTO = "for contracts that are not crypto"


def _rows(names_by_use: dict[str, str], of: str = "list") -> dict[str, str]:
    """What we do with each field of the rows; the names are separated by spaces."""
    return {f"{of}[].{name}": use for use, names in names_by_use.items() for name in names.split()}


ENVELOPE = {
    **dict.fromkeys(("retCode", "retMsg", "result", "time"), READ),
    "retExtInfo": "empty on public endpoints",
}
TICKERS = {"category": _ASKED, "list": READ} | _rows(
    {
        READ: "symbol lastPrice markPrice fundingRate nextFundingTime fundingIntervalHour "
        "openInterest singleOpenInterest singleOpenInterestValue",
        _OTHER_PRICE: "indexPrice",
        _DAY: "prevPrice24h price24hPcnt highPrice24h lowPrice24h prevPrice1h turnover24h "
        "volume24h",
        _BOTH_SIDES: "openInterestValue",
        _DATED: "predictedDeliveryPrice basisRate basis basisRateYear deliveryFeeRate deliveryTime",
        _TRADING: "ask1Size bid1Price ask1Price bid1Size",
        _LAUNCH: "preOpenPrice preQty curPreListingPhase",
        _OWN_RANGE: "fundingCap",
    }
)
INSTRUMENTS = {"category": _ASKED, "nextPageCursor": READ, "list": READ} | _rows(
    {
        READ: "symbol contractType status baseCoin quoteCoin fundingInterval symbolType",
        "the history ends where the contract begins": "launchTime",
        _DATED: "deliveryTime deliveryFeeRate",
        "prices come as text with all their digits": "priceScale",
        _TRADING: "leverageFilter priceFilter lotSizeFilter unifiedMarginTrade copyTrading "
        "riskParameters forbidUplWithdrawal",
        "equal to the quote coin": "settleCoin",
        _OWN_RANGE: "upperFundingRate lowerFundingRate",
        _LAUNCH: "isPreListing preListingInfo",
        _NAME: "displayName symbolId",
        "we publish symbols": "fullName",
        _NOT_CRYPTO: "marketRegion underlyingTicker",
        "empty wherever it was recorded": "tags",
    }
)
KLINE = {"category": _ASKED, "symbol": READ, "list": READ}
OPEN_INTEREST = KLINE | {"nextPageCursor": _BY_TIME} | _rows({READ: "openInterest timestamp"})
ACCOUNT_RATIO = {"list": READ, "nextPageCursor": _BY_TIME} | _rows(
    {READ: "symbol buyRatio sellRatio timestamp"}
)
FUNDING_HISTORY = {"category": _ASKED, "list": READ} | _rows(
    {READ: "symbol fundingRate fundingRateTimestamp"}
)
STREAM = {
    **dict.fromkeys(("topic", "data", "success", "ret_msg", "req_id", "op"), READ),
    "type": "always a snapshot",
    "ts": "each liquidation has its own time",
    "conn_id": "for support cases",
} | _rows({READ: "T s S v p"}, of="data")
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
