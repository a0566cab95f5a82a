"""Chance that can be looked up: the same question gives the same number in every process.

Python's own `hash` is salted and a shared generator remembers who asked before, so the world draws
from these functions instead.
"""

import hashlib
from statistics import NormalDist
from typing import Final

_MASK: Final = (1 << 64) - 1
_UNIT: Final = 2.0**-53

QUANTILE_BITS: Final = 10
_QUANTILES: Final = 1 << QUANTILE_BITS
QUANTILE_MASK: Final = _QUANTILES - 1
NORMAL: Final = tuple(
    NormalDist().inv_cdf((index + 0.5) / _QUANTILES) for index in range(_QUANTILES)
)
"""Standard normal values, indexed by the low bits of a mixed number: a draw for one look-up."""


def key(*parts: object) -> int:
    """A 64-bit number that stands for these parts, in their order."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def mix(value: int) -> int:
    """Scramble 64 bits (splitmix64): neighbouring inputs give unrelated outputs."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def unit(value: int) -> float:
    """Turn a mixed number into a fraction in [0, 1)."""
    return (value >> 11) * _UNIT
