"""Tests of a store as plain steps: each runs to its end on the test's own event loop."""

import asyncio
from typing import TypeVar

from barograph.kit.database import Database, Row, Value, Work
from support.clock import HandClock

T = TypeVar("T")


class Steps:
    """A database with a manual clock; a test file adds the verbs of its store."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        self.database = database
        self.run = runner.run
        self.clock = HandClock()

    def read(self, work: Work[T]) -> T:
        return self.run(self.database.read(work))

    def write(self, work: Work[T]) -> T:
        return self.run(self.database.write(work))

    def fetch(self, sql: str, *values: Value) -> list[Row]:
        return self.run(self.database.fetch(sql, *values))

    def execute(self, sql: str) -> None:
        self.write(lambda tx: tx.script(sql))
