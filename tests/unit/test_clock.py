"""How instants are written."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.kit.clock import system_clock
from barograph.kit.timestamps import SECOND, http_date, iso_timestamp
from support.clock import START

instants = st.integers(0, 4_102_444_800_000)


@pytest.mark.parametrize(
    ("at", "written"),
    [
        (START, "2026-11-06T21:20:00.000Z"),
        (START + 7, "2026-11-06T21:20:00.007Z"),
        (START + 999, "2026-11-06T21:20:00.999Z"),
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
    ],
)
def test_timestamps_are_utc_with_exactly_three_digits_of_a_second(at: int, written: str) -> None:
    assert iso_timestamp(at) == written


@given(instants)
def test_a_timestamp_reads_back_as_the_same_millisecond(at: int) -> None:
    moment = datetime.fromisoformat(iso_timestamp(at))

    assert round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000) == at


def test_an_http_date_is_in_gmt() -> None:
    assert http_date(START) == "Fri, 06 Nov 2026 21:20:00 GMT"


@given(instants)
def test_an_http_date_cuts_off_parts_of_a_second(at: int) -> None:
    assert parsedate_to_datetime(http_date(at)).timestamp() == at // SECOND


def test_the_system_clock_counts_whole_milliseconds() -> None:
    before, now, after = time() * 1000 - 1, system_clock(), time() * 1000

    assert isinstance(now, int)
    assert before <= now <= after
