"""What the release script refuses."""

import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from tools import release


class Package(Distribution):
    """A package that has only metadata."""

    def __init__(self, fields: str) -> None:
        self._fields = fields

    def read_text(self, filename: str) -> str | None:
        return self._fields if filename == "METADATA" else None

    def locate_file(self, path: object) -> Path:
        raise NotImplementedError(path)


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("x", "License-Expression: MIT OR Apache-2.0", "MIT OR Apache-2.0"),
        ("x", "License: MIT License", "MIT"),
        ("x", "Classifier: License :: OSI Approved :: Apache Software License", "Apache-2.0"),
        ("x", "Classifier: Topic :: Internet", "not stated"),
        ("jinja2", "Classifier: License :: OSI Approved :: BSD License", "BSD-3-Clause"),
    ],
)
def test_a_licence_comes_from_the_metadata_or_from_our_own_reading(
    name: str, fields: str, expected: str
) -> None:
    assert release.licence(name, Package(f"Name: {name}\n{fields}\n")) == expected


@pytest.mark.parametrize("stated", ["not stated", "AGPL-3.0-only", "MIT AND GPL-2.0-only"])
def test_a_licence_that_is_not_on_the_list_stops_the_release(stated: str) -> None:
    release.check_licences({"a": "MIT", "b": "Apache-2.0 OR BSD-3-Clause"})
    with pytest.raises(release.ReleaseError, match=f"the licence of x: {stated}. Read it"):
        release.check_licences({"a": "MIT", "x": stated})


def test_an_archive_with_other_files_than_were_committed_stops_the_release() -> None:
    release.check_names(Path("x.whl"), {"x/a.py"}, {"x/a.py"})
    with pytest.raises(release.ReleaseError, match=r"lacks \['x/py.typed'\] .* \['x/a.pyc'\]"):
        release.check_names(Path("x.whl"), {"x/a.pyc"}, {"x/py.typed"})


def test_a_folder_with_other_files_stops_the_release_and_keeps_them(tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    with pytest.raises(release.ReleaseError, match="other files"):
        release.release(tmp_path / "scratch", tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["letters"]


def test_a_failed_command_stops_the_release_with_what_it_printed() -> None:
    with pytest.raises(release.ReleaseError, match=r"exit\('why'\)` failed:\nwhy"):
        release.run(sys.executable, "-c", "exit('why')")


def test_the_lock_counts_only_for_this_machine() -> None:
    lock = "a==1 \\\n  --hash=sha256:01 \\\n  --hash=sha256:02\n"
    lock += "b==2 ; sys_platform == 'win32' \\\n  --hash=sha256:03\n"
    assert release.locked_hashes(lock) == {"a": ["01", "02"]}
