"""What a worker knows about its dependencies from its own calls."""

import pytest

from barograph.kit.dependency_health import FAILURE_MEMORY, DependencyHealth, linked
from barograph.status.reader import reachability
from barograph.status.rules import Reachability
from support.clock import START, HandClock


class Asked:
    """Two kinds of calls to one dependency, on a clock held by hand."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.keys, self.users = linked(DependencyHealth(self.clock), DependencyHealth(self.clock))

    def known(self) -> Reachability:
        return reachability([self.keys, self.users], self.clock())


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_nothing_is_known_before_the_first_call_and_then_the_newest_answer(asked: Asked) -> None:
    assert reachability([], START) == asked.known() == Reachability(None, None)
    asked.users.answered()
    asked.clock.pass_seconds(5)
    asked.keys.answered()

    assert asked.known() == Reachability(START + 5_000, None)


def test_a_failure_lasts_from_its_first_time_until_the_same_call_succeeds(asked: Asked) -> None:
    asked.keys.failed()
    asked.clock.pass_seconds(60)
    assert asked.known() == Reachability(None, START, START)
    asked.keys.failed()
    assert asked.known() == Reachability(None, START, START + 60_000)

    asked.clock.pass_seconds(1)
    asked.keys.answered()
    assert asked.known() == Reachability(START + 61_000, None)

    asked.clock.pass_seconds(1)
    asked.keys.failed()
    assert asked.known() == Reachability(START + 61_000, START + 62_000, START + 62_000)


def test_an_old_failure_is_superseded_once_another_call_succeeds(asked: Asked) -> None:
    asked.users.failed()
    asked.clock.pass_seconds(1)
    asked.keys.answered()
    assert asked.known().failing_since == START

    asked.clock.now = START + FAILURE_MEMORY - 1
    assert asked.known().failing_since == START
    asked.clock.now = START + FAILURE_MEMORY
    assert asked.known() == Reachability(START + 1_000, None)


def test_a_failure_after_a_superseded_one_starts_at_its_own_time(asked: Asked) -> None:
    asked.users.failed()
    asked.clock.pass_seconds(1)
    asked.keys.answered()
    asked.clock.pass_seconds(5 * 3_600)
    asked.users.failed()

    assert asked.known().failing_since == START + (5 * 3_600 + 1) * 1_000


def test_a_call_fails_since_its_first_failure_though_another_succeeds(asked: Asked) -> None:
    for _ in range(4):
        asked.users.failed()
        asked.clock.pass_seconds(30)
        asked.keys.answered()

    assert asked.known().failing_since == START


def test_the_longest_failure_counts_where_both_fail(asked: Asked) -> None:
    asked.users.failed()
    asked.clock.pass_seconds(3)
    asked.keys.failed()

    assert asked.known() == Reachability(None, START, START + 3_000)
