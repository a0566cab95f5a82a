"""Judges the rules by each reading: which of them fire, and what to remember until the next.

Rules that look at the same value share a watch.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import NamedTuple

from barograph.alerts.crossings import bounds, next_state, size
from barograph.alerts.records import Alert, Fired, NewMessage, StateRow
from barograph.alerts.rules import ALL, ANY, FROM_EVENTS, GAP, PERIODS, Rule
from barograph.alerts.store import active_alerts, rules_version, stored_states
from barograph.alerts.values import Key, LatestValues, Value, key_of
from barograph.board.board import latest_snapshot
from barograph.kit.database import Database, Transaction
from barograph.kit.timestamps import SECOND
from barograph.markets.disputes import DISPUTES
from barograph.markets.judge import MarketJudge
from barograph.venues.records import Perpetuals

log = logging.getLogger(__name__)

REFRESH_EVERY = 2 * SECOND
"""How often the judge asks whether any rule changed."""

TOTALS_EVERY = 4 * SECOND
"""A little less than the usual time between two readings of a venue."""


class AlertConclusion(NamedTuple):
    """What one reading adds."""

    now: int
    states: list[StateRow]
    messages: list[NewMessage]


class _Entry:
    """One rule at a watch."""

    __slots__ = ("alert", "back", "is_met", "on")

    def __init__(self, alert: Alert, is_met: bool | None) -> None:
        self.alert, self.is_met = alert, is_met
        self.on, self.back = bounds(alert.rule)


class _Watch:
    """A value, and the rules that look at it."""

    def __init__(self) -> None:
        self.entries: dict[str, _Entry] = {}
        """By the id of the alert."""

        self.judged = self.seen = self.logged_version = 0
        self.members: Collection[str] | None = None

    def take(self, found: Value, now: int) -> None:
        """Let all rules adopt the value silently if it came back, or now consists of others."""
        is_back = found.since > self.seen or (self.seen and now - self.seen > GAP)
        if is_back or (self.members is not None and self.members != found.members):
            for entry in self.entries.values():
                entry.is_met = None
        self.seen, self.members = now, found.members


class AlertJudge:
    """Judges all rules about values by the readings of all venues."""

    def __init__(self, markets: Mapping[str, MarketJudge]) -> None:
        self._markets = markets
        self._values = LatestValues(markets)
        self._version: tuple[int, ...] | None = None
        self._asked_at = 0
        self._alerts: dict[str, Alert] = {}
        self._watches: dict[str, dict[Key, _Watch]] = {venue: {} for venue in (*markets, ALL)}
        self._unconfirmed: list[StateRow] = []
        """What may not be stored: the connection can fail after the database has committed."""

        self._symbols: AbstractSet[str] = frozenset()
        self._fired: dict[tuple[str, str], int] = {}
        """When each rule last sent a message about each coin."""

    async def load(self, tx: Transaction) -> None:
        """Load the rules, and on which side of their limits they saw each value."""
        states = await stored_states(tx)
        await self._reload(tx, {row[:3]: bool(row.is_met) for row in states})
        disputes = await latest_snapshot(tx, DISPUTES)
        disputed = () if disputes is None else {each.venue for each in disputes.disputes}
        for venue, market in self._markets.items():
            if market.reading is not None and venue not in disputed:
                self._values.take(market.reading, self._symbols, since=0)
        for row in states:
            if row.fired_at is not None:
                place = row.alert, row.symbol
                self._fired[place] = max(row.fired_at, self._fired.get(place, 0))

    async def refresh(self, database: Database, now: int) -> None:
        """Read the rules again if any changed, and what a failed write stored all the same."""
        if self._unconfirmed:
            stored = {*await stored_states(database)}
            self.written([row for row in self._unconfirmed if row in stored])
        if 0 <= now - self._asked_at < REFRESH_EVERY:
            return
        if await rules_version(database) != self._version:
            await database.read(lambda tx: self._reload(tx, {}))
        self._asked_at = now

    async def _reload(self, tx: Transaction, states: Mapping[tuple[str, str, str], bool]) -> None:
        self._version = await rules_version(tx)
        active = await active_alerts(tx)
        alerts = {each.id: each for each in active if each.rule.measure not in FROM_EVENTS}
        for alert in [each for each in self._alerts.values() if alerts.get(each.id) != each]:
            del self._alerts[alert.id]
            for key in self._keys(alert.rule):
                watch = self._watches[key.venue][key]
                del watch.entries[alert.id]
                if not watch.entries:
                    del self._watches[key.venue][key]
                self._fired.pop((alert.id, key.symbol), None)
        for alert in [each for each in alerts.values() if each.id not in self._alerts]:
            self._alerts[alert.id] = alert
            for key in self._keys(alert.rule):
                watch = self._watches[key.venue].setdefault(key, _Watch())
                is_met = states.get((alert.id, key.symbol, key.venue))
                watch.entries[alert.id] = _Entry(alert, is_met)
        self._symbols = {key.symbol for watches in self._watches.values() for key in watches}

    def _keys(self, rule: Rule) -> list[Key]:
        """The values that a rule looks at, at venues that are read."""
        venues = self._markets if rule.venue == ANY else {rule.venue} & self._watches.keys()
        return [key_of(rule, symbol, venue) for symbol in rule.symbols or ("",) for venue in venues]

    def conclude(self, reading: Perpetuals, now: int) -> AlertConclusion | None:
        """Judge all rules by a live reading as it is published; None if nothing changes."""
        if not self._alerts:
            return None
        at, conclusion = reading.as_of, AlertConclusion(now, [], [])
        self._values.take(reading, self._symbols, since=now)
        if self._unconfirmed:  # which side was stored is not known yet
            return None
        for key, watch in [*self._watches[reading.venue].items(), *self._due_totals(now)]:
            watch.judged = now
            try:
                self._judge_watch(key, watch, at, conclusion)
            except Exception:  # it must not fail the reading, nor the other alerts
                newest = max(entry.alert.version for entry in watch.entries.values())
                if watch.logged_version < newest:
                    log.exception("alerts not judged", extra={"alerts": [*watch.entries]})
                    watch.logged_version = newest
        self._unconfirmed = conclusion.states
        return conclusion if conclusion.states else None

    def _due_totals(self, now: int) -> Iterator[tuple[Key, _Watch]]:
        """A part of the totals of all venues, in turns: each about once per reading of a venue."""
        totals = self._watches[ALL]
        for key in [*islice(totals, len(totals) // len(self._markets) + 1)]:
            if not 0 <= now - totals[key].judged < TOTALS_EVERY:
                totals[key] = totals.pop(key)  # move it to the end
                yield key, totals[key]

    def _judge_watch(self, key: Key, watch: _Watch, at: int, conclusion: AlertConclusion) -> None:
        found = self._values.of(key, at)
        if found is None:
            return
        watch.take(found, conclusion.now)
        seen = size(key.when, found.value)
        for entry in watch.entries.values():
            is_met = entry.is_met
            if is_met is None or (seen < entry.back if is_met else seen >= entry.on):
                self._judge(entry, key, found.value, at, conclusion)

    def _judge(
        self, entry: _Entry, key: Key, value: float, at: int, conclusion: AlertConclusion
    ) -> None:
        alert, rule, symbol = entry.alert, entry.alert.rule, key.symbol
        is_met, fires = next_state(rule, entry.is_met, value)
        if is_met == entry.is_met:
            return
        last = self._fired.get((alert.id, symbol))
        is_due = last is None or at - last >= PERIODS[rule.every]
        if fires and is_due and (rule.until is None or at < rule.until):
            last = at
            path = f"/markets/{symbol}" if symbol else "/liquidations"
            fired = Fired(symbol, key.venue, value, at, path=path)
            conclusion.messages.append(NewMessage(alert.id, alert.mailbox, fired))
        conclusion.states.append(StateRow(alert.id, symbol, key.venue, int(is_met), last))

    def written(self, states: Iterable[StateRow]) -> None:
        """Remember what is stored; until then, the next reading is judged by what was before."""
        self._unconfirmed = []
        for row in states:
            key = key_of(self._alerts[row.alert].rule, row.symbol, row.venue)
            self._watches[row.venue][key].entries[row.alert].is_met = bool(row.is_met)
            if row.fired_at is not None:
                self._fired[row.alert, row.symbol] = row.fired_at
