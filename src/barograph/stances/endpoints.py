"""The direct stance reads: free with Feed, otherwise paid per read."""

from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Struct
from msgspec.json import decode, encode
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from barograph.entitlements.feed_access import FeedAccess, bounded
from barograph.entitlements.purchases import (
    IDEMPOTENCY_KEY,
    Goods,
    Offer,
    PaidAccess,
    Sold,
    paid_request,
)
from barograph.history.records import SCHEMA
from barograph.kit.clock import Clock
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.http import ApiRouter, Scope, private_response
from barograph.kit.wire import Schema, operation
from barograph.payments.checkout import IsDisconnected, never_disconnected
from barograph.payments.offers import PaymentRequired, PaymentRequiredBody, payment_required
from barograph.payments.records import Listing, Payment, Requirements
from barograph.stances.documents import (
    STANCE_PATHS,
    NoStance,
    StanceNotActive,
    StanceUnavailable,
    StanceVersion,
    stance_body,
    state_of,
)
from barograph.stances.reader import StanceReader


def stance_offer(
    kind: str, requirements: Requirements, base_url: str, terms: Callable[[], str] = str
) -> Offer:
    """The price of one read of a kind, and its 402 body, which also says these `terms`."""
    path = STANCE_PATHS[kind]
    listing = Listing(
        f"{base_url}{path}",
        f"The newest {kind} of Barograph, once. Free of charge with Feed.",
        output_example={"schema": SCHEMA, "kind": kind, "state": "active"},
    )
    price = replace(requirements, listing=listing)
    return Offer(path, price, lambda error: payment_required(price, listing.saying(terms()), error))


class StanceReads:
    """Reads a stance for a subscriber or a buyer."""

    def __init__(
        self,
        reader: StanceReader,
        clock: Clock,
        access: FeedAccess,
        paid: PaidAccess | None,
        offers: Mapping[str, Offer],
    ) -> None:
        """Take the parts; without `paid` only Feed subscribers can read."""
        self._reader = reader
        self._clock = clock
        self._access = access
        self._paid = paid
        self._offers = offers

    async def read(
        self, scope: Scope, kind: str, *, is_disconnected: IsDisconnected = never_disconnected
    ) -> Sold:
        """The newest stance, or the one that was paid for before."""
        goods = Goods(
            partial(self._for_sale, kind), partial(self._sold, kind), partial(self._body, kind)
        )
        try:
            if self._paid is None:
                await self._access.admit(scope)
                return Sold(await goods.body(None))
            return await self._paid.read(
                scope, self._offers[kind], goods, is_disconnected=is_disconnected
            )
        except PaymentRequired:
            await goods.for_sale()  # don't ask for payment for what we would not sell
            raise

    async def _for_sale(self, kind: str) -> str:
        """The sequence of the newest stance, if it is active and can be referenced."""
        try:
            stance = await self._reader.current(kind)
        except DatabaseUnavailable as error:
            raise StanceUnavailable from error
        if stance is None:
            raise NoStance
        if state_of(stance, self._clock()) != "active":
            raise StanceNotActive
        if stance.sequence is None:
            raise StanceUnavailable
        return str(stance.sequence)

    async def _sold(self, kind: str, item: str) -> bytes:
        try:
            stance = await self._reader.recorded_at(kind, int(item))
        except DatabaseUnavailable as error:
            raise StanceUnavailable from error
        now = self._clock()
        if state_of(stance, now) != "active":
            raise StanceNotActive
        return encode(stance_body(stance, now))

    async def _body(self, kind: str, bought: Payment | None) -> bytes:
        if bought is None:
            stance = await self._reader.current(kind)
        elif bought.item is None:  # sold before payments stored their item
            stance = await self._reader.issued_by(kind, bought.claimed_at)
        else:
            stance = await self._reader.recorded_at(kind, int(bought.item))
        if stance is None:
            raise NoStance
        return encode(stance_body(stance, self._clock()))


ProofUrl = Callable[[str], str]
"""Takes a history_digest; returns where the proof of that version is."""


def stance_routes(reads: StanceReads, seconds: float, proof_url: ProofUrl) -> ApiRouter:
    """The three routes. Reads time out after `seconds`; payments have longer."""
    router = ApiRouter(tags=["entitled"])
    for kind, path in STANCE_PATHS.items():
        _route(router, path, kind, reads, seconds, proof_url=proof_url)
    return router


def _route(
    router: ApiRouter,
    path: str,
    kind: str,
    reads: StanceReads,
    seconds: float,
    *,
    proof_url: ProofUrl,
) -> None:
    name = path.rpartition("/")[2].title().replace("-", "")

    @router.get(
        path,
        **operation(f"get{name}", StanceVersion, IDEMPOTENCY_KEY, responses=_ERRORS, is_coded=True),
    )
    async def read_stance(request: Request) -> Response:
        if _shows_proof(request.scope):
            async with paid_request(request) as is_disconnected:
                sold = await reads.read(request.scope, kind, is_disconnected=is_disconnected)
        else:
            async with bounded(seconds, StanceUnavailable):
                sold = await reads.read(request.scope, kind)
        digest = decode(sold.body, type=_Reference).history_digest
        link = f'<{proof_url(digest or "")}>; rel="describedby"; type="text/plain"'
        proof = [] if digest is None else [(b"link", link.encode())]
        return private_response(200, sold.body, *sold.fields, *proof)


class _Reference(Struct):
    """What a delivered stance can be referenced by."""

    history_digest: str | None


def _shows_proof(scope: Scope) -> bool:
    return any(name in {b"payment-signature", b"x-payment"} for name, _ in scope["headers"])


_ERRORS: dict[int, str | Schema] = {
    400: "The Idempotency-Key is malformed. Nothing was charged.",
    401: "The token cannot be verified.",
    402: {
        "model": PaymentRequiredBody,
        "description": "No active Feed entitlement and no payment. The body has the price of one "
        "read.",
    },
    404: "x402 is disabled, no stance was issued, or the newest one is not active.",
    405: "Only GET is supported.",
    409: "This payment was already used. Do not pay again.",
    429: "Too many payment proofs.",
    503: "Temporarily unavailable. If you sent a proof, send the same one again later, unless the "
    "message says otherwise.",
}
