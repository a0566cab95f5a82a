"""What Bybit publishes."""

from typing import Final

from barograph.venues.facts import Terms, Venue

_OWN_STREAMS = ("bybit.tr", "bybit.kz", "bybitgeorgia.ge", "bybit.id", "manepa.jp")

VENUE: Final = Venue(
    "bybit",
    "Bybit",
    "Bybit v5 public market data (USDT perpetuals)",
    "Bybit public market data",
    Terms(
        "https://www.bybit.com/en/help-center/article/API-Terms",
        "2026-03-18",
        "The API terms (6.7 to 6.9) restrict repackaging, reselling and commercial use of the "
        "data.",
    ),
    "https://api.bybit.com",
    ("#9a6700", "#d9a520"),
    liquidations="all",
    liquidation_price="bankruptcy",
    stream="/v5/public/linear",
    stream_hosts={
        **{f"api.{host}": f"stream.{host}" for host in _OWN_STREAMS},
        **{f"api.bybit.{country}": "stream.bybit.com" for country in ("com", "nl", "ae", "eu")},
        "api.bytick.com": "stream.bybit.com",
    },
    open_interest="one side (it also publishes both)",
)
