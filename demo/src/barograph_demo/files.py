"""Files in the demo's data folder, written completely or not at all, even in a power cut."""

from pathlib import Path
from secrets import token_hex
from typing import Final

import msgspec

from barograph.errors import ConfigurationError
from barograph.kit.operating_system import write_draft, write_once
from barograph.kit.timestamps import DAY, HOUR

WORLD_FILE: Final = "world.json"
"""The service takes a data folder with this file for a demo's."""
HISTORY_DAYS: Final = 60
"""A new world already has this many days of history."""


class Anchor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What determines a world; `epoch` is its start in milliseconds."""

    seed: int
    epoch: int
    fresh: bool = False
    """Whether the demo began without a past, which no later start may replay."""
    id: str = ""
    """Tells demos with equal worlds apart, whose records differ."""


def load_or_create_anchor(data: Path, seed: int, now: int, *, fresh: bool = False) -> Anchor:
    """The anchor of a data folder. A stored one wins over `seed` and `fresh`.

    Raises:
        ConfigurationError: the stored anchor is damaged.
    """
    file = data / WORLD_FILE
    if not file.exists():
        epoch = now - now % HOUR - HISTORY_DAYS * DAY
        write_once(file, msgspec.json.encode(Anchor(seed, epoch, fresh, token_hex(4))))
    return _load(file, now)


def _load(file: Path, now: int) -> Anchor:
    remedy = f"delete the folder {file.parent} to start a new world"
    try:
        anchor = msgspec.json.decode(file.read_bytes(), type=Anchor)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigurationError(f"can't read {file} as a world ({error}); {remedy}") from error
    if anchor.epoch % HOUR or anchor.epoch <= 0:
        raise ConfigurationError(f"the epoch in {file} is not a full hour; {remedy}")
    if anchor.epoch > now:
        raise ConfigurationError(
            f"the world in {file} starts in the future; correct the machine's clock, or {remedy}"
        )
    return anchor


def replace_file(file: Path, content: bytes) -> None:
    """Replace the content of a file that only its owner can read."""
    write_draft(file, content).replace(file)
