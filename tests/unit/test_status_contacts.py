"""What a worker knows about those outside whom it asked."""

import pytest

from barograph.kit.dependency_health import REMEMBERED, Contact, of_one_part
from barograph.status.reader import reachability
from barograph.status.rules import Reachability
from support.clock import START, HandClock


class Asked:
    """Two questions to the same part, on a clock held by hand."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.keys, self.users = of_one_part(Contact(self.clock), Contact(self.clock))

    def known(self) -> Reachability:
        return reachability([self.keys, self.users], self.clock())


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_nothing_is_known_of_who_was_never_asked(asked: Asked) -> None:
    assert asked.known() == Reachability(None, None)
    assert reachability([], START) == Reachability(None, None)


def test_the_newest_answer_to_any_question_counts(asked: Asked) -> None:
    asked.users.answered()
    asked.clock.pass_seconds(5)
    asked.keys.answered()

    assert asked.known() == Reachability(START + 5_000, None)


def test_a_failure_is_told_since_its_first_time_until_the_same_question_is_answered(
    asked: Asked,
) -> None:
    asked.keys.failed()
    asked.clock.pass_seconds(60)
    asked.keys.failed()
    assert asked.known() == Reachability(None, START, START + 60_000)

    asked.clock.pass_seconds(1)
    asked.keys.answered()
    assert asked.known() == Reachability(START + 61_000, None)

    asked.clock.pass_seconds(1)
    asked.keys.failed()
    assert asked.known() == Reachability(START + 61_000, START + 62_000, START + 62_000)


def test_a_failure_stays_for_as_long_as_nothing_else_is_learned(asked: Asked) -> None:
    asked.users.failed()
    asked.clock.pass_seconds(86_400)

    assert asked.known() == Reachability(None, START, START)


def test_a_question_that_nobody_asks_again_is_forgotten_once_another_is_answered(
    asked: Asked,
) -> None:
    asked.users.failed()
    asked.clock.pass_seconds(1)
    asked.keys.answered()
    assert asked.known().failing_since == START

    asked.clock.now = START + REMEMBERED - 1
    assert asked.known().failing_since == START
    asked.clock.now = START + REMEMBERED
    assert asked.known() == Reachability(START + 1_000, None)


def test_a_failure_after_a_forgotten_one_is_told_since_itself(asked: Asked) -> None:
    asked.users.failed()
    asked.clock.pass_seconds(1)
    asked.keys.answered()
    asked.clock.pass_seconds(5 * 3_600)
    asked.users.failed()

    assert asked.known().failing_since == START + (5 * 3_600 + 1) * 1_000


def test_a_question_that_goes_on_failing_is_told_since_its_first_time_though_another_is_answered(
    asked: Asked,
) -> None:
    for _ in range(4):
        asked.users.failed()
        asked.clock.pass_seconds(30)
        asked.keys.answered()

    assert asked.known().failing_since == START


def test_the_longest_failure_is_told_where_both_fail(asked: Asked) -> None:
    asked.users.failed()
    asked.clock.pass_seconds(3)
    asked.keys.failed()

    assert asked.known() == Reachability(None, START, START + 3_000)
