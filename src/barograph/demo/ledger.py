"""The demo's chain: one EIP-3009 token, whose transfers are kept in a file of the data folder.

A block comes every two seconds and is numbered by its time, so that what the chain looked like at
some block can be told at any later time.
"""

from collections.abc import Iterable, Mapping
from math import inf
from pathlib import Path
from typing import Final

import msgspec

from barograph.demo.eip712 import Authorization, Domain
from barograph.demo.files import replace_file
from barograph.errors import ConfigurationError
from barograph.keccak import keccak256

FILE_NAME: Final = "facilitator.json"
CHAIN_ID: Final = 84532
NETWORK: Final = f"eip155:{CHAIN_ID}"
ASSET: Final = "0x036cbd53842c5426634e7929541ec2318f3dcf7e"
"""USDC on Base Sepolia, because stock x402 clients pay only with tokens they know. The balances
exist only in this ledger; on the real test network the demo's wallets own nothing."""

# The end of a hash, so nobody has its private key.
PAY_TO: Final = "0xaa86da5fc4c8f9a4bab01254dbb92ead76c301be"
TOKEN: Final = Domain("USDC", "2", CHAIN_ID, ASSET)
DECIMALS: Final = 6

_BLOCK_SECONDS: Final = 2
_SECOND: Final = 1_000


class Transfer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Money that moved; addresses and the nonce in lower case."""

    payer: str
    to: str
    value: int
    nonce: str
    transaction: str
    block: int


class Ledger:
    """Who has how much, and which authorizations were used."""

    def __init__(self, genesis: Mapping[str, int], file: Path | None = None) -> None:
        """Begin with what the accounts had, or go on where the file ends.

        Raises:
            ConfigurationError: the file holds something else.
        """
        self._genesis = genesis
        self._file = file
        self._transfers = {} if file is None else _by_key(_load(file))

    def balance(self, account: str, block: float = inf) -> int:
        """What an account has, or had at the end of a block."""
        account = account.lower()
        past = self.transfers(0, block)
        came = sum(each.value for each in past if each.to == account)
        left = sum(each.value for each in past if each.payer == account)
        return self._genesis.get(account, 0) + came - left

    def is_used(self, payer: str, nonce: str, block: float = inf) -> bool:
        """Whether an authorization moved money, or had by the end of a block."""
        found = self._transfers.get((payer.lower(), nonce.lower()))
        return found is not None and found.block <= block

    def transfers(self, first: int, last: float) -> list[Transfer]:
        """What moved in these blocks, in the order in which it did."""
        return [each for each in self._transfers.values() if first <= each.block <= last]

    def move(self, authorization: Authorization, block: int) -> str:
        """Move the money of an authorization that is in order; gives the transaction's hash."""
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
    return now // (_BLOCK_SECONDS * _SECOND)


def block_time(block: int) -> int:
    """A block's time in seconds."""
    return block * _BLOCK_SECONDS


def _by_key(transfers: Iterable[Transfer]) -> dict[tuple[str, str], Transfer]:
    return {(each.payer, each.nonce): each for each in transfers}


def _load(file: Path) -> list[Transfer]:
    if not file.exists():
        return []
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[Transfer])
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigurationError(
            f"{file} cannot be read as the demo's ledger ({error}); delete it to begin a new one"
        ) from error
