"""The simulated witnesses of the demo's log: https://c2sp.org/tlog-witness, version 1.1.

Three names and keys on one server. They check what real ones check, but they run on the machine
whose log they cosign. So they prove nothing.
"""

import asyncio
import re
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.http11 import Response

from barograph.history import checkpoint as notes
from barograph.history.merkle import EMPTY_ROOT, is_consistent
from barograph.kit.clock import Clock
from barograph.kit.timestamps import SECOND
from barograph_client.audit.notes import TIME, WITNESS_KEY, Key
from barograph_demo.files import replace_file
from barograph_demo.servers.control import HOST, OTHER, TEXT, reply, unavailable
from barograph_demo.servers.faults import WITNESSES, WitnessFault, WitnessFaults
from barograph_demo.servers.http import BodyRequest, BodyServer
from barograph_demo.servers.wallets import derived_secret

POLICY_FILE: Final = "witness-policy"
TREES_FILE: Final = "witnesses.json"

_Trees = dict[str, tuple[int, bytes]]
"""The size and root that each witness cosigned last, by its name and the log's."""

_OLD: Final = re.compile("old (0|[1-9][0-9]{0,17})", re.ASCII)
_CALLS: Final = {("POST", f"/{name}/add-checkpoint") for name in WITNESSES}


def write_policy(data: Path, port: int) -> None:
    """Write the policy for the witnesses on a port: two of three must cosign."""
    keys = {name: _key(data, name)[1].text for name in WITNESSES}
    lines = [f"witness {name} {key} http://{HOST}:{port}/{name}" for name, key in keys.items()]
    lines += [f"group two-of-three 2 {' '.join(WITNESSES)}", "quorum two-of-three", ""]
    replace_file(data / POLICY_FILE, "\n".join(lines).encode())


def _key(data: Path, name: str) -> tuple[Ed25519PrivateKey, Key]:
    key = Ed25519PrivateKey.from_private_bytes(derived_secret(data, name))
    named = f"{name.replace('-', '-witness-')}.demo.example"
    return key, Key(named, WITNESS_KEY, notes.public_bytes(key))


def _cosign(text: str, key: Ed25519PrivateKey, verifier: Key, seconds: int) -> str:
    signature = key.sign(f"cosignature/v1\ntime {seconds}\n{text}".encode())
    signed = verifier.key_id + seconds.to_bytes(TIME, "big") + signature
    return notes.signature_line(verifier.name, signed)


class WitnessServer(BodyServer[WitnessFaults]):
    """Cosigns only the demo's log. The operator may replace its key and name."""

    def __init__(
        self, data: Path, log: Callable[[], Key], clock: Clock, faults: WitnessFaults
    ) -> None:
        """Continue with the trees that the witnesses cosigned last."""
        super().__init__(clock, faults)
        self._log = log
        self._data = data
        self._file = data / TREES_FILE
        try:
            self._trees = msgspec.json.decode(self._file.read_bytes(), type=_Trees)
        except (FileNotFoundError, msgspec.MsgspecError):
            self._trees = {}  # as a new witness

    async def respond(self, request: BodyRequest, _client: asyncio.StreamReader) -> Response | None:
        """Answer a request."""
        name = request.path[1:].removesuffix("/add-checkpoint")
        self.requests[name if name in WITNESSES else OTHER] += 1
        if (request.method, request.path) not in _CALLS:
            return reply(HTTPStatus.NOT_FOUND, b"not found\n", TEXT)
        if self._faults.is_on(WitnessFault.OUTAGE, name):
            return unavailable()
        log = await asyncio.to_thread(self._log)
        status, text = self._answer(name, request.body, log)
        kind = "text/x.tlog.size" if status == HTTPStatus.CONFLICT else f"{TEXT}; charset=utf-8"
        return reply(status, text.encode(), kind)

    def _answer(self, name: str, body: bytes, log: Key) -> tuple[HTTPStatus, str]:
        head, _, note = body.decode(errors="replace").partition("\n\n")
        try:
            old, proof = _parse_head(head)
            origin, size, _ = notes.parse_checkpoint(note.rpartition("\n\n")[0])
        except notes.CheckpointRefused as error:
            return HTTPStatus.BAD_REQUEST, f"{error}\n"
        if origin != log.name:
            return HTTPStatus.NOT_FOUND, "unknown log\n"
        try:
            notes.open_checkpoint(note, log)
        except notes.CheckpointRefused as error:
            return HTTPStatus.FORBIDDEN, f"{error}\n"
        if old > size:
            return HTTPStatus.BAD_REQUEST, "the old size is larger than the new one\n"
        return self._extend(name, old, proof, note.rpartition("\n\n")[0] + "\n")

    def _extend(self, name: str, old: int, proof: list[bytes], text: str) -> tuple[HTTPStatus, str]:
        """Cosign a checkpoint that the log has signed, if it continues the newest tree."""
        origin, size, root = notes.parse_checkpoint(text)
        known, known_root = self._trees.get(f"{name} {origin}", (0, EMPTY_ROOT))
        if old != known:
            return HTTPStatus.CONFLICT, f"{known}\n"
        is_tree = size > 0 or root == EMPTY_ROOT
        grows = is_tree and is_consistent(old, known_root, size, root, proof)
        if not grows or self._faults.is_on(WitnessFault.FORK, name):
            return HTTPStatus.UNPROCESSABLE_ENTITY, "this contradicts the tree that we cosigned\n"
        self._trees[f"{name} {origin}"] = size, root
        replace_file(self._file, msgspec.json.encode(self._trees))
        return HTTPStatus.OK, _cosign(text, *_key(self._data, name), self._clock() // SECOND)


def _parse_head(head: str) -> tuple[int, list[bytes]]:
    first, *lines = head.split("\n")
    found = _OLD.fullmatch(first)
    if found is None:
        raise notes.CheckpointRefused("the first line is not the old size")
    return int(found[1]), [notes.decode_base64(line) for line in lines]
