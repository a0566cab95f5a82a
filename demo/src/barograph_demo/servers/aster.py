"""The simulated Aster: Binance's wire format at an address of its own, with fewer fields."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from barograph.kit.clock import Clock, system_clock
from barograph_demo.servers.binance import BinanceAddress, BinanceServer
from barograph_demo.servers.control import HOST, OTHER
from barograph_demo.servers.faults import BinanceFaults
from barograph_demo.servers.listeners import PUSH_SECONDS
from barograph_demo.servers.venue_server import Query
from barograph_demo.world.contracts import LIVE_SYMBOLS
from barograph_demo.world.venues import ASTER, contract_names
from barograph_demo.world.world import INTEREST_8H, World


class AsterFaults(BinanceFaults):
    """The active faults of Aster."""

    venue = ASTER
    paths = (
        *(path for path in BinanceFaults.paths if path.startswith("/fapi/v1/")),
        "/fapi/v1/ticker/price",
    )
    contracts = frozenset(contract_names(ASTER))


class AsterServer(BinanceServer):
    """Answers as Binance does, without statistics, and without the class of most contracts."""

    def result(self, path: str, query: Query) -> tuple[int, bytes]:
        """The answer in Aster's form."""
        status, body = super().result(path if path in AsterFaults.paths else OTHER, query)
        message = msgspec.json.decode(body)
        if path.endswith("/exchangeInfo"):
            for row in message["symbols"]:
                if f"{row['baseAsset']}USDT" in LIVE_SYMBOLS:
                    del row["underlyingType"], row["underlyingSubType"]
        elif path.endswith("/fundingInfo"):
            message = [_funding_info(row) for row in message]
        return status, msgspec.json.encode(message)


def _funding_info(row: dict[str, object]) -> dict[str, object]:
    return {
        "symbol": row["symbol"],
        "interestRate": f"{INTEREST_8H:.8f}",
        "time": row["updateTime"],
        "fundingIntervalHours": row["fundingIntervalHours"],
        "fundingFeeCap": float(str(row["adjustedFundingRateCap"])),
        "fundingFeeFloor": float(str(row["adjustedFundingRateFloor"])),
    }


@asynccontextmanager
async def running_aster(
    world: World,
    clock: Clock = system_clock,
    faults: AsterFaults | None = None,
    *,
    host: str = HOST,
    port: int = 0,
    push_seconds: float = PUSH_SECONDS,
) -> AsyncIterator[BinanceAddress]:
    """Run a simulated Aster until the context ends; port 0 picks a free one."""
    server = AsterServer(world, clock, AsterFaults() if faults is None else faults)
    async with server.serving(host, port, push_seconds) as bound:
        yield BinanceAddress(host, bound)
