"""Admits callers with Feed: by a bearer token, or by a payment proof of a wallet."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from barograph.entitlements.refusals import (
    FEED_PATH,
    FeedEntitlementRequired,
    FeedEntry,
    FeedEntryClosed,
    FeedIdentityRequired,
)
from barograph.entitlements.store import FEED, Entitlements, Holder, InvalidHolder
from barograph.errors import PrivateError
from barograph.identity.provider import (
    IdentityProvider,
    IdentityRefused,
    IdentityUnavailable,
    bearer_token,
)
from barograph.kit.clock import Clock
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.http import Scope
from barograph.limits.rate_limits import PROOFS, RateLimiter, TooManyRequests, retry_seconds
from barograph.payments.checkout import ProofChecker
from barograph.payments.journal import AlreadyClaimed, Journal
from barograph.payments.offers import TooManyProofs
from barograph.payments.proof import parse_proof, proof_header
from barograph.payments.records import (
    FacilitatorUnavailable,
    InvalidProof,
    ProofVerifier,
    Purchases,
    Requirements,
)

log = logging.getLogger(__name__)


class WalletIdentity:
    """Identifies wallets by their payment proofs; never charges one."""

    def __init__(
        self, verifier: ProofVerifier, journal: Journal, limiter: RateLimiter, clock: Clock
    ) -> None:
        self._checker = ProofChecker(verifier, journal, clock)
        self._journal = journal
        self._limiter = limiter
        self._clock = clock

    async def identify(self, scope: Scope, offer: Requirements) -> str | None:
        """The wallet that signed the request's proof of this offer; None without a proof.

        Raises:
            IdentityRefused: the proof does not verify, or was settled already.
            IdentityUnavailable: the proof can't be verified now.
        """
        try:
            header = proof_header(scope["headers"])
            if header is None:
                return None
            proof = parse_proof(header, [offer], self._clock())
            await self._checker.require_unclaimed(proof)
            await self._checker.verify(proof, partial(self.limit, scope))
        except InvalidProof as error:
            raise IdentityRefused("the payment proof does not verify") from error
        except AlreadyClaimed as error:
            if error.payment.state in {"settled", "failed"}:
                raise IdentityRefused("the payment proof was used before") from error
            raise IdentityUnavailable("the payment proof is in use") from error
        except (FacilitatorUnavailable, TooManyProofs) as error:
            raise IdentityUnavailable("the payment proof cannot be verified now") from error
        return proof.payer

    async def purchases(self, payer: str, offer: Requirements, path: str) -> Purchases:
        """What a wallet has bought at an endpoint so far, and whether a purchase is unfinished."""
        return await self._journal.purchases(offer.network, offer.asset, payer, path)

    async def limit(self, scope: Scope) -> None:
        """Count a proof that we are about to send to the facilitator.

        Raises:
            TooManyProofs: the caller has sent too many.
        """
        try:
            await self._limiter.count(PROOFS, self._limiter.caller(scope))
        except TooManyRequests as error:
            raise TooManyProofs(retry_seconds(error.usage)) from error


class FeedAccess:
    """Admits callers that have Feed. Without `wallets`, Feed x402 is disabled."""

    def __init__(
        self,
        provider: IdentityProvider,
        entitlements: Entitlements,
        entry: FeedEntry,
        wallets: WalletIdentity | None = None,
    ) -> None:
        self._provider = provider
        self._entitlements = entitlements
        self._entry = entry
        self._wallets = wallets

    async def admit(self, scope: Scope) -> Holder:
        """Check the identity, then the entitlement; with a bearer token a proof is ignored.

        Raises:
            FeedIdentityRequired: the token or proof does not verify.
            FeedEntryClosed: there is no token, and Feed x402 is disabled.
            FeedEntitlementRequired: there is no credential, or no active Feed entitlement.
            IdentityUnavailable: the identity can't be verified now.
            DatabaseUnavailable: the entitlement can't be looked up now.
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
        """The user of the request's bearer token; None without one.

        Raises:
            FeedIdentityRequired: the token does not verify.
            IdentityUnavailable: the token can't be verified now.
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
        payer = await self._wallets.identify(scope, self._entry.requirements)
        return None if payer is None else Holder("wallet", payer)


@asynccontextmanager
async def bounded(seconds: float, unavailable: Callable[[], PrivateError]) -> AsyncIterator[None]:
    """Limit the time of an entitled read, and turn every outage into `unavailable`.

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
        # An unexpected failure must not look like an answer either.
        log.exception("entitled read failed")
        raise unavailable() from error
