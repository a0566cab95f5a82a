"""Noticing settlements of funding: what a rate was when it was last read before one (pure)."""

from barograph.kit.timestamps import HOUR
from barograph.markets.records import Perpetuals, majors_of
from barograph.markets.trailing import Settlement, Trailing


class SettlementWatch:
    """What each major would be settled at, going by the last reading before."""

    def __init__(self, reading: Perpetuals | None = None) -> None:
        self._rates: dict[str, Settlement] = {} if reading is None else _rates(reading)

    def see(self, reading: Perpetuals, known: Trailing) -> list[Settlement]:
        """Take a reading and return the settlements that it is the first to show.

        A rate that was read more than an hour before its settlement says little about it: none is
        noted then.
        """
        following = {each.contract: each.next_funding_time for each in reading.contracts}
        found = [
            rate
            for contract, rate in self._rates.items()
            if rate.at <= reading.as_of
            and rate.at < following.get(contract, 0)
            and rate.at - rate.read_at <= HOUR
            and _is_new(rate, known)
        ]
        self._rates |= _rates(reading)
        return found


def _is_new(settlement: Settlement, known: Trailing) -> bool:
    """Whether it is not known yet: a reading from before the last one may show it once more."""
    last = known.settled(settlement.contract)
    return last is None or last.at < settlement.at


def _rates(reading: Perpetuals) -> dict[str, Settlement]:
    """What each major would be settled at, going by this reading.

    For some seconds an exchange may go on to show a settlement that has passed: what it shows
    then was not read before it.
    """
    return {
        each.contract: Settlement(
            each.contract,
            each.next_funding_time,
            each.funding_rate_pct,
            each.funding_interval_hours,
            reading.as_of,
        )
        for each in majors_of(reading).values()
        if reading.as_of <= each.next_funding_time
    }
