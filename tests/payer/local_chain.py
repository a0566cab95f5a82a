"""A real EVM in memory, with the dollars where payers expect them, and its JSON-RPC."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import vyper
from eth_tester import EthereumTester, PyEVMBackend
from eth_tester.exceptions import TransactionFailed, TransactionNotFound
from eth_utils import keccak, to_bytes, to_canonical_address, to_hex, to_wei
from x402.mechanisms.evm.default_assets import DEFAULT_ASSETS

CHAIN_ID = 84532
NETWORK = f"eip155:{CHAIN_ID}"
ASSET = DEFAULT_ASSETS[NETWORK][0]
"""The token that a stock client knows on this network; it refuses others before it counts."""

BLOCK_SECONDS = 2
REVERTED = 3
UNKNOWN_METHOD = -32601


class RpcError(Exception):
    """What JSON-RPC answers instead of a result."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class LocalChain:
    """One chain; a transaction is in a block as soon as it is sent."""

    def __init__(self, dollars: Mapping[str, int], gas_payer: str) -> None:
        backend = PyEVMBackend(genesis_state=_genesis(dollars, gas_payer))
        backend.chain.chain_id = CHAIN_ID
        self._gas_payer = gas_payer
        self._tester = EthereumTester(backend)
        self._lock = Lock()
        self._methods: dict[str, Callable[..., Any]] = {
            "eth_blockNumber": lambda: self._latest()["number"],
            "eth_call": self._call,
            "eth_chainId": lambda: CHAIN_ID,
            "eth_estimateGas": lambda given, *_: self._tester.estimate_gas(self._as_call(given)),
            "eth_gasPrice": lambda: 2 * self._latest()["base_fee_per_gas"],
            "eth_getBalance": lambda whose, _: self._tester.get_balance(whose),
            "eth_getBlockByNumber": self._block,
            "eth_getCode": lambda whose, _: self._tester.get_code(whose),
            "eth_getLogs": self._logs,
            "eth_getTransactionCount": lambda whose, _: self._tester.get_nonce(whose),
            "eth_getTransactionReceipt": self._receipt,
            "eth_sendRawTransaction": self._tester.send_raw_transaction,
            "net_version": lambda: str(CHAIN_ID),
        }

    def answer(self, method: str, parameters: list[Any]) -> Any:
        """The result of a method, as it goes over the wire.

        Raises:
            RpcError: there is none.
        """
        if method not in self._methods:
            raise RpcError(UNKNOWN_METHOD, f"{method} is not known here")
        with self._lock:
            self._keep_time()
            try:
                return _wire(self._methods[method](*parameters))
            except TransactionFailed as error:
                raise RpcError(REVERTED, f"execution reverted: {error}") from error

    def _keep_time(self) -> None:
        """Make the block that a chain would have made meanwhile, at this machine's time."""
        now = int(time.time())
        if now >= self._latest()["timestamp"] + BLOCK_SECONDS:
            self._tester.time_travel(now)

    def _latest(self) -> Any:
        return self._tester.get_block_by_number("latest")

    def _block(self, number: str, _full: bool) -> Any:
        return self._tester.get_block_by_number(_height(number))

    def _call(self, given: dict[str, str], height: str = "latest") -> Any:
        return self._tester.call(self._as_call(given), _height(height))

    def _as_call(self, given: dict[str, str]) -> dict[str, str]:
        """A call by who can pay for gas: here it costs some, and the token never asks who calls."""
        data = given.get("data") or given.get("input") or "0x"
        return {"from": self._gas_payer, "to": given["to"], "data": data}

    def _logs(self, given: dict[str, Any]) -> Any:
        start, end = (_height(given.get(name, "latest")) for name in ("fromBlock", "toBlock"))
        return self._tester.get_logs(start, end, given.get("address"), given.get("topics"))

    def _receipt(self, transaction: str) -> Any:
        try:
            return self._tester.get_transaction_receipt(transaction)
        except TransactionNotFound:
            return None


def _genesis(dollars: Mapping[str, int], gas_payer: str) -> dict[bytes, dict[str, Any]]:
    """The token with its first balances, and ether for who sends transactions."""
    source = (Path(__file__).parent / "token.vy").read_text()
    made = vyper.compile_code(source, output_formats=["bytecode_runtime", "layout"])
    slot = made["layout"]["storage_layout"]["balanceOf"]["slot"]
    empty = {"balance": 0, "nonce": 0, "code": b"", "storage": {}}
    token = {
        "code": to_bytes(hexstr=made["bytecode_runtime"]),
        "storage": {_place(slot, holder): amount for holder, amount in dollars.items()},
    }
    return {
        to_canonical_address(ASSET["asset"]): empty | token,
        to_canonical_address(gas_payer): empty | {"balance": to_wei(100, "ether")},
    }


def _place(slot: int, holder: str) -> int:
    """Where a Vyper map that lies in a slot keeps what belongs to a key."""
    key = to_canonical_address(holder).rjust(32, b"\0")
    return int.from_bytes(keccak(slot.to_bytes(32, "big") + key), "big")


def _height(given: str) -> str | int:
    return int(given, 16) if given.startswith("0x") else given


def _wire(value: Any) -> Any:
    """As JSON-RPC writes it: quantities in hexadecimal digits, names in camel case."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, bytes)):
        return to_hex(value)
    if isinstance(value, Mapping):
        return {_camel_case(name): _wire(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_wire(member) for member in value]
    return value


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)
