"""Identity providers in tests."""

import asyncio
from ipaddress import ip_address
from typing import Any

from pydantic import SecretStr

from barograph.identity.provider import IdentityProvider, IdentityRefused, IdentityUnavailable
from barograph.settings import Settings
from barograph_demo.servers.identity import API_KEY

PROJECT = "https://id.example"


def identity_settings(url: str = PROJECT, **changes: Any) -> Settings:
    """Settings for a Supabase project, unless they are changed."""
    values = {
        "identity": "supabase",
        "identity_url": url,
        "identity_api_key": SecretStr(API_KEY),
        **changes,
    }
    return Settings.model_validate(values)


async def outcome(provider: IdentityProvider, text: str) -> str:
    """The user of a token, or why there is none."""
    try:
        return (await provider.identify(text)).user_id
    except IdentityRefused:
        return "refused"
    except IdentityUnavailable:
        return "unavailable"


def judge(provider: IdentityProvider, text: str) -> str:
    """The outcome of a token at a provider that is asked nothing else."""

    async def work() -> str:
        try:
            return await outcome(provider, text)
        finally:
            await provider.close()

    return asyncio.run(work())


async def resolve_example(host: str) -> list[str]:
    """IP addresses without a name server: public ones, except for a few names."""
    try:
        return [str(ip_address(host))]
    except ValueError:
        return _HOSTS.get(host, [PUBLIC])


PUBLIC = "1.1.1.1"
_HOSTS = {
    "localhost": ["127.0.0.1"],
    "inside.example": ["10.0.0.8"],
    "both.example": [PUBLIC, "10.0.0.8"],
    "nowhere.example": [],
}
