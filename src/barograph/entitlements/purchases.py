"""The doors at which something is paid for: one read of a stance, or a period of Feed.

What is charged, when, and what that opens is decided in `payments/`; here it becomes an answer.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

from starlette.requests import Request

from barograph.entitlements.feed_access import FeedDoor, Wallets, bounded
from barograph.entitlements.refusals import FEED_PATH
from barograph.entitlements.store import FEED, Entitlements, Holder
from barograph.kit.clock import Clock
from barograph.kit.database import Transaction
from barograph.kit.disconnects import presence
from barograph.kit.http import Scope
from barograph.kit.timestamps import DAY, SECOND
from barograph.kit.wire import parameter
from barograph.payments.checkout import IsGone, Till, Verified, stays
from barograph.payments.journal import Grant, is_paid_with
from barograph.payments.offers import payment_response_field
from barograph.payments.proof import agreed, idempotency_key, presented, read_shown, require_key
from barograph.payments.records import (
    AlreadyUsed,
    FacilitatorUnavailable,
    InvalidKey,
    InvalidProof,
    Order,
    Payment,
    PaymentError,
    PaymentRefused,
    Proof,
    PurchaseOpen,
    Requirements,
    ShownProof,
)
from barograph.payments.refusals import (
    INVALID,
    NEEDED,
    REFUSED,
    InvalidIdempotencyKey,
    PaymentPending,
    PaymentRequired,
    PaymentUnavailable,
    PaymentUsed,
    PurchasePending,
)

SOURCE = "x402"


class FeedGrants:
    """Grants Feed to wallets, and tells which payments are for it."""

    def __init__(self, entitlements: Entitlements, clock: Clock, *, period_days: int) -> None:
        self._entitlements = entitlements
        self._clock = clock
        self._period_ms = period_days * DAY

    def grant_for(self, payment: Payment) -> Grant | None:
        """What the door of a payment grants, if it grants anything."""
        return self.grant if payment.door == FEED_PATH else None

    async def grant(self, tx: Transaction, payment: Payment) -> str:
        """Add a period to what the paying wallet has; the id of its entitlement."""
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


log = logging.getLogger(__name__)

PAYING_SECONDS = 60.0
"""The budget of a paid request: the facilitator alone may take half of it."""

Document = Callable[[str], bytes]
"""The payment-required object of a door, with what is wrong."""


IDEMPOTENCY_KEY = parameter(
    "header",
    "Idempotency-Key",
    "A random string that you choose to identify this paid request: 16 to 128 letters, digits, - "
    "and _. To get the same response again, send the same key. Not needed with Feed.",
)


class Offer(NamedTuple):
    """What a door asks for, and how it says so."""

    path: str
    requirements: Requirements
    document: Document
    needed: str = NEEDED
    """What it says to who shows no proof."""


class Goods(NamedTuple):
    """What a paid endpoint delivers."""

    for_sale: Callable[[], Awaitable[str]]
    """Finds the item that a payer would buy now; raises an error if it must not be sold."""

    sold: Callable[[str], Awaitable[bytes]]
    """The body of an item that is about to be charged; raises an error if it ended meanwhile."""

    body: Callable[[Payment | None], Awaitable[bytes]]
    """The body of what a payment bought, or of the newest item for None, whatever its state."""


class Sold(NamedTuple):
    """What goes out, and the header fields of its receipt."""

    body: bytes
    fields: tuple[tuple[bytes, bytes], ...] = ()


class PaidDoor:
    """Takes payments from whoever has no Feed."""

    def __init__(
        self, feed: FeedDoor, wallets: Wallets, till: Till, feed_requirements: Requirements
    ) -> None:
        self._feed = feed
        self._wallets = wallets
        self._till = till
        self._feed_terms = feed_requirements

    async def read(
        self, scope: Scope, offer: Offer, goods: Goods, *, is_gone: IsGone = stays
    ) -> Sold:
        """One read: free of charge with Feed, otherwise for its price.

        A proof with Feed's own terms is never settled here, and nobody with Feed is charged. A
        payer who was charged before gets what they bought then. We look up whether a wallet has
        Feed only after its proof is verified, so that a forged proof reveals nothing.

        Raises:
            PrivateError: nobody is let in; the class says why.
        """
        user = await self._feed.bearer(scope)
        if user is not None and await self._feed.has_feed(user):
            return Sold(await goods.body(None))
        async with _refusing(offer):
            shown, key = _shown(scope, offer)
            taken = await self._till.resume(shown, offer.path, goods.body, key, is_gone=is_gone)
            if taken is None:
                require_key(key)
                proof = agreed(shown, [offer.requirements, self._feed_terms])
                verified = await self._verify(proof, scope)
                if await self._feed.has_feed(Holder("wallet", proof.payer)):
                    return Sold(await goods.body(None))
                if proof.requirements == self._feed_terms:
                    raise InvalidProof("wrong_amount")
                item = await goods.for_sale()
                produce, order = partial(goods.sold, item), Order(item, key)
                taken = await self._till.take(
                    verified, offer.path, produce, order=order, is_gone=is_gone
                )
        return Sold(taken.body, (payment_response_field(taken.payment),))

    async def sell(
        self, scope: Scope, offer: Offer, grant: Grant, *, is_gone: IsGone = stays
    ) -> Payment:
        """Sell what `grant` grants, once. A repeat with its idempotency key shows that purchase.

        Raises:
            PrivateError: nothing was charged, or what became of it is being found out.
        """

        async def nothing(_: Payment | None = None) -> bytes:
            return b""

        async with _refusing(offer):
            shown, key = _shown(scope, offer)
            try:
                taken = await self._till.resume(shown, offer.path, nothing, key, is_gone=is_gone)
            except AlreadyUsed as error:
                # The whole proof is public on the chain; only the key identifies the payer.
                paid = error.payment
                if paid.key_digest is None or not is_paid_with(paid, shown, offer.path, key):
                    raise
                return paid
            if taken is None:
                require_key(key)
                proof = agreed(shown, [offer.requirements])
                before = await self._wallets.purchases(proof.payer, proof.requirements, offer.path)
                verified = await self._verify(proof, scope)
                order = Order(key=key, settled_before=before.settled)
                taken = await self._till.take(
                    verified, offer.path, nothing, grant, order, is_gone=is_gone
                )
        return taken.payment

    async def _verify(self, proof: Proof, scope: Scope) -> Verified:
        async def limit() -> None:
            await self._wallets.limit(scope)

        return await self._till.verify(proof, limit)


@asynccontextmanager
async def paying(request: Request) -> AsyncIterator[IsGone]:
    """Serve a request that may pay; what it yields tells whether its caller has left.

    Past the budget, or without the database, nobody knows whether it was charged: the answer must
    not invite to pay.

    Raises:
        PrivateError: `PaymentPending`, or what the work itself raised.
    """
    async with bounded(PAYING_SECONDS, PaymentPending), presence(request.receive) as is_gone:
        yield is_gone


def _shown(scope: Scope, offer: Offer) -> tuple[ShownProof, str | None]:
    """The proof of a request, and its idempotency key."""
    header = presented(scope["headers"])
    if header is None:
        raise PaymentRequired(offer.document(offer.needed))
    shown = read_shown(header)
    return shown, idempotency_key(scope["headers"], shown)


@asynccontextmanager
async def _refusing(offer: Offer) -> AsyncIterator[None]:
    """Say what went wrong with a payment; 402 only where nothing was or will be charged."""
    try:
        yield
    except InvalidProof as error:
        raise PaymentRequired(offer.document(INVALID.format(error))) from error
    except PaymentRefused as error:
        raise PaymentRequired(offer.document(REFUSED)) from error
    except AlreadyUsed as error:
        raise PaymentUsed from error
    except InvalidKey as error:
        raise InvalidIdempotencyKey from error
    except PurchaseOpen as error:
        refused = error.payment
        seconds_left = -((refused.updated_at - refused.valid_before) // SECOND)
        raise PurchasePending(seconds_left) from error
    except PaymentError as error:
        raise PaymentPending from error
    except FacilitatorUnavailable as error:
        log.warning("payment not taken", extra={"reason": str(error)})
        raise PaymentUnavailable from error
