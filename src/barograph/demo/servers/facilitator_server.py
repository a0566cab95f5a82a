"""The simulated facilitator: `/verify`, `/settle`, `/supported`, a node at `/rpc`, and control."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import msgspec
from websockets.http11 import Response

from barograph.demo.servers import facilitator_faults as named
from barograph.demo.servers.chain import FILE_NAME, PAY_TO, Ledger, Node
from barograph.demo.servers.control import TEXT, ServerAddress, reply
from barograph.demo.servers.exchange import real_clock
from barograph.demo.servers.facilitator import (
    NO_FUNDS,
    Facilitator,
    Question,
    not_settled,
    read_question,
    supported,
    verdict,
)
from barograph.demo.servers.facilitator_faults import FacilitatorFaults
from barograph.demo.servers.http import Caller, HttpServer, Request
from barograph.demo.servers.wallets import FUNDS, load_or_create_wallets

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
_CANNOT_TELL: Final = {
    VERIFY_PATH: "unexpected_verify_error",
    SETTLE_PATH: "unexpected_settle_error",
}
_PAGE: Final = b"<!DOCTYPE html>\n<html lang=en><title>Sorry</title><h1>Be right back</h1></html>\n"


class FacilitatorServer(HttpServer):
    """One running facilitator: answers requests and obeys commands."""

    def __init__(self, ledger: Ledger, clock: Callable[[], int], faults: FacilitatorFaults) -> None:
        super().__init__()
        self._facilitator = Facilitator(ledger)
        self._node = Node(ledger, clock)
        self._clock = clock
        self._faults = faults

    async def respond(self, request: Request, caller: Caller) -> Response | None:
        """Answer a request; None hangs up without a word."""
        known = request.path in _METHODS
        self.requests[request.path if known else "other"] += 1
        if not known:
            return _problem(HTTPStatus.NOT_FOUND, "there is nothing here")
        if request.method != _METHODS[request.path]:
            return _problem(HTTPStatus.METHOD_NOT_ALLOWED, f"use {_METHODS[request.path]}")
        if request.path == RPC_PATH:
            return self._rpc(request.body)
        return await self._unless_broken(request, caller)

    async def _unless_broken(self, request: Request, caller: Caller) -> Response | None:
        """Answer what was asked of the facilitator, unless a fault answers in its stead."""
        while (fault := self._faults.replacing()) == named.HANG:
            if not await caller.stays_until(self._faults.changed()):
                return None
        if fault is not None:
            return _wrong(fault, request.path)
        return await self._answer(request, caller)

    def _rpc(self, body: bytes) -> Response:
        if self._faults.is_on(named.CHAIN_DOWN):
            return reply(HTTPStatus.SERVICE_UNAVAILABLE, b"service unavailable\n", TEXT)
        return reply(HTTPStatus.OK, self._node.answer(body))

    async def _answer(self, request: Request, caller: Caller) -> Response | None:
        if request.path == SUPPORTED_PATH:
            return _json(supported())
        try:
            question = read_question(request.body)
        except ValueError:
            return _problem(HTTPStatus.BAD_REQUEST, "invalid_payload")
        if request.path == VERIFY_PATH:
            return _json(self._verdict(question))
        settled = self._settle(question)
        while self._faults.is_on(named.SETTLE_TIMEOUT):
            if not await caller.stays_until(self._faults.changed()):
                return None
            settled = None  # who was kept waiting is never told
        return None if settled is None else _json(settled)

    def _verdict(self, question: Question) -> dict[str, Any]:
        reason = self._made_up(VERIFY_PATH) or self._facilitator.verify(question, self._clock())
        return self._distorted(verdict(question, reason))

    def _settle(self, question: Question) -> dict[str, Any] | None:
        reason = self._made_up(SETTLE_PATH)
        if reason is not None:
            return not_settled(question, reason)
        return self._distorted(self._facilitator.settle(question, self._clock()))

    def _made_up(self, path: str) -> str | None:
        """The reason that a fault gives, without a look at the payment."""
        if self._faults.is_on(named.CHAIN_DOWN):
            return _CANNOT_TELL[path]
        return NO_FUNDS if self._faults.is_on(named.REFUSE) else None

    def _distorted(self, answer: dict[str, Any]) -> dict[str, Any]:
        return {**answer, "payer": PAY_TO} if self._faults.is_on(named.WRONG_PAYER) else answer

    def obey(self, command: dict[str, object]) -> dict[str, object]:
        """Carry out a command and say how it went."""
        return self._faults.obey(command, self._clock())


def _wrong(fault: str, path: str) -> Response:
    """The reply that a fault gives in the facilitator's stead."""
    match fault:
        case named.REDIRECT:
            return reply(HTTPStatus.TEMPORARY_REDIRECT, b"", TEXT, Location=f"{path}/")
        case named.HTML:
            return reply(HTTPStatus.OK, _PAGE, "text/html; charset=utf-8")
        case _:
            return reply(HTTPStatus.SERVICE_UNAVAILABLE, b"service unavailable\n", TEXT)


def _json(content: dict[str, Any]) -> Response:
    return reply(HTTPStatus.OK, msgspec.json.encode(content))


def _problem(status: HTTPStatus, message: str) -> Response:
    return reply(status, msgspec.json.encode({"error": message}))


def load_ledger(data: Path) -> Ledger:
    """The ledger of a folder, in which each of its wallets began with the same funds.

    Raises:
        ConfigurationError: a file of it holds something else.
    """
    wallets = load_or_create_wallets(data).values()
    return Ledger({wallet.address: FUNDS for wallet in wallets}, data / FILE_NAME)


@asynccontextmanager
async def running_facilitator(
    ledger: Ledger,
    faults: FacilitatorFaults | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    clock: Callable[[], int] = real_clock,
) -> AsyncIterator[ServerAddress]:
    """A facilitator for as long as the context lasts; port 0 takes any free one.

    Raises:
        OSError: the port is taken.
    """
    server = FacilitatorServer(ledger, clock, FacilitatorFaults() if faults is None else faults)
    async with server.running(host, port) as bound:
        yield ServerAddress(host, bound)
