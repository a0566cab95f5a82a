"""An operator's decision on recorded evidence (pure)."""

from collections.abc import Sequence
from unicodedata import normalize

from msgspec.structs import replace

from barograph.errors import BarographError
from barograph.history.records import LABELS, Decision, Proposal, Version
from barograph.kit.text import one_line
from barograph.stances.rules import BY

MAX_NAME = 100
MAX_REASON = 500


class CannotRevise(BarographError):
    """There is nothing to revise, or the decision, reason or name is not acceptable."""


def revision_of(
    newest: Sequence[Version], kind: str, *, label: str, why: str, by: str, now: int
) -> Proposal:
    """The newest version's leg and evidence with another decision.

    Raises:
        CannotRevise: nothing is recorded, the newest version has expired, or the label, reason or
            name is not acceptable.
    """
    if not newest:
        raise CannotRevise(f"no {kind} is recorded yet")
    version = newest[0]
    if label not in LABELS:
        raise CannotRevise(f"the decision must be one of {', '.join(LABELS)}")
    rationale, name = reason(why), signer(by)
    if now >= version.expires_at:
        raise CannotRevise("the newest version has expired: wait for the next leg")
    decision = Decision(label, version.leg.decision.confidence, rationale, name)
    return Proposal(
        kind=kind,
        leg_id=version.leg_id,
        issued_at=now,
        expires_at=version.expires_at,
        leg=replace(version.leg, decision=decision),
    )


def reason(why: str) -> str:
    """A reason as it is recorded.

    Raises:
        CannotRevise: it is empty, too long or more than one line.
    """
    return _line("why", why, MAX_REASON)


def signer(by: str) -> str:
    """The name of the person who decides, as it is recorded.

    Raises:
        CannotRevise: it is empty, too long or more than one line, or the name that rules use.
    """
    name = _line("by", by, MAX_NAME)
    # A reader takes other spellings of the same letters for the same name.
    if normalize("NFKC", name).casefold() == BY:
        raise CannotRevise(f"'by' must name the person who decides: only rules sign as {name}")
    return name


def _line(name: str, text: str, longest: int) -> str:
    try:
        return one_line(name, text, longest)
    except ValueError as error:
        raise CannotRevise(str(error)) from error
