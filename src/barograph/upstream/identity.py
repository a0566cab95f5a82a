"""The identity provider that is configured."""

import httpx

from barograph.access.identity import IdentityProvider, NoIdentityProvider
from barograph.kit.clock import Clock
from barograph.settings import Settings
from barograph.upstream.identity_http import IdentityHttp
from barograph.upstream.oidc import OidcIdentity
from barograph.upstream.supabase import SupabaseIdentity


def identity_provider(
    settings: Settings, clock: Clock, transport: httpx.AsyncBaseTransport | None = None
) -> IdentityProvider:
    """Whoever vouches for bearer tokens; `transport` stands in place of the network."""
    if settings.identity == "none":
        return NoIdentityProvider()
    http = IdentityHttp(settings.identity_seconds, transport)
    if settings.identity == "supabase":
        return SupabaseIdentity(settings, http, clock)
    return OidcIdentity(settings, http, clock)
