"""The wallets of the demo and what they sign; the money is simulated."""

import hmac
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import Any, Final, NamedTuple

import msgspec

from barograph.demo.files import write_once
from barograph.demo.servers.chain import DECIMALS, TOKEN
from barograph.demo.servers.signatures import (
    ORDER,
    Authorization,
    address_of,
    sign,
    transfer_digest,
)
from barograph.errors import ConfigurationError

SECRET_FILE: Final = "wallets.secret"  # noqa: S105 - the name of a file
WALLETS: Final = ("feed", "reserve", "none")
FUNDS: Final = 1_000 * 10**DECIMALS
"""What each wallet begins with."""

_SECRET_BYTES: Final = 32
_SECOND: Final = 1_000


class Wallet(NamedTuple):
    """An account, and the key that spends from it."""

    key: int
    address: str


def load_or_create_wallets(data: Path) -> dict[str, Wallet]:
    """The folder's wallets by name; the secret behind their keys is made once.

    Raises:
        ConfigurationError: the secret's file holds something else.
    """
    file = data / SECRET_FILE
    if not file.exists():
        write_once(file, token_hex(_SECRET_BYTES).encode())
    secret = _secret(file)
    return {name: _wallet(secret, name) for name in WALLETS}


def demo_proof(data: Path, wallet: str, accepted: Mapping[str, Any], now: int) -> str:
    """A payment proof of a wallet for terms as a door offers them: the header's whole value.

    It is valid from now on for as long as the terms allow.

    Raises:
        ConfigurationError: there is no such wallet, or no demo has run in the folder.
    """
    if wallet not in WALLETS:
        raise ConfigurationError(f"there is no wallet {wallet!r}; there are {', '.join(WALLETS)}")
    if not (data / SECRET_FILE).exists():
        raise ConfigurationError(f"{data / SECRET_FILE} is missing: start a demo there first")
    payer = load_or_create_wallets(data)[wallet]
    return encode_proof(accepted, signed_payload(payer, accepted, now, token_bytes(32)))


def signed_payload(
    wallet: Wallet, accepted: Mapping[str, Any], now: int, nonce: bytes
) -> dict[str, Any]:
    """The payload of x402's `exact` scheme: an authorization and its signature."""
    authorization = Authorization(
        payer=wallet.address,
        to=accepted["payTo"],
        value=int(accepted["amount"]),
        valid_after=0,
        valid_before=now // _SECOND + accepted["maxTimeoutSeconds"],
        nonce=f"0x{nonce.hex()}",
    )
    signature = sign(transfer_digest(TOKEN, authorization), wallet.key)
    return {
        "signature": f"0x{signature.hex()}",
        "authorization": {
            "from": authorization.payer,
            "to": authorization.to,
            "value": str(authorization.value),
            "validAfter": str(authorization.valid_after),
            "validBefore": str(authorization.valid_before),
            "nonce": authorization.nonce,
        },
    }


def encode_proof(accepted: Mapping[str, Any], payload: Mapping[str, Any]) -> str:
    """A payload as the `PAYMENT-SIGNATURE` header carries it."""
    whole = {"x402Version": 2, "accepted": accepted, "payload": payload}
    return b64encode(msgspec.json.encode(whole)).decode()


def _secret(file: Path) -> bytes:
    try:
        secret = bytes.fromhex(file.read_text("ascii"))
    except (OSError, ValueError):
        secret = b""
    if len(secret) != _SECRET_BYTES:
        raise ConfigurationError(
            f"{file} is not the wallets' secret: delete it, and the demo makes a new one"
        )
    return secret


def _wallet(secret: bytes, name: str) -> Wallet:
    key = int.from_bytes(hmac.digest(secret, name.encode(), "sha256")) % (ORDER - 1) + 1
    return Wallet(key, address_of(key))
