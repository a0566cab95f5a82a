"""Keccak-256: published values, and every length around the block of 136 bytes."""

import pytest

from barograph.kit.keccak import keccak256

GOLDEN = [
    (b"", "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"),
    (b"abc", "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"),
    (bytes(135), "29e3704feeca7fb9ba229f0fa04d9b36449cf3ad6e1d85d9cfff3a10df9abc3e"),
    (bytes(136), "3a5912a7c5faa06ee4fe906253e339467a9ce87d533c65be3c15cb231cdb25f9"),
    (bytes(range(256)), "dc924469b334aed2a19fac7252e9961aea41f8d91996366029dbe0884229bf36"),
]


@pytest.mark.parametrize(("data", "digest"), GOLDEN)
def test_the_digest_is_the_published_one(data: bytes, digest: str) -> None:
    assert keccak256(data).hex() == digest
