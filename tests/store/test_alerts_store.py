"""Alerts as rows: whose they are, what the collector reads again, and messages with growing ids."""

import asyncio
from itertools import pairwise

import pytest

from barograph.alerts.records import (
    MAX_ALERTS,
    Alert,
    Fired,
    NewMessage,
    StateRow,
    TooManyAlerts,
)
from barograph.alerts.rules import Rule
from barograph.alerts.store import (
    active_alerts,
    add_alert,
    alerts_of,
    delete_alerts,
    find_alert,
    find_message,
    forget_messages,
    messages_after,
    messages_of,
    record_alerts,
    rules_version,
    set_state,
    stop_by_token,
    stored_states,
)
from barograph.errors import NotFound
from barograph.keys.api_keys import ApiKeys
from barograph.kit.database import Database
from barograph.kit.timestamps import DAY
from support.steps import Steps

RULE = Rule("funding", ("BTC",), "any", "above", 0.05)
OWNER = "name@example.com"


class Rules(Steps):
    """The tables of alerts, and an owner with a key."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        super().__init__(database, runner)
        self.keys = ApiKeys(database, b"p" * 32, self.clock)
        self.key = self.run(self.keys.create(OWNER))

    def add(self, mailbox: str = OWNER) -> Alert:
        return self.write(lambda tx: add_alert(tx, mailbox, RULE, ["mail"], self.clock()))

    def fire(self, *alerts: Alert) -> None:
        fired = Fired("BTC", "bybit", 0.06, self.clock())
        messages = [NewMessage(alert.id, alert.mailbox, fired) for alert in alerts]
        states = [StateRow(alert.id, "BTC", "bybit", 1, self.clock()) for alert in alerts]
        self.write(lambda tx: record_alerts(tx, states, messages, self.clock()))

    def set(self, alert: Alert, state: str) -> None:
        assert state in {"active", "paused"}
        self.write(lambda tx: set_state(tx, alert, state, None, self.clock()))  # type: ignore[arg-type]

    def ids(self, after: int = 0) -> list[int]:
        found = self.run(messages_after(self.database, OWNER, after, 10))
        return [message.id for message in found]

    def version(self) -> tuple[int, ...]:
        return self.run(rules_version(self.database))


@pytest.fixture
def rules(database: Database, runner: asyncio.Runner) -> Rules:
    return Rules(database, runner)


@pytest.mark.both_engines
def test_stored_alert_reads_back_and_belongs_to_its_mailbox(rules: Rules) -> None:
    alert = rules.add()
    assert rules.run(find_alert(rules.database, alert.id, OWNER)) == alert
    assert (alert.rule, alert.target_list) == (RULE, ["mail"])
    with pytest.raises(NotFound):
        rules.run(find_alert(rules.database, alert.id, "other@example.com"))
    for _ in range(MAX_ALERTS - 1):
        rules.add()
    with pytest.raises(TooManyAlerts):
        rules.add()


@pytest.mark.both_engines
def test_every_change_of_the_active_alerts_changes_their_version(rules: Rules) -> None:
    seen = [rules.version()]
    first = rules.add()
    seen.append(rules.version())
    rules.set(first, "paused")
    seen.append(rules.version())
    rules.set(first, "active")
    seen.append(rules.version())
    rules.clock.now += 1
    rules.write(lambda tx: delete_alerts(tx, [first]))
    second = rules.add()
    seen.append(rules.version())
    rules.run(rules.keys.revoke(rules.key.id))
    seen.append(rules.version())

    assert all(before != after for before, after in pairwise(seen))
    assert rules.run(active_alerts(rules.database)) == []
    rules.run(rules.keys.create(OWNER))
    assert rules.run(active_alerts(rules.database)) == [second]


@pytest.mark.both_engines
def test_no_id_of_a_message_is_used_twice(rules: Rules) -> None:
    first, second = rules.add(), rules.add()
    rules.fire(first, second)
    assert rules.ids() == [1, 2]
    rules.write(lambda tx: delete_alerts(tx, [second]))
    rules.fire(first)
    assert (rules.ids(), rules.ids(after=1)) == ([1, 3], [3])
    [newest, _] = rules.run(messages_of(rules.database, OWNER, 10))
    assert (newest.id, newest.fired.value) == (3, 0.06)
    assert rules.run(find_message(rules.database, newest.token)) == newest


@pytest.mark.both_engines
def test_stopped_alert_gets_no_message_and_starts_over(rules: Rules) -> None:
    alert = rules.add()
    rules.fire(alert)
    stopped = rules.write(lambda tx: stop_by_token(tx, alert.stop_token, rules.clock()))
    assert stopped == alert
    assert [each.state for each in rules.run(alerts_of(rules.database, OWNER))] == ["paused"]
    assert rules.run(stored_states(rules.database)) == []
    rules.fire(alert)  # judged before it was stopped
    assert rules.ids() == [1]
    assert rules.write(lambda tx: stop_by_token(tx, "unknown", rules.clock())) is None

    rules.clock.now += 31 * DAY
    rules.write(lambda tx: forget_messages(tx, rules.clock()))
    assert rules.ids() == []
    assert rules.run(stored_states(rules.database)) == []
