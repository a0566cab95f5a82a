"""Numbered SQL files, each applied once and in order.

All run in one transaction under the database's write lock, so concurrent upgrades all succeed and a
crash leaves the old schema.
"""

from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from barograph.errors import ConfigurationError
from barograph.kit.clock import Clock
from barograph.kit.database import POSTGRESQL, SQLITE, Database, Engine, Queryable, Row, Transaction
from barograph.kit.postgresql import NotPermitted

_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    number BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    applied_at BIGINT NOT NULL
)
"""

_CACHE = "PRAGMA cache_size = -65536"
"""64 MiB for this connection: a step may read a large table by an index, in another order."""


class Migration(NamedTuple):
    """One step of the schema."""

    number: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        """Shows whether a file was edited after it was applied."""
        return sha256(self.sql.encode()).hexdigest()


SERVICE = "service"
"""The schema of the service's database, and the folder of its migrations."""


def packaged_migrations(schema: str = SERVICE, engine: Engine = SQLITE) -> list[Migration]:
    """The migrations of this version, in order.

    PostgreSQL starts with a baseline, whose number is that of the newest SQLite file it replaces.
    """
    place = files("barograph") / "migrations" / schema / engine
    names = sorted(entry.name for entry in place.iterdir() if entry.name.endswith(".sql"))
    return [
        Migration(int(name[:4]), name.removesuffix(".sql")[5:], (place / name).read_text("utf-8"))
        for name in names
    ]


async def upgrade(
    database: Database,
    migrations: Sequence[Migration],
    clock: Clock,
    finish: Callable[[Transaction], Awaitable[None]] | None = None,
) -> list[str]:
    """Apply missing migrations, and `finish` in the same transaction; return their names.

    On PostgreSQL only the owner may apply them. If none is missing, any role may call this.

    Raises:
        ConfigurationError: the database is newer than this version, an applied file changed, it is
            the database of another schema, or our role may not change it.
    """

    async def apply(tx: Transaction) -> list[str]:
        if database.engine == SQLITE:
            await tx.script(_CACHE)
        await tx.script(_TABLE)
        steps = await _missing(tx, migrations, database.engine)  # another process may be faster
        for step in steps:
            await tx.script(step.sql)
            await tx.execute(_RECORD, step.number, step.name, step.digest, clock())
        if finish is not None:
            await finish(tx)
        return [step.name for step in steps]

    try:
        return await database.write(apply) if await missing_migrations(database, migrations) else []
    except NotPermitted as error:
        raise ConfigurationError(
            "our PostgreSQL role may not upgrade the database, or not read schema_migrations: "
            "run `barograph db upgrade` with the owner's URL, then deploy/postgresql-roles.sql"
        ) from error


async def missing_migrations(database: Database, migrations: Sequence[Migration]) -> list[str]:
    """The names of the migrations that a database lacks.

    Raises:
        ConfigurationError: the database is newer than this version, an applied file changed, or it
            is the database of another schema.
        DatabaseUnavailable: it cannot be read.
    """
    return [step.name for step in await _missing(database, migrations, database.engine)]


_APPLIED = "SELECT number, digest FROM schema_migrations ORDER BY number"
_RECORD = "INSERT INTO schema_migrations (number, name, digest, applied_at) VALUES ($1, $2, $3, $4)"

_IS_UPGRADED = {
    SQLITE: "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'",
    POSTGRESQL: "SELECT 1 WHERE to_regclass('schema_migrations') IS NOT NULL",
}


async def _missing(
    queryable: Queryable, migrations: Sequence[Migration], engine: Engine
) -> list[Migration]:
    applied: list[Row] = []
    if await queryable.fetch(_IS_UPGRADED[engine]):
        applied = await queryable.fetch(_APPLIED)
    known = {step.number: step for step in migrations}
    for number, digest in applied:
        step = known.pop(number, None)
        if step is None or step.digest != digest:
            raise ConfigurationError(_other_history(number, step, _schema_of(digest, engine)))
    return list(known.values())


def _other_history(number: int, step: Migration | None, schema: str | None) -> str:
    if schema is not None:
        return (
            f"this is the database of the {schema}: BAROGRAPH_DATABASE_URL and "
            "BAROGRAPH_HISTORY_URL must name two databases"
        )
    if step is None:
        return (
            f"the database has migration {number}, which this version does not know: run the newer "
            "barograph that made it, or restore the backup from before the upgrade"
        )
    return (
        f"migration {number} ({step.name}) was edited after it was applied: restore the file and "
        "add a new migration instead"
    )


def _schema_of(digest: str, engine: Engine) -> str | None:
    """The schema that has a packaged migration with this digest."""
    for schema in (files("barograph") / "migrations").iterdir():
        if digest in {step.digest for step in packaged_migrations(schema.name, engine)}:
            return schema.name
    return None
