"""The address guard."""

from __future__ import annotations

import socket
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.fetch import addresses
from gcs.fetch.addresses import REFUSED_PORTS, Guard, literal

REFUSED = [
    ("0.0.0.0", "unspecified"),
    ("0.1.2.3", "this network"),
    ("10.0.0.1", "private"),
    ("100.64.0.1", "CGNAT"),
    ("100.127.255.255", "CGNAT"),
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("169.254.169.254", "link-local"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.0.0.8", "protocols"),
    ("192.0.2.7", "documentation"),
    ("192.88.99.1", "6to4 relay"),
    ("192.168.1.1", "private"),
    ("198.18.0.1", "benchmarks"),
    ("198.19.255.255", "benchmarks"),
    ("198.51.100.1", "documentation"),
    ("203.0.113.9", "documentation"),
    ("224.0.0.1", "multicast"),
    ("239.255.255.255", "multicast"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "broadcast"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("::7f00:1", "IPv4-compatible"),
    ("::ffff:127.0.0.1", "loopback"),
    ("::ffff:a9fe:a9fe", "link-local"),
    ("::ffff:0:127.0.0.1", "IPv4-translated"),
    ("64:ff9b::7f00:1", "NAT64"),
    ("64:ff9b::808:808", "NAT64"),
    ("64:ff9b:1::1", "local NAT64"),
    ("100::1", "discarding"),
    ("2001::1", "Teredo"),
    ("2001:2::1", "protocols"),
    ("2001:db8::1", "documentation"),
    ("2002:7f00:1::", "6to4"),
    ("3fff::1", "documentation"),
    ("4000::1", "global unicast"),
    ("fc00::1", "unique-local"),
    ("fd12::1", "unique-local"),
    ("fe80::1", "link-local"),
    ("fe80::1%eth0", "interface"),
    ("fec0::1", "site-local"),
    ("ff02::1", "multicast"),
    ("example.org", "not an IP address"),
]


@pytest.mark.parametrize(("address", "why"), REFUSED)
def test_what_is_not_public_is_refused(address: str, why: str) -> None:
    """An address of the deny table is refused, with its kind."""
    assert why in Guard().refusal(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8"]
)
def test_public_addresses_pass(address: str) -> None:
    """Public addresses are asked."""
    assert Guard().refusal(address) == ""


@given(st.ip_addresses(v=4))
def test_nothing_private_passes_in_ipv4(address: object) -> None:
    """What the standard library does not call global is refused, in plain, mapped and carried form."""
    plain = ip_address(str(address))
    if not plain.is_global:
        guard = Guard([ip_network("64:ff9b::/96"), ip_network("2002::/16")])
        for form in (f"{plain}", f"::ffff:{plain}", f"64:ff9b::{plain}"):
            assert guard.refusal(form)
        assert guard.refusal(str(ip_address((0x2002 << 112) | int(plain) << 80)))


@given(st.ip_addresses(v=6))
def test_nothing_private_passes_in_ipv6(address: object) -> None:
    """What the standard library does not call global is refused in IPv6 too."""
    if not ip_address(str(address)).is_global:
        assert Guard().refusal(str(address))


def test_allowed_networks_pass() -> None:
    """`allow` opens exactly its networks; an IPv4-mapped address is judged as the IPv4 address."""
    guard = Guard([ip_network("127.0.0.0/8"), ip_network("fd00::/8")])
    assert guard.refusal("127.0.0.1") == guard.refusal("::ffff:127.9.9.9") == guard.refusal("fd00::1") == ""
    assert guard.refusal("10.0.0.1")
    assert guard.refusal("::1")


@pytest.mark.parametrize(
    ("allowed", "address", "inner"),
    [
        ("64:ff9b::/96", "64:ff9b::10.0.0.1", "10.0.0.1"),
        ("64:ff9b:1::/48", "64:ff9b:1:a00:0:100::", "10.0.0.1"),
        ("64:ff9b:1::/48", "64:ff9b:1::10.0.0.1", "0.0.0.0"),
        ("64:ff9b:1::/48", "64:ff9b:1:808:8:800:10.0.0.1", "10.0.0.1"),
        ("2002::/16", "2002:a00:1::1", "10.0.0.1"),
        ("2001::/32", "2001:0:808:808::f5ff:fffe", "10.0.0.1"),
        ("::/96", "::10.0.0.1", "10.0.0.1"),
    ],
)
def test_an_allowed_tunnel_does_not_allow_what_is_behind(allowed: str, address: str, inner: str) -> None:
    """With a tunnel's prefix allowed, the IPv4 address that it leads to is judged still."""
    assert inner in Guard([ip_network(allowed)]).refusal(address)


def test_an_allowed_tunnel_to_a_public_address() -> None:
    """A machine that reaches IPv4 through NAT64 can be told so."""
    assert Guard([ip_network("64:ff9b::/96")]).refusal("64:ff9b::8.8.8.8") == ""


def test_own_addresses_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that is bound to an interface here is our own, whatever network it is of."""
    monkeypatch.setattr(addresses, "_denied", lambda address: "")
    assert "own" in Guard().refusal("127.0.0.1")
    assert Guard().refusal("192.0.2.55") == ""


def test_own_addresses_where_anything_can_be_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system lets one bind to foreign addresses, the route tells which are our own."""
    monkeypatch.setattr(addresses, "_denied", lambda address: "")
    monkeypatch.setattr(addresses, "_can_bind", lambda family, address: True)
    assert "own" in Guard().refusal("127.0.0.1")
    assert Guard().refusal("255.255.255.255") == ""


def test_ports_of_other_services_are_refused() -> None:
    """Mail, Redis and the like are no web servers; the usual ports of those are not in the list."""
    assert {22, 25, 6379, 6667, 11211} <= REFUSED_PORTS
    assert not {80, 443, 8080, 8443, 3000, 5000, 8000, 9000} & REFUSED_PORTS


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("::FFFF:127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("example.org", None),
        ("a1", None),
        ("1.2.3.4.5", None),
        (":", None),
        ("", None),
    ],
)
def test_addresses_in_disguise(host: str, address: str | None) -> None:
    """Every form that the system would take for an address is known as one."""
    assert literal(host) == address


def test_families() -> None:
    """The family of an address shows in its text."""
    assert addresses.family_of("::1") == socket.AF_INET6
    assert addresses.family_of("1.1.1.1") == socket.AF_INET
