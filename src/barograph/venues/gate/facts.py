"""What Gate publishes."""

from typing import Final

from barograph.venues.facts import Terms, Venue

VENUE: Final = Venue(
    "gate",
    "Gate",
    "Gate public futures data (USDT perpetuals)",
    "Gate public futures data",
    Terms(
        "https://www.gate.com/legal/user-agreement",
        "",
        "No commercial use of the data unless Gate agrees.",
    ),
    "https://api.gateio.ws",
    ("#be185d", "#f687b3"),
    liquidations="incomplete",
    liquidation_price="average fill",
    suffix="_USDT",
    open_interest="one side (the size of all long positions, in contracts)",
)
