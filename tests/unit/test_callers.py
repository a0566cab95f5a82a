"""Who an anonymous caller is, and who only says so."""

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.limits.callers import MAX_HOPS, UNKNOWN, Network, caller_group

PROXIES: tuple[Network, ...] = (
    ip_network("127.0.0.1"),
    ip_network("10.0.0.0/8"),
    ip_network("fd00::/8"),
)


@pytest.mark.parametrize(
    ("peer", "group"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("::FFFF:cb00:7107", "203.0.113.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", UNKNOWN),
        ("/run/service.sock", UNKNOWN),
        (None, UNKNOWN),
    ],
)
def test_peer_belongs_to_its_address_or_network(peer: str | None, group: str) -> None:
    assert caller_group(peer, [], ()) == group
    assert caller_group(peer, [], PROXIES) == group


@pytest.mark.parametrize("trusted", [(), PROXIES])
def test_header_of_an_untrusted_peer_is_not_believed(trusted: tuple[Network, ...]) -> None:
    assert caller_group("203.0.113.7", [b"198.51.100.1"], trusted) == "203.0.113.7"
    assert caller_group("2001:db8::7", [b"198.51.100.1"], trusted) == "2001:db8::/64"
    assert caller_group(None, [b"198.51.100.1"], trusted) == UNKNOWN


@pytest.mark.parametrize(
    ("forwarded", "group"),
    [
        ([b"203.0.113.7"], "203.0.113.7"),
        ([b"203.0.113.7, 10.2.3.4"], "203.0.113.7"),
        ([b"203.0.113.7,10.2.3.4,\t10.9.9.9 "], "203.0.113.7"),
        ([b"203.0.113.7", b"10.2.3.4"], "203.0.113.7"),
        ([b"2001:db8:1:2::9, fd00::1"], "2001:db8:1:2::/64"),
        ([b"::ffff:203.0.113.7, ::ffff:10.0.0.1"], "203.0.113.7"),
        ([b"203.0.113.7:5678"], "203.0.113.7"),
        ([b"[2001:db8::1]:443, 10.0.0.1:80"], "2001:db8::/64"),
        ([b"[2001:db8::1]"], "2001:db8::/64"),
        ([b"fe80::1%eth0"], "fe80::/64"),
        ([b"203.0.113.7, , 10.0.0.1,"], "203.0.113.7"),
        ([b"203.0.113.7", b""], "203.0.113.7"),
        ([b""], "10.0.0.1"),
        ([b"10.0.0.5, 10.0.0.6"], "10.0.0.5"),
    ],
)
def test_trusted_proxy_names_the_caller(forwarded: list[bytes], group: str) -> None:
    assert caller_group("10.0.0.1", forwarded, PROXIES) == group


@pytest.mark.parametrize(
    "forged",
    [
        [b"198.51.100.1, 203.0.113.7"],
        [b"198.51.100.1", b"203.0.113.7"],
        [b"10.0.0.9, 198.51.100.1, 203.0.113.7, 10.0.0.2"],
        [b"127.0.0.1, 203.0.113.7"],
        [b"nonsense, \xff\xfe, 203.0.113.7"],
        [b"," * 10_000 + b"203.0.113.7"],
        [b"1.2.3.4," * 10_000 + b"203.0.113.7"],
    ],
)
def test_what_a_caller_puts_in_front_is_not_read(forged: list[bytes]) -> None:
    assert caller_group("10.0.0.1", forged, PROXIES) == "203.0.113.7"


@pytest.mark.parametrize(
    "garbage",
    [
        *(b"unknown", b"_hidden", b"203.0.113.999", b"203.0.113.07", b"203.0.113.7:"),
        *(b"203.0.113.7:http", b"[203.0.113.7]", b"[2001:db8::1", b"[2001:db8::1]443"),
        *(b"2001:db8::1]:443", b"\xb2.0.113.7", b'"203.0.113.7"'),
        b"203.0.113.7 198.51.100.1",
        b"2001:db8::1%" + b"z" * 5_000,
    ],
)
def test_garbage_ends_the_walk_and_the_last_good_address_counts(garbage: bytes) -> None:
    assert caller_group("10.0.0.1", [garbage], PROXIES) == "10.0.0.1"
    assert caller_group("10.0.0.1", [b"203.0.113.7," + garbage], PROXIES) == "10.0.0.1"
    assert caller_group("10.0.0.1", [garbage + b",10.0.0.2"], PROXIES) == "10.0.0.2"


def test_walk_ends_after_so_many_proxies() -> None:
    hops = [b"10.0.0.%d" % number for number in range(MAX_HOPS)]
    assert caller_group("10.0.0.200", [b",".join(hops)], PROXIES) == "10.0.0.0"
    one_more = [b",".join([b"203.0.113.7", *hops])]
    assert caller_group("10.0.0.200", one_more, PROXIES) == "10.0.0.0"
    assert caller_group("10.0.0.200", [b"203.0.113.7", b",".join(hops)], PROXIES) == "10.0.0.0"


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_forged_forwarding_header_does_not_change_the_caller(lines: list[bytes]) -> None:
    assert caller_group("10.0.0.1", [*lines, b"203.0.113.7"], PROXIES) == "203.0.113.7"
