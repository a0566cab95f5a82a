"""Signatures of Ethereum accounts: secp256k1 with public keys that are recovered (pure).

For the demo's play money only: its running time tells about the key, as every simple one's does.
"""

import hmac
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

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


PRIME: Final = 2**256 - 2**32 - 977
ORDER: Final = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
SIGNATURE_BYTES: Final = 65
_V_EVEN: Final = 27
"""What the last byte of a signature says of the curve's point: 27 for an even y, 28 for an odd."""


class InvalidSignature(Exception):
    """Nobody can have signed that."""


class _Point(NamedTuple):
    """A point in Jacobian coordinates (x/z², y/z³), which need no division; z is 0 at infinity."""

    x: int
    y: int
    z: int


_INFINITY: Final = _Point(1, 1, 0)
_GENERATOR: Final = _Point(
    0x79BE667E_F9DCBBAC_55A06295_CE870B07_029BFCDB_2DCE28D9_59F2815B_16F81798,
    0x483ADA77_26A3C465_5DA4FBFC_0E1108A8_FD17B448_A6855419_9C47D08F_FB10D4B8,
    1,
)


def address_of(key: int) -> str:
    """The address of a private key: 0x and 40 lower-case hexadecimal digits."""
    return _address(_affine(_multiply(key, _GENERATOR)))


def sign(digest: bytes, key: int) -> bytes:
    """A signature of 32 bytes, always the same one (RFC 6979): r, s in the lower half, v."""
    message = int.from_bytes(digest)
    for nonce in _nonces(digest, key):
        r, y = _affine(_multiply(nonce, _GENERATOR))
        s = pow(nonce, -1, ORDER) * (message + r * key) % ORDER
        if r >= ORDER or s == 0:
            continue
        odd = y % 2
        if s > ORDER // 2:
            s, odd = ORDER - s, 1 - odd
        return r.to_bytes(_WORD) + s.to_bytes(_WORD) + bytes([_V_EVEN + odd])
    raise AssertionError("nonces never run out")


def recover(digest: bytes, signature: bytes) -> str:
    """The address whose key signed the 32 bytes.

    Strict as tokens are: 65 bytes, s in the lower half, v 27 or 28.

    Raises:
        InvalidSignature: it is none.
    """
    if len(signature) != SIGNATURE_BYTES:
        raise InvalidSignature("a signature has 65 bytes")
    r, s = int.from_bytes(signature[:_WORD]), int.from_bytes(signature[_WORD : 2 * _WORD])
    odd = signature[-1] - _V_EVEN
    if not 0 < r < ORDER or not 0 < s <= ORDER // 2 or odd not in {0, 1}:
        raise InvalidSignature("r, s or v is out of bounds")
    inverse = pow(r, -1, ORDER)
    of_generator = -int.from_bytes(digest) * inverse % ORDER
    found = _multiply_two(of_generator, _GENERATOR, s * inverse % ORDER, _lifted(r, odd))
    if found.z == 0:
        raise InvalidSignature("it leads to no key")
    return _address(_affine(found))


def _lifted(x: int, odd: int) -> _Point:
    """The point of the curve with this x and an even or odd y."""
    square = (pow(x, 3, PRIME) + 7) % PRIME
    y = pow(square, (PRIME + 1) // 4, PRIME)
    if y * y % PRIME != square:
        raise InvalidSignature("r is not on the curve")
    return _Point(x, y if y % 2 == odd else PRIME - y, 1)


def _address(public: tuple[int, int]) -> str:
    x, y = public
    return f"0x{keccak256(x.to_bytes(_WORD) + y.to_bytes(_WORD))[-20:].hex()}"


def _affine(point: _Point) -> tuple[int, int]:
    inverse = pow(point.z, -1, PRIME)
    return point.x * inverse**2 % PRIME, point.y * inverse**3 % PRIME


def _multiply(times: int, point: _Point) -> _Point:
    return _multiply_two(times, point, 0, _INFINITY)


def _multiply_two(times_a: int, a: _Point, times_b: int, b: _Point) -> _Point:
    """Both multiples added up, with one row of doublings for the two."""
    addends = {(1, 0): a, (0, 1): b, (1, 1): _add(a, b)}
    total = _INFINITY
    for bit in reversed(range(max(times_a.bit_length(), times_b.bit_length()))):
        total = _double(total)
        bits = times_a >> bit & 1, times_b >> bit & 1
        if bits != (0, 0):
            total = _add(total, addends[bits])
    return total


def _double(point: _Point) -> _Point:
    x, y, z = point
    square = y * y % PRIME
    s = 4 * x * square % PRIME
    m = 3 * x * x % PRIME
    new_x = (m * m - 2 * s) % PRIME
    return _Point(new_x, (m * (s - new_x) - 8 * square * square) % PRIME, 2 * y * z % PRIME)


def _add(a: _Point, b: _Point) -> _Point:
    if a.z == 0 or b.z == 0:
        return b if a.z == 0 else a
    a_square, b_square = a.z * a.z % PRIME, b.z * b.z % PRIME
    a_x, b_x = a.x * b_square % PRIME, b.x * a_square % PRIME
    a_y, b_y = a.y * b_square * b.z % PRIME, b.y * a_square * a.z % PRIME
    if a_x == b_x:
        return _double(a) if a_y == b_y else _INFINITY
    h, r = b_x - a_x, b_y - a_y
    h_square = h * h % PRIME
    h_cube = h * h_square % PRIME
    v = a_x * h_square % PRIME
    x = (r * r - h_cube - 2 * v) % PRIME
    return _Point(x, (r * (v - x) - a_y * h_cube) % PRIME, h * a.z * b.z % PRIME)


def _nonces(digest: bytes, key: int) -> Iterator[int]:
    """The one-time numbers of RFC 6979, section 3.2, for this key and digest."""
    seed = key.to_bytes(_WORD) + (int.from_bytes(digest) % ORDER).to_bytes(_WORD)
    state, chain = b"\x01" * _WORD, bytes(_WORD)
    for mark in (b"\x00", b"\x01"):
        chain = hmac.digest(chain, state + mark + seed, "sha256")
        state = hmac.digest(chain, state, "sha256")
    while True:
        state = hmac.digest(chain, state, "sha256")
        nonce = int.from_bytes(state)
        if 0 < nonce < ORDER:
            yield nonce
        chain = hmac.digest(chain, state + b"\x00", "sha256")
        state = hmac.digest(chain, state, "sha256")
