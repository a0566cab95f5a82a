"""Files of the demo's folder: readers see the whole of them or none, also after a power cut."""

import os
from pathlib import Path
from secrets import token_hex


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
