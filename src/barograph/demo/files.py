"""Files of the demo's folder: readers see the whole of them or none, also after a power cut."""

import os
from pathlib import Path
from secrets import token_hex
from typing import Final

import msgspec

from barograph.demo.world.paths import HOUR
from barograph.errors import ConfigurationError


def write_once(file: Path, content: bytes) -> None:
    """Make a file that only its owner can read, unless there is one: whoever comes first wins."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = _draft(file, content)
    try:
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def replace_file(file: Path, content: bytes) -> None:
    """Give a file, which only its owner can read, other content."""
    _draft(file, content).replace(file)


def _draft(file: Path, content: bytes) -> Path:
    draft = file.with_suffix(f".{token_hex(4)}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    return draft


FILE_NAME: Final = "world.json"
HISTORY_DAYS: Final = 60
"""A new world already has this much past."""


class Anchor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a world is a function of; `epoch` is its start, in milliseconds."""

    seed: int
    epoch: int


def load_or_create_anchor(data: Path, seed: int, now: int) -> Anchor:
    """The anchor of a data folder: the stored one if there is one, whatever the seed.

    Raises:
        ConfigurationError: the stored anchor cannot be used.
    """
    file = data / FILE_NAME
    if file.exists():
        return _load(file, now)
    anchor = Anchor(seed, now - now % HOUR - HISTORY_DAYS * 24 * HOUR)
    data.mkdir(parents=True, exist_ok=True)
    # Readers see the whole file or none, also after a power cut.
    half = file.with_suffix(f".{os.getpid()}.tmp")
    with half.open("wb") as out:
        out.write(msgspec.json.encode(anchor))
        out.flush()
        os.fsync(out.fileno())
    half.replace(file)
    return anchor


def _load(file: Path, now: int) -> Anchor:
    remedy = f"delete the folder {file.parent} to begin a new world"
    try:
        anchor = msgspec.json.decode(file.read_bytes(), type=Anchor)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigurationError(f"{file} cannot be read as a world ({error}); {remedy}") from error
    if anchor.epoch % HOUR or anchor.epoch <= 0:
        raise ConfigurationError(f"{file} has an epoch that is not a full hour; {remedy}")
    if anchor.epoch > now:
        raise ConfigurationError(
            f"{file} begins in the future; set the machine's clock right, or {remedy}"
        )
    return anchor
