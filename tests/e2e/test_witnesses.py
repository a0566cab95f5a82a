"""Witnesses of another implementation cosign the logs of a running server, and refuse a fork."""

import asyncio
import json
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.collector.app import open_collector
from barograph.collector.jobs import WitnessJob
from barograph.collector.leader import collector_lease
from barograph.history.checkpoint import parse_checkpoint, public_bytes, verifier_of
from barograph.history.ledger import Ledger
from barograph.kit.clock import system_clock
from barograph.kit.sqlite import SQLiteDatabase
from barograph.settings import Settings
from barograph_client.audit.notes import WITNESS_KEY, Key
from support.history import RATES, proposal
from support.processes import HOST, eventually, get, unused_port
from support.published_server import published_server
from support.stances import make_history
from support.witnesses import cosign

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

BIN = Path(__file__).parents[2] / ".venv-witness/bin"
SECRET = bytes(range(32))
ORIGIN = f"log.example/history/{RATES}"
LOG_KEY = verifier_of(Ed25519PrivateKey.from_private_bytes(SECRET), ORIGIN).text
LIAR = Ed25519PrivateKey.from_private_bytes(bytes(32))

# Another implementation's reading of a whole log, from its tiles alone.
AUDIT = """
import sys
from aics_tlog import *
base, log_key, *keys = sys.argv[1:]
reader = HttpTileReader(base)
note = parse_note(reader.read_checkpoint())
found = verify_checkpoint(note, parse_vkey(log_key), [parse_vkey(each) for each in keys], 2)
assert found.ok, found
audit_tiles(reader, found.size, found.root)
for index in range(found.size):
    proof = inclusion_proof_from_tiles(reader, index, found.size)
    leaf = leaf_hash(read_entry(reader, index, found.size))
    assert verify_inclusion(leaf, index, found.size, proof, found.root)
print(found.size)
"""


class RealWitness:
    """A witness as its operator runs it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.port = folder, unused_port()
        folder.mkdir()
        self.key = self._command("init", "--name", f"witness.example/{folder.name}")
        self._command("add-log", "--origin", ORIGIN, "--vkey", LOG_KEY)

    def _command(self, *arguments: str) -> str:
        command = [str(BIN / "aics-witness"), *arguments]
        done = subprocess.run(command, cwd=self._folder, text=True, capture_output=True, check=True)
        return done.stdout.strip()

    @contextmanager
    def running(self) -> Iterator[None]:
        listen = ["serve", "--listen", f"{HOST}:{self.port}", "--log-level", "ERROR"]
        with subprocess.Popen([BIN / "aics-witness", *listen], cwd=self._folder) as process:
            try:
                eventually(lambda: get(f"http://{HOST}:{self.port}/healthz"), "the witness")
                yield
            finally:
                process.terminate()

    def evidence(self) -> int:
        logs = json.loads(self._command("status", "--json"))["logs"]
        return sum(each["evidence"] for each in logs)


class Liar(BaseHTTPRequestHandler):
    """Cosigns another root than the one that it was sent."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        sent = parse_checkpoint(body.split("\n\n")[1])
        line = cosign(sent._replace(root=bytes(32)), LIAR, "liar.example/w", system_clock())
        self.send_response(200)
        self.end_headers()
        self.wfile.write(line.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def lying(port: int) -> Iterator[None]:
    with HTTPServer((HOST, port), Liar) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


class Instance:
    """A running server, and its collector as far as it deals with witnesses."""

    def __init__(self, folder: Path, policy: Path, stack: ExitStack) -> None:
        folder.mkdir()
        values = {
            "base_url": "http://log.example",
            "history_key": b64encode(SECRET).decode(),
            "witness_policy": str(policy),
        }
        environment = {f"BAROGRAPH_{name.upper()}": value for name, value in values.items()}
        self.url = stack.enter_context(published_server(folder, workers=1, **environment))
        self._settings = Settings.model_validate({"data": folder / "data", **values})
        self.folder = f"{self.url}/history/{RATES}"

    def record(self, *numbers: int) -> None:
        async def work() -> None:
            history = SQLiteDatabase(self._settings.history_path)
            await make_history(history)
            for number in numbers:
                await Ledger(history, system_clock).append(proposal(number))
            await history.close()

        asyncio.run(work())

    def collect(self) -> None:
        """Ask every witness once."""

        async def work() -> None:
            async with open_collector(self._settings, system_clock) as collector:
                lease = collector_lease(self._settings, collector._database, system_clock)
                assert await lease.acquire()
                jobs = [each for each in collector._jobs if isinstance(each, WitnessJob)]
                assert len(jobs) == 3
                await asyncio.gather(*(each.run_once(lease) for each in jobs))
                await lease.release()

        asyncio.run(work())

    def size(self) -> int:
        answer = get(f"{self.folder}/checkpoint")
        assert answer is not None
        assert answer.status_code in (200, 503), answer.text
        return int(answer.text.split("\n")[1]) if answer.status_code == 200 else -1

    def recorded(self) -> int:
        answer = get(f"{self.url}/api/history/{RATES}")
        assert answer is not None
        return int(answer.json()["count"])

    def checks(self) -> dict[str, dict[str, Any]]:
        answer = get(f"{self.url}/api/status")
        assert answer is not None
        return {each["name"]: each for each in answer.json()["checks"]}


def test_two_of_three_witnesses_hold_the_log_and_refuse_a_rewritten_one(tmp_path: Path) -> None:
    a, b = RealWitness(tmp_path / "a"), RealWitness(tmp_path / "b")
    liar, port = Key("liar.example/w", WITNESS_KEY, public_bytes(LIAR)), unused_port()
    policy = tmp_path / "policy"
    policy.write_text(
        f"witness a {a.key} http://{HOST}:{a.port}\nwitness b {b.key} http://{HOST}:{b.port}\n"
        f"witness c {liar.text} http://{HOST}:{port}\ngroup g 2 a b c\nquorum g\n"
    )
    with ExitStack() as stack:
        stack.enter_context(a.running())
        instance = Instance(tmp_path / "ours", policy, stack)
        instance.record(0, 1, 2)
        assert instance.size() == -1
        with b.running():
            instance.collect()  # nobody listens as c
            eventually(lambda: instance.size() == 3, "a checkpoint with a quorum")
            assert audited(instance, a.key, b.key) == 3
            with lying(port):
                instance.record(*range(3, 300))
                instance.collect()
            eventually(lambda: instance.size() == 300, "a checkpoint in spite of the liar")
            assert audited(instance, a.key, b.key) == 300
            why = "the witness's signature does not match our checkpoint"
            eventually(lambda: why in instance.checks()["witness-c"]["detail"], "the lie")
        instance.record(300)
        instance.collect()
        assert (instance.size(), instance.recorded()) == (300, 301)

        rewritten = Instance(tmp_path / "rewritten", policy, stack)
        rewritten.record(*range(1, 303))
        rewritten.collect()
        eventually(lambda: rewritten.checks()["witness-a"]["status"] == "down", "the refusal")
        assert "do not trust this log" in rewritten.checks()["witness-a"]["detail"]
        assert rewritten.size() == -1
        assert a.evidence() >= 1


def audited(instance: Instance, *keys: str) -> int:
    """The size of the log that the other implementation verified."""
    command = [str(BIN / "python"), "-c", AUDIT, instance.folder, LOG_KEY, *keys]
    return int(subprocess.check_output(command, text=True))
