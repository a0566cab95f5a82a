"""The demo's chain: a ledger of token transfers, and a node with the JSON-RPC to read it.

https://ethereum.org/en/developers/docs/apis/json-rpc/
"""

from collections.abc import Callable, Iterator, Mapping
from math import inf
from pathlib import Path
from typing import Any, Final

import msgspec

from barograph.errors import ConfigurationError
from barograph.kit.clock import Clock
from barograph.kit.keccak import keccak256
from barograph.kit.timestamps import SECOND
from barograph_demo.files import replace_file
from barograph_demo.servers.wallets import ASSET, CHAIN_ID, NETWORK, Authorization

FILE_NAME: Final = "facilitator.json"
BALANCE_OF: Final = keccak256(b"balanceOf(address)")[:4]
AUTHORIZATION_STATE: Final = keccak256(b"authorizationState(address,bytes32)")[:4]
TRANSFER: Final = f"0x{keccak256(b'Transfer(address,address,uint256)').hex()}"
AUTHORIZATION_USED: Final = f"0x{keccak256(b'AuthorizationUsed(address,bytes32)').hex()}"

_BLOCK_SECONDS: Final = 2
_BYTECODE: Final = "0x6080"
"""The first bytes of any compiled contract; nothing runs it."""

_SELECTOR: Final = 4
_WORD: Final = 32
_NEWEST: Final = frozenset({"latest", "safe", "finalized"})
"""All the same block, because nothing is ever undone here."""


class Transfer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A completed transfer; addresses and the nonce are in lower case."""

    payer: str
    to: str
    value: int
    nonce: str
    transaction: str
    block: int


class TokenLedger:
    """Balances, and which authorizations were used."""

    def __init__(self, genesis: Mapping[str, int], file: Path | None = None) -> None:
        """Start with the genesis balances, and continue where the file ends.

        Raises:
            ConfigurationError: the file is damaged.
        """
        self._genesis = genesis
        self._file = file
        self._transfers = {(each.payer, each.nonce): each for each in _load(file)}

    def balance(self, account: str, block: float = inf) -> int:
        """An account's balance at the end of a block, by default now."""
        account = account.lower()
        past = self.transfers(0, block)
        came = sum(each.value for each in past if each.to == account)
        left = sum(each.value for each in past if each.payer == account)
        return self._genesis.get(account, 0) + came - left

    def is_used(self, payer: str, nonce: str, block: float = inf) -> bool:
        """Whether an authorization was used by the end of a block, by default now."""
        found = self._transfers.get((payer.lower(), nonce.lower()))
        return found is not None and found.block <= block

    def transfers(self, first: int, last: float) -> list[Transfer]:
        """The transfers of these blocks, in order."""
        return [
            transfer for transfer in self._transfers.values() if first <= transfer.block <= last
        ]

    def move(self, authorization: Authorization, block: int) -> str:
        """Execute a valid authorization; return the transaction's hash."""
        payer, nonce = authorization.payer.lower(), authorization.nonce.lower()
        transfer = Transfer(
            payer=payer,
            to=authorization.to.lower(),
            value=authorization.value,
            nonce=nonce,
            transaction=f"0x{keccak256(f'{NETWORK} {payer} {nonce}'.encode()).hex()}",
            block=block,
        )
        moved = {**self._transfers, (payer, nonce): transfer}
        if self._file is not None:
            replace_file(self._file, msgspec.json.encode(list(moved.values())))
        self._transfers = moved
        return transfer.transaction


def block_at(now: int) -> int:
    """The newest block at an instant (milliseconds)."""
    return now // (_BLOCK_SECONDS * SECOND)


def _load(file: Path | None) -> list[Transfer]:
    if file is None or not file.exists():
        return []
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[Transfer])
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigurationError(
            f"can't read {file} as the demo's ledger ({error}); delete it to start a new one"
        ) from error


class _RpcError(Exception):
    """An error reply."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ChainNode:
    """Answers JSON-RPC requests from a ledger."""

    def __init__(self, ledger: TokenLedger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._methods: dict[str, Callable[..., Any]] = {
            "eth_chainId": lambda: hex(CHAIN_ID),
            "eth_blockNumber": lambda: hex(block_at(self._clock())),
            "eth_getBlockByNumber": self._block,
            "eth_call": self._call,
            "eth_getCode": lambda at, _which: _BYTECODE if at.lower() == ASSET else "0x",
            "eth_getLogs": self._logs,
        }

    def answer(self, body: bytes) -> bytes:
        """The reply to a request body."""
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
            "timestamp": hex(number * _BLOCK_SECONDS),
            "transactions": [],
        }

    def _call(self, call: dict[str, str], which: str) -> str:
        number = self._number(which)
        if number is None:
            raise _RpcError(-32000, "header not found")
        if call["to"].lower() != ASSET:
            return "0x"  # as for an address without a contract
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
        logs = [
            log for transfer in self._ledger.transfers(first, last) for log in _logs_of(transfer)
        ]
        return [log for log in logs if _fits(log["topics"], wanted.get("topics", []))]

    def _number(self, which: str) -> int | None:
        """The number of a block, or None if it doesn't exist yet."""
        newest = block_at(self._clock())
        number = newest if which in _NEWEST else int(which, 16)
        return number if 0 < number <= newest else None


def _logs_of(transfer: Transfer) -> Iterator[dict[str, Any]]:
    """The events of a transfer, by EIP-3009 and EIP-20."""
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
    """Whether each topic is among those wanted at its position; None accepts any."""
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
