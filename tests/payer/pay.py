"""A program: a payer with the x402 package's own client, which does what it reads.

Each line of the standard input is a JSON object: `url`, the wallet's `key`, and `cap`, the most
that it may spend on one request (null: as the client comes). For each, one line of JSON says what
came of it. `offer` instead of `url` asks for a proof of what is offered there, sent nowhere.
"""

import asyncio
import json
import sys
from typing import Any

import httpx
from eth_account import Account
from x402 import x402Client
from x402.http import x402HTTPClient
from x402.http.clients.httpx import PaymentError, x402HttpxClient
from x402.mechanisms.evm.exact import register_exact_evm_client
from x402.mechanisms.evm.signers import EthAccountSigner
from x402.schemas import PaymentCreatedContext

SECONDS = 30
PROOF = "PAYMENT-SIGNATURE"
RECEIPT = "PAYMENT-RESPONSE"


class Payer:
    """A wallet behind a stock client."""

    def __init__(self, key: str, cap: str | None) -> None:
        self._client = x402Client()
        register_exact_evm_client(self._client, EthAccountSigner(Account.from_key(key)))
        if cap is not None:
            self._client.set_spend_controls({"max_amount_per_payment": cap})
        self._client.on_after_payment_creation(self._keep)
        self._wire = x402HTTPClient(self._client)
        self._proofs: list[str] = []

    async def get(self, url: str) -> dict[str, Any]:
        """Get it, and pay when asked to, as far as the client lets itself be asked."""
        try:
            async with x402HttpxClient(self._client, timeout=SECONDS) as http:
                response = await http.get(url)
        except PaymentError as error:
            return {"refused": str(error), "proofs": self._proofs}
        read = self._wire.get_payment_settle_response
        receipt = read(response.headers.get) if RECEIPT in response.headers else None
        return {
            "status": response.status_code,
            "body": response.json(),
            "receipt": receipt and receipt.model_dump(mode="json", by_alias=True),
            "proofs": self._proofs,
        }

    async def sign(self, offer: str) -> dict[str, Any]:
        """Sign for what is offered at an address."""
        async with httpx.AsyncClient(timeout=SECONDS, trust_env=False) as http:
            response = await http.get(offer)
        asked = self._wire.get_payment_required_response(response.headers.get, response.json())
        await self._client.create_payment_payload(asked)
        return {"proofs": self._proofs}

    def _keep(self, created: PaymentCreatedContext) -> None:
        headers = self._wire.encode_payment_signature_header(created.payment_payload)
        self._proofs.append(headers[PROOF])


async def _done(command: dict[str, Any]) -> dict[str, Any]:
    payer = Payer(command["key"], command["cap"])
    if "offer" in command:
        return await payer.sign(command["offer"])
    return await payer.get(command["url"])


def main() -> None:
    """Do what is read until there is no more."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(asyncio.run(_done(json.loads(line)))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
