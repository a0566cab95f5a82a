"""The simulated servers of the venues, by name: how each is run, and its faults."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from barograph_demo.servers.aster import AsterFaults, running_aster
from barograph_demo.servers.binance import running_binance
from barograph_demo.servers.exchange import running_exchange
from barograph_demo.servers.faults import (
    BinanceFaults,
    ExchangeFaults,
    FacilitatorFault,
    HyperliquidFaults,
    IdentityFault,
    MacroFault,
    VenueFaults,
    WitnessFault,
)
from barograph_demo.servers.gate import GateFaults, running_gate
from barograph_demo.servers.hyperliquid import running_hyperliquid
from barograph_demo.servers.phone import PhoneFaults
from barograph_demo.servers.venue_server import Running
from barograph_demo.world.venues import ASTER, BINANCE, GATE, HYPERLIQUID

BYBIT: Final = "bybit"


class VenueOfDemo(NamedTuple):
    """How a simulated venue is run, and its faults."""

    running: Running
    faults: type[VenueFaults]


VENUE_SERVERS: Final[Mapping[str, VenueOfDemo]] = {
    BYBIT: VenueOfDemo(running_exchange, ExchangeFaults),
    HYPERLIQUID: VenueOfDemo(running_hyperliquid, HyperliquidFaults),
    BINANCE: VenueOfDemo(running_binance, BinanceFaults),
    ASTER: VenueOfDemo(running_aster, AsterFaults),
    GATE: VenueOfDemo(running_gate, GateFaults),
}

FAULTS_BY_SERVER: Final[Mapping[str, Iterable[str]]] = {
    "exchange": ExchangeFaults.names,
    **{name: venue.faults.names for name, venue in VENUE_SERVERS.items()},
    "macro": MacroFault,
    "identity": IdentityFault,
    "facilitator": FacilitatorFault,
    "witness": WitnessFault,
    "phone": PhoneFaults.names,
}
