"""Loads a catalog from the operator's file, or the packaged sample."""

from functools import cache
from importlib.resources import files
from pathlib import Path

from barograph.errors import ConfigurationError
from barograph.guides.catalog import Catalog, Format, InvalidCatalog, parse_catalog

MAX_BYTES = 1 << 20

_FORMATS: dict[str, Format] = {".toml": "toml", ".json": "json"}


def load_catalog(path: Path | None) -> Catalog:
    """Load the catalog of an instance; None loads the packaged sample.

    Raises:
        ConfigurationError: the file cannot be used; the message lists every problem and the remedy.
    """
    if path is None:
        return _packaged_sample()
    try:
        return read_catalog(path)
    except InvalidCatalog as error:
        raise ConfigurationError(
            f"BAROGRAPH_GUIDES_FILE: {path} cannot be used: {error}. Correct it "
            f"(`barograph guides check {path}` lists the problems), or unset the variable to show "
            "the packaged sample"
        ) from error


def read_catalog(path: Path) -> Catalog:
    """Read an operator's file.

    Raises:
        InvalidCatalog: it cannot be read or used.
    """
    form = _FORMATS.get(path.suffix.lower())
    if form is None:
        raise InvalidCatalog(["the file's name must end in .toml or .json"])
    return parse_catalog(_text(path), form)


@cache
def _packaged_sample() -> Catalog:
    sample = files("barograph.guides") / "sample.toml"
    return parse_catalog(sample.read_text("utf-8"), "toml")._replace(is_sample=True)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidCatalog([f"the file cannot be read: {error.strerror}"]) from error
    if len(content) > MAX_BYTES:
        raise InvalidCatalog([f"the file is larger than {MAX_BYTES} bytes"])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidCatalog(["the file is not UTF-8 text"]) from error
