"""A program: a local chain and the x402 package's own facilitator, both on one loopback port.

`POST /rpc` is the chain's JSON-RPC; `POST /verify`, `POST /settle` and `GET /supported` are the
facilitator, which uses that chain as it would any other. One line of JSON on the standard output
says where everything is and who owns each wallet. Every start creates new keys.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from eth_account import Account
from pydantic import BaseModel, ValidationError
from x402 import x402FacilitatorSync
from x402.mechanisms.evm.exact import register_exact_evm_facilitator
from x402.mechanisms.evm.signers import FacilitatorWeb3Signer
from x402.schemas import PaymentPayload, PaymentRequirements

from payer.local_chain import ASSET, NETWORK, LocalChain, RpcError

DOLLAR = 10 ** ASSET["decimals"]
FUNDS = 100 * DOLLAR
"""What every wallet named on the command line has at first; one called `empty` has nothing."""


class Doors(ThreadingHTTPServer):
    """Where the chain and the facilitator are asked."""

    daemon_threads = True

    def __init__(self, chain: LocalChain, facilitator_key: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.chain = chain
        signer = FacilitatorWeb3Signer(private_key=facilitator_key, rpc_url=f"{self.url}/rpc")
        self.facilitator = x402FacilitatorSync()
        register_exact_evm_facilitator(self.facilitator, signer, networks=NETWORK)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    server: Doors

    def do_GET(self) -> None:
        if self.path == "/supported":
            self._say(200, _dumped(self.server.facilitator.get_supported()))
        else:
            self._say(404, {"error": "not found"})

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/rpc":
            self._say(200, self._rpc(given))
        elif self.path in {"/verify", "/settle"}:
            self._facilitate(given)
        else:
            self._say(404, {"error": "not found"})

    def _rpc(self, given: dict[str, Any]) -> dict[str, Any]:
        answer = {"jsonrpc": "2.0", "id": given["id"]}
        try:
            return answer | {"result": self.server.chain.answer(given["method"], given["params"])}
        except RpcError as error:
            return answer | {"error": {"code": error.code, "message": str(error)}}

    def _facilitate(self, given: dict[str, Any]) -> None:
        try:
            payload = PaymentPayload.model_validate(given["paymentPayload"])
            requirements = PaymentRequirements.model_validate(given["paymentRequirements"])
        except (KeyError, ValidationError):
            self._say(400, {"error": "this is no payment"})
            return
        facilitator = self.server.facilitator
        act = facilitator.verify if self.path == "/verify" else facilitator.settle
        self._say(200, _dumped(act(payload, requirements)))

    def _say(self, status: int, body: dict[str, Any]) -> None:
        encoded = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *_: object) -> None:
        """Nothing: a proof is worth its money until it expires."""


def _dumped(model: BaseModel) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def main(names: list[str]) -> None:
    """Serve until the standard input ends."""
    wallets = {name: Account.create() for name in names}
    facilitator, merchant = Account.create(), Account.create()
    dollars = {each.address: FUNDS for name, each in wallets.items() if name != "empty"}
    doors = Doors(LocalChain(dollars, facilitator.address), facilitator.key.hex())
    Thread(target=doors.serve_forever, daemon=True).start()
    told = {
        "url": doors.url,
        "network": NETWORK,
        "asset": ASSET["asset"],
        "name": ASSET["name"],
        "version": ASSET["version"],
        "pay_to": merchant.address,
        "wallets": {
            name: {"address": each.address, "key": each.key.hex()} for name, each in wallets.items()
        },
    }
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1:])
