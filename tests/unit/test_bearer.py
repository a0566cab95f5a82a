"""The bearer token of a request."""

import pytest

from barograph.identity.provider import MAX_TOKEN, IdentityRefused, bearer_token


@pytest.mark.parametrize(
    "value",
    [
        b"Bearer abc.def.ghi",
        b"bearer abc.def.ghi",
        b"BEARER   abc.def.ghi",
        b" Bearer abc.def.ghi\t",
    ],
)
def test_the_header_and_its_scheme_are_found_in_any_case(value: bytes) -> None:
    for name in (b"authorization", b"Authorization"):
        assert bearer_token([(b"accept", b"*/*"), (name, value)]) == "abc.def.ghi"


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"Bearer", b"Bearer ", b"Bearer \t ", b"Basic dXNlcjpwYXNz", b"BearerX abc"),
        *(b"abc", b"DPoP x"),
    ],
)
def test_another_scheme_an_empty_bearer_and_other_headers_are_no_credential(value: bytes) -> None:
    others = (b"cookie", b"x-api-key", b"proxy-authorization")
    fields = [(name, b"Bearer x") for name in others]
    assert bearer_token([*fields, (b"authorization", value)]) is None
    assert bearer_token(fields) is None


@pytest.mark.parametrize("second", [b"Bearer x", b"Basic x", b""])
def test_two_authorization_headers_are_refused(second: bytes) -> None:
    with pytest.raises(IdentityRefused):
        bearer_token([(b"authorization", b"Bearer x"), (b"Authorization", second)])


@pytest.mark.parametrize(
    "text",
    [b"a b", b"a\tb", b"a\x00b", b"a\x7fb", b"a\r\nb", "ä".encode(), b"\xff", b"x, Bearer y"],
)
def test_what_cannot_be_a_token_is_refused_without_being_repeated(text: bytes) -> None:
    with pytest.raises(IdentityRefused) as caught:
        bearer_token([(b"authorization", b"Bearer " + text)])
    assert text.decode("latin-1") not in str(caught.value)


def test_a_token_may_have_eight_kibibytes_and_no_more() -> None:
    longest = b"x" * MAX_TOKEN
    assert bearer_token([(b"authorization", b"Bearer " + longest)]) == longest.decode()
    for longer in (longest + b"x", b"x" * 1_000_000):
        with pytest.raises(IdentityRefused):
            bearer_token([(b"authorization", b"Bearer " + longer)])
