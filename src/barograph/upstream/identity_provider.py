"""Chooses the identity provider that the settings name."""

from typing import TYPE_CHECKING

import httpx2

from barograph.identity.provider import IdentityProvider, NoIdentityProvider
from barograph.kit.clock import Clock
from barograph.kit.metrics import NO_METRICS, Metrics
from barograph.settings import Settings

if TYPE_CHECKING:
    from barograph.upstream.oidc import Resolve


def identity_provider(
    settings: Settings,
    clock: Clock,
    transport: httpx2.AsyncBaseTransport | None = None,
    resolve: "Resolve | None" = None,
    *,
    metrics: Metrics = NO_METRICS,
) -> IdentityProvider:
    """The provider that verifies bearer tokens; `transport` and `resolve` replace the network."""
    if settings.identity == "none":
        return NoIdentityProvider()
    # Loading joserfc takes 3 MiB and a tenth of a second, which a service without users saves.
    from barograph.upstream import oidc, supabase  # noqa: PLC0415
    from barograph.upstream.identity_http import IdentityHttp  # noqa: PLC0415

    http = IdentityHttp(settings.identity_seconds, transport, metrics)
    if settings.identity == "supabase":
        return supabase.SupabaseIdentity(settings, http, clock)
    return oidc.OidcIdentity(settings, http, clock, resolve or oidc.resolve)
