"""`GET /api/x402/feed`: the Feed entry resource, where a wallet buys one period of Feed."""

from typing import Any

from msgspec.json import encode
from starlette.requests import Request
from starlette.responses import Response

from barograph import NOTICE
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
from barograph.feed.documents import FeedBought
from barograph.kit.http import ApiRouter, private_response
from barograph.kit.timestamps import iso_timestamp
from barograph.kit.wire import coded_refusal
from barograph.payments.offers import PaymentRequiredBody, payment_response_field
from barograph.payments.records import Payment


def buying_routes(
    access: PaidAccess | None, entry: FeedEntry, entitlements: Entitlements, grants: FeedGrants
) -> ApiRouter:
    """The route of the entry; without a access it is closed."""
    router = ApiRouter(tags=["paid"])

    @router.get(
        FEED_PATH,
        response_model=FeedBought,
        summary="Buy one period of Feed for the paying wallet, by x402 v2",
        operation_id="buyFeed",
        responses=_ERRORS,
        openapi_extra={"parameters": [IDEMPOTENCY_KEY]},
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
        return private_response(200, _body(payment, granted), payment_response_field(payment))

    return router


def _body(payment: Payment, granted: Entitlement) -> bytes:
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


_ERRORS: dict[int | str, dict[str, Any]] = {
    400: coded_refusal("The Idempotency-Key is malformed; nothing was charged."),
    402: {"model": PaymentRequiredBody, "description": "Nothing was charged: what is asked for."},
    404: coded_refusal("Feed x402 is disabled."),
    405: coded_refusal("Only GET is supported."),
    409: coded_refusal("The payment was used before; never pay again."),
    429: coded_refusal("Too many payment proofs."),
    503: coded_refusal("Send the same proof again later, unless the message says otherwise."),
}
