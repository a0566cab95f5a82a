"""`GET /api/feed/now`: the tape of stances, the market and the newest briefs."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Raw
from msgspec.json import encode
from starlette.requests import Request
from starlette.responses import Response

from barograph import NOTICE
from barograph.board.board import Board
from barograph.briefs.documents import DEFAULT, brief_bodies
from barograph.briefs.reader import BriefsReader
from barograph.entitlements.feed_access import FeedAccess, bounded
from barograph.errors import RecordUnavailable, UpstreamUnavailable
from barograph.feed.documents import FeedNow, FeedUnavailable
from barograph.history.records import CurrentStance
from barograph.kit.http import ApiRouter, private_response
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import coded_refusal
from barograph.markets.documents import market_state_document
from barograph.markets.reader import MarketReader
from barograph.payments.offers import PaymentRequiredBody
from barograph.stances.documents import STANCE_PATHS, state_of
from barograph.stances.reader import StanceReader

FEED_NOW_PATH = "/api/feed/now"


class FeedParts(NamedTuple):
    """What the feed shows."""

    board: Board
    stances: StanceReader
    markets: MarketReader
    briefs: BriefsReader
    base_url: str


def feed_routes(access: FeedAccess, parts: FeedParts, seconds: float) -> ApiRouter:
    """The route of the feed, within a budget of `seconds`."""
    router = ApiRouter(tags=["entitled"])

    @router.get(
        FEED_NOW_PATH,
        response_model=FeedNow,
        summary="The stance tape, the market state and the newest briefs, for Feed subscribers",
        operation_id="getFeedNow",
        responses=_ERRORS,
    )
    async def feed_now(request: Request) -> Response:
        async with bounded(seconds, FeedUnavailable):
            await access.admit(request.scope)
            stances = [await parts.stances.current(kind) for kind in STANCE_PATHS]
            issued = [each for each in stances if each is not None]
            body = feed_body(parts, issued, parts.board.clock())
        return private_response(200, body)

    return router


def feed_body(parts: FeedParts, stances: Sequence[CurrentStance], now: int) -> bytes:
    """The body at `now`; market and briefs are null while there is nothing fresh to show."""
    tape = [_tape_entry(each, parts.base_url, now) for each in stances]
    return encode(
        {
            "as_of": iso_timestamp(now),
            "tape": {"stance_tape": tape},
            "market_state": _market_state(parts, now),
            "briefs": _briefs(parts, now),
            "notice": NOTICE,
        }
    )


def _tape_entry(stance: CurrentStance, base_url: str, now: int) -> dict[str, Any]:
    return {
        "kind": stance.kind,
        "href": f"{base_url}{STANCE_PATHS[stance.kind]}",
        "leg_id": stance.leg_id,
        "revision": stance.revision,
        "history_digest": stance.history_digest,
        "issued_at": iso_timestamp(stance.issued_at),
        "history_durable": stance.history_durable,
        "state": state_of(stance, now),
    }


def _market_state(parts: FeedParts, now: int) -> Raw | None:
    try:
        return Raw(market_state_document(parts.markets.view(parts.board, now)).body)
    except UpstreamUnavailable:
        return None


def _briefs(parts: FeedParts, now: int) -> list[dict[str, Any]] | None:
    try:
        newest = parts.briefs.newest(parts.board, now)
    except RecordUnavailable:
        return None
    bodies = brief_bodies(newest.briefs[:DEFAULT], parts.base_url)
    return [body.model_dump() for body in bodies]


_ERRORS: dict[int | str, dict[str, Any]] = {
    401: coded_refusal("The identity cannot be verified."),
    402: {
        "model": PaymentRequiredBody,
        "description": "No active Feed entitlement; the terms of /api/x402/feed, where it is had.",
    },
    404: coded_refusal("Feed x402 is disabled."),
    405: coded_refusal("Only GET is supported."),
    503: coded_refusal("It cannot be told at the moment."),
}
