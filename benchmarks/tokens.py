"""Bearer tokens: the service verifies them, compared with a bare check of their signatures."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from joserfc.util import urlsafe_b64decode

from barograph.identity.key_set import KeySetCache
from barograph.identity.token_verifier import TokenVerifier
from barograph.kit.clock import system_clock
from barograph_demo.servers.identity import AUDIENCE, DemoUser, issuer, sign_token
from benchmarks.plan import Plan
from benchmarks.table import Figure, Section, at_least

TITLE = "Token verification: operations per CPU-second, against the bare signature check"
SHARE = 0.7
SUBSCRIBERS = 100
TURNS = 5
"""How often a round verifies each token."""

PROVIDER = "http://127.0.0.1:1"
RSA_BITS = 2048
HALF = 32
"""Bytes of each of the two numbers of an ES256 signature."""

Key = ECKey | RSAKey
Check = Callable[[], None]


class Costs(NamedTuple):
    """CPU seconds of one round: the bare check, the service, the bare check again."""

    bare: float
    service: float
    twin: float


def measure(plan: Plan, folder: Path) -> Section:  # noqa: ARG001 - nothing is written
    """Verify tokens of both common algorithms."""
    keys: dict[str, Key] = {
        "ES256": ECKey.generate_key("P-256"),
        "RS256": RSAKey.generate_key(RSA_BITS),
    }
    figures: list[Figure] = []
    for algorithm, key in keys.items():
        tokens = _tokens(algorithm, key)
        checks = [_bare_check(key, token) for token in tokens]
        verifier = _verifier(algorithm, key)
        costs = asyncio.run(_alternate(verifier, tokens, checks, plan.rounds))
        figures += _figures(algorithm, costs)
    return Section(TITLE, figures)


def _figures(algorithm: str, costs: Sequence[Costs]) -> list[Figure]:
    shares = [(each.bare + each.twin) / 2 / each.service for each in costs]
    each = median(cost.service for cost in costs) / (SUBSCRIBERS * TURNS)
    return [
        at_least(f"{algorithm} / bare check", shares, SHARE),
        at_least(
            "  A/A control: bare check / bare check", [cost.bare / cost.twin for cost in costs]
        ),
        Figure("  verified per CPU-second", f"{1 / each:,.0f} ({each * 1e6:.0f} µs each)"),
    ]


def _tokens(algorithm: str, key: Key) -> list[str]:
    """One token per user, with the claims of the simulated provider."""
    signer, now = ECKey.generate_key("P-256"), system_clock()
    header = {"alg": algorithm, "kid": key.thumbprint()}
    found = []
    for number in range(SUBSCRIBERS):
        model = sign_token(signer, DemoUser(f"subscriber{number}"), now, PROVIDER)
        claims = jwt.decode(model, signer).claims
        found.append(jwt.encode(header, claims, key, [algorithm]))
    return found


def _bare_check(key: Key, token: str) -> Check:
    """Only the check, over prepared bytes; it raises if a signature is wrong."""
    message, _, encoded = token.encode().rpartition(b".")
    signature = urlsafe_b64decode(encoded)
    if isinstance(key, RSAKey):
        return partial(key.public_key.verify, signature, message, PKCS1v15(), SHA256())
    halves = (int.from_bytes(half) for half in (signature[:HALF], signature[HALF:]))
    return partial(key.public_key.verify, encode_dss_signature(*halves), message, ECDSA(SHA256()))


def _verifier(algorithm: str, key: Key) -> TokenVerifier:
    public = key.as_dict(private=False, kid=key.thumbprint(), use="sig", alg=algorithm)
    body = msgspec.json.encode({"keys": [public]})

    async def fetch() -> bytes:
        return body

    keys = KeySetCache(fetch, system_clock)
    return TokenVerifier(keys, issuer=issuer(PROVIDER), audience=AUDIENCE, clock=system_clock)


async def _alternate(
    verifier: TokenVerifier, tokens: Sequence[str], checks: Sequence[Check], rounds: int
) -> list[Costs]:
    """Measure the service between two bare checks, after a warm-up round."""
    found = []
    for _ in range(rounds + 1):
        bare = _check_all(checks)
        service = await _verify_all(verifier, tokens)
        found.append(Costs(bare, service, _check_all(checks)))
    return found[1:]


async def _verify_all(verifier: TokenVerifier, tokens: Sequence[str]) -> float:
    started = time.process_time()
    for _ in range(TURNS):
        for token in tokens:
            await verifier.verify(token)
    return time.process_time() - started


def _check_all(checks: Sequence[Check]) -> float:
    started = time.process_time()
    for _ in range(TURNS):
        for check in checks:
            check()
    return time.process_time() - started
