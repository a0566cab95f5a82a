"""Which settlements count: the exchange's word, unless it has just contradicted itself."""

import pytest

from barograph.kit.timestamps import DAY, HOUR
from barograph.markets.settlements import (
    REVISION_DELAY,
    SettledFunding,
    SettledSums,
    SettlementReport,
    bitcoin_contract,
    known_settlements,
    last_settlement,
    settled_windows,
    window_sums,
)
from barograph.venues.records import Perpetuals
from support.clock import START
from support.markets import BTC, ETH, changed, reading

STEP = 8 * HOUR
AT = START // STEP * STEP
"""The newest settlement, more than five hours ago."""


def report(
    at: int = AT, rate: float = 0.01, revision: int = 1, read_at: int | None = None
) -> SettlementReport:
    return SettlementReport("BTCUSDT", at, revision, rate, at if read_at is None else read_at)


def test_revised_rate_is_unknown_until_the_delay_has_passed() -> None:
    revised = [report(rate=0.02, revision=2, read_at=START)]

    assert known_settlements(revised, START) == []
    assert known_settlements(revised, START + REVISION_DELAY - 1) == []
    assert known_settlements(revised, START + REVISION_DELAY)[0].funding_rate_pct == 0.02


def test_a_report_counts_at_once_unless_it_is_about_the_future() -> None:
    assert known_settlements([report(read_at=START)], START) == [
        SettledFunding("BTCUSDT", AT, 0.01, 8.0, START)
    ]
    assert len(known_settlements([report(START)], START)) == 1
    assert known_settlements([report(START + 1)], START) == []


CONTESTED = report(AT - HOUR, revision=2, read_at=START)


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([report(AT - 12 * HOUR), report(AT - 4 * HOUR), report(AT)], [8, 8, 4]),
        ([report(AT - 4 * HOUR), report(AT)], [4, 4]),
        ([report()], [8]),
        ([report(AT - 3 * STEP), report(AT)], [8, 8]),
        ([CONTESTED, report(AT)], [1]),
        ([report(AT - back * HOUR) for back in (4, 3, 1, 0)], [1, 1, 1, 1]),
        ([report(AT - back * HOUR) for back in (18, 16, 8, 0)], [2, 2, 8, 8]),
    ],
    ids=[
        *("since the one before", "the first", "nothing tells", "a gap", "contested"),
        *("one is missing", "a longer interval begins"),
    ],
)
def test_an_interval_is_the_time_between_reports_or_eight_hours(
    reports: list[SettlementReport], expected: list[float]
) -> None:
    settlements = known_settlements(reports, START)

    assert [settled.funding_interval_hours for settled in settlements] == expected


def every(hours: int, *blocks: int) -> list[SettlementReport]:
    """Reports at 0.001 % per hour in these windows, counted back from the newest."""
    times = [AT - block * STEP - back * HOUR for block in blocks for back in range(0, 8, hours)]
    return [report(at, 0.001 * hours) for at in sorted(times)]


WINDOWS: dict[str, tuple[list[SettlementReport], list[int]]] = {
    "each interval": ([*every(8, 4, 3), *every(4, 2), *every(2, 1), *every(1, 0)], [*range(5)]),
    "a shorter interval begins": (
        [*every(4, 2), *every(4, 1)[:1], *every(1, 1)[4:], *every(1, 0)],
        [2, 1, 0],
    ),
    "a longer one begins, and the newest may lack a report": (
        [*every(1, 2), *every(1, 1)[:5], report(AT - STEP, 0.003), *every(8, 0)],
        [2, 1],
    ),
    "one of eight is missing": (every(1, 1, 0)[:-2] + every(1, 0)[-1:], [1]),
    "the last is missing": (every(4, 1, 0)[:-1], [1]),
    "one of two is missing": (every(4, 2, 1, 0)[:2] + every(4, 2, 1, 0)[3:], [2, 0]),
    "contested": ([*every(4, 1), CONTESTED._replace(at=AT - 4 * HOUR), report()], [1]),
    "not over": ([*every(4, 0), report(AT + 4 * HOUR)], [0]),
}


@pytest.mark.parametrize("case", WINDOWS)
def test_a_window_is_known_only_with_all_its_settlements(case: str) -> None:
    reports, known = WINDOWS[case]

    assert settled_windows(reports, START) == {AT - block * STEP: 0.008 for block in known}


def test_sums_need_every_window_and_end_together() -> None:
    month = settled_windows(every(4, *range(91)), START)
    newest, before = window_sums(month, START)

    sums, earlier = (0.008, 0.024, 0.168, 0.72), (0.008, 0.024, 0.168, None)
    assert newest == SettledSums(AT, *sums, earlier)
    assert before == SettledSums(AT - STEP, *sums, earlier)
    assert window_sums(
        {at: pct for at, pct in month.items() if at != AT - DAY - 2 * STEP}, START
    ) == (
        SettledSums(AT, 0.008, 0.024, None, None, (0.008, None, 0.168, None)),
        SettledSums(AT - STEP, 0.008, 0.024, None, None, (0.008, None, 0.168, None)),
    )
    two = settled_windows(every(4, *range(180)), START)
    assert window_sums(two, START)[0].before == sums
    assert window_sums({AT - 2 * STEP: 0.008}, START) == ()


def test_a_contract_last_settled_one_interval_before_the_next_time() -> None:
    soon = changed(BTC, next_funding_time=AT + STEP, funding_interval_hours=8.0)

    assert last_settlement(soon, AT + STEP - 1) == AT
    assert last_settlement(soon, AT + STEP) == AT + STEP


def test_the_contract_is_the_one_that_the_newest_reading_names() -> None:
    def of(reading: Perpetuals | None) -> str:
        return bitcoin_contract(reading, "bybit")

    assert of(None) == of(reading()) == of(reading(contracts=(ETH,))) == "BTCUSDT"
    assert of(reading(contracts=(ETH, changed(BTC, contract="BTCPERP")))) == "BTCPERP"
