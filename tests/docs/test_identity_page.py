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
FIREBASE_KEYS = (
    "https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com"
)


class Provider(NamedTuple):
    """What a provider sends; claims that are None are absent."""

    issuer: str
    names: dict[str, str]
    """The values of the recipe's placeholders."""

    token: dict[str, Any]
    userinfo: dict[str, Any] | None = None
    """What it says about the user on request."""

    keys: str = "https://keys.example/jwks"
    algorithm: str = "RSA"


CONFIRMED = {"sub": SUBJECT, "email": "reader@example.com", "email_verified": True}
COGNITO = json.loads((SAMPLES / "cognito_access_claims.json").read_bytes())
del COGNITO["iat"], COGNITO["exp"]
PROVIDERS = {
    "Auth0": Provider(
        "https://tenant.auth0.com/",
        {"TENANT": "tenant", "API_IDENTIFIER": "https://api.example"},
        {
            "aud": ["https://api.example", "https://tenant.auth0.com/userinfo"],
            "azp": "client",
            "scope": "openid email",
        },
        CONFIRMED,
    ),
    "Keycloak": Provider(
        "https://id.example/realms/main",
        {"HOST": "id.example", "REALM": "main"},
        {"aud": "account", "azp": "app", "typ": "Bearer", "sid": "1", "email_verified": True},
    ),
    "Zitadel": Provider(
        "https://main-abc123.zitadel.cloud",
        {"INSTANCE": "main-abc123", "PROJECT_ID": "170086774599581953"},
        {"aud": ["170086824411201793", "170086774599581953"], "client_id": "170086824411201793"},
        CONFIRMED,
    ),
    "Clerk": Provider(
        "https://clerk.example.com",
        {"FRONTEND_API": "clerk.example.com", "APP_ORIGIN": "https://app.example.com"},
        {
            "aud": None,
            "azp": "https://app.example.com",
            "sid": "sess_1",
            "fva": [7, -1],
            "v": 2,
            "email_verified": True,
        },
    ),
    "Firebase": Provider(
        "https://securetoken.google.com/project-1",
        {"PROJECT_ID": "project-1"},
        {
            "aud": "project-1",
            "user_id": SUBJECT,
            "firebase": {"identities": {}, "sign_in_provider": "password"},
            "email_verified": True,
        },
        keys=FIREBASE_KEYS,
    ),
    "AWS Cognito": Provider(
        COGNITO["iss"],
        {
            "REGION": "eu-west-1",
            "POOL_ID": COGNITO["iss"].rpartition("/")[2],
            "APP_CLIENT_ID": COGNITO["client_id"],
        },
        {"aud": None, **COGNITO},
        json.loads((SAMPLES / "cognito_userinfo.json").read_bytes()),
    ),
    "Supabase": Provider(
        "https://project.supabase.co/auth/v1",
        {"PROJECT": "project", "PUBLISHABLE_KEY": "sb_publishable_1"},
        {"role": "authenticated", "is_anonymous": False, "session_id": "1"},
        json.loads((SAMPLES / "supabase_user.json").read_bytes()),
        keys="https://project.supabase.co/auth/v1/.well-known/jwks.json",
        algorithm="EC",
    ),
}


def recipe(name: str) -> dict[str, str]:
    """The settings of a section, with its placeholders filled in."""
    section = re.split(r"^#+ ", PAGE, flags=re.MULTILINE)
    (text,) = [each for each in section if each.startswith(f"{name}\n")]
    (block,) = re.findall("```sh\n(.*?)```", text, flags=re.DOTALL)
    filled = re.sub("<([A-Z_]+)>", lambda found: PROVIDERS[name].names[found[1]], block)
    return dict(line.split("=", 1) for line in shlex.split(filled, comments=True))


async def judged(name: str, token_changes: dict[str, Any], userinfo: dict[str, Any]) -> str:
    provider = PROVIDERS[name]
    signer = key(provider.algorithm)

    def reply(request: httpx2.Request) -> httpx2.Response:
        described = {
            "issuer": provider.issuer,
            "jwks_uri": provider.keys,
            "userinfo_endpoint": f"{provider.issuer}/userinfo",
        }
        documents = {
            f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration": described,
            provider.keys: json.loads(key_set(signer)),
            f"{provider.issuer}/userinfo": userinfo,
            f"{provider.issuer}/user": userinfo,
        }
        return httpx2.Response(200, json=documents[str(request.url)])

    settings = Settings.from_environment(recipe(name))
    network = httpx2.MockTransport(reply)
    verifier = identity_provider(settings, HandClock(), network, resolve_example)
    said = claims(**{"iss": provider.issuer, **provider.token, **token_changes})
    try:
        return await outcome(verifier, token(said, by=signer))
    finally:
        await verifier.close()


@pytest.mark.parametrize("name", PROVIDERS)
def test_recipe_accepts_a_token_of_its_provider(name: str) -> None:
    told = PROVIDERS[name].userinfo or {}
    assert asyncio.run(judged(name, {}, told)) == SUBJECT
    others = {"aud": "other", "azp": "other", "client_id": "other"}
    assert asyncio.run(judged(name, others, told)) == "refused"
    unconfirmed = dict.fromkeys(("email_verified", "email_confirmed_at"), None)
    assert asyncio.run(judged(name, unconfirmed, told | unconfirmed)) == "refused"


def test_every_recipe_of_the_page_is_tested() -> None:
    sections = re.split(r"^#+ ", PAGE, flags=re.MULTILINE)
    with_recipe = {each.partition("\n")[0] for each in sections if "```sh" in each}
    assert with_recipe - {"OpenID Connect"} == set(PROVIDERS)
