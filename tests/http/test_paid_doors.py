"""The paid doors: what is asked for, who is charged, and who never is."""

import asyncio
import base64
import json
from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from barograph.collector.app import build_reconciler
from barograph.history.records import NOT_RECORDED, Version
from barograph.kit.logs import RepeatLimit
from barograph.kit.timestamps import DAY, iso_timestamp
from barograph.payments.journal import Journal
from barograph.payments.proof import checksummed, wire_payload, wire_requirements
from barograph.payments.records import ChainFinding, InvalidProof, NotSettled, Payment, Requirements
from barograph.settings import Settings
from barograph.stances.reader import recorded_stance
from barograph.stances.reveals import Announcement, Reveals
from barograph.web.app import Timeouts
from support.node import X402, run_script
from support.payments import (
    FEED,
    PAYER,
    PAYMENTS,
    SIGNATURE,
    STANCE,
    HandFacilitator,
    header,
    payload,
    proof,
)
from support.reveals import announce
from support.service import BASE_URL, Answer, asked
from support.stances import FUNDING, PERIOD, proposal
from support.subscribers import (
    ENTITLED_PATHS,
    FEED_ENTRY,
    FEED_NOW,
    FEED_TOKEN,
    MATERIAL_CHANGE,
    PLAIN_TOKEN,
    STANCE_READS,
    SubscriberService,
    comparison_of,
    publish_stances,
)

Pair = tuple[Version, Version]

READ = STANCE_READS[FUNDING]
OTHER_SIGNATURE = SIGNATURE.replace("1f", "1e")


class PaidOnChain:
    """A chain on which every authorization moved its money."""

    async def authorization(self, payment: Payment) -> ChainFinding:
        return ChainFinding("used", "0x" + "ab" * 32)

    async def close(self) -> None:
        """Nothing to release."""


class Shop(SubscriberService):
    """A service that takes payments, and what its facilitator saw."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.facilitator = HandFacilitator()
        super().__init__(folder, facilitator=self.facilitator, **PAYMENTS, **settings)

    def pay(
        self,
        path: str,
        number: int = 1,
        *,
        offer: Requirements = STANCE,
        field: str = "payment_signature",
        signature: str = SIGNATURE,
        peer: str = "203.0.113.7",
        **fields: str,
    ) -> Answer:
        """Show a proof that is good now, perhaps with more header fields."""
        now = self.clock() // 1000
        shown = payload(proof(number, offer=offer, signature=signature, now_seconds=now))
        return self.ask(path, peer=peer, **{field: header(shown)}, **fields)

    def shown(self, number: int = 1, offer: Requirements = STANCE, **members: Any) -> str:
        """A proof that is good now, to be shown as often as needed."""
        signed = payload(proof(number, offer=offer, now_seconds=self.clock() // 1000))
        return header(signed | members)

    def show(self, path: str, shown: str, key: str | None = None) -> Answer:
        fields = {} if key is None else {"idempotency_key": key}
        return self.ask(path, payment_signature=shown, **fields)

    def leave(self, path: str, shown: str, key: str | None = None) -> None:
        """Show a proof, and go away as soon as the money moved."""
        headers = [(b"payment-signature", shown.encode())]
        if key is not None:
            headers.append((b"idempotency-key", key.encode()))
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
        }
        scope |= {"query_string": b"", "root_path": "", "client": ("203.0.113.7", 1)}
        charging = asyncio.Event()

        async def settling() -> None:
            charging.set()

        async def receive() -> dict[str, Any]:
            await charging.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            """Nobody hears it."""

        async def call() -> None:
            await self.app(scope | {"headers": headers}, receive, send)

        self.facilitator.before_settling = settling
        asyncio.run(call())
        self.facilitator.before_settling = None

    def reconcile(self) -> None:
        """Find out from the chain what became of every payment."""
        reconciler = build_reconciler(Settings(), self.database, PaidOnChain(), self.clock)
        asyncio.run(reconciler.once())

    def charge_and_cut_off(self, path: str, shown: str) -> None:
        """Be charged for a proof, and never be told so."""
        self.facilitator.fall_silent(after_charging=True)
        assert self.show(path, shown).status == 503
        self.reconcile()
        assert self.states() == ["settled"]
        self.facilitator.on_settle = None

    def entitlements_of_payer(self) -> list[tuple[int, int]]:
        sql = "SELECT starts_at, ends_at FROM entitlements WHERE holder = $1 ORDER BY starts_at"
        return [(row[0], row[1]) for row in self.rows(sql, PAYER)]

    def states(self) -> list[str]:
        return [row[0] for row in self.rows("SELECT state FROM payments ORDER BY claimed_at, id")]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    shop.close()


@pytest.fixture
def pair(shop: Shop) -> Pair:
    return shop.two_versions()


def asked_for(answer: Answer, offer: Requirements) -> Any:
    """What a 402 asks for, which its header repeats."""
    body = answer.json()
    assert answer.status == 402
    assert answer.headers["cache-control"] == "private, no-store"
    assert json.loads(base64.b64decode(answer.headers["payment-required"])) == body
    assert body["x402Version"] == 2
    (accepts,) = body["accepts"]
    assert accepts | {name: accepts[name].lower() for name in ("asset", "payTo")} == {
        "scheme": "exact",
        "network": offer.network,
        "amount": str(offer.amount),
        "asset": offer.asset,
        "payTo": offer.pay_to,
        "maxTimeoutSeconds": offer.max_timeout_seconds,
        "extra": {"name": "USDC", "version": "2"},
    }
    assert body["extensions"]["bazaar"]["info"]["input"] == {"type": "http", "method": "GET"}
    return body


def receipt_of(answer: Answer) -> Any:
    assert answer.status == 200
    return json.loads(base64.b64decode(answer.headers["payment-response"]))


def code_of(answer: Answer) -> tuple[int, str]:
    assert answer.headers["cache-control"] == "private, no-store"
    return answer.status, answer.json()["error"]


@pytest.mark.parametrize("path", [*ENTITLED_PATHS, FEED_ENTRY])
@pytest.mark.contract("errors.feed-entitlement-required")
def test_without_credentials_a_stance_or_the_feed_entry_is_offered(shop: Shop, path: str) -> None:
    shop.issue_all()
    is_stance = path in STANCE_READS.values()
    body = asked_for(shop.ask(path), STANCE if is_stance else FEED)
    assert body["resource"]["url"] == BASE_URL + (path if is_stance else FEED_ENTRY)
    if not is_stance:
        assert body["error"] == "Active verified Feed entitlement required"
        assert "not pay again" in body["resource"]["description"]


USED = (409, "payment_used")
PENDING = (503, "payment_pending")
KEY = "6f1d3c1e-0b55-4c39-9d3c-5f0e6b1f7a10"
IDENTIFIER = {"payment-identifier": {"info": {"required": False, "id": KEY}, "schema": {}}}


DOORS = {**dict.fromkeys(STANCE_READS.values(), STANCE), FEED_ENTRY: FEED}
"""Feed last, because its holders read stances for free."""


def told_to_facilitator(shop: Shop) -> tuple[list[Any], list[dict[str, Any]]]:
    """The offers of the four paid doors, and what the facilitator is sent of a proof for each.

    The payers repeat the offers with changes of their own, which must not get further.
    """
    for kind in STANCE_READS:
        shop.two_versions(kind)
    offers = [shop.ask(path).json() for path in DOORS]
    for number, (path, terms) in enumerate(DOORS.items()):
        forged = json.loads(json.dumps(offers[number]["extensions"]))
        forged["bazaar"]["routeTemplate"] = "/elsewhere"
        forged["payment-identifier"]["info"]["id"] = f"{KEY}-{number}"
        members = {"resource": {"url": "https://elsewhere.example/"}, "extensions": forged}
        assert shop.show(path, shop.shown(number, terms, **members)).status == 200
    return offers, [
        {
            "x402Version": 2,
            "paymentPayload": wire_payload(each),
            "paymentRequirements": wire_requirements(each.requirements),
        }
        for each in shop.facilitator.shown
    ]


def test_facilitator_gets_our_own_listing_and_nothing_of_the_payers(shop: Shop) -> None:
    offers, told = told_to_facilitator(shop)
    assert len(told) == 8  # each was verified and settled
    assert told[::2] == told[1::2]
    longest = Reveals((Announcement(0, 10**9),)).sentence
    for offer, verified in zip(offers, told[::2], strict=True):
        # Coinbase's facilitator rejects a longer one, with a reason about something else.
        assert len(f"{offer['resource']['description']} {longest}") < 500
        assert verified["paymentPayload"]["resource"] == offer["resource"]
        assert verified["paymentPayload"]["accepted"] == offer["accepts"][0]
        ours = {"bazaar": offer["extensions"]["bazaar"]}
        assert verified["paymentPayload"]["extensions"] == ours
    assert not any(word in json.dumps(told) for word in ("elsewhere", KEY, "payment-identifier"))


@pytest.mark.thorough
def test_catalogs_of_facilitators_list_the_four_paid_doors(shop: Shop) -> None:
    offers, told = told_to_facilitator(shop)
    listed = run_script("discovery.mjs", told, packages=X402)
    for offer, found in zip(offers, listed[::2], strict=True):
        assert found["resourceUrl"] == offer["resource"]["url"]
        assert found["description"] == offer["resource"]["description"]
        assert (found["method"], found["mimeType"]) == ("GET", "application/json")
        assert found["discoveryInfo"] == offer["extensions"]["bazaar"]["info"]
        assert "routeTemplate" not in found
    assert listed[::2] == listed[1::2]


@pytest.mark.parametrize("first_key", [None, KEY])
def test_charged_proof_gets_the_version_that_was_sold_at_any_time(
    shop: Shop, pair: Pair, first_key: str | None
) -> None:
    shown = shop.shown()
    first = shop.show(READ, shown, first_key)
    receipt = receipt_of(first)
    assert (receipt["success"], receipt["payer"].lower()) == (True, PAYER)
    assert receipt["network"] == STANCE.network
    assert (shop.states(), shop.entitlements_of_payer()) == (["settled"], [])
    for seconds, key in ((0, None), (0, KEY), (0, "?"), (3600, None)):
        shop.clock.pass_seconds(seconds)
        again = shop.show(READ, shown, key)
        assert (again.body, receipt_of(again)) == (first.body, receipt)
    asyncio.run(shop.withdraw(pair[1]))
    assert shop.show(READ, shown).json()["state"] == "terminal"
    shop.record(proposal(label="later", by="operator", issued_at=shop.clock() + 1))
    shop.grant(PAYER, "feed", kind="wallet")
    shop.clock.now += PERIOD
    assert shop.show(READ, shown).json()["history_digest"] == pair[1].history_digest
    # It paid for this stance only, and identifies the wallet nowhere else.
    for path in (STANCE_READS["rates-desk"], FEED_ENTRY):
        assert code_of(shop.show(path, shown, first_key)) == USED
    assert len(shop.facilitator.charged) == 1


@pytest.mark.parametrize("members", [{}, {"extensions": IDENTIFIER}], ids=["header", "extension"])
def test_one_key_is_one_charge_whatever_proof_comes_with_it(
    shop: Shop, pair: Pair, members: dict[str, Any]
) -> None:
    key = None if members else KEY
    first = shop.show(READ, shop.shown(**members), key)
    assert shop.show(READ, shop.shown(**members), f'"{KEY}"').body == first.body
    assert code_of(shop.show(READ, shop.shown(2, **members), key)) == USED
    assert shop.show(READ, shop.shown(3, **members), None if members else "y" * 16).status == (
        409 if members else 200
    )
    assert len(shop.facilitator.charged) == (1 if members else 2)
    assert KEY not in str(shop.rows("SELECT * FROM payments"))


def test_purchase_of_feed_is_409_without_the_key_of_the_first_request(shop: Shop) -> None:
    for number, first_key in ((1, None), (2, KEY)):
        shown = shop.shown(number, FEED)
        assert shop.show(FEED_ENTRY, shown, first_key).status == 200
        for key in (None, "x" * 16, "?"):
            assert code_of(shop.show(FEED_ENTRY, shown, key)) == USED
    assert len(shop.facilitator.charged) == 2


@pytest.mark.parametrize("key", ["short", "x" * 129, "with spaces in it, too"])
@pytest.mark.parametrize("path", [READ, FEED_ENTRY])
def test_malformed_idempotency_key_is_refused_before_any_charge(
    shop: Shop, pair: Pair, path: str, key: str
) -> None:
    identifier = {"payment-identifier": {"info": {"id": key}}}
    offer = DOORS[path]
    for shown, given in (
        (shop.shown(offer=offer), key),
        (shop.shown(offer=offer, extensions=identifier), None),
    ):
        assert code_of(shop.show(path, shown, given)) == (400, "invalid_idempotency_key")
    assert (shop.facilitator.verified, shop.states()) == ([], [])
    assert shop.pay(READ, authorization=f"Bearer {FEED_TOKEN}", idempotency_key=key).status == 200


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("path", [READ, FEED_ENTRY])
@pytest.mark.outcome(
    "A payer's connection breaks while the payment is settled",
    "One charge. The same proof gets the body later.",
)
def test_payer_who_disconnects_during_settlement_gets_the_body_with_same_proof(
    shop: Shop, pair: Pair, path: str, key: str | None
) -> None:
    shown = shop.shown(offer=DOORS[path])
    shop.leave(path, shown, key)
    assert shop.rows("SELECT state, released_at FROM payments") == [("settled", None)]
    shop.record(proposal(label="later", by="operator", issued_at=shop.clock() + 1))
    shop.clock.pass_seconds(3600)
    if key is not None and path == FEED_ENTRY:
        assert code_of(shop.show(path, shown)) == USED
    bodies = {shop.show(path, shown, key).body for _ in range(3)}
    answer = shop.show(path, shown, key)
    assert receipt_of(answer)["success"] is True
    assert bodies == {answer.body}
    if path == READ:  # what was paid for, not whatever is the newest by now
        assert answer.json()["history_digest"] == pair[1].history_digest
    shop.execute("UPDATE payments SET item = NULL")  # as versions left it that did not note it
    assert shop.show(path, shown, key).body == answer.body
    assert len(shop.facilitator.charged) == 1


def test_who_was_charged_gets_the_stance_though_it_expired_and_the_wallet_has_feed(
    shop: Shop, pair: Pair
) -> None:
    shown = shop.shown()
    shop.charge_and_cut_off(READ, shown)
    shop.grant(PAYER, "feed", kind="wallet")
    shop.clock.now += PERIOD
    answer = shop.show(READ, shown)
    assert receipt_of(answer)["success"] is True
    assert answer.json()["state"] == "expired"
    assert len(shop.facilitator.charged) == 1


def test_unresolved_read_stays_503_after_the_wallet_gets_feed(shop: Shop, pair: Pair) -> None:
    shown = shop.shown()
    shop.facilitator.fall_silent(after_charging=True)
    assert shop.show(READ, shown).status == 503
    shop.grant(PAYER, "feed", kind="wallet")
    for seconds in (0, 3600):
        shop.clock.pass_seconds(seconds)
        assert code_of(shop.show(READ, shown)) == PENDING


@pytest.mark.parametrize(
    "terms",
    [
        {"stance_price_usd": Decimal("0.30")},
        {"x402_pay_to": "0x" + "0d" * 20},
        {"x402_asset": "0x" + "0e" * 20},
    ],
    ids=lambda terms: next(iter(terms)),
)
@pytest.mark.parametrize("state", ["settled", "unknown"])
def test_what_was_charged_on_other_terms_is_never_asked_for_again(
    shop: Shop, pair: Pair, terms: dict[str, Any], state: str
) -> None:
    shown = shop.shown()
    if state == "settled":
        shop.charge_and_cut_off(READ, shown)
    else:
        shop.facilitator.fall_silent(after_charging=True)
        shop.show(READ, shown)
    shop.app = shop.new_worker(**terms).app
    answer = shop.show(READ, shown)
    if state == "settled":
        assert receipt_of(answer)["success"] is True
    else:
        assert code_of(answer) == PENDING
    assert shop.show(READ, shop.shown(2)).status == 402


def test_a_subscriber_is_never_charged(shop: Shop, pair: Pair) -> None:
    answer = shop.pay(READ, authorization=f"Bearer {FEED_TOKEN}")
    assert answer.status == 200
    assert "payment-response" not in answer.headers
    shop.grant(PAYER, "feed", kind="wallet")
    for offer in (STANCE, FEED):
        answer = shop.pay(READ, 2, offer=offer)
        assert answer.status == 200
        assert "payment-response" not in answer.headers
    assert (shop.facilitator.asked, shop.states()) == ([], [])


def test_only_a_verified_user_without_feed_pays_per_read(shop: Shop, pair: Pair) -> None:
    asked_for(shop.read(READ, PLAIN_TOKEN), STANCE)
    assert receipt_of(shop.pay(READ, authorization=f"Bearer {PLAIN_TOKEN}"))["success"] is True
    assert len(shop.facilitator.charged) == len(shop.facilitator.verified) == 1
    answer = shop.pay(READ, 2, authorization="Bearer nobody-knows-it")
    assert code_of(answer) == (401, "verified_feed_identity_required")
    shop.identities.is_down = True
    assert code_of(shop.read(READ)) == (503, "stance_unavailable")
    # Whether that proof was charged before was not even looked up.
    assert code_of(shop.pay(READ, 2, authorization=f"Bearer {FEED_TOKEN}")) == PENDING
    assert len(shop.facilitator.verified) == 1


def test_forged_proof_does_not_reveal_who_has_feed(shop: Shop, pair: Pair) -> None:
    shop.facilitator.on_verify = InvalidProof("invalid_signature")
    for offer in (FEED, STANCE):
        without = shop.pay(READ, offer=offer)
        assert "invalid_signature" in asked_for(without, STANCE)["error"]
        shop.grant(PAYER, "feed", kind="wallet")
        assert shop.pay(READ, offer=offer) == without
        shop.execute("UPDATE entitlements SET revoked_at = starts_at WHERE holder = $1", PAYER)
    shop.grant(PAYER, "feed", kind="wallet")
    shown = shop.shown()
    shop.facilitator.on_verify = None
    shop.clock.pass_seconds(60)
    assert "expired" in asked_for(shop.show(READ, shown), STANCE)["error"]
    assert (shop.facilitator.asked, shop.states()) == ([], [])


def test_a_settlement_may_take_longer_than_an_entitled_read(tmp_path: Path) -> None:
    shop = Shop(tmp_path, timeouts=Timeouts(entitled_read=1e-6))
    shop.two_versions()
    assert shop.pay(READ).status == 200
    assert shop.pay(FEED_ENTRY, 2, offer=FEED).status == 200
    shop.close()


@pytest.mark.parametrize(("path", "other"), [(READ, FEED), (FEED_ENTRY, STANCE)])
def test_a_proof_with_the_price_of_something_else_is_never_settled(
    shop: Shop, pair: Pair, path: str, other: Requirements
) -> None:
    asked_for(shop.pay(path, offer=other), DOORS[path])
    assert (shop.facilitator.asked, shop.states(), shop.entitlements_of_payer()) == ([], [], [])
    assert path == READ or shop.facilitator.verified == []


NOT_SOLD = {
    "none": (404, "no_stance"),
    "expired": (404, "stance_not_active"),
    "withdrawn": (404, "stance_not_active"),
    "not durable": (503, "stance_unavailable"),
    "record away": (503, "stance_unavailable"),
}


@pytest.mark.parametrize("event", NOT_SOLD)
def test_stance_that_cannot_be_sold_is_refused_without_asking_for_payment(
    shop: Shop, event: str
) -> None:
    if event != "none":
        _, after = shop.two_versions()
    if event == "withdrawn":
        asyncio.run(shop.withdraw(after))
    if event == "expired":
        shop.clock.now += PERIOD
    if event == "not durable":
        later = replace(recorded_stance(after, None), issued_at=after.issued_at + 1, **NOT_RECORDED)
        publish_stances(shop, later)
    if event == "record away":
        publish_stances(shop, recorded_stance(after, None))
        shop.lose_history()
    answers = [
        shop.ask(READ),
        shop.ask(READ, payment_signature="junk"),
        shop.read(READ, PLAIN_TOKEN),
        shop.pay(READ),
        shop.pay(READ, offer=FEED),
    ]
    assert [code_of(each) for each in answers] == [NOT_SOLD[event]] * 5
    assert (shop.facilitator.asked, shop.states()) == ([], [])
    assert code_of(shop.read(READ, "nobody-knows-it"))[0] == 401
    shop.grant(PAYER, "feed", kind="wallet")
    for answer in (shop.read(READ), shop.pay(READ, offer=FEED)):
        assert answer.status == (404 if event == "none" else 200)


@pytest.mark.parametrize("event", ["withdrawn", "expired", "record away"])
def test_stance_that_ends_during_the_claim_is_not_charged(
    shop: Shop, pair: Pair, event: str
) -> None:
    async def meanwhile() -> None:
        if event == "withdrawn":
            await shop.withdraw(pair[1])
        elif event == "expired":
            shop.clock.now += PERIOD
        else:
            shop.lose_history()

    shop.after_first_look(meanwhile)
    if event == "expired":  # after the second look, which follows the claim
        shop.watched.looks = -1
    assert code_of(shop.pay(READ)) == NOT_SOLD[event]
    assert (shop.facilitator.asked, shop.states()) == ([], ["released"])


def test_buying_feed_settles_once_and_grants_one_period(shop: Shop) -> None:
    answer, now = shop.pay(FEED_ENTRY, offer=FEED), shop.clock()
    assert answer.json() == {
        "tier": "feed",
        "wallet": PAYER,
        "starts_at": iso_timestamp(now),
        "ends_at": iso_timestamp(now + 30 * DAY),
        "transaction": receipt_of(answer)["transaction"],
        "notice": "Information only, not financial advice.",
    }
    # Another signature learns nothing about the purchase.
    assert code_of(shop.pay(FEED_ENTRY, offer=FEED, signature=OTHER_SIGNATURE)) == USED
    assert shop.entitlements_of_payer() == [(now, now + 30 * DAY)]
    assert len(shop.facilitator.charged) == 1


def test_buying_again_extends_what_runs_and_a_replay_grants_nothing_however_late(
    shop: Shop,
) -> None:
    shown, now = shop.shown(offer=FEED), shop.clock()
    first = shop.show(FEED_ENTRY, shown, KEY)
    for seconds in (0, 86_400):
        shop.clock.pass_seconds(seconds)
        assert shop.show(FEED_ENTRY, shown, KEY).body == first.body
        assert shop.entitlements_of_payer() == [(now, now + 30 * DAY)]
    assert shop.pay(FEED_ENTRY, 2, offer=FEED).status == 200
    assert shop.entitlements_of_payer() == [(now, now + 60 * DAY)]
    assert len(shop.facilitator.charged) == 2


@pytest.mark.parametrize("path", [READ, FEED_ENTRY])
@pytest.mark.parametrize("charged", [False, True])
def test_an_ambiguous_settlement_is_503_and_never_402(
    shop: Shop, pair: Pair, path: str, charged: bool
) -> None:
    offer = DOORS[path]
    shop.facilitator.fall_silent(after_charging=charged)
    for _ in range(2):
        answer = shop.pay(path, offer=offer)
        assert code_of(answer) == PENDING
        assert int(answer.headers["retry-after"]) > 0
    assert (len(shop.facilitator.asked), shop.states()) == (1, ["unknown"])
    assert shop.entitlements_of_payer() == []


def test_offers_say_when_versions_become_public_and_proofs_from_before_still_pay(
    shop: Shop, pair: Pair
) -> None:
    sentence = "Recorded versions become public 3650 days after they are issued."
    before = {path: shop.ask(path).json()["resource"] for path in (READ, FEED_ENTRY)}
    announce(shop, 3650, shop.clock())

    for number, (path, offer) in enumerate([(READ, STANCE), (FEED_ENTRY, FEED)]):
        now = asked_for(shop.ask(path), offer)["resource"]
        assert now == before[path] | {"description": f"{before[path]['description']} {sentence}"}
        assert shop.show(path, shop.shown(number, offer, resource=before[path])).status == 200
    listed = shop.ask("/.well-known/x402").json()["offers"]
    assert all(each["resource"]["description"].endswith(sentence) for each in listed)


@pytest.mark.parametrize("path", [READ, FEED_ENTRY])
def test_a_facilitator_that_is_away_is_503_and_the_proof_may_come_again(
    shop: Shop, pair: Pair, path: str
) -> None:
    shop.facilitator.go_away()
    for _ in range(2):  # first before it verifies, then before it settles
        answer = shop.pay(path, offer=DOORS[path])
        assert code_of(answer) == (503, "payment_unavailable")
        assert int(answer.headers["retry-after"]) > 0
        assert shop.facilitator.charged == []
        shop.facilitator.on_verify = None
    shop.facilitator.on_settle = None
    assert shop.pay(path, offer=DOORS[path]).status == 200
    assert len(shop.facilitator.charged) == 1


@pytest.mark.parametrize("path", [READ, FEED_ENTRY])
def test_a_proof_that_the_facilitator_refuses_is_402(shop: Shop, pair: Pair, path: str) -> None:
    offer = DOORS[path]
    shop.facilitator.refuse()
    answer = shop.pay(path, offer=offer)
    asked_for(answer, offer)
    assert "payment-response" not in answer.headers  # nothing was to be settled
    shop.facilitator.on_verify = None
    shop.facilitator.on_settle = NotSettled("insufficient_funds")
    for _ in range(2):
        answer = shop.pay(path, 2, offer=offer)
        assert "not charged" in asked_for(answer, offer)["error"]
        assert json.loads(base64.b64decode(answer.headers["payment-response"])) == {
            "success": False,
            "transaction": "",
            "network": offer.network,
            "payer": checksummed(PAYER),
            "errorReason": "insufficient_funds",
        }
    assert shop.facilitator.charged == []


@pytest.mark.parametrize("path", [READ, FEED_ENTRY])
@pytest.mark.parametrize("value", ["", "junk", "eyJ4NDAyVmVyc2lvbiI6Mn0=", "x" * 5000])
def test_what_is_no_proof_is_402_without_a_question(
    shop: Shop, pair: Pair, path: str, value: str
) -> None:
    for answer in (shop.ask(path, payment_signature=value), shop.ask(path, x_payment=value)):
        assert asked_for(answer, DOORS[path])["error"].startswith("Invalid payment proof")
    assert shop.facilitator.verified == []


@pytest.mark.contract("auth.proof.header", "auth.proof.verified", "auth.proof.never-settled")
@pytest.mark.contract("material-change.no-charge")
@pytest.mark.parametrize("field", ["payment_signature", "x_payment"])
def test_a_proof_on_material_change_settles_and_grants_nothing(
    shop: Shop, pair: Pair, field: str
) -> None:
    shop.grant(PAYER, "feed", kind="wallet")
    before = shop.counts()
    for path in (comparison_of(*pair), FEED_NOW):
        for _ in range(2):  # an unsettled proof may be used again in its window
            answer = shop.pay(path, offer=FEED, field=field)
            assert answer.status == 200
            assert "payment-response" not in answer.headers
    assert (len(shop.facilitator.verified), shop.facilitator.asked) == (4, [])
    assert shop.counts() == before


@pytest.mark.contract("auth.proof.reuse")
@pytest.mark.parametrize("path", [MATERIAL_CHANGE, FEED_NOW])
@pytest.mark.parametrize("fields", [{}, {"idempotency_key": KEY}], ids=["without key", "with key"])
def test_a_proof_that_was_settled_is_no_identity(
    shop: Shop, path: str, fields: dict[str, str]
) -> None:
    shown = shop.shown(offer=FEED)
    assert shop.ask(FEED_ENTRY, payment_signature=shown, **fields).status == 200
    asked = len(shop.facilitator.verified)
    answer = shop.ask(path, payment_signature=shown, **fields)
    assert code_of(answer) == (401, "verified_feed_identity_required")
    assert len(shop.facilitator.verified) == asked


@pytest.mark.parametrize("path", [MATERIAL_CHANGE, FEED_NOW])
@pytest.mark.contract("errors.feed-entitlement-required")
def test_proof_identifies_a_wallet_with_feed_only_if_it_is_good(shop: Shop, path: str) -> None:
    unverified = (401, "verified_feed_identity_required")
    asked_for(shop.pay(path, offer=FEED), FEED)
    shop.grant(PAYER, "reserve", kind="wallet")
    asked_for(shop.pay(path, offer=FEED), FEED)
    assert code_of(shop.pay(path, offer=STANCE)) == unverified
    for value in ("", "junk"):
        assert code_of(shop.ask(path, payment_signature=value)) == unverified
    shop.facilitator.refuse()
    assert code_of(shop.pay(path, offer=FEED)) == unverified
    shop.facilitator.go_away()
    assert code_of(shop.pay(path, offer=FEED))[0] == 503


@pytest.mark.parametrize("path", [MATERIAL_CHANGE, FEED_NOW])
def test_a_proof_that_is_being_settled_is_no_identity_yet(shop: Shop, path: str) -> None:
    """Without Feed it would be 402, which invites to pay what is being paid."""
    statuses: list[int] = []

    async def meanwhile() -> None:
        shown = ("payment-signature", shop.shown(offer=FEED))
        statuses.append((await asked(shop.app, path, fields=[shown])).status)

    shop.facilitator.before_settling = meanwhile
    assert shop.pay(FEED_ENTRY, offer=FEED).status == 200
    assert (statuses, len(shop.facilitator.verified)) == ([503], 1)


def test_payment_signature_wins_over_x_payment(shop: Shop, pair: Pair) -> None:
    shop.grant(PAYER, "feed", kind="wallet")
    good, target = header(payload(proof(offer=FEED))), comparison_of(*pair)
    assert shop.ask(target, x_payment="junk", payment_signature=good).status == 200
    assert shop.ask(target, x_payment=good, payment_signature="junk").status == 401


def test_flood_of_proofs_makes_a_limited_number_of_facilitator_calls(
    shop: Shop, pair: Pair
) -> None:
    shop.facilitator.refuse()
    answers = [shop.pay(READ, number) for number in range(1, 60)]
    answers += [shop.pay(FEED_NOW, 60, offer=FEED), shop.pay(FEED_ENTRY, 61, offer=FEED)]
    assert len(shop.facilitator.verified) == 30
    limited = answers[30:]
    assert {answer.status for answer in limited} == {429, 503}
    assert code_of(answers[40]) == (429, "too_many_requests")
    assert int(answers[40].headers["retry-after"]) > 0
    shop.facilitator.on_verify = None
    assert shop.pay(READ, 99, peer="198.51.100.9").status == 200


@pytest.mark.parametrize("path", ENTITLED_PATHS)
def test_a_bearer_decides_alone_whatever_proof_comes_with_it(
    shop: Shop, pair: Pair, path: str
) -> None:
    target = comparison_of(*pair) if path == MATERIAL_CHANGE else path
    answer = shop.ask(target, authorization=f"Bearer {FEED_TOKEN}", payment_signature="junk")
    expected = 200 if path in {MATERIAL_CHANGE, FEED_NOW, READ} else 404  # of others none is issued
    assert answer.status == expected
    bad = shop.ask(target, authorization="Bearer nobody-knows-it", payment_signature="junk")
    assert code_of(bad) == (401, "verified_feed_identity_required")
    assert shop.facilitator.verified == []


def buy_at_once(shop: Shop, proofs: list[str], *, others_wait: bool) -> list[Answer]:
    """Show every proof before any is verified; the others may wait until one has bought Feed."""
    all_verifying, first_bought = asyncio.Event(), asyncio.Event()

    async def verifying() -> None:
        number = len(shop.facilitator.verified)
        if number == len(proofs):
            all_verifying.set()
        await all_verifying.wait()
        if others_wait and number > 1:
            await first_bought.wait()

    async def buy(shown: str) -> Answer:
        answer = await asked(shop.app, FEED_ENTRY, fields=[("payment-signature", shown)])
        if answer.status == 200:
            first_bought.set()
        return answer

    async def all_at_once() -> list[Answer]:
        return await asyncio.gather(*map(buy, proofs))

    shop.facilitator.before_verifying = verifying
    answers = asyncio.run(all_at_once())
    shop.facilitator.before_verifying = None
    return sorted(answers, key=lambda each: each.status)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("others_wait", [False, True])
def test_proofs_of_one_wallet_in_parallel_buy_feed_once(
    shop: Shop, count: int, others_wait: bool
) -> None:
    proofs = [shop.shown(number, FEED) for number in range(1, count + 1)]
    answers = buy_at_once(shop, proofs, others_wait=others_wait)
    assert [each.status for each in answers] == [200, *[503] * (count - 1)]
    for each in answers[1:]:
        assert code_of(each) == PENDING
        assert "don't send it again" in each.json()["message"]
        assert int(each.headers["retry-after"]) == FEED.max_timeout_seconds
    now = shop.clock()
    for seconds in (15, FEED.max_timeout_seconds):
        shop.clock.pass_seconds(seconds)
        again = sorted(shop.show(FEED_ENTRY, shown).status for shown in proofs)
        assert again == [409, *[503] * (count - 1)]
    assert len(shop.facilitator.asked) == 1
    assert sorted(shop.states()) == [*["failed"] * (count - 1), "settled"]
    assert shop.pay(FEED_ENTRY, 9, offer=FEED).status == 200
    assert shop.entitlements_of_payer() == [(now, now + 60 * DAY)]


@pytest.mark.parametrize("others_wait", [False, True])
def test_one_proof_for_feed_in_parallel_is_charged_once_and_never_called_another(
    shop: Shop, others_wait: bool
) -> None:
    answers = buy_at_once(shop, [shop.shown(1, FEED)] * 4, others_wait=others_wait)
    assert [each.status for each in answers] == [200, *[503] * 3]
    assert not any("don't send it again" in each.json()["message"] for each in answers[1:])
    assert (len(shop.facilitator.asked), shop.states()) == (1, ["settled"])


@pytest.mark.outcome(
    "The service dies after it claimed a payment and before settlement",
    "Nothing is charged. After two minutes, the wallet can pay again.",
)
def test_claim_left_by_a_killed_worker_does_not_lock_a_wallet_out(shop: Shop) -> None:
    asyncio.run(Journal(shop.database, shop.clock).claim(proof(offer=FEED), FEED_ENTRY))
    assert code_of(shop.pay(FEED_ENTRY, 2, offer=FEED)) == PENDING
    assert shop.pay(FEED_NOW, 2, offer=FEED).status == 401  # it can't be used any more
    assert shop.pay(FEED_NOW, 3, offer=FEED).status == 503
    shop.clock.pass_seconds(121)
    shop.reconcile()
    assert shop.pay(FEED_ENTRY, 3, offer=FEED).status == 200
    assert sorted(shop.states()) == ["failed", "released", "settled"]


def test_proof_with_a_nul_in_its_network_is_refused_like_any_other_network(shop: Shop) -> None:
    terms = payload()["accepted"]
    pair = [shop.shown(accepted=terms | {"network": each}) for each in ("a\0", "a")]
    for path in (READ, FEED_ENTRY, FEED_NOW):
        assert len({code_of(shop.show(path, shown)) for shown in pair}) == 1


@pytest.mark.outcome(
    "A payer sends a charged proof again while the history is unavailable",
    "503 says that it was charged. The same proof gets the stance later.",
)
def test_charged_proof_is_told_so_while_its_stance_cannot_be_read(shop: Shop, pair: Pair) -> None:
    bought = shop.pay(READ).json()
    shop.lose_history()
    answer = shop.pay(READ)
    assert code_of(answer) == PENDING
    assert answer.json()["message"].startswith("this payment was charged")
    shop.restore_history()
    assert shop.pay(READ).json() == bought


def test_a_proof_that_is_charged_elsewhere_meanwhile_is_not_asked_to_pay(
    shop: Shop, pair: Pair
) -> None:
    shop.grant(PAYER, "feed", kind="wallet")
    journal = Journal(shop.database, shop.clock)
    shown = proof(offer=FEED)

    async def charged_elsewhere() -> None:
        claimed = await journal.claim(shown, FEED_ENTRY)
        await journal.mark_settling(claimed.id)
        await journal.mark_settled(claimed.id, "0x" + "ab" * 32)
        raise InvalidProof("nonce_used")

    shop.facilitator.before_verifying = charged_elsewhere
    assert code_of(shop.pay(READ, offer=FEED)) == PENDING
    assert code_of(shop.pay(READ, offer=FEED)) == USED


def test_wallet_with_an_unresolved_purchase_is_not_charged_again(shop: Shop, pair: Pair) -> None:
    shop.facilitator.fall_silent(after_charging=True)
    assert code_of(shop.pay(FEED_ENTRY, 1, offer=FEED)) == PENDING
    shop.facilitator.on_settle = None
    assert code_of(shop.pay(FEED_ENTRY, 2, offer=FEED)) == PENDING
    for path, number in product((FEED_NOW, comparison_of(*pair)), (1, 3)):
        answer = shop.pay(path, number, offer=FEED)
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) > 0
    assert code_of(answer)[1] == "comparison_unavailable"
    assert len(shop.facilitator.charged) == 1


def test_replayed_proof_writes_a_bounded_number_of_log_lines(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    limit = RepeatLimit(lambda: 0.0)
    caplog.handler.addFilter(limit)
    shop.facilitator.fall_silent(after_charging=True)
    shown = shop.shown(offer=FEED)
    assert shop.show(FEED_ENTRY, shown).status == 503
    for _ in range(50):
        assert shop.show(FEED_NOW, shown).status == 503
    caplog.handler.removeFilter(limit)
    assert caplog.messages.count("entitled read unavailable") == 10
