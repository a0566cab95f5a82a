"""The body of a request for a key."""

import pytest

from barograph.errors import InvalidRequest
from barograph.keys.endpoints import INVALID_BODY, email_from_body


@pytest.mark.parametrize(
    "body", [b'{"email":"a@b.example"}', b' {\n"email" : "a@\\u0062.example" }\r\n']
)
def test_the_one_member_is_read(body: bytes) -> None:
    assert email_from_body(body) == "a@b.example"


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"email=a@b.example", b'"a@b.example"', b'["email"]'),
        *(b'[["email","a@b.example"]]', b"null", b"{}", b'{"email":null}', b'{"email":1}'),
        *(b'{"email":NaN}', b'{"email":true}', b'{"email":["a@b.example"]}'),
        *(b'{"email":{"email":"a@b.example"}}', b'{"Email":"a@b.example"}'),
        *(b'{"e-mail":"a@b.example"}', b'{"email":"a@b.example","name":"x"}'),
        b'{"email":"a@b.example","email":"a@b.example"}',
        b'{"email":"a@b.example","\\u0065mail":"c@d.example"}',
        *(b'{"email":"a@b.example"}{}', b'{"email":"a@b.example",}'),
        *(b'{"email":"a@b.example"', b"{'email':'a@b.example'}"),
        b'\xef\xbb\xbf{"email":"a@b.example"}',
        '{"email":"a@b.example"}'.encode("utf-16"),
        b'{"email":"\xff@b.example"}',
        b'{"email":"a\nb"}',
        b"[" * 4_096,
        b'{"email":' * 400,
    ],
)
def test_every_other_body_is_refused_with_the_form_that_is_needed(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        email_from_body(body)
    assert refusal.value.message == INVALID_BODY
