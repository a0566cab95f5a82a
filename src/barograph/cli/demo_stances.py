"""`demo fault stance`: the newest stances of a demo expire, on its record, and are issued again.

The fault records a revision that expires at once, so every reader sees a stance that has really
expired. It lasts until it is switched off or until new evidence gives the kind a new version.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from barograph.cli.history import change_ledger
from barograph.kit.clock import system_clock
from barograph.settings import Settings
from barograph.stances.ledger import Ledger
from barograph.stances.records import KINDS, Leg, Proposal, Version

EXPIRED = "expired"
BY = "demo fault"
"""Signs the revisions that expire at once, so that they can be told from all others."""

RATIONALE = "Expired on request, to show how an expired stance is answered."


def expire_stances(data: Path) -> None:
    """Let every active stance expire now; withdrawn ones stay withdrawn.

    Raises:
        ConfigurationError: there is no record in the folder.
        HeadMoved: the collector has just recorded something newer.
    """

    async def work(ledger: Ledger) -> None:
        now = system_clock()
        for kind in KINDS:
            newest, events = await ledger.newest(kind, 1), await ledger.events(kind)
            withdrawn = {each.version_sequence for each in events}
            for head in newest:
                if now < head.expires_at and head.sequence not in withdrawn:
                    decision = replace(head.leg.decision, rationale=RATIONALE, by=BY)
                    expired = replace(head.leg, decision=decision)
                    await _revise(ledger, head, expired, now, expires_at=now)

    change_ledger(Settings(data=data), work)


def restore_stances(data: Path) -> None:
    """Issue what `expire_stances` let expire again, with its own decision and expiry.

    Raises:
        ConfigurationError: there is no record in the folder.
        HeadMoved: the collector has just recorded something newer.
    """

    async def work(ledger: Ledger) -> None:
        for kind in KINDS:
            newest: Sequence[Version] = await ledger.newest(kind, 2)
            if newest and newest[0].leg.decision.by == BY:
                head, before = newest
                expires_at = before.expires_at
                await _revise(ledger, head, before.leg, system_clock(), expires_at=expires_at)

    change_ledger(Settings(data=data), work)


async def _revise(ledger: Ledger, head: Version, leg: Leg, now: int, *, expires_at: int) -> None:
    proposal = Proposal(head.kind, head.leg_id, now, expires_at, leg)
    await ledger.append(proposal, expected_head=head.history_digest)
