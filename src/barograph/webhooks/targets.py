"""Which addresses a webhook may be sent to (pure)."""

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from barograph.errors import InvalidRequest
from barograph.webhooks.records import Format

MAX_URL = 2_048
PORTS = {"https": 443, "http": 80}
FIRST_FREE_PORT, LAST_PORT = 1_024, 65_535
"""Lower ports belong to other protocols, such as mail."""

NOT_PUBLIC = "url must name a public address; private, loopback and reserved ones are refused"

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9._-]+|\[[0-9a-f:.]+\])(:(?P<port>[0-9]{1,5}))?"
    r"(?P<path>[/?][!-~]*)?",
    re.ASCII | re.IGNORECASE,
)
_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_RESERVED = (ip_network("192.0.0.0/24"), ip_network("192.88.99.0/24"), ip_network("3fff::/20"))
"""Networks that older releases of Python call global; a cloud has its metadata in the first."""

IpAddress = IPv4Address | IPv6Address


class Target(NamedTuple):
    """The parts of a webhook's URL."""

    scheme: str
    host: str
    """A name, or an IP address without brackets."""

    port: int
    path: str
    """With the query."""

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def parse_target(url: str, *, allow_local: bool) -> Target:
    """Parse and check a URL; a name is checked again each time it is resolved.

    Raises:
        InvalidRequest: no webhook is sent there; the message doesn't repeat the URL.
    """
    parts = _URL.fullmatch(url) if len(url) <= MAX_URL else None
    if parts is None or "#" in url or "\\" in url:
        raise InvalidRequest(
            f"url must be an https address of at most {MAX_URL:,} ASCII characters, without a user "
            "name, password or fragment"
        )
    scheme, host = parts["scheme"].lower(), parts["host"].strip("[]").lower()
    address = _literal("127.0.0.1" if host == "localhost" else host)
    is_local = allow_local and address is not None and address.is_loopback
    if scheme == "http" and not is_local:
        raise InvalidRequest("url must begin with https://")
    port = int(parts["port"] or PORTS[scheme])
    if port != PORTS[scheme] and not FIRST_FREE_PORT <= port <= LAST_PORT:
        raise InvalidRequest(
            f"url must use port {PORTS[scheme]}, or one from {FIRST_FREE_PORT:,} to {LAST_PORT:,}"
        )
    path = parts["path"] or "/"
    target = Target(scheme, host, port, path if path.startswith("/") else f"/{path}")
    if address is not None and not is_allowed(target, address, allow_local=allow_local):
        raise InvalidRequest(NOT_PUBLIC)
    return target


def check_target(url: str, webhook_format: Format, base_url: str, *, allow_local: bool) -> None:
    """Check the address of a new webhook, for example that it isn't our own.

    Raises:
        InvalidRequest: nothing is sent there, or it lacks what the format needs.
    """
    target = parse_target(url, allow_local=allow_local)
    base = urlsplit(base_url)
    is_own_host = target.host.rstrip(".") == (base.hostname or "").rstrip(".")
    # Another port may lead here too, but a demo's phone is on the same host.
    if is_own_host and (not allow_local or target.port == base.port):
        raise InvalidRequest("url must not be an address of this service")
    path = urlsplit(url)
    if webhook_format == "telegram" and not parse_qs(path.query).get("chat_id"):
        raise InvalidRequest(
            "url must be https://api.telegram.org/bot<token>/sendMessage?chat_id=<chat>"
        )
    if webhook_format == "ntfy" and not path.path.strip("/"):
        raise InvalidRequest("url must end with the topic, such as https://ntfy.sh/my-topic")


def is_allowed(target: Target, address: IpAddress, *, allow_local: bool) -> bool:
    """Whether we connect to an address of a target."""
    if allow_local and address.is_loopback:
        return True
    return target.scheme == "https" and is_public(address)


def is_public(address: IpAddress) -> bool:
    """Whether an address is globally routable, and so is every IPv4 address inside it."""
    if any(address in network for network in _RESERVED):
        return False
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast
    inside = _embedded(address)
    if inside:
        return all(map(is_public, inside))
    return address in _UNICAST and address.is_global


def _embedded(address: IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses that mapped, 6to4, Teredo and NAT64 addresses lead to."""
    if address in _NAT64:
        return [IPv4Address(int(address) & 0xFFFF_FFFF)]
    candidates = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    return [candidate for candidate in candidates if candidate is not None]


def _literal(host: str) -> IpAddress | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
