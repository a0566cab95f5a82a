"""The replies of the demo's facilitator and node, also to malformed requests."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from barograph_demo.servers.control import send_command
from barograph_demo.servers.faults import FacilitatorFault, FacilitatorFaults
from barograph_demo.servers.wallets import ASSET, FUNDS, PAY_TO
from support.clock import START
from support.demo_facilitator import World, question, running_world, with_world

PRICE = 25_000_000


@pytest.mark.parametrize(
    ("where", "member", "value", "reason"),
    [
        ("paymentRequirements", "scheme", "upto", "unsupported_scheme"),
        ("paymentRequirements", "network", "eip155:8453", "network_mismatch"),
        ("accepted", "network", "eip155:8453", "network_mismatch"),
        ("paymentRequirements", "asset", PAY_TO, "asset_not_deployed_contract"),
        (
            "paymentRequirements",
            "extra",
            {"name": "USD Coin", "version": "2"},
            "invalid_exact_evm_token_name_mismatch",
        ),
        (
            "paymentRequirements",
            "extra",
            {"name": "USDC", "version": "1"},
            "invalid_exact_evm_token_version_mismatch",
        ),
        (
            "paymentRequirements",
            "payTo",
            ASSET,
            "invalid_exact_evm_payload_recipient_mismatch",
        ),
        (
            "paymentRequirements",
            "amount",
            "1",
            "invalid_exact_evm_payload_authorization_value_mismatch",
        ),
    ],
)
def test_terms_that_the_payment_does_not_meet_are_named(
    tmp_path: Path, where: str, member: str, value: Any, reason: str
) -> None:
    async def work(world: World) -> None:
        asked = question(world.proof())
        terms = asked[where] if where in asked else asked["paymentPayload"][where]
        terms[member] = value

        verdict = await world.post("/verify", asked)
        settled = await world.post("/settle", asked)

        assert (verdict["isValid"], verdict["invalidReason"]) == (False, reason)
        assert (settled["success"], settled["errorReason"]) == (False, reason)
        assert settled["transaction"] == ""

    with_world(tmp_path, work)


def test_a_malformed_request_is_refused_without_a_verdict(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        good = question(world.proof())
        oldest = {**good, "x402Version": 1}
        short = json.loads(
            json.dumps(good).replace(good["paymentPayload"]["accepted"]["asset"], "0x")
        )
        for body in (b"", b"{", b"[]", b"{}", oldest, short):
            for path in ("/verify", "/settle"):
                assert await world.post(path, body) == {"error": "invalid_payload"}

    with_world(tmp_path, work)


def test_the_node_reports_each_block_as_it_was(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        before = await world.rpc("eth_blockNumber")
        world.clock.pass_seconds(2)
        assert await world.settled(world.proof()) == "settled"
        block = await world.rpc("eth_getBlockByNumber", "latest", False)

        assert int(block["number"], 16) == int(before, 16) + 1
        assert int(block["timestamp"], 16) == START // 1_000 + 2
        assert await world.rpc("eth_getBlockByNumber", block["number"], False) == block
        assert await world.balance("none", before) == FUNDS
        assert await world.balance("none", block["number"]) == FUNDS - PRICE
        later = hex(int(block["number"], 16) + 1)
        assert await world.rpc("eth_getBlockByNumber", later, False) is None
        assert await world.rpc("eth_chainId") == "0x14a34"

    with_world(tmp_path, work)


def test_the_node_rejects_unknown_requests(tmp_path: Path) -> None:
    async def work(world: World) -> list[Any]:
        unknown = {"to": ASSET, "data": "0x12345678"}
        replies = [
            await world.rpc("eth_sendRawTransaction", "0x"),
            await world.rpc("eth_getBlockByNumber", 7, False),
            await world.rpc("eth_call", unknown, "latest"),
            await world.rpc("eth_call", unknown, hex(START)),
            await world.rpc("eth_getLogs", {"fromBlock": "latest"}),
        ]
        assert await world.rpc("eth_call", {"to": PAY_TO, "data": "0x"}, "latest") == "0x"
        odd = [await world.post("/rpc", body) for body in (b"{", b"[]", b"{}")]
        replies += [reply["error"] for reply in odd]
        return [reply["code"] for reply in replies]

    codes = with_world(tmp_path, work)
    assert codes == [-32601, -32602, 3, -32000, -32602, -32700, -32600, -32600]


def test_unknown_paths_and_methods_are_refused(tmp_path: Path) -> None:
    async def work(world: World) -> list[int]:
        async with httpx2.AsyncClient(
            base_url=world.address.url, trust_env=False, verify=False
        ) as client:
            kinds = (await client.get("/supported")).json()["kinds"]
            assert kinds == [{"x402Version": 2, "scheme": "exact", "network": "eip155:84532"}]
            replies = [
                await client.get("/verify"),
                await client.get("/elsewhere"),
                await client.post("/supported"),
                await client.post("/verify", content=bytes(65_537)),
                await client.get("/" + "a" * 20_000),
                await client.post("/verify", content=_pieces()),
            ]
        return [reply.status_code for reply in replies]

    assert with_world(tmp_path, work) == [405, 404, 405, 400, 400, 400]


async def _pieces() -> AsyncIterator[bytes]:
    """A body without a length."""
    yield b"{}"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /supported HTTP/1.0\r\n\r\n",
        b"get /supported HTTP/1.1\r\n\r\n",
        b"GET supported HTTP/1.1\r\n\r\n",
        b"GET /supported HTTP/1.1\r\nno field\r\n\r\n",
        b"POST /verify HTTP/1.1\r\nContent-Length: +2\r\n\r\n{}",
        b"POST /verify HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /verify HTTP/1.1\r\nContent-Length : 2\r\n\r\n{}",
    ],
)
def test_requests_are_read_strictly(tmp_path: Path, request_bytes: bytes) -> None:
    async def work(world: World) -> bytes:
        reader, writer = await asyncio.open_connection(world.address.host, world.address.port)
        writer.write(request_bytes)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer.partition(b"\r\n")[0]

    assert with_world(tmp_path, work) == b"HTTP/1.1 400 Bad Request"


def test_open_connections_do_not_keep_the_facilitator_from_stopping(
    tmp_path: Path,
) -> None:
    async def work(world: World) -> Any:
        place = world.address.host, world.address.port
        _, left = await asyncio.open_connection(*place)
        left.write(b"POST /verify HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")
        left.close()
        await left.wait_closed()
        reader, writer = await asyncio.open_connection(*place)
        writer.write(b"POST /verify HTTP/1.1\r\n")
        assert await world.verified(world.proof()) == "valid"
        return reader, writer

    async def run() -> bytes:
        async with running_world(tmp_path) as world:
            reader, writer = await work(world)
        answer: bytes = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer

    assert asyncio.run(run()) == b""


def test_faults_are_switched_by_command_and_unknown_ones_are_named(tmp_path: Path) -> None:
    async def work(world: World) -> list[dict[str, Any]]:
        commands: list[dict[str, object]] = [
            {"fault": "hang", "on": True},
            {"fault": "refuse", "on": True},
            {"fault": "hang", "on": False},
            {"off": "all"},
            {"fault": "flood", "on": True},
            {"fault": "hang"},
            {},
        ]
        said = [await asyncio.to_thread(send_command, world.address.url, each) for each in commands]
        await world.verified(world.proof())
        return [*said, await asyncio.to_thread(send_command, world.address.url, {"count": True})]

    *said, counted = with_world(tmp_path, work)
    assert [each.get("active") for each in said[:4]] == [
        ["hang"],
        ["hang", "refuse"],
        ["refuse"],
        [],
    ]
    assert [each["ok"] for each in said] == [True] * 4 + [False] * 3
    assert counted["requests"] == {"/verify": 1}


def test_every_fault_is_known_by_name() -> None:
    faults = FacilitatorFaults()
    for name in FacilitatorFault:
        assert faults.execute({"fault": name, "on": True}, START)["ok"] is True
    assert set(FacilitatorFault) == {
        *("outage", "hang", "refuse", "html", "redirect"),
        *("wrong-payer", "settle-timeout", "chain-down"),
    }
