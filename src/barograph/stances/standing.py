"""The stances that stand now, as frozen records."""

from typing import Any

from msgspec import Struct

from barograph.kit.canonical import canonical
from barograph.stances.digest import leg_document
from barograph.stances.records import Event, Version

NOT_RECORDED: dict[str, Any] = {
    "history_durable": False,
    "history_digest": None,
    "sequence": None,
    "previous_digest": None,
    "salt": None,
}
"""What replaces a stance's place in the record while nobody can say that it has one."""


class StanceNow(Struct, frozen=True):
    """The newest stance of a kind, recorded or not."""

    kind: str
    leg_id: str
    revision: int
    issued_at: int
    expires_at: int
    leg: str
    """The leg as canonical JSON: as it was hashed, or would be."""

    history_durable: bool
    history_digest: str | None
    """None when it could not be recorded."""

    sequence: int | None
    previous_digest: str | None
    salt: str | None
    withdrawn_at: int | None = None
    """When an operator withdrew it; a withdrawn stance is terminal."""

    withdrawal_digest: str | None = None


class Mark(Struct, frozen=True):
    """Where a kind's chains ended when somebody looked: a record that lacks it is another one."""

    sequence: int
    history_digest: str
    events: int = 0
    event_digest: str = ""


class Waiting(Struct, frozen=True):
    """Why a kind has no stance yet, although nothing has failed."""

    why: str
    until: int | None = None
    """When its evidence can be complete; None where no source of it is configured."""


class Stances(Struct, frozen=True):
    """What stands, and why a kind has nothing new."""

    as_of: int
    stances: tuple[StanceNow, ...]
    silent: dict[str, str]
    """By kind, why no stance is issued now; empty when all are."""

    recorded: dict[str, Mark] = {}
    """By kind, the end of the record as it was read last."""

    waiting: dict[str, Waiting] = {}
    """The kinds that are not issued yet, apart from those in `silent`."""

    def of(self, kind: str) -> StanceNow | None:
        """The stance of a kind, if one stands."""
        return next((each for each in self.stances if each.kind == kind), None)


def durable(version: Version, withdrawal: Event | None) -> StanceNow:
    """A recorded version as it stands now."""
    return StanceNow(
        kind=version.kind,
        leg_id=version.leg_id,
        revision=version.revision,
        issued_at=version.issued_at,
        expires_at=version.expires_at,
        leg=canonical(leg_document(version.leg)),
        history_durable=True,
        history_digest=version.history_digest,
        sequence=version.sequence,
        previous_digest=version.previous_digest,
        salt=version.salt,
        withdrawn_at=None if withdrawal is None else withdrawal.at,
        withdrawal_digest=None if withdrawal is None else withdrawal.evidence_digest,
    )
