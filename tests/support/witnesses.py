"""A witness in this process, with the failures that witnesses have."""

import asyncio
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.errors import UpstreamError
from barograph.history.checkpoint import (
    Checkpoint,
    parse_checkpoint,
    public_bytes,
    signature_line,
)
from barograph.history.merkle import is_consistent
from barograph.history.witnesses import OtherSize, TreeRefused
from barograph.kit.timestamps import SECOND
from barograph_client.audit.notes import WITNESS_KEY, Key, Policy, parse_policy
from support.processes import HOST

Answer = Callable[[str, str], tuple[int, str]]
"""Takes the path and body of a request, and returns a status and a body."""


def cosign(checkpoint: Checkpoint, key: Ed25519PrivateKey, name: str, at: int) -> str:
    """A cosignature line, made from the specification."""
    verifier = Key(name, WITNESS_KEY, public_bytes(key))
    seconds = at // SECOND
    text = f"cosignature/v1\ntime {seconds}\n{checkpoint.text}"
    signature = seconds.to_bytes(8, "big") + key.sign(text.encode())
    return signature_line(name, verifier.key_id + signature)


class SimulatedWitness:
    """Cosigns what continues its newest tree; a test can make it fail or lie."""

    def __init__(self, name: str, seed: int, clock: Callable[[], int]) -> None:
        self.name = name
        self.key = Ed25519PrivateKey.from_private_bytes(bytes([seed] * 32))
        self.verifier = Key(f"{name}.example/w", WITNESS_KEY, public_bytes(self.key))
        self.failure: UpstreamError | None = None
        self.refusal: UpstreamError = TreeRefused("another tree")
        self.reply: Callable[[str], str] = lambda line: line
        self.seen: dict[str, Checkpoint] = {}
        self.asked = 0
        self._clock = clock

    async def add(self, old: int, proof: Sequence[bytes], note: str) -> str:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        new = parse_checkpoint(note.rpartition("\n\n")[0])
        last = self.seen.get(new.origin)
        if old != (0 if last is None else last.size):
            raise OtherSize(0 if last is None else last.size)
        if last is not None and not is_consistent(old, last.root, new.size, new.root, proof):
            raise self.refusal
        self.seen[new.origin] = new
        return self.reply(cosign(new, self.key, self.verifier.name, self._clock()))


class Witnesses:
    """Several witnesses, by their addresses."""

    def __init__(self, clock: Callable[[], int], *names: str) -> None:
        self.all = {name: SimulatedWitness(name, n, clock) for n, name in enumerate(names, 1)}
        self._lock = Lock()

    def policy(self, needed: int) -> Policy:
        return parse_policy(self.policy_text(needed))

    def policy_text(self, needed: int, address: str = "https://{}.example") -> str:
        lines = [
            f"witness {each.name} {each.verifier.text} {address.format(each.name)}"
            for each in self.all.values()
        ]
        return "\n".join([*lines, f"group g {needed} {' '.join(self.all)}", "quorum g"])

    async def add_checkpoint(self, url: str, old: int, proof: Sequence[bytes], note: str) -> str:
        name = url.removeprefix("https://").removesuffix(".example")
        return await self.all[name].add(old, proof, note)

    def answer(self, path: str, body: str) -> tuple[int, str]:
        """Answer a request to the witness that the path begins with."""
        head, _, note = body.partition("\n\n")
        old, *proof = head.removeprefix("old ").split("\n")
        hashes, witness = [b64decode(each) for each in proof], self.all[path.split("/")[1]]
        try:
            with self._lock:
                return 200, asyncio.run(witness.add(int(old), hashes, note))
        except OtherSize as error:
            return 409, f"{error.size}\n"
        except TreeRefused as error:
            return 422, str(error)


@contextmanager
def listening(port: int, answer: Answer) -> Iterator[None]:
    """Answer the requests to a port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            body = self.rfile.read(length)
            if len(body) < length:
                return  # the caller was killed
            status, text = answer(self.path, body.decode())
            with suppress(OSError):
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((HOST, port), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
