"""A real OpenID Connect issuer, the npm package oidc-provider, vouches for tokens."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from joserfc.jwk import ECKey, RSAKey

from barograph.kit.clock import system_clock
from barograph.upstream.identity_providers import identity_provider
from support import identities
from support.identities import identity_settings
from support.node import NODE, SCRIPTS, installed

AUDIENCE = "https://barograph.example"
CLIENTS: dict[str, dict[str, object]] = {
    "confirmed": {"email_verified": True},
    "es-confirmed": {"email_verified": True},
    "unconfirmed": {"email_verified": False},
    "texting": {"email_verified": "true"},
    "silent": {"email": "name@example.com"},
}
PATIENCE = 30


class Issuer:
    """The running issuer, and a client of it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        keys: list[RSAKey | ECKey] = [
            RSAKey.generate_key(2048, {"use": "sig", "kid": "rsa"}),
            ECKey.generate_key("P-256", {"use": "sig", "kid": "ec"}),
        ]
        given = {
            "audience": AUDIENCE,
            "clients": CLIENTS,
            "jwks": {"keys": [key.as_dict(private=True) for key in keys]},
        }
        process.stdin.write(json.dumps(given) + "\n")
        process.stdin.flush()
        self.url = process.stdout.readline().strip()

    def token(self, client: str) -> str:
        reply = httpx2.post(
            f"{self.url}/token",
            data={"grant_type": "client_credentials", "scope": "read"},
            auth=(client, f"secret-of-{client}"),
            timeout=PATIENCE,
            trust_env=False,
        )
        assert reply.status_code == 200, reply.text
        found: str = reply.json()["access_token"]
        return found


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with subprocess.Popen(
        [str(NODE), str(SCRIPTS / "issuer.mjs")],
        cwd=installed(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield Issuer(process)
        finally:
            process.kill()


def judge(issuer: Issuer, text: str, **changes: Any) -> str:
    usual = {"url": issuer.url, "identity": "oidc", "identity_audience": AUDIENCE}
    settings = identity_settings(**usual | changes)
    return identities.judge(identity_provider(settings, system_clock, seconds=10), text)


@pytest.mark.parametrize("client", CLIENTS)
def test_only_a_user_whom_a_real_issuer_calls_confirmed_is_identified(
    issuer: Issuer, client: str
) -> None:
    is_confirmed = CLIENTS[client].get("email_verified") is True
    assert judge(issuer, issuer.token(client)) == (client if is_confirmed else "refused")


def test_a_token_of_a_real_issuer_is_for_one_audience_claim_and_name(issuer: Issuer) -> None:
    good = issuer.token("confirmed")
    assert judge(issuer, good, identity_audience="https://other.example") == "refused"
    assert judge(issuer, good, identity_email_claim="verified") == "refused"
    assert judge(issuer, good[:-4] + "AAAA") == "refused"
    # The issuer's userinfo refuses a token that is not for it.
    assert judge(issuer, good, identity_claims="userinfo") == "refused"
    other = issuer.url.replace("127.0.0.1", "localhost")
    assert judge(issuer, good, url=other) == "unavailable"
