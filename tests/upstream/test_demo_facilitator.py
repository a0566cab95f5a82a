"""Payments through the demo's facilitator and chain over real connections.

test_facilitator_samples compares its replies with those of real facilitators.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace

from barograph.errors import ConfigurationError
from barograph.payments.proof import parse_proof, wire_payload
from barograph.payments.records import Proof
from barograph_demo.servers.chain import FILE_NAME
from barograph_demo.servers.control import send_command
from barograph_demo.servers.facilitator import load_ledger
from barograph_demo.servers.wallets import (
    ASSET,
    FUNDS,
    PAY_TO,
    TOKEN,
    Authorization,
    load_or_create_wallets,
    sign,
    transfer_digest,
)
from support.clock import START
from support.demo_facilitator import World, question, running_world
from support.payments import header, payment

PRICE = 25_000_000
USED = "invalid_exact_evm_nonce_already_used"
POOR = "invalid_exact_evm_insufficient_balance"
REASONS = json.loads((Path(__file__).parent / "samples/x402/reasons.json").read_text())


async def test_a_payment_is_verified_and_moves_money_once_also_after_a_restart(
    tmp_path: Path,
) -> None:
    async with running_world(tmp_path) as world:
        proof = world.proof()
        assert [await world.verified(proof) for _ in range(2)] == ["valid", "valid"]
        assert (await world.on_chain(proof), await world.balance("none")) == ("unused", FUNDS)
        outcomes = await asyncio.gather(*(world.settled(proof) for _ in range(12)))
        # Nobody can say of a nonce that is used already why it is; the chain does.
        assert sorted(outcomes) == ["settled", *["unknown"] * 11]
    async with running_world(tmp_path) as world:
        assert (await world.verified(proof), await world.settled(proof)) == (USED, "unknown")
        assert await world.on_chain(proof) == "used"
        assert (await world.balance("none"), await world.balance(PAY_TO)) == (FUNDS - PRICE, PRICE)
        again = world.proof()
        settled: Any = await world.facilitator.settle(again)
        world.clock.pass_seconds(30)
        finding = await world.chain.authorization(payment(again, START))
        assert finding == ("used", settled.transaction)


@pytest.mark.outcome(
    "A smart wallet pays with a signature of more than 65 bytes",
    "The facilitator asks its contract. Without one, 402 and no charge.",
)
async def test_a_smart_wallet_pays_with_the_signature_that_its_contract_accepts(
    tmp_path: Path,
) -> None:
    smart, owners = "0x" + "5a" * 20, [*load_or_create_wallets(tmp_path).values()][:2]
    async with running_world(tmp_path, {smart: [owner.address for owner in owners]}) as world:
        terms, unsigned = world.terms, world.proof(payer=smart)
        times = 0, unsigned.valid_before
        transfer = Authorization(smart, terms.pay_to, terms.amount, *times, unsigned.nonce)
        parts = [sign(transfer_digest(TOKEN, transfer), owner.key).hex() for owner in owners]

        def shown(*parts: str, payer: str = smart) -> Proof:
            """As our own reader reads it."""
            signed = replace(unsigned, signature="0x" + "".join(parts), payer=payer)
            return parse_proof(header(wire_payload(signed)), [terms], world.clock())

        wrong = "invalid_exact_evm_payload_signature"
        assert await world.verified(shown(*reversed(parts))) == wrong
        assert await world.verified(shown(parts[0])) == wrong
        undeployed = shown(*parts, payer=PAY_TO)
        reason = "invalid_exact_evm_payload_undeployed_smart_wallet"
        assert await world.verified(undeployed) == await world.settled(undeployed) == reason
        assert await world.verified(shown(*parts)) == "valid"
        assert await world.settled(shown(*parts)) == "settled"
        assert await world.on_chain(shown(*parts)) == "used"
        assert await world.balance(smart) == FUNDS - PRICE


async def test_a_bad_payment_is_rejected_with_a_real_reason_and_moves_nothing(
    tmp_path: Path,
) -> None:
    payer = load_or_create_wallets(tmp_path)["feed"].address
    spent = Authorization(payer, PAY_TO, FUNDS - PRICE + 1, 0, START, "0x" + "ab" * 32)
    load_ledger(tmp_path).move(spent, 1)
    async with running_world(tmp_path) as world:
        late, prefix = world.proof(), "invalid_exact_evm_payload_"
        expected = {
            f"{prefix}signature": [
                world.proof(payer=PAY_TO),
                world.proof(nonce="0x" + "00" * 32),
                world.proof(valid_before=late.valid_before + 1),
                world.proof(signature=world.proof().signature),
            ],
            f"{prefix}authorization_valid_before": [world.proof(valid_before=START // 1_000)],
            f"{prefix}authorization_valid_after": [world.proof(valid_after=START // 1_000)],
            POOR: [world.proof("feed")],
        }
        assert expected.keys() <= REASONS.keys()
        for reason, proofs in expected.items():
            for proof in proofs:
                assert await world.verified(proof) == await world.settled(proof) == reason
        world.clock.pass_seconds(60)
        assert await world.settled(late) == f"{prefix}authorization_valid_before"
        assert await world.on_chain(late) == "unused"  # in the last second nobody can be sure
        world.clock.pass_seconds(2)
        assert await world.on_chain(late) == "expired"
        assert await world.balance("none") == FUNDS


@pytest.mark.parametrize(
    ("where", "member", "value", "reason"),
    [
        ("paymentRequirements", "scheme", "upto", "unsupported_scheme"),
        ("paymentRequirements", "network", "eip155:8453", "network_mismatch"),
        ("accepted", "network", "eip155:8453", "network_mismatch"),
        ("paymentRequirements", "asset", PAY_TO, "asset_not_deployed_contract"),
        ("paymentRequirements", "extra", ("USD Coin", "2"), "token_name_mismatch"),
        ("paymentRequirements", "extra", ("USDC", "1"), "token_version_mismatch"),
        ("paymentRequirements", "payTo", ASSET, "payload_recipient_mismatch"),
        ("paymentRequirements", "amount", "1", "payload_authorization_value_mismatch"),
    ],
)
async def test_terms_that_the_payment_does_not_meet_are_named(
    tmp_path: Path, where: str, member: str, value: Any, reason: str
) -> None:
    async with running_world(tmp_path) as world:
        asked = question(world.proof())
        terms = asked[where] if where in asked else asked["paymentPayload"][where]
        terms[member] = (
            dict(zip(("name", "version"), value, strict=True)) if member == "extra" else value
        )
        verdict, settled = await world.post("/verify", asked), await world.post("/settle", asked)
    assert (verdict["isValid"], settled["success"], settled["transaction"]) == (False, False, "")
    assert verdict["invalidReason"] == settled["errorReason"]
    assert verdict["invalidReason"].removeprefix("invalid_exact_evm_") == reason


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        *(
            (fault, ["unavailable", "unknown", "unused"])
            for fault in ("outage", "redirect", "html")
        ),
        ("wrong-payer", ["unavailable", "unknown", "used"]),
        ("chain-down", ["unavailable", "unknown", "unused"]),
        ("refuse", [POOR, POOR, "unused"]),
    ],
)
async def test_each_fault_has_its_outcome_until_it_ends(
    tmp_path: Path, fault: str, expected: list[str]
) -> None:
    async with running_world(tmp_path) as world:
        proof = world.proof()
        world.faults.turn_on(fault)
        broken = [await world.verified(proof), await world.settled(proof)]
        assert (await world.on_chain(proof) == "unavailable") == (fault == "chain-down")
        world.faults.turn_off(fault)
        assert [*broken, await world.on_chain(proof)] == expected
        assert await world.settled(world.proof()) == "settled"


async def test_a_hanging_facilitator_answers_when_the_fault_ends_and_charges_nobody_who_left(
    tmp_path: Path,
) -> None:
    async with running_world(tmp_path) as world:
        proof = world.proof()
        world.faults.turn_on("hang")
        verifying = asyncio.create_task(world.verified(proof))
        async with httpx2.AsyncClient(base_url=world.address.url, trust_env=False) as client:
            with pytest.raises(httpx2.ReadTimeout):
                await client.post("/settle", json=question(proof), timeout=0.2)
        assert not verifying.done()
        world.faults.turn_off("hang")
        assert (await verifying, await world.on_chain(proof)) == ("valid", "unused")


async def test_a_settlement_without_a_reply_is_found_on_the_chain(tmp_path: Path) -> None:
    async with running_world(tmp_path) as world:
        proof = world.proof()
        world.faults.turn_on("settle-timeout")
        settling = asyncio.create_task(world.settled(proof))
        await _until_asked(world, "/settle")
        assert (await world.on_chain(proof), settling.done()) == ("used", False)
        world.faults.turn_off("settle-timeout")
        assert (await settling, await world.verified(proof)) == ("unknown", USED)


async def _until_asked(world: World, path: str) -> None:
    """Wait until the facilitator was asked; each look is a question of its own."""
    while True:
        counted: Any = await asyncio.to_thread(send_command, world.address.url, {"count": True})
        if path in counted["requests"]:
            return


def test_a_damaged_ledger_is_reported_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('[{"payer": "somebody"}]')

    with pytest.raises(ConfigurationError, match="delete it"):
        load_ledger(tmp_path)
