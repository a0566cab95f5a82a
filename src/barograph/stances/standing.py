"""The stances that stand now, as frozen records."""

from msgspec import Struct


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


class Stances(Struct, frozen=True):
    """What stands, and why a kind has nothing new."""

    as_of: int
    stances: tuple[StanceNow, ...]
    silent: dict[str, str]
    """By kind, why no stance is issued now; empty when all are."""
