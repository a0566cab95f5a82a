"""What owners of tokens sign: a transfer as a wallet signs it."""

from barograph_demo.servers.wallets import Authorization, Domain, recover, sign, transfer_digest

USDC = Domain("USDC", "2", 84532, "0x036CbD53842c5426634e7929541eC2318f3dCF7e")
TRANSFER = Authorization(
    payer="0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    to="0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    value=25_000_000,
    valid_after=0,
    valid_before=1_794_000_060,
    nonce="0x" + "01" * 32,
)
KEY = 0xAC0974BEC39A17E36BA4A6B4D238FF944BACB478CBED5EFCAE784D7BF4F2FF80


def test_a_transfer_is_signed_as_a_wallet_signs_it() -> None:
    digest = transfer_digest(USDC, TRANSFER)

    assert digest.hex() == "6faea771e30a31b0f7a9f2c3cfd9bd38eb1d4846187926c3ce910963e9fb0314"
    assert sign(digest, KEY).hex() == (
        "4d2f8465b7f6b189aa16256ffefa0e449c17db572effec63a2725b0ad60de0cf"
        "523e3d999afcf16a4c23473cbecfd915b9c8cc5efa0ea070cc1995817e2f9f28"
        "1b"
    )
    assert recover(digest, sign(digest, KEY)) == TRANSFER.payer.lower()


def test_every_part_of_a_transfer_is_signed() -> None:
    others = [
        TRANSFER._replace(payer=TRANSFER.to),
        TRANSFER._replace(to=TRANSFER.payer),
        TRANSFER._replace(value=1),
        TRANSFER._replace(valid_after=1),
        TRANSFER._replace(valid_before=1),
        TRANSFER._replace(nonce="0x" + "02" * 32),
    ]
    domains = [
        USDC._replace(name="USD Coin"),
        USDC._replace(version="1"),
        USDC._replace(chain_id=8453),
        USDC._replace(verifying_contract=TRANSFER.to),
    ]

    digests = {transfer_digest(USDC, each) for each in [TRANSFER, *others]}
    digests |= {transfer_digest(domain, TRANSFER) for domain in domains}
    assert len(digests) == 1 + len(others) + len(domains)


def test_the_case_of_an_address_changes_nothing() -> None:
    lower = TRANSFER._replace(payer=TRANSFER.payer.lower(), to=TRANSFER.to.lower())

    assert transfer_digest(USDC, lower) == transfer_digest(USDC, TRANSFER)
