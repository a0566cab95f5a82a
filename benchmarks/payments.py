"""Payments: the cost of reading a proof and of a paid read, and the effect of a flood.

The facilitator is a stand-in that checks each signature at once and moves no money, so the rest is
the service's own time.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from barograph.entitlements.purchases import stance_requirements
from barograph.kit.clock import system_clock
from barograph.kit.documents import JSON
from barograph.kit.http import ASGIApp, Receive, Scope, Send
from barograph.kit.operating_system import die_with_parent
from barograph.limits.rate_limits import PROOFS
from barograph.payments.proof import decode_proof, match_offer, wire_payload, wire_requirements
from barograph.settings import Settings
from barograph.stances import rates
from barograph.stances.documents import STANCE_PATHS
from barograph.stances.endpoints import stance_offer
from barograph_demo.configuration import payment_settings
from barograph_demo.servers.facilitator import (
    SETTLE_PATH,
    VERIFY_PATH,
    PaymentRequest,
    read_request,
    verify_reply,
)
from barograph_demo.servers.identity import demo_token
from barograph_demo.servers.wallets import NETWORK
from benchmarks import bench
from benchmarks.comparison import entitled_settings, fill_service, identity_provider
from benchmarks.peers import running_peer
from benchmarks.proofs import (
    PAYERS,
    bare_check,
    load_payments,
    new_wallet,
    proof_figures,
    stock_proof,
)

TITLE = "Payments by x402: median of the rounds (middle half)"
PAYMENTS = 100_000
READS = 50
"""Reads of each kind per round."""

BAD_PROOFS = 200
PATH = STANCE_PATHS[rates.KIND]
VERSIONS = 10
COUNT_PATH = "/count"
BAD_SIGNATURE = "invalid_exact_evm_payload_signature"


class Shop(NamedTuple):
    """A service that takes payments, and what a payer needs."""

    settings: Settings
    child: bench.Child
    token: str
    offer: Mapping[str, Any]
    facilitator_port: int

    def cpu_ms(self) -> float:
        """CPU time of its worker, user and system."""
        return bench.cpu_seconds(self.child.workers()) * 1_000

    def asked(self) -> Counter[str]:
        """Requests to its facilitator, by path."""
        answer = bench.answers(self.facilitator_port, COUNT_PATH)
        if answer is None:
            raise bench.BenchmarkFailed("the facilitator does not respond")
        return Counter(msgspec.json.decode(answer.body))


class Request(NamedTuple):
    """A prepared request."""

    path: str
    fields: Mapping[str, str] = {}
    body: bytes | None = None


class Round(NamedTuple):
    """Median response time and CPU time of one read of each kind, in ms."""

    entitled: float
    entitled_cpu: float
    paid: float
    paid_cpu: float
    facilitator: float
    """Both calls, by a plain client."""

    @property
    def added(self) -> float:
        """What paying adds, without the facilitator's own time."""
        return self.paid - self.entitled - self.facilitator


def measure(plan: bench.Plan, folder: Path) -> bench.Section:
    """Read proofs, then pay for reads, then send bad proofs."""
    print(f"payments: loading {PAYMENTS:,}", file=sys.stderr)
    with _shop(folder) as shop:
        terms, database = stance_requirements(shop.settings), shop.settings.database_path
        now = system_clock()
        proofs = [stock_proof(new_wallet(), shop.offer, now) for _ in range(PAYERS)]
        load_payments(database, terms, [each.header for each in proofs[::2]], PAYMENTS)
        print("payments", file=sys.stderr)
        figures = proof_figures(database, terms, proofs, PAYMENTS, plan.rounds)
        figures += _paid_reads(shop, plan.rounds)
        figures.append(_flood(shop))
    return bench.Section(TITLE, figures)


def _paid_reads(shop: Shop, rounds: int) -> list[bench.Figure]:
    """Entitled and paid reads in turns, after a warm-up round."""
    found = [_round(shop, number) for number in range(rounds + 1)][1:]
    middle = Round(*(median(column) for column in zip(*found, strict=True)))
    return [
        bench.Figure(
            "entitled read", f"p50 {middle.entitled:.2f} ms, CPU {middle.entitled_cpu:.2f} ms"
        ),
        bench.Figure("paid read", f"p50 {middle.paid:.2f} ms, CPU {middle.paid_cpu:.2f} ms"),
        bench.Figure("  of that the facilitator's two answers", f"{middle.facilitator:.2f} ms"),
        bench.at_least("  added by paying, without these, ms", [each.added for each in found]),
    ]


def _round(shop: Shop, number: int) -> Round:
    entitled = [Request(PATH, {"Authorization": f"Bearer {shop.token}"})] * READS
    wallets = [new_wallet() for _ in range(READS)]
    now = system_clock()
    proofs = [stock_proof(wallet, shop.offer, now).header for wallet in wallets]
    # Each from another address, because proofs are limited per address.
    paid = [_paying(proof, f"198.18.{number % 256}.{place}") for place, proof in enumerate(proofs)]
    started = shop.cpu_ms()
    entitled_p50 = _p50(shop.settings.port, entitled)
    between = shop.cpu_ms()
    paid_p50 = _p50(shop.settings.port, paid)
    ended = shop.cpu_ms()
    return Round(
        entitled_p50,
        (between - started) / READS,
        paid_p50,
        (ended - between) / READS,
        sum(_p50(shop.facilitator_port, _questions(shop, path, proofs)) for path in ANSWERS),
    )


def _paying(proof: str, address: str) -> Request:
    return Request(PATH, {"PAYMENT-SIGNATURE": proof, "X-Forwarded-For": address})


def _questions(shop: Shop, path: str, proofs: Sequence[str]) -> list[Request]:
    """The service's calls about these proofs."""
    terms = stance_requirements(shop.settings)
    wire = wire_requirements(terms)
    read = [match_offer(decode_proof(each), [terms]) for each in proofs]
    whole = [
        {"x402Version": 2, "paymentPayload": wire_payload(each), "paymentRequirements": wire}
        for each in read
    ]
    return [Request(path, {}, msgspec.json.encode(each)) for each in whole]


def _flood(shop: Shop) -> bench.Figure:
    """Bad proofs from one address, each well-formed and new."""
    forger = new_wallet()._replace(address=new_wallet().address)
    now = system_clock()
    proofs = [stock_proof(forger, shop.offer, now).header for _ in range(BAD_PROOFS)]
    before = shop.asked()
    with _connected(shop.settings.port) as send:
        statuses = Counter(send(_paying(each, "203.0.113.7")) for each in proofs)
    calls = (shop.asked() - before).total()
    answered = ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items()))
    return bench.Figure(
        f"facilitator's calls for {BAD_PROOFS} bad proofs of one address",
        f"{calls} ({answered})",
        f"= {PROOFS.requests}",
        calls == PROOFS.requests,
    )


def _p50(port: int, requests: Sequence[Request]) -> float:
    """One request at a time; milliseconds."""
    spans = []
    with _connected(port) as send:
        for request in requests:
            started = time.perf_counter()
            status = send(request)
            spans.append((time.perf_counter() - started) * 1_000)
            if status != HTTPStatus.OK:
                raise bench.BenchmarkFailed(f"{request.path} answers {status}")
    return median(spans)


@contextmanager
def _connected(port: int) -> Iterator[Callable[[Request], int]]:
    """One connection; sending a request returns the status of its response."""
    connection = HTTPConnection(bench.HOST, port, timeout=60)

    def send(request: Request) -> int:
        method = "GET" if request.body is None else "POST"
        connection.request(method, request.path, request.body, request.fields)
        response = connection.getresponse()
        response.read()
        return response.status

    try:
        yield send
    finally:
        connection.close()


@contextmanager
def _shop(folder: Path) -> Iterator[Shop]:
    with ExitStack() as stack:
        provider = stack.enter_context(identity_provider(folder))
        facilitator = (
            "benchmarks.payments:facilitator",
            lambda port: bench.answers(port, COUNT_PATH),
        )
        _, port = stack.enter_context(running_peer(*facilitator, folder / "facilitator.log"))
        # Behind a proxy, so that each payer can have its own address.
        paying = {**payment_settings(f"{bench.HOST}:{port}"), "trusted_proxies": bench.HOST}
        paying["accept_terms"] = "selling"
        settings = entitled_settings(folder / "shop", provider).model_copy(update=paying)
        fill_service(settings, VERSIONS)
        terms = stance_requirements(settings)
        offer = stance_offer(rates.KIND, terms, settings.base_url).document("Payment required")
        token = demo_token(folder, "feed", system_clock(), provider.url)
        child = stack.enter_context(bench.web_service(settings))
        yield Shop(settings, child, token, msgspec.json.decode(offer), port)


def facilitator() -> ASGIApp:
    """The stand-in, which counts its requests."""
    die_with_parent()
    asked: Counter[str] = Counter()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        said: Mapping[str, Any] = asked
        if scope["path"] in ANSWERS:
            asked[scope["path"]] += 1
            said = ANSWERS[scope["path"]](read_request(await _body(receive)))
        body = msgspec.json.encode(said)
        headers = [(b"content-type", JSON), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    return app


async def _body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _verified(question: PaymentRequest) -> dict[str, Any]:
    signature = bytes.fromhex(question.payment_payload.payload.signature[2:])
    signer = bare_check(question.authorization, signature)()
    return verify_reply(question, None if signer == question.payer.lower() else BAD_SIGNATURE)


def _settled(question: PaymentRequest) -> dict[str, Any]:
    # Any 32 bytes can be a transaction's hash.
    transaction = question.authorization.nonce
    return {
        "success": True,
        "transaction": transaction,
        "network": NETWORK,
        "payer": question.payer,
    }


ANSWERS: Mapping[str, Callable[[PaymentRequest], dict[str, Any]]] = {
    VERIFY_PATH: _verified,
    SETTLE_PATH: _settled,
}
