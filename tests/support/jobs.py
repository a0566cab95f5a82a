"""A leader's database and lease, and a pause that ends a job after some rounds."""

import asyncio
from pathlib import Path
from typing import TypeVar

from barograph.kit.database import Database, Work
from barograph.kit.lease import Lease
from barograph.kit.timestamps import SECOND
from support.clock import HandClock
from support.databases import DatabaseDouble, upgraded_database

T = TypeVar("T")


class Stopped(Exception):
    """The last round is over."""


class Rounds:
    """A pause that records its length, and stops the job after some rounds."""

    def __init__(self, count: int, clock: HandClock) -> None:
        self._left = count
        self._clock = clock
        self.pauses: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._clock.pass_seconds(seconds)
        self._left -= 1
        if self._left <= 0:  # also later: a job may log what a pause within its work raises
            raise Stopped


class FailingDatabase(DatabaseDouble):
    """A database that raises these errors first."""

    def __init__(self, database: Database, *errors: Exception) -> None:
        super().__init__(database)
        self._errors = list(errors)

    async def read(self, work: Work[T]) -> T:
        self._fail()
        return await self._database.read(work)

    async def write(self, work: Work[T]) -> T:
        self._fail()
        return await self._database.write(work)

    def _fail(self) -> None:
        if self._errors:
            raise self._errors.pop(0)


class Leader:
    """A database and the lease of its leader."""

    def __init__(self, folder: Path, runner: asyncio.Runner) -> None:
        self.run = runner.run
        self.clock = HandClock()
        self.database = upgraded_database(folder / "barograph.sqlite3")
        self.lease = self.new_lease("first")
        assert self.run(self.lease.acquire())

    def new_lease(self, holder: str) -> Lease:
        return Lease(self.database, "collector", holder, clock=self.clock, milliseconds=SECOND)

    def lose_the_lease(self) -> None:
        self.clock.pass_seconds(2)
        assert self.run(self.new_lease("other").acquire())

    def close(self) -> None:
        self.run(self.database.close())
