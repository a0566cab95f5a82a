"""The seven parameters of a comparison, in all their right and wrong forms."""

from collections.abc import Iterable
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barograph.history.records import KINDS
from barograph.material_change.query import (
    MAX_QUERY_BYTES,
    InvalidComparisonReference,
    Pair,
    Reference,
    parse_pair,
)

BEFORE, AFTER = "ab" * 32, "0123456789abcdef" * 4
LEG = "rates-desk:2026-11-05T00:00:00.000Z"
GIVEN = {
    "kind": "rates-desk",
    "before_leg": LEG,
    "before_revision": "2",
    "before_digest": BEFORE,
    "after_leg": "rates-desk:2026-11-06T00:00:00.000Z",
    "after_revision": "1",
    "after_digest": AFTER,
}
LEGS = ("before_leg", "after_leg")
REVISIONS = ("before_revision", "after_revision")
DIGESTS = ("before_digest", "after_digest")


def query(pairs: Iterable[tuple[str, str]] = GIVEN.items(), /, **changes: str) -> bytes:
    return urlencode([(name, changes.get(name, value)) for name, value in pairs]).encode()


def raw(name: str, value: bytes) -> bytes:
    """The usual query with one value as these very bytes."""
    others = [(each, text) for each, text in GIVEN.items() if each != name]
    return query(others) + b"&" + name.encode() + b"=" + value


def refusal(query_string: bytes) -> str:
    with pytest.raises(InvalidComparisonReference) as refused:
        parse_pair(query_string)
    return refused.value.message


@pytest.mark.contract(
    "material-change.query.exactly-seven",
    "material-change.query.before-leg",
    "material-change.query.before-revision",
    "material-change.query.before-digest",
    "material-change.query.after-leg",
    "material-change.query.after-revision",
    "material-change.query.after-digest",
)
def test_the_seven_parameters_name_a_pair() -> None:
    assert parse_pair(query()) == Pair(
        kind="rates-desk",
        before=Reference(LEG, 2, BEFORE),
        after=Reference("rates-desk:2026-11-06T00:00:00.000Z", 1, AFTER),
    )


def test_names_and_values_may_be_percent_encoded_in_every_byte() -> None:
    pieces = [f"{_every_byte(name)}={_every_byte(value)}" for name, value in GIVEN.items()]

    assert parse_pair("&".join(pieces).encode()) == parse_pair(query())
    assert parse_pair(query().replace(b"kind", b"%6Bin%64")) == parse_pair(query())


@pytest.mark.contract("material-change.query.kind", "errors.invalid-comparison-reference")
@pytest.mark.parametrize(
    "kind",
    ["", "rates", "Rates-desk", "RATES-DESK", " rates-desk", "rates-desk ", "rates-desk\n", "null"],
)
def test_another_kind_is_refused_with_the_list(kind: str) -> None:
    with pytest.raises(InvalidComparisonReference) as refused:
        parse_pair(query(kind=kind))

    assert refused.value.message == (
        "kind must be one of btc-etf-stance, rates-desk, funding-regime-stance"
    )
    assert (refused.value.status, refused.value.code) == (400, "invalid_comparison_reference")


@pytest.mark.contract("material-change.query.400", "errors.invalid-comparison-reference")
@pytest.mark.parametrize("name", GIVEN)
def test_a_missing_parameter_is_named(name: str) -> None:
    others = ((key, value) for key, value in GIVEN.items() if key != name)

    assert refusal(query(others)) == f"{name} is missing"
    assert refusal(b"") == "kind is missing"


@pytest.mark.contract("material-change.query.400")
@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("how", ["same", "empty", "bare", "encoded name"])
def test_a_repeated_parameter_is_refused_also_with_the_same_value(name: str, how: str) -> None:
    again = {
        "same": f"{name}={quote_plus(GIVEN[name])}",
        "empty": f"{name}=",
        "bare": name,
        "encoded name": f"%{ord(name[0]):02X}{name[1:]}={quote_plus(GIVEN[name])}",
    }[how]

    assert refusal(query() + b"&" + again.encode()) == f"{name} must be given once"
    assert refusal(again.encode() + b"&" + query()) == f"{name} must be given once"


@pytest.mark.contract("material-change.query.400")
@pytest.mark.parametrize("name", GIVEN)
def test_an_empty_value_is_refused(name: str) -> None:
    assert refusal(raw(name, b"")).startswith(f"{name} must ")
    assert refusal(query(**{name: ""}).replace(f"{name}=".encode(), name.encode())).startswith(
        f"{name} must "
    )


@pytest.mark.contract("material-change.query.exactly-seven", "material-change.query.400")
@pytest.mark.parametrize(
    "extra",
    [
        *(b"limit=1", b"email=someone%40example.org", b"Kind=rates-desk"),
        *(b"kind%20=rates-desk", b"+kind=rates-desk", b"kind%00=rates-desk"),
        *(b"kind[]=rates-desk", b"before_leg_id=x", b"=x", b"=", b"x", b""),
    ],
)
def test_an_eighth_parameter_is_refused_and_not_repeated(extra: bytes) -> None:
    said = "the parameters are " + ", ".join(GIVEN)

    assert refusal(query() + b"&" + extra) == said
    assert refusal(extra + b"&" + query()) == said
    assert refusal(query().replace(b"&after_leg", b"&" + extra + b"&after_leg")) == said


def test_a_semicolon_separates_nothing_and_a_plus_is_a_space_as_in_forms() -> None:
    assert refusal(query().replace(b"&", b";")).endswith("is missing")
    assert parse_pair(raw("before_leg", b"a+b%2Bc")).before.leg_id == "a b+c"


@pytest.mark.contract("material-change.query.leg-preserved")
@pytest.mark.parametrize("name", LEGS)
@pytest.mark.parametrize(
    "leg_id",
    [
        *("rates-desk:2026-11-05t00:00:00.000z", "RATES-DESK:2026-11-05T00:00:00.123456Z"),
        *("rates-desk:2026-11-05T00:00:00+00:00", " x ", "0", "a=b&c=d%20+", "a;after_leg=b"),
        *("é", "e\u0301", "\U0001f4c8", "\ufeff"),
    ],
)
def test_a_leg_is_taken_exactly_as_it_was_given(name: str, leg_id: str) -> None:
    pair = parse_pair(query(**{name: leg_id}))

    assert (pair.before if name == "before_leg" else pair.after).leg_id == leg_id


@pytest.mark.parametrize("name", LEGS)
@pytest.mark.parametrize("leg_id", ["x\n", "\nx", "x\r\n", "\x00", "x\ty", "\x7f"])
def test_a_leg_with_a_control_character_is_none(name: str, leg_id: str) -> None:
    assert name in refusal(query(**{name: leg_id}))


@pytest.mark.contract("limits.leg-id", "material-change.query.before-leg")
@pytest.mark.parametrize("letter", ["x", "é", "水", "\U0001f4c8", "\u0301"])
@pytest.mark.parametrize("name", LEGS)
def test_a_leg_has_up_to_200_characters_of_any_size(name: str, letter: str) -> None:
    assert parse_pair(query(**{name: letter}))
    assert parse_pair(query(**{name: 200 * letter}))
    assert refusal(query(**{name: 201 * letter})).startswith(f"{name} must have 1 to 200 char")


def test_the_longest_valid_query_is_read() -> None:
    longest = {**GIVEN, **dict.fromkeys(LEGS, 200 * "\U0001f4c8")}
    longest |= dict.fromkeys(REVISIONS, "2147483647") | {"kind": "funding-regime-stance"}
    pieces = ["=".join(_every_byte(part) for part in pair) for pair in longest.items()]

    assert parse_pair("&".join(pieces).encode()).before.leg_id == longest["before_leg"]


def _every_byte(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


@pytest.mark.parametrize(
    "query_string",
    [query() + b"&" * MAX_QUERY_BYTES, query(before_leg="x" * MAX_QUERY_BYTES), b"%" * 1_000_000],
)
def test_a_query_longer_than_any_valid_one_is_refused_unread(query_string: bytes) -> None:
    assert refusal(query_string) == "the query is longer than a valid one can be"


@pytest.mark.contract("limits.revision", "material-change.query.before-revision")
@pytest.mark.contract("material-change.query.after-revision")
@pytest.mark.parametrize("name", REVISIONS)
@pytest.mark.parametrize(
    "revision",
    [
        *("0", "00", "01", "-1", "+1", "-0", " 1", "1 ", "1\n", "\t1", "1.0", "1e3", "1_000"),
        *("1,000", "0x1", "one", "null", "1\x00", "2147483648", "9999999999", "10000000000"),
        *("4294967297", "1" * 1_000, "²", "\u0661", "\uff11", "1\u0660"),
    ],
)
def test_a_revision_is_a_positive_number_in_decimal_digits(name: str, revision: str) -> None:
    for taken in (1, 9, 10, 2_147_483_647):
        pair = parse_pair(query(**{name: str(taken)}))
        assert (pair.before if name == "before_revision" else pair.after).revision == taken
    assert refusal(query(**{name: revision})) == (
        f"{name} must be a number from 1 to 2147483647 in decimal digits, without a sign or a "
        "leading zero"
    )


@pytest.mark.contract("material-change.query.before-digest", "material-change.query.after-digest")
@pytest.mark.parametrize("name", DIGESTS)
@pytest.mark.parametrize(
    "digest",
    [
        *(BEFORE.upper(), BEFORE[:-1], BEFORE + "a", BEFORE + "\n", " " + BEFORE[1:], "null"),
        *("g" * 64, "sha256:" + BEFORE, "0x" + BEFORE[2:], "\u0661" * 64, BEFORE[:-1] + "\uff41"),
    ],
)
def test_a_digest_is_64_lower_case_hex_digits(name: str, digest: str) -> None:
    assert refusal(query(**{name: digest})) == f"{name} must be 64 lower-case hex digits"


@pytest.mark.contract("material-change.query.400")
@pytest.mark.parametrize(
    "value",
    [
        *(b"%ff", b"\xff", b"%C3", b"%c3%28", b"%ed%a0%80", b"%f4%90%80%80", b"%c0%80"),
        *(b"%", b"%4", b"%zz", b"x%u0041", b"%%41", b"%+41"),
    ],
)
def test_what_is_not_percent_encoded_utf_8_is_refused(value: bytes) -> None:
    for name in GIVEN:
        assert refusal(raw(name, value)) == f"{name} must be percent-encoded UTF-8"
    assert refusal(value + b"=x&" + query()) == "every name must be percent-encoded UTF-8"


@pytest.mark.parametrize("name", GIVEN)
def test_a_refusal_does_not_repeat_what_was_sent(name: str) -> None:
    for sent in ("<script>\u2603", "secret" * 60):
        assert sent not in refusal(query(**{name: sent}) + b"&kind=" + quote(sent).encode())


_PIECES = st.sampled_from(
    [
        *query().split(b"&"),
        *(b"&", b"=", b"%", b"%00", b"+", b";", b"kind", b"before_leg", b"after_revision=0"),
        b"\xff",
    ]
)


@given(st.binary(max_size=300) | st.lists(_PIECES, max_size=14).map(b"&".join))
@example(query())
def test_any_bytes_are_a_pair_or_a_refusal(query_string: bytes) -> None:
    try:
        pair = parse_pair(query_string)
    except InvalidComparisonReference as refused:
        assert refused.message.isascii()  # noqa: PT017
    else:
        assert pair.kind in KINDS


@given(
    kind=st.sampled_from(KINDS),
    legs=st.tuples(
        *[st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=200)] * 2
    ),
    revisions=st.tuples(*[st.integers(1, 2_147_483_647)] * 2),
    digests=st.tuples(*[st.binary(min_size=32, max_size=32).map(bytes.hex)] * 2),
    order=st.permutations(list(GIVEN)),
)
def test_whatever_a_form_writes_is_read_back(
    kind: str,
    legs: tuple[str, str],
    revisions: tuple[int, int],
    digests: tuple[str, str],
    order: list[str],
) -> None:
    before, after = (Reference(*each) for each in zip(legs, revisions, digests, strict=True))
    sent = {"kind": kind}
    for side, reference in (("before", before), ("after", after)):
        sent |= {
            f"{side}_leg": reference.leg_id,
            f"{side}_revision": str(reference.revision),
            f"{side}_digest": reference.history_digest,
        }

    assert parse_pair(urlencode([(name, sent[name]) for name in order]).encode()) == (
        kind,
        before,
        after,
    )
