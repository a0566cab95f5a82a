"""`GET /api/agents/material-change`, in the contract's own order.

method (405, the router's) → identity (401, 503) → entitlement (402, 404 not_found, 503) → query
(400) → the latest pair (404, 503) → compare → the latest pair again → answer. It reads only.
"""

from fastapi import APIRouter, Request
from starlette.responses import Response

from barograph.entitlements.feed_access import FeedDoor, bounded
from barograph.history.guards import Continuity
from barograph.history.latest_versions import Recorded, latest_versions
from barograph.kit.clock import Clock
from barograph.kit.database import Database
from barograph.kit.http import private_response
from barograph.kit.wire import Schema, operation, parameter
from barograph.material_change.compare import assess
from barograph.material_change.documents import Comparison, comparison_body
from barograph.material_change.query import (
    NAMES,
    ComparisonReferenceUnavailable,
    ComparisonUnavailable,
    Pair,
    Reference,
    parse,
)
from barograph.payments.offers import PaymentRequiredBody


class LatestPair:
    """The newest recorded version of a kind and the one immediately before it."""

    def __init__(self, history: Database, continuity: Continuity) -> None:
        self._history = history
        self._continuity = continuity

    async def require(self, pair: Pair, now: int) -> tuple[Recorded, Recorded]:
        """The two versions that are referred to, the earlier first.

        Raises:
            ComparisonReferenceUnavailable: they are not the newest recorded version and the one
                immediately before it, or the newest has expired or was withdrawn.
            DatabaseUnavailable: the history cannot be read, or is not the one that was led.
        """
        await self._continuity.require(pair.kind)
        latest = await latest_versions(self._history, pair.kind)
        match latest.versions:
            case (after, before) if _is(pair.after, after) and _is(pair.before, before):
                if latest.withdrawal is None and not after.is_expired(now):
                    return before, after
        raise ComparisonReferenceUnavailable


def _is(reference: Reference, recorded: Recorded) -> bool:
    return reference == (recorded.leg_id, recorded.revision, recorded.history_digest)


MATERIAL_CHANGE_PATH = "/api/agents/material-change"


def material_change_routes(
    door: FeedDoor, latest: LatestPair, clock: Clock, seconds: float
) -> APIRouter:
    """The route of the comparison, within a budget of `seconds` over everything."""
    router = APIRouter(tags=["entitled"])

    @router.get(
        MATERIAL_CHANGE_PATH,
        **operation(
            "getMaterialChange", Comparison, *_PARAMETERS, responses=_ERRORS, is_coded=True
        ),
    )
    async def material_change(request: Request) -> Response:
        async with bounded(seconds, ComparisonUnavailable):
            await door.admit(request.scope)
            pair = parse(request.scope["query_string"])
            before, after = await latest.require(pair, clock())
            assessment = assess(before.document, after.document)
            # Reads are bounded and no snapshot: what moved meanwhile must not be given away.
            await latest.require(pair, clock())
            body = comparison_body(pair, before, after, assessment, compared_at=clock())
        return private_response(200, body)

    return router


_PARAMETERS = [
    parameter("query", name, description, is_required=True, **schema)
    for name, (description, schema) in NAMES.items()
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
