"""Download the log of a service, and check it against its signatures and what you kept.

What is downloaded is checked in a fixed order, so the same log always leads to the same first
contradiction.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import pairwise
from typing import NamedTuple

from barograph_client.audit.files import EVENTS, Listed, LogFiles, Progress
from barograph_client.audit.notes import (
    LOG,
    LOG_KEY,
    SignedCheckpoint,
    parse_checkpoint,
    parse_key,
    signed_at,
    split_origin,
)
from barograph_client.audit.trees import WIDTH, leaf_hash, tile_path, tree_root
from barograph_client.audit.trust import (
    Kept,
    Published,
    Trusted,
    is_signed_by,
    readable,
    require_trusted_key,
)
from barograph_client.calls import Call
from barograph_client.clients import AsyncBarograph
from barograph_client.decode import record
from barograph_client.errors import Contradiction, NotAudited, NotFound

CHECKPOINT = "/api/history/checkpoint"
KINDS = ("btc-etf-stance", "funding-regime-stance", "rates-desk")
CLOCK_SECONDS = 600
"""How far the clocks of two hosts may be apart, or a clock may be set back."""

LOGGED_WITHIN = timedelta(hours=1)
"""A version is logged as an event within seconds, but not while the collector is down."""

WITHOUT_TEXT = {"id", "type", "at", "notice", "removed"}
"""What is left of an event whose text was removed."""

VERSION, WITHDRAWAL = "stance.recorded", "stance.withdrawn"
MERGED = "history.merged"
NEVER_REMOVED = {"accuracy.defined", "reveal.announced", MERGED, VERSION, WITHDRAWAL}


class _List(NamedTuple):
    """A list under `/api/history`, and the events that its entries have in the log."""

    kind: str
    event_type: str
    digest: str
    at: str
    what: str

    @property
    def name(self) -> str:
        """Its path, and the name of the log that it had before there was one for everything."""
        return self.kind if self.event_type == VERSION else f"{self.kind}/events"

    @property
    def path(self) -> str:
        return f"/api/history/{self.name}"


class _Head(NamedTuple):
    """What was signed of a log that a kind had of its own."""

    log: str
    size: int
    root: str
    notes: tuple[str, ...] = ()


def _lists_of(kind: str) -> tuple[_List, _List]:
    return (
        _List(kind, VERSION, "history_digest", "issued_at", "version"),
        _List(kind, WITHDRAWAL, "event_digest", "at", "withdrawal"),
    )


@record
class AuditedLog:
    """A log in which no contradiction was found."""

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
    kept_lists: Mapping[str, int]
    """The sizes that you kept of earlier logs, such as `rates-desk`: their lists still agree."""

    tiles: int
    requests: int
    texts: int
    removed: tuple[int, ...]
    """The events whose texts were removed, by number."""

    newest_at: str
    """The newest time of an entry, as the service states it; empty if there is none."""

    checkpoint: str


async def audit_log(
    client: AsyncBarograph,
    trusted: Trusted,
    progress: Progress = lambda _requests: None,
) -> AuditedLog:
    """Audit the log, and the lists of stances against it.

    Raises:
        Contradiction: the service contradicts itself, a signature or what you kept.
        ClientError: the audit could not be finished, which says nothing about the log.
    """
    published = await client.run(client.reader.read(Call(CHECKPOINT, Published)))
    return await _Audit(client, trusted, published, progress).run()


class _Audit:
    def __init__(
        self, client: AsyncBarograph, trusted: Trusted, published: Published, progress: Progress
    ) -> None:
        self._trusted, self._published = trusted, published
        with readable(CHECKPOINT):
            self._listed = parse_checkpoint(published.checkpoint)
            self._key = parse_key(published.verifier, LOG_KEY)
        path, log = split_origin(self._listed.origin)
        shown = published.size, published.root
        if shown not in {(self._listed.size, self._listed.root.hex()), (None, None)}:
            raise Contradiction(
                f"{CHECKPOINT} says size {shown[0]} and root {shown[1]}, but its signed checkpoint "
                "says otherwise",
                published.checkpoint,
            )
        if log != LOG:
            raise NotAudited(f"{CHECKPOINT} has the log {log}: use a newer version of this program")
        self._address, url = self._listed.origin.removesuffix(path), client.reader.base_url
        self._audited = url.partition("://")[2].rpartition("@")[2].lower()
        self._files = LogFiles(client, path, progress)
        kept = trusted.kept.get(LOG)
        self._kept = None if kept is None else kept.checkpoint

    async def run(self) -> AuditedLog:
        key_from = require_trusted_key(self._key, self._published, self._trusted)
        # Without a key from elsewhere, only the address says which log this is.
        if key_from == "the service" and self._address != self._audited:
            raise NotAudited(
                f"this is a log of {self._address}, but you audit {self._audited}. If "
                "the operator says that this is its origin, name its key with --key"
            )
        with readable(f"{self._files.path}/checkpoint"):
            newest = parse_checkpoint((await self._files.get("checkpoint")).decode())
        self._require_not_retired(newest)
        self._require_signed(newest)
        cosigned = self._trusted.policy.require_quorum(newest)
        signed = self._signed(newest)
        entries = await self._entries(newest)
        leaves = [leaf_hash(entry) for entry in entries]
        tiles = await self._check_tiles(leaves)
        self._check_roots(leaves, signed)
        self._require_growth(newest)
        removed, newest_at = await self._check_texts(entries[: newest.size], newest)
        return AuditedLog(
            origin=newest.origin,
            size=newest.size,
            root=newest.root.hex(),
            key=self._key.text,
            key_from=key_from,
            cosigned={name: _time(at) for name, at in cosigned.items()},
            witnesses=len(self._trusted.policy.witnesses),
            kept_size=None if self._kept is None else self._kept.size,
            kept_lists={log: kept.size for log, (kept, _) in self._earlier().items()},
            tiles=tiles,
            requests=1 + self._files.requests,
            texts=newest.size - len(removed),
            removed=tuple(removed),
            newest_at=newest_at,
            checkpoint=newest.note,
        )

    def _require_signed(self, checkpoint: SignedCheckpoint) -> None:
        if checkpoint.origin != self._key.name or signed_at(checkpoint, self._key) is None:
            raise Contradiction(
                f"a served checkpoint of {checkpoint.size} entries is not signed by "
                f"{self._key.text}",
                checkpoint.note,
            )

    def _require_not_retired(self, checkpoint: SignedCheckpoint) -> None:
        """Tell a cached checkpoint from before a change of the key from a forged one."""
        retired = {public for public, _, _ in self._published.last_checkpoints()}
        retired.discard(self._key.public)  # it signed under another name before
        if any(is_signed_by(checkpoint, public) for public in retired):
            raise NotAudited(
                f"a retired key signed the served checkpoint of {checkpoint.size} "
                "entries. It may be an old copy in a cache: run the audit again"
            )

    def _signed(self, newest: SignedCheckpoint) -> list[tuple[str, SignedCheckpoint]]:
        """The signed checkpoints that the entries must agree with, the newest first."""
        self._require_signed(self._listed)
        found = [(f"the one in {CHECKPOINT}", self._listed)]
        for public, last, successor in self._published.last_checkpoints():
            # A last checkpoint speaks for the log that it names, not for a later one.
            if successor and successor.name == self._key.name and is_signed_by(last, public):
                found.append(("the last one of a retired key", last))
        if self._kept is not None:
            found.insert(0, ("the one that you kept", self._kept))
        for what, other in found:
            if other.size == newest.size and other.root != newest.root:
                raise Contradiction(
                    f"two signed checkpoints of {newest.size} entries have different "
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
            f"the log has {newest.size} entries, but the checkpoint that you kept "
            f"has {kept.size}: {kept.size - newest.size} were removed",
            kept.note,
            newest.note,
        )

    def _require_growth(self, newest: SignedCheckpoint) -> None:
        kept = self._kept or newest
        if kept.size > newest.size:
            raise NotAudited(
                f"the served checkpoint has {newest.size} entries, fewer than the "
                f"{kept.size} that you kept, but {CHECKPOINT} has {self._listed.size}. It waits "
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
                        f"{source} gives the hash {computed.hex()}, but "
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
                    f"the first {signed.size} entries give the root {computed.hex()}, "
                    f"but a signed checkpoint, {what}, says {signed.root.hex()}: entries were "
                    "changed, removed or reordered",
                    *dict.fromkeys((signed.note, checkpoints[0][1].note)),
                )

    def _require_complete(
        self, path: str, listed: Sequence[Listed], size: int, newest: SignedCheckpoint
    ) -> None:
        """The checkpoint was read first, so an honest list has all of its entries by now."""
        if len(listed) < size:
            raise Contradiction(
                f"{path} lacks number {len(listed) + 1}, even when asked again after a minute, but "
                f"the log in the signed checkpoint of {newest.size} entries has {size}",
                newest.note,
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
                    f"event {number} in {EVENTS} has the SHA-256 digest "
                    f"{computed}, but its entry is {entry.hex()}: it is not the text that was "
                    "logged"
                )
        self._require_complete(EVENTS, listed, newest.size, newest)
        known = [event for event in listed if "removed" not in event]
        with readable(EVENTS):
            await self._check_lists(known, removed, newest)
            return removed, max(known, key=_time_of)["at"] if known else ""

    def _check_removed(self, number: int, event: Listed) -> None:
        """A removed text can't be compared with its digest, so nothing else may hide in there."""
        is_bare = event.keys() == WITHOUT_TEXT and event["id"] == number
        if not is_bare or str(event["type"]) in NEVER_REMOVED:
            raise Contradiction(
                f"event {number} in {EVENTS} is marked as removed, but has other "
                "members than a removed one, another id, or a type that is never removed"
            )

    async def _check_lists(
        self, known: Sequence[Listed], removed: Sequence[int], newest: SignedCheckpoint
    ) -> None:
        """Compare the lists of stances with their events, and with earlier logs."""
        digests: dict[str, list[str]] = {}
        types = {VERSION, WITHDRAWAL}
        kinds = {str(event.get("kind")) for event in known if event.get("type") in types}
        for kind in sorted(kinds.union(KINDS)):
            for each in _lists_of(kind):
                events = [
                    event
                    for event in known
                    if (event.get("type"), event.get("kind")) == (each.event_type, kind)
                ]
                rows = await self._files.listed_all(each.path, len(events))
                self._require_complete(each.path, rows, len(events), newest)
                self._check_rows(each, rows, events)
                if unlogged := rows[len(events) :]:
                    last = events[-1]["id"] if events else 0
                    self._check_unlogged(each, unlogged[0], known)
                    self._require_none_removed(each, unlogged[0], last, removed)
                digests[each.name] = [row[each.digest] for row in rows]
        self._check_earlier_logs(digests, known)

    def _check_rows(self, of: _List, rows: Sequence[Listed], events: Sequence[Listed]) -> None:
        """Require that the events are the entries of the list, each once and in order."""
        for sequence, row in enumerate(rows, 1):
            if row.keys() != {"sequence", of.digest, of.at} or row["sequence"] != sequence:
                raise Contradiction(
                    f"{of.path} has {of.what} {str(row.get('sequence'))[:20]} as number "
                    f"{sequence}, with the members {', '.join(row)[:200]}"
                )
        for sequence, (event, row) in enumerate(zip(events, rows, strict=False), 1):
            shown = sequence, row[of.digest], row[of.at]
            logged = event.get("sequence"), event.get(of.digest), event.get("at")
            if logged != shown:
                raise Contradiction(
                    f"event {event.get('id')} says that {of.what} {logged[0]} of {of.kind} is "
                    f"{logged[1]}, of {logged[2]}, but number {sequence} in {of.path} is "
                    f"{shown[1]}, of {shown[2]}"
                )
        times = [datetime.fromisoformat(row[of.at]) for row in rows]
        for sequence, (one, two) in enumerate(pairwise(times), 2):
            if (one - two).total_seconds() > CLOCK_SECONDS:
                raise Contradiction(
                    f"{of.path}: number {sequence} has the time {two.isoformat()}, before number "
                    f"{sequence - 1} with {one.isoformat()}: it was back-dated, or the clock was "
                    "set back"
                )
        if of.event_type == VERSION and self._kept is not None:
            self._check_against_witnesses(self._kept, events)

    def _check_against_witnesses(self, kept: SignedCheckpoint, events: Sequence[Listed]) -> None:
        """Find a version that is dated before witnesses saw the log without it."""
        witnessed = min(self._trusted.policy.cosigners(kept).values(), default=0)
        for event in events:
            is_dated_before = _time_of(event).timestamp() < witnessed - CLOCK_SECONDS
            if event["id"] > kept.size and is_dated_before:
                raise Contradiction(
                    f"event {event['id']} records a version of {event['kind']} with the time "
                    f"{event['at']}, but witnesses saw the log end at event {kept.size} on "
                    f"{_time(witnessed)}: it was back-dated",
                    kept.note,
                )

    def _check_unlogged(self, of: _List, row: Listed, known: Sequence[Listed]) -> None:
        """Require an event for an entry that is not new. They are logged in order."""
        at = datetime.fromisoformat(row[of.at])
        alike = [event for event in known if event.get("type") == of.event_type]
        what = f"no event records {of.what} {row['sequence']} of {of.kind}, of {at.isoformat()}"
        if alike and at + LOGGED_WITHIN < _newest_time(alike):
            raise Contradiction(f"{what}, but events record later {of.what}s")
        if not known or at + LOGGED_WITHIN < _newest_time(known):
            raise NotAudited(
                f"{what}. Unless the collector is down, it is hidden: run the audit again later"
            )

    def _require_none_removed(
        self, of: _List, row: Listed, last: int, removed: Sequence[int]
    ) -> None:
        """Nobody can tell whether a removed event was that of a version."""
        if removed and removed[-1] > last:
            raise NotAudited(
                f"no event records {of.what} {row['sequence']} of {of.kind}, and the text of event "
                f"{removed[-1]} was removed, so it may be hidden there: run the audit again later"
            )

    def _earlier(self) -> dict[str, Kept]:
        """What you kept of earlier logs."""
        return {log: kept for log, kept in self._trusted.kept.items() if log != LOG}

    def _check_earlier_logs(
        self, digests: Mapping[str, Sequence[str]], known: Sequence[Listed]
    ) -> None:
        """Recompute the heads of the logs that each kind had of its own, from its lists."""
        heads = [
            _Head(split_origin(log["origin"])[1], log["size"], log["root"])
            for event in known
            if event.get("type") == MERGED
            for log in event["logs"]
        ]
        heads += [
            _Head(log, kept.size, kept.root.hex(), (kept.note,))
            for log, (kept, _) in self._earlier().items()
        ]
        for log, size, root, notes in heads:
            entries = [bytes.fromhex(each) for each in digests.get(log, ())[:size]]
            computed = tree_root([leaf_hash(entry) for entry in entries]).hex()
            if (len(entries), computed) != (size, root):
                raise Contradiction(
                    f"/api/history/{log}: its first {size} entries give the root {computed}, but a "
                    f"signed checkpoint says {root}: entries were changed, removed or reordered",
                    *notes,
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
