"""An exchange's history that does what a script says."""

from collections.abc import Sequence

from barograph.kit.timestamps import HOUR
from barograph.venues.exchange import PastValue
from barograph.venues.records import SettledRate

SETTLED_EVERY = 8 * HOUR


class ScriptedHistory:
    """Prices of 100 and up, 10 coins and up, shares of 50 % and up, by the number of the hour.

    A contract has no past before its launch, and no open interest if it is unproven. The script of
    a contract is raised error by error, the last one for ever if `fails_for_ever` names it.
    """

    def __init__(self, **script: Sequence[Exception]) -> None:
        self._script = {contract: list(errors) for contract, errors in script.items()}
        self.asked: list[tuple[str, int, int]] = []
        self.launches: dict[str, int] = {}
        self.unproven: set[str] = set()
        self.fails_for_ever: set[str] = set()
        self.without_rates: Exception | None = None

    @property
    def contracts(self) -> list[str]:
        """The contracts that were asked for, in order."""
        return [contract for contract, _, _ in self.asked]

    async def past_prices(self, contract: str, start: int, end: int) -> Sequence[PastValue]:
        self.asked.append((contract, start, end))
        errors = self._script.get(contract, [])
        if errors:
            raise errors[0] if contract in self.fails_for_ever else errors.pop(0)
        return self._values(contract, start, end, 100.0)

    async def past_open_interest(self, contract: str, start: int, end: int) -> Sequence[PastValue]:
        return [] if contract in self.unproven else self._values(contract, start, end, 10.0)

    async def past_long_accounts(self, contract: str, start: int, end: int) -> Sequence[PastValue]:
        return self._values(contract, start, end, 50.0)

    async def past_settlements(self, contract: str, start: int, end: int) -> Sequence[SettledRate]:
        if self.without_rates is not None:
            raise self.without_rates
        first = max(start, self.launches.get(contract, 0))
        times = range(-(-first // SETTLED_EVERY) * SETTLED_EVERY, end, SETTLED_EVERY)
        return [SettledRate(contract, at, rate_at(at)) for at in times]

    def _values(self, contract: str, start: int, end: int, base: float) -> list[PastValue]:
        first = max(start, self.launches.get(contract, 0))
        hours = range(-(-first // HOUR) * HOUR, end, HOUR)
        return [PastValue(at, base + hour_number(at)) for at in hours]


def hour_number(at: int) -> float:
    return at // HOUR % 24 / 8


def rate_at(at: int) -> float:
    return at // SETTLED_EVERY % 5 / 100
