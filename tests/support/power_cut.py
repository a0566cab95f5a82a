"""A disk whose power can be cut: a SQLite VFS that knows what was synced and what was not.

It passes everything on to the real files and keeps, for each file, what a sync has made durable
and the writes since. `Disk.after_a_cut` makes a copy of what would be found had the power gone
at that moment: the durable bytes, and of the writes since only those that chance lets through,
whole, torn at a sector, or not at all. So one run can be cut at any number of moments.
"""

import random
from collections.abc import Callable
from pathlib import Path

import apsw

SECTOR = 512
NAME, REAL = "power-cut", "unix"


class _Remembered:
    """The durable bytes of one file, and the writes since."""

    def __init__(self) -> None:
        self.durable: bytearray | None = None
        self.pending: list[tuple[int, bytes]] = []
        self.current = bytearray()

    def write(self, offset: int, data: bytes) -> None:
        self.pending.append((offset, data))
        _put(self.current, offset, data)

    def truncate(self, size: int) -> None:
        # Truncation is durable at once; keeping stale bytes would be the easier case.
        del self.current[size:]
        self.pending = [(at, data[: size - at]) for at, data in self.pending if at < size]
        if self.durable is not None:
            del self.durable[size:]

    def sync(self) -> None:
        self.durable = bytearray(self.current)
        self.pending.clear()

    def survivors(self, chance: random.Random) -> bytes | None:
        """The content after a cut; None if there is no file."""
        if self.durable is None and chance.random() < 0.5:
            return None
        found = bytearray(self.durable or b"")
        mercy = chance.choice([0, 0, 0.5, 0.9])
        for offset, data in self.pending:
            if chance.random() < mercy:
                torn = chance.random() < 0.3
                _put(
                    found, offset, data[: chance.randrange(0, len(data), SECTOR)] if torn else data
                )
        return bytes(found)


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class _File(apsw.VFSFile):
    def __init__(self, disk: "Disk", name: str | apsw.URIFilename, flags: list[int]) -> None:
        self._disk = disk
        self._remembered = disk.remembered(name)
        super().__init__(REAL, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's names
        super().xWrite(data, offset)
        self._remembered.write(offset, bytes(data))
        self._disk.something_happened()

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._remembered.truncate(newsize)
        self._disk.something_happened()

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.something_happened()
        super().xSync(flags)
        self._remembered.sync()
        self._disk.something_happened()


class Disk(apsw.VFS):
    """The VFS, registered as the process's default, so the service opens its files with it."""

    def __init__(self, at_each_step: Callable[["Disk"], None]) -> None:
        self._files: dict[Path, _Remembered] = {}
        self._at_each_step = at_each_step
        super().__init__(NAME, REAL, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        assert name is not None, "temporary files are kept in memory"
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self._files.pop(Path(filename), None)
        self.something_happened()

    def remembered(self, name: str | apsw.URIFilename) -> _Remembered:
        path = Path(name if isinstance(name, str) else name.filename())
        return self._files.setdefault(path, _Remembered())

    def something_happened(self) -> None:
        self._at_each_step(self)

    def after_a_cut(self, folder: Path, chance: random.Random) -> None:
        """Write the files after a cut into a folder."""
        folder.mkdir()
        for path, file in self._files.items():
            found = file.survivors(chance)
            if found is not None:
                (folder / path.name).write_bytes(found)
