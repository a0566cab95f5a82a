"""The record of changed labels, read back."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from barograph.kit.database import Database, Transaction
from barograph.signals.judge import changes_since, last_changes
from barograph.signals.records import SignalChange

T = TypeVar("T")

CHANGES = [
    SignalChange("a", 100, "low", "1"),
    SignalChange("a", 200, "high", "2"),
    SignalChange("a", 300, "low", "3"),
    SignalChange("b", 250, "calm", "4"),
]


@pytest.fixture
def read(
    database: Database, runner: asyncio.Runner
) -> Callable[[Callable[[Transaction], Coroutine[Any, Any, T]]], T]:
    async def fill(tx: Transaction) -> None:
        sql = "INSERT INTO signal_changes (key, at, label, value) VALUES ($1, $2, $3, $4)"
        await tx.execute_many(sql, [each[:4] for each in CHANGES])

    runner.run(database.write(fill))
    return lambda work: runner.run(database.read(work))


def test_the_last_change_of_each_signal_is_found(read: Callable[..., Any]) -> None:
    found = read(lambda tx: last_changes(tx, ["a", "b", "c"]))

    assert found == {"a": CHANGES[2], "b": CHANGES[3]}


@pytest.mark.parametrize(
    ("since", "first"),
    [(0, 0), (99, 0), (100, 0), (150, 0), (200, 1), (299, 1), (300, 2), (999, 2)],
)
def test_changes_from_an_instant_begin_with_the_label_in_force_then(
    read: Callable[..., Any], since: int, first: int
) -> None:
    assert read(lambda tx: changes_since(tx, "a", since)) == CHANGES[first:3]


def test_a_signal_that_never_changed_has_no_changes(read: Callable[..., Any]) -> None:
    assert read(lambda tx: changes_since(tx, "c", 0)) == []
