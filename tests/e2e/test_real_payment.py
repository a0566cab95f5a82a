"""Real payments: a stock client, a stock facilitator and a real chain around a real server.

What was charged is read from the token itself, never from what anybody says about it. Every test
has a wallet of its own.
"""

import asyncio
import json
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from click.testing import CliRunner

from barograph.cli.entitlements import entitlements
from barograph.kit.clock import system_clock
from barograph.kit.sqlite import SQLiteDatabase
from barograph.kit.timestamps import DAY
from barograph.payments.journal import Journal
from barograph.payments.records import ChainFinding, ChainUnavailable, Payment
from barograph.settings import Settings
from barograph.upstream.chain import JsonRpcChain
from support.entitled_server import EntitledServer
from support.payers import Chain, Payer, Wallet, chain_and_payer
from support.processes import answer_200, eventually, running
from support.subscribers import FEED_ENTRY, FEED_NOW, MATERIAL_CHANGE, STANCE_READS

pytestmark = pytest.mark.e2e

DOLLAR = 1_000_000
FEED = 25 * DOLLAR
STANCE = DOLLAR // 4
ENOUGH = "$25"
"""What a client must be told that it may spend, or it will not buy Feed."""

WALLETS = (
    *("buyer", "renewer", "capped", "reader", "checker"),
    *("comparer", "stranger", "crowd", "empty"),
)
FUNDING_READ = STANCE_READS["funding-regime-stance"]


class Shop:
    """A server that takes payments, who pays there, and the books of both."""

    def __init__(self, server: EntitledServer, chain: Chain, payer: Payer) -> None:
        self.server, self.chain, self.payer = server, chain, payer

    def url(self, path: str) -> str:
        return f"{self.server.base_url}{path}"

    @property
    def comparison_url(self) -> str:
        return f"{self.url(MATERIAL_CHANGE)}?{urlencode(self.server.given)}"

    def wallet(self, name: str) -> Wallet:
        return self.chain.wallets[name]

    def books(self, wallet: Wallet) -> tuple[int, int]:
        """What a wallet has, and what was taken in."""
        return self.chain.balance(wallet.address), self.chain.balance(self.chain.pay_to)

    def grants(self, wallet: Wallet) -> list[dict[str, Any]]:
        """The wallet's entitlements, as the operator sees them."""
        data = str(self.server.folder / "data")
        arguments = ["list", "--wallet", wallet.address, "--json", "--data", data]
        result = CliRunner().invoke(entitlements, arguments)
        assert result.exit_code == 0, result.output
        found: list[dict[str, Any]] = json.loads(result.output)
        return found

    def payments(self, wallet: Wallet) -> list[Payment]:
        """What the journal has of a wallet."""

        async def read() -> list[Payment]:
            database = SQLiteDatabase(self.server.folder / "data/barograph.sqlite3")
            found = await Journal(database, system_clock).search(payer=wallet.address.lower())
            await database.close()
            return found

        return asyncio.run(read())

    def finding(self, payment: Payment) -> ChainFinding:
        """What our own reader of the chain finds."""

        async def look() -> ChainFinding | None:
            chain = JsonRpcChain(Settings.from_environment(_environment(self.server, self.chain)))
            try:
                return await chain.authorization(payment)
            except ChainUnavailable:  # a block was made meanwhile; the service asks again later
                return None
            finally:
                await chain.close()

        return eventually(lambda: asyncio.run(look()), "a finding")

    @contextmanager
    def nothing_charged(self, wallet: Wallet) -> Iterator[None]:
        """Check that meanwhile no money moves, and that nothing is granted."""
        before = self.books(wallet), self.grants(wallet)
        yield
        assert (self.books(wallet), self.grants(wallet)) == before

    def show(self, url: str, proof: str, header: str = "PAYMENT-SIGNATURE") -> httpx2.Response:
        """Ask with a proof, and without a client that would make another one."""
        return httpx2.get(url, headers={header: proof}, timeout=30, trust_env=False, verify=False)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    server = EntitledServer(folder)
    with (
        chain_and_payer(folder, WALLETS) as (chain, payer),
        running("serve", log=folder / "web.log", **_environment(server, chain)),
    ):
        eventually(lambda: answer_200(f"{server.base_url}/api/agent"), "the server")
        yield Shop(server, chain, payer)


def _environment(server: EntitledServer, chain: Chain) -> dict[str, str]:
    given = {
        "DATA": str(server.folder / "data"),
        "PORT": str(server.port),
        "ACCEPT_TERMS": "selling",
        "X402_FACILITATOR_URL": chain.url,
        "X402_CHAIN_URL": chain.rpc_url,
        "X402_NETWORK": chain.network,
        "X402_ASSET": chain.asset,
        "X402_PAY_TO": chain.pay_to,
    }
    return {f"BAROGRAPH_{name}": value for name, value in given.items()}


def _authorization(proof: str) -> dict[str, str]:
    signed: dict[str, str] = json.loads(b64decode(proof))["payload"]["authorization"]
    return signed


def test_feed_is_bought_once_and_opens_what_feed_opens(shop: Shop) -> None:
    buyer = shop.wallet("buyer")
    had, earned = shop.books(buyer)
    bought = shop.payer.get(buyer, shop.url(FEED_ENTRY), ENOUGH)
    assert bought.status == 200, bought
    assert shop.books(buyer) == (had - FEED, earned + FEED)

    receipt = bought.receipt
    assert receipt is not None
    assert (receipt["success"], receipt["network"]) == (True, shop.chain.network)
    assert receipt["payer"].lower() == buyer.address.lower()
    mined = shop.chain.transaction(receipt["transaction"])
    assert mined is not None
    assert mined["status"] == "0x1"
    assert bought.body["tier"] == "feed"
    assert bought.body["wallet"].lower() == buyer.address.lower()
    assert bought.body["transaction"] == receipt["transaction"]

    (grant,) = shop.grants(buyer)
    assert (grant["tier"], grant["ends_at"]) == ("feed", bought.body["ends_at"])


@pytest.mark.contract("auth.proof.reuse")
def test_replayed_proof_charges_and_grants_nothing(shop: Shop) -> None:
    renewer = shop.wallet("renewer")
    bought = shop.payer.get(renewer, shop.url(FEED_ENTRY), ENOUGH)
    assert bought.status == 200, bought
    (proof,) = bought.proofs
    books = shop.books(renewer)

    # A settled proof is public on the chain, so without an idempotency key it shows nothing.
    with shop.nothing_charged(renewer):
        for url in (shop.url(FEED_ENTRY), shop.url(FUNDING_READ)):
            assert shop.show(url, proof).status_code == 409
        for url in (shop.url(FEED_NOW), shop.comparison_url):
            assert shop.show(url, proof).status_code == 401

    again = shop.payer.get(renewer, shop.url(FEED_ENTRY), ENOUGH)
    assert again.status == 200
    assert shop.books(renewer) == (books[0] - FEED, books[1] + FEED)
    assert again.body["ends_at"] > bought.body["ends_at"]


@pytest.mark.thorough
def test_chain_itself_tells_what_became_of_a_payment(shop: Shop) -> None:
    checker = shop.wallet("checker")
    bought = shop.payer.get(checker, shop.url(FEED_ENTRY), ENOUGH)
    assert bought.status == 200, bought
    (payment,) = shop.payments(checker)
    transaction = bought.body["transaction"]
    assert shop.finding(payment) == ChainFinding("used", transaction)
    another = payment._replace(nonce="0x" + 64 * "7")
    late = another._replace(valid_before=payment.claimed_at - DAY)
    assert shop.finding(another) == ChainFinding("unused")
    assert shop.finding(late) == ChainFinding("expired")
    assert shop.finding(payment._replace(amount="1")) == ChainFinding("spent", transaction)


@pytest.mark.thorough
def test_stock_client_refuses_feed_until_its_cap_is_raised(shop: Shop) -> None:
    capped = shop.wallet("capped")
    with shop.nothing_charged(capped):
        outcome = shop.payer.get(capped, shop.url(FEED_ENTRY))
    assert (outcome.status, outcome.proofs) == (None, [])
    assert "max_amount_per_payment ($1, including USDC)" in outcome.refused


@pytest.mark.thorough
@pytest.mark.outcome(
    "A wallet tries to pay more than its balance",
    "The facilitator refuses. Nothing is charged.",
)
def test_wallet_without_funds_is_refused_everywhere(shop: Shop) -> None:
    empty = shop.wallet("empty")
    with shop.nothing_charged(empty):
        for path in (FEED_ENTRY, FUNDING_READ):
            assert shop.payer.get(empty, shop.url(path), ENOUGH).status == 402
        assert shop.payer.get(empty, shop.comparison_url, ENOUGH).status == 401


@pytest.mark.thorough
def test_stance_is_paid_for_at_each_read_within_the_default_cap(shop: Shop) -> None:
    reader = shop.wallet("reader")
    for _ in range(2):
        had, earned = shop.books(reader)
        read = shop.payer.get(reader, shop.url(FUNDING_READ))
        assert read.status == 200, read
        assert read.body["history_digest"] == shop.server.given["after_digest"]
        assert read.receipt is not None
        assert read.receipt["success"] is True
        assert shop.books(reader) == (had - STANCE, earned + STANCE)
    assert shop.grants(reader) == []


@pytest.mark.thorough
def test_many_requests_with_one_proof_are_one_charge(shop: Shop) -> None:
    crowd = shop.wallet("crowd")
    had, earned = shop.books(crowd)
    url = shop.url(FUNDING_READ)
    proof = shop.payer.sign(crowd, url)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: shop.show(url, proof), range(8)))
    assert {answer.status_code for answer in answers} <= {200, 409, 503}
    assert len({answer.content for answer in answers if answer.status_code == 200}) == 1
    assert shop.books(crowd) == (had - STANCE, earned + STANCE)


@pytest.mark.thorough
@pytest.mark.contract("auth.proof.header", "auth.proof.verified", "auth.proof.never-settled")
def test_comparison_looks_at_a_proof_and_never_charges(shop: Shop) -> None:
    comparer = shop.wallet("comparer")
    assert shop.payer.get(comparer, shop.url(FEED_ENTRY), ENOUGH).status == 200
    with shop.nothing_charged(comparer):
        compared = shop.payer.get(comparer, shop.comparison_url, ENOUGH)
        assert compared.status == 200, compared
        (proof,) = compared.proofs
        assert shop.show(shop.comparison_url, proof, "X-PAYMENT").status_code == 200
        assert shop.show(shop.url(FUNDING_READ), proof).status_code == 200
    assert compared.body["schema"] == "feed-material-change-v1"
    assert compared.receipt is None
    signed = _authorization(proof)
    assert int(signed["value"]) == FEED
    assert not shop.chain.is_used(comparer.address, signed["nonce"])


@pytest.mark.thorough
def test_feed_priced_proof_buys_nothing_but_feed(shop: Shop) -> None:
    stranger = shop.wallet("stranger")
    with shop.nothing_charged(stranger):
        proof = shop.payer.sign(stranger, shop.url(FEED_ENTRY), ENOUGH)
        for url in (shop.comparison_url, shop.url(FEED_NOW), shop.url(FUNDING_READ)):
            assert shop.show(url, proof).status_code == 402
        assert shop.payer.get(stranger, shop.comparison_url, ENOUGH).status == 402
