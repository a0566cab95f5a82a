"""Collects the cosignatures of witnesses, and publishes the newest checkpoint with a quorum."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from barograph.board.board import publish
from barograph.board.feeds import Publication
from barograph.errors import (
    ConfigurationError,
    InvalidReply,
    RequestError,
    Throttled,
    UpstreamError,
)
from barograph.history.checkpoint import Checkpoint, CheckpointRefused, PublishedCheckpoint
from barograph.history.merkle import TreeHead
from barograph.history.public_log import PublicLog
from barograph.history.witnesses import (
    WITNESSES,
    Cosignature,
    OtherSize,
    TreeRefused,
    WitnessState,
    WitnessStates,
    cosigners,
    open_cosignature,
)
from barograph.kit.clock import Clock
from barograph.kit.database import Database, Queryable, Transaction
from barograph.kit.timestamps import MINUTE, SECOND
from barograph.settings.values import require_safe
from barograph_client.audit.notes import NO_QUORUM, Policy, parse_policy

logger = logging.getLogger(__name__)

ROUND_MS = MINUTE
FIRST_PAUSE_MS = 2 * SECOND
LONGEST_PAUSE_MS = MINUTE
CLOCK_SKEW_MS = 10 * MINUTE

AddCheckpoint = Callable[[str, int, Sequence[bytes], str], Awaitable[str]]
"""Takes a witness's URL, the old size, a consistency proof and a checkpoint; returns signatures."""


class NotCosigned(RequestError):
    """No checkpoint has enough cosignatures."""

    status = 503

    def __init__(self) -> None:
        super().__init__(
            "not enough witnesses have cosigned a checkpoint yet; try again in a minute"
        )


def load_policy(file: Path | None) -> Policy | None:
    """Read the policy file; None if none is configured.

    Raises:
        ConfigurationError: the file can't be read or is not a valid policy.
    """
    if file is None:
        return None
    try:
        policy = parse_policy(file.read_text("utf-8"))
        for name, url in policy.urls.items():
            require_safe(url, f"{name} must get our checkpoints unchanged")
    except OSError as error:
        raise ConfigurationError(
            f"the witness policy {file} can't be read ({error.strerror}): check "
            "BAROGRAPH_WITNESS_POLICY"
        ) from error
    except ValueError as error:
        raise ConfigurationError(f"the witness policy {file} can't be used: {error}") from error
    if missing := [name for name in policy.witnesses if name not in policy.urls]:
        raise ConfigurationError(
            f"the witness policy {file} can't be used: witness {missing[0]} has no URL, so the "
            "collector can't ask it"
        )
    return policy


class Rounds:
    """The checkpoint that all witnesses are asked to cosign now.

    We keep only the newest cosignature of each witness. If we always asked for the newest
    checkpoint of a growing log, they might never cosign the same one. So the target stays the same
    until it has a quorum, or for a minute, which is enough for every witness that answers.
    """

    def __init__(self, log: PublicLog, clock: Clock) -> None:
        self.log = log
        self._clock = clock
        self._current: PublishedCheckpoint | None = None
        self._until = 0

    async def target(self, database: Queryable) -> PublishedCheckpoint:
        """The checkpoint to cosign."""
        current = self._current
        if current is None or self._clock() >= self._until:
            return await self.renew()
        has_quorum = await database.fetch(_HAS_QUORUM, *current.checkpoint[:2])
        return await self.renew() if has_quorum else current

    async def renew(self) -> PublishedCheckpoint:
        """Begin a round with the newest checkpoint."""
        self._current = await self.log.checkpoint()
        self._until = self._clock() + ROUND_MS
        return self._current


class _LastAnswer(NamedTuple):
    """What is stored about one witness."""

    size: int = 0
    root: str = ""
    cosigned_at: int | None = None
    failure: str = ""
    is_fork: int = 0


class Cosigner:
    """Asks one witness to cosign what it has not cosigned yet."""

    def __init__(
        self, name: str, policy: Policy, rounds: Rounds, add: AddCheckpoint, clock: Clock
    ) -> None:
        self.name = name
        self._key = policy.witnesses[name]
        self._policy = policy
        self._rounds = rounds
        self._add = add
        self._clock = clock
        self._pause = FIRST_PAUSE_MS
        self._paused_until = 0
        self._is_published = False

    async def ask(self, database: Database) -> None:
        """Have the witness cosign the log, unless it has, or has just failed.

        Raises:
            DatabaseUnavailable: the log can't be read or signed, or the result can't be stored.
        """
        if self._clock() < self._paused_until:
            return
        self._paused_until = self._clock() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE_MS)
        target = await self._rounds.target(database)
        rows = await database.fetch(_LAST_ANSWER, target.checkpoint.origin, self._key.text)
        if await self._ask(target, _LastAnswer(*rows[0]) if rows else _LastAnswer(), database):
            self._pause, self._paused_until = FIRST_PAUSE_MS, 0

    async def _ask(
        self, target: PublishedCheckpoint, last: _LastAnswer, database: Database
    ) -> bool:
        """Return whether the witness has cosigned."""
        origin, size, root = target.checkpoint
        if last.cosigned_at is not None and (last.size, last.root) == (size, root.hex()):
            if not self._is_published:  # with another policy, it may have a quorum now
                await database.write(lambda tx: self._publish(tx, target.checkpoint))
                self._is_published = True
            return True
        try:
            checkpoint, cosigned = await self._cosign(target, min(last.size, size))
        except UpstreamError as error:
            if isinstance(error, Throttled):
                self._paused_until = self._clock() + int(error.retry_after * SECOND)
            await self._store_failure(origin, last, error, database)
            return False

        async def work(tx: Transaction) -> None:
            head = (checkpoint.size, checkpoint.root.hex())
            await tx.execute(_STORE, self._key.text, origin, *head, cosigned.line, cosigned.at)
            await self._publish(tx, checkpoint)

        await database.write(work)
        return True

    async def _cosign(
        self, target: PublishedCheckpoint, old: int
    ) -> tuple[Checkpoint, Cosignature]:
        try:
            lines = await self._send(target, old)
        except OtherSize as error:
            if error.size > target.checkpoint.size:
                target = await self._rounds.renew()
            if error.size > target.checkpoint.size:
                raise TreeRefused(f"{error}, and we have {target.checkpoint.size}") from error
            lines = await self._send(target, error.size)
        try:
            cosigned = open_cosignature(target.checkpoint, lines, self._key)
        except CheckpointRefused as error:
            raise InvalidReply(str(error)) from error
        if cosigned.at > self._clock() + CLOCK_SKEW_MS:
            raise InvalidReply("its cosignature is from the future; check the clocks")
        return target.checkpoint, cosigned

    async def _send(self, target: PublishedCheckpoint, old: int) -> str:
        tree = self._rounds.log.tree
        _, proof = await tree.root_and_consistency(old, _head(target.checkpoint))
        try:
            return await self._add(self._policy.urls[self.name], old, proof, target.note)
        except OtherSize as error:
            if error.size == old:  # version 1.0 of the protocol refuses another root like this
                raise TreeRefused(f"{error}, but not with our root") from error
            raise

    async def _publish(self, tx: Transaction, checkpoint: Checkpoint) -> None:
        """Publish the checkpoint if it has a quorum, and the states of all witnesses."""
        origin, size, root = checkpoint
        head = (origin, size, root.hex())
        lines: dict[str, str] = dict(await tx.fetch(_COSIGNED, *head))
        known = {
            name: lines[key.text]
            for name, key in self._policy.witnesses.items()
            if key.text in lines
        }
        if self._policy.is_met(known):
            await tx.execute(_PUBLISH, *head, "".join(known.values()))
        await self._publish_states(tx)

    async def _store_failure(
        self, origin: str, last: _LastAnswer, error: UpstreamError, database: Database
    ) -> None:
        """Store and log why the witness did not cosign, if that is news."""
        failure, is_fork = str(error), isinstance(error, TreeRefused)
        # A refusal stays until the witness cosigns, whatever fails later.
        if failure == last.failure or (last.is_fork and not is_fork):
            return

        async def work(tx: Transaction) -> None:
            now = self._clock()
            await tx.execute(_FAIL, origin, self._key.text, failure, int(is_fork), now)
            await self._publish_states(tx)

        level = logging.CRITICAL if is_fork and not last.is_fork else logging.WARNING
        fields = {"witness": self.name, "origin": origin, "kind": error.kind, "why": failure}
        logger.log(level, "checkpoint not cosigned", extra=fields)
        await database.write(work)

    async def _publish_states(self, tx: Transaction) -> None:
        names = {key.text: name for name, key in self._policy.witnesses.items()}
        states = tuple(
            WitnessState(origin, names[key], size, at, failure, bool(is_fork), since)
            for origin, key, size, at, failure, is_fork, since in await tx.fetch(
                _STATES, self._rounds.log.origin
            )
            if key in names
        )
        await publish(tx, [Publication.of(WITNESSES, WitnessStates(states))])


class CosignedCheckpoints:
    """What is published as the checkpoint of the log."""

    def __init__(self, log: PublicLog, database: Database, policy: Policy | None) -> None:
        self._log = log
        self._database = database
        self._policy = policy

    async def published_note(self) -> str:
        """The newest checkpoint with a quorum, or if the policy asks for none, the newest as it is.

        Raises:
            NotCosigned: no checkpoint has a quorum.
            DatabaseUnavailable: the log can't be read or signed, or contradicts the checkpoint.
        """
        if self._policy is None:
            return (await self._log.checkpoint()).note
        # Read this before the head: the collector may publish a longer one meanwhile.
        rows = {row[0]: row[1:] for row in await self._database.fetch(_PUBLISHED)}
        current = await self._log.checkpoint()
        newest = current.checkpoint
        lines: str
        size, root, lines = rows.get(newest.origin, (0, "", ""))
        checkpoint = Checkpoint(newest.origin, size, bytes.fromhex(root))
        if self._policy.quorum == NO_QUORUM:
            return current.note + lines if checkpoint == newest else current.note
        if not self._policy.is_met(cosigners(self._policy, checkpoint, lines)):
            raise NotCosigned  # there is none, or the policy has changed since
        signed = self._log.sign(checkpoint)  # before another coroutine can load another key
        await self._log.tree.require_growth(_head(checkpoint), _head(newest))
        return signed + lines


def _head(checkpoint: Checkpoint) -> TreeHead:
    return TreeHead(checkpoint.size, checkpoint.root)


_HAS_QUORUM = "SELECT 1 FROM cosigned_checkpoints WHERE origin = $1 AND size >= $2"
_LAST_ANSWER = """
SELECT size, root, cosigned_at, failure, is_fork FROM cosignatures
WHERE origin = $1 AND witness = $2
"""
_COSIGNED = """
SELECT witness, line FROM cosignatures
WHERE origin = $1 AND size = $2 AND root = $3 AND cosigned_at IS NOT NULL
"""
_STATES = """
SELECT origin, witness, size, cosigned_at, failure, is_fork, failing_since FROM cosignatures
WHERE origin = $1 ORDER BY witness
"""
_PUBLISHED = "SELECT origin, size, root, lines FROM cosigned_checkpoints"
_STORE = """
INSERT INTO cosignatures (
    witness, origin, size, root, line, cosigned_at, failure, is_fork, failing_since
) VALUES ($1, $2, $3, $4, $5, $6, '', 0, NULL)
ON CONFLICT (origin, witness) DO UPDATE SET size = excluded.size, root = excluded.root,
    line = excluded.line, cosigned_at = excluded.cosigned_at, failure = '', is_fork = 0,
    failing_since = NULL
"""
_FAIL = """
INSERT INTO cosignatures (
    origin, witness, size, root, line, cosigned_at, failure, is_fork, failing_since
) VALUES ($1, $2, 0, '', '', NULL, $3, $4, $5)
ON CONFLICT (origin, witness) DO UPDATE SET failure = excluded.failure,
    is_fork = excluded.is_fork,
    failing_since = CASE WHEN cosignatures.is_fork = excluded.is_fork
        THEN COALESCE(cosignatures.failing_since, excluded.failing_since)
        ELSE excluded.failing_since END
"""
# Never a smaller checkpoint, and never another root of the same size.
_PUBLISH = """
INSERT INTO cosigned_checkpoints (origin, size, root, lines) VALUES ($1, $2, $3, $4)
ON CONFLICT (origin) DO UPDATE
SET size = excluded.size, root = excluded.root, lines = excluded.lines
WHERE excluded.size > cosigned_checkpoints.size
    OR (excluded.size = cosigned_checkpoints.size AND excluded.root = cosigned_checkpoints.root)
"""
