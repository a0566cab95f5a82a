"""Where the record of stances is: in the data folder, or where the setting says."""

from pathlib import Path

import pytest

from barograph.errors import ConfigurationError
from barograph.settings import Settings

PREFIX = "BAROGRAPH_"


def read(**values: str) -> Settings:
    return Settings.from_environment({PREFIX + name.upper(): v for name, v in values.items()})


def test_the_record_is_in_the_data_folder_unless_told_otherwise() -> None:
    assert read(data="/srv/baro").history_path == Path("/srv/baro/history.sqlite3")
    assert read(data="/srv/baro", history_url="").history_path == Path("/srv/baro/history.sqlite3")


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("sqlite:////mnt/record/stances.sqlite3", "/mnt/record/stances.sqlite3"),
        ("sqlite:///record/stances.sqlite3", "record/stances.sqlite3"),
        ("sqlite:///a folder/é.db", "a folder/é.db"),
    ],
)
def test_the_record_is_where_the_address_says(address: str, path: str) -> None:
    settings = read(data="/srv/baro", history_url=address)

    assert settings.history_path == Path(path)
    assert settings.database_path == Path("/srv/baro/barograph.sqlite3")
    assert Settings.from_environment(settings.to_environment()) == settings


@pytest.mark.parametrize(
    ("scheme", "more"), [("postgresql", ""), ("postgres", ":5433,[2001:db8::1]:5432")]
)
def test_both_databases_can_be_on_a_postgresql_server(scheme: str, more: str) -> None:
    server = f"{scheme}://user:hunter2@db.example{more}"
    settings = read(database_url=f"{server}/barograph", history_url=f"{server}/history")

    assert settings.database_address == f"{server}/barograph"
    assert settings.history_address == f"{server}/history"
    assert "hunter2" not in repr(settings)
    assert Settings.from_environment(settings.to_environment()) == settings


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("database_url", "sqlite:///data/barograph.sqlite3"),
        ("database_url", "postgresql://user:hunter2@db.example"),
        ("database_url", "postgresql+asyncpg://user:hunter2@db.example/x"),
        ("database_url", "postgresql://user:hunter2/x@db.example/x"),
        ("database_url", "postgresql://user:hunter2\u2100@db.example/x#"),
        ("history_url", "postgresql://db.example:hunter2/x"),
        ("history_url", "postgresql+asyncpg://user:hunter2@db.example/x"),
        ("history_url", "mysql://user:hunter2@db.example/x"),
    ],
)
def test_unknown_database_is_refused_without_its_password(name: str, address: str) -> None:
    with pytest.raises(ConfigurationError, match=f"BAROGRAPH_{name.upper()}: ") as refused:
        read(**{name: address})

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        *("history.sqlite3", "/srv/history.sqlite3", "sqlite://history.sqlite3"),
        *("sqlite:///", "sqlite:////srv/", "sqlite:///a.sqlite3?mode=ro", "sqlite:///a\0b"),
        *("sqlite:///:memory:", "mysql://db/history"),
    ],
)
def test_an_address_that_is_no_file_is_refused_by_name(address: str) -> None:
    with pytest.raises(ConfigurationError, match=r"HISTORY_URL: .*sqlite:/// and the path"):
        read(history_url=address)


SERVER = {"database_url": "postgresql://me:hunter2@db.example/one"}
FOLDER = {"data": "/srv/baro"}


@pytest.mark.parametrize(
    ("own", "address"),
    [
        (SERVER, "postgresql://db.example/one"),
        (SERVER, "postgres://other@DB.example:5432/one?sslmode=require"),
        (SERVER, "postgresql://me:hunter3@db.example:5432/one"),
        (FOLDER, "sqlite:////srv/baro/barograph.sqlite3"),
        (FOLDER, "sqlite:////srv/baro/limits.sqlite3"),
        (FOLDER, "sqlite:////srv/baro/x/../barograph.sqlite3"),
    ],
)
def test_the_record_is_never_in_the_service_database(own: dict[str, str], address: str) -> None:
    with pytest.raises(ConfigurationError, match="must name a database of its own"):
        read(**own, history_url=address)
