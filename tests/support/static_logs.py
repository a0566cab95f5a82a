"""The public files of a service, made without its code or the client's.

A tampered service differs in one of the things that it shows: the entries, the tiles and the tree
that is signed of its log, the texts of events, and the lists of stances.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import httpx2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

URL = "https://barograph.example"
ORIGIN = "barograph.example/history/"
START = 1_780_000_000
"""The time of the first entry, in seconds."""


def private_key(number: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


def text_of(number: int) -> bytes:
    """A recorded text, whose digest is logged."""
    return f'{{"id":{number}}}'.encode()


def event_text(number: int, at: int = START, **others: str) -> bytes:
    """The text of an event that names no version, or what is left of it."""
    event = {"at": _iso(at), "id": number, **others, "type": "regime.changed"}
    return json.dumps(event, separators=(",", ":")).encode()


def digests(count: int) -> list[bytes]:
    return [sha256(text_of(number)).digest() for number in range(count)]


def root_of(entries: Sequence[bytes]) -> bytes:
    """The RFC 6962 root, by its recursive definition."""
    if len(entries) < 2:
        return sha256(b"".join(b"\0" + each for each in entries)).digest()
    half = 1
    while half * 2 < len(entries):
        half *= 2
    return sha256(b"\1" + root_of(entries[:half]) + root_of(entries[half:])).digest()


def path_of(entries: Sequence[bytes], index: int) -> list[bytes]:
    """The RFC 6962 inclusion proof, by its recursive definition."""
    if len(entries) < 2:
        return []
    half = 1
    while half * 2 < len(entries):
        half *= 2
    if index < half:
        return [*path_of(entries[:half], index), root_of(entries[half:])]
    return [*path_of(entries[half:], index - half), root_of(entries[:half])]


def verifier(key: Ed25519PrivateKey, name: str, kind: int = 1) -> str:
    public = bytes([kind]) + key.public_key().public_bytes_raw()
    return f"{name}+{key_id(name, public).hex()}+{b64encode(public).decode()}"


def key_id(name: str, public: bytes) -> bytes:
    return sha256(name.encode() + b"\n" + public).digest()[:4]


def signature(text: str, key: Ed25519PrivateKey, name: str, at: int | None = None) -> str:
    """The line of a log's signature or, with a time, of a witness's cosignature."""
    kind = b"\1" if at is None else b"\4"
    stamp = b"" if at is None else at.to_bytes(8)
    message = text if at is None else f"cosignature/v1\ntime {at}\n{text}"
    found = key_id(name, kind + key.public_key().public_bytes_raw()) + stamp
    return f"— {name} {b64encode(found + key.sign(message.encode())).decode()}\n"


def tiles(entries: Sequence[bytes]) -> dict[str, bytes]:
    """Every tile of a tree of at most 256 x 256 entries."""
    lower = [sha256(b"\0" + each).digest() for each in entries]
    full = len(entries) // 256
    upper = [root_of(entries[at * 256 : at * 256 + 256]) for at in range(full)]
    return {**_cut("tile/0/", lower), **_cut("tile/1/", upper)}


def bundles(entries: Sequence[bytes]) -> dict[str, bytes]:
    return _cut("tile/entries/", [b"\0\x20" + each for each in entries])


def _cut(folder: str, parts: Sequence[bytes]) -> dict[str, bytes]:
    found = {}
    for number in range((len(parts) + 255) // 256):
        some = parts[number * 256 : number * 256 + 256]
        partial = "" if len(some) == 256 else f".p/{len(some)}"
        found[f"{folder}{number:03}{partial}"] = b"".join(some)
    return found


@dataclass
class StaticLog:
    """What is served of a log. Change a member to tamper with it."""

    name: str
    entries: list[bytes]
    key: Ed25519PrivateKey = field(default_factory=lambda: private_key(1))
    witnesses: dict[str, int] = field(default_factory=dict)
    """When each witness cosigns; its name ends in the number of its key."""

    folder: str = ORIGIN

    def __post_init__(self) -> None:
        self.tiled, self.signed = [*self.entries], [*self.entries]

    @property
    def origin(self) -> str:
        return self.folder + self.name

    @property
    def note(self) -> str:
        return self.sign(self.signed)

    def sign(self, entries: Sequence[bytes], last: str = "") -> str:
        root = b64encode(root_of(entries)).decode()
        text = f"{self.origin}\n{len(entries)}\n{root}\n{last}"
        lines = [
            signature(text, private_key(int(name[-1])), name, at)
            for name, at in self.witnesses.items()
        ]
        return f"{text}\n{signature(text, self.key, self.origin)}{''.join(lines)}"

    def files(self) -> dict[str, bytes]:
        found = {**bundles(self.entries), **tiles(self.tiled), "checkpoint": self.note.encode()}
        path = self.origin[self.origin.index("/") :]
        return {f"{path}/{each}": body for each, body in found.items()}

    def published(self) -> dict[str, str]:
        return {"checkpoint": self.note, "verifier": verifier(self.key, self.origin)}


class StaticList:
    """A list of the API, of versions or of withdrawals."""

    def __init__(self, name: str, listed: list[bytes]) -> None:
        self.name, self.listed = name, listed
        self.first = 1
        """The number of the first entry."""

        self.times = [START + 60 * number for number in range(len(listed))]

    @property
    def members(self) -> tuple[str, str]:
        is_of_versions = "/" not in self.name
        return ("history_digest", "issued_at") if is_of_versions else ("event_digest", "at")

    def page(self, after: int, limit: int, lacking: int) -> dict[str, Any]:
        digest, at = self.members
        count = len(self.listed) - lacking
        numbers = range(after, min(after + limit, count))
        rows = [
            {
                "sequence": each + self.first,
                digest: self.listed[each].hex(),
                at: _iso(self.times[each]),
            }
            for each in numbers
        ]
        return {"entries": rows, "next": after + limit if after + limit < count else None}

    def event(self, number: int, sequence: int) -> bytes:
        """The text of the event of an entry."""
        kind, _, _ = self.name.partition("/")
        digest = self.members[0]
        text = {
            "at": _iso(self.times[sequence - 1]),
            digest: self.listed[sequence - 1].hex(),
            "id": number,
            "kind": kind,
            "sequence": sequence,
            "type": "stance.recorded" if digest == "history_digest" else "stance.withdrawn",
        }
        return json.dumps(text, separators=(",", ":")).encode()


class StaticService:
    """Serves the log to a client. `replies` answer first, and `files` before what is computed."""

    def __init__(self) -> None:
        self.versions = StaticList("rates-desk", digests(3))
        self.withdrawals = StaticList("rates-desk/events", digests(1))
        self.texts = [event_text(number) for number in range(1, 601)]
        self.record(1, 2, 3)
        self.late: dict[str, float] = {}
        """For how many seconds the list at a path lacks its last entry."""

        self.asked: list[str] = []
        self.waited = 0.0
        self.previous_keys: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.replies: dict[str, list[httpx2.Response]] = {}
        self.transport = httpx2.MockTransport(self._answer)

    def record(self, *sequences: int) -> None:
        """Log a withdrawal, and these versions from the fifth event on."""
        self.texts[3] = self.withdrawals.event(4, 1)
        for number, sequence in enumerate(sequences, 5):
            self.texts[number - 1] = self.versions.event(number, sequence)
        self.log = StaticLog("events", [sha256(each).digest() for each in self.texts])

    def checkpoint(self) -> str:
        """The body of `/api/history/checkpoint`."""
        return json.dumps({**self.log.published(), "previous_keys": self.previous_keys})

    def rotate(self, new: Ed25519PrivateKey, *, signer: Ed25519PrivateKey | None = None) -> None:
        """Replace the key; its last checkpoint is signed by itself, or by another signer."""
        old, log = self.log.key, self.log
        log.key = signer or old
        last = log.sign(log.signed, f"successor {verifier(new, log.origin)}\n")
        public = b64encode(old.public_key().public_bytes_raw()).decode()
        self.previous_keys.append({"public_key": public, "checkpoints": [last]})
        log.key = new

    async def wait(self, seconds: float) -> None:
        self.waited += seconds

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        self.asked.append(str(request.url))
        if self.replies.get(path):
            return self.replies[path].pop(0)
        body = self._body(path, request.url.params)
        return httpx2.Response(404) if body is None else httpx2.Response(200, content=body)

    def _body(self, path: str, query: httpx2.QueryParams) -> bytes | None:
        lacking = 1 if self.waited < self.late.get(path, 0) else 0
        if path == "/api/history/checkpoint":
            return self.checkpoint().encode()
        if path.startswith("/api/history/"):
            lists = {
                f"/api/history/{each.name}": each for each in (self.versions, self.withdrawals)
            }
            listed = lists.get(path, StaticList("empty", []))
            page = listed.page(int(query["after"]), int(query["limit"]), lacking)
            return json.dumps(page).encode()
        if path == "/api/v1/events":
            after, limit = int(query["after"]), int(query["limit"])
            texts = self.texts[: len(self.texts) - lacking]
            return b'{"events":[' + b",".join(texts[after : after + limit]) + b"]}"
        return {**self.log.files(), **self.files}.get(path)


def _iso(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
