"""The demo's chain as a node tells of it: the few JSON-RPC methods that reading a token needs.

https://ethereum.org/en/developers/docs/apis/json-rpc/
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from barograph.demo.ledger import ASSET, CHAIN_ID, Ledger, Transfer, block_at, block_time
from barograph.keccak import keccak256

BALANCE_OF: Final = keccak256(b"balanceOf(address)")[:4]
AUTHORIZATION_STATE: Final = keccak256(b"authorizationState(address,bytes32)")[:4]
TRANSFER: Final = f"0x{keccak256(b'Transfer(address,address,uint256)').hex()}"
AUTHORIZATION_USED: Final = f"0x{keccak256(b'AuthorizationUsed(address,bytes32)').hex()}"

_NEWEST: Final = frozenset({"latest", "safe", "finalized"})
"""Nothing is ever undone here, so they all are the same block."""

_SELECTOR: Final = 4
_WORD: Final = 32


class _RpcError(Exception):
    """A request that cannot be answered."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Node:
    """Answers from a ledger."""

    def __init__(self, ledger: Ledger, clock: Callable[[], int]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._methods: dict[str, Callable[..., Any]] = {
            "eth_chainId": lambda: hex(CHAIN_ID),
            "eth_blockNumber": lambda: hex(block_at(self._clock())),
            "eth_getBlockByNumber": self._block,
            "eth_call": self._call,
            "eth_getLogs": self._logs,
        }

    def answer(self, body: bytes) -> bytes:
        """The reply to the body of a request."""
        request: Any = None
        try:
            request = msgspec.json.decode(body)
            outcome = {"result": self._run(request)}
        except _RpcError as error:
            outcome = {"error": {"code": error.code, "message": error.message}}
        except msgspec.MsgspecError:
            outcome = {"error": {"code": -32700, "message": "parse error"}}
        number = request.get("id") if isinstance(request, dict) else None
        return msgspec.json.encode({"jsonrpc": "2.0", "id": number, **outcome})

    def _run(self, request: object) -> object:
        match request:
            case {"jsonrpc": "2.0", "method": str(name), "params": list(params)}:
                pass
            case _:
                raise _RpcError(-32600, "invalid request")
        if name not in self._methods:
            raise _RpcError(-32601, f"the method {name} does not exist")
        try:
            return self._methods[name](*params)
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise _RpcError(-32602, "invalid params") from error

    def _block(self, which: str, _whole: bool) -> dict[str, Any] | None:
        number = self._number(which)
        if number is None:
            return None
        return {
            "number": hex(number),
            "hash": _block_hash(number),
            "parentHash": _block_hash(number - 1),
            "timestamp": hex(block_time(number)),
            "transactions": [],
        }

    def _call(self, call: dict[str, str], which: str) -> str:
        number = self._number(which)
        if number is None:
            raise _RpcError(-32000, "header not found")
        if call["to"].lower() != ASSET:
            return "0x"  # as where no contract is
        data = bytes.fromhex(call.get("data", call.get("input", "")).removeprefix("0x"))
        selector, words = data[:_SELECTOR], data[_SELECTOR:]
        account = f"0x{words[:_WORD][-20:].hex()}"
        if selector == BALANCE_OF and len(words) == _WORD:
            return _word(self._ledger.balance(account, number))
        if selector == AUTHORIZATION_STATE and len(words) == 2 * _WORD:
            return _word(self._ledger.is_used(account, f"0x{words[_WORD:].hex()}", number))
        raise _RpcError(3, "execution reverted")

    def _logs(self, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        first, last = self._number(wanted["fromBlock"]), self._number(wanted["toBlock"])
        if first is None or last is None:
            raise _RpcError(-32000, "header not found")
        if wanted["address"].lower() != ASSET:
            return []
        logs = [log for each in self._ledger.transfers(first, last) for log in _logs_of(each)]
        return [log for log in logs if _fits(log["topics"], wanted.get("topics", []))]

    def _number(self, which: str) -> int | None:
        """The number of a block, or None when there is none yet."""
        newest = block_at(self._clock())
        number = newest if which in _NEWEST else int(which, 16)
        return number if 0 < number <= newest else None


def _logs_of(transfer: Transfer) -> Iterator[dict[str, Any]]:
    """The events of a transfer, as EIP-3009 and EIP-20 want them."""
    payer = _word(int(transfer.payer, 16))
    events = [
        ([AUTHORIZATION_USED, payer, transfer.nonce], "0x"),
        ([TRANSFER, payer, _word(int(transfer.to, 16))], _word(transfer.value)),
    ]
    for index, (topics, data) in enumerate(events):
        yield {
            "address": ASSET,
            "topics": topics,
            "data": data,
            "blockNumber": hex(transfer.block),
            "blockHash": _block_hash(transfer.block),
            "transactionHash": transfer.transaction,
            "transactionIndex": "0x0",
            "logIndex": hex(index),
            "removed": False,
        }


def _fits(topics: list[str], wanted: list[Any]) -> bool:
    """Whether each topic is one of those that are wanted at its place; None wants any."""
    if len(wanted) > len(topics):
        return False
    return all(
        choice is None or topic in ([choice] if isinstance(choice, str) else choice)
        for topic, choice in zip(topics, wanted, strict=False)
    )


def _block_hash(number: int) -> str:
    return f"0x{keccak256(f'block {number} of {CHAIN_ID}'.encode()).hex()}"


def _word(number: int) -> str:
    return f"0x{number:064x}"
