"""Groups anonymous callers by IP address (pure)."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

UNKNOWN = "unknown"
"""The group of all callers whose address is not known."""

MAX_HOPS = 32
"""How many addresses of `X-Forwarded-For` we read, from the right."""

_MAX_TEXT = 64
_SUBNET_BITS = 64


def caller_group(peer: str | None, forwarded: Sequence[bytes], trusted: Sequence[Network]) -> str:
    """The caller that a request counts for: an IPv4 address, or the /64 network of an IPv6 one.

    One household or server has a whole /64 of addresses, so limiting single ones has no effect.
    `forwarded` is every `X-Forwarded-For` line in order. We believe only the part that trusted
    proxies wrote: from the right, up to the first address that is not a trusted proxy. Text that
    isn't an address ends the search, and the last good address counts.
    """
    if not trusted or not forwarded or peer is None:
        return UNKNOWN if peer is None else _group_of(peer)
    client = _address(peer)
    if client is None or not _is_trusted(client, trusted):
        return _group_of(peer)
    for hop in _hops(forwarded):
        # The length comes first, because `_address` caches its argument.
        address = _address(hop) if len(hop) <= _MAX_TEXT else None
        if address is None:
            break
        client = address
        if not _is_trusted(address, trusted):
            break
    return _group(client)


def caller_network(caller: str) -> str:
    """The /16 network of a caller with an IPv4 address, the /48 of an IPv6 one.

    A provider's customer can have many addresses in one of them.
    """
    address = _address(caller.partition("/")[0])
    if address is None:
        return caller
    return str(ip_network((address, 16 if isinstance(address, IPv4Address) else 48), strict=False))


def _hops(forwarded: Sequence[bytes]) -> Iterator[str]:
    """The entries from the right, over all lines, without empty ones."""
    left = MAX_HOPS
    for line in reversed(forwarded):
        # Entries beyond the maximum stay in the first part, which is left out.
        parts = line.rsplit(b",", left)
        for part in reversed(parts[-left:]):
            left -= 1
            text = part.strip(b" \t")
            if text:
                yield text.decode("latin-1")
        if left <= 0:
            return


def _is_trusted(address: Address, trusted: Sequence[Network]) -> bool:
    return any(address in network for network in trusted)


@lru_cache(maxsize=16_384)
def _group_of(peer: str) -> str:
    address = _address(peer)
    return UNKNOWN if address is None else _group(address)


def _group(address: Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    subnet = int(address) >> _SUBNET_BITS << _SUBNET_BITS
    return f"{IPv6Address(subnet)}/{_SUBNET_BITS}"


@lru_cache(maxsize=4_096)
def _address(text: str) -> Address | None:
    """Read an address, with or without a port; an IPv4-mapped one becomes its IPv4 address."""
    try:
        address = ip_address(_without_port(text).partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _without_port(text: str) -> str:
    """Remove the port from `1.2.3.4:5678` and `[2001:db8::1]:443`; empty if malformed."""
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        is_well_formed = bool(bracket) and ":" in host and (not port or port.startswith(":"))
        port = port[1:]
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
        is_well_formed = bool(port)
    else:
        return text
    return host if is_well_formed and (not port or port.isdecimal()) else ""
