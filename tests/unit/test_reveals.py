"""When recorded stances become public: the terms that were announced when they were issued."""

from hypothesis import given
from hypothesis import strategies as st

from barograph.kit.timestamps import DAY
from barograph.stances.reveals import Announcement, Reveals, revealed_at, revealed_spans

NOW = 100 * DAY
times = st.integers(90, 101).map(lambda day: day * DAY)
announcements = st.lists(st.builds(Announcement, times, st.integers(0, 5)), max_size=5)


@given(announcements, times, st.integers(-1, 1))
def test_spans_hold_public_versions(announced: list[Announcement], day: int, offset: int) -> None:
    issued_at = day + offset
    public_at = revealed_at(issued_at, announced)
    spans = revealed_spans(announced, NOW)

    is_public = public_at is not None and public_at <= NOW
    assert any(start <= issued_at < end for start, end in spans) is is_public


def test_a_version_keeps_the_terms_of_its_time_of_issue() -> None:
    announced = [Announcement(10, 7), Announcement(20, 0), Announcement(30, 1)]

    public_at = [revealed_at(at, announced) for at in (9, 10, 19, 20, 29, 30)]
    assert public_at == [None, 10 + 7 * DAY, 19 + 7 * DAY, None, None, 30 + DAY]


def test_buyers_are_told_the_newest_terms() -> None:
    told = [Reveals((Announcement(0, 7), Announcement(1, days))).sentence for days in (0, 1, 30)]

    assert told == [
        "",
        "Recorded versions become public 1 day after they are issued.",
        "Recorded versions become public 30 days after they are issued.",
    ]
