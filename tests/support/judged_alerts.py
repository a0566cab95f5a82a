"""Collectors that judge alerts, one after the other, on one record."""

import asyncio
from collections.abc import Sequence
from typing import Any

from barograph.alerts.records import Alert, AlertMessage
from barograph.alerts.rules import Measure, Rule, When
from barograph.alerts.store import add_alert, messages_of
from barograph.collector.judge import Conclusion, Judge, write_conclusions
from barograph.keys.api_keys import ApiKeys
from barograph.kit.database import Database
from barograph.kit.lease import Lease
from barograph.kit.timestamps import DAY, SECOND
from barograph.settings import Settings
from barograph.venues.records import Perpetual, Perpetuals
from barograph.venues.registry import BYBIT, HYPERLIQUID
from support.evidence import AT
from support.markets import BTC, changed
from support.steps import Steps
from support.two_venues import own

SETTINGS = Settings(venues="bybit,hyperliquid")
OWNER = "name@example.com"


class Watch(Steps):
    """The record, its owner, and the collector in charge."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        super().__init__(database, runner)
        self.at, self._judges = AT, 0
        self.run(ApiKeys(database, b"p" * 32, self.clock).create(OWNER))
        self.restart()

    def restart(self) -> None:
        """Let another collector take over, as after a crash."""
        self._judges += 1
        self.clock.now = self.at + self._judges * DAY
        name = f"collector {self._judges}"
        self._lease = Lease(self.database, "c", name, clock=self.clock, milliseconds=15_000)
        assert self.run(self._lease.acquire())
        self.judge = Judge(SETTINGS)
        self.run(self.judge.load(self.database, self.at))

    def add(
        self,
        measure: Measure = "funding",
        when: When = "above",
        value: float | None = 0.05,
        venue: str = "any",
        **also: Any,
    ) -> Alert:
        given = {"symbols": ("BTC",), "every": "5m", **also}
        rule = Rule(measure, when=when, value=value, venue=venue, **given)
        alert = self.write(lambda tx: add_alert(tx, OWNER, rule, ["mail"], self.at))
        self.refresh()
        return alert

    def refresh(self) -> None:
        self.at += 3 * SECOND
        self.run(self.judge.refresh(self.database, self.at))

    def conclude(self, venue: str, contracts: Sequence[Perpetual], after: int) -> Conclusion:
        self.at += after
        if venue == HYPERLIQUID:
            contracts = [own(each) for each in contracts]
        seen = Perpetuals(self.at, venue, tuple(contracts), venue=venue)
        return self.judge.conclude(seen, self.at)

    def store(self, conclusion: Conclusion, *, is_confirmed: bool = True) -> None:
        self.run(write_conclusions(self.database, self._lease, [conclusion]))
        if is_confirmed:
            self.judge.written(conclusion)

    def see(self, *contracts: Perpetual, venue: str = BYBIT, after: int = 5 * SECOND) -> int:
        """Read a venue, and return how many messages there are."""
        self.store(self.conclude(venue, contracts, after))
        return self.sent

    def rate(self, rate: float, venue: str = BYBIT, after: int = 5 * SECOND) -> int:
        return self.see(changed(BTC, funding_rate_pct=rate), venue=venue, after=after)

    @property
    def sent(self) -> int:
        return len(self.messages)

    @property
    def messages(self) -> list[AlertMessage]:
        return self.run(messages_of(self.database, OWNER, 1_000))
