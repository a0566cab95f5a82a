"""What an owner of EIP-3009 tokens signs (pure): EIP-712's digest of a transfer's authorization."""

from functools import lru_cache
from typing import Final, NamedTuple

from barograph.keccak import keccak256

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
        + _address(authorization.payer)
        + _address(authorization.to)
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
        + _address(domain.verifying_contract)
    )


def _address(text: str) -> bytes:
    return bytes.fromhex(text[2:]).rjust(_WORD, b"\0")
