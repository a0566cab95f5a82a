"""The simulated x402 v2 facilitator: `/verify`, `/settle`, `/supported`, a node at `/rpc`, control.

It checks what a real one checks (https://docs.x402.org, the `exact` scheme on EVM), including the
signature, against the demo's own ledger, and rejects with the reasons of real ones.
"""

from asyncio import StreamReader
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from websockets.http11 import Response

from barograph.kit.clock import Clock, system_clock
from barograph.kit.timestamps import SECOND
from barograph_demo.servers.chain import FILE_NAME, ChainNode, TokenLedger, block_at
from barograph_demo.servers.control import (
    HOST,
    HTML,
    OTHER,
    TEXT,
    ServerAddress,
    reply,
    unavailable,
)
from barograph_demo.servers.faults import FacilitatorFault, FacilitatorFaults
from barograph_demo.servers.http import BodyRequest, BodyServer, stays_until
from barograph_demo.servers.wallets import (
    ASSET,
    FUNDS,
    NETWORK,
    PAY_TO,
    SIGNATURE_BYTES,
    TOKEN,
    Authorization,
    InvalidSignature,
    load_or_create_wallets,
    recover,
    transfer_digest,
)

VERIFY_PATH: Final = "/verify"
SETTLE_PATH: Final = "/settle"
SUPPORTED_PATH: Final = "/supported"
RPC_PATH: Final = "/rpc"

_METHODS: Final = {
    VERIFY_PATH: "POST",
    SETTLE_PATH: "POST",
    SUPPORTED_PATH: "GET",
    RPC_PATH: "POST",
}
_UNEXPECTED: Final = {
    VERIFY_PATH: "unexpected_verify_error",
    SETTLE_PATH: "unexpected_settle_error",
}
_NO_FUNDS: Final = "invalid_exact_evm_insufficient_balance"
_SIGNER: Final = "0xd173e9f15655851edd602c9a89ca136d97957a85"
_SUPPORTED: Final = {
    "kinds": [{"x402Version": 2, "scheme": "exact", "network": NETWORK}],
    "extensions": [],
    "signers": {"eip155:*": [_SIGNER]},
}
_MOVED_TO: Final = "https://www.facilitator.example"
_PAGE: Final = b"<!DOCTYPE html>\n<html lang=en><title>Sorry</title><h1>Be right back</h1></html>\n"

Address = Annotated[str, Meta(pattern=r"^0x[0-9a-fA-F]{40}\Z")]
Nonce = Annotated[str, Meta(pattern=r"^0x[0-9a-fA-F]{64}\Z")]
Signature = Annotated[str, Meta(pattern=r"^0x([0-9a-fA-F]{2})*\Z")]
Number = Annotated[str, Meta(pattern=r"^[0-9]{1,77}\Z")]
"""Up to 77 digits always fit into 256 bits."""


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """A record with camel-case names on the wire."""


class TokenName(_Wire, frozen=True):
    """The name and version of the token's signing domain."""

    name: str
    version: str


class PaymentRequirements(_Wire, frozen=True):
    """The seller's terms."""

    scheme: str
    network: str
    amount: Number
    asset: Address
    pay_to: Address
    max_timeout_seconds: int
    extra: TokenName


class WireAuthorization(_Wire, frozen=True):
    """The authorization that the payer signed."""

    payer: Address = msgspec.field(name="from")
    to: Address
    value: Number
    valid_after: Number
    valid_before: Number
    nonce: Nonce


class SignedAuthorization(_Wire, frozen=True):
    """An authorization and its signature."""

    signature: Signature
    authorization: WireAuthorization


class PaymentPayload(_Wire, frozen=True):
    """The proof that the payer sent."""

    x402_version: Literal[2]
    accepted: PaymentRequirements
    payload: SignedAuthorization


class PaymentRequest(_Wire, frozen=True):
    """The body of `/verify` and `/settle`."""

    x402_version: Literal[2]
    payment_payload: PaymentPayload
    payment_requirements: PaymentRequirements

    @property
    def payer(self) -> str:
        """The address that the authorization names as payer."""
        return self.payment_payload.payload.authorization.payer

    @property
    def authorization(self) -> Authorization:
        """The authorization with numbers as numbers."""
        wire = self.payment_payload.payload.authorization
        numbers = (int(wire.value), int(wire.valid_after), int(wire.valid_before))
        return Authorization(wire.payer, wire.to, *numbers, wire.nonce)


def read_request(body: bytes) -> PaymentRequest:
    """Read the body of `/verify` or `/settle`.

    Raises:
        ValueError: the body is something else.
    """
    return msgspec.json.decode(body, type=PaymentRequest)


def verify_reply(request: PaymentRequest, reason: str | None) -> dict[str, Any]:
    """The reply of `/verify`; without a reason the payment is valid."""
    if reason is None:
        return {"isValid": True, "payer": request.payer}
    return {"isValid": False, "invalidReason": reason, "payer": request.payer}


class FacilitatorServer(BodyServer[FacilitatorFaults]):
    """Verifies payments and settles them in its ledger."""

    def __init__(self, ledger: TokenLedger, clock: Clock, faults: FacilitatorFaults) -> None:
        super().__init__(clock, faults)
        self._ledger = ledger
        self._node = ChainNode(ledger, clock)

    def obey(self, command: Mapping[str, object]) -> dict[str, object]:
        """Also give an account money, as a new token does: from the zero address."""
        if "fund" not in command:
            return super().obey(command)
        try:
            to = msgspec.convert(command["fund"], Address)
        except msgspec.ValidationError:
            return {"ok": False, "error": "an address is 0x and 40 hexadecimal digits"}
        minted = Authorization(f"0x{0:040x}", to, FUNDS, 0, 0, f"0x{token_hex(32)}")
        self._ledger.move(minted, block_at(self._clock()))
        return {"ok": True, "balance": self._ledger.balance(to)}

    async def respond(self, request: BodyRequest, client: StreamReader) -> Response | None:
        """Answer a request; None closes the connection without a reply."""
        method = _METHODS.get(request.path)
        self.requests[OTHER if method is None else request.path] += 1
        if method is None:
            return _problem(HTTPStatus.NOT_FOUND, "there is nothing here")
        if request.method != method:
            return _problem(HTTPStatus.METHOD_NOT_ALLOWED, f"use {method}")
        if request.path == RPC_PATH:
            return self._rpc(request.body)
        return await self._unless_faulty(request, client)

    async def _unless_faulty(self, request: BodyRequest, client: StreamReader) -> Response | None:
        while (fault := self._faults.replacing()) == FacilitatorFault.HANG:
            if not await stays_until(client, self._faults.changed()):
                return None
        match fault:
            case None:
                return await self._answer(request, client)
            case FacilitatorFault.REDIRECT:
                location = f"{_MOVED_TO}{request.path}"
                return reply(
                    HTTPStatus.PERMANENT_REDIRECT, b"Redirecting...\n", TEXT, Location=location
                )
            case FacilitatorFault.HTML:
                return reply(HTTPStatus.OK, _PAGE, HTML)
            case _:
                return unavailable()

    def _rpc(self, body: bytes) -> Response:
        if self._faults.is_on(FacilitatorFault.CHAIN_DOWN):
            return unavailable()
        return reply(HTTPStatus.OK, self._node.answer(body))

    async def _answer(self, request: BodyRequest, client: StreamReader) -> Response | None:
        if request.path == SUPPORTED_PATH:
            return _json(_SUPPORTED)
        try:
            payment = read_request(request.body)
        except ValueError:
            return _problem(HTTPStatus.BAD_REQUEST, "invalid_payload")
        reason = self._reason(request.path, payment)
        is_verify = request.path == VERIFY_PATH
        answer = verify_reply(payment, reason) if is_verify else self._settle(payment, reason)
        if self._faults.is_on(FacilitatorFault.WRONG_PAYER):
            answer["payer"] = PAY_TO
        if is_verify or not self._faults.is_on(FacilitatorFault.SETTLE_TIMEOUT):
            return _json(answer)
        while self._faults.is_on(FacilitatorFault.SETTLE_TIMEOUT):
            if not await stays_until(client, self._faults.changed()):
                break
        return None

    def _reason(self, path: str, payment: PaymentRequest) -> str | None:
        """Why a payment is rejected, by a fault or by the rules."""
        if self._faults.is_on(FacilitatorFault.CHAIN_DOWN):
            return _UNEXPECTED[path]
        if self._faults.is_on(FacilitatorFault.REFUSE):
            return _NO_FUNDS
        authorization = payment.authorization
        return (
            _wrong_terms(payment)
            or _wrong_time(authorization, self._clock() // SECOND)
            or self._wrong_signature(payment)
            or self._wrong_funds(authorization)
        )

    def _wrong_signature(self, payment: PaymentRequest) -> str | None:
        signature = bytes.fromhex(payment.payment_payload.payload.signature[2:])
        if len(signature) > SIGNATURE_BYTES:
            return "invalid_exact_evm_payload_undeployed_smart_wallet"
        try:
            signer = recover(transfer_digest(TOKEN, payment.authorization), signature)
        except InvalidSignature:
            signer = ""
        return None if signer == payment.payer.lower() else "invalid_exact_evm_payload_signature"

    def _wrong_funds(self, authorization: Authorization) -> str | None:
        if self._ledger.is_used(authorization.payer, authorization.nonce):
            return "invalid_exact_evm_nonce_already_used"
        if self._ledger.balance(authorization.payer) < authorization.value:
            return _NO_FUNDS
        return None

    def _settle(self, payment: PaymentRequest, reason: str | None) -> dict[str, Any]:
        ended = {"transaction": "", "network": NETWORK, "payer": payment.payer}
        if reason is not None:
            return {"success": False, "errorReason": reason, **ended}
        ended["transaction"] = self._ledger.move(payment.authorization, block_at(self._clock()))
        return {"success": True, **ended}


def _wrong_terms(payment: PaymentRequest) -> str | None:
    terms, accepted = payment.payment_requirements, payment.payment_payload.accepted
    authorization = payment.authorization
    checks = {
        "unsupported_scheme": (terms.scheme, accepted.scheme) == ("exact", "exact"),
        "network_mismatch": (terms.network, accepted.network) == (NETWORK, NETWORK),
        "asset_not_deployed_contract": terms.asset.lower() == accepted.asset.lower() == ASSET,
        "invalid_exact_evm_token_name_mismatch": terms.extra.name == TOKEN.name,
        "invalid_exact_evm_token_version_mismatch": terms.extra.version == TOKEN.version,
        "invalid_exact_evm_payload_recipient_mismatch": authorization.to.lower()
        == terms.pay_to.lower(),
        "invalid_exact_evm_payload_authorization_value_mismatch": authorization.value
        == int(terms.amount),
    }
    return next((reason for reason, holds in checks.items() if not holds), None)


def _wrong_time(authorization: Authorization, second: int) -> str | None:
    if authorization.valid_before <= second:
        return "invalid_exact_evm_payload_authorization_valid_before"
    if authorization.valid_after >= second:
        return "invalid_exact_evm_payload_authorization_valid_after"
    return None


def _json(content: object) -> Response:
    return reply(HTTPStatus.OK, msgspec.json.encode(content))


def _problem(status: HTTPStatus, message: str) -> Response:
    return reply(status, msgspec.json.encode({"error": message}))


def load_ledger(data: Path) -> TokenLedger:
    """The ledger of a folder, whose wallets all start with the same funds.

    Raises:
        ConfigurationError: one of its files is damaged.
    """
    wallets = load_or_create_wallets(data).values()
    return TokenLedger({wallet.address: FUNDS for wallet in wallets}, data / FILE_NAME)


@asynccontextmanager
async def running_facilitator(
    ledger: TokenLedger,
    faults: FacilitatorFaults | None = None,
    port: int = 0,
    clock: Clock = system_clock,
) -> AsyncIterator[ServerAddress]:
    """Run a facilitator until the context ends; port 0 picks a free one."""
    server = FacilitatorServer(ledger, clock, FacilitatorFaults() if faults is None else faults)
    async with server.running(HOST, port) as bound:
        yield ServerAddress(HOST, bound)
