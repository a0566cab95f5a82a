"""What every job has in common.

A job logs what fails and tries again, so it never stops the measuring. Only a lost lease ends it.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from barograph.errors import LeaseLost, UpstreamError
from barograph.kit.database import Database, DatabaseUnavailable, Row, Transaction, Value, Work
from barograph.kit.lease import Lease

log = logging.getLogger(__name__)

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class Job(ABC):
    """Repeats its work for as long as the collector leads."""

    def __init__(self, seconds: float, sleep: Sleep) -> None:
        self._seconds = seconds
        self._sleep = sleep

    async def __call__(self, lease: Lease) -> None:
        """Run until the lease is lost."""
        while True:
            await self.run_once(lease)
            await self._sleep(self._seconds)

    @abstractmethod
    async def run_once(self, lease: Lease) -> None:
        """Do the work once.

        Raises:
            LeaseLost: another collector leads.
        """


class FencedDatabase:
    """A database to which only the holder of the lease writes."""

    def __init__(self, database: Database, lease: Lease) -> None:
        self._database = database
        self._lease = lease
        self.engine = database.engine

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        """Run one reading statement."""
        return await self._database.fetch(sql, *values)

    async def read(self, work: Work[T]) -> T:
        """Run `work` on one consistent snapshot."""
        return await self._database.read(work)

    async def write(self, work: Work[T]) -> T:
        """Run `work` as one transaction, unless the lease is lost."""

        async def fenced(tx: Transaction) -> T:
            await self._lease.fence(tx)
            return await work(tx)

        return await self._database.write(fenced)

    async def close(self) -> None:
        """Close the database itself."""
        await self._database.close()


@contextmanager
def logged(event: str, **fields: str) -> Iterator[None]:
    """Log any failure and go on, unless the lease is lost."""
    try:
        yield
    except LeaseLost:
        raise
    except UpstreamError as error:
        log.warning(event, extra={**fields, "kind": error.kind, "why": str(error)})
    except DatabaseUnavailable as error:
        log.warning(event, extra={**fields, "reason": str(error)})
    except Exception:
        log.exception(event, extra=fields)
