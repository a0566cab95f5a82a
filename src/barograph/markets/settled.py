"""Which settlements of funding count, and at which rate (pure).

There are two witnesses: the service's own last reading before a settlement, and what the exchange
reports of it afterwards. The exchange's word is the better one, unless it has just contradicted
itself: then the rate is unknown until the new word has stood for a while.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from barograph.kit.timestamps import HOUR, MINUTE
from barograph.markets.records import Perpetuals, majors_of
from barograph.markets.trailing import Settlement

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
