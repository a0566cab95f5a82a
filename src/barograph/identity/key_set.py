"""The identity provider's public keys: read from its key set (RFC 7517) and cached."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import ECKey, Key, KeySet, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from joserfc.util import base64_to_int

from barograph.identity.provider import IdentityMisconfigured, IdentityRefused, IdentityUnavailable
from barograph.kit.clock import Clock
from barograph.kit.dependency_health import DependencyHealth
from barograph.kit.json import strict_object
from barograph.kit.timestamps import HOUR, SECOND

ALGORITHMS: Final = ("RS256", "ES256", "Ed25519")
"""Each is of another type of key, so a key has one algorithm, whatever a token says."""

MAX_KEYS = 64
MAX_KEY_SET_BYTES = 64 * 1024
MAX_KEY_ID = 200

FRESH = 600 * SECOND
"""How long a key set is used without asking again. A withdrawn key stops working with the first
renewal after that."""

USABLE = HOUR
"""How long a key set is used while the provider is unavailable."""

ASK_AGAIN = 30 * SECOND
"""An unknown key id makes us ask at most this often, because anyone can invent key ids."""

TRY_AGAIN = SECOND
"""The pause after a failure while there is no key set at all."""

NO_KEYS = "the identity provider publishes no key, so no token can be verified"

_MODULUS_BITS: Final = range(2048, 8193)
"""Shorter RSA keys are weak, longer ones slow."""

_KeyType = type[RSAKey | ECKey | OKPKey]
_KEY_TYPES: Final[dict[str, _KeyType]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}

log = logging.getLogger(__name__)


class EmptyKeySet(ValueError):
    """The provider publishes a key set without any key."""


def read_key_set(body: bytes) -> KeySet:
    """Read a JSON Web Key Set, without its unusable keys.

    Those are symmetric, private, weak, malformed or encryption keys, and keys of other algorithms.

    Raises:
        EmptyKeySet: it is a key set without keys.
        ValueError: it isn't a key set, has a key id twice or has no usable key.
    """
    if len(body) > MAX_KEY_SET_BYTES:
        raise ValueError("the key set is too large")
    members = strict_object(body).get("keys")
    if not isinstance(members, list) or len(members) > MAX_KEYS:
        raise ValueError(f"the key set is not a list of at most {MAX_KEYS} keys")
    if not members:
        raise EmptyKeySet("the key set is empty")
    read = [_read_key(member) for member in members if isinstance(member, dict)]
    keys = [key for key in read if key is not None]
    if not keys:
        raise ValueError("the key set has no usable key")
    ids = [key.kid for key in keys if key.kid is not None]
    if len(set(ids)) < len(ids):
        raise ValueError("the key set has two keys with the same id")
    return KeySet(keys)


def _read_key(members: dict[str, Any]) -> Key | None:
    try:
        _require_public_key(members)
        if members.get("alg") == "EdDSA":  # the older name of Ed25519 for keys of this curve
            members = {**members, "alg": "Ed25519"}
        key = _KEY_TYPES[members["kty"]].import_key(members)
        key.check_key_op("verify")
    except (JoseError, KeyError, TypeError, ValueError):
        return None
    return key if JWSRegistry.filter_algorithms(key, list(ALGORITHMS)) else None


def _require_public_key(members: dict[str, Any]) -> None:
    """Refuse what joserfc would take.

    It takes a private key (one that was published is no secret), an RSA key of any length (with a
    warning), a key id of any length, and a text as the list of operations.

    Raises:
        ValueError: it is one of these.
    """
    if "d" in members or not isinstance(members.get("key_ops", []), list):
        raise ValueError("it is not a public key")
    if not 0 < len(members.get("kid", "x")) <= MAX_KEY_ID:
        raise ValueError("its id is empty or too long")
    if members["kty"] == "RSA" and base64_to_int(members["n"]).bit_length() not in _MODULUS_BITS:
        raise ValueError("its modulus is too short or too long")


class KeySetCache:
    """Finds keys by their id; `fetch` reads the set as the provider publishes it."""

    def __init__(
        self, fetch: Callable[[], Awaitable[bytes]], clock: Clock, when_empty: str = NO_KEYS
    ) -> None:
        """`when_empty` says what an empty set means, and what to do about it."""
        self._fetch = fetch
        self._clock = clock
        self._when_empty = when_empty
        self._failure: str | None = None
        self._keys: KeySet | None = None
        self._read_at = 0
        self._tried_at: int | None = None
        self._failed = False
        self._renewal: asyncio.Task[bool] | None = None
        self.health = DependencyHealth(clock)

    async def find(self, kid: str | None, made_by: int | None = None) -> Key:
        """The key that a token names; `made_by` is when the token existed already, if known.

        Raises:
            IdentityRefused: the provider has no such key.
            IdentityUnavailable: the provider's keys are unavailable.
        """
        keys = await self._current()
        try:
            return keys.get_by_kid(kid)
        except InvalidKeyIdError as error:
            if kid is None:
                raise IdentityRefused("the token names none of several keys") from error
        try:
            return (await self._renewed(made_by)).get_by_kid(kid)
        except InvalidKeyIdError as error:
            raise IdentityRefused("the token names no key of the identity provider") from error

    async def renew(self, age: int) -> None:
        """Read the set again if it is older than that, for a health check.

        This doesn't count as an attempt: an unknown key afterwards still makes us ask at once.
        """
        if self._within(age) is None:
            await asyncio.shield(self._start_renewal(counts=False))

    async def read(self) -> KeySet:
        """Read the set from the provider now.

        Raises:
            IdentityMisconfigured: the set is empty.
            IdentityUnavailable: there is no usable set.
        """
        body = await self._fetch()
        try:
            return read_key_set(body)
        except EmptyKeySet as error:
            raise IdentityMisconfigured(self._when_empty) from error
        except ValueError as error:
            raise IdentityUnavailable(str(error)) from error

    async def _current(self) -> KeySet:
        """The known set while it is usable; an old one is renewed in the background."""
        if self._within(USABLE) is None:
            if not self._tried_within(TRY_AGAIN):
                await asyncio.shield(self._start_renewal())
        elif self._within(FRESH) is None and not self._tried_within(ASK_AGAIN):
            self._start_renewal()
        keys = self._within(USABLE)
        if keys is None:
            raise IdentityUnavailable("the identity provider's keys are unavailable")
        return keys

    async def _renewed(self, made_by: int | None) -> KeySet:
        """A set that was read after this call, or shortly before."""
        if self._tried_within(ASK_AGAIN):
            # A set that is older than the token can't show that its key doesn't exist.
            is_newer = made_by is None or self._read_at >= made_by
            succeeded = is_newer and not self._failed
        else:
            succeeded = await asyncio.shield(self._start_renewal())
        if not succeeded or self._keys is None:
            raise IdentityUnavailable("the identity provider's keys are unavailable")
        return self._keys

    def _start_renewal(self, *, counts: bool = True) -> asyncio.Task[bool]:
        """Start reading the set, or join a running read. A cancelled caller doesn't stop it."""
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew(counts=counts))
        return self._renewal

    async def _renew(self, *, counts: bool) -> bool:
        """Whether the set could be read; never raises, because nothing may await the task."""
        asked, failed = self._clock(), True
        try:
            self._keys = await self.read()
        except IdentityUnavailable as error:
            self._note_failure(error)
        except Exception:
            log.exception("key set not renewed")
            self.health.failed()
        else:
            self._read_at, failed, self._failure = asked, False, None
            self.health.answered()
        if counts:
            self._tried_at = self._clock()
        if counts or not failed:
            self._failed = failed
        return not failed

    def _note_failure(self, error: IdentityUnavailable) -> None:
        """Record a failure; log it when its reason changes, not at every attempt."""
        self.health.failed(str(error) if isinstance(error, IdentityMisconfigured) else None)
        if self._failure != str(error):
            self._failure = str(error)
            log.warning("key set not renewed", extra={"reason": self._failure})

    def _within(self, age: int) -> KeySet | None:
        return self._keys if 0 <= self._clock() - self._read_at < age else None

    def _tried_within(self, pause: int) -> bool:
        return self._tried_at is not None and 0 <= self._clock() - self._tried_at < pause
