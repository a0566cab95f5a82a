"""What Bybit publishes (pure)."""

from typing import Final

from barograph.venues.facts import Terms, Venue

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
    ("#9a6700", "#d9a520"),
    liquidations="all",
    liquidation_price="bankruptcy",
    open_interest="one side (it also publishes both)",
)
