"""Chooses the identity provider that the settings name."""

import httpx2

from barograph.identity.provider import IdentityProvider, NoIdentityProvider
from barograph.kit.clock import Clock
from barograph.kit.metrics import NO_METRICS, Metrics
from barograph.settings import Settings
from barograph.upstream.identity_http import IdentityHttp
from barograph.upstream.oidc import OidcIdentity, Resolve, resolve
from barograph.upstream.supabase import SupabaseIdentity

REQUEST_SECONDS = 3.0
"""Timeout of one request to the provider."""


def identity_provider(
    settings: Settings,
    clock: Clock,
    transport: httpx2.AsyncBaseTransport | None = None,
    resolve: Resolve = resolve,
    *,
    metrics: Metrics = NO_METRICS,
    seconds: float = REQUEST_SECONDS,
) -> IdentityProvider:
    """The provider that verifies bearer tokens; `transport` and `resolve` replace the network."""
    if settings.identity == "none":
        return NoIdentityProvider()
    http = IdentityHttp(seconds, transport, metrics)
    if settings.identity == "supabase":
        return SupabaseIdentity(settings, http, clock)
    return OidcIdentity(settings, http, clock, resolve)
