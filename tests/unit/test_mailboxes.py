"""Which e-mail addresses are taken, and whose they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.errors import InvalidRequest
from barograph.keys.email_address import INVALID, Address, parse_address

LABEL = "a" * 63
LONGEST_DOMAIN = ".".join([LABEL, LABEL, "a" * 57, "com"])


@pytest.mark.parametrize(
    ("text", "email", "mailbox"),
    [
        ("name@example.com", "name@example.com", "name@example.com"),
        ("First.Last@Example.COM", "First.Last@example.com", "first.last@example.com"),
        ("name+barograph@example.com", "name+barograph@example.com", "name@example.com"),
        ("Name+A+b@example.com", "Name+A+b@example.com", "name@example.com"),
        ("a+@example.com", "a+@example.com", "a@example.com"),
        ("o'neil_{x}!#$%&*/=?^`|~-@a-b.co", "o'neil_{x}!#$%&*/=?^`|~-@a-b.co", None),
        ("J.o.Hn+x@Gmail.com", "J.o.Hn+x@gmail.com", "john@gmail.com"),
        ("jo.hn@GoogleMail.com", "jo.hn@googlemail.com", "john@gmail.com"),
        ("jo.hn@mail.gmail.com", "jo.hn@mail.gmail.com", None),
        ("1@2.example", "1@2.example", None),
        ("name@xn--bcher-kva.example", "name@xn--bcher-kva.example", None),
        ("a" * 64 + "@example.com", "a" * 64 + "@example.com", None),
        ("a" * 65 + "@example.com", None, None),
        (f"a@{LABEL}.com", f"a@{LABEL}.com", None),
        (f"a@{LABEL}a.com", None, None),
        (f"{'a' * 64}@{LONGEST_DOMAIN}", f"{'a' * 64}@{LONGEST_DOMAIN}", None),
        (f"{'a' * 64}@a{LONGEST_DOMAIN}", None, None),
    ],
)
def test_an_address_is_taken_up_to_its_limits(
    text: str, email: str | None, mailbox: str | None
) -> None:
    if email is None:
        with pytest.raises(InvalidRequest):
            parse_address(text)
    else:
        assert parse_address(text) == Address(email, mailbox or email)


@pytest.mark.parametrize(
    "text",
    [
        *("", "name", "@example.com", "name@", "name@localhost", "name@example"),
        *("name@@example.com", "a@b@example.com", ".name@example.com", "+alice@example.com"),
        *("++a@example.com", "+@example.com", "name.@example.com", "na..me@example.com"),
        *("name@.example.com", "name@example.com.", "name@example..com", "name@-example.com"),
        *("name@example-.com", "name@exam_ple.com", "name@127.0.0.1", "name@[127.0.0.1]"),
        *("name@[IPv6:2001:db8::1]", '"name"@example.com', '"na me"@example.com'),
        *("na me@example.com", " name@example.com", "name@example.com "),
        *("name(comment)@example.com", "name@example.com(comment)"),
        *("Name <name@example.com>", "<name@example.com>", "@relay.example:name@example.com"),
        *("relay!name%x@example", "name@example.com,other@example.com"),
        *("name@example.com;other@example.com", "name@example.com\n"),
        *("name@example.com\r\nBcc: other@example.com", "name\r\n@example.com"),
        *("name@example.com\0", "na\tme@example.com", "na\x7fme@example.com"),
        *("nämé@example.com", "name@exämple.com", "name\uff20example.com"),
        *("name@example。com", "name\u2028@example.com", "\ud800@example.com"),
        "a" * 100_000,
        "a." * 100_000 + "a@example.com",
    ],
)
def test_what_is_no_plain_address_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse_address(text)
    assert refusal.value.message == INVALID


PIECES = st.sampled_from(
    ["a", "B", "+t", ".", "@", "example", ".com", "\r", "\n", "\0", " ", '"', "<", ">", ",", "é"]
)


@given(st.one_of(st.text(), st.lists(PIECES).map("".join)), st.sampled_from(["", "@a.example"]))
def test_no_accepted_address_can_break_out_of_a_mail_header(text: str, ending: str) -> None:
    try:
        email, mailbox = parse_address(text + ending)
    except InvalidRequest:
        return
    assert parse_address(email) == (email, mailbox)
    assert parse_address(mailbox).mailbox == mailbox
    for accepted in (email, mailbox):
        assert accepted.isascii()
        assert accepted.isprintable()
        assert not set(accepted) & set(' \r\n\0\t"<>,;:()[]\\')
        assert accepted.count("@") == 1
        assert len(accepted) <= 254
