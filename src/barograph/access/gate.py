"""Who may come in: the caller of a request, and the allowance that it is charged to."""

from collections.abc import Awaitable, Callable, Sequence

from barograph.access.allowances import (
    ANONYMOUS,
    BAD_KEYS,
    PERSONAL,
    Allowance,
    AllowanceStore,
    Standing,
)
from barograph.access.callers import Network, caller_group
from barograph.access.refusals import InvalidKey, TooManyRequests
from barograph.kit.http import Scope

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
