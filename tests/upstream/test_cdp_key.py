"""Requests that are signed with an API key, as Coinbase's facilitator requires."""

import json
from base64 import b64encode, urlsafe_b64decode
from typing import Any

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    SECP384R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from barograph.errors import ConfigurationError
from barograph.payments.records import SettlementUnknown
from barograph.settings import Settings
from barograph.upstream.cdp_key import CdpKey
from barograph.upstream.facilitator import HttpFacilitator
from support.clock import START, HandClock
from support.payments import PAYMENTS, proof

ID = "organizations/1/apiKeys/2"
ED25519 = Ed25519PrivateKey.generate()
P256 = generate_private_key(SECP256R1())

PrivateKey = Ed25519PrivateKey | EllipticCurvePrivateKey
SECOND = START // 1000


def secret_of(key: PrivateKey) -> str:
    """A key's secret as Coinbase shows it."""
    if isinstance(key, EllipticCurvePrivateKey):
        return pem(key).replace("\n", "\\n")
    pair = key.private_bytes_raw() + key.public_key().public_bytes_raw()
    return b64encode(pair).decode()


def pem(key: PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def signed_claims(key: PrivateKey, token: str) -> tuple[Any, Any]:
    """The header and the claims of a token that this key signed."""
    head, body, signature = token.encode().split(b".")
    raw = urlsafe_b64decode(signature + b"==")
    if isinstance(key, EllipticCurvePrivateKey):
        r, s = int.from_bytes(raw[:32]), int.from_bytes(raw[32:])
        asn1 = encode_dss_signature(r, s)
        key.public_key().verify(asn1, head + b"." + body, ECDSA(SHA256()))
    else:
        key.public_key().verify(raw, head + b"." + body)
    header, claims = (json.loads(urlsafe_b64decode(part + b"==")) for part in (head, body))
    return header, claims


@pytest.mark.parametrize(("key", "algorithm"), [(ED25519, "EdDSA"), (P256, "ES256")])
async def test_each_request_has_its_own_token_for_its_address_for_two_minutes(
    key: PrivateKey, algorithm: str, caplog: pytest.LogCaptureFixture
) -> None:
    requests: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        refused = request.url.path.endswith("settle")
        return httpx2.Response(401 if refused else 200, json={"isValid": True, "kinds": []})

    own = {"x402_facilitator_url": "https://api.example:8443/platform/v2/x402"}
    own |= {"x402_cdp_key_id": ID, "x402_cdp_key_secret": secret_of(key)}
    given = Settings.model_validate(PAYMENTS | own)
    transport = httpx2.MockTransport(answer)
    client = HttpFacilitator(given, clock=HandClock(), transport=transport)
    await client.verify(proof())
    with pytest.raises(SettlementUnknown):
        await client.settle(proof())
    await client.supported()
    await client.close()
    assert caplog.messages == ["facilitator refuses our credentials"]
    assert secret_of(key) not in caplog.text
    tokens = [request.headers["Authorization"].removeprefix("Bearer ") for request in requests]
    found = [signed_claims(key, token) for token in tokens]
    assert len({header.pop("nonce") for header, _ in found}) == 3
    standing = {"iss": "cdp", "sub": ID, "iat": SECOND, "nbf": SECOND, "exp": SECOND + 120}
    targets = [("POST", "verify"), ("POST", "settle"), ("GET", "supported")]
    assert found == [
        (
            {"alg": algorithm, "kid": ID, "typ": "JWT"},
            {**standing, "uris": [f"{method} api.example:8443/platform/v2/x402/{path}"]},
        )
        for method, path in targets
    ]


@pytest.mark.parametrize(
    "secret",
    [
        "no base64",
        b64encode(b"x" * 32).decode(),
        b64encode(b"x" * 64).decode(),
        secret_of(P256)[:-40],
        pem(generate_private_key(SECP384R1())),
        P256.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode(),
        pem(ED25519),
    ],
)
def test_a_secret_that_is_no_key_is_refused_at_the_start(secret: str) -> None:
    with pytest.raises(ConfigurationError, match="BAROGRAPH_X402_CDP_KEY_SECRET") as caught:
        CdpKey(ID, secret)
    assert secret not in str(caught.value)
    assert caught.value.__suppress_context__
