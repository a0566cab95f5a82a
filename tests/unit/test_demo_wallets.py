"""The demo's wallets: created once, with proofs that the service accepts."""

import stat
from pathlib import Path

import pytest

from barograph.entitlements.purchases import feed_requirements, stance_requirements
from barograph.errors import ConfigurationError
from barograph.kit.keccak import keccak256
from barograph.payments.proof import checksummed, parse_proof, wire_requirements
from barograph.payments.records import InvalidProof
from barograph.settings import Settings
from barograph_demo.configuration import payment_settings
from barograph_demo.servers.wallets import (
    ASSET,
    PAY_TO,
    SECRET_FILE,
    TOKEN,
    WALLETS,
    Domain,
    demo_proof,
    load_or_create_wallets,
)
from support.clock import START

SETTINGS = Settings.model_validate(payment_settings("127.0.0.1:4711"))
FEED, STANCE = feed_requirements(SETTINGS), stance_requirements(SETTINGS)


def test_wallets_are_made_once_and_only_their_owner_can_read_the_secret(tmp_path: Path) -> None:
    folder = tmp_path / "new"

    first = load_or_create_wallets(folder)

    assert load_or_create_wallets(folder) == first
    assert stat.S_IMODE((folder / SECRET_FILE).stat().st_mode) == 0o600
    assert [file.name for file in folder.iterdir()] == [SECRET_FILE]
    assert list(first) == list(WALLETS)
    assert len({wallet.address for wallet in first.values()}) == len(WALLETS)


def test_wallets_of_two_folders_have_nothing_in_common(tmp_path: Path) -> None:
    here, there = (load_or_create_wallets(tmp_path / name).values() for name in "ab")

    assert {wallet.key for wallet in here}.isdisjoint(wallet.key for wallet in there)


@pytest.mark.parametrize("content", ["", "not a secret", "ab" * 31, "ab" * 33])
def test_a_damaged_secret_is_reported_with_the_remedy(tmp_path: Path, content: str) -> None:
    (tmp_path / SECRET_FILE).write_text(content)

    with pytest.raises(ConfigurationError, match="delete it"):
        load_or_create_wallets(tmp_path)


def test_a_proof_is_good_for_as_long_as_the_terms_allow_and_never_the_same(tmp_path: Path) -> None:
    load_or_create_wallets(tmp_path)
    texts = [demo_proof(tmp_path, "feed", wire_requirements(FEED), START) for _ in range(2)]

    proofs = [parse_proof(text, [FEED], START) for text in texts]

    assert {proof.valid_before for proof in proofs} == {START // 1_000 + 60}
    assert len({proof.nonce for proof in proofs}) == 2
    with pytest.raises(InvalidProof, match="expired"):
        parse_proof(texts[0], [FEED], START + 60_000)


def test_the_receiving_address_has_no_known_key() -> None:
    words = b"treasury of the Barograph demo"
    assert f"0x{keccak256(words)[-20:].hex()}" == PAY_TO


def test_demo_is_paid_in_the_usdc_of_base_sepolia() -> None:
    assert TOKEN._replace(verifying_contract=checksummed(ASSET)) == Domain(
        "USDC", "2", 84532, "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
    )
