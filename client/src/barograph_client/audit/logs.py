"""Download the logs of a service, and check them against their signatures and what you kept.

What is downloaded is checked in a fixed order, so the same logs always lead to the same first
contradiction.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import pairwise

from barograph_client.audit.files import EVENTS, Listed, LogFiles, Progress
from barograph_client.audit.notes import (
    LOG_KEY,
    SignedCheckpoint,
    parse_checkpoint,
    parse_key,
    signed_at,
    split_origin,
)
from barograph_client.audit.trees import WIDTH, leaf_hash, tile_path, tree_root
from barograph_client.audit.trust import (
    Published,
    PublishedLog,
    Trusted,
    is_signed_by,
    readable,
    require_trusted_key,
)
from barograph_client.calls import Call
from barograph_client.clients import AsyncBarograph
from barograph_client.decode import record
from barograph_client.errors import Contradiction, NotAudited, NotFound

CHECKPOINTS = "/api/history/checkpoint"
EVENT_LOG = "events"
CLOCK_SECONDS = 600
"""How far the clocks of two hosts may be apart, or a clock may be set back."""

LOGGED_WITHIN = timedelta(hours=1)
"""A version is logged as an event within seconds, but not while the collector is down."""

WITHOUT_TEXT = {"id", "type", "at", "notice", "removed"}
"""What is left of an event whose text was removed."""

NEVER_REMOVED = {"accuracy.defined", "reveal.announced", "stance.recorded"}
LISTED = (("sequence", "history_digest", "issued_at"), ("sequence", "event_digest", "at"))
"""The members of a listed version and of a listed event. Others would be signed by nobody."""


@record
class AuditedLog:
    """A log in which no contradiction was found."""

    log: str
    origin: str
    size: int
    root: str
    key: str
    key_from: str
    """`you`, `your kept file`, or `the service`, for whose key nobody else vouches."""

    cosigned: Mapping[str, str]
    """The time of each witness's cosignature."""

    witnesses: int
    """How many witnesses your policy has."""

    kept_size: int | None
    tiles: int
    requests: int
    texts: int
    removed: tuple[int, ...]
    """The events whose texts were removed, by number."""

    newest_at: str
    """The newest time of an entry, as the service states it; empty if there is none."""

    checkpoint: str


async def audit_logs(
    client: AsyncBarograph,
    trusted: Trusted,
    wanted: Collection[str] = (),
    progress: Progress = lambda _log, _requests: None,
) -> list[AuditedLog]:
    """Audit the wanted logs, by default every log that the service publishes or that you kept.

    Raises:
        Contradiction: the service contradicts itself, a signature or what you kept.
        ClientError: the audit could not be finished, which says nothing about the logs.
    """
    published = await client.run(client.reader.read(Call(CHECKPOINTS, Published)))
    logs = _logs_of(published)
    wants_all = not wanted
    wanted = wanted or {*_implied(logs), *trusted.kept}
    for name in sorted(wanted):
        _require_published(name, logs, trusted)
    lists: dict[str, list[Listed]] = {}
    audits = [
        _Audit(client, trusted, published, logs[name], progress, lists=lists, wants_all=wants_all)
        # The log of all events last, because it is compared with the lists of versions.
        for name in sorted(wanted, key=lambda each: (each == EVENT_LOG, each))
    ]
    return [await each.run() for each in audits]


def _logs_of(published: Published) -> dict[str, PublishedLog]:
    with readable(CHECKPOINTS):
        logs = {parse_checkpoint(each.checkpoint).log: each for each in published.logs}
        keys = {parse_key(each.verifier, LOG_KEY).public for each in published.logs}
    if len(logs) < len(published.logs) or len(keys) > 1:
        raise Contradiction(f"{CHECKPOINTS} has a log twice, or logs with different keys")
    return logs


def _implied(logs: Collection[str]) -> set[str]:
    """The logs that belong to those that are published: each kind of stance has two."""
    kinds = {name.removesuffix(f"/{EVENT_LOG}") for name in logs} - {EVENT_LOG}
    return {EVENT_LOG, *kinds, *(f"{kind}/{EVENT_LOG}" for kind in kinds)}


def _require_published(name: str, logs: Collection[str], trusted: Trusted) -> None:
    if name in logs:
        return
    if (kept := trusted.kept.get(name)) is not None:
        raise Contradiction(
            f"{name}: {CHECKPOINTS} lacks this log, but you kept a signed checkpoint of "
            f"{kept.checkpoint.size} entries",
            kept.checkpoint.note,
        )
    raise NotAudited(f"{CHECKPOINTS} lacks the log {name}: it has {', '.join(logs)}")


class _Audit:
    """The audit of one log."""

    def __init__(
        self,
        client: AsyncBarograph,
        trusted: Trusted,
        published: Published,
        log: PublishedLog,
        progress: Progress,
        *,
        lists: dict[str, list[Listed]],
        wants_all: bool,
    ) -> None:
        self._trusted, self._published, self._lists = trusted, published, lists
        self._wants_all = wants_all
        with readable(CHECKPOINTS):
            self._listed = parse_checkpoint(log.checkpoint)
            self._key = parse_key(log.verifier, LOG_KEY)
        path, self._log = split_origin(self._listed.origin)
        shown, signed = (log.size, log.root), (self._listed.size, self._listed.root.hex())
        if shown not in {signed, (None, None)}:
            raise Contradiction(
                f"{self._log}: {CHECKPOINTS} says size {shown[0]} and root {shown[1]}, but its "
                "signed checkpoint says otherwise",
                log.checkpoint,
            )
        self._address, url = self._listed.origin.removesuffix(path), client.reader.base_url
        self._audited = url.partition("://")[2].rpartition("@")[2].lower()
        self._files = LogFiles(client, path, self._log, progress)
        kept = trusted.kept.get(self._log)
        self._kept = None if kept is None else kept.checkpoint

    async def run(self) -> AuditedLog:
        key_from = require_trusted_key(self._log, self._key, self._published, self._trusted)
        # Without a key from elsewhere, only the address says which log this is.
        if key_from == "the service" and self._address != self._audited:
            raise NotAudited(
                f"{self._log}: this is a log of {self._address}, but you audit {self._audited}. If "
                "the operator says that this is its origin, name its key with --key"
            )
        with readable(f"{self._files.path}/checkpoint"):
            newest = parse_checkpoint((await self._files.get("checkpoint")).decode())
        self._require_not_retired(newest)
        self._require_signed(newest)
        cosigned = self._trusted.policy.require_quorum(newest)
        signed = self._signed(newest)
        entries = await self._entries(newest)
        leaves = [leaf_hash(each) for each in entries]
        tiles = await self._check_tiles(leaves)
        self._check_roots(leaves, signed)
        self._require_growth(newest)
        entries = entries[: newest.size]
        removed: list[int] = []
        if self._log == EVENT_LOG:
            removed, newest_at = await self._check_texts(entries, newest)
        else:
            newest_at = await self._check_list(entries, newest)
        return AuditedLog(
            log=self._log,
            origin=newest.origin,
            size=newest.size,
            root=newest.root.hex(),
            key=self._key.text,
            key_from=key_from,
            cosigned={name: _time(at) for name, at in cosigned.items()},
            witnesses=len(self._trusted.policy.witnesses),
            kept_size=None if self._kept is None else self._kept.size,
            tiles=tiles,
            requests=self._files.requests,
            texts=newest.size - len(removed) if self._log == EVENT_LOG else 0,
            removed=tuple(removed),
            newest_at=newest_at,
            checkpoint=newest.note,
        )

    def _require_signed(self, checkpoint: SignedCheckpoint) -> None:
        if checkpoint.origin != self._key.name or signed_at(checkpoint, self._key) is None:
            raise Contradiction(
                f"{self._log}: a served checkpoint of {checkpoint.size} entries is not signed by "
                f"{self._key.text}",
                checkpoint.note,
            )

    def _require_not_retired(self, checkpoint: SignedCheckpoint) -> None:
        """Tell a cached checkpoint from before a change of the key from a forged one."""
        retired = {public for public, _, _ in self._published.last_checkpoints()}
        if any(is_signed_by(checkpoint, public) for public in retired):
            raise NotAudited(
                f"{self._log}: a retired key signed the served checkpoint of {checkpoint.size} "
                "entries. It may be an old copy in a cache: run the audit again"
            )

    def _signed(self, newest: SignedCheckpoint) -> list[tuple[str, SignedCheckpoint]]:
        """The signed checkpoints that the entries must agree with, the newest first."""
        self._require_signed(self._listed)
        found = [(f"the one in {CHECKPOINTS}", self._listed)]
        for public, last, successor in self._published.last_checkpoints():
            # A last checkpoint speaks for the log that it names, not for a later one.
            if successor and successor.name == self._key.name and is_signed_by(last, public):
                found.append(("the last one of a retired key", last))
        if self._kept is not None:
            found.insert(0, ("the one that you kept", self._kept))
        for what, other in found:
            if other.size == newest.size and other.root != newest.root:
                raise Contradiction(
                    f"{self._log}: two signed checkpoints of {newest.size} entries have different "
                    f"roots: {other.root.hex()} in {what}, {newest.root.hex()} in the served one",
                    other.note,
                    newest.note,
                )
        return [("the served one", newest), *found]

    async def _entries(self, newest: SignedCheckpoint) -> list[bytes]:
        """Every entry, including those that are signed, but wait for witnesses."""
        size, kept = max(newest.size, self._listed.size), self._kept or newest
        try:
            if kept.size <= size:
                return await self._files.pieces("entries", size)
        except NotFound:
            if kept.size <= newest.size:
                raise
        raise Contradiction(
            f"{self._log}: the log has {newest.size} entries, but the checkpoint that you kept "
            f"has {kept.size}: {kept.size - newest.size} were removed",
            kept.note,
            newest.note,
        )

    def _require_growth(self, newest: SignedCheckpoint) -> None:
        kept = self._kept or newest
        if kept.size > newest.size:
            raise NotAudited(
                f"{self._log}: the served checkpoint has {newest.size} entries, fewer than the "
                f"{kept.size} that you kept, but {CHECKPOINTS} has {self._listed.size}. It waits "
                "for witnesses, or is an old copy in a cache: run the audit again later"
            )

    async def _check_tiles(self, expected: Sequence[bytes]) -> int:
        """Compare every tile with what follows from the leaves; return how many there are."""
        level = tiles = 0
        while expected:
            served = await self._files.pieces(level, len(expected))
            for index, (found, computed) in enumerate(zip(served, expected, strict=True)):
                if found != computed:
                    source = tile_path(level - 1, index) if level else f"entry {index}"
                    raise Contradiction(
                        f"{self._log}: {source} gives the hash {computed.hex()}, but "
                        f"{tile_path(level, index // WIDTH)} has {found.hex()}"
                    )
            tiles += -(-len(expected) // WIDTH)
            full = len(expected) // WIDTH
            expected = [tree_root(expected[at * WIDTH : (at + 1) * WIDTH]) for at in range(full)]
            level += 1
        return tiles

    def _check_roots(
        self, leaves: Sequence[bytes], checkpoints: Sequence[tuple[str, SignedCheckpoint]]
    ) -> None:
        for what, signed in checkpoints:
            if (computed := tree_root(leaves[: signed.size])) != signed.root:
                raise Contradiction(
                    f"{self._log}: the first {signed.size} entries give the root {computed.hex()}, "
                    f"but a signed checkpoint, {what}, says {signed.root.hex()}: entries were "
                    "changed, removed or reordered",
                    *dict.fromkeys((signed.note, checkpoints[0][1].note)),
                )

    async def _check_list(self, entries: Sequence[bytes], newest: SignedCheckpoint) -> str:
        """Compare the entries with the list under `/api/history`; return the newest time there."""
        path = f"/api/history/{self._log}"
        members = LISTED[self._log.endswith(f"/{EVENT_LOG}")]
        listed = self._lists[self._log] = await self._files.listed(path, len(entries))
        for sequence, (entry, each) in enumerate(zip(entries, listed, strict=False), 1):
            digest = each.get(members[1])
            row = each.get("sequence"), digest
            if row != (sequence, entry.hex()) or each.keys() != {*members}:
                raise Contradiction(
                    f"{self._log}: entry {sequence - 1}, counted from 0, is {entry.hex()}, but the "
                    f"list under /api/history has {str(digest)[:64]} there, as sequence "
                    f"{str(each.get('sequence'))[:20]}, with the members {', '.join(each)[:200]}"
                )
        self._require_complete(path, listed, newest)
        with readable(path):
            shown = [each[members[2]] for each in listed]
            times = [datetime.fromisoformat(each) for each in shown]
            earlier = [(one - two).total_seconds() > CLOCK_SECONDS for one, two in pairwise(times)]
        if True in earlier:
            index = earlier.index(True)
            raise Contradiction(
                f"{self._log}: sequence {index + 2} has the time {times[index + 1].isoformat()}, "
                f"before sequence {index + 1} with {times[index].isoformat()}: it was back-dated, "
                "or the clock was set back"
            )
        if self._kept is not None:
            with readable(path):  # a time can be too early for this host
                self._check_against_witnesses(self._kept, times)
        return shown[-1] if shown else ""

    def _require_complete(
        self, path: str, listed: Sequence[Listed], newest: SignedCheckpoint
    ) -> None:
        """The checkpoint was read first, so an honest list has all of its entries by now."""
        if len(listed) < newest.size:
            raise Contradiction(
                f"{self._log}: {path} lacks sequence {len(listed) + 1}, even when asked again "
                f"after a minute, but the signed checkpoint has {newest.size} entries",
                newest.note,
            )

    def _check_against_witnesses(self, kept: SignedCheckpoint, times: Sequence[datetime]) -> None:
        """Find an entry that is dated before witnesses saw the log without it."""
        witnessed = min(self._trusted.policy.cosigners(kept).values(), default=0)
        for index, at in enumerate(times[kept.size :], kept.size):
            if at.timestamp() < witnessed - CLOCK_SECONDS:
                raise Contradiction(
                    f"{self._log}: sequence {index + 1} has the time {at.isoformat()}, but "
                    f"witnesses saw the log end at sequence {kept.size} on {_time(witnessed)}: it "
                    "was back-dated",
                    kept.note,
                )

    async def _check_texts(
        self, entries: Sequence[bytes], newest: SignedCheckpoint
    ) -> tuple[list[int], str]:
        """Compare each event with its entry; return the removed ones, and the newest time."""
        removed = []
        listed = await self._files.listed(EVENTS, len(entries))
        for number, (entry, event) in enumerate(zip(entries, listed, strict=False), 1):
            if "removed" in event:
                self._check_removed(number, event)
                removed.append(number)
            elif (computed := _text_digest(event)) != entry.hex():
                raise Contradiction(
                    f"{self._log}: event {number} in {EVENTS} has the SHA-256 digest "
                    f"{computed}, but its entry is {entry.hex()}: it is not the text that was "
                    "logged"
                )
        self._require_complete(EVENTS, listed, newest)
        known = [each for each in listed if "removed" not in each]
        with readable(EVENTS):
            await self._check_all_versions(known, removed)
            return removed, max(known, key=_time_of)["at"] if known else ""

    def _check_removed(self, number: int, event: Listed) -> None:
        """A removed text can't be compared with its digest, so nothing else may hide in there."""
        is_bare = event.keys() == WITHOUT_TEXT and event["id"] == number
        if not is_bare or str(event["type"]) in NEVER_REMOVED:
            raise Contradiction(
                f"{self._log}: event {number} in {EVENTS} is marked as removed, but has other "
                "members than a removed one, another id, or a type that is never removed"
            )

    async def _check_all_versions(self, known: Sequence[Listed], removed: Sequence[int]) -> None:
        """Compare the lists of versions with their events."""
        recorded = [each for each in known if each.get("type") == "stance.recorded"]
        kinds = {str(each.get("kind")) for each in recorded}
        if self._wants_all and (hidden := kinds.difference(self._lists)):
            raise Contradiction(
                f"{self._log}: events record versions of {min(hidden)}, but {CHECKPOINTS} has no "
                "such log"
            )
        for kind in self._lists:
            if not kind.endswith(f"/{EVENT_LOG}"):
                events = [each for each in recorded if each.get("kind") == kind]
                await self._check_versions(kind, events)
                if rows := self._lists[kind][len(events) :]:
                    last = events[-1]["id"] if events else 0
                    self._check_unlogged(kind, rows[0], recorded, known)
                    self._require_none_removed(kind, rows[0], last, removed)

    async def _check_versions(self, kind: str, events: Sequence[Listed]) -> None:
        """Require that the events of a kind are its versions, each once and in order."""
        path, listed = f"/api/history/{kind}", self._lists[kind]
        if len(events) > len(listed):  # newer ones, which an honest list has by now
            listed = await self._files.listed(path, len(events))
        for sequence, event in enumerate(events, 1):
            row = listed[sequence - 1] if sequence <= len(listed) else {}
            shown = sequence, row.get("history_digest"), row.get("issued_at")
            logged = event.get("sequence"), event.get("history_digest"), event.get("at")
            if logged != shown:
                raise Contradiction(
                    f"{self._log}: event {event.get('id')} says that version {logged[0]} of {kind} "
                    f"is {logged[1]}, issued at {logged[2]}, but version {sequence} in {path} is "
                    f"{shown[1]}, issued at {shown[2]}"
                )

    def _check_unlogged(
        self, kind: str, row: Listed, recorded: Sequence[Listed], known: Sequence[Listed]
    ) -> None:
        """Require an event for a version that is not new. Versions are logged in order."""
        at = datetime.fromisoformat(row.get("issued_at", ""))
        what = f"{self._log}: no event records version {row['sequence']} of {kind}, issued at"
        if recorded and at + LOGGED_WITHIN < _newest_time(recorded):
            raise Contradiction(f"{what} {at.isoformat()}, but events record later versions")
        if not known or at + LOGGED_WITHIN < _newest_time(known):
            raise NotAudited(
                f"{what} {at.isoformat()}. Unless the collector is down, it is hidden: run the "
                "audit again later"
            )

    def _require_none_removed(
        self, kind: str, row: Listed, last: int, removed: Sequence[int]
    ) -> None:
        """Nobody can tell whether a removed event was that of a version."""
        if removed and removed[-1] > last:
            raise NotAudited(
                f"{self._log}: no event records version {row['sequence']} of {kind}, and the text "
                f"of event {removed[-1]} was removed, so it may be hidden there: run the audit "
                "again later"
            )


def _text_digest(event: Listed) -> str:
    """The digest of an event's text; what has no canonical text was never logged."""
    from rfc8785 import dumps  # noqa: PLC0415 - an extra, as cryptography, which is here by now

    try:
        return sha256(dumps(event)).hexdigest()
    except (ValueError, RecursionError) as error:
        return f"of no text ({error})"


def _newest_time(events: Sequence[Listed]) -> datetime:
    return max(map(_time_of, events))


def _time_of(event: Listed) -> datetime:
    return datetime.fromisoformat(event.get("at", ""))


def _time(at: int) -> str:
    return datetime.fromtimestamp(min(at, 2**37), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
