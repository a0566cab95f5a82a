"""Alerts and their messages as frozen records (pure)."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from barograph.alerts.rules import Rule
from barograph.errors import RequestError

State = Literal["active", "paused", "ended"]

MAIL = "mail"
"""The target that is the address of the owner; the others are ids of webhooks."""

MAX_ALERTS = 50
"""The most alerts per mailbox, in any state."""


@lru_cache(20_000)
def _rule(text: str) -> Rule:
    return msgspec.json.decode(text, type=Rule)


class Alert(NamedTuple):
    """A rule and where its messages go."""

    id: str
    mailbox: str
    rule_text: str
    targets: str
    state: State
    why: str | None
    """Why it is not active or sends no mail any more, if its owner didn't pause it."""

    created_at: int
    version: int
    stop_token: str

    @property
    def rule(self) -> Rule:
        """What it watches for."""
        return _rule(self.rule_text)

    @property
    def target_list(self) -> Sequence[str]:
        """`mail` and ids of webhooks."""
        return self.targets.split(",")


class Fired(Struct, frozen=True, omit_defaults=True):
    """Everything that a message says."""

    symbol: str
    """The coin; empty if it is about none."""

    venue: str
    """The venue's name, `all`, or empty."""

    value: float | None
    at: int
    """The time of the reading or event."""

    text: str = ""
    """What happened, in a line of plain text, if it is about an event."""

    path: str = ""
    """The page of the site that it is about, such as `/markets/BTC`."""


class NewMessage(NamedTuple):
    """A message that is not stored yet."""

    alert: str
    mailbox: str
    fired: Fired


class AlertMessage(NamedTuple):
    """A stored message."""

    id: int
    alert: str
    mailbox: str
    at: int
    stored_at: int
    body: str
    token: str

    @property
    def fired(self) -> Fired:
        """What happened."""
        return msgspec.json.decode(self.body, type=Fired)


class StateRow(NamedTuple):
    """On which side of its limit a rule last saw a coin at a venue."""

    alert: str
    symbol: str
    venue: str
    is_met: int
    fired_at: int | None


class TooManyAlerts(RequestError):
    """The mailbox has as many alerts as it may."""

    status = 409
    text = f"you can have {MAX_ALERTS} alerts, in any state; delete one first"
