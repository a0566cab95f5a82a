"""The identity provider's public keys: read from its key set (RFC 7517) and cached."""

import asyncio
import binascii
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePublicNumbers,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from barograph.identity.provider import IdentityMisconfigured, IdentityRefused, IdentityUnavailable
from barograph.kit.clock import Clock
from barograph.kit.dependency_health import DependencyHealth
from barograph.kit.json import strict_object
from barograph.kit.timestamps import HOUR, SECOND

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

_MODULUS_BITS: Final = range(2048, 8193)
"""Shorter RSA keys are weak, longer ones slow."""

_MODULUS_CHARACTERS: Final = 1366
_COORDINATE_BYTES: Final = 32
_PKCS1: Final = PKCS1v15()
_SHA256: Final = SHA256()
_ECDSA: Final = ECDSA(_SHA256)

# Base64url becomes base64, and characters that only base64 has become invalid ones.
_TO_BASE64: Final = bytes.maketrans(b"-_+/=", b"+/\0\0\0")
_PADDING: Final = (b"", b"", b"==", b"=")
_LAST_CHARACTERS: Final = {2: b"AQgw", 3: b"AEIMQUYcgkosw048"}
"""The last characters, per length modulo 4, whose unused bits are zero."""

log = logging.getLogger(__name__)

NO_KEYS = "the identity provider publishes no key, so no token can be verified"

Check = Callable[[bytes, bytes], None]
"""Checks the signature of a message; raises InvalidSignature if it is wrong."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key with the one algorithm that it is used with, whatever a token says."""

    kid: str | None
    names: tuple[str, ...]
    """The names that a token or a key set may use for that algorithm."""

    _check: Check

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether this key signed the message."""
        try:
            self._check(message, signature)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class KeySet:
    """Every usable key of a provider."""

    keys: tuple[PublicKey, ...]
    by_id: dict[str, PublicKey]

    def find(self, kid: str | None) -> PublicKey | None:
        """The key that a token names; a token without a key id needs a set of one key."""
        if kid is None:
            return self.keys[0] if len(self.keys) == 1 else None
        return self.by_id.get(kid)


def decode_base64url(text: bytes) -> bytes:
    """Read base64url without padding; every value has exactly one spelling.

    Raises:
        ValueError: it is something else.
    """
    rest = len(text) % 4
    if rest and text[-1:] not in _LAST_CHARACTERS.get(rest, ()):
        raise ValueError("it is not base64url")
    return binascii.a2b_base64(text.translate(_TO_BASE64) + _PADDING[rest], strict_mode=True)


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
    found = [_read_key(each) for each in members if isinstance(each, dict)]
    keys = tuple(key for key in found if key is not None)
    by_id = {key.kid: key for key in keys if key.kid is not None}
    if not keys:
        raise ValueError("the key set has no usable key")
    if len(by_id) < sum(key.kid is not None for key in keys):
        raise ValueError("the key set has two keys with the same id")
    return KeySet(keys, by_id)


def _read_key(members: dict[str, Any]) -> PublicKey | None:
    kind, curve, kid = (members.get(name) for name in ("kty", "crv", "kid"))
    if not isinstance(kind, str) or not isinstance(curve, str | None):
        return None
    if kid is not None and not (isinstance(kid, str) and 0 < len(kid) <= MAX_KEY_ID):
        return None
    algorithm = _ALGORITHMS.get((kind, curve))
    if algorithm is None or not _is_for_verifying(members, algorithm.names):
        return None
    try:
        return PublicKey(kid, algorithm.names, algorithm.load(members))
    except ValueError:  # not on its curve, not base64url, not a string
        return None


def _is_for_verifying(members: dict[str, Any], names: tuple[str, ...]) -> bool:
    """Whether it is a signature key; a private key that was published is no secret."""
    operations = members.get("key_ops", ["verify"])
    return (
        members.get("alg", names[0]) in names
        and members.get("use", "sig") == "sig"
        and isinstance(operations, list)
        and "verify" in operations
        and "d" not in members
    )


def _load_rsa(members: dict[str, Any]) -> Check:
    modulus = members.get("n")
    if not isinstance(modulus, str) or len(modulus) > _MODULUS_CHARACTERS:
        raise ValueError("the modulus is too long")
    numbers = RSAPublicNumbers(_number(members, "e"), _number(members, "n"))
    if numbers.n.bit_length() not in _MODULUS_BITS:
        raise ValueError("the modulus is too short or too long")
    key = numbers.public_key()
    return lambda message, signature: key.verify(signature, message, _PKCS1, _SHA256)


def _load_p256(members: dict[str, Any]) -> Check:
    x, y = _number(members, "x"), _number(members, "y")
    key = EllipticCurvePublicNumbers(x, y, SECP256R1()).public_key()

    def check(message: bytes, signature: bytes) -> None:
        if len(signature) != 2 * _COORDINATE_BYTES:
            raise InvalidSignature
        r = int.from_bytes(signature[:_COORDINATE_BYTES])
        s = int.from_bytes(signature[_COORDINATE_BYTES:])
        key.verify(encode_dss_signature(r, s), message, _ECDSA)

    return check


def _load_ed25519(members: dict[str, Any]) -> Check:
    key = Ed25519PublicKey.from_public_bytes(_bytes(members, "x"))
    return lambda message, signature: key.verify(signature, message)


def _number(members: dict[str, Any], name: str) -> int:
    return int.from_bytes(_bytes(members, name))


def _bytes(members: dict[str, Any], name: str) -> bytes:
    text = members.get(name)
    if not isinstance(text, str):
        raise ValueError(f"{name} is not a string")  # noqa: TRY004
    return decode_base64url(text.encode())


class _Algorithm(NamedTuple):
    names: tuple[str, ...]
    load: Callable[[dict[str, Any]], Check]


_ALGORITHMS: Final[dict[tuple[str, str | None], _Algorithm]] = {
    ("RSA", None): _Algorithm(("RS256",), _load_rsa),
    ("EC", "P-256"): _Algorithm(("ES256",), _load_p256),
    ("OKP", "Ed25519"): _Algorithm(("Ed25519", "EdDSA"), _load_ed25519),
}
"""The one algorithm per key type and curve."""


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

    async def find(self, kid: str | None, made_by: int | None = None) -> PublicKey:
        """The key that a token names; `made_by` is when the token existed already, if known.

        Raises:
            IdentityRefused: the provider has no such key.
            IdentityUnavailable: the provider's keys are unavailable.
        """
        keys = await self._current()
        found = keys.find(kid)
        if found is None and kid is not None:
            found = (await self._renewed(made_by)).find(kid)
        if found is None:
            raise IdentityRefused("the token names no key of the identity provider")
        return found

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
