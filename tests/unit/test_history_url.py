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
    "address",
    ["postgresql://user:hunter2@db/history", "postgres://db/x", "postgresql+asyncpg://db/x"],
)
def test_a_postgresql_address_is_refused_plainly_and_without_its_password(address: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read(history_url=address)

    said = str(refused.value)
    assert said.startswith("BAROGRAPH_HISTORY_URL: a history in PostgreSQL is not supported yet")
    assert "sqlite:///" in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    "address",
    [
        "history.sqlite3",
        "/srv/history.sqlite3",
        "sqlite://history.sqlite3",
        "sqlite:///",
        "sqlite:////srv/",
        "sqlite:///a.sqlite3?mode=ro",
        "sqlite:///a\0b",
        "sqlite:///:memory:",
        "mysql://db/history",
    ],
)
def test_an_address_that_is_no_file_is_refused_by_name(address: str) -> None:
    with pytest.raises(ConfigurationError, match="BAROGRAPH_HISTORY_URL: sqlite:/// and the path"):
        read(history_url=address)


@pytest.mark.parametrize("name", ["barograph.sqlite3", "limits.sqlite3", "x/../barograph.sqlite3"])
def test_the_record_is_never_the_service_s_own_file(name: str) -> None:
    with pytest.raises(ConfigurationError, match="must be a file of its own"):
        read(data="/srv/baro", history_url=f"sqlite:////srv/baro/{name}")
