"""The client package as a wheel: anyone with this site's address can install it and audit us."""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.metadata import Distribution, distribution
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO
from pathlib import PurePosixPath
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

_PACKAGE = "barograph_client"
_INFO_FILES = ("METADATA", "WHEEL", "entry_points.txt")
_KEPT = (".py", ".typed")


class Wheel(NamedTuple):
    """A wheel and its file name, which pip reads."""

    name: str
    content: bytes


@cache
def client_wheel() -> Wheel:
    """The client that is installed here."""
    client = distribution(_PACKAGE)
    release = f"{_PACKAGE}-{client.version}"
    info = f"{release}.dist-info"
    entries = dict(_source_files(files(_PACKAGE), _PACKAGE))
    entries |= {f"{info}/{name}": _info(client, name) for name in _INFO_FILES}
    record = f"{info}/RECORD"
    lines = [f"{name},{_digest(content)},{len(content)}" for name, content in entries.items()]
    entries[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            # `ZipInfo` has a fixed date, so every worker serves the same bytes.
            archive.writestr(ZipInfo(name), content, ZIP_DEFLATED)
    return Wheel(f"{release}-py3-none-any.whl", packed.getvalue())


def _source_files(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        name = f"{path}/{each.name}"
        if each.is_dir():
            yield from _source_files(each, name)
        elif PurePosixPath(name).suffix in _KEPT:
            yield name, each.read_bytes()


def _info(client: Distribution, name: str) -> bytes:
    text = client.read_text(name) or ""
    if name == "METADATA":  # without the description, whose links lead to files of the project
        text = text.partition("\n\n")[0] + "\n"
    return text.encode()


def _digest(content: bytes) -> str:
    return "sha256=" + urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
