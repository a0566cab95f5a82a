"""The demo's wallets and what they sign: EIP-3009 transfers of simulated USDC.

An authorization is hashed as typed data (EIP-712) and signed with secp256k1, as real wallets do.
"""

import hmac
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import Any, Final, NamedTuple

import msgspec
from coincurve import PrivateKey, PublicKey
from coincurve.utils import GROUP_ORDER_INT as ORDER

from barograph.errors import ConfigurationError
from barograph.kit.keccak import keccak256
from barograph.kit.operating_system import write_once
from barograph.kit.timestamps import SECOND

SECRET_FILE: Final = "wallets.secret"  # noqa: S105 - the name of a file
WALLETS: Final = ("feed", "reserve", "none")

CHAIN_ID: Final = 84532
NETWORK: Final = f"eip155:{CHAIN_ID}"
ASSET: Final = "0x036cbd53842c5426634e7929541ec2318f3dcf7e"
"""USDC on Base Sepolia, because stock x402 clients pay only with tokens they know. The balances
exist only in the demo's ledger; on the real test network its wallets own nothing."""

DECIMALS: Final = 6
FUNDS: Final = 1_000 * 10**DECIMALS
"""The initial balance of each wallet."""

# The end of a hash, so nobody has its private key.
PAY_TO: Final = "0xaa86da5fc4c8f9a4bab01254dbb92ead76c301be"

_WORD: Final = 32
_SECRET_BYTES: Final = 32
SIGNATURE_BYTES: Final = 65
_V_EVEN: Final = 27
"""Ethereum's v: 27 for a point with an even y, 28 for an odd one."""

_DOMAIN_TYPE: Final = keccak256(
    b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
_TRANSFER_TYPE: Final = keccak256(
    b"TransferWithAuthorization(address from,address to,uint256 value,"
    b"uint256 validAfter,uint256 validBefore,bytes32 nonce)"
)


class InvalidSignature(Exception):
    """No key can have made that signature."""


class Domain(NamedTuple):
    """The token that a signature is for; addresses are 0x and 40 hexadecimal digits."""

    name: str
    version: str
    chain_id: int
    verifying_contract: str


TOKEN: Final = Domain("USDC", "2", CHAIN_ID, ASSET)


class Authorization(NamedTuple):
    """A transfer that its owner allows once, within a time window (seconds)."""

    payer: str
    to: str
    value: int
    valid_after: int
    valid_before: int
    nonce: str
    """0x and 64 hexadecimal digits."""


class Wallet(NamedTuple):
    """An account and its private key."""

    key: int
    address: str


def load_or_create_wallets(data: Path) -> dict[str, Wallet]:
    """The folder's wallets by name.

    Raises:
        ConfigurationError: the file of the secret behind their keys is damaged.
    """
    return {name: _wallet(derived_secret(data, name)) for name in WALLETS}


def derived_secret(data: Path, name: str) -> bytes:
    """A secret of 32 bytes, derived from one that is created once per folder.

    Raises:
        ConfigurationError: the file of the folder's secret is damaged.
    """
    file = data / SECRET_FILE
    if not file.exists():
        write_once(file, token_hex(_SECRET_BYTES).encode())
    try:
        secret = bytes.fromhex(file.read_text("ascii"))
    except (OSError, ValueError):
        secret = b""
    if len(secret) != _SECRET_BYTES:
        raise ConfigurationError(
            f"{file} is not the wallets' secret; delete it and the demo creates a new one"
        )
    return hmac.digest(secret, name.encode(), "sha256")


def _wallet(secret: bytes) -> Wallet:
    key = int.from_bytes(secret) % (ORDER - 1) + 1
    return Wallet(key, address_of(key))


def demo_proof(data: Path, wallet: str, accepted: Mapping[str, Any], now: int) -> str:
    """A payment proof for the offered terms: the value of the `PAYMENT-SIGNATURE` header.

    Raises:
        ConfigurationError: there is no such wallet, or no demo has run in the folder.
    """
    if wallet not in WALLETS:
        raise ConfigurationError(f"there is no wallet {wallet!r}; choose from {', '.join(WALLETS)}")
    if not (data / SECRET_FILE).exists():
        raise ConfigurationError(f"{data / SECRET_FILE} is missing; start a demo there first")
    payload = signed_payload(load_or_create_wallets(data)[wallet], accepted, now, token_bytes(32))
    proof = {"x402Version": 2, "accepted": accepted, "payload": payload}
    return b64encode(msgspec.json.encode(proof)).decode()


def signed_payload(
    wallet: Wallet, accepted: Mapping[str, Any], now: int, nonce: bytes
) -> dict[str, Any]:
    """The payload of x402's `exact` scheme: an authorization and its signature."""
    authorization = Authorization(
        payer=wallet.address,
        to=accepted["payTo"],
        value=int(accepted["amount"]),
        valid_after=0,
        valid_before=now // SECOND + accepted["maxTimeoutSeconds"],
        nonce=f"0x{nonce.hex()}",
    )
    signature = sign(transfer_digest(TOKEN, authorization), wallet.key)
    return {
        "signature": f"0x{signature.hex()}",
        "authorization": {
            "from": authorization.payer,
            "to": authorization.to,
            "value": str(authorization.value),
            "validAfter": str(authorization.valid_after),
            "validBefore": str(authorization.valid_before),
            "nonce": authorization.nonce,
        },
    }


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
    """The EIP-712 digest of a hashed structure."""
    return keccak256(b"\x19\x01" + domain_separator(domain) + struct)


@lru_cache(maxsize=16)
def domain_separator(domain: Domain) -> bytes:
    """The hash that ties a signature to one token."""
    return keccak256(
        _DOMAIN_TYPE
        + keccak256(domain.name.encode())
        + keccak256(domain.version.encode())
        + domain.chain_id.to_bytes(_WORD)
        + _address_word(domain.verifying_contract)
    )


def _address_word(text: str) -> bytes:
    return bytes.fromhex(text[2:]).rjust(_WORD, b"\0")


def address_of(key: int) -> str:
    """The address of a private key: 0x and 40 lower-case hexadecimal digits."""
    return _address(PublicKey.from_valid_secret(key.to_bytes(_WORD)))


def sign(digest: bytes, key: int) -> bytes:
    """Sign 32 bytes deterministically (RFC 6979): r, s in the lower half, v."""
    signature = PrivateKey(key.to_bytes(_WORD)).sign_recoverable(digest, hasher=None)
    return signature[:-1] + bytes([_V_EVEN + signature[-1]])


def recover(digest: bytes, signature: bytes) -> str:
    """The address that signed 32 bytes.

    As strict as the token contract: 65 bytes, s in the lower half, v 27 or 28.

    Raises:
        InvalidSignature: no key can have made it.
    """
    if len(signature) != SIGNATURE_BYTES:
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
