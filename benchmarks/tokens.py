"""Bearer tokens: the service verifies them, compared with a bare check of their signatures."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median

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
from benchmarks import bench

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


def measure(plan: bench.Plan, _folder: Path) -> bench.Section:
    """Verify tokens of both common algorithms."""
    keys: dict[str, Key] = {
        "ES256": ECKey.generate_key("P-256"),
        "RS256": RSAKey.generate_key(RSA_BITS),
    }
    figures = [_figures(algorithm, key, plan.rounds) for algorithm, key in keys.items()]
    return bench.Section(TITLE, [*chain.from_iterable(figures)])


def _figures(algorithm: str, key: Key, rounds: int) -> list[bench.Figure]:
    tokens, verifier = _tokens(algorithm, key), _verifier(algorithm, key)
    checks = [_bare_check(key, token) for token in tokens]

    async def verify_all() -> None:
        for token in tokens:
            await verifier.verify(token)

    with asyncio.Runner() as runner:
        bare = partial(_rate, lambda: [check() for check in checks])
        service = partial(_rate, lambda: runner.run(verify_all()))
        rates = bench.alternate({"bare": bare, "service": service, "twin": bare}, rounds)
    return [
        *bench.between(rates, f"{algorithm} / bare check", "bare check", SHARE),
        bench.rate("  verified per CPU-second", median(rates["service"])),
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


def _rate(work: Callable[[], object]) -> float:
    """Tokens per CPU-second."""
    begun = time.process_time()
    for _ in range(TURNS):
        work()
    return SUBSCRIBERS * TURNS / (time.process_time() - begun)
