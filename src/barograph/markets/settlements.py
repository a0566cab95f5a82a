"""Settlements of funding: detect them, and combine our readings with the exchange's reports (pure).

Our own reading is the last rate before the settlement. The exchange reports the settled rate a
little later, and may revise it.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from barograph.kit.timestamps import DAY, HOUR, MINUTE
from barograph.markets.evidence import FundingSettlement, TrailingRecord
from barograph.markets.records import Origin, Perpetuals, majors_of
from barograph.markets.venues import VENUES

REVISION_DELAY = 2 * HOUR
"""How long a revised rate must stay unchanged before we use it."""

REPORT_DELAY = 3 * MINUTE
"""How long we wait for the report of a settlement before we use our own reading.

Without the wait, most settlements would change in the last digit a minute later.
"""

LONGEST_INTERVAL_HOURS = 8.0
"""The interval we assume when none is known: exchanges settle at least this often."""

LATE_REPORT = round(LONGEST_INTERVAL_HOURS * HOUR)
"""A running collector reads each report before the next settlement. A report that it first reads
later than this counts as back-filled."""


MAX_REVISIONS = 10
"""An exchange that reports another rate each time is not believed more often than this."""

OLDEST_REPORT = 366 * DAY
"""Older settlements are not recorded: nothing uses them, and each is kept for good."""


class SettledRate(NamedTuple):
    """A settled funding rate as the exchange reports it."""

    contract: str
    at: int
    funding_rate_pct: float


class SettlementReport(NamedTuple):
    """A settled rate as we recorded it: the first report is revision 1, another rate the next."""

    contract: str
    at: int
    revision: int
    funding_rate_pct: float
    read_at: int
    """When this revision was first read."""

    origin: Origin = "measured"
    """Whether we read it at the time of the settlement, or later from the exchange's history."""


class SettledFunding(NamedTuple):
    """A settlement whose rate is known."""

    contract: str
    at: int
    funding_rate_pct: float
    funding_interval_hours: float
    read_at: int
    is_reported: bool
    """Whether the rate is the exchange's report rather than our last reading before it."""

    is_backfilled: bool = False
    """Whether we read that report later, from the exchange's history."""


class SettlementDetector:
    """Remembers the newest rate of each major, and reports it once its settlement has passed."""

    def __init__(self, reading: Perpetuals | None = None) -> None:
        self._rates = {} if reading is None else _upcoming(reading)

    def see(self, reading: Perpetuals, known: TrailingRecord) -> list[FundingSettlement]:
        """Take a reading and return the settlements that it is the first to show.

        A rate that was read more than an hour before its settlement is too old to count.
        """
        following = {
            perpetual.contract: perpetual.next_funding_time for perpetual in reading.contracts
        }
        found = [
            rate
            for contract, rate in self._rates.items()
            if rate.at <= reading.as_of
            and rate.at < following.get(contract, 0)
            and rate.at - rate.read_at <= HOUR
            and _is_new(rate, known)
        ]
        self._rates |= _upcoming(reading)
        return found


def _is_new(settlement: FundingSettlement, known: TrailingRecord) -> bool:
    """Whether it is not recorded yet: a reading from before the last one may show it again."""
    last = known.settled(settlement.contract)
    return last is None or last.at < settlement.at


def _upcoming(reading: Perpetuals) -> dict[str, FundingSettlement]:
    """The next settlement of each major at the current rate.

    For some seconds an exchange may still show a settlement that has passed, which we skip, and so
    we do with a time that is no full hour: exchanges settle only then.
    """
    return {
        each.contract: FundingSettlement(
            each.contract,
            each.next_funding_time,
            each.funding_rate_pct,
            each.funding_interval_hours,
            reading.as_of,
        )
        for each in majors_of(reading).values()
        if reading.as_of <= each.next_funding_time and each.next_funding_time % HOUR == 0
    }


def known_settlements(
    own: Sequence[FundingSettlement], reports: Sequence[SettlementReport], now: int
) -> list[SettledFunding]:
    """The settlements of one contract whose rates are known at `now`, oldest first.

    `own` are our readings, `reports` the newest revision of each report. A reading counts only if
    there is no report. A report about the future doesn't count.
    """
    read = {each.at: each for each in own}
    reported = {report.at: report for report in reports if report.at <= now}
    hours = interval_hours(sorted(reported.keys() | read.keys()), read)
    found = [
        SettledFunding(*each, is_reported=False)
        for each in own
        if each.at not in reported and now - each.at >= REPORT_DELAY
    ]
    found += [
        SettledFunding(
            each.contract,
            at,
            each.funding_rate_pct,
            hours[at],
            each.read_at,
            is_reported=True,
            is_backfilled=each.origin == "backfilled",
        )
        for at, each in reported.items()
        if not _is_contested(each, now)
    ]
    return sorted(found, key=lambda each: each.at)


def bitcoin_contract(reading: Perpetuals | None, venue: str) -> str:
    """The name of a venue's BTC perpetual, from its newest reading if there is one."""
    is_own = reading is not None and reading.venue == venue
    bitcoin = majors_of(reading).get("BTC") if reading is not None and is_own else None
    return VENUES[venue].contract("BTC") if bitcoin is None else bitcoin.contract


def _is_contested(report: SettlementReport, now: int) -> bool:
    return report.revision > 1 and now - report.read_at < REVISION_DELAY


def interval_hours(
    times: Sequence[int], read: Mapping[int, FundingSettlement] | None = None
) -> dict[int, float]:
    """The interval of each settlement, in hours; `times` are in order.

    If it was not read with the rate, it is the time since the settlement before, or else until the
    next one. A gap longer than any interval means that a settlement is missing.
    """
    known = {} if read is None else read
    after = {at: (later - at) / HOUR for at, later in pairwise(times)}
    before = {at: (at - earlier) / HOUR for earlier, at in pairwise(times)}
    found = {}
    for at in times:
        gaps = (before.get(at), after.get(at))
        usable = [gap for gap in gaps if gap is not None and gap <= LONGEST_INTERVAL_HOURS]
        guess = usable[0] if usable else LONGEST_INTERVAL_HOURS
        found[at] = known[at].funding_interval_hours if at in known else guess
    return found
