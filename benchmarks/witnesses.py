"""How soon a recorded stance is listed, with witnesses that fail and without any.

Three services run side by side, each with its collector. One of them has three witnesses: one
cosigns whatever it gets, one accepts connections and never answers, and nothing listens at the
third address.
"""

import asyncio
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from select import select
from statistics import median
from threading import Thread
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.history.checkpoint import parse_checkpoint, public_bytes, signature_line
from barograph.history.ledger import Ledger
from barograph.kit.clock import system_clock
from barograph.kit.sqlite import SQLiteDatabase
from barograph.settings import Settings
from barograph_client.audit.notes import TIME, WITNESS_KEY, Key
from benchmarks import bench
from benchmarks.ledger import proposal
from benchmarks.market import Live, live_service

KIND = "rates-desk"
STANCES = 20
LONGEST_SECONDS = 30
BOUND = 1.1
SIGNER = Ed25519PrivateKey.from_private_bytes(bytes(32))


class _Witness(BaseHTTPRequestHandler):
    """Cosigns every checkpoint."""

    def do_POST(self) -> None:
        """Answer `add-checkpoint`."""
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        checkpoint, at = parse_checkpoint(body.split("\n\n")[1]), int(time.time())
        text = f"cosignature/v1\ntime {at}\n{checkpoint.text}"
        signature = _key("first").key_id + at.to_bytes(TIME) + SIGNER.sign(text.encode())
        self.send_response(200)
        self.end_headers()
        self.wfile.write(signature_line(_key("first").name, signature).encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _key(name: str) -> Key:
    own = SIGNER if name == "first" else Ed25519PrivateKey.generate()
    return Key(f"{name}.example/w", WITNESS_KEY, public_bytes(own))


class _Service(NamedTuple):
    live: Live
    ledger: Ledger

    def seconds(self, number: int) -> float:
        """Record a version; return how long that took, until the list has it.

        Raises:
            BenchmarkFailed: the list never has it.
        """
        started = time.monotonic()
        version = asyncio.run(self.ledger.append(proposal(number, KIND))).version
        digest = version.history_digest.encode()
        with closing(HTTPConnection(bench.HOST, self.live.web_port, timeout=5)) as connection:
            while (taken := time.monotonic() - started) < LONGEST_SECONDS:
                connection.request("GET", f"/api/history/{KIND}?after={version.sequence - 1}")
                if digest in connection.getresponse().read():
                    return time.monotonic() - started
        raise bench.BenchmarkFailed(f"a recorded stance is not listed after {taken:.0f} s")


def delay_figures(plan: bench.Plan, folder: Path) -> list[bench.Figure]:
    """Record stances in turn at services with and without witnesses."""
    print("witnesses: starting three services", file=sys.stderr)
    with ExitStack() as stack:
        policy, hanging = stack.enter_context(_witnesses(folder / "policy"))
        policies = {"plain": None, "witnessed": policy, "twin": None}
        services = {
            name: stack.enter_context(_service(folder / name, each))
            for name, each in policies.items()
        }
        _require_witnessed(services["witnessed"].live, hanging, 0)
        taken = _alternate(services, plan.rounds)
        _require_witnessed(services["witnessed"].live, hanging, STANCES)
    name = "time until a stance is listed: failing witnesses / none"
    return [
        *bench.between(taken, name, "none", BOUND, bench.at_most),
        bench.Figure("  median without witnesses", f"{1000 * median(taken['plain']):,.1f} ms"),
    ]


def _alternate(services: dict[str, _Service], rounds: int) -> bench.Rates:
    """One stance each in turn, forwards and backwards; the median of each round but the first."""
    taken: bench.Rates = {name: [] for name in services}
    for number in range((rounds + 1) * STANCES):
        for name in list(services)[:: 1 if number % 2 == 0 else -1]:
            taken[name].append(services[name].seconds(number))
    starts = range(STANCES, (rounds + 1) * STANCES, STANCES)
    return {
        name: [median(found[start : start + STANCES]) for start in starts]
        for name, found in taken.items()
    }


@contextmanager
def _service(folder: Path, policy: Path | None) -> Iterator[_Service]:
    folder.mkdir()
    with live_service(folder, witness_policy=policy) as live:
        history = SQLiteDatabase(Settings(data=folder).history_path)
        yield _Service(live, Ledger(history, system_clock))
        asyncio.run(history.close())


@contextmanager
def _witnesses(policy: Path) -> Iterator[tuple[Path, socket.socket]]:
    """A policy of three witnesses, and the socket of the one that never answers."""
    with (
        ThreadingHTTPServer((bench.HOST, 0), _Witness) as server,
        socket.create_server((bench.HOST, 0), backlog=1024) as hanging,
    ):
        Thread(target=server.serve_forever, daemon=True).start()
        ports = (server.server_port, hanging.getsockname()[1], bench.unused_port())
        lines = [
            f"witness {name} {_key(name).text} http://{bench.HOST}:{port}\n"
            for name, port in zip(("first", "second", "third"), ports, strict=True)
        ]
        policy.write_text("".join(lines) + "quorum first\n")
        yield policy, hanging
        server.shutdown()


def _require_witnessed(live: Live, hanging: socket.socket, size: int) -> None:
    """Wait until a log is cosigned up to a size, and a silent witness has been asked."""

    def is_cosigned() -> bool | None:
        found = bench.answers(live.web_port, "/history/events/checkpoint")
        return None if found is None or int(found.body.split(b"\n")[1]) < size else True

    bench.until(is_cosigned, live.collector)
    bench.until(lambda: select([hanging], [], [], 0)[0] or None, live.collector)
