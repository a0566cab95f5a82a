"""Hosts of one PostgreSQL database have the same secrets."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pydantic import SecretStr

from barograph.cli import cli
from barograph.cli.doctor_databases import check_secrets
from barograph.errors import ConfigurationError
from barograph.keys.api_keys import PEPPER_FILE, load_pepper
from barograph.kit.database import POSTGRESQL, Database, Engine
from barograph.kit.fingerprints import replace_fingerprint
from barograph.kit.migrations import SERVICE
from barograph.settings import Settings
from barograph.web.shared_secrets import forget_secrets, require_shared_secrets, web_secrets
from barograph.webhooks.keys import shared_webhook_keys
from support.backends import Backend
from support.databases import upgraded_database
from support.postgresql import PostgreSQL

NewHost = Callable[[str], Settings]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return POSTGRESQL


@pytest.fixture
def host(tmp_path: Path, backend: Backend) -> NewHost:
    """Makes the settings of a host with a new data folder."""

    def make(name: str) -> Settings:
        (tmp_path / name).mkdir()
        return Settings(data=tmp_path / name, database_url=SecretStr(str(backend.address)))

    return make


async def start(database: Database, host: Settings) -> None:
    await require_shared_secrets(database, host.data, web_secrets(host))


@pytest.mark.outcome(
    "A host has another pepper, checkpoint key or webhook key than the others of its "
    "PostgreSQL database",
    "It refuses to start and says how to share them.",
)
async def test_host_with_other_secrets_is_refused_until_they_are_replaced(
    database: Database, host: NewHost
) -> None:
    first, second = host("first"), host("second")
    pepper = (first.data / PEPPER_FILE).read_bytes

    with pytest.raises(ConfigurationError, match="copy webhook-key"):
        await shared_webhook_keys(database, first)
    for _ in range(2):
        await start(database, first)
    # A collector that was started before the web server on its host signs from now on.
    assert len(await shared_webhook_keys(database, first)) == 1
    every = "another history-key and key-pepper and webhook-key: "
    with pytest.raises(ConfigurationError, match=every):
        await start(database, second)
    with pytest.raises(ConfigurationError, match="copy webhook-key"):
        await shared_webhook_keys(database, second)
    (second.data / PEPPER_FILE).write_bytes(pepper())
    with pytest.raises(ConfigurationError, match="another history-key and webhook-key: "):
        await start(database, second)
    await forget_secrets(database)
    await start(database, second)
    with pytest.raises(ConfigurationError, match="another history-key and webhook-key: "):
        await start(database, first)
    (first.data / PEPPER_FILE).write_bytes(b"p" * 32)
    for name, secret in web_secrets(first).items():
        await database.write(partial(replace_fingerprint, name=name, secret=secret))
    await start(database, first)
    stored = await database.fetch("SELECT * FROM secret_fingerprints")
    assert pepper().hex() not in str(stored)


async def test_doctor_names_secrets_that_are_missing_or_differ_and_stores_nothing(
    database: Database, host: NewHost
) -> None:
    first, second = host("first"), host("second")
    said = [await check_secrets(second)]
    await start(database, first)
    said += [await check_secrets(first), await check_secrets(second)]
    assert list(second.data.iterdir()) == []
    web_secrets(second)
    said.append(await check_secrets(second))

    other = "is not the one that this database was used with"
    assert [each.status for each in said] == ["ok", "ok", "fail", "fail"]
    assert said[2].detail == "history-key is missing; key-pepper is missing; webhook-key is missing"
    assert said[3].detail == f"history-key {other}; key-pepper {other}; webhook-key {other}"
    assert f"copy the files from the data folder of another host to {second.data}" in said[3].remedy


async def test_command_for_the_pepper_compares_nothing_else(
    database: Database, host: NewHost
) -> None:
    office, web = host("office"), host("web")
    pepper = {PEPPER_FILE: load_pepper(office)}
    for _ in range(2):
        await require_shared_secrets(database, office.data, pepper)
    shutil.copy(office.data / PEPPER_FILE, web.data)
    await start(database, web)
    await require_shared_secrets(database, office.data, pepper)


def test_new_pepper_revokes_every_key(postgresql: PostgreSQL, tmp_path: Path) -> None:
    file, url = tmp_path / PEPPER_FILE, postgresql.create(SERVICE)

    def run(command: str, *options: str, **environment: str) -> Result:
        arguments = ["keys", command, *options, "--data", str(tmp_path)]
        environment["BAROGRAPH_DATABASE_URL"] = url
        return CliRunner().invoke(cli, arguments, input="n\n", env=environment)

    for name in ("a", "b"):
        assert run("create", "--email", f"{name}@example.com").exit_code == 0
    old = file.read_bytes()
    assert (run("rotate-pepper").exit_code, file.read_bytes()) == (1, old)
    file.write_bytes(bytes(32))
    assert run("list").exit_code == 1
    result = run("rotate-pepper", "--yes")
    assert result.output.startswith("revoked 2 keys\nreplaced key-pepper"), result.output
    assert file.read_bytes() not in (old, bytes(32))
    assert "works" not in run("list").output
    result = run("rotate-pepper", "--yes", BAROGRAPH_KEY_PEPPER="p" * 32)
    assert "now set BAROGRAPH_KEY_PEPPER to another secret" in result.output


async def test_sqlite_serves_one_host_and_stores_no_fingerprint(tmp_path: Path) -> None:
    database = upgraded_database(tmp_path / "barograph.sqlite3")

    await start(database, Settings(data=tmp_path))
    assert await database.fetch("SELECT * FROM secret_fingerprints") == []
    await database.close()
