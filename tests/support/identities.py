"""How a test asks an identity provider."""

from typing import Any

from pydantic import SecretStr

from barograph.access.identity import IdentityProvider, IdentityRefused, IdentityUnavailable
from barograph.demo.identity import API_KEY
from barograph.settings import Settings

PROJECT = "https://id.example"


def identity_settings(url: str = PROJECT, **changes: Any) -> Settings:
    """A provider that is given up soon and asked every time."""
    values = {
        "identity": "supabase",
        "identity_url": url,
        "identity_api_key": SecretStr(API_KEY),
        "identity_seconds": 0.3,
        "identity_cache_seconds": 0,
        **changes,
    }
    return Settings.model_validate(values)


async def outcome(provider: IdentityProvider, text: str) -> str:
    """Whose token it is, or how it ended."""
    try:
        return (await provider.identify(text)).user_id
    except IdentityRefused:
        return "refused"
    except IdentityUnavailable:
        return "unavailable"
