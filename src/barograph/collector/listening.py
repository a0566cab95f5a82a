"""Listens to liquidations. When the list of contracts changes, old and new connections overlap.

A connection proves only now and then that it is alive. We close the old connections once they have
proved that they were alive until the new ones subscribed, so that no second is unwatched.
"""

import asyncio
from collections.abc import Callable, Sequence

from barograph.markets.exchange import Exchange, LiquidationWatcher
from barograph.markets.records import Liquidation

LASTING_POLLS = 3
"""The collector subscribes again after the listing has changed for this many polls."""

OVERLAP_POLLS = 24
"""How many polls the old and the new connections may overlap."""


class Listening:
    """Keeps one subscription open to the contracts that are listed."""

    def __init__(
        self,
        exchange: Exchange,
        watcher: LiquidationWatcher,
        listed: Callable[[], Sequence[str]],
        poll_seconds: float,
    ) -> None:
        """`listed` returns the contracts that are listed now."""
        self._exchange = exchange
        self._watcher = watcher
        self._listed = listed
        self._poll_seconds = poll_seconds

    async def run(self) -> None:
        """Listen until cancelled; raises what the subscription raises."""
        current = self._subscribe()
        try:
            while True:
                await self._until_listing_changes(current)
                current = await self._replace(current)
        finally:
            await current.close()

    def _subscribe(self) -> "_Subscription":
        return _Subscription(self._exchange, self._listed(), self._watcher)

    async def _until_listing_changes(self, current: "_Subscription") -> None:
        """Wait for a change that lasts; a contract can be missing from a single reading."""
        changed = 0
        while changed < LASTING_POLLS:
            await self._poll(current)
            changed = changed + 1 if set(self._listed()) != current.contracts else 0

    async def _replace(self, old: "_Subscription") -> "_Subscription":
        """Open a new subscription and close the old one.

        If the new one can't connect, the old one stays.
        """
        new = self._subscribe()
        closing = new
        try:
            for _ in range(OVERLAP_POLLS):
                await self._poll(old, new)
                if new.follows(old):
                    break
            if new.since is not None:
                closing = old
        finally:
            await closing.close()
        return old if closing is new else new

    async def _poll(self, *subscriptions: "_Subscription") -> None:
        """Wait a little, or until a subscription fails."""
        tasks = [each.task for each in subscriptions]
        done, _ = await asyncio.wait(
            tasks, timeout=self._poll_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            task.result()
            raise RuntimeError("the exchange stopped listening without being cancelled")


class _Subscription:
    """Passes on what one subscription reports, and remembers the time that it has covered."""

    def __init__(
        self, exchange: Exchange, contracts: Sequence[str], watcher: LiquidationWatcher
    ) -> None:
        self.contracts = set(contracts)
        self.since: int | None = None
        self.until = 0
        self._watcher = watcher
        self.task = asyncio.create_task(exchange.listen(contracts, self))

    def liquidated(self, liquidations: Sequence[Liquidation]) -> None:
        self._watcher.liquidated(liquidations)

    def watched(self, start: int, end: int) -> None:
        self.since = start if self.since is None else self.since
        self.until = max(self.until, end)
        self._watcher.watched(start, end)

    def follows(self, older: "_Subscription") -> bool:
        """Whether the older one has covered the time until this one began."""
        return self.since is not None and self.since <= older.until

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
