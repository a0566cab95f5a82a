"""`GET /api/feed/now` for Feed subscribers, and `GET /api/x402/feed`, where a wallet buys Feed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Raw
from msgspec.json import encode
from starlette.requests import Request
from starlette.responses import Response

from barograph import NOTICE
from barograph.board.board import Board
from barograph.briefs.documents import DEFAULT_BRIEFS, brief_bodies
from barograph.briefs.endpoints import BriefsReader
from barograph.entitlements.feed_access import FeedAccess, bounded
from barograph.entitlements.purchases import (
    IDEMPOTENCY_KEY,
    FeedGrants,
    Offer,
    PaidAccess,
    paid_request,
)
from barograph.entitlements.refusals import (
    ENTITLEMENT_REQUIRED,
    FEED_PATH,
    FeedEntry,
    FeedEntryClosed,
)
from barograph.entitlements.store import Entitlement, Entitlements
from barograph.errors import RecordUnavailable, UpstreamUnavailable
from barograph.feed.documents import FeedBought, FeedNow, FeedUnavailable
from barograph.history.records import CurrentStance
from barograph.kit.http import ApiRouter, private_response
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import Schema, operation
from barograph.markets.documents import market_state_document
from barograph.markets.reader import MarketReader
from barograph.payments.offers import PaymentRequiredBody, payment_response_field
from barograph.payments.records import Payment
from barograph.stances.documents import STANCE_PATHS, state_of
from barograph.stances.reader import StanceReader

FEED_NOW_PATH = "/api/feed/now"


class FeedParts(NamedTuple):
    """What `/api/feed/now` reads."""

    board: Board
    stances: StanceReader
    markets: MarketReader
    briefs: BriefsReader
    base_url: str


def feed_routes(access: FeedAccess, parts: FeedParts, seconds: float) -> ApiRouter:
    """The route of `/api/feed/now`, which times out after `seconds`."""
    router = ApiRouter(tags=["entitled"])

    @router.get(
        FEED_NOW_PATH, **operation("getFeedNow", FeedNow, responses=_FEED_ERRORS, is_coded=True)
    )
    async def feed_now(request: Request) -> Response:
        async with bounded(seconds, FeedUnavailable):
            await access.admit(request.scope)
            stances = [await parts.stances.current(kind) for kind in STANCE_PATHS]
            issued = [stance for stance in stances if stance is not None]
            body = feed_body(parts, issued, parts.board.clock())
        return private_response(200, body)

    return router


def feed_body(parts: FeedParts, stances: Sequence[CurrentStance], now: int) -> bytes:
    """The body at `now`; market and briefs are null if they are not fresh."""
    tape = [_tape_entry(stance, parts.base_url, now) for stance in stances]
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
    bodies = brief_bodies(newest.briefs[:DEFAULT_BRIEFS], parts.base_url)
    return [body.model_dump() for body in bodies]


def buying_routes(
    access: PaidAccess | None, entry: FeedEntry, entitlements: Entitlements, grants: FeedGrants
) -> ApiRouter:
    """The route of `/api/x402/feed`; without `access`, x402 is disabled."""
    router = ApiRouter(tags=["paid"])

    @router.get(
        FEED_PATH,
        **operation(
            "buyFeed", FeedBought, IDEMPOTENCY_KEY, responses=_BUYING_ERRORS, is_coded=True
        ),
    )
    async def buy_feed(request: Request) -> Response:
        if access is None or entry.requirements is None:
            raise FeedEntryClosed
        async with paid_request(request) as is_disconnected:
            offer = Offer(FEED_PATH, entry.requirements, entry.document, ENTITLEMENT_REQUIRED)
            payment = await access.sell(
                request.scope, offer, grants.grant, is_disconnected=is_disconnected
            )
            assert payment.entitlement_id is not None
            granted = await entitlements.get(payment.entitlement_id)
        body = _purchase_body(payment, granted)
        return private_response(200, body, payment_response_field(payment))

    return router


def _purchase_body(payment: Payment, granted: Entitlement) -> bytes:
    return encode(
        {
            "tier": granted.tier,
            "wallet": payment.payer,
            "starts_at": iso_timestamp(granted.starts_at),
            "ends_at": iso_timestamp(granted.ends_at),
            "transaction": payment.transaction,
            "notice": NOTICE,
        }
    )


_FEED_ERRORS: dict[int, str | Schema] = {
    401: "The token or proof cannot be verified.",
    402: {
        "model": PaymentRequiredBody,
        "description": "No active Feed entitlement. The body has the terms of /api/x402/feed, "
        "where you can buy it.",
    },
    404: "This instance doesn't sell Feed by x402.",
    405: "Only GET is supported.",
    503: "Temporarily unavailable.",
}
_BUYING_ERRORS: dict[int, str | Schema] = {
    400: "The Idempotency-Key is malformed. Nothing was charged.",
    402: {
        "model": PaymentRequiredBody,
        "description": "Payment required. Nothing was charged. The body has the terms.",
    },
    404: "This instance doesn't sell Feed by x402.",
    405: "Only GET is supported.",
    409: "This payment was already used. Do not pay again.",
    429: "Too many payment proofs.",
    503: "Send the same proof again later, unless the message says otherwise.",
}
