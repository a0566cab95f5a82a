"""Which `Host` a request may name (pure).

DNS rebinding makes a browser send requests here under the name of another site. The page can't
change that name, so the server refuses every name but its own.
"""

import re
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Authority(NamedTuple):
    """A host and its port, which is that of the scheme where none is given."""

    name: str
    port: int


class Names:
    """The names of the service at a base address."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        self.host = parts.hostname or ""
        self._scheme = parts.scheme
        self._usual = parts.netloc.encode()
        self._port = parts.port or _DEFAULT_PORTS[parts.scheme]
        self._is_local = is_loopback(self.host)

    def is_host(self, field: bytes) -> bool:
        """Whether a `Host` is the one of the base address."""
        # A proxy may speak another scheme to the service than the public does.
        return field == self._usual or self._is_own(_authority(field, self._scheme))

    def _is_own(self, found: Authority | None) -> bool:
        """Whether it is this service's; on loopback, people write any of its names."""
        if found is None or found.port != self._port:
            return False
        return found.name == self.host or (self._is_local and is_loopback(found.name))


def is_loopback(name: str) -> bool:
    """Whether a host is this machine itself."""
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _authority(field: bytes, scheme: str) -> Authority | None:
    found = _HOST.fullmatch(field.decode("latin-1"))
    if found is None:
        return None
    port = _DEFAULT_PORTS[scheme] if found[2] is None else int(found[2])
    return Authority(found[1].strip("[]").lower(), port)
