"""Requests that are signed with an API key, as Coinbase's facilitator requires."""

import asyncio
import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    SECP384R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from barograph.cli.demo_settings import payment_settings
from barograph.demo.servers.api_keys import ApiKey
from barograph.demo.servers.facilitator import load_ledger, running_facilitator
from barograph.demo.servers.wallets import demo_proof
from barograph.entitlements.purchases import feed_requirements
from barograph.errors import ConfigurationError, Forbidden
from barograph.kit.timestamps import MINUTE
from barograph.payments.proof import decode_proof, match_offer, wire_requirements
from barograph.payments.records import FacilitatorUnavailable, Settled, SettlementUnknown
from barograph.settings import Settings
from barograph.upstream.cdp_key import CdpKey
from barograph.upstream.facilitator import HttpFacilitator
from support.clock import START, HandClock

ID = "organizations/1/apiKeys/2"
ED25519 = Ed25519PrivateKey.generate()
P256 = generate_private_key(SECP256R1())

PrivateKey = Ed25519PrivateKey | EllipticCurvePrivateKey
REFUSED = ("FacilitatorUnavailable", "SettlementUnknown", "Forbidden")


def secret_of(key: PrivateKey) -> str:
    """A key's secret as Coinbase shows it."""
    if isinstance(key, EllipticCurvePrivateKey):
        return pem(key).replace("\n", "\\n")
    pair = key.private_bytes_raw() + key.public_key().public_bytes_raw()
    return b64encode(pair).decode()


def pem(key: PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def key_settings(key: PrivateKey, key_id: str = ID) -> dict[str, Any]:
    return {"x402_cdp_key_id": key_id, "x402_cdp_key_secret": secret_of(key)}


def ask(
    folder: Path, key: ApiKey, *, minutes_ahead: int = 0, **settings: Any
) -> tuple[str, str, str]:
    """How a facilitator with this key answers to verifying, settling and reading its offer."""
    clock, ours = HandClock(), HandClock()
    ours.now += minutes_ahead * MINUTE

    async def run() -> tuple[str, str, str]:
        async with running_facilitator(load_ledger(folder), clock=clock, api_key=key) as address:
            place = f"{address.host}:{address.port}"
            given = Settings.model_validate(payment_settings(place) | settings)
            terms = feed_requirements(given)
            shown = demo_proof(folder, "none", wire_requirements(terms), clock())
            proof = match_offer(decode_proof(shown), [terms])
            client = HttpFacilitator(given, clock=ours)
            try:
                verified, settled = client.verify(proof), client.settle(proof)
                return await ended(verified), await ended(settled), await ended(client.supported())
            finally:
                await client.close()

    return asyncio.run(run())


async def ended(work: Any) -> str:
    try:
        found = await work
    except (FacilitatorUnavailable, SettlementUnknown, Forbidden) as error:
        return type(error).__name__
    return "settled" if isinstance(found, Settled) else "yes"


@pytest.mark.parametrize("key", [ED25519, P256], ids=["Ed25519", "ES256"])
def test_facilitator_accepts_requests_signed_with_its_api_key(
    tmp_path: Path, key: PrivateKey
) -> None:
    assert ask(tmp_path, ApiKey(ID, key.public_key()), **key_settings(key)) == (
        "yes",
        "settled",
        "yes",
    )


def test_a_wrong_key_or_a_wrong_clock_is_our_fault_and_not_the_payers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = ApiKey(ID, ED25519.public_key())
    assert ask(tmp_path, known, **key_settings(Ed25519PrivateKey.generate())) == REFUSED
    assert ask(tmp_path, known, **key_settings(ED25519, "another")) == REFUSED
    assert ask(tmp_path, known, x402_facilitator_token="static") == REFUSED
    assert ask(tmp_path, known) == REFUSED
    for minutes in (-2, 1):
        assert ask(tmp_path, known, minutes_ahead=minutes, **key_settings(ED25519)) == REFUSED
    assert "facilitator refuses our credentials" in caplog.messages
    assert secret_of(ED25519) not in caplog.text


def test_each_token_is_for_one_request_to_one_address_for_two_minutes() -> None:
    key = CdpKey(ID, secret_of(ED25519))
    address = "https://api.cdp.coinbase.com/platform/v2/x402/verify"
    (header, claims), (other, _) = (
        [
            json.loads(b64decode(f"{part}==", altchars="-_"))
            for part in key.token("POST", address, START).split(".")[:2]
        ]
        for _ in range(2)
    )
    assert header.pop("nonce") != other["nonce"]
    assert header == {"alg": "EdDSA", "kid": ID, "typ": "JWT"}
    assert claims == {
        "iss": "cdp",
        "sub": ID,
        "iat": START // 1000,
        "nbf": START // 1000,
        "exp": START // 1000 + 120,
        "uris": ["POST api.cdp.coinbase.com/platform/v2/x402/verify"],
    }


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
