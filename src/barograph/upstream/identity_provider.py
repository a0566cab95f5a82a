"""Chooses the identity provider that the settings name."""

import httpx2

from barograph.identity.provider import IdentityProvider, NoIdentityProvider
from barograph.kit.clock import Clock
from barograph.kit.metrics import NO_METRICS, Metrics
from barograph.settings import Settings
from barograph.upstream.identity_http import IdentityHttp
from barograph.upstream.oidc import OidcIdentity, Resolve, resolve
from barograph.upstream.supabase import SupabaseIdentity


def identity_provider(
    settings: Settings,
    clock: Clock,
    transport: httpx2.AsyncBaseTransport | None = None,
    resolve: Resolve = resolve,
    *,
    metrics: Metrics = NO_METRICS,
) -> IdentityProvider:
    """The provider that verifies bearer tokens; `transport` and `resolve` replace the network."""
    if settings.identity == "none":
        return NoIdentityProvider()
    http = IdentityHttp(settings.identity_seconds, transport, metrics)
    if settings.identity == "supabase":
        return SupabaseIdentity(settings, http, clock)
    return OidcIdentity(settings, http, clock, resolve)
