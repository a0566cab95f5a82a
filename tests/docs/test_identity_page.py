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
from barograph.upstream.identity_provider import identity_provider
from support.clock import HandClock
from support.identities import outcome, resolve_example
from support.tokens import SUBJECT, claims, key, key_set, token

PAGE = (Path(__file__).parents[2] / "docs/identity.md").read_text("utf-8")
SAMPLES = Path(__file__).parents[1] / "upstream/samples/identity"
GOOGLE = "https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com"


def sample(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SAMPLES / f"{name}.json").read_bytes())
    return found


class Provider(NamedTuple):
    """What a provider sends."""

    names: str
    """The recipe's placeholders and their values."""

    token: dict[str, Any]
    """The claims of a token, besides the usual ones; None removes one."""

    about_user: dict[str, Any]
    """What it says about the user on request."""

    keys: str = "https://keys.example/jwks"
    algorithm: str = "RSA"


CONFIRMED = {"sub": SUBJECT, "email": "reader@example.com", "email_verified": True}
COGNITO = sample("cognito_access_claims") | {"iat": claims()["iat"], "exp": claims()["exp"]}
PROVIDERS = {
    "Auth0": Provider(
        "TENANT=tenant API_IDENTIFIER=https://api.example",
        {
            "iss": "https://tenant.auth0.com/",
            "aud": ["https://api.example", "https://tenant.auth0.com/userinfo"],
            "azp": "client",
        },
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
        sample("cognito_userinfo"),
    ),
    "Supabase": Provider(
        "PROJECT=project PUBLISHABLE_KEY=sb_publishable_1",
        {"iss": "https://project.supabase.co/auth/v1", "is_anonymous": False},
        sample("supabase_user"),
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
    documents = {
        f"{issuer.rstrip('/')}/.well-known/openid-configuration": {
            "issuer": issuer,
            "jwks_uri": provider.keys,
            "userinfo_endpoint": f"{issuer}/user",
        },
        provider.keys: json.loads(key_set(signer)),
        f"{issuer}/user": about_user,
    }

    async def work() -> str:
        network = httpx2.MockTransport(
            lambda ask: httpx2.Response(200, json=documents[str(ask.url)])
        )
        settings = Settings.from_environment(recipe(name))
        verifier = identity_provider(settings, HandClock(), network, resolve_example)
        try:
            return await outcome(verifier, token(claims(**provider.token | changes), by=signer))
        finally:
            await verifier.close()

    return asyncio.run(work())


@pytest.mark.parametrize("name", PROVIDERS)
def test_recipe_accepts_a_token_of_its_provider(name: str) -> None:
    told = PROVIDERS[name].about_user
    assert judged(name, told) == SUBJECT
    assert judged(name, told, aud="other", azp="other", client_id="other") == "refused"
    unconfirmed = dict.fromkeys(("email_verified", "email_confirmed_at"))
    assert judged(name, told | unconfirmed, **unconfirmed) == "refused"


def test_every_recipe_of_the_page_is_tested() -> None:
    with_recipe = {name for name, text in SECTIONS.items() if "```sh" in text}
    assert with_recipe - {"OpenID Connect"} == set(PROVIDERS)
