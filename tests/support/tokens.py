"""Bearer tokens whose every byte a test can choose."""

import hmac
import json
from base64 import urlsafe_b64encode
from functools import cache
from typing import Any

from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from support.clock import START

ISSUER = "https://id.example/auth/v1"
AUDIENCE = "authenticated"
SUBJECT = "5f0c7a8e-8d4e-5f6b-9a55-0d8c2f4b7e11"

SigningKey = RSAKey | ECKey | OKPKey


@cache
def key(kind: str = "EC", number: int = 0) -> SigningKey:
    """One key per kind and number for all tests, because generating one is slow."""
    parameters: Any = {"kid": f"{kind}-{number}"}
    match kind:
        case "RSA":
            return RSAKey.generate_key(2048, parameters)
        case "OKP":
            return OKPKey.generate_key("Ed25519", parameters)
        case _:
            return ECKey.generate_key("P-256", parameters)


ALGORITHMS = {"EC": "ES256", "RSA": "RS256", "OKP": "Ed25519"}


def key_set(*keys: SigningKey, **changes: Any) -> bytes:
    """The public keys; `changes` apply to each, and None removes a member."""
    public = [{**each.as_dict(), **changes} for each in keys or (key(),)]
    published = [{n: v for n, v in each.items() if v is not None} for each in public]
    return json.dumps({"keys": published}).encode()


def claims(**changes: Any) -> dict[str, Any]:
    """The claims of a valid token, for one hour from `START`; None removes a claim."""
    now = START // 1000
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": SUBJECT, "iat": now, "exp": now + 3600}
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def token(
    said: dict[str, Any] | bytes | None = None,
    header: dict[str, Any] | bytes | None = None,
    *,
    by: SigningKey | None = None,
    **changes: Any,
) -> str:
    """A token with a valid signature; `changes` apply to its header."""
    signer = by or key()
    algorithm = ALGORITHMS[signer.key_type]
    if header is None:
        header = {"alg": algorithm, "typ": "JWT", "kid": signer.kid, **changes}
        header = {name: value for name, value in header.items() if value is not None}
    message = b".".join(map(segment, (header, claims() if said is None else said)))
    signature = JWSRegistry.algorithms[algorithm].sign(message, signer)
    return (message + b"." + segment(signature)).decode()


def confused_token(secret: bytes, algorithm: str = "HS256", kind: str = "EC") -> str:
    """A token whose signature is a keyed hash with a public secret."""
    message = b".".join(map(segment, ({"alg": algorithm, "kid": key(kind).kid}, claims())))
    signature = hmac.digest(secret, message, "sha512" if algorithm == "HS512" else "sha256")
    return (message + b"." + segment(signature)).decode()


def segment(value: dict[str, Any] | bytes) -> bytes:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(body).rstrip(b"=")
