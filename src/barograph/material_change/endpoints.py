"""`GET /api/agents/material-change`, in the contract's order.

method (405, by the router) → identity (401, 503) → entitlement (402, 404 not_found, 503) → query
(400) → the latest pair (404, 503) → compare → the latest pair again → response.
"""

from starlette.requests import Request
from starlette.responses import Response

from barograph.entitlements.feed_access import FeedAccess, bounded
from barograph.history.guards import Continuity
from barograph.history.reader import HistoryReader, StoredVersion
from barograph.kit.clock import Clock
from barograph.kit.http import ApiRouter, private_response
from barograph.kit.wire import Schema, operation, parameter
from barograph.material_change.compare import assess
from barograph.material_change.documents import Comparison, comparison_body
from barograph.material_change.query import (
    PARAMETERS,
    ComparisonReferenceUnavailable,
    ComparisonUnavailable,
    Pair,
    Reference,
    parse_pair,
)
from barograph.payments.offers import PaymentRequiredBody


class LatestPair:
    """Finds the newest recorded version of a kind and the one before it."""

    def __init__(self, history: HistoryReader, continuity: Continuity) -> None:
        self._history = history
        self._continuity = continuity

    async def require(self, pair: Pair, now: int) -> tuple[StoredVersion, StoredVersion]:
        """The two referenced versions, the earlier first.

        Raises:
            ComparisonReferenceUnavailable: they are not the newest recorded version and the one
                immediately before it, or the newest has expired or was withdrawn.
            DatabaseUnavailable: the history cannot be read, or was replaced.
        """
        await self._continuity.require(pair.kind)
        newest = await self._history.newest_documents(pair.kind)
        match newest.versions:
            case (after, before) if _is(pair.after, after) and _is(pair.before, before):
                if newest.withdrawal is None and not after.is_expired(now):
                    return before, after
        raise ComparisonReferenceUnavailable


def _is(reference: Reference, version: StoredVersion) -> bool:
    return reference == (version.leg_id, version.revision, version.history_digest)


MATERIAL_CHANGE_PATH = "/api/agents/material-change"


def material_change_routes(
    access: FeedAccess, latest: LatestPair, clock: Clock, seconds: float
) -> ApiRouter:
    """The route of the comparison, with a timeout of `seconds`."""
    router = ApiRouter(tags=["entitled"])

    @router.get(
        MATERIAL_CHANGE_PATH,
        **operation(
            "getMaterialChange", Comparison, *_PARAMETERS, responses=_ERRORS, is_coded=True
        ),
    )
    async def material_change(request: Request) -> Response:
        async with bounded(seconds, ComparisonUnavailable):
            await access.admit(request.scope)
            pair = parse_pair(request.scope["query_string"])
            before, after = await latest.require(pair, clock())
            assessment = assess(before.document, after.document)
            # The reads are not one snapshot, so check that the pair is still the latest.
            await latest.require(pair, clock())
            issued_at = before.issued_at, after.issued_at
            body = comparison_body(pair, issued_at, assessment, compared_at=clock())
        return private_response(200, body)

    return router


_PARAMETERS = [
    parameter("query", name, description, is_required=True, **schema)
    for name, (description, schema) in PARAMETERS.items()
]
_ERRORS: dict[int, str | Schema] = {
    400: "invalid_comparison_reference",
    401: "verified_feed_identity_required",
    402: {
        "model": PaymentRequiredBody,
        "description": "Active verified Feed entitlement required. The body has the terms of "
        "/api/x402/feed, where you can buy it.",
    },
    404: "comparison_reference_unavailable, not_found",
    405: "method_not_allowed",
    503: "comparison_unavailable",
}
