"""What Binance publishes."""

from typing import Final

from barograph.venues.facts import Terms, Venue

VENUE: Final = Venue(
    "binance",
    "Binance",
    "Binance USDⓈ-M public market data (USDT perpetuals)",
    "Binance USDⓈ-M public market data",
    Terms(
        "https://www.binance.com/en/terms",
        "",
        "No service may charge for the market data or profit from it without Binance's consent.",
    ),
    "https://fapi.binance.com",
    ("#7c3aed", "#b794f6"),
    liquidations="largest per second",
    liquidation_price="average fill",
    stream="/market/stream",
    stream_hosts={"fapi.binance.com": "fstream.binance.com"},
)
