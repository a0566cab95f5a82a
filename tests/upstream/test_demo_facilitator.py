"""Payments through the demo's facilitator and chain over real connections."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace

from barograph.errors import ConfigurationError
from barograph.payments.proof import parse_proof, wire_payload
from barograph.payments.records import Proof, Settled
from barograph_demo.servers.chain import FILE_NAME
from barograph_demo.servers.control import send_command
from barograph_demo.servers.facilitator import load_ledger
from barograph_demo.servers.wallets import (
    FUNDS,
    PAY_TO,
    TOKEN,
    Authorization,
    load_or_create_wallets,
    sign,
    transfer_digest,
)
from support.clock import START
from support.demo_facilitator import World, question, with_world
from support.payments import header, payment

PRICE = 25_000_000
USED = "invalid_exact_evm_nonce_already_used"


def test_a_payment_is_verified_and_moves_money_once(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        proof = world.proof()
        assert await world.verified(proof) == "valid"
        assert await world.verified(proof) == "valid"  # looking moves nothing
        assert await world.on_chain(proof) == "unused"
        assert await world.balance("none") == FUNDS

        # Nobody can say of a nonce that is used already why it is; the chain does.
        assert [await world.settled(proof) for _ in range(2)] == ["settled", "unknown"]

        assert await world.balance("none") == FUNDS - PRICE
        assert await world.balance(PAY_TO) == PRICE
        assert await world.on_chain(proof) == "used"
        assert await world.verified(proof) == USED
        assert await world.verified(world.proof()) == "valid"

    with_world(tmp_path, work)


@pytest.mark.outcome(
    "A smart wallet pays with a signature of more than 65 bytes",
    "The facilitator asks its contract. Without one, 402 and no charge.",
)
def test_a_smart_wallet_pays_with_the_signature_that_its_contract_accepts(tmp_path: Path) -> None:
    smart, owners = "0x" + "5a" * 20, [*load_or_create_wallets(tmp_path).values()][:2]

    async def work(world: World) -> None:
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

    with_world(tmp_path, work, {smart: [owner.address for owner in owners]})


def test_many_settlements_of_one_proof_at_once_move_money_once(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        proof = world.proof()

        outcomes = await asyncio.gather(*(world.settled(proof) for _ in range(12)))

        assert sorted(outcomes) == ["settled", *["unknown"] * 11]
        assert await world.balance("none") == FUNDS - PRICE

    with_world(tmp_path, work)


def test_the_transaction_of_a_settlement_is_the_one_on_the_chain(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        proof = world.proof()
        outcome = await world.facilitator.settle(proof)
        world.clock.pass_seconds(30)
        finding = await world.chain.authorization(payment(proof, START))

        assert isinstance(outcome, Settled)
        assert finding == ("used", outcome.transaction)

    with_world(tmp_path, work)


def test_a_bad_payment_is_rejected_with_a_reason_and_moves_nothing(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        good = world.proof()
        prefix = "invalid_exact_evm_payload_"
        expected = {
            f"{prefix}signature": [
                world.proof(payer=PAY_TO),
                world.proof(nonce="0x" + "00" * 32),
                world.proof(valid_before=good.valid_before + 1),
                world.proof(signature=world.proof().signature),
            ],
            f"{prefix}authorization_valid_before": [world.proof(valid_before=START // 1_000)],
            f"{prefix}authorization_valid_after": [world.proof(valid_after=START // 1_000)],
        }
        for reason, proofs in expected.items():
            for proof in proofs:
                assert await world.verified(proof) == reason
                assert await world.settled(proof) == reason
        assert await world.balance("none") == FUNDS

    with_world(tmp_path, work)


def test_a_proof_that_expired_meanwhile_is_not_settled(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        proof = world.proof()
        world.clock.pass_seconds(60)

        assert await world.settled(proof) == "invalid_exact_evm_payload_authorization_valid_before"
        assert await world.on_chain(proof) == "unused"  # in the last second nobody can be sure
        world.clock.pass_seconds(2)
        assert await world.on_chain(proof) == "expired"

    with_world(tmp_path, work)


def test_a_wallet_pays_until_its_funds_are_spent(tmp_path: Path) -> None:
    payer = load_or_create_wallets(tmp_path)["none"].address
    spent = Authorization(payer, PAY_TO, FUNDS - PRICE, 0, START, "0x" + "ab" * 32)
    load_ledger(tmp_path).move(spent, 1)

    async def work(world: World) -> list[str]:
        assert await world.settled(world.proof("none")) == "settled"
        assert (await world.balance("none"), await world.balance(PAY_TO)) == (0, FUNDS)
        proof = world.proof("none")
        assert await world.settled(world.proof("feed")) == "settled"
        return [await world.verified(proof), await world.settled(proof)]

    assert with_world(tmp_path, work) == ["invalid_exact_evm_insufficient_balance"] * 2


_UNAVAILABLE = ["outage", "redirect", "html", "chain-down", "wrong-payer"]


@pytest.mark.parametrize("fault", _UNAVAILABLE)
def test_a_broken_facilitator_is_unavailable_until_the_fault_ends(
    tmp_path: Path, fault: str
) -> None:
    async def work(world: World) -> list[str]:
        proof = world.proof()
        world.faults.turn_on(fault)
        broken = [await world.verified(proof), await world.settled(proof)]
        world.faults.turn_off(fault)
        return [*broken, await world.on_chain(proof)]

    moved = "used" if fault == "wrong-payer" else "unused"
    assert with_world(tmp_path, work) == ["unavailable", "unknown", moved]


def test_a_facilitator_that_refuses_moves_nothing(tmp_path: Path) -> None:
    async def work(world: World) -> list[str]:
        proof = world.proof()
        world.faults.turn_on("refuse")
        refused = [await world.verified(proof), await world.settled(proof)]
        world.faults.turn_off("refuse")
        return [*refused, await world.settled(proof)]

    reason = "invalid_exact_evm_insufficient_balance"
    assert with_world(tmp_path, work) == [reason, reason, "settled"]


def test_a_hanging_facilitator_answers_when_the_fault_ends(tmp_path: Path) -> None:
    async def work(world: World) -> str:
        world.faults.turn_on("hang")
        looking = asyncio.create_task(world.verified(world.proof()))
        await _until_asked(world, "/verify")
        assert await world.balance("none") == FUNDS  # the chain answers meanwhile
        assert not looking.done()
        world.faults.turn_off("hang")
        return await looking

    assert with_world(tmp_path, work) == "valid"


def test_a_client_that_leaves_a_hanging_facilitator_is_not_charged(tmp_path: Path) -> None:
    async def work(world: World) -> str:
        proof = world.proof()
        world.faults.turn_on("hang")
        async with httpx2.AsyncClient(
            base_url=world.address.url, trust_env=False, verify=False
        ) as client:
            with pytest.raises(httpx2.ReadTimeout):
                await client.post("/settle", json=question(proof), timeout=0.2)
        world.faults.turn_off("hang")
        return await world.on_chain(proof)

    assert with_world(tmp_path, work) == "unused"


def test_a_settlement_without_a_reply_is_found_on_the_chain(tmp_path: Path) -> None:
    async def work(world: World) -> list[str]:
        proof = world.proof()
        world.faults.turn_on("settle-timeout")
        assert await world.verified(proof) == "valid"
        settling = asyncio.create_task(world.settled(proof))
        await _until_asked(world, "/settle")
        before = await world.on_chain(proof)
        assert not settling.done()
        world.faults.turn_off("settle-timeout")
        return [before, await settling, await world.verified(proof)]

    assert with_world(tmp_path, work) == ["used", "unknown", USED]


def test_a_chain_that_is_down_can_be_asked_again_afterwards(tmp_path: Path) -> None:
    async def work(world: World) -> list[str]:
        proof = world.proof()
        world.faults.turn_on("chain-down")
        outcomes = [await world.on_chain(proof)]
        world.faults.turn_off("chain-down")
        return [*outcomes, await world.on_chain(proof)]

    assert with_world(tmp_path, work) == ["unavailable", "unused"]


def test_used_proofs_stay_used_and_money_stays_moved_after_a_restart(tmp_path: Path) -> None:
    async def first(world: World) -> Proof:
        proof = world.proof()
        assert await world.settled(proof) == "settled"
        return proof

    used = with_world(tmp_path, first)

    async def second(world: World) -> None:
        assert await world.verified(used) == USED
        assert await world.settled(used) == "unknown"
        assert await world.on_chain(used) == "used"
        assert await world.balance("none") == FUNDS - PRICE
        assert await world.settled(world.proof()) == "settled"

    with_world(tmp_path, second)
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"wallets.secret", FILE_NAME}


def test_a_damaged_ledger_is_reported_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('[{"payer": "somebody"}]')

    with pytest.raises(ConfigurationError, match="delete it"):
        load_ledger(tmp_path)


async def _until_asked(world: World, path: str) -> None:
    """Wait until the facilitator was asked; each look is a question of its own."""
    while True:
        counted: Any = await asyncio.to_thread(send_command, world.address.url, {"count": True})
        if path in counted["requests"]:
            return
