"""The demo's facilitator on loopback, and the service's adapters for it."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from barograph.entitlements.purchases import feed_requirements
from barograph.payments.proof import decode_proof, match_offer, wire_payload, wire_requirements
from barograph.payments.records import (
    ChainUnavailable,
    FacilitatorUnavailable,
    InvalidProof,
    Proof,
    Settled,
    SettlementUnknown,
)
from barograph.settings import Settings
from barograph.upstream.chain import JsonRpcChain
from barograph.upstream.facilitator import HttpFacilitator
from barograph_demo.configuration import payment_settings
from barograph_demo.servers.chain import FILE_NAME, TokenLedger
from barograph_demo.servers.control import HOST, ServerAddress
from barograph_demo.servers.facilitator import FacilitatorServer, PaymentRequest, load_ledger
from barograph_demo.servers.faults import FacilitatorFaults
from barograph_demo.servers.wallets import (
    ASSET,
    FUNDS,
    SIGNATURE_BYTES,
    TOKEN,
    demo_proof,
    load_or_create_wallets,
    recover,
    transfer_digest,
)
from support.clock import HandClock
from support.payments import payment


class World:
    """The demo's facilitator on loopback, and the service's adapters for it."""

    def __init__(
        self, folder: Path, address: ServerAddress, faults: FacilitatorFaults, clock: HandClock
    ) -> None:
        self.folder = folder
        self.address = address
        self.faults = faults
        self.clock = clock
        place = f"{address.host}:{address.port}"
        settings = Settings.model_validate(payment_settings(place))
        self.terms = feed_requirements(settings)
        # Without a chain, the adapter reports every refusal.
        self.facilitator = HttpFacilitator(settings.model_copy(update={"x402_chain_url": ""}))
        self.chain = JsonRpcChain(settings)

    def proof(self, wallet: str = "none", **changes: Any) -> Proof:
        """A valid proof; `changes` are made after it was signed."""
        terms = wire_requirements(self.terms)
        text = demo_proof(self.folder, wallet, terms, self.clock())
        made = match_offer(decode_proof(text), [self.terms])
        return Proof(**{name: getattr(made, name) for name in Proof.__struct_fields__} | changes)

    async def verified(self, proof: Proof) -> str:
        """The outcome of verifying a proof."""
        try:
            await self.facilitator.verify(proof)
        except InvalidProof as error:
            return str(error)
        except FacilitatorUnavailable:
            return "unavailable"
        return "valid"

    async def settled(self, proof: Proof) -> str:
        """The outcome of settling a proof."""
        try:
            outcome = await self.facilitator.settle(proof)
        except SettlementUnknown:
            return "unknown"
        except FacilitatorUnavailable:
            return "unavailable"
        return "settled" if isinstance(outcome, Settled) else outcome.reason

    async def on_chain(self, proof: Proof) -> str:
        """What the chain shows about a proof."""
        try:
            return (await self.chain.authorization(payment(proof, self.clock()))).word
        except ChainUnavailable:
            return "unavailable"

    async def post(self, path: str, body: Any) -> Any:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with httpx2.AsyncClient(
            base_url=self.address.url, trust_env=False, verify=False
        ) as client:
            return (await client.post(path, content=content)).json()

    async def rpc(self, method: str, *params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        reply = await self.post("/rpc", message)
        assert (reply["jsonrpc"], reply["id"]) == ("2.0", 7)
        return reply.get("result", reply.get("error"))

    async def balance(self, wallet: str, block: str = "latest") -> int:
        wallets = load_or_create_wallets(self.folder)
        account = wallets[wallet].address if wallet in wallets else wallet
        call = {"to": ASSET, "data": f"0x70a08231{account[2:]:0>64}"}
        return int(await self.rpc("eth_call", call, block), 16)


class ContractFacilitator(FacilitatorServer):
    """Asks the contracts of smart wallets, which want a signature of every owner in turn."""

    owners: Mapping[str, Sequence[str]]

    def _wrong_signature(self, payment: PaymentRequest) -> str | None:
        owners = self.owners.get(payment.payer.lower())
        if owners is None:
            return super()._wrong_signature(payment)
        digest = transfer_digest(TOKEN, payment.authorization)
        given = bytes.fromhex(payment.payment_payload.payload.signature[2:])
        starts = range(0, len(given), SIGNATURE_BYTES)
        signers = [recover(digest, given[start : start + SIGNATURE_BYTES]) for start in starts]
        return None if signers == owners else "invalid_exact_evm_payload_signature"


@asynccontextmanager
async def running_world(
    folder: Path, smart_wallets: Mapping[str, Sequence[str]] | None = None
) -> AsyncIterator[World]:
    """Start a world; `smart_wallets` are the owners of each, and have all the money."""
    faults, clock = FacilitatorFaults(), HandClock()
    if smart_wallets is None:
        server = FacilitatorServer(load_ledger(folder), clock, faults)
    else:
        ledger = TokenLedger(dict.fromkeys(smart_wallets, FUNDS), folder / FILE_NAME)
        server = ContractFacilitator(ledger, clock, faults)
        server.owners = smart_wallets
    async with server.running(HOST, 0) as port:
        world = World(folder, ServerAddress(HOST, port), faults, clock)
        try:
            yield world
        finally:
            await world.facilitator.close()
            await world.chain.close()


def question(proof: Proof) -> dict[str, Any]:
    return {
        "x402Version": 2,
        "paymentPayload": wire_payload(proof),
        "paymentRequirements": wire_requirements(proof.requirements),
    }
