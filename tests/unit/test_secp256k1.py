"""Signatures of Ethereum accounts: published values, and what nobody can have signed."""

import pytest
from coincurve.utils import GROUP_ORDER_INT as ORDER
from hypothesis import given, settings
from hypothesis import strategies as st

from barograph.kit.keccak import keccak256
from barograph_demo.servers.wallets import InvalidSignature, address_of, recover, sign

DIGEST = keccak256(b"a message")
KEY = 0xAC0974BEC39A17E36BA4A6B4D238FF944BACB478CBED5EFCAE784D7BF4F2FF80
"""The first account of every development chain."""

COW = int.from_bytes(keccak256(b"cow"))
"""The account of the example in EIP-712."""

keys = st.integers(1, ORDER - 1)


@pytest.mark.parametrize(
    ("key", "address"),
    [
        (1, "0x7e5f4552091a69125d5dfcb7b8c2659029395bdf"),
        (2, "0x2b5ad5c4795c026514f8317c7a215e218dccd6cf"),
        (ORDER - 1, "0x80c0dbf239224071c59dd8970ab9d542e3414ab2"),
        (KEY, "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"),
        (COW, "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"),
    ],
)
def test_a_key_has_the_published_address(key: int, address: str) -> None:
    assert address_of(key) == address


@settings(max_examples=15, deadline=None)
@given(keys, st.binary(min_size=32, max_size=32))
def test_the_signer_is_recovered_of_this_message_only(key: int, digest: bytes) -> None:
    signature = sign(digest, key)

    assert recover(digest, signature) == address_of(key)
    assert recover(keccak256(digest), signature) != address_of(key)
    assert 0 < int.from_bytes(signature[32:64]) <= ORDER // 2
    assert signature[64] in {27, 28}


def _changed(**numbers: int) -> bytes:
    """A good signature with another r, s or v."""
    good = sign(DIGEST, KEY)
    r, s = (int.from_bytes(good[at : at + 32]) for at in (0, 32))
    parts = {"r": r, "s": s, "v": good[64], **numbers}
    return parts["r"].to_bytes(32) + parts["s"].to_bytes(32) + bytes([parts["v"]])


@pytest.mark.parametrize(
    "signature",
    [
        *(b"", bytes(65), sign(DIGEST, KEY)[:64], sign(DIGEST, KEY) + b"\0"),
        *(_changed(r=0), _changed(r=ORDER), _changed(s=0), _changed(s=ORDER)),
        *(_changed(v=0), _changed(v=26), _changed(v=29)),
        _changed(r=5),  # no point of the curve has this x
        # The other signature of the same message, which anybody can make of the first.
        _changed(s=ORDER - int.from_bytes(sign(DIGEST, KEY)[32:64])),
    ],
)
def test_an_impossible_signature_is_refused(signature: bytes) -> None:
    with pytest.raises(InvalidSignature):
        recover(DIGEST, signature)


def test_a_signature_that_leads_to_no_key_is_refused() -> None:
    """With r of the generator and s of the message both multiples cancel each other."""
    message = 7
    r = 0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798
    crafted = r.to_bytes(32) + message.to_bytes(32) + bytes([27])

    with pytest.raises(InvalidSignature, match="no key"):
        recover(message.to_bytes(32), crafted)
