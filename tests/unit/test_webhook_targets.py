"""Webhooks go to public https addresses only, whatever form an address has."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis.strategies import ip_addresses

from barograph.errors import InvalidRequest
from barograph.webhooks.targets import Target, check_target, is_allowed, is_public, parse_target


@pytest.mark.parametrize(
    "text",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0"),
        *("100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
        *("::1", "::", "fe80::1", "fc00::1", "ff02::1", "2001:db8::1", "::7f00:1", "100::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::7f00:1"),
        *("192.0.0.192", "192.88.99.1", "3fff::1", "::ffff:192.0.0.192"),
        *("64:ff9b:1::808:808", "2002:7f00:1::", "2002:a00:1::1"),
        "2001:0:4136:e378:8000:63bf:f5ff:fffe",  # Teredo of 10.0.0.1
    ],
)
def test_address_that_is_not_globally_routable_is_refused(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
)
def test_public_address_is_allowed_over_https_only(text: str) -> None:
    address = ip_address(text)

    assert is_allowed(Target("https", "a", 443, "/"), address, allow_local=False)
    assert not is_allowed(Target("http", "a", 80, "/"), address, allow_local=True)


@given(ip_addresses(v=4))
def test_ipv6_form_of_an_ipv4_address_is_as_public_as_the_address_itself(address: object) -> None:
    for form in (f"::ffff:{address}", f"64:ff9b::{address}"):
        assert is_public(ip_address(form)) == is_public(ip_address(str(address)))


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.com/", "ftp://example.com/", "//example.com/", "https://", "https:///x"),
        *("https://user@example.com/", "https://a:b@example.com/", "https://example.com/#part"),
        *("https://example.com:0/", "https://example.com:25/", "https://example.com:65536/"),
        *("https://127.0.0.1/", "https://[::1]/", "https://[::ffff:10.0.0.1]/"),
        *("https://example.com\\@10.0.0.1/", "https://exämple.com/", "https://example.com/ a"),
        "https://example.com/\n",
        "https://example.com/" + "a" * 2_048,
    ],
)
def test_other_address_than_a_public_https_one_is_refused_at_registration(url: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_target(url, allow_local=False)
    assert "example" not in refused.value.message


@pytest.mark.parametrize("host", ["example.com", "10.0.0.1", "8.8.8.8", "[::2]"])
def test_even_where_local_addresses_are_allowed_others_need_https(host: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_target(f"http://{host}:8000/", allow_local=True)
    for local in ("localhost", "127.0.0.1", "[::1]"):
        target = parse_target(f"http://{local}:8000/hook", allow_local=True)
        assert target.port == 8_000
        assert is_allowed(target, ip_address("127.0.0.1"), allow_local=True)


def test_address_is_split_into_what_we_connect_to() -> None:
    plain = parse_target("https://Example.com", allow_local=False)
    full = parse_target("https://[2606:4700::1]:8443?a=1", allow_local=False)

    assert (plain, plain.authority) == (("https", "example.com", 443, "/"), "example.com")
    assert full == ("https", "2606:4700::1", 8443, "/?a=1")
    assert full.authority == "[2606:4700::1]:8443"


@pytest.mark.parametrize(
    "own", ["Barograph.example", "barograph.example.", "barograph.example:8443"]
)
def test_address_of_the_service_itself_is_refused(own: str) -> None:
    with pytest.raises(InvalidRequest, match="this service"):
        check_target(f"https://{own}/hook", "json", "https://barograph.example", allow_local=False)
    check_target("https://chat.example/a", "slack", "https://barograph.example", allow_local=False)
