"""Noticing settlements of funding: what a rate was when it was last read before one (pure)."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from barograph.kit.timestamps import HOUR, MINUTE
from barograph.markets.evidence import Settlement, Trailing
from barograph.markets.records import Perpetuals, majors_of


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


STANDS_AFTER = 2 * HOUR
"""How long a rate that the exchange reports anew must have stood before it counts."""

REPORT_COMES_WITHIN = 3 * MINUTE
"""For so long after a settlement its report is waited for: judged by the reading at once, most
would be judged anew a minute later, for a difference in the last digit."""

LONGEST_INTERVAL_HOURS = 8.0
"""What an interval is taken for that nothing tells: exchanges settle as often as this at least."""

BTC_CONTRACT = "BTCUSDT"


class SettledRate(NamedTuple):
    """What an exchange says that a contract's funding was settled at."""

    contract: str
    at: int
    funding_rate_pct: float


class SettlementReport(NamedTuple):
    """The same as it was recorded: the first report is revision 1, another rate the next."""

    contract: str
    at: int
    revision: int
    funding_rate_pct: float
    read_at: int
    """When this revision was first read."""


class Settled(NamedTuple):
    """A settlement whose rate is known."""

    contract: str
    at: int
    funding_rate_pct: float
    funding_interval_hours: float
    read_at: int
    is_reported: bool
    """Whether the rate is the exchange's own report, and not only a reading before it."""


def settled(
    own: Sequence[Settlement], reports: Sequence[SettlementReport], now: int
) -> list[Settled]:
    """The settlements of one contract whose rates are known at `now`, oldest first.

    `own` are readings, `reports` the newest revision of each report. What is reported of a
    settlement that is still to come is no report of it; a reading counts only where no report came.
    """
    read = {each.at: each for each in own}
    reported = {each.at: each for each in reports if each.at <= now}
    hours = _hours(sorted(reported.keys() | read.keys()), read)
    found = [
        Settled(*each, is_reported=False)
        for each in own
        if each.at not in reported and now - each.at >= REPORT_COMES_WITHIN
    ]
    found += [
        Settled(
            each.contract,
            at,
            each.funding_rate_pct,
            hours[at],
            each.read_at,
            is_reported=True,
        )
        for at, each in reported.items()
        if not _is_contested(each, now)
    ]
    return sorted(found, key=lambda each: each.at)


def bitcoin_contract(reading: Perpetuals | None) -> str:
    """The name of the BTC perpetual, by the newest reading if there is one."""
    bitcoin = None if reading is None else majors_of(reading).get("BTC")
    return BTC_CONTRACT if bitcoin is None else bitcoin.contract


def _is_contested(report: SettlementReport, now: int) -> bool:
    return report.revision > 1 and now - report.read_at < STANDS_AFTER


def _hours(times: Sequence[int], read: Mapping[int, Settlement]) -> dict[int, float]:
    """The interval of each settlement, in hours.

    Where it was not read with the rate it is the time since the settlement before, or else until
    the one after. A time longer than any interval has one missing in it and tells nothing.
    """
    after = {at: (later - at) / HOUR for at, later in pairwise(times)}
    before = {at: (at - earlier) / HOUR for earlier, at in pairwise(times)}
    found = {}
    for at in times:
        gaps = (before.get(at), after.get(at))
        usable = [gap for gap in gaps if gap is not None and gap <= LONGEST_INTERVAL_HOURS]
        guess = usable[0] if usable else LONGEST_INTERVAL_HOURS
        found[at] = read[at].funding_interval_hours if at in read else guess
    return found
