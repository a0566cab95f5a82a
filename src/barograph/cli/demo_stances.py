"""`demo fault stance`: let the newest stances in a demo's record expire, and issue them again.

The fault records a revision that expires at once, so every reader sees a stance that has really
expired. It lasts until it is switched off or until new evidence gives the kind a new version.
"""

from pathlib import Path

from msgspec.structs import replace

from barograph.cli.history import change_ledger
from barograph.kit.clock import system_clock
from barograph.settings import Settings
from barograph.stances.ledger import Ledger
from barograph.stances.records import KINDS, Leg, Proposal, Version

EXPIRED = "expired"
BY = "demo fault"
"""Marks the revisions that expire at once, so that `off` finds them."""

RATIONALE = "Expired on request, to show what callers get for an expired stance."


def switch_stances(data: Path, *, expired: bool) -> None:
    """Let every active stance in a folder's record expire, or issue the expired ones again.

    Raises:
        ConfigurationError: there is no record in the folder.
        HeadMoved: the collector has just recorded something newer.
    """

    async def work(ledger: Ledger) -> None:
        for kind in KINDS:
            await (_expire if expired else _restore)(ledger, kind)

    change_ledger(Settings(data=data), work)


async def _expire(ledger: Ledger, kind: str) -> None:
    now = system_clock()
    withdrawn = {each.version_sequence for each in await ledger.events(kind)}
    for head in await ledger.newest(kind, 1):
        if now < head.expires_at and head.sequence not in withdrawn:
            decision = replace(head.leg.decision, rationale=RATIONALE, by=BY)
            await _revise(ledger, head, replace(head.leg, decision=decision), now, now)


async def _restore(ledger: Ledger, kind: str) -> None:
    match await ledger.newest(kind, 2):
        case [head, before] if head.leg.decision.by == BY:
            await _revise(ledger, head, before.leg, system_clock(), before.expires_at)


async def _revise(ledger: Ledger, head: Version, leg: Leg, now: int, expires_at: int) -> None:
    proposal = Proposal(head.kind, head.leg_id, now, expires_at, leg)
    await ledger.append(proposal, expected_head=head.history_digest)
