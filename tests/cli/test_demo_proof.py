"""The demo's payment proofs and the faults of its facilitator, on the terminal."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from barograph.entitlements.purchases import feed_requirements, stance_requirements
from barograph.errors import ConfigurationError
from barograph.kit.clock import system_clock
from barograph.payments.proof import parse_proof
from barograph.settings import Settings
from barograph_demo.commands import demo
from barograph_demo.configuration import demo_settings, payment_settings, welcome
from barograph_demo.servers.wallets import (
    FUNDS,
    NETWORK,
    WALLETS,
    address_of,
    load_or_create_wallets,
)
from support.demo_facilitator import running_world

PLACE = "127.0.0.1:4711"
SETTINGS = Settings.model_validate(payment_settings(PLACE))


def printed(folder: Path, *arguments: str) -> str:
    command = ["proof", *arguments, "--data", str(folder)]
    return CliRunner().invoke(demo, command, catch_exceptions=False).stdout


def test_a_proof_of_the_running_demo_is_printed_and_nothing_else(tmp_path: Path) -> None:
    wallets = load_or_create_wallets(tmp_path)
    (tmp_path / "demo.json").write_text(json.dumps({"facilitator": PLACE}))
    offers = {"feed": feed_requirements(SETTINGS), "stance": stance_requirements(SETTINGS)}
    for wallet in WALLETS:
        for what, offer in offers.items():
            text = printed(tmp_path, "--wallet", wallet, "--for", what)
            assert text.count("\n") == 1
            proof = parse_proof(text.strip(), [*offers.values()], system_clock())
            assert (proof.payer, proof.requirements) == (wallets[wallet].address, offer)


def test_a_proof_is_by_default_of_the_feed_wallet_for_feed(tmp_path: Path) -> None:
    wallets = load_or_create_wallets(tmp_path)
    (tmp_path / "demo.json").write_text(json.dumps({"facilitator": PLACE}))

    proof = parse_proof(printed(tmp_path).strip(), [feed_requirements(SETTINGS)], system_clock())

    assert proof.payer == wallets["feed"].address


@pytest.mark.parametrize("arguments", [["--wallet", "gold"], ["--for", "guides"], []])
def test_no_proof_without_a_known_wallet_and_a_running_demo(
    tmp_path: Path, arguments: list[str]
) -> None:
    result = CliRunner().invoke(demo, ["proof", *arguments, "--data", str(tmp_path)])
    assert result.exit_code != 0
    assert result.stdout == ""


async def test_wallet_of_a_stranger_gets_money_that_lasts(tmp_path: Path) -> None:
    async def given(*address: str) -> dict[str, str]:
        async with running_world(tmp_path) as world:
            place = f"{world.address.host}:{world.address.port}"
            (tmp_path / "demo.json").write_text(json.dumps({"facilitator": place}))
            command = ["wallet", *address, "--json", "--data", str(tmp_path)]
            result = await asyncio.to_thread(CliRunner().invoke, demo, command)
        assert result.stdout or "40 hexadecimal digits" in result.stderr
        return dict(json.loads(result.stdout or "{}"))

    made = await given()
    address = address_of(int(made["private_key"], 16))
    assert made["address"] == address
    more = await given(address)
    assert more == {"address": address, "network": NETWORK, "usdc": "2000.00"}
    async with running_world(tmp_path) as world:
        assert await world.balance(address) == 2 * FUNDS
    assert await given("0xjunk") == {}


@pytest.mark.parametrize("command", [["proof"], ["wallet"], ["fault", "facilitator", "on"]])
def test_a_demo_without_payments_says_so(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "demo.json").write_text(json.dumps({"exchange": PLACE}))

    result = CliRunner().invoke(demo, [*command, "--data", str(tmp_path)])

    assert isinstance(result.exception, ConfigurationError)
    assert "--no-x402" in str(result.exception)


def test_the_faults_of_the_facilitator_are_listed() -> None:
    command = ["fault", "facilitator", "on", "--kind", "list"]
    text = CliRunner().invoke(demo, command, catch_exceptions=False).stdout
    assert set(text.split()) == {
        *("outage", "hang", "refuse", "html", "redirect"),
        *("wrong-payer", "settle-timeout", "chain-down"),
    }


@pytest.mark.parametrize("facilitator_port", [None, 4711])
def test_a_demo_takes_payments_by_default_and_says_how(
    tmp_path: Path, facilitator_port: int | None
) -> None:
    ports = dict.fromkeys(("exchange", "mail", "macro", "identity"), 9)
    if facilitator_port is not None:
        ports["facilitator"] = facilitator_port
    settings = demo_settings(tmp_path, 8080, 1, ports)

    assert settings.takes_payments is (facilitator_port is not None)
    assert ("demo proof" in welcome(settings, 1.0, "token")) is settings.takes_payments
    if settings.takes_payments:
        assert feed_requirements(settings) == feed_requirements(SETTINGS)
        assert settings.x402_chain_url == f"http://{PLACE}/rpc"
