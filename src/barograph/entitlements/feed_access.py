"""The door of everything that Feed opens: who calls, and whether they may come in."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from barograph.entitlements.refusals import (
    FEED_PATH,
    FeedEntitlementRequired,
    FeedEntry,
    FeedEntryClosed,
    FeedIdentityRequired,
)
from barograph.entitlements.store import FEED, Entitlements, Holder, InvalidHolder
from barograph.errors import PrivateError
from barograph.identity.bearer import (
    IdentityProvider,
    IdentityRefused,
    IdentityUnavailable,
    bearer_token,
)
from barograph.kit.clock import Clock
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.http import Scope
from barograph.limits.rate_limits import PROOFS, RateLimiter, TooManyRequests, retry_seconds
from barograph.payments.journal import Journal
from barograph.payments.proof import parse_proof, presented, require_timely
from barograph.payments.records import (
    AlreadyUsed,
    FacilitatorUnavailable,
    InvalidProof,
    PaymentError,
    PaymentRefused,
    Proof,
    ProofVerifier,
    PurchaseOpen,
    Purchases,
    Requirements,
    in_the_way,
)
from barograph.payments.refusals import TooManyProofs


class Wallets:
    """Verifies proofs without any charge."""

    def __init__(
        self, verifier: ProofVerifier, journal: Journal, limiter: RateLimiter, clock: Clock
    ) -> None:
        self._verifier = verifier
        self._journal = journal
        self._limiter = limiter
        self._clock = clock

    async def payer(self, scope: Scope, offers: Sequence[Requirements]) -> str | None:
        """The wallet whose proof of one of these offers is presented; None without a proof.

        Raises:
            IdentityRefused: it does not verify, or was settled already.
            IdentityUnavailable: whether it does cannot be told now.
        """
        try:
            header = presented(scope["headers"])
            if header is None:
                return None
            proof = parse_proof(header, offers, self._clock())
            await self.verify(proof, scope)
        except (InvalidProof, AlreadyUsed, PaymentRefused, PurchaseOpen) as error:
            raise IdentityRefused("the payment proof does not verify") from error
        except (FacilitatorUnavailable, PaymentError, TooManyProofs) as error:
            raise IdentityUnavailable("the payment proof cannot be verified now") from error
        return proof.payer

    async def verify(self, proof: Proof, scope: Scope) -> None:
        """Return when a proof is good, was not settled and is not about to be.

        Raises:
            InvalidProof: it cannot be used now, or the facilitator says no.
            PaymentError: it is a payment, or whether it is one is being found out.
            FacilitatorUnavailable: it cannot be told.
            TooManyProofs: its address has shown too many.
        """
        await self._require_unclaimed(proof)
        try:
            require_timely(proof, self._clock())
            await self.limit(scope)
            await self._verifier.verify(proof)
        except InvalidProof:
            # It may have been charged at another door since it was looked up.
            await self._require_unclaimed(proof)
            raise

    async def purchases(self, payer: str, offer: Requirements, door: str) -> Purchases:
        """What a wallet has bought at a door so far, and whether a purchase is unfinished."""
        return await self._journal.purchases(offer.network, offer.asset, payer, door)

    async def _require_unclaimed(self, proof: Proof) -> None:
        standing = await self._journal.find(proof.key)
        if standing is not None and standing.state != "released":
            raise in_the_way(standing)

    async def limit(self, scope: Scope) -> None:
        """Count a question to the facilitator.

        Raises:
            TooManyProofs: this address has caused too many.
        """
        try:
            await self._limiter.count(PROOFS, self._limiter.caller(scope))
        except TooManyRequests as error:
            raise TooManyProofs(retry_seconds(error.usage)) from error


log = logging.getLogger(__name__)


class FeedDoor:
    """Lets in whoever has Feed, by a bearer token or by a payment proof.

    Without `wallets`, which tell whose proof it is and cannot settle one, Feed x402 is disabled.
    """

    def __init__(
        self,
        provider: IdentityProvider,
        entitlements: Entitlements,
        entry: FeedEntry,
        wallets: Wallets | None = None,
    ) -> None:
        self._provider = provider
        self._entitlements = entitlements
        self._entry = entry
        self._wallets = wallets

    async def admit(self, scope: Scope) -> Holder:
        """Identity first, then the entitlement; a bearer decides alone.

        Raises:
            FeedIdentityRequired: what was presented does not verify.
            FeedEntryClosed: no credential counts here, and Feed x402 is disabled.
            FeedEntitlementRequired: no credential, or no active Feed entitlement.
            IdentityUnavailable: the identity cannot be verified now.
            DatabaseUnavailable: the entitlement cannot be looked up now.
        """
        try:
            holder = await self.bearer(scope) or await self._wallet(scope)
        except (IdentityRefused, InvalidHolder) as error:
            raise FeedIdentityRequired from error
        if holder is None:
            raise FeedEntitlementRequired(self._entry)
        if not await self.has_feed(holder):
            await self._require_no_purchase(holder)
            raise FeedEntitlementRequired(self._entry)
        return holder

    async def bearer(self, scope: Scope) -> Holder | None:
        """The user whose token is presented; None without one.

        Raises:
            FeedIdentityRequired: it does not verify.
            IdentityUnavailable: whether it does cannot be told now.
        """
        try:
            token = bearer_token(scope["headers"])
            if token is None:
                return None
            identity = await self._provider.identify(token)
            return Holder("user", identity.user_id)
        except (IdentityRefused, InvalidHolder) as error:
            raise FeedIdentityRequired from error

    async def has_feed(self, holder: Holder) -> bool:
        """Whether a holder has an active Feed entitlement."""
        return await self._entitlements.has_active(holder, FEED)

    async def _require_no_purchase(self, holder: Holder) -> None:
        """Don't ask for payment while a purchase is unresolved."""
        terms = self._entry.requirements
        if holder.kind != "wallet" or self._wallets is None or terms is None:
            return
        if (await self._wallets.purchases(holder.id, terms, FEED_PATH)).is_open:
            raise IdentityUnavailable("a purchase of this wallet is unfinished")

    async def _wallet(self, scope: Scope) -> Holder | None:
        if self._wallets is None or self._entry.requirements is None:
            raise FeedEntryClosed
        payer = await self._wallets.payer(scope, [self._entry.requirements])
        return None if payer is None else Holder("wallet", payer)


@asynccontextmanager
async def bounded(seconds: float, unavailable: Callable[[], PrivateError]) -> AsyncIterator[None]:
    """Do something entitled within a budget; whatever cannot be asked in it makes it unavailable.

    Raises:
        PrivateError: `unavailable`, or what the work itself raised.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except PrivateError:
        raise
    except (IdentityUnavailable, DatabaseUnavailable, TimeoutError) as error:
        log.warning("entitled read unavailable", extra={"reason": type(error).__name__})
        raise unavailable() from error
    except Exception as error:
        # A failure that nobody foresaw must not look like an answer either.
        log.exception("entitled read failed")
        raise unavailable() from error
