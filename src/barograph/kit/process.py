"""Processes that belong together."""

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from barograph.errors import ConfigurationError

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Ask the kernel to end this process when its parent ends, however that happens.

    A fork forgets it, so every process asks for itself. `parent` is the id that the parent gave
    of itself, because by the time its child asks it may be gone already.
    """
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid() if parent is None else parent
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def raise_file_limit() -> int:
    """Raise this process's limit on open files as far as allowed, and return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems refuse their own hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def require_free_port(host: str, port: int) -> None:
    """Refuse a port that somebody listens on.

    The web server shares its port among its workers, and would share it with a second service
    just as readily, which would split the callers over two databases.

    Raises:
        ConfigurationError: the port is taken, or the address is not this machine's.
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
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep a folder to this process for as long as the context lasts.

    Raises:
        ConfigurationError: another process has it.
    """
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigurationError(
                f"{folder} is in use by another process: stop it or choose another folder"
            ) from error
        yield
