"""The live values of a venue as faults distort them. Its history stays right."""

from dataclasses import replace

from barograph_demo.servers.faults import SQUEEZED, VenueFault, VenueFaults
from barograph_demo.world.liquidations import LONG, SHORT, SimulatedLiquidation
from barograph_demo.world.venues import DELISTED, HYPERLIQUID, VenueContract, VenueMarket

PERCENT = 100.0
EIGHT_HOURS = 8


def other_interval(hours: int) -> int:
    """Another interval of funding, in hours."""
    return 4 if hours == EIGHT_HOURS else EIGHT_HOURS


class FaultyMarket:
    """The live values of a venue. `market` has its history."""

    def __init__(self, market: VenueMarket, faults: VenueFaults) -> None:
        self.market = market
        self._faults = faults
        self._states_intervals = market.venue != HYPERLIQUID

    def contracts(self, now: int) -> list[VenueContract]:
        """Every contract; a fault may have delisted one or changed its interval or class."""
        found = [self._changed(contract) for contract in self.market.contracts(now)]
        if self._faults.is_on(VenueFault.UNKNOWN_CLASS):
            return [
                replace(each, asset_class="PREDICTION") if each.asset_class == "COMMODITY" else each
                for each in found
            ]
        return found

    def contract(self, name: str, now: int) -> VenueContract | None:
        """The contract with this name."""
        found = self.market.contract(name, now)
        return None if found is None else self._changed(found)

    def _changed(self, contract: VenueContract) -> VenueContract:
        if contract.name in self._faults.closed:
            contract = replace(contract, status=DELISTED)
        if self._is_on(VenueFault.INTERVAL_CHANGE, contract):
            hours = other_interval(contract.funding_hours)
            contract = replace(contract, funding_hours=hours)
        return contract

    def stated_hours(self, contract: VenueContract) -> int:
        """The funding interval that the venue states."""
        if self._is_on(VenueFault.WRONG_INTERVAL, contract):
            return other_interval(contract.funding_hours)
        return contract.funding_hours

    def price(self, contract: VenueContract, now: int) -> float:
        """The last traded price."""
        return self.market.quote(contract, now).price / self._divisor(contract)

    def mark(self, contract: VenueContract, now: int) -> float:
        """The mark price."""
        return self.market.quote(contract, now).mark_price / self._divisor(contract)

    def index(self, contract: VenueContract, now: int) -> float:
        """The index price."""
        return self.market.quote(contract, now).index_price / self._divisor(contract)

    def _divisor(self, contract: VenueContract) -> int:
        """In the wrong unit, prices are for one coin."""
        return contract.multiplier if self._is_on(VenueFault.WRONG_UNIT, contract) else 1

    def funding_rate(self, contract: VenueContract, now: int) -> float:
        """The rate of the current interval. In the wrong unit, it is in percent."""
        rate = self.market.funding_rate(contract, now)
        if contract.coin == "BTC" and self._faults.is_on(VenueFault.SQUEEZE):
            rate = SQUEEZED * contract.funding_hours
        if self._is_on(VenueFault.WRONG_UNIT, contract):
            rate *= PERCENT
        if self._states_intervals:
            return rate
        if self._is_on(VenueFault.INVERTED_SIDE, contract):
            rate = -rate
        if self._is_on(VenueFault.WRONG_INTERVAL, contract):
            rate *= EIGHT_HOURS
        return rate

    def open_interest(self, contract: VenueContract, now: int) -> float:
        """Open positions in units of the contract, counting one side unless a fault counts both."""
        doubled = self._is_on(VenueFault.DOUBLED_OPEN_INTEREST, contract)
        return self.market.quote(contract, now).open_interest * (2 if doubled else 1)

    def liquidations(self, start: int, end: int) -> list[SimulatedLiquidation]:
        """The liquidations of a span; `side` is the side of the position."""
        return [
            self._inverted(liquidation)
            for liquidation in self.market.liquidations(start, end)
            if liquidation.symbol not in self._faults.closed
        ]

    def _inverted(self, each: SimulatedLiquidation) -> SimulatedLiquidation:
        if not self._faults.is_on(VenueFault.INVERTED_SIDE, each.symbol):
            return each
        return each._replace(side=SHORT if each.side == LONG else LONG)

    def _is_on(self, fault: str, contract: VenueContract) -> bool:
        return self._faults.is_on(fault, contract.name)
