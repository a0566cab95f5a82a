"""What followed earlier cases: over, without overlap, and of the right coin."""

import pytest

from barograph.briefs.texts import Followed, what_followed
from barograph.briefs.writer import BriefWriter
from barograph.kit.timestamps import DAY, HOUR
from barograph.macro.evidence import NO_FIGURES
from barograph.markets.evidence import MarketEvidence, Outage, TrailingRecord
from support.evidence import AT, add_hours, evidence

DAYS = 40
STARTS = [AT - (31 - number) * DAY for number in range(30)]
"""The day after the last one ended a day ago."""


def recorded(trailing: TrailingRecord | None = None) -> MarketEvidence:
    """BTC has risen by 1 USD per hour, from 1,000 USD."""
    rising = add_hours(TrailingRecord(), DAYS * 24, price=lambda number: 1_000.0 + number)
    return evidence(trailing=rising if trailing is None else trailing)


def test_cases_that_overlap_in_time_are_left_out() -> None:
    apart = what_followed("btc", STARTS, recorded())
    doubled = sorted([*STARTS, *(start + 12 * HOUR for start in STARTS)])

    assert apart is not None
    assert apart.cases == 30
    assert what_followed("btc", doubled, recorded()) == apart


@pytest.mark.parametrize(("later", "counts"), [(0, True), (1, False)])
def test_a_case_counts_three_hours_after_its_day_is_over(later: int, counts: bool) -> None:
    newest = AT - DAY - 3 * HOUR + later
    found = what_followed("btc", [*STARTS[:-1], newest], recorded())

    assert (found is not None) is counts


def test_only_the_prices_at_both_ends_of_a_day_matter() -> None:
    ends = {at for start in STARTS for at in (start, start + DAY)}

    def price(number: int) -> float:
        is_end = AT - (DAYS * 24 - number) * HOUR in ends
        return 1_000.0 + number if is_end else 1.0

    strange = add_hours(TrailingRecord(), DAYS * 24, price=price)

    assert what_followed("btc", STARTS, recorded(strange)) == what_followed(
        "btc", STARTS, recorded()
    )


@pytest.mark.parametrize(
    ("subject", "symbol"),
    [("eth-high", "ETH"), ("eth", "ETH"), ("market", "BTC"), ("10y-3m", "BTC"), ("btc", "BTC")],
)
def test_the_price_is_that_of_the_subject_or_of_bitcoin(subject: str, symbol: str) -> None:
    trailing = add_hours(TrailingRecord(), DAYS * 24)
    add_hours(trailing, DAYS * 24, "ETH")

    found = what_followed(subject, STARTS, recorded(trailing))

    assert found == Followed(symbol, 24, 30, 0.0, 0.0, 0.0)


def test_briefs_about_the_quality_of_data_say_nothing_about_prices() -> None:
    writer, hours = BriefWriter(), recorded().trailing
    for at in (*STARTS, AT):
        seen = evidence(as_of=at, trailing=hours, outage=Outage(at - HOUR, at, "throttled"))
        briefs = writer.conclude(seen, NO_FIGURES)

    assert [each.rule for each in briefs].count("outage") == 31
    assert not any("followed" in each.inputs for each in briefs)
