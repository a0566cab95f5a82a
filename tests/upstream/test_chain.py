"""What a node of the chain tells of an authorization, and what it must not be believed."""

import asyncio
import json
from collections.abc import Callable
from itertools import count
from typing import Any

import httpx2
import pytest

from barograph.kit.keccak import keccak256
from barograph.payments.records import ChainFinding, ChainUnavailable, Payment
from barograph.settings import Settings
from barograph.upstream.chain import (
    AUTHORIZATION_STATE,
    CANCELED,
    CHAIN_SECONDS,
    MAX_REPLY_BYTES,
    TRANSFER,
    USED,
    JsonRpcChain,
)
from support.clock import START
from support.payments import PAYER, STANCE, payment, proof

URL = "https://node.test/v2/secret-key"
NOW = START // 1000
BLOCK_SECONDS = 2
HEAD = 40_000_000
NONCE = "0x" + "7e" * 32
OTHER_NONCE = "0x" + "7f" * 32
SOMEBODY = "0x" + "dd" * 20
HASH = "0x" + "ab" * 32
OTHER_HASH = "0x" + "cd" * 32
PAYMENT = payment(proof(), nonce=NONCE, path="/api/x402/rates-desk")


def word(value: str | int) -> str:
    digits = format(value, "x") if isinstance(value, int) else value[2:]
    return "0x" + digits.rjust(64, "0")


class Node:
    """A node whose newest block is `head`, made at `now`; what it says can be bent."""

    def __init__(self, now: int = NOW, safe_lag: int = 0, height: int = HEAD) -> None:
        self.now = now
        self.height = height
        """The number of the block of `NOW`."""

        self.safe_lag = safe_lag
        self.chain_id = 84532
        self.taken_at: int | None = None
        self.events: list[dict[str, Any]] = []
        self.bent: dict[str, Callable[[Any], Any]] = {}
        self.asked: list[tuple[str, list[Any]]] = []

    @property
    def head(self) -> int:
        return self.number_at(self.now)

    def number_at(self, second: int) -> int:
        return self.height + (second - NOW) // BLOCK_SECONDS

    def methods(self) -> list[str]:
        return [method for method, _ in self.asked]

    def use(
        self,
        *moved: tuple[str, int],
        at: int = NOW + 4,
        nonce: str = NONCE,
        transaction: str = HASH,
    ) -> None:
        """Use a nonce in a transaction that moves these amounts to these accounts."""
        self._emit(USED, at, [nonce], "0x", transaction)
        for account, amount in moved:
            self._emit(TRANSFER, at, [word(account)], word(amount), transaction)

    def cancel(self, at: int = NOW + 4) -> None:
        self._emit(CANCELED, at, [NONCE], "0x", HASH)

    def _emit(self, kind: str, at: int, rest: list[str], data: str, transaction: str) -> None:
        block = self.number_at(at)
        self.events.append(
            {
                "address": STANCE.asset,
                "topics": [kind, word(PAYER), *rest],
                "data": data,
                "blockNumber": hex(block),
                "transactionHash": transaction,
                "logIndex": hex(len(self.events)),
                "removed": False,
            }
        )
        if NONCE in rest:
            self.taken_at = block

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        assert str(request.url) == URL
        message = json.loads(request.content)
        method, params = message["method"], message["params"]
        self.asked.append((method, params))
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": self._result(method, params)}
        if method in self.bent:
            answer = self.bent[method](answer)
        return answer if isinstance(answer, httpx2.Response) else httpx2.Response(200, json=answer)

    def _result(self, method: str, params: list[Any]) -> Any:
        match method:
            case "eth_chainId":
                return hex(self.chain_id)
            case "eth_getBlockByNumber":
                return self._block(params[0])
            case "eth_call":
                return self._state(*params)
            case _:
                return self._logs(params[0])

    def _block(self, which: str) -> dict[str, Any]:
        named = {"latest": self.head, "safe": self.head - self.safe_lag}
        number = named[which] if which in named else int(which, 16)
        assert number >= 0
        made = NOW + (number - self.height) * BLOCK_SECONDS
        return {"number": hex(number), "timestamp": hex(made), "transactions": [HASH] * 3}

    def _state(self, call: dict[str, str], which: str) -> str:
        assert call["to"] == STANCE.asset
        assert call["data"] == AUTHORIZATION_STATE + word(PAYER)[2:] + NONCE[2:]
        return word(int(self.taken_at is not None and self.taken_at <= int(which, 16)))

    def _logs(self, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        first, last = int(wanted["fromBlock"], 16), int(wanted["toBlock"], 16)
        assert first <= last < first + 500
        return [
            event
            for event in self.events
            if wanted["address"] == event["address"]
            and first <= int(event["blockNumber"], 16) <= last
            and _fits(event["topics"], wanted["topics"])
        ]


def _fits(topics: list[str], wanted: list[list[str]]) -> bool:
    return all(topic in some for topic, some in zip(topics, wanted, strict=False))


def look(
    node: Callable[[httpx2.Request], Any],
    payment: Payment = PAYMENT,
    seconds: float = CHAIN_SECONDS,
    times: int = 1,
) -> ChainFinding | str:
    """What the chain tells, or why it does not."""
    settings = Settings.model_validate(
        {
            "x402_chain_url": URL,
            "x402_network": STANCE.network,
            "x402_asset": STANCE.asset,
            "x402_pay_to": STANCE.pay_to.upper().replace("X", "x"),
            "x402_facilitator_url": "http://127.0.0.1:1",
        }
    )

    async def run() -> ChainFinding | str:
        chain = JsonRpcChain(settings, transport=httpx2.MockTransport(node), seconds=seconds)
        try:
            for _ in range(times - 1):
                await chain.authorization(payment)
            return await chain.authorization(payment)
        except ChainUnavailable as error:
            return str(error)
        finally:
            await chain.close()

    return asyncio.run(run())


def is_unavailable(found: ChainFinding | str) -> bool:
    if isinstance(found, ChainFinding):
        return False
    secrets = ("secret-key", "node.test", PAYER[2:], NONCE[2:])
    return not any(secret in found for secret in secrets)


def test_the_names_of_calls_and_events_are_their_hashes() -> None:
    def name(text: str) -> str:
        return "0x" + keccak256(text.encode()).hex()

    assert name("authorizationState(address,bytes32)")[:10] == AUTHORIZATION_STATE
    assert name("Transfer(address,address,uint256)") == TRANSFER
    assert name("AuthorizationUsed(address,bytes32)") == USED
    assert name("AuthorizationCanceled(address,bytes32)") == CANCELED


@pytest.mark.parametrize(
    ("now", "safe_lag", "expected"),
    [
        (NOW, 0, "unused"),
        (NOW + 58, 0, "unused"),
        (NOW + 60, 0, "unused"),
        (NOW + 62, 0, "expired"),
        (NOW + 62, 1, "unused"),
        (NOW + 200, 70, "unused"),
        (NOW + 200, 69, "expired"),
    ],
)
def test_a_nonce_that_is_free_is_expired_once_a_block_that_stays_is_past_its_time(
    now: int, safe_lag: int, expected: str
) -> None:
    assert look(Node(now, safe_lag)) == ChainFinding(expected)  # type: ignore[arg-type]


@pytest.mark.parametrize("height", [HEAD, 0, 3, 199, 450])
def test_the_money_that_came_is_found_also_on_a_chain_that_has_just_begun(height: int) -> None:
    node = Node(NOW + 10, safe_lag=1_000 if height == HEAD else 0, height=height)
    node.use((STANCE.pay_to, STANCE.amount))

    assert look(node) == ChainFinding("used", HASH)


def test_the_money_is_looked_for_where_the_payment_itself_went() -> None:
    """Also after the operator is paid at another address."""
    before = PAYMENT._replace(pay_to=SOMEBODY)
    node = Node(NOW + 200)
    node.use((SOMEBODY, STANCE.amount))
    assert look(node, before) == ChainFinding("used", HASH)
    assert look(node) == ChainFinding("spent", HASH)


@pytest.mark.parametrize("later", [10, 600, 3_600, 86_400, 30 * 86_400])
def test_payment_is_found_however_late_with_few_chain_queries(later: int) -> None:
    node = Node(NOW + 60 + later)
    node.use((STANCE.pay_to, STANCE.amount), at=NOW + 58)

    assert look(node) == ChainFinding("used", HASH)
    assert len(node.asked) < 45


@pytest.mark.outcome(
    "A payer cancels an authorization or reuses its nonce during settlement",
    "Nothing is granted, although the chain shows the nonce as used.",
)
@pytest.mark.parametrize(
    "moved",
    [
        [],
        [(PAYER, STANCE.amount)],
        [(SOMEBODY, STANCE.amount)],
        [(STANCE.pay_to, STANCE.amount - 1)],
        [(STANCE.pay_to, STANCE.amount * 2)],
        [(STANCE.pay_to, 0)],
    ],
    ids=count(),
)
def test_nonce_that_did_not_pay_the_offer_counts_as_spent(
    moved: list[tuple[str, int]],
) -> None:
    node = Node(NOW + 200)
    node.use(*moved)

    assert look(node) == ChainFinding("spent", HASH)


def test_what_speaks_against_the_payer_counts_only_in_a_block_that_stays() -> None:
    node = Node(NOW + 10, safe_lag=4)
    node.cancel()
    assert look(node) == ChainFinding("unused")

    node.safe_lag = 3
    assert look(node) == ChainFinding("spent", HASH)


def test_money_that_came_in_another_transaction_is_not_of_this_nonce() -> None:
    node = Node(NOW + 200)
    node.use((STANCE.pay_to, STANCE.amount), nonce=OTHER_NONCE, transaction=OTHER_HASH)
    node.use((PAYER, STANCE.amount))

    assert look(node) == ChainFinding("spent", HASH)


def test_one_transfer_does_not_pay_for_two_nonces_and_two_transfers_do() -> None:
    node = Node(NOW + 200)
    node.use((STANCE.pay_to, STANCE.amount), nonce=OTHER_NONCE)
    node.use((PAYER, STANCE.amount))
    assert is_unavailable(look(node))

    node.use((STANCE.pay_to, STANCE.amount), nonce="0x" + "80" * 32)
    assert is_unavailable(look(node))

    both = Node(NOW + 200)
    both.use((STANCE.pay_to, STANCE.amount), nonce=OTHER_NONCE)
    both.use((STANCE.pay_to, STANCE.amount))
    assert look(both) == ChainFinding("used", HASH)


def test_the_state_is_asked_of_the_very_block_whose_time_counts() -> None:
    node = Node(NOW + 62)
    first = hex(node.head)

    def go_on(answer: Any) -> Any:
        node.now += 60
        return answer

    node.bent["eth_getBlockByNumber"] = go_on
    node.use((STANCE.pay_to, STANCE.amount), at=NOW + 64)

    # The newest block has no use of the nonce, and the one that stays is a later one by now.
    assert is_unavailable(look(node))
    assert [params[1] for method, params in node.asked if method == "eth_call"] == [first]


def test_the_chains_name_is_asked_for_once() -> None:
    node = Node()
    look(node, times=3)

    assert node.methods().count("eth_chainId") == 1


def test_a_node_of_another_chain_is_not_believed() -> None:
    node = Node(NOW + 200)
    node.chain_id = 8453

    assert is_unavailable(look(node))
    assert node.methods() == ["eth_chainId"]


def test_a_payment_on_another_chain_is_not_looked_for_here() -> None:
    node = Node(NOW + 200)

    assert is_unavailable(look(node, PAYMENT._replace(network="eip155:8453")))
    assert node.asked == []


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        ({"result": None}, True),
        ({"error": {"code": -32602, "message": "invalid block tag"}}, True),
        ({"error": {"code": -39001, "message": "safe block not found"}}, True),
        *(
            ({"error": {"code": code, "message": "no"}}, False)
            for code in (-32005, -32000, -32603, "-32602", None)
        ),
    ],
    ids=count(),
)
def test_only_where_a_node_has_no_safe_block_the_newest_counts(
    answer: dict[str, Any], counts: bool
) -> None:
    node = Node(NOW + 62)

    def bend(given: dict[str, Any]) -> dict[str, Any]:
        is_safe = node.asked[-1][1][0] == "safe"
        return {"jsonrpc": "2.0", "id": given["id"], **answer} if is_safe else given

    node.bent["eth_getBlockByNumber"] = bend
    finding = look(node)
    assert finding == ChainFinding("expired") if counts else is_unavailable(finding)


def result(value: Any) -> Callable[[Any], Any]:
    return lambda answer: {**answer, "result": value}


def changed(**members: Any) -> Callable[[Any], Any]:
    return lambda answer: {
        **answer,
        "result": [{**each, **members} for each in answer["result"]],
    }


BENT: list[tuple[str, Callable[[Any], Any]]] = [
    *(
        (method, bend)
        for method in ("eth_chainId", "eth_getBlockByNumber", "eth_call", "eth_getLogs")
        for bend in (
            lambda answer: httpx2.Response(500, json=answer),
            lambda answer: httpx2.Response(302, json=answer, headers={"Location": URL}),
            lambda answer: httpx2.Response(200, content=b"<!DOCTYPE html>"),
            lambda answer: httpx2.Response(200, content=b"x" * (MAX_REPLY_BYTES + 1)),
            lambda answer: httpx2.Response(200, json=[answer]),
            lambda answer: {**answer, "id": answer["id"] + 1},
            lambda answer: {**answer, "id": str(answer["id"])},
            lambda answer: {**answer, "id": True},
            lambda answer: {**answer, "jsonrpc": "1.0"},
            lambda answer: {**answer, "error": {"code": -32005, "message": "limit"}},
            lambda answer: {**answer, "error": "limit"},
            lambda answer: {"jsonrpc": "2.0", "id": answer["id"]},
            result(None),
            result(True),
            result({}),
            result(1),
            result("0x"),
            result("0x01"),
            result("latest"),
        )
    ),
    ("eth_chainId", result(84532)),
    ("eth_chainId", result("84532")),
    ("eth_getBlockByNumber", result({"number": "0x1"})),
    ("eth_getBlockByNumber", result({"number": HEAD, "timestamp": NOW + 200})),
    ("eth_getBlockByNumber", result({"number": "0x1", "timestamp": "0x" + "f" * 17})),
    ("eth_call", result(word(2))),
    ("eth_call", result(word(1) + "0" * 64)),
    ("eth_call", result("0x1")),
    ("eth_getLogs", result([])),
    ("eth_getLogs", result([None])),
    ("eth_getLogs", result([{}])),
    ("eth_getLogs", lambda answer: {**answer, "result": answer["result"] * 2}),
    ("eth_getLogs", changed(address=SOMEBODY)),
    ("eth_getLogs", changed(removed=True)),
    ("eth_getLogs", changed(removed=0)),
    ("eth_getLogs", changed(blockNumber=hex(HEAD - 100_000))),
    ("eth_getLogs", changed(blockNumber=hex(HEAD + 100_000))),
    ("eth_getLogs", changed(blockNumber=HEAD)),
    ("eth_getLogs", changed(transactionHash="0x12")),
    ("eth_getLogs", changed(transactionHash=None)),
    ("eth_getLogs", changed(data=7)),
    ("eth_getLogs", changed(topics=[])),
    ("eth_getLogs", changed(topics=[USED, word(SOMEBODY), NONCE])),
    ("eth_getLogs", changed(topics=[USED, word(PAYER), OTHER_NONCE])),
    ("eth_getLogs", changed(topics=[TRANSFER, word(PAYER), NONCE])),
    ("eth_getLogs", changed(topics=[USED, word(PAYER)])),
    ("eth_getLogs", changed(topics=[USED, PAYER, NONCE])),
]


@pytest.mark.parametrize(("method", "bend"), BENT, ids=count())
def test_whatever_makes_no_sense_is_not_believed(method: str, bend: Callable[[Any], Any]) -> None:
    node = Node(NOW + 200)
    node.use((STANCE.pay_to, STANCE.amount))
    node.bent[method] = bend

    assert is_unavailable(look(node))
    assert method in node.methods()


def test_an_event_without_the_transfer_beside_it_is_not_believed_to_be_all() -> None:
    """The second question may be answered by another node, which is behind."""
    node = Node(NOW + 200)
    node.use((STANCE.pay_to, STANCE.amount))
    node.bent["eth_getLogs"] = lambda answer: (
        {**answer, "result": []} if node.methods().count("eth_getLogs") > 1 else answer
    )

    assert is_unavailable(look(node))


def test_a_node_that_tells_of_another_block_than_was_asked_for_is_not_believed() -> None:
    node = Node(NOW + 200)
    node.use((STANCE.pay_to, STANCE.amount))
    node.bent["eth_getBlockByNumber"] = lambda answer: (
        answer
        if node.asked[-1][1][0] in {"latest", "safe"}
        else {**answer, "result": {**answer["result"], "number": hex(HEAD + 1)}}
    )

    assert is_unavailable(look(node))


@pytest.mark.parametrize(
    "error", [None, httpx2.ConnectError(URL), httpx2.ReadError(URL), OSError(URL)]
)
def test_a_node_that_hangs_or_cannot_be_reached_is_unavailable(error: Exception | None) -> None:
    async def fail(request: httpx2.Request) -> httpx2.Response:
        if error is None:
            await asyncio.Event().wait()
        raise error or AssertionError

    assert is_unavailable(look(fail, seconds=0.2))
