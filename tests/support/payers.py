"""Real token transfers: the programs of `tests/payer`, in their own environment."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
from msgspec import Struct, convert

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-payer/bin/python"

BALANCE_OF = "70a08231"
AUTHORIZATION_STATE = "e94a0102"
"""The selectors of the token's calls."""


class Wallet(Struct):
    """A payer."""

    address: str
    key: str


class Outcome(NamedTuple):
    """The result of a stock client."""

    proofs: list[str]
    """Every payment that it made, newest last."""

    status: int | None = None
    body: Any = None
    receipt: dict[str, Any] | None = None
    refused: str = ""
    """Why the client itself refused to pay; then there is no status."""


class Program:
    """One of the programs, with one JSON line per message."""

    def __init__(self, module: str, arguments: Sequence[str], log: Path) -> None:
        assert PYTHON.exists(), "the payer's environment is missing: make setup"
        # No proxy between two programs of this machine.
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "NO_PROXY": "*"}
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                [str(PYTHON), "-m", module, *arguments],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )
        self._log = log

    def say(self, command: dict[str, Any]) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps(command) + "\n")
        self._popen.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline()
        assert line, f"it ended: {self._log.read_text()}"
        heard: dict[str, Any] = json.loads(line)
        return heard

    def end(self) -> None:
        self._popen.kill()
        self._popen.communicate()


class Chain(Struct):
    """A chain with a token, wallets, and the x402 package's facilitator."""

    url: str
    network: str
    asset: str
    name: str
    version: str
    pay_to: str
    wallets: dict[str, Wallet]

    @property
    def rpc_url(self) -> str:
        return f"{self.url}/rpc"

    def balance(self, address: str) -> int:
        """The balance of a wallet, in the token's smallest unit."""
        return self._number(BALANCE_OF, address)

    def is_used(self, payer: str, nonce: str) -> bool:
        """Whether an authorization moved its money."""
        return bool(self._number(AUTHORIZATION_STATE, payer, nonce))

    def transaction(self, digest: str) -> dict[str, Any] | None:
        """The receipt of a transaction."""
        found: dict[str, Any] | None = self._ask("eth_getTransactionReceipt", digest)
        return found

    def _number(self, function: str, *arguments: str) -> int:
        words = [each.removeprefix("0x").lower().rjust(64, "0") for each in arguments]
        call = {"to": self.asset, "data": f"0x{function}{''.join(words)}"}
        return int(self._ask("eth_call", call, "latest"), 16)

    def _ask(self, method: str, *parameters: object) -> Any:
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        answer = httpx2.post(
            self.rpc_url, json=question, timeout=60, trust_env=False, verify=False
        ).json()
        return answer["result"]


class Payer:
    """The x402 package's own client, with any wallet."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def get(self, wallet: Wallet, url: str, cap: str | None = None) -> Outcome:
        """Get an address and pay if asked; without a cap the client's own counts."""
        self._program.say({"url": url, "key": wallet.key, "cap": cap})
        return Outcome(**self._program.hear())

    def sign(self, wallet: Wallet, offer: str, cap: str | None = None) -> str:
        """A new proof for the offer at an address."""
        self._program.say({"offer": offer, "key": wallet.key, "cap": cap})
        (proof,) = self._program.hear()["proofs"]
        return str(proof)


@contextmanager
def stock_payer(folder: Path) -> Iterator[Payer]:
    """Start the client alone."""
    program = Program("payer.pay", (), folder / "payer.log")
    try:
        yield Payer(program)
    finally:
        program.end()


@contextmanager
def chain_and_payer(folder: Path, wallets: Sequence[str]) -> Iterator[tuple[Chain, Payer]]:
    """Start both in parallel, which takes a few seconds."""
    chain = Program("payer.chain", wallets, folder / "chain.log")
    try:
        with stock_payer(folder) as payer:
            yield convert(chain.hear(), Chain), payer
    finally:
        chain.end()
