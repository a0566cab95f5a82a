"""`barograph demo` on the terminal: its tokens, payment proofs, wallets, mail and faults."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from joserfc.jws import extract_compact

from barograph.cli import cli
from barograph.entitlements.purchases import feed_requirements, stance_requirements
from barograph.errors import ConfigurationError
from barograph.kit.clock import system_clock
from barograph.payments.proof import parse_proof
from barograph.settings import Settings
from barograph_demo.commands import demo
from barograph_demo.configuration import demo_settings, payment_settings, welcome
from barograph_demo.servers.faults import FacilitatorFault, IdentityFault
from barograph_demo.servers.identity import DEMO_USERS, load_or_create_key
from barograph_demo.servers.mailbox import FILE_NAME
from barograph_demo.servers.registry import FAULTS_BY_SERVER
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
    command = [*arguments, "--data", str(folder)]
    return CliRunner().invoke(demo, command, catch_exceptions=False).stdout


def running(folder: Path, **places: str) -> None:
    (folder / "demo.json").write_text(json.dumps(places))


def test_a_token_of_the_running_demo_is_printed_and_nothing_else(tmp_path: Path) -> None:
    load_or_create_key(tmp_path)
    running(tmp_path, identity=PLACE)
    for tier, user in DEMO_USERS.items():
        text = printed(tmp_path, "token", "--tier", tier)
        assert text.count("\n") == 1
        claims = json.loads(extract_compact(text.strip().encode()).payload)
        assert (claims["sub"], claims["iss"]) == (user, f"http://{PLACE}/auth/v1")


def test_a_proof_of_the_running_demo_is_printed_and_nothing_else(tmp_path: Path) -> None:
    wallets = load_or_create_wallets(tmp_path)
    running(tmp_path, facilitator=PLACE)
    offers = {"feed": feed_requirements(SETTINGS), "stance": stance_requirements(SETTINGS)}

    def proven(*options: str) -> tuple[object, object]:
        text = printed(tmp_path, "proof", *options)
        assert text.count("\n") == 1
        proof = parse_proof(text.strip(), [*offers.values()], system_clock())
        return proof.payer, proof.requirements

    for wallet in WALLETS:
        for what, offer in offers.items():
            expected = wallets[wallet].address, offer
            assert proven("--wallet", wallet, "--for", what) == expected
    assert proven() == (wallets["feed"].address, offers["feed"])


@pytest.mark.parametrize(
    "command",
    ["token", "token --tier gold", "proof", "proof --wallet gold", "proof --for guides"],
)
def test_nothing_is_printed_without_a_known_name_and_a_running_demo(
    tmp_path: Path, command: str
) -> None:
    result = CliRunner().invoke(demo, [*command.split(), "--data", str(tmp_path)])
    assert (result.exit_code != 0, result.stdout) == (True, "")


async def test_wallet_of_a_stranger_gets_money_that_lasts(tmp_path: Path) -> None:
    async def given(*address: str) -> dict[str, str]:
        async with running_world(tmp_path) as world:
            running(tmp_path, facilitator=f"{world.address.host}:{world.address.port}")
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
    running(tmp_path, exchange=PLACE)
    result = CliRunner().invoke(demo, [*command, "--data", str(tmp_path)])
    assert isinstance(result.exception, ConfigurationError)
    assert "--no-x402" in str(result.exception)


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


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("identity", set(IdentityFault)),
        ("facilitator", set(FacilitatorFault)),
        ("exchange", set(FAULTS_BY_SERVER["bybit"])),
        *((venue, set(FAULTS_BY_SERVER[venue])) for venue in ("bybit", "hyperliquid", "binance")),
    ],
)
def test_every_kind_of_fault_is_listed(part: str, expected: set[str]) -> None:
    result = CliRunner().invoke(cli, ["demo", "fault", part, "on", "--kind", "list"])
    assert set(result.stdout.split()) == expected


def test_captured_mail_is_printed_plainly_or_as_json(tmp_path: Path) -> None:
    nothing = printed(tmp_path, "mail"), printed(tmp_path, "mail", "--json")
    assert nothing == ("no mail yet\n", "[]\n")
    mail = {
        "from": "barograph@demo.example",
        "to": ["name@example.com"],
        "subject": "Your key",
        "date": "Fri, 06 Nov 2026 21:20:00 +0000",
        "text": "Open\nhttps://x.example/keys/y\n",
        "links": ["https://x.example/keys/y"],
    }
    (tmp_path / FILE_NAME).write_text(json.dumps(mail) + "\n")

    assert json.loads(printed(tmp_path, "mail", "--json")) == [mail]
    assert printed(tmp_path, "mail") == (
        "from: barograph@demo.example\nto: name@example.com\n"
        "date: Fri, 06 Nov 2026 21:20:00 +0000\nsubject: Your key\n\n"
        "Open\nhttps://x.example/keys/y\n\n"
    )
