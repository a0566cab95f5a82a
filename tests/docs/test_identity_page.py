"""Each recipe of `docs/identity.md` accepts a token of its provider's shape, and no other."""

import asyncio
import json
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from barograph.settings import Settings
from barograph.upstream.identity_providers import identity_provider
from support.clock import HandClock
from support.identities import outcome, resolve_example
from support.tokens import SUBJECT, claims, key, key_set, token

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/identity.md").read_text("utf-8")
SAMPLES: dict[str, dict[str, Any]] = {
    each.stem: json.loads(each.read_bytes())
    for each in (ROOT / "tests/upstream/samples/identity").glob("*.json")
}
GOOGLE = "https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com"


class Provider(NamedTuple):
    """The values of a recipe's placeholders, and what the provider then sends.

    Of a token these are the claims besides the usual ones; None removes one.
    """

    names: str
    token: dict[str, Any]
    about_user: dict[str, Any]
    keys: str = "https://keys.example/jwks"
    algorithm: str = "RSA"


CONFIRMED = {"sub": SUBJECT, "email": "reader@example.com", "email_verified": True}
COGNITO = SAMPLES["cognito_access_claims"] | {"iat": claims()["iat"], "exp": claims()["exp"]}
PROVIDERS = {
    "Auth0": Provider(
        "TENANT=tenant API_IDENTIFIER=https://api.example",
        {"iss": "https://tenant.auth0.com/", "azp": "client"}
        | {"aud": ["https://api.example", "https://tenant.auth0.com/userinfo"]},
        CONFIRMED,
    ),
    "Keycloak": Provider(
        "HOST=id.example REALM=main",
        {"iss": "https://id.example/realms/main", "aud": "account", "azp": "app", "typ": "Bearer"}
        | CONFIRMED,
        {},
    ),
    "Zitadel": Provider(
        "INSTANCE=main-abc123 PROJECT_ID=1700",
        {"iss": "https://main-abc123.zitadel.cloud", "aud": ["1701", "1700"], "client_id": "1701"},
        CONFIRMED,
    ),
    "Clerk": Provider(
        "FRONTEND_API=clerk.example.com APP_ORIGIN=https://app.example.com",
        {"iss": "https://clerk.example.com", "aud": None, "azp": "https://app.example.com"}
        | {"sid": "sess_1", "fva": [7, -1], "v": 2, "email_verified": True},
        {},
    ),
    "Firebase": Provider(
        "PROJECT_ID=project-1",
        {"iss": "https://securetoken.google.com/project-1", "aud": "project-1", "user_id": SUBJECT}
        | {"firebase": {"identities": {}, "sign_in_provider": "password"}, **CONFIRMED},
        {},
        keys=GOOGLE,
    ),
    "AWS Cognito": Provider(
        f"REGION=eu-west-1 POOL_ID=eu-west-1_Example01 APP_CLIENT_ID={COGNITO['client_id']}",
        {"aud": None, **COGNITO},
        SAMPLES["cognito_userinfo"],
    ),
    "Supabase": Provider(
        "PROJECT=project PUBLISHABLE_KEY=sb_publishable_1",
        {"iss": "https://project.supabase.co/auth/v1", "is_anonymous": False},
        SAMPLES["supabase_user"],
        keys="https://project.supabase.co/auth/v1/.well-known/jwks.json",
        algorithm="EC",
    ),
}
SECTIONS = {each.partition("\n")[0]: each for each in re.split("^#+ ", PAGE, flags=re.MULTILINE)}


def recipe(name: str) -> dict[str, str]:
    """The settings of a section, with its placeholders filled in."""
    (block,) = re.findall("```sh\n(.*?)```", SECTIONS[name], flags=re.DOTALL)
    values = dict(each.split("=") for each in PROVIDERS[name].names.split())
    filled = re.sub("<([A-Z_]+)>", lambda found: values[found[1]], block)
    return dict(line.split("=", 1) for line in shlex.split(filled))


def judged(name: str, about_user: dict[str, Any], **changes: Any) -> str:
    provider = PROVIDERS[name]
    signer, issuer = key(provider.algorithm), provider.token["iss"]
    found = {"issuer": issuer, "jwks_uri": provider.keys, "userinfo_endpoint": f"{issuer}/user"}
    documents = {
        f"{issuer.rstrip('/')}/.well-known/openid-configuration": found,
        provider.keys: json.loads(key_set(signer)),
        f"{issuer}/user": about_user,
    }
    answer = lambda ask: httpx2.Response(200, json=documents[str(ask.url)])  # noqa: E731

    async def work() -> str:
        settings, network = Settings.from_environment(recipe(name)), httpx2.MockTransport(answer)
        verifier = identity_provider(settings, HandClock(), network, resolve_example)
        try:
            return await outcome(verifier, token(claims(**provider.token | changes), by=signer))
        finally:
            await verifier.close()

    return asyncio.run(work())


RECIPES = {name for name, text in SECTIONS.items() if "```sh" in text} - {"OpenID Connect"}


@pytest.mark.parametrize("name", sorted(RECIPES | PROVIDERS.keys()))
def test_each_recipe_accepts_a_token_of_its_provider(name: str) -> None:
    told = PROVIDERS[name].about_user
    assert judged(name, told) == SUBJECT
    assert judged(name, told, aud="other", azp="other", client_id="other") == "refused"
    unconfirmed = dict.fromkeys(("email_verified", "email_confirmed_at"))
    assert judged(name, told | unconfirmed, **unconfirmed) == "refused"
