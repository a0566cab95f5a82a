"""An operator's own decision on evidence that is recorded (pure)."""

from collections.abc import Sequence

from msgspec.structs import replace

from barograph.errors import BarographError
from barograph.stances.records import LABELS, Decision, Proposal, Version


class CannotRevise(BarographError):
    """There is nothing to revise, or the decision is none of the known ones."""


def revision_of(
    newest: Sequence[Version], kind: str, *, label: str, why: str, by: str, now: int
) -> Proposal:
    """The same leg on the same evidence with another decision.

    Raises:
        CannotRevise: nothing is recorded, its time is over, or the label or reason is missing.
    """
    if not newest:
        raise CannotRevise(f"no {kind} is recorded yet")
    version = newest[0]
    if label not in LABELS:
        raise CannotRevise(f"the decision must be one of {', '.join(LABELS)}")
    reason, who = signed(why, by)
    if now >= version.expires_at:
        raise CannotRevise("the newest version has expired: wait for the next leg")
    decision = Decision(label, version.leg.decision.confidence, reason, who)
    return Proposal(
        kind=kind,
        leg_id=version.leg_id,
        issued_at=now,
        expires_at=version.expires_at,
        leg=replace(version.leg, decision=decision),
    )


def signed(why: str, by: str) -> tuple[str, str]:
    """A reason and who gives it, without space around them.

    Raises:
        CannotRevise: one of them is missing.
    """
    if not why.strip() or not by.strip():
        raise CannotRevise("a reason is needed, and who decides")
    return why.strip(), by.strip()
