"""Witnesses of another implementation cosign the log of a running server, and refuse a fork."""

import json
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import support
from barograph.history.checkpoint import parse_checkpoint, public_bytes
from barograph.kit.clock import system_clock
from barograph_client.audit.notes import WITNESS_KEY, Key
from support import go
from support.processes import HOST, eventually, get, unused_port
from support.witnessed_server import LOG_KEY, ORIGIN, Instance
from support.witnesses import cosign, listening

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

BIN = go.WITNESS / "bin"
LIAR = Ed25519PrivateKey.from_private_bytes(bytes(32))
VerifyInGo = Callable[..., "subprocess.CompletedProcess[str]"]

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


def lie(_: str, body: str) -> tuple[int, str]:
    """Cosign another root than the one that was sent."""
    sent = parse_checkpoint(body.split("\n\n")[1])
    return 200, cosign(sent._replace(root=bytes(32)), LIAR, "liar.example/w", system_clock())


def test_two_of_three_witnesses_hold_the_log_and_refuse_a_rewritten_one(
    tmp_path: Path, verify_in_go: VerifyInGo
) -> None:
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
        earlier = instance.logged()  # other events
        assert instance.size() == -1
        with b.running():
            instance.collect()  # nobody listens as c
            eventually(lambda: instance.size() == earlier + 3, "a checkpoint with a quorum")
            assert audited(instance, verify_in_go, a.key, b.key) == earlier + 3
            with listening(port, lie):
                instance.record(*range(3, 300))
                instance.collect()
            eventually(lambda: instance.size() == earlier + 300, "a checkpoint despite the liar")
            assert audited(instance, verify_in_go, a.key, b.key) == earlier + 300
            why = "the witness's signature does not match our checkpoint"
            eventually(lambda: why in instance.checks()["witness-c"]["detail"], "the lie")
        with listening(port, lie):  # while b is dead
            instance.record(300)
            instance.collect()
        gone = f"{ORIGIN}: it can't be reached"
        eventually(lambda: gone in instance.checks()["witness-b"]["detail"], "the dead one")
        assert f"{ORIGIN}: {why}" in instance.checks()["witness-c"]["detail"]
        assert (instance.size(), instance.logged()) == (earlier + 300, earlier + 301)
        assert audited(instance, verify_in_go, a.key, b.key) == earlier + 300
        with b.running():
            instance.collect()
        eventually(lambda: instance.size() == earlier + 301, "a quorum again")

        rewritten = Instance(tmp_path / "rewritten", policy, stack)
        rewritten.record(*range(1, 303))
        rewritten.collect()
        eventually(lambda: rewritten.checks()["witness-a"]["status"] == "down", "the refusal")
        assert "do not trust this log" in rewritten.checks()["witness-a"]["detail"]
        assert rewritten.size() == -1
        assert a.evidence() >= 1


def audited(instance: Instance, verify_in_go: VerifyInGo, *keys: str) -> int:
    """The size of the log that the two other implementations verified."""
    command = [str(BIN / "python"), "-c", AUDIT, instance.folder, LOG_KEY, *keys]
    size = subprocess.check_output(command, text=True)
    assert verify_in_go(instance.folder, LOG_KEY).stdout == size
    return int(size)


@pytest.fixture(scope="module")
def verify_in_go(tmp_path_factory: pytest.TempPathFactory) -> VerifyInGo:
    """Our program with the packages of the go command, which its source includes."""
    folder = tmp_path_factory.mktemp("go")
    vendored = go.packages() / "go/src/cmd/vendor/golang.org/x/mod"
    shutil.copytree(vendored / "sumdb", folder / "sumdb")
    (folder / "verify").mkdir()
    shutil.copy(Path(support.__file__).with_name("verify_log.go"), folder / "verify")
    (folder / "go.mod").write_text("module golang.org/x/mod\n\ngo 1.25\n")
    go.build(folder, "-o", "verify-log", "./verify").check_returncode()

    def verify(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
        command = [folder / "verify-log", *arguments]
        return subprocess.run(command, text=True, capture_output=True, check=False)

    return verify


def test_go_verifies_the_log_and_refuses_a_rewritten_one(
    tmp_path: Path, verify_in_go: VerifyInGo
) -> None:
    policy = tmp_path / "policy"
    policy.write_text("quorum none\n")
    with ExitStack() as stack:
        ours, other = (Instance(tmp_path / each, policy, stack) for each in ("ours", "other"))
        grow(ours, 0, 3)
        checkpoint, proof = tmp_path / "checkpoint", kept_proof(ours, tmp_path)
        checkpoint.write_text(ours.checkpoint())
        grow(ours, 3, 300)
        size = verify_in_go(ours.folder, LOG_KEY, checkpoint, proof).stdout
        assert size == f"{ours.logged()}\n"

        grow(other, 1, 303)
        assert verify_in_go(other.folder, LOG_KEY).returncode == 0  # it is sound in itself
        for kept in (checkpoint, proof):
            refused = verify_in_go(other.folder, LOG_KEY, kept)
            assert (refused.returncode, refused.stderr) == (1, "invalid transparency proof\n")


def grow(instance: Instance, first: int, last: int) -> None:
    instance.record(*range(first, last))
    size = instance.logged() + last - first
    instance.collect(witnesses=0)
    eventually(lambda: instance.size() == size, "the entries of the versions")


def kept_proof(instance: Instance, folder: Path) -> Path:
    """The proof of the second version as its buyer keeps it, named after its entry."""
    proof = instance.proof(2)
    assert proof is not None
    extra = json.loads(b64decode(proof.split("\n")[1].removeprefix("extra ")))
    assert json.loads(extra["event"])["sequence"] == 2
    file = folder / f"{sha256(extra['event'].encode()).hexdigest()}.tlog-proof"
    file.write_text(proof)
    return file
