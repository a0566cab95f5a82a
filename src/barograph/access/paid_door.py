"""The doors at which something is paid for: one read of a stance, or a period of Feed.

What is charged, when, and what that opens is decided in `payments/`; here it becomes an answer.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from starlette.requests import Request

from barograph.access.entitlements import Holder
from barograph.access.feed_door import FeedDoor, bounded
from barograph.access.feed_refusals import (
    INVALID,
    NEEDED,
    REFUSED,
    PaymentPending,
    PaymentRequired,
    PaymentUnavailable,
    PaymentUsed,
)
from barograph.access.presence import presence
from barograph.access.wallets import Wallets
from barograph.kit.http import Scope
from barograph.payments.journal import Grant, is_paid_with
from barograph.payments.offers import payment_response_field
from barograph.payments.ports import (
    AlreadyUsed,
    FacilitatorUnavailable,
    InvalidProof,
    PaymentError,
    PaymentRefused,
)
from barograph.payments.proof import agreed, presented, read_shown
from barograph.payments.records import Payment, Proof, Requirements, ShownProof
from barograph.payments.taking import IsGone, Taken, Till, stays

log = logging.getLogger(__name__)

PAYING_SECONDS = 60.0
"""The budget of a paid request: the facilitator alone may take half of it."""

Produce = Callable[[], Awaitable[bytes]]
Document = Callable[[str], bytes]
"""The payment-required object of a door, with what is wrong."""


class Offer(NamedTuple):
    """What a door asks for, and how it says so."""

    path: str
    requirements: Requirements
    document: Document
    needed: str = NEEDED
    """What it says to who shows no proof."""


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
        self,
        scope: Scope,
        offer: Offer,
        free: Produce,
        paid: Produce,
        *,
        is_gone: IsGone = stays,
    ) -> Sold:
        """One read: free of charge with Feed, otherwise for its price.

        A proof with Feed's own terms is never settled here, and nobody with Feed is charged. Who
        was charged before gets what is there, as with Feed: `paid` may refuse what is not worth it.

        Raises:
            PrivateError: nobody is let in; the class says why.
        """
        user = await self._feed.bearer(scope)
        if user is not None and await self._feed.has_feed(user):
            return Sold(await free())
        async with _refusing(offer):
            shown = _shown(scope, offer)
            taken = await self._till.resume(shown, offer.path, free, is_gone=is_gone)
            if taken is None:
                proof = agreed(shown, [offer.requirements, self._feed_terms])
                if await self._feed.has_feed(Holder("wallet", proof.payer)):
                    await self._wallets.verify(proof, scope)
                    return Sold(await free())
                if proof.requirements == self._feed_terms:
                    raise InvalidProof("wrong_amount")
                taken = await self._take(proof, scope, offer, paid, is_gone=is_gone)
        return Sold(taken.body, (payment_response_field(taken.payment),))

    async def sell(
        self, scope: Scope, offer: Offer, grant: Grant, *, is_gone: IsGone = stays
    ) -> Payment:
        """Sell what `grant` grants, once: a proof that was settled here shows the same again.

        Raises:
            PrivateError: nothing was charged, or what became of it is being found out.
        """

        async def nothing() -> bytes:
            return b""

        async with _refusing(offer):
            shown = _shown(scope, offer)
            try:
                taken = await self._till.resume(shown, offer.path, nothing, is_gone=is_gone)
            except AlreadyUsed as error:
                # Payer and nonce are public on the chain; the signature shows whose proof it is.
                if not is_paid_with(error.payment, shown, offer.path):
                    raise
                return error.payment
            if taken is None:
                proof = agreed(shown, [offer.requirements])
                if await self._wallets.is_buying(proof.payer, offer.requirements, offer.path):
                    # Another proof of the same wallet: it would pay for the same once more.
                    raise PaymentPending
                taken = await self._take(proof, scope, offer, nothing, grant, is_gone=is_gone)
        return taken.payment

    async def _take(
        self,
        proof: Proof,
        scope: Scope,
        offer: Offer,
        produce: Produce,
        grant: Grant | None = None,
        *,
        is_gone: IsGone,
    ) -> Taken[bytes]:
        async def limit() -> None:
            await self._wallets.limit(scope)

        return await self._till.take(
            proof, offer.path, produce, grant, before_verify=limit, is_gone=is_gone
        )


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


def _shown(scope: Scope, offer: Offer) -> ShownProof:
    header = presented(scope["headers"])
    if header is None:
        raise PaymentRequired(offer.document(offer.needed))
    return read_shown(header)


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
    except PaymentError as error:
        raise PaymentPending from error
    except FacilitatorUnavailable as error:
        log.warning("payment not taken", extra={"reason": str(error)})
        raise PaymentUnavailable from error
