"""Which settlements count: the exchange's word, unless it has just contradicted itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.kit.timestamps import HOUR, MINUTE
from barograph.markets.evidence import FundingSettlement
from barograph.markets.records import Perpetuals
from barograph.markets.settlements import (
    REPORT_DELAY,
    REVISION_DELAY,
    SettledFunding,
    SettlementReport,
    bitcoin_contract,
    known_settlements,
)
from support.clock import START
from support.markets import BTC, ETH, changed, reading

STEP = 8 * HOUR
AT = START // STEP * STEP
"""The newest settlement, more than five hours ago."""


def own(at: int = AT, rate: float = 0.01, hours: float = 8) -> FundingSettlement:
    return FundingSettlement("BTCUSDT", at, rate, hours, at - 5_000)


def report(
    at: int = AT, rate: float = 0.01, revision: int = 1, read_at: int | None = None
) -> SettlementReport:
    return SettlementReport("BTCUSDT", at, revision, rate, at if read_at is None else read_at)


def hours(*reports: SettlementReport, read: tuple[FundingSettlement, ...] = ()) -> list[float]:
    return [each.funding_interval_hours for each in known_settlements(read, reports, START)]


def test_without_a_report_the_reading_before_the_settlement_counts() -> None:
    assert known_settlements([own(rate=0.012)], [], START) == [
        SettledFunding("BTCUSDT", AT, 0.012, 8, AT - 5_000, is_reported=False)
    ]


def test_what_the_exchange_reports_counts_more_than_what_was_read_before() -> None:
    read, reported = [own(rate=0.012, hours=4)], [report(rate=0.013, read_at=AT + MINUTE)]

    assert known_settlements(read, reported, START) == [
        SettledFunding("BTCUSDT", AT, 0.013, 4, AT + MINUTE, is_reported=True)
    ]


def test_a_settlement_that_was_missed_is_filled_in_from_the_report() -> None:
    read = [own(AT - 2 * STEP), own(AT)]
    reported = [report(AT - STEP, 0.0)]

    found = known_settlements(read, reported, START)

    assert [(each.at, each.is_reported) for each in found] == [
        (AT - 2 * STEP, False),
        (AT - STEP, True),
        (AT, False),
    ]
    assert found[1].funding_rate_pct == 0.0


@pytest.mark.parametrize("read", [[], [own()]], ids=["not read", "read"])
def test_revised_rate_is_unknown_until_the_delay_has_passed(read: list[FundingSettlement]) -> None:
    revised = [report(rate=0.02, revision=2, read_at=START)]

    assert known_settlements(read, revised, START) == []
    assert known_settlements(read, revised, START + REVISION_DELAY - 1) == []
    assert known_settlements(read, revised, START + REVISION_DELAY)[0].funding_rate_pct == 0.02


def test_a_first_report_counts_at_once_whenever_it_comes() -> None:
    assert len(known_settlements([], [report(read_at=START)], START)) == 1


def test_what_is_said_of_a_settlement_to_come_does_not_count() -> None:
    assert known_settlements([], [report(START + 1)], START) == []
    assert len(known_settlements([], [report(START)], START)) == 1


def test_a_reading_counts_once_its_report_should_have_come() -> None:
    assert known_settlements([own()], [], AT + REPORT_DELAY - 1) == []
    assert len(known_settlements([own()], [], AT + REPORT_DELAY)) == 1
    assert len(known_settlements([own()], [report()], AT)) == 1


def test_an_interval_that_was_not_read_is_the_time_since_the_report_before() -> None:
    changed_to_four = [AT - 12 * HOUR, AT - 4 * HOUR, AT]

    assert hours(*(report(at) for at in changed_to_four)) == [8, 8, 4]
    assert hours(report(AT - 4 * HOUR), report(AT)) == [4, 4]


def test_an_interval_that_nothing_tells_is_of_eight_hours() -> None:
    assert hours(report()) == [8]
    assert hours(report(AT - 3 * STEP), report(AT)) == [8, 8]


def test_the_interval_of_a_neighbour_that_is_contested_is_known_all_the_same() -> None:
    contested = report(AT - HOUR, revision=2, read_at=START)

    assert hours(contested, report(AT)) == [1]


@given(
    read=st.sets(st.integers(0, 40), max_size=20),
    reported=st.dictionaries(st.integers(0, 40), st.integers(1, 3), max_size=20),
    now=st.integers(AT - 40 * STEP, AT + STEP),
)
def test_each_settlement_counts_once_at_most_and_in_order(
    read: set[int], reported: dict[int, int], now: int
) -> None:
    found = known_settlements(
        [own(AT - back * STEP) for back in sorted(read, reverse=True)],
        [report(AT - back * STEP, revision=number) for back, number in reported.items()],
        now,
    )
    times = [each.at for each in found]

    assert times == sorted(set(times))
    assert all(at <= now for at in times)
    assert {each.at for each in found if each.is_reported} <= {
        AT - back * STEP for back in reported
    }


def test_the_contract_is_the_one_that_the_newest_reading_names() -> None:
    def of(reading: Perpetuals | None) -> str:
        return bitcoin_contract(reading, "bybit")

    assert of(None) == of(reading()) == of(reading(contracts=(ETH,))) == "BTCUSDT"
    assert of(reading(contracts=(ETH, changed(BTC, contract="BTCPERP")))) == "BTCPERP"


def test_an_interval_is_told_by_what_was_read_too() -> None:
    step = 4 * HOUR
    reports = [report(AT - 2 * step), report(AT)]
    read = (own(AT - 2 * step, hours=4), own(AT - step, hours=4))

    assert hours(*reports, read=read) == [4, 4, 4]
