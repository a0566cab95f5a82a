"""The record of changed labels, read back."""

import asyncio

import pytest

from barograph.kit.database import Database
from barograph.signals.judge import changes_since, last_changes
from barograph.signals.records import SignalChange
from support.steps import Steps

CHANGES = [
    SignalChange("a", 100, "low", "1"),
    SignalChange("a", 200, "high", "2"),
    SignalChange("a", 300, "low", "3"),
    SignalChange("b", 250, "calm", "4"),
]


@pytest.fixture
def steps(database: Database, runner: asyncio.Runner) -> Steps:
    steps = Steps(database, runner)
    sql = "INSERT INTO signal_changes (key, at, label, value) VALUES ($1, $2, $3, $4)"
    steps.write(lambda tx: tx.execute_many(sql, [change[:4] for change in CHANGES]))
    return steps


def test_the_last_change_of_each_signal_is_found(steps: Steps) -> None:
    last = steps.read(lambda tx: last_changes(tx, ["a", "b", "c"]))
    assert last == {"a": CHANGES[2], "b": CHANGES[3]}
    assert steps.read(lambda tx: changes_since(tx, "c", 0)) == []


@pytest.mark.parametrize(
    ("since", "first"),
    [(0, 0), (99, 0), (100, 0), (150, 0), (200, 1), (299, 1), (300, 2), (999, 2)],
)
def test_changes_from_an_instant_begin_with_the_label_in_force_then(
    steps: Steps, since: int, first: int
) -> None:
    assert steps.read(lambda tx: changes_since(tx, "a", since)) == CHANGES[first:3]
