"""The record at the start of a service: made once, and never again in the place of one."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from barograph.cli import cli
from barograph.cli.common import is_history, prepare_history, upgrade_database
from barograph.errors import ConfigurationError
from barograph.settings import Settings
from support.operator import Operator


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path / "data")


def test_the_record_is_made_where_its_address_says(tmp_path: Path) -> None:
    elsewhere = tmp_path / "disk" / "record" / "stances.sqlite3"
    settings = Settings(data=tmp_path / "data", history_url=f"sqlite:///{elsewhere}")
    prepare_history(settings)

    assert is_history(elsewhere)
    assert not (settings.data / "history.sqlite3").exists()
    usual = Settings(data=tmp_path / "usual")
    prepare_history(usual)
    assert is_history(usual.history_path)


@pytest.mark.parametrize("content", [None, b"", b"what I did in May\n" * 300])
@pytest.mark.outcome(
    "The service starts and the history file is missing, empty or not a history",
    "It runs without one and says so. It creates none.",
)
def test_missing_or_invalid_history_is_not_replaced_at_start(
    settings: Settings, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    upgrade_database(settings)
    if content is not None:
        settings.history_path.write_bytes(content)
    prepare_history(settings)

    assert [each.levelname for each in caplog.records] == ["CRITICAL"]
    assert "put it back" in caplog.text
    assert settings.history_path.exists() == (content is not None)
    if content is not None:
        assert settings.history_path.read_bytes() == content


@pytest.mark.outcome(
    "`barograph db upgrade` finds no history, but the service has published stances",
    "It refuses with exit code 3 and creates nothing, unless you add `--new-history`.",
)
def test_upgrade_creates_a_second_history_only_on_request(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    operator.make_record()
    operator.record()
    operator.publish()
    operator.history.unlink()
    upgrade = ["db", "upgrade", "--data", str(operator.data)]

    refused = CliRunner().invoke(cli, upgrade)
    assert isinstance(refused.exception, ConfigurationError)
    assert "put the history back" in str(refused.exception)
    assert not operator.history.exists()
    assert "(history)" in CliRunner().invoke(cli, [*upgrade, "--new-history"]).stdout
