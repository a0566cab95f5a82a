"""The keys that an identity provider signs tokens with, read from its key set (pure)."""

from dataclasses import dataclass
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from joserfc.util import base64_to_int

from barograph.kit.json import strict_object

MAX_KEYS = 64
MAX_KEY_SET_BYTES = 64 * 1024
MAX_KEY_ID = 200

_RSA: Final = "RSA"
_MODULUS_BITS: Final = range(2048, 8193)
"""Shorter keys are weak, longer ones slow."""

_MODULUS_CHARACTERS: Final = 1366
_PUBLIC: Final = ("kty", "crv", "x", "y", "n", "e")
_ALGORITHMS: Final = {
    (_RSA, None): ("RS256",),
    ("EC", "P-256"): ("ES256",),
    ("OKP", "Ed25519"): ("Ed25519", "EdDSA"),
}
"""Key type and curve, and the names of the one algorithm that goes with them, the newest first."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key with the one algorithm that it is used with, whatever a token says."""

    kid: str | None
    names: tuple[str, ...]
    """What a token or a key set may call that algorithm."""

    _key: RSAKey | ECKey | OKPKey

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether the signature is this key's, of this message."""
        return JWSRegistry.algorithms[self.names[0]].verify(message, signature, self._key)


@dataclass(frozen=True, slots=True)
class KeySet:
    """Every usable key of a provider."""

    keys: tuple[PublicKey, ...]
    by_id: dict[str, PublicKey]

    def find(self, kid: str | None) -> PublicKey | None:
        """The key that a token names; a token that names none means the only one there is."""
        if kid is None:
            return self.keys[0] if len(self.keys) == 1 else None
        return self.by_id.get(kid)


def read_key_set(body: bytes) -> KeySet:
    """Read a JSON Web Key Set (RFC 7517).

    Keys of other kinds are left out: symmetric ones above all, and those that are for encryption,
    weak, broken or not public.

    Raises:
        ValueError: it is no key set, names one key twice, or holds none that can be used.
    """
    if len(body) > MAX_KEY_SET_BYTES:
        raise ValueError("the key set is too large")
    members = strict_object(body).get("keys")
    if not isinstance(members, list) or len(members) > MAX_KEYS:
        raise ValueError(f"the key set is not a list of at most {MAX_KEYS} keys")
    found = [_read_key(each) for each in members if isinstance(each, dict)]
    keys = tuple(key for key in found if key is not None)
    by_id = {key.kid: key for key in keys if key.kid is not None}
    if not keys:
        raise ValueError("the key set holds no key that can be used")
    if len(by_id) < sum(key.kid is not None for key in keys):
        raise ValueError("the key set gives two keys one name")
    return KeySet(keys, by_id)


def _read_key(members: dict[str, Any]) -> PublicKey | None:
    names = _names(members)
    if names is None or not _is_for_verifying(members):
        return None
    kid = members.get("kid")
    if kid is not None and not (isinstance(kid, str) and 0 < len(kid) <= MAX_KEY_ID):
        return None
    public: dict[str, Any] = {name: members[name] for name in _PUBLIC if name in members}
    try:
        if public["kty"] == _RSA:
            _check_modulus(members.get("n"))
        key = JWKRegistry.import_key(public)
        JWSRegistry.algorithms[names[0]].check_key(key)
    except (JoseError, ValueError, TypeError):  # not on its curve, not base64, not strings
        return None
    assert isinstance(key, RSAKey | ECKey | OKPKey)
    return PublicKey(kid, names, key)


def _names(members: dict[str, Any]) -> tuple[str, ...] | None:
    """What the key's algorithm is called, if it is one of those that are used here."""
    kind, curve = members.get("kty"), members.get("crv")
    if not isinstance(kind, str) or not isinstance(curve, str | None):
        return None
    names = _ALGORITHMS.get((kind, curve))
    if names is None or members.get("alg", names[0]) not in names:
        return None
    return names


def _check_modulus(text: object) -> None:
    if not isinstance(text, str) or len(text) > _MODULUS_CHARACTERS:
        raise ValueError("the modulus is too long")
    if base64_to_int(text).bit_length() not in _MODULUS_BITS:
        raise ValueError("the modulus is too short or too long")


def _is_for_verifying(members: dict[str, Any]) -> bool:
    """Whether it is a key for signatures; a private one that was published is nobody's secret."""
    operations = members.get("key_ops", ["verify"])
    return (
        members.get("use", "sig") == "sig"
        and isinstance(operations, list)
        and "verify" in operations
        and "d" not in members
    )
