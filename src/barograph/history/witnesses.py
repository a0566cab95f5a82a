"""The witnesses of the public log, and their cosignatures (pure).

A witness cosigns a checkpoint only if it continues the last one that it cosigned. The client has
the formats, because readers check the same policies and cosignatures.
"""

from contextlib import suppress
from typing import NamedTuple

from msgspec import Struct

from barograph.board.feeds import Feed
from barograph.errors import UpstreamError
from barograph.history.checkpoint import (
    Checkpoint,
    CheckpointRefused,
    signature_line,
    signatures_of,
)
from barograph.kit.timestamps import SECOND
from barograph_client.audit.notes import KEY_ID, Key, Policy, SignedCheckpoint, signed_at
from barograph_client.errors import Contradiction


class OtherSize(UpstreamError):
    """The witness last cosigned the log at another size than we assumed."""

    kind = "conflict"

    def __init__(self, size: int) -> None:
        super().__init__(f"it last cosigned this log at size {size}")
        self.size = size


class TreeRefused(UpstreamError):
    """The witness says that our tree contradicts one that it has cosigned."""

    kind = "fork"


class Cosignature(NamedTuple):
    """A verified signature line of a witness."""

    line: str
    at: int


class WitnessState(Struct, frozen=True):
    """What one witness last did."""

    origin: str
    witness: str
    size: int
    """Of the newest checkpoint that it cosigned."""

    cosigned_at: int | None
    """By the clock of the witness; None if it never cosigned."""

    failure: str
    """Why the last request failed; empty if it didn't."""

    is_fork: bool
    """Whether it refuses our tree."""

    failing_since: int | None


class WitnessStates(Struct, frozen=True):
    """The witnesses, as the collector last saw them."""

    states: tuple[WitnessState, ...]


WITNESSES = Feed("witnesses", WitnessStates)


def open_cosignature(checkpoint: Checkpoint, lines: str, key: Key) -> Cosignature:
    """The signature of one witness on a checkpoint; signatures of others are ignored.

    Raises:
        CheckpointRefused: there is none, or it does not match.
    """
    signatures = tuple(signatures_of(lines))
    signed = SignedCheckpoint("", checkpoint.text, *checkpoint, signatures)
    try:
        at = signed_at(signed, key)
    except Contradiction as error:
        raise CheckpointRefused("the witness's signature does not match our checkpoint") from error
    if at is None:
        raise CheckpointRefused("the witness did not sign with its key")
    own = [raw for name, raw in signatures if (name, raw[:KEY_ID]) == (key.name, key.key_id)]
    return Cosignature("".join(signature_line(key.name, raw) for raw in own), at * SECOND)


def cosigners(policy: Policy, checkpoint: Checkpoint, lines: str) -> dict[str, int]:
    """The witnesses whose signatures on a checkpoint verify, and when they signed."""
    witnesses = {}
    for name, key in policy.witnesses.items():
        with suppress(CheckpointRefused):
            witnesses[name] = open_cosignature(checkpoint, lines, key).at
    return witnesses
