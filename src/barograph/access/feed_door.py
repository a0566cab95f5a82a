"""The door of everything that Feed opens: who calls, and whether they may come in."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from barograph.access.bearer import bearer_token
from barograph.access.entitlements import FEED, Entitlements, Holder, InvalidHolder
from barograph.access.feed_entry import FeedEntry
from barograph.access.feed_refusals import (
    FeedEntitlementRequired,
    FeedEntryClosed,
    FeedIdentityRequired,
)
from barograph.access.identity import IdentityProvider, IdentityRefused, IdentityUnavailable
from barograph.errors import RequestError
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.documents import Headers

log = logging.getLogger(__name__)


class ProofReader(Protocol):
    """Tells who signed a payment proof. It has no way to settle one."""

    async def payer(self, headers: Headers) -> str | None:
        """The wallet whose proof is presented; None when there is no proof.

        Raises:
            IdentityRefused: it does not verify.
            IdentityUnavailable: whether it does cannot be told.
        """


class FeedDoor:
    """Lets in whoever has Feed, by a bearer token or by a payment proof."""

    def __init__(
        self,
        provider: IdentityProvider,
        entitlements: Entitlements,
        entry: FeedEntry,
        proofs: ProofReader | None = None,
    ) -> None:
        self._provider = provider
        self._entitlements = entitlements
        self._entry = entry
        self._proofs = proofs

    async def admit(self, headers: Headers) -> Holder:
        """Identity first, then the entitlement; a bearer decides alone.

        Raises:
            FeedIdentityRequired: what was presented does not verify.
            FeedEntryClosed: no credential counts here, and Feed x402 is disabled.
            FeedEntitlementRequired: no credential, or no active Feed entitlement.
            IdentityUnavailable: the identity cannot be verified now.
            DatabaseUnavailable: the entitlement cannot be looked up now.
        """
        try:
            holder = await self._holder(headers)
        except (IdentityRefused, InvalidHolder) as error:
            raise FeedIdentityRequired from error
        if not await self._entitlements.has_active(holder, FEED):
            raise FeedEntitlementRequired(self._entry)
        return holder

    async def _holder(self, headers: Headers) -> Holder:
        token = bearer_token(headers)
        if token is not None:
            identity = await self._provider.identify(token)
            return Holder("user", identity.user_id)
        if self._proofs is None:
            raise FeedEntryClosed
        wallet = await self._proofs.payer(headers)
        if wallet is None:
            raise FeedEntitlementRequired(self._entry)
        return Holder("wallet", wallet)


@asynccontextmanager
async def bounded(seconds: float, unavailable: Callable[[], RequestError]) -> AsyncIterator[None]:
    """Do something entitled within a budget; whatever cannot be asked in it makes it unavailable.

    Raises:
        RequestError: `unavailable`, or what the work itself raised.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except RequestError:
        raise
    except (IdentityUnavailable, DatabaseUnavailable, TimeoutError) as error:
        log.warning("entitled read unavailable", extra={"reason": type(error).__name__})
        raise unavailable() from error
    except Exception as error:
        # A failure that nobody foresaw must not look like an answer either.
        log.exception("entitled read failed")
        raise unavailable() from error
