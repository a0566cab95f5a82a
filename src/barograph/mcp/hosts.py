"""Whom a request may name as its host and its origin (pure).

A page of another site can make a browser send requests here under its own name. What it cannot do
is choose other names, so those that are not this service's are refused.
"""

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?", re.ASCII)
_ORIGIN = re.compile(rf"(https?)://{_HOST.pattern}", re.ASCII | re.IGNORECASE)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Names:
    """The names of the service at a base address."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        self.host = parts.hostname or ""
        self._usual = parts.netloc.encode()
        self._origin = _origin(f"{parts.scheme}://{parts.netloc}")
        self._is_local = is_loopback(self.host)

    def is_host(self, field: bytes) -> bool:
        """Whether a `Host` names this service, by whatever port."""
        if field == self._usual:
            return True
        found = _HOST.fullmatch(field.decode("latin-1"))
        return found is not None and self._is_named(found[1])

    def is_origin(self, field: bytes) -> bool:
        """Whether an `Origin` is this service's own; on loopback, any there."""
        origin = _origin(field.decode("latin-1"))
        if origin is None:
            return False
        return origin == self._origin or (self._is_local and is_loopback(origin[1]))

    def _is_named(self, host: str) -> bool:
        name = _bare(host)
        return name == self.host or (self._is_local and is_loopback(name))


def is_loopback(name: str) -> bool:
    """Whether a host is this machine itself."""
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _origin(text: str) -> tuple[str, str, str] | None:
    found = _ORIGIN.fullmatch(text)
    if found is None:
        return None
    scheme = found[1].lower()
    return scheme, _bare(found[2]), found[3] or _DEFAULT_PORTS[scheme]


def _bare(host: str) -> str:
    return host.strip("[]").lower()
