"""A database with two verbs, read and write; each runs one function as one transaction.

`kit.sqlite` and `kit.postgresql` implement it. The function is `async` because PostgreSQL's driver
is. On SQLite it runs to its end without waiting, so no other coroutine can slip a statement between
BEGIN and COMMIT; SQLite refuses a function that awaits anything but its own statements.

SQL uses `$1`, `$2` … and the types TEXT, BIGINT and DOUBLE PRECISION, which both engines
understand.
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, Generic, Literal, Protocol, TypeVar

from barograph.errors import BarographError

Value = str | int | float | None
Row = tuple[Any, ...]
T = TypeVar("T")

Engine = Literal["sqlite", "postgresql"]
SQLITE: Engine = "sqlite"
POSTGRESQL: Engine = "postgresql"


LOST_SECONDS: ContextVar[list[float]] = ContextVar("lost_seconds")
"""How long failed reads of a piece of work took. Work that sets this to an empty list, in a task of
its own, shares one timeout among all its reads."""


class DatabaseUnavailable(BarographError):
    """The database could not be used; nothing was written.

    Only if the connection was lost during a COMMIT, and PostgreSQL crashed or doesn't answer for
    ten seconds, may it have been written. So a caller must be able to repeat its write.
    """


class ConstraintViolated(BarographError):
    """A constraint of the database rejected the write; nothing was written."""


class Queryable(Protocol):
    """Runs single statements: a transaction, or a whole database."""

    async def fetch(self, sql: str, *values: Value) -> list[Row]:
        """Run one statement and return its rows; on a database it may only read.

        Raises:
            DatabaseUnavailable: the database cannot be read.
        """


class Transaction(Queryable, Protocol):
    """The statements of one transaction."""

    async def execute(self, sql: str, *values: Value) -> None:
        """Run one statement."""

    async def execute_many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        """Run one statement once for each row of values."""

    async def script(self, sql: str) -> None:
        """Run several statements that take no values."""


Work = Callable[[Transaction], Coroutine[Any, Any, T]]


class Database(Queryable, Protocol):
    """The service's database or the history.

    `fetch` runs one statement without BEGIN and COMMIT, which saves two round trips on PostgreSQL.
    """

    engine: Engine

    async def read(self, work: Work[T]) -> T:
        """Run `work` on one consistent snapshot.

        Raises:
            DatabaseUnavailable: the database cannot be read.
        """

    async def write(self, work: Work[T]) -> T:
        """Run `work` as one transaction, all or nothing, while no other write runs.

        Raises:
            DatabaseUnavailable: nothing was written.
        """

    async def close(self) -> None:
        """Release the connections."""


class Statement(Generic[T]):
    """A statement whose rows are records, read by the names of their columns.

    `{columns}` in the SQL becomes the names of the record's fields. `expressions` has the SQL of
    fields that are not columns: `Statement(Hour, "SELECT {columns} FROM hours", is_new="at > 5")`.
    """

    def __init__(self, record: type[T], sql: str, **expressions: str) -> None:
        # The fields of a NamedTuple, or of a msgspec struct.
        in_struct: tuple[str, ...] = getattr(record, "__struct_fields__", ())
        names: tuple[str, ...] = getattr(record, "_fields", in_struct)
        if "{columns}" not in sql or not expressions.keys() <= {*names}:
            raise ValueError(f"this statement does not name the fields of {record.__name__}")
        columns = {name: name for name in names}
        columns |= {name: f'{value} AS "{name}"' for name, value in expressions.items()}
        self.sql = sql.replace("{columns}", ", ".join(columns.values()))
        self._record = record

    async def fetch(self, queryable: Queryable, *values: Value) -> list[T]:
        """Run it and return all its records, or raise as `Queryable.fetch` does."""
        return [self._record(*row) for row in await queryable.fetch(self.sql, *values)]

    async def first(self, queryable: Queryable, *values: Value) -> T | None:
        """Run it and return its first record; None if it has none."""
        return next(iter(await self.fetch(queryable, *values)), None)


def require_storable(values: Sequence[Value]) -> Sequence[Value]:
    """Refuse text with a NUL character, which PostgreSQL cannot store.

    Raises:
        ConstraintViolated: a value has one.
    """
    for value in values:
        if isinstance(value, str) and "\0" in value:
            raise ConstraintViolated("text with a NUL character cannot be stored")
    return values
