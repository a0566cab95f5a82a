"""Where a running demo is, read by several commands."""

import json
from pathlib import Path

import pytest

from barograph.cli.common import running_demo, served_settings
from barograph.settings import Settings

PLACES = {"base_url": "http://127.0.0.1:8081", "facilitator": "127.0.0.1:9000"}


def test_the_places_of_a_running_demo_are_read(tmp_path: Path) -> None:
    (tmp_path / "demo.json").write_text(json.dumps(PLACES))
    assert running_demo(tmp_path) == PLACES
    assert served_settings(tmp_path).base_url == PLACES["base_url"]
    (tmp_path / "demo.json").write_text('{"exchange": "x"}')
    assert served_settings(tmp_path) == Settings.model_validate({"data": tmp_path})


@pytest.mark.parametrize(
    "text", [None, b"", b'{"base_url": "http://127', b"[]", b'"x"', b"\xff", b'{"base_url": 7}']
)
def test_a_missing_or_torn_file_means_no_demo(tmp_path: Path, text: bytes | None) -> None:
    if text is not None:
        (tmp_path / "demo.json").write_bytes(text)
    assert running_demo(tmp_path) == {}
    assert served_settings(tmp_path) == Settings.model_validate({"data": tmp_path})
