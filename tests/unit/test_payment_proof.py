"""A payment proof is exactly ours, or it is none."""

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.payments.proof import (
    CURVE_ORDER,
    MAX_PROOF,
    MAX_SIGNATURE,
    MIN_LEFT_SECONDS,
    SKEW_SECONDS,
    checksummed,
    decode_proof,
    match_offer,
    parse_proof,
    proof_header,
    require_timely,
    wire_payload,
    wire_requirements,
)
from barograph.payments.records import InvalidProof, PaymentKey
from support.clock import START
from support.payments import FEED, NOW_SECONDS, PAYER, SIGNATURE, STANCE, header, payload, proof

OFFERS = (STANCE, FEED)
R, S = SIGNATURE[2:66], SIGNATURE[66:130]

Change = Callable[[dict[str, Any]], object]


def reason(value: str) -> str:
    """Why it is no proof; nothing of what was sent may be repeated."""
    with pytest.raises(InvalidProof) as caught:
        parse_proof(value, OFFERS, START)
    assert caught.value.__cause__ is None
    return str(caught.value)


def refused(change: Change) -> str:
    content = payload()
    change(content)
    return reason(header(content))


def authorized(**members: object) -> str:
    return refused(lambda content: content["payload"]["authorization"].update(members))


def accepted(**members: object) -> str:
    return refused(lambda content: content["accepted"].update(members))


def signed(signature: object) -> str:
    return refused(lambda content: content["payload"].update(signature=signature))


def test_what_a_payer_sends_is_read_into_our_own_terms_if_they_are_offered() -> None:
    for offer in OFFERS:
        sent = header(payload(proof(7, offer=offer)))
        read = parse_proof(sent, OFFERS, START)
        assert read == proof(7, offer=offer)
        assert read.requirements is offer
        assert read.key == PaymentKey(STANCE.network, STANCE.asset, PAYER, f"0x{7:064x}")
        for offered in ([other for other in OFFERS if other is not offer], []):
            with pytest.raises(InvalidProof, match=r"^wrong_terms$"):
                parse_proof(sent, offered, START)


def test_which_payment_a_proof_is_can_be_read_whatever_is_asked_for_now() -> None:
    content = payload(proof(7))
    content["accepted"] |= {"amount": "1", "payTo": PAYER, "maxTimeoutSeconds": None}
    content["payload"]["authorization"]["value"] = "1"
    shown = decode_proof(header(content))
    assert (shown.key, shown.signature) == (proof(7).key, SIGNATURE)
    with pytest.raises(InvalidProof, match=r"^wrong_terms$"):
        match_offer(shown, OFFERS)


def test_what_is_no_proof_at_all_is_none_on_any_terms() -> None:
    for change in ({"x402Version": 1}, {"accepted": None}, {"payload": None}):
        with pytest.raises(InvalidProof):
            decode_proof(header(payload() | change))
    for name in ("network", "asset"):
        for value in (None, 7, [STANCE.asset]):
            content = payload()
            content["accepted"][name] = value
            with pytest.raises(InvalidProof, match=r"^wrong_terms$"):
                decode_proof(header(content))


def test_addresses_nonce_and_signature_may_be_written_in_either_case() -> None:
    content = payload()
    for part, names in (
        (content["accepted"], ("asset", "payTo")),
        (content["payload"]["authorization"], ("from", "to", "nonce")),
        (content["payload"], ("signature",)),
    ):
        for name in names:
            part[name] = "0x" + part[name][2:].upper()
    assert parse_proof(header(content), OFFERS, START) == proof()


def test_what_else_a_payer_repeats_is_not_looked_at() -> None:
    content = payload() | {"resource": {"url": "x"}, "extensions": {"a": [1, {"b": None}]}}
    assert parse_proof(header(content), OFFERS, START) == proof()
    for extra in ({"name": "USDC"}, {}):
        content["accepted"]["extra"] = extra
        assert parse_proof(header(content), OFFERS, START) == proof()
    del content["accepted"]["extra"]
    assert parse_proof(header(content), OFFERS, START) == proof()


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", "=", "====", "e30", "e30==", "e31=", " e30=", "e30=\n", "e3 0="),
        *("e30=e30=", "e3$0=", "e3-_", "e30=,e30=", "é30=", "٣30=", "\ud8000=", "ey\x00A"),
    ],
)
def test_only_one_spelling_of_base64_is_read(value: str) -> None:
    assert reason(value) in {"not_base64", "not_json"}


def test_junk_inside_or_behind_a_proof_is_not_skipped() -> None:
    good = header(payload())
    for junk in ("\n", " ", "-", "=", "\x00", "é", "!"):
        for sent in (good[:40] + junk + good[40:], good + junk, junk + good):
            assert reason(sent) == "not_base64"
    for behind in (b" {}", b"\x00", b"x"):
        assert reason(header(json.dumps(payload()).encode() + behind)) == "not_json"


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b'"x"', b"2", b"null", b"{", b'{"x402Version":2,"x402Version":2}'),
        *(b'{"x402Version":NaN}', b'{"x402Version":2,"a":Infinity}', b'{"a":"\xff"}'),
        *(b'\xef\xbb\xbf{"a":1}', b'{"a":' * 17 + b"1" + b"}" * 17),
        b'{"a":' + b"[" * 1400 + b"]" * 1400 + b"}",
    ],
)
def test_json_that_parsers_could_read_differently_is_refused(body: bytes) -> None:
    assert reason(header(body)) in {"not_json", "not_base64"}


def test_a_member_that_comes_twice_is_refused_wherever_it_is() -> None:
    text = json.dumps(payload())
    for name in ("x402Version", "accepted", "amount", "payTo", "to", "value", "nonce", "signature"):
        doubled = text.replace(f'"{name}":', f'"{name}": "0", "{name}":', 1)
        assert doubled != text
        assert reason(header(doubled.encode())) == "not_json"


def test_a_proof_has_at_most_four_kibibytes() -> None:
    content = payload()
    room = MAX_PROOF // 4 * 3 - len(json.dumps(content | {"pad": ""}))
    assert len(header(content | {"pad": "x" * room})) == MAX_PROOF
    assert parse_proof(header(content | {"pad": "x" * room}), OFFERS, START) == proof()
    assert reason(header(content | {"pad": "x" * (room + 1)})) == "too_long"
    assert reason("A" * 1_000_000) == "too_long"


@pytest.mark.parametrize("version", [1, 3, 0, -2, "2", 2.0, True, None, [2], "two", 2**70])
def test_only_the_integer_2_is_version_2(version: object) -> None:
    assert refused(lambda content: content.update(x402Version=version)) == "wrong_version"


def test_a_payload_of_version_1_is_refused_in_the_header_of_version_2() -> None:
    content = payload()
    inner = content["payload"]
    old = {"x402Version": 1, "scheme": "exact", "network": "base-sepolia", "payload": inner}
    assert reason(header(old)) == "wrong_version"
    assert reason(header(old | {"x402Version": 2})) == "wrong_terms"
    assert refused(lambda content: content.pop("x402Version")) == "wrong_version"


OTHER_TERMS: dict[str, list[object]] = {
    "scheme": ["upto", None],
    "network": ["eip155:8453", "base-sepolia"],
    "amount": ["249999", "250001", "0250000", "250000 ", 250000, ["250000"]],
    "asset": [PAYER, STANCE.asset[2:], "0X" + STANCE.asset[2:], STANCE.asset + "\n", None],
    "payTo": [PAYER, {"0x": 1}],
    "maxTimeoutSeconds": [61, 60.0, "60", True],
    "extra": [
        {"name": "USD Coin", "version": "2"},
        {"name": "USDC", "version": 2},
        {"name": "USDC", "version": "2", "assetTransferMethod": "permit2"},
        *({"name": ["USDC"]}, "USDC", None),
    ],
    "maxAmountRequired": ["250000"],
    "outputSchema": [{}],
}


@pytest.mark.parametrize("name", OTHER_TERMS)
def test_other_terms_than_ours_are_refused(name: str) -> None:
    for value in OTHER_TERMS[name]:
        assert accepted(**{name: value}) == "wrong_terms", value


@pytest.mark.parametrize("name", ["scheme", "network", "amount", "asset", "payTo"])
def test_terms_with_a_hole_are_refused(name: str) -> None:
    assert refused(lambda content: content["accepted"].pop(name)) == "wrong_terms"
    assert refused(lambda content: content.pop("accepted")) == "wrong_terms"
    assert refused(lambda content: content.update(accepted=[content["accepted"]])) == "wrong_terms"


def test_the_authorization_must_pay_us_exactly_the_price() -> None:
    assert authorized(to=PAYER) == "wrong_recipient"
    assert authorized(to=STANCE.asset) == "wrong_recipient"
    assert authorized(value="249999") == "wrong_amount"
    assert authorized(value="250001") == "wrong_amount"
    assert authorized(value=str(FEED.amount)) == "wrong_amount"
    assert authorized(value="0") == "wrong_amount"


NO_NUMBERS = [
    *("", " ", " 250000", "250000 ", "250000\n", "+250000", "-250000", "0250000", "00"),
    *("250_000", "250,000", "250000.0", "25e4", "0x3d090", "٢٥٠٠٠٠", "²", "9" * 79),
    *("9" * 2000, 250000, 250000.0, True, None, ["250000"], {"value": "250000"}),
]


NO_ADDRESSES = [
    *("", PAYER[:-1], PAYER + "0", PAYER[2:], "0X" + PAYER[2:], PAYER[:-1] + "g"),
    *(PAYER[:-1] + "٣", " " + PAYER, PAYER + "\n", "payer.eth", None, 12, [PAYER]),
]
NO_NONCES = ["", "0x", "0x" + "1" * 63, "0x" + "1" * 65, "1" * 64, "0x" + "g" * 64, 1, None]
MALFORMED: dict[str, list[Any]] = {
    **dict.fromkeys(("value", "validAfter", "validBefore"), NO_NUMBERS),
    "from": [*NO_ADDRESSES, "0x" + "0" * 40],
    "to": NO_ADDRESSES,
    "nonce": NO_NONCES,
}
"""Numbers are decimal digits, addresses 20 bytes in hex and not zero, a nonce 32 bytes."""


@pytest.mark.parametrize("name", payload()["payload"]["authorization"])
def test_a_malformed_or_missing_member_of_the_authorization_is_refused(name: str) -> None:
    for value in MALFORMED[name]:
        assert authorized(**{name: value}) == "malformed_authorization", value
    holed = refused(lambda content: content["payload"]["authorization"].pop(name))
    assert holed == "malformed_authorization"


def test_the_payload_has_exactly_its_members() -> None:
    permit = {"permit2Authorization": {}, "signature": SIGNATURE}
    others: list[object] = [None, [], "x", 1, permit]
    for other in others:
        assert reason(header(payload() | {"payload": other})) == "malformed_payload"
    assert refused(lambda content: content["payload"].pop("signature")) == "malformed_payload"
    assert refused(lambda content: content["payload"].update(more=1)) == "malformed_payload"
    assert authorized(extra="x") == "malformed_authorization"
    assert refused(lambda content: content["payload"].update(authorization=[])) == (
        "malformed_authorization"
    )


def word(number: int) -> str:
    return f"{number:064x}"


@pytest.mark.parametrize(
    "signature",
    [
        *("", "0x", SIGNATURE[2:], SIGNATURE[:-1], SIGNATURE[:-2], SIGNATURE + "0"),
        *(SIGNATURE + "00" * (MAX_SIGNATURE - 64), SIGNATURE + "\n", SIGNATURE[:-1] + "g"),
        *("0x" + "0" * 130, "0x" + word(0) + S + "1b", "0x" + R + word(0) + "1b"),
        *("0x" + word(CURVE_ORDER) + S + "1b", "0x" + "f" * 64 + S + "1b"),
        *("0x" + R + word(CURVE_ORDER // 2 + 1) + "1b", "0x" + R + word(CURVE_ORDER - 1) + "1b"),
        *("0x" + R + word(CURVE_ORDER) + "1b", "0x" + R + S + "02", "0x" + R + S + "1a"),
        *("0x" + R + S + "1d", "0x" + R + S + "ff", None, 27, [SIGNATURE]),
    ],
)
def test_a_signature_that_no_wallet_makes_is_refused(signature: object) -> None:
    assert signed(signature) == "malformed_signature"


@pytest.mark.parametrize(("last", "kept"), [("00", "1b"), ("01", "1c"), ("1b", "1b"), ("1C", "1c")])
def test_the_two_ways_to_end_a_signature_are_one(last: str, kept: str) -> None:
    largest = word(CURVE_ORDER // 2)
    content = payload()
    content["payload"]["signature"] = "0x" + R + largest + last
    found = parse_proof(header(content), OFFERS, START)
    assert found.signature == "0x" + R + largest + kept


@pytest.mark.parametrize(
    ("after", "before", "expected"),
    [
        *((0, 60, None), (NOW_SECONDS, 60, None), (0, 60 + SKEW_SECONDS, None)),
        (0, MIN_LEFT_SECONDS, None),
        *((after, 60, "not_yet_valid") for after in (NOW_SECONDS + 1, 2 * NOW_SECONDS, 10**77)),
        *((0, before, "expired") for before in (-NOW_SECONDS, -1, 0)),
        (NOW_SECONDS, 0, "expired"),
        *((0, before, "expires_too_soon") for before in (1, MIN_LEFT_SECONDS - 1)),
        *((0, before, "valid_too_long") for before in (61 + SKEW_SECONDS, 10**9, 10**77)),
    ],
)
def test_a_proof_is_valid_now_and_not_long(after: int, before: int, expected: str | None) -> None:
    content = payload()
    times = {"validAfter": str(after), "validBefore": str(NOW_SECONDS + before)}
    content["payload"]["authorization"].update(times)
    sent = header(content)
    if expected is None:
        assert parse_proof(sent, OFFERS, START).valid_after == after
    else:
        assert reason(sent) == expected
        assert match_offer(decode_proof(sent), OFFERS).valid_after == after


def test_a_proof_ends_at_the_millisecond() -> None:
    end = proof().valid_before * 1000
    last = end - MIN_LEFT_SECONDS * 1000
    require_timely(proof(), last)
    for now, expected in (
        *((last + 1, "expires_too_soon"), (end - 1, "expires_too_soon"), (end, "expired")),
    ):
        with pytest.raises(InvalidProof, match=f"^{expected}$"):
            require_timely(proof(), now)


@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_a_proof_or_are_refused(body: bytes) -> None:
    for sent in (body.decode("latin-1"), b64encode(body).decode()):
        with pytest.raises(InvalidProof):
            parse_proof(sent, OFFERS, START)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5
)
PLACES = [
    ("x402Version",),
    ("accepted",),
    *(("accepted", name) for name in payload()["accepted"]),
    ("payload",),
    ("payload", "signature"),
    ("payload", "authorization"),
    *(("payload", "authorization", name) for name in payload()["payload"]["authorization"]),
]


@given(st.sampled_from(PLACES), JSON)
def test_any_value_anywhere_is_a_proof_or_refused(place: tuple[str, ...], value: object) -> None:
    content = payload()
    target = content
    for name in place[:-1]:
        target = target[name]
    target[place[-1]] = value
    try:
        found = parse_proof(header(content), OFFERS, START)
    except InvalidProof:
        return
    assert found.requirements is STANCE


def test_the_current_header_wins_over_the_older_one() -> None:
    old, new = (b"X-Payment", b"old"), (b"Payment-Signature", b" new\t")
    assert proof_header([(b"accept", b"*/*"), (b"authorization", b"Bearer x")]) is None
    assert proof_header([old]) == "old"
    assert proof_header([old, new]) == proof_header([new, old, old]) == "new"
    assert proof_header([(b"payment-signature", b"\xff")]) == "\xff"


@pytest.mark.parametrize(
    "headers",
    [
        *([(b"payment-signature", b"")], [(b"payment-signature", b" \t")], [(b"x-payment", b"")]),
        [(b"payment-signature", b""), (b"x-payment", b"x")],
        [(b"payment-signature", b"x"), (b"PAYMENT-SIGNATURE", b"x")],
        [(b"x-payment", b"x"), (b"X-PAYMENT", b"y")],
    ],
)
def test_an_empty_or_repeated_header_is_refused(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(InvalidProof):
        proof_header(headers)


@pytest.mark.parametrize(
    "address",
    [
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
        "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
        "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
        "0x52908400098527886E0F7030069857D2E4169EE7",
        "0xde709f2102306220921060314715629080e2fb77",
    ],
)
def test_addresses_get_the_capitals_of_the_standard(address: str) -> None:
    assert checksummed(address.lower()) == address


def test_what_is_forwarded_is_made_of_our_own_fields() -> None:
    content = payload() | {"extensions": {"bazaar": {}}, "resource": {"url": "x"}}
    content["payload"]["signature"] = SIGNATURE[:-2].upper().replace("0X", "0x") + "00"
    found = parse_proof(header(content), OFFERS, START)
    assert wire_payload(found) == {
        "x402Version": 2,
        "accepted": {
            "scheme": "exact",
            "network": "eip155:84532",
            "amount": "250000",
            "asset": checksummed(STANCE.asset),
            "payTo": checksummed(STANCE.pay_to),
            "maxTimeoutSeconds": 60,
            "extra": {"name": "USDC", "version": "2"},
        },
        "payload": {
            "signature": SIGNATURE,
            "authorization": {
                "from": checksummed(PAYER),
                "to": checksummed(STANCE.pay_to),
                "value": "250000",
                "validAfter": "0",
                "validBefore": str(NOW_SECONDS + 60),
                "nonce": "0x" + "0" * 63 + "1",
            },
        },
    }
    assert wire_payload(found)["accepted"] == wire_requirements(STANCE)
