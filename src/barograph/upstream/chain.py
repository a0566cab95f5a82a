"""Asks a node of the chain, over JSON-RPC, what became of an authorization.

https://ethereum.org/developers/docs/apis/json-rpc and https://eips.ethereum.org/EIPS/eip-3009 .

A used nonce does not prove a payment: its owner can cancel it, or use it first for a transfer to
another address. A payment counts only by the token's own events: the use of the nonce and, in the
same transaction, the transfer to us.

A payment counts from the newest block on, as it does for facilitators. A failure is final, so it
counts only in the node's `safe` block, or in the newest if a node has no such block.
"""

import asyncio
import re
from itertools import count
from typing import Any, Final, NamedTuple

import httpx2

from barograph.kit.http_client import JsonHttp, NoAnswer, NotSent
from barograph.kit.metrics import NO_METRICS, Metrics
from barograph.kit.timestamps import SECOND
from barograph.payments.records import ChainFinding, ChainUnavailable, Payment
from barograph.settings import Settings

MAX_REPLY_BYTES = 1024 * 1024
"""A block with the hashes of its transactions is about 100 kB on a busy chain."""

CHAIN_SECONDS = 20.0
"""The time limit of one lookup: three calls, or about twenty for a used nonce. One call may take a
quarter of it."""

CLOCK_SECONDS = 300
"""How far the chain's clock and ours may differ."""

MAX_BLOCKS = 500
"""Blocks per query of events; many nodes refuse more than a few thousand."""

MAX_SPANS = 12
NARROW = 200

AUTHORIZATION_STATE: Final = "0xe94a0102"
TRANSFER: Final = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
USED: Final = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5"
CANCELED: Final = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81"

_OK = 200
# Invalid parameters, and unknown block: how nodes without a `safe` block answer.
_NO_SUCH_BLOCK = (-32602, -39001)
_QUANTITY = re.compile(r"0x(0|[1-9a-fA-F][0-9a-fA-F]{0,15})")
_CODE = re.compile(r"0x[0-9a-fA-F]+")
_WORD = re.compile(r"0x[0-9a-fA-F]{64}")
_FALSE, _TRUE = ("0x" + format(value, "064x") for value in (0, 1))


class Block(NamedTuple):
    """The used part of a block; the time is in seconds."""

    number: int
    timestamp: int


class TokenEvent(NamedTuple):
    """The used part of a token's event, in lower case."""

    block: int
    transaction: str
    topics: tuple[str, ...]
    data: str


class RpcError(ChainUnavailable):
    """The node answered with an error."""

    def __init__(self, method: str, code: object) -> None:
        number = code if type(code) is int else "unnamed"
        super().__init__(f"the node refuses {method} ({number})")
        self.code = code


class JsonRpcChain:
    """The node of the settings."""

    def __init__(
        self,
        settings: Settings,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        seconds: float = CHAIN_SECONDS,
        metrics: Metrics = NO_METRICS,
    ) -> None:
        self._url = settings.x402_chain_url
        self._network = settings.x402_network
        self._asset = settings.x402_asset
        self._seconds = seconds
        self._http = JsonHttp(
            longest=MAX_REPLY_BYTES, transport=transport, upstream="chain", metrics=metrics
        )
        self._ids = count(1)
        self._is_ours = False

    async def authorization(self, payment: Payment) -> ChainFinding:
        """See `Chain.authorization`."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._look(payment)
        except TimeoutError as error:
            raise ChainUnavailable("the node does not answer in time") from error

    async def check(self) -> Block:
        """Require a node of our chain that knows the token, and return its newest block.

        Raises:
            ChainUnavailable: the node can't be used; the message says why.
        """
        await self._require_chain(self._network)
        code = await self._call("eth_getCode", self._asset, "latest")
        if not isinstance(code, str) or _CODE.fullmatch(code) is None:
            raise ChainUnavailable(f"there is no token at {self._asset} on {self._network}")
        return await self._block("latest")

    async def close(self) -> None:
        """Release every connection."""
        await self._http.close()

    async def _look(self, payment: Payment) -> ChainFinding:
        await self._require_chain(payment.network)
        # The block first, then the state of that block: answers about two different moments could
        # make a payment look as if it never came.
        head = await self._block("latest")
        if await self._is_taken(payment, head):
            return await self._taken(payment, head)
        # If it is not used in the newest block, it was not used in an earlier one either.
        if head.timestamp * SECOND <= payment.valid_before:
            return ChainFinding("unused")
        safe = await self._safe(head)
        is_over = safe.timestamp * SECOND > payment.valid_before
        return ChainFinding("expired" if is_over else "unused")

    async def _taken(self, payment: Payment, head: Block) -> ChainFinding:
        event = await self._event_of(payment, head)
        if event.topics[0] == USED and await self._is_paid(payment, event):
            return ChainFinding("used", event.transaction)
        safe = await self._safe(head)
        is_final = event.block <= safe.number
        return ChainFinding("spent", event.transaction) if is_final else ChainFinding("unused")

    async def _require_chain(self, network: str) -> None:
        """Require a node of the chain that was paid on."""
        if network != self._network:
            raise ChainUnavailable("the payment is on another chain than this node's")
        if not self._is_ours:
            chain = _quantity(await self._call("eth_chainId"))
            if network != f"eip155:{chain}":
                raise ChainUnavailable(f"the node belongs to another chain, eip155:{chain}")
            self._is_ours = True

    async def _block(self, which: str) -> Block:
        block = await self._call("eth_getBlockByNumber", which, False)
        if not isinstance(block, dict):
            raise RpcError("eth_getBlockByNumber", _NO_SUCH_BLOCK[1])
        return Block(_quantity(block.get("number")), _quantity(block.get("timestamp")))

    async def _numbered(self, number: int) -> Block:
        block = await self._block(hex(number))
        if block.number != number:
            raise ChainUnavailable("the node returned another block")
        return block

    async def _safe(self, head: Block) -> Block:
        """The newest final block up to `head`."""
        try:
            safe = await self._block("safe")
        except RpcError as error:
            if error.code in _NO_SUCH_BLOCK:
                return head
            raise
        # Another node answered that is ahead: we have not read the blocks in between.
        if safe.number > head.number:
            raise ChainUnavailable("the node's safe block is newer than its newest")
        return safe

    async def _is_taken(self, payment: Payment, block: Block) -> bool:
        data = AUTHORIZATION_STATE + _word(payment.payer)[2:] + payment.nonce[2:]
        call = {"to": payment.asset, "data": data}
        state = await self._call("eth_call", call, hex(block.number))
        if state not in (_FALSE, _TRUE):
            raise ChainUnavailable("the token returned no state of the authorization")
        return bool(state == _TRUE)

    async def _event_of(self, payment: Payment, head: Block) -> TokenEvent:
        """The event of using or cancelling the nonce."""
        since = payment.claimed_at // SECOND - CLOCK_SECONDS
        first = await self._before(since, head)
        for span in range(MAX_SPANS):
            start = first + span * MAX_BLOCKS
            end = min(start + MAX_BLOCKS - 1, head.number)
            events = await self._events(
                payment, start, end, [[USED, CANCELED], [_word(payment.payer)], [payment.nonce]]
            )
            if len(events) > 1:
                raise ChainUnavailable("a nonce is used twice")
            if events:
                return events[0]
            if end == head.number:
                break
        raise ChainUnavailable("the node has no event of a nonce that is used")

    async def _before(self, seconds: int, head: Block) -> int:
        """The number of a block that is slightly older than that."""
        low, high, step = head.number, head.number, NARROW
        while low > 0:
            low = max(0, head.number - step)
            if (await self._numbered(low)).timestamp < seconds:
                break
            high, step = low, step * 2
        while high - low > NARROW:
            middle = (low + high) // 2
            is_older = (await self._numbered(middle)).timestamp < seconds
            low, high = (middle, high) if is_older else (low, middle)
        return low

    async def _is_paid(self, payment: Payment, used: TokenEvent) -> bool:
        """Whether the transaction that used the nonce moved the amount to us."""
        topics = [[USED, TRANSFER], [_word(payment.payer)]]
        around = await self._events(payment, used.block, used.block, topics)
        together = [event for event in around if event.transaction == used.transaction]
        uses = [event for event in together if event.topics[0] == USED]
        wanted = (TRANSFER, _word(payment.payer), _word(payment.pay_to))
        amount = "0x" + format(int(payment.amount), "064x")
        moved = [event for event in together if (event.topics, event.data) == (wanted, amount)]
        # One transfer must not count for several nonces in its transaction.
        if used not in uses or 0 < len(moved) < len(uses):
            raise ChainUnavailable("the events do not show which nonce paid")
        return bool(moved)

    async def _events(
        self, payment: Payment, start: int, end: int, topics: list[list[str]]
    ) -> list[TokenEvent]:
        """Events of the payment's token; `topics` lists the values allowed at each position."""
        asked = {
            "address": payment.asset,
            "fromBlock": hex(start),
            "toBlock": hex(end),
            "topics": topics,
        }
        listed = await self._call("eth_getLogs", asked)
        if not isinstance(listed, list):
            raise ChainUnavailable("the node returned no list of events")
        events = [_event(event, payment.asset) for event in listed]
        if not all(start <= event.block <= end and _fits(event, topics) for event in events):
            raise ChainUnavailable("the node returned events that we did not ask for")
        return events

    async def _call(self, method: str, *params: object) -> Any:  # noqa: ANN401 - anything may come
        number = next(self._ids)
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        try:
            status, reply = await self._http.post(self._url, message, self._seconds / 4)
        except (NotSent, NoAnswer) as error:
            raise ChainUnavailable(f"the node is unavailable: {error}") from error
        if (
            reply.get("jsonrpc") != "2.0"
            or type(reply.get("id")) is not int
            or reply["id"] != number
        ):
            raise ChainUnavailable(f"the node answered another request (HTTP {status})")
        if isinstance(reply.get("error"), dict):
            raise RpcError(method, reply["error"].get("code"))
        if status != _OK or "result" not in reply or reply.get("error") is not None:
            raise ChainUnavailable(f"the node gives no result (HTTP {status})")
        return reply["result"]


def _quantity(given: object) -> int:
    if not isinstance(given, str) or _QUANTITY.fullmatch(given) is None:
        raise ChainUnavailable("the node returned no number")
    return int(given, 16)


def _word(address: str) -> str:
    """An address as 32 bytes, as in calls and events."""
    return "0x" + address[2:].rjust(64, "0")


def _event(given: object, asset: str) -> TokenEvent:
    """Decode an event of the token.

    Raises:
        ChainUnavailable: it is malformed, removed or of another token.
    """
    if not isinstance(given, dict) or given.get("removed", False) is not False:
        raise ChainUnavailable("the node returned no event")
    topics, data, address = given.get("topics"), given.get("data"), given.get("address")
    if not isinstance(topics, list) or not isinstance(data, str) or not isinstance(address, str):
        raise ChainUnavailable("the node returned no event")
    if address.lower() != asset:
        raise ChainUnavailable("the node returned an event of another token")
    return TokenEvent(
        block=_quantity(given.get("blockNumber")),
        transaction=_hash(given.get("transactionHash")),
        topics=tuple(_hash(topic) for topic in topics),
        data=data.lower(),
    )


def _fits(event: TokenEvent, topics: list[list[str]]) -> bool:
    return len(event.topics) >= len(topics) and all(
        topic in wanted for topic, wanted in zip(event.topics, topics, strict=False)
    )


def _hash(given: object) -> str:
    if not isinstance(given, str) or _WORD.fullmatch(given) is None:
        raise ChainUnavailable("the node returned no hash")
    return given.lower()
