"""The simulated witnesses of the demo answer as `aics-witness` does, which real logs use."""

import asyncio
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from barograph.history.checkpoint import (
    Checkpoint,
    parse_checkpoint,
    sign_checkpoint,
    verifier_of,
)
from barograph.history.cosigning import load_policy
from barograph.history.merkle import tree_root
from barograph.history.witnesses import open_cosignature
from barograph.kit.clock import system_clock
from barograph_client.audit.notes import WITNESS_KEY, Key, parse_key
from barograph_demo.configuration import demo_settings
from barograph_demo.servers.control import HOST
from barograph_demo.servers.faults import WITNESSES, WitnessFaults
from barograph_demo.servers.witness import POLICY_FILE, WitnessServer, write_policy
from support.merkle_proofs import consistency_proof
from support.processes import eventually, get, unused_port

BIN = Path(__file__).parents[2] / ".venv-witness/bin/aics-witness"
KEY, OTHER_KEY = (Ed25519PrivateKey.from_private_bytes(bytes([n] * 32)) for n in (1, 2))
ORIGIN = "log.example/history/rates-desk"
TREE, OTHER_TREE = ([f"{base + n:064x}" for n in range(8)] for base in (0, 100))
SIZE, TEXT = "text/x.tlog.size", "text/plain; charset=utf-8"


def request(
    old: int,
    size: int,
    tree: Sequence[str] = TREE,
    *,
    key: Ed25519PrivateKey = KEY,
    origin: str = ORIGIN,
    proof: Sequence[bytes] | None = None,
    root: bytes | None = None,
) -> str:
    hashes = consistency_proof(tree[:size], old) if proof is None else proof
    note = sign_checkpoint(Checkpoint(origin, size, root or tree_root(tree[:size])), key)
    return "\n".join([f"old {old}", *(b64encode(each).decode() for each in hashes), "", note])


EXCHANGES = [
    (request(0, 3, key=OTHER_KEY), 403, TEXT),
    (request(0, 3, origin="log.example/unknown"), 404, TEXT),
    (request(0, 3, origin="log.example/history-other/rates-desk"), 404, TEXT),
    (request(0, 3, proof=[bytes(32)]), 422, TEXT),
    (request(0, 0, root=bytes(32)), 422, TEXT),
    (request(0, 3).replace("\n3\n", "\n4\n"), 403, TEXT),
    ("old 0\n", 400, TEXT),
    (request(0, 3).replace("old 0", "old 00"), 400, TEXT),
    (request(0, 3), 200, TEXT),
    (request(3, 3), 200, TEXT),
    (request(0, 5), 409, SIZE),
    (request(0, 2), 409, SIZE),
    (request(3, 5, proof=[]), 422, TEXT),
    (request(3, 5, OTHER_TREE), 422, TEXT),
    (request(3, 3, OTHER_TREE), 422, TEXT),
    (request(3, 2, proof=[]), 400, TEXT),
    (request(3, 5), 200, TEXT),
]


@asynccontextmanager
async def simulated(data: Path, faults: WitnessFaults) -> AsyncIterator[str]:
    server = WitnessServer(data, lambda: verifier_of(KEY, ORIGIN), system_clock, faults)
    async with server.running(HOST, 0) as port:
        yield f"http://{HOST}:{port}/{WITNESSES[0]}"


async def send(url: str, *bodies: str) -> list[httpx2.Response]:
    async with httpx2.AsyncClient(trust_env=False) as client:
        return [await client.post(f"{url}/add-checkpoint", content=each) for each in bodies]


async def check(url: str, key: Key) -> None:
    for (body, *expected), answer in zip(
        EXCHANGES, await send(url, *(each[0] for each in EXCHANGES)), strict=True
    ):
        assert [answer.status_code, answer.headers["content-type"]] == expected, body
        if answer.status_code == 200:
            sent = parse_checkpoint(body.split("\n\n")[1])
            assert open_cosignature(sent, answer.text, key).at <= system_clock()
        if answer.status_code == 409:
            assert answer.text == "3\n"


async def test_simulated_witness_cosigns_what_continues_and_remembers_it(
    tmp_path: Path,
) -> None:
    write_policy(tmp_path, 1)
    policy = load_policy(tmp_path / POLICY_FILE)
    assert policy is not None
    assert policy.in_words() == "2 of (simulated-1, simulated-2, simulated-3)"
    async with simulated(tmp_path, WitnessFaults()) as url:
        await check(url, policy.witnesses[WITNESSES[0]])
    faults = WitnessFaults()
    async with simulated(tmp_path, faults) as url:
        (again,) = await send(url, request(0, 6))
        assert (again.status_code, again.text) == (409, "5\n")
        for fault, status in (("outage", 503), ("fork", 422)):
            faults.turn_on(fault, target=WITNESSES[0])
            for name, expected in zip(WITNESSES, (status, 409, 409), strict=True):
                (answer,) = await send(url.replace(WITNESSES[0], name), request(5, 6))
                assert answer.status_code == expected, (fault, name)
            faults.clear()


@pytest.mark.thorough
def test_real_witness_answers_the_same(tmp_path: Path) -> None:
    def command(*arguments: str) -> str:
        return subprocess.check_output([BIN, *arguments], cwd=tmp_path, text=True).strip()

    key, port = command("init", "--name", "witness.example"), unused_port()
    command("add-log", "--origin", ORIGIN, "--vkey", verifier_of(KEY, ORIGIN).text)
    listen = ["serve", "--listen", f"{HOST}:{port}", "--log-level", "ERROR"]
    with subprocess.Popen([BIN, *listen], cwd=tmp_path) as process:
        try:
            eventually(lambda: get(f"http://{HOST}:{port}/healthz"), "the witness")
            asyncio.run(check(f"http://{HOST}:{port}", parse_key(key, WITNESS_KEY)))
        finally:
            process.terminate()


def test_policy_of_the_environment_replaces_the_simulated_witnesses(tmp_path: Path) -> None:
    ports = dict.fromkeys(("exchange", "mail", "macro", "identity", "witness"), 1)
    own = {"witness_policy": tmp_path / "own"}
    assert demo_settings(tmp_path, 1, 1, ports).witness_policy == tmp_path / POLICY_FILE
    assert demo_settings(tmp_path, 1, 1, ports, own).witness_policy == tmp_path / "own"
