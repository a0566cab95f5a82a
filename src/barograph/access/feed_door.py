"""The door of everything that Feed opens: who calls, and whether they may come in."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from barograph.access.bearer import bearer_token
from barograph.access.entitlements import FEED, Entitlements, Holder, InvalidHolder
from barograph.access.feed_entry import FEED_PATH, FeedEntry
from barograph.access.feed_refusals import (
    FeedEntitlementRequired,
    FeedEntryClosed,
    FeedIdentityRequired,
)
from barograph.access.identity import IdentityProvider, IdentityRefused, IdentityUnavailable
from barograph.access.wallets import Wallets
from barograph.errors import PrivateError
from barograph.kit.database import DatabaseUnavailable
from barograph.kit.http import Scope

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
