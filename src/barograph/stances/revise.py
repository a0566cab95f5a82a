"""An operator's own decision on evidence that is recorded (pure)."""

from collections.abc import Sequence
from unicodedata import normalize

from msgspec.structs import replace

from barograph.errors import BarographError
from barograph.history.records import LABELS, Decision, Proposal, Version
from barograph.kit.text import one_line
from barograph.stances import etf, funding, rates

MAX_NAME = 100
MAX_REASON = 500


class CannotRevise(BarographError):
    """There is nothing to revise, or the decision or who signs it cannot be recorded."""


def revision_of(
    newest: Sequence[Version], kind: str, *, label: str, why: str, by: str, now: int
) -> Proposal:
    """The same leg on the same evidence with another decision.

    Raises:
        CannotRevise: nothing is recorded, its time is over, or the label, the reason or the name
            cannot be recorded.
    """
    if not newest:
        raise CannotRevise(f"no {kind} is recorded yet")
    version = newest[0]
    if label not in LABELS:
        raise CannotRevise(f"the decision must be one of {', '.join(LABELS)}")
    rationale, who = signed(why, by)
    if now >= version.expires_at:
        raise CannotRevise("the newest version has expired: wait for the next leg")
    decision = Decision(label, version.leg.decision.confidence, rationale, who)
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
        CannotRevise: one of them cannot be recorded.
    """
    return reason(why), signer(by)


def reason(why: str) -> str:
    """A reason as it is recorded.

    Raises:
        CannotRevise: it is not one line, or there is none.
    """
    return _line("why", why, MAX_REASON)


def signer(by: str) -> str:
    """Who decides, as it is recorded.

    Raises:
        CannotRevise: it is not one line, or there is none, or it is what rules sign with.
    """
    who = _line("by", by, MAX_NAME)
    if _spelt_alike(who) in RULES:
        raise CannotRevise(f"'by' must say who decides: only rules sign as {who}")
    return who


def _line(name: str, text: str, longest: int) -> str:
    try:
        return one_line(name, text, longest)
    except ValueError as error:
        raise CannotRevise(str(error)) from error


def _spelt_alike(name: str) -> str:
    """What all spellings of a name that a reader takes for the same have in common."""
    return normalize("NFKC", name).casefold()


RULES = frozenset(_spelt_alike(each.BY) for each in (etf, funding, rates))
"""The names that no person may sign with."""
