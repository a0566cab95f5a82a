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


def test_what_the_exchange_reports_counts_more_than_what_was_read_before() -> None:
    read = [own(AT - 2 * STEP, 0.011), own(rate=0.012, hours=4)]
    reported = [report(AT - STEP, 0.0), report(rate=0.013, read_at=AT + MINUTE)]

    assert known_settlements(read, reported, START) == [
        SettledFunding(
            "BTCUSDT", AT - 2 * STEP, 0.011, 8, AT - 2 * STEP - 5_000, is_reported=False
        ),
        SettledFunding("BTCUSDT", AT - STEP, 0.0, 8, AT - STEP, is_reported=True),
        SettledFunding("BTCUSDT", AT, 0.013, 4, AT + MINUTE, is_reported=True),
    ]


@pytest.mark.parametrize("read", [[], [own()]], ids=["not read", "read"])
def test_revised_rate_is_unknown_until_the_delay_has_passed(read: list[FundingSettlement]) -> None:
    revised = [report(rate=0.02, revision=2, read_at=START)]

    assert known_settlements(read, revised, START) == []
    assert known_settlements(read, revised, START + REVISION_DELAY - 1) == []
    assert known_settlements(read, revised, START + REVISION_DELAY)[0].funding_rate_pct == 0.02


def test_a_report_counts_at_once_and_a_reading_when_its_report_should_have_come() -> None:
    assert len(known_settlements([], [report(read_at=START)], START)) == 1
    assert len(known_settlements([], [report(START)], START)) == 1
    assert known_settlements([], [report(START + 1)], START) == []  # it is still to come
    assert known_settlements([own()], [], AT + REPORT_DELAY - 1) == []
    assert len(known_settlements([own()], [], AT + REPORT_DELAY)) == 1
    assert len(known_settlements([own()], [report()], AT)) == 1


CONTESTED = report(AT - HOUR, revision=2, read_at=START)


@pytest.mark.parametrize(
    ("reports", "read", "expected"),
    [
        ([report(AT - 12 * HOUR), report(AT - 4 * HOUR), report(AT)], [], [8, 8, 4]),
        ([report(AT - 4 * HOUR), report(AT)], [], [4, 4]),
        ([report()], [], [8]),
        ([report(AT - 3 * STEP), report(AT)], [], [8, 8]),
        ([CONTESTED, report(AT)], [], [1]),
        (
            [report(AT - STEP), report(AT)],
            [own(AT - STEP, hours=4), own(AT - 4 * HOUR, hours=4)],
            [4, 4, 4],
        ),
    ],
    ids=["since the one before", "the first", "nothing tells", "a gap", "contested", "read"],
)
def test_an_interval_was_read_or_is_the_time_between_reports_or_eight_hours(
    reports: list[SettlementReport], read: list[FundingSettlement], expected: list[float]
) -> None:
    settlements = known_settlements(read, reports, START)

    assert [settled.funding_interval_hours for settled in settlements] == expected


@given(
    read=st.sets(st.integers(0, 40), max_size=20),
    reported=st.dictionaries(st.integers(0, 40), st.integers(1, 3), max_size=20),
    now=st.integers(AT - 40 * STEP, AT + STEP),
)
def test_settlements_count_once_sorted(read: set[int], reported: dict[int, int], now: int) -> None:
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
