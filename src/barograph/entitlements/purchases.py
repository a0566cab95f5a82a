"""Sells one read of a stance, or a period of Feed.

`payments/checkout.py` charges; this module decides who pays, and turns payment errors into HTTP
errors.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace
from starlette.requests import Request

from barograph.entitlements.feed_access import FeedAccess, WalletIdentity, bounded
from barograph.entitlements.refusals import FEED_PATH, feed_listing
from barograph.entitlements.store import FEED, Entitlements, Holder
from barograph.kit.clock import Clock
from barograph.kit.database import Transaction
from barograph.kit.http import Scope, watch_disconnect
from barograph.kit.timestamps import DAY, SECOND
from barograph.kit.wire import parameter
from barograph.payments.checkout import Cashier, IsDisconnected, Verified
from barograph.payments.journal import Grant, is_by_payer
from barograph.payments.offers import (
    INVALID,
    NEEDED,
    REFUSED,
    PaymentCharged,
    PaymentPending,
    PaymentRequired,
    PaymentUnavailable,
    PaymentUsed,
    PurchasePending,
    payment_response_field,
)
from barograph.payments.proof import (
    decode_proof,
    idempotency_key,
    match_offer,
    proof_header,
    require_key,
)
from barograph.payments.records import (
    USDC_VERSION,
    AlreadyUsed,
    DecodedProof,
    FacilitatorUnavailable,
    InvalidProof,
    Order,
    Payment,
    PaymentError,
    PaymentRefused,
    Proof,
    PurchaseOpen,
    Requirements,
    usdc_name,
)
from barograph.settings import USDC_DECIMALS, Settings

log = logging.getLogger(__name__)

SOURCE = "x402"

PAYING_SECONDS = 60.0
"""The time limit of a paid request; the facilitator alone may take half of it."""

IDEMPOTENCY_KEY = parameter(
    "header",
    "Idempotency-Key",
    "A random string that you choose to identify this paid request: 16 to 128 letters, digits, - "
    "and _. To get the same response again, send the same key. Not needed with Feed.",
)
"""The OpenAPI description of the header."""

PROOF_SECONDS = 60
"""How long a payment proof is valid. The facilitator must settle it within this time."""

_EXACT = Context(prec=100, traps=[Inexact, InvalidOperation])


def feed_requirements(settings: Settings) -> Requirements:
    """The price of one period of Feed."""
    price = _requirements(settings, settings.feed_price_usd)
    return replace(price, listing=feed_listing(settings.base_url))


def stance_requirements(settings: Settings) -> Requirements:
    """The price of one read of a stance of any kind."""
    return _requirements(settings, settings.stance_price_usd)


def _requirements(settings: Settings, price: Decimal) -> Requirements:
    units = _EXACT.multiply(price, Decimal(10) ** USDC_DECIMALS)
    return Requirements(
        network=settings.x402_network,
        asset=settings.x402_asset.lower(),
        pay_to=settings.x402_pay_to.lower(),
        amount=int(_EXACT.to_integral_exact(units)),
        max_timeout_seconds=PROOF_SECONDS,
        name=usdc_name(settings.x402_network),
        version=USDC_VERSION,
    )


class Offer(NamedTuple):
    """What a paid endpoint sells."""

    path: str
    requirements: Requirements
    document: Callable[[str], bytes]
    """The payment-required object, with an error message."""

    needed: str = NEEDED
    """The error message for a request without a proof."""


class Goods(NamedTuple):
    """How a paid endpoint produces its body."""

    for_sale: Callable[[], Awaitable[str]]
    """Finds the item that a payer would buy now; raises an error if it must not be sold."""

    sold: Callable[[str], Awaitable[bytes]]
    """The body of an item that is about to be charged; raises an error if it ended meanwhile."""

    body: Callable[[Payment | None], Awaitable[bytes]]
    """The body of what a payment bought, or of the newest item for None, in any state."""


class Sold(NamedTuple):
    """A body, and the header fields of its receipt."""

    body: bytes
    fields: tuple[tuple[bytes, bytes], ...] = ()


class PaidAccess:
    """Admits callers that have Feed or pay."""

    def __init__(
        self,
        feed: FeedAccess,
        wallets: WalletIdentity,
        cashier: Cashier,
        feed_terms: Requirements,
    ) -> None:
        self._feed = feed
        self._wallets = wallets
        self._cashier = cashier
        self._feed_terms = feed_terms

    async def read(
        self, scope: Scope, offer: Offer, goods: Goods, is_disconnected: IsDisconnected
    ) -> Sold:
        """One read: free with Feed, otherwise for its price.

        This never settles a proof with Feed's own terms, and never charges a holder of Feed. A
        payer who was charged before gets what they bought then. We look up whether a wallet has
        Feed only after its proof is verified, so that a forged proof reveals nothing.

        Raises:
            PrivateError: the caller is refused.
        """
        user = await self._feed.bearer(scope)
        if user is not None and await self._feed.has_feed(user):
            return Sold(await goods.body(None))
        async with _payment_errors(offer):
            decoded, key = _decoded(scope, offer)
            delivery = await self._cashier.redeliver(
                decoded, offer.path, goods.body, is_disconnected=is_disconnected
            )
            if delivery is None:
                require_key(key)
                proof = match_offer(decoded, [offer.requirements, self._feed_terms])
                verified = await self._verify(proof, scope)
                if await self._feed.has_feed(Holder("wallet", proof.payer)):
                    return Sold(await goods.body(None))
                if proof.requirements == self._feed_terms:
                    raise InvalidProof("wrong_amount")
                item = await goods.for_sale()
                delivery = await self._cashier.charge(
                    verified,
                    offer.path,
                    partial(goods.sold, item),
                    order=Order(item, key),
                    is_disconnected=is_disconnected,
                )
        return Sold(delivery.body, (payment_response_field(delivery.payment),))

    async def sell(
        self, scope: Scope, offer: Offer, grant: Grant, is_disconnected: IsDisconnected
    ) -> Payment:
        """Sell what `grant` grants, once. A repeat with its idempotency key shows that purchase.

        Raises:
            PrivateError: nothing was charged, or we don't know yet whether it was.
        """

        async def nothing(_: Payment | None = None) -> bytes:
            return b""

        async with _payment_errors(offer):
            decoded, key = _decoded(scope, offer)
            delivery = await self._cashier.redeliver(
                decoded,
                offer.path,
                nothing,
                # The whole proof is public on the chain; only the key identifies the payer.
                may_repeat=lambda payment: is_by_payer(payment, key),
                is_disconnected=is_disconnected,
            )
            if delivery is None:
                require_key(key)
                proof = match_offer(decoded, [offer.requirements])
                before = await self._wallets.purchases(proof.payer, proof.requirements, offer.path)
                verified = await self._verify(proof, scope)
                order = Order(key=key, settled_before=before.settled)
                delivery = await self._cashier.charge(
                    verified, offer.path, nothing, grant, order, is_disconnected=is_disconnected
                )
        return delivery.payment

    async def _verify(self, proof: Proof, scope: Scope) -> Verified:
        return await self._cashier.verify(proof, partial(self._wallets.limit, scope))


class FeedGrants:
    """Grants Feed to the wallets that bought it."""

    def __init__(self, entitlements: Entitlements, clock: Clock, period_days: int) -> None:
        self._entitlements = entitlements
        self._clock = clock
        self._period_ms = period_days * DAY

    def grant_for(self, payment: Payment) -> Grant | None:
        """The grant of a payment; None if it did not buy Feed."""
        return self.grant if payment.path == FEED_PATH else None

    async def grant(self, tx: Transaction, payment: Payment) -> str:
        """Add a period to the paying wallet's Feed; returns the id of its entitlement."""
        entitlement = await self._entitlements.grant_period(
            tx,
            Holder("wallet", payment.payer),
            FEED,
            period_ms=self._period_ms,
            source=SOURCE,
            by=SOURCE,
            why=f"payment {payment.id}",
            now=self._clock(),
        )
        return entitlement.id


@asynccontextmanager
async def paid_request(request: Request) -> AsyncIterator[IsDisconnected]:
    """Limit the time of a request that may pay, and watch for a client disconnect.

    After a timeout, or without the database, we don't know whether it was charged, so the response
    must not ask for payment.

    Raises:
        PrivateError: `PaymentPending`, or what the work itself raised.
    """
    async with (
        bounded(PAYING_SECONDS, PaymentPending),
        watch_disconnect(request.receive) as is_disconnected,
    ):
        yield is_disconnected


def _decoded(scope: Scope, offer: Offer) -> tuple[DecodedProof, str | None]:
    """The proof of a request, and its idempotency key."""
    header = proof_header(scope["headers"])
    if header is None:
        raise PaymentRequired(offer.document(offer.needed))
    decoded = decode_proof(header)
    return decoded, idempotency_key(scope["headers"], decoded)


@asynccontextmanager
async def _payment_errors(offer: Offer) -> AsyncIterator[None]:
    """Turn payment errors into HTTP errors: 402 only where nothing was or will be charged."""
    try:
        yield
    except InvalidProof as error:
        raise PaymentRequired(offer.document(INVALID.format(error))) from error
    except PaymentRefused as error:
        receipt = payment_response_field(error.payment)
        raise PaymentRequired(offer.document(REFUSED), receipt) from error
    except AlreadyUsed as error:
        raise PaymentUsed from error
    except PurchaseOpen as error:
        refused = error.payment
        seconds_left = -((refused.updated_at - refused.valid_before) // SECOND)
        raise PurchasePending(seconds_left) from error
    except PaymentError as error:
        is_charged = error.payment.state == "settled"
        raise PaymentCharged if is_charged else PaymentPending from error
    except FacilitatorUnavailable as error:
        log.warning("payment not taken", extra={"reason": str(error)})
        raise PaymentUnavailable from error
