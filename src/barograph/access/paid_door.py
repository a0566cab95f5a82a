"""The doors at which something is paid for: one read of a stance, or a period of Feed.

What is charged, when, and what that opens is decided in `payments/`; here it becomes an answer.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from barograph.access.entitlements import Holder
from barograph.access.feed_door import FeedDoor
from barograph.access.feed_refusals import (
    PaymentPending,
    PaymentRequired,
    PaymentUnavailable,
)
from barograph.access.wallets import Wallets
from barograph.kit.http import Scope
from barograph.payments.journal import Grant, signature_digest
from barograph.payments.offers import payment_response_field
from barograph.payments.ports import (
    AlreadyUsed,
    FacilitatorUnavailable,
    InProgress,
    InvalidProof,
    PaymentRefused,
    SettlementPending,
)
from barograph.payments.proof import presented, read_proof
from barograph.payments.records import Payment, Proof, Requirements
from barograph.payments.taking import Till

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
    needed: str = "Payment required"
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

    async def read(self, scope: Scope, offer: Offer, free: Produce, paid: Produce) -> Sold:
        """One read: free of charge with Feed, otherwise for its price.

        A proof with Feed's own terms is never settled here, and nobody with Feed is charged.

        Raises:
            PrivateError: nobody is let in; the class says why.
        """
        user = await self._feed.bearer(scope)
        if user is not None and await self._feed.has_feed(user):
            return Sold(await free())
        async with _refusing(offer):
            proof = _proof(scope, offer, [offer.requirements, self._feed_terms])
            if await self._feed.has_feed(Holder("wallet", proof.payer)):
                await self._wallets.verify(proof, scope)
                return Sold(await free())
            if proof.requirements == self._feed_terms:
                raise InvalidProof("wrong_amount")
            payment, body = await self._take(proof, scope, offer, paid)
        return Sold(body, (payment_response_field(payment),))

    async def sell(self, scope: Scope, offer: Offer, grant: Grant) -> Payment:
        """Sell what `grant` grants, once: a proof that was settled here shows the same again.

        Raises:
            PrivateError: nothing was charged, or what became of it is being found out.
        """

        async def nothing() -> bytes:
            return b""

        async with _refusing(offer):
            proof = _proof(scope, offer, [offer.requirements])
            try:
                payment, _ = await self._take(proof, scope, offer, nothing, grant)
            except AlreadyUsed as error:
                # Payer and nonce are public on the chain; the signature shows whose proof it is.
                known = (error.payment.door, error.payment.signature_digest)
                if known != (offer.path, signature_digest(proof)):
                    raise
                payment = error.payment
        return payment

    async def _take(
        self, proof: Proof, scope: Scope, offer: Offer, produce: Produce, grant: Grant | None = None
    ) -> tuple[Payment, bytes]:
        async def limit() -> None:
            await self._wallets.limit(scope)

        taken = await self._till.take(proof, offer.path, produce, grant, before_verify=limit)
        return taken.payment, taken.body


def _proof(scope: Scope, offer: Offer, offers: list[Requirements]) -> Proof:
    header = presented(scope["headers"])
    if header is None:
        raise PaymentRequired(offer.document(offer.needed))
    return read_proof(header, offers)


@asynccontextmanager
async def _refusing(offer: Offer) -> AsyncIterator[None]:
    """Say what went wrong with a payment; 402 only where nothing was or will be charged."""
    try:
        yield
    except InvalidProof as error:
        raise PaymentRequired(offer.document(f"Invalid payment proof: {error}")) from error
    except PaymentRefused as error:
        raise PaymentRequired(offer.document("The payment was refused and not charged")) from error
    except AlreadyUsed as error:
        raise PaymentRequired(offer.document("This payment proof was used already")) from error
    except (InProgress, SettlementPending) as error:
        raise PaymentPending from error
    except FacilitatorUnavailable as error:
        log.warning("payment not taken", extra={"reason": str(error)})
        raise PaymentUnavailable from error
