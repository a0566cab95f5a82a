"""Who an anonymous caller is (pure)."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from barograph.kit.http import Scope
from barograph.limits.rate_limits import (
    ANONYMOUS,
    BAD_KEYS,
    PERSONAL,
    Allowance,
    AllowanceStore,
    InvalidKey,
    Standing,
    TooManyRequests,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

NOBODY = "unknown"
"""The group of everyone whose address is not known."""

MAX_HOPS = 32
"""So many addresses of `X-Forwarded-For` are looked at, from the right."""

_MAX_TEXT = 64
_SUBNET_BITS = 64


def caller_group(peer: str | None, forwarded: Sequence[bytes], trusted: Sequence[Network]) -> str:
    """Who an allowance is charged to: an IPv4 address, or the /64 network of an IPv6 one.

    A household or a server has a whole /64 to choose addresses from, so counting single ones would
    count nothing. `forwarded` is every `X-Forwarded-For` line in order. It is believed only where
    trusted proxies wrote it: from the right, as far as the address that an untrusted one came
    from. Whatever a caller puts in front of that is not read. Something that is no address ends
    the walk, and the last good address counts.
    """
    if not trusted or not forwarded or peer is None:
        return NOBODY if peer is None else _group_of(peer)
    found = _address(peer)
    if found is None or not _is_trusted(found, trusted):
        return _group_of(peer)
    for hop in _hops(forwarded):
        # Measured before it is read: what is read is also remembered for a while.
        address = _address(hop) if len(hop) <= _MAX_TEXT else None
        if address is None:
            break
        found = address
        if not _is_trusted(address, trusted):
            break
    return _group(found)


def _hops(forwarded: Sequence[bytes]) -> Iterator[str]:
    """The entries from the right, over all lines; empty ones mean nothing and are left out."""
    left = MAX_HOPS
    for line in reversed(forwarded):
        # What is further to the left stays together in the first part, which is not given out.
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
    return NOBODY if address is None else _group(address)


def _group(address: Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    subnet = int(address) >> _SUBNET_BITS << _SUBNET_BITS
    return f"{IPv6Address(subnet)}/{_SUBNET_BITS}"


@lru_cache(maxsize=4_096)
def _address(text: str) -> Address | None:
    """Read an address, with or without a port; an IPv4 one in IPv6 clothes is the IPv4 one."""
    try:
        address = ip_address(_without_port(text).partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _without_port(text: str) -> str:
    """Take the port off `1.2.3.4:5678` and `[2001:db8::1]:443`; empty when it is neither."""
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


VerifyKey = Callable[[str], Awaitable[str | None]]
"""Tells whose a key that is valid now is, None for any other text."""

KEY_FIELD = b"x-api-key"
FORWARDED_FIELD = b"x-forwarded-for"
MAX_KEY_BYTES = 200


class Gate:
    """Charges each request to the allowance of whoever made it."""

    def __init__(
        self, store: AllowanceStore, verify_key: VerifyKey, trusted_networks: Sequence[Network]
    ) -> None:
        self._store = store
        self._verify_key = verify_key
        self._trusted = tuple(trusted_networks)

    async def admit(self, scope: Scope) -> Standing:
        """Charge a request for which a key is optional.

        A key that is not valid never falls back to the anonymous allowance: its owner would see
        the wrong limit and not know why.

        Raises:
            InvalidKey: a key was presented, and it is not a valid one.
            TooManyRequests: the allowance is spent.
        """
        keys = [value for name, value in scope["headers"] if name == KEY_FIELD]
        if not keys:
            return await self.charge(ANONYMOUS, self.caller(scope))
        owner = await self._owner(keys)
        if owner is None:
            raise InvalidKey(await self.charge(BAD_KEYS, self.caller(scope)))
        return await self.charge(PERSONAL, owner)

    async def charge(self, allowance: Allowance, caller: str) -> Standing:
        """Charge one request to a caller.

        Raises:
            TooManyRequests: the allowance is spent.
        """
        standing = await self._store.spend(allowance, caller)
        if not standing.accepted:
            raise TooManyRequests(standing)
        return standing

    def caller(self, scope: Scope) -> str:
        """The group that an anonymous request belongs to."""
        client = scope.get("client")
        peer = None if client is None else client[0]
        if not self._trusted:
            return caller_group(peer, (), ())
        forwarded = [value for name, value in scope["headers"] if name == FORWARDED_FIELD]
        return caller_group(peer, forwarded, self._trusted)

    async def _owner(self, keys: Sequence[bytes]) -> str | None:
        if len(keys) > 1 or not 0 < len(keys[0]) <= MAX_KEY_BYTES:
            return None
        return await self._verify_key(keys[0].decode("latin-1"))
