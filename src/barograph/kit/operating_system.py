"""What we ask of the operating system: parents, open files, ports, locks and secret files."""

import contextlib
import ctypes
import fcntl
import logging
import os
import resource
import signal
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from secrets import randbelow, token_bytes, token_hex
from typing import IO

from barograph.errors import ConfigurationError

log = logging.getLogger(__name__)

OWNER_ONLY = 0o600
_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Ask the kernel to kill this process when its parent ends, for whatever reason.

    A fork loses the setting, so every process calls this. `parent` is the parent's process id as
    the parent stated it, because the parent may already be gone.
    """
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid() if parent is None else parent
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def raise_file_limit() -> int:
    """Raise the soft limit on open files to the hard limit, and return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems refuse their own hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def require_free_port(host: str, port: int) -> None:
    """Refuse a port that is in use.

    The web server shares its port among its workers, and would share it with a second service too.

    Raises:
        ConfigurationError: the port is taken, or the address is not on this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ConfigurationError(
                f"{host}:{port} cannot be used ({error.strerror}): stop the other program or "
                "choose another port with --port"
            ) from error


def free_port(host: str) -> int:
    """Find a free port, and reserve it for a minute.

    It is below the system's range for outgoing connections, so none of them takes it before our
    server does. A connection that its server closed keeps the port in the state TIME_WAIT: this
    function then passes over it, in every process, and servers, which set SO_REUSEADDR, can use it.
    """
    while True:
        port = 15_000 + randbelow(17_000)
        with contextlib.suppress(OSError):
            with socket.socket() as probe:  # without SO_REUSEADDR: fails if the port is reserved
                probe.bind((host, port))
            with socket.socket() as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((host, port))
                listener.listen()
                with socket.create_connection((host, port)):
                    listener.accept()[0].close()
            return port


@contextlib.contextmanager
def lock_folder(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Lock a folder for this process, or together with others that share it.

    Raises:
        ConfigurationError: another process has locked it.
    """
    # The folder itself: a lock file could be moved away together with the data.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigurationError(
                f"{folder} is in use by another process: stop it or choose another folder"
            ) from error
        except OSError:  # NFS can't lock a folder
            log.warning("the folder can't be locked", extra={"folder": str(folder)})
        yield
    finally:
        os.close(descriptor)


def lock_file(file: Path) -> IO[str] | None:
    """Lock a file until it is closed or this process ends; None if another process has it."""
    lock = file.open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def is_locked(file: Path) -> bool:
    """Whether a process has locked a file."""
    lock = lock_file(file)
    if lock is not None:
        lock.close()
    return lock is None


def load_or_create_secret(
    file: Path, size: int, *, setting: str, loss: str, create: bool = True, most: int = 1
) -> bytes:
    """Return the file's content; create it with `size` random bytes if it is missing or empty.

    A new file is readable by its owner only. A file may hold up to `most` secrets. Errors name
    the `setting` that can replace the file, and the `loss` if it is deleted. Without `create`, a
    missing file counts as damaged.

    Raises:
        ConfigurationError: it can neither be read nor created, is damaged, or every user of the
            machine may read or change it.
    """
    try:
        secret = file.read_bytes() if file.exists() else b""
        if create and not secret:
            secret = make_secret(file, token_bytes(size))
        exposed = is_exposed(file)
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be used ({error.strerror}): make the folder {file.parent} writable, or "
            f"set {setting}"
        ) from error
    if exposed:
        raise ConfigurationError(
            f"every user of this machine may read or change {file}: run `chmod 600 {file}`, and "
            "replace the secret if someone may have read it"
        )
    if len(secret) not in range(size, most * size + 1, size):
        raise ConfigurationError(
            f"{file} is damaged: restore the file of {size} bytes, or delete it, which {loss}"
        )
    return secret


def replace_file(file: Path, place: Path) -> None:
    """Move a file to a place where another may be; after a power cut one of them is there."""
    file.replace(place)
    sync_folder(place.parent)


def write_once(file: Path, content: bytes) -> None:
    """Create a file that only its owner can read. If several processes try, the first one wins."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = write_draft(file, content)
    try:
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def write_draft(file: Path, content: bytes) -> Path:
    """Write content to a new file beside `file`, which only its owner can read."""
    draft = file.with_suffix(f".{token_hex(4)}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY)
    with os.fdopen(descriptor, "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    return draft


def is_exposed(file: Path) -> bool:
    """Whether every user of the machine may read or change a file."""
    return file.exists() and bool(file.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH))


def is_world_writable(folder: Path) -> bool:
    """Whether every user of the machine may add and replace files in a folder."""
    return folder.exists() and bool(folder.stat().st_mode & stat.S_IWOTH)


def make_secret(file: Path, secret: bytes) -> bytes:
    """Write a new secret unless another process was first; return what the file holds."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY)
    with os.fdopen(descriptor, "r+b") as out:
        fcntl.flock(out, fcntl.LOCK_EX)
        content = out.read()
        if content:
            return content
        os.fchmod(descriptor, OWNER_ONLY)  # an empty file may have been left with another mode
        out.write(secret)
        out.flush()
        os.fsync(out.fileno())
    sync_folder(file.parent)
    return secret


def sync_folder(folder: Path) -> None:
    """Make the new file's name survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def close_stalled_connections(seconds: int) -> bool:
    """Let Linux close new connections whose client reads nothing for so long.

    Returns False while this process does not listen yet.

    Connections inherit the option from the sockets that this process listens on. A server can't
    close such a connection by itself: it waits until the client has read what was sent.
    """
    if not sys.platform.startswith("linux"):
        return True
    is_listening = False
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            if str(file.readlink()).startswith("socket:"):
                with socket.socket(fileno=os.dup(int(file.name))) as listener:
                    if listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                        listener.setsockopt(
                            socket.SOL_TCP, socket.TCP_USER_TIMEOUT, seconds * 1_000
                        )
                        is_listening = True
    return is_listening
