"""The signer of an EIP-3009 authorization: the check that every verifier of payments needs.

It uses libsecp256k1 and Keccak-256 in C. The service needs neither: it asks a facilitator.
"""

from collections.abc import Callable

from coincurve import PublicKey
from Crypto.Hash import keccak

from barograph_demo.servers.wallets import TOKEN, Authorization, domain_separator

Check = Callable[[], str]
"""Recovers the signer's address from prepared bytes."""

WORD = 32
V_EVEN = 27
TYPE = (
    b"TransferWithAuthorization(address from,address to,uint256 value,"
    b"uint256 validAfter,uint256 validBefore,bytes32 nonce)"
)


def bare_check(authorization: Authorization, signature: bytes) -> Check:
    """Only the EIP-712 digest and the recovery of the signing key.

    The check raises ValueError for a signature that no key can have made.
    """
    fields = _keccak(TYPE) + b"".join(_words(authorization))
    start = b"\x19\x01" + domain_separator(TOKEN)
    recoverable = signature[:-1] + bytes([signature[-1] - V_EVEN])

    def check() -> str:
        digest = _keccak(start + _keccak(fields))
        public = PublicKey.from_signature_and_message(recoverable, digest, hasher=None)
        return f"0x{_keccak(public.format(compressed=False)[1:])[-20:].hex()}"

    return check


def _words(authorization: Authorization) -> list[bytes]:
    payer, to, *numbers, nonce = authorization
    addresses = [bytes.fromhex(each[2:]).rjust(WORD, b"\0") for each in (payer, to)]
    return [*addresses, *(each.to_bytes(WORD) for each in numbers), bytes.fromhex(nonce[2:])]


def _keccak(data: bytes) -> bytes:
    return keccak.new(digest_bits=256, data=data).digest()
