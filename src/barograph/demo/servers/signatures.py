"""Signatures of Ethereum accounts: secp256k1 with recovered public keys (pure)."""

from functools import lru_cache
from typing import Final, NamedTuple

from coincurve import PrivateKey, PublicKey

from barograph.kit.keccak import keccak256

_WORD: Final = 32
_DOMAIN_TYPE: Final = keccak256(
    b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
_TRANSFER_TYPE: Final = keccak256(
    b"TransferWithAuthorization(address from,address to,uint256 value,"
    b"uint256 validAfter,uint256 validBefore,bytes32 nonce)"
)


class Domain(NamedTuple):
    """Which token is meant; addresses are 0x and 40 hexadecimal digits."""

    name: str
    version: str
    chain_id: int
    verifying_contract: str


class Authorization(NamedTuple):
    """A transfer that its owner allows once, in a window of time (seconds)."""

    payer: str
    to: str
    value: int
    valid_after: int
    valid_before: int
    nonce: str
    """0x and 64 hexadecimal digits."""


def transfer_digest(domain: Domain, authorization: Authorization) -> bytes:
    """The 32 bytes that the payer signs."""
    struct = keccak256(
        _TRANSFER_TYPE
        + _address_word(authorization.payer)
        + _address_word(authorization.to)
        + authorization.value.to_bytes(_WORD)
        + authorization.valid_after.to_bytes(_WORD)
        + authorization.valid_before.to_bytes(_WORD)
        + bytes.fromhex(authorization.nonce[2:])
    )
    return typed_digest(domain, struct)


def typed_digest(domain: Domain, struct: bytes) -> bytes:
    """The digest of any structure, by its own hash, in a domain."""
    return keccak256(b"\x19\x01" + domain_separator(domain) + struct)


@lru_cache(maxsize=16)
def domain_separator(domain: Domain) -> bytes:
    """What keeps a signature for one token from being one for another."""
    return keccak256(
        _DOMAIN_TYPE
        + keccak256(domain.name.encode())
        + keccak256(domain.version.encode())
        + domain.chain_id.to_bytes(_WORD)
        + _address_word(domain.verifying_contract)
    )


def _address_word(text: str) -> bytes:
    return bytes.fromhex(text[2:]).rjust(_WORD, b"\0")


ORDER: Final = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141

_SIGNATURE_BYTES: Final = 65
_V_EVEN: Final = 27
"""Ethereum counts v from here: 27 for a point with an even y, 28 for an odd one."""


class InvalidSignature(Exception):
    """No key can have made that signature."""


def address_of(key: int) -> str:
    """The address of a private key: 0x and 40 lower-case hexadecimal digits."""
    return _address(PublicKey.from_valid_secret(key.to_bytes(_WORD)))


def sign(digest: bytes, key: int) -> bytes:
    """Sign 32 bytes, deterministically (RFC 6979): r, s in the lower half, v."""
    signature = PrivateKey(key.to_bytes(_WORD)).sign_recoverable(digest, hasher=None)
    return signature[:-1] + bytes([_V_EVEN + signature[-1]])


def recover(digest: bytes, signature: bytes) -> str:
    """The address whose key signed the 32 bytes.

    As strict as the token contract: 65 bytes, s in the lower half, v 27 or 28.

    Raises:
        InvalidSignature: no key can have made it.
    """
    if len(signature) != _SIGNATURE_BYTES:
        raise InvalidSignature("a signature has 65 bytes")
    s, odd = int.from_bytes(signature[_WORD:-1]), signature[-1] - _V_EVEN
    if s > ORDER // 2 or odd not in {0, 1}:
        raise InvalidSignature("s or v is out of bounds")
    compact = signature[:-1] + bytes([odd])
    try:
        return _address(PublicKey.from_signature_and_message(compact, digest, hasher=None))
    except ValueError as error:
        raise InvalidSignature("it leads to no key") from error


def _address(public: PublicKey) -> str:
    return f"0x{keccak256(public.format(compressed=False)[1:])[-20:].hex()}"
