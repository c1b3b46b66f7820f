"""Addresses: what they mean, and how they look in a message."""

from __future__ import annotations

import pytest

from tuplespace import AddressError
from tuplespace.topology import masked, resolve


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost",
        "localhost:6379",
        "http://localhost",
        "redis+http://localhost",
        "unix+cluster:///tmp/server.sock",
        "unix+sentinel:///tmp/server.sock/name",
        "redis://localhost:port",
        "redis://localhost:99999",
        "redis://[::1",
        "redis+cluster://",
        "redis+cluster://one,,two",
        "redis+cluster://one:port",
        "redis+sentinel://one,two",
        "redis+sentinel://one,two/",
        "redis://localhost?socket_timeout=soon",
        "redis+sentinel://one/name?socket_timeout=soon",
    ],
)
def test_unreadable(url: str) -> None:
    """An address that cannot be read is an AddressError that shows it."""
    with pytest.raises(AddressError, match="cannot read the address"):
        resolve(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost", "redis://localhost"),
        ("redis://user@localhost", "redis://user@localhost"),
        ("redis://user:secret@localhost/1", "redis://user:***@localhost/1"),
        ("redis://:sec@ret:@localhost", "redis://:***@localhost"),
        ("unix://:secret@/tmp/server.sock?db=1", "unix://:***@/tmp/server.sock?db=1"),
        ("redis+cluster://u:secret@one,two:7000", "redis+cluster://u:***@one,two:7000"),
        ("unix:///tmp/server.sock?password=secret&db=1", "unix:///tmp/server.sock?password=***&db=1"),
        (
            "redis+sentinel://:secret@one,two/name?sentinel_password=secret",
            "redis+sentinel://:***@one,two/name?sentinel_password=***",
        ),
    ],
)
def test_masked(url: str, shown: str) -> None:
    """No password appears in a message."""
    assert masked(url) == shown


def test_errors_are_masked() -> None:
    """No password appears in the error about an address either."""
    with pytest.raises(AddressError) as caught:
        resolve("redis://user:secret@localhost:port")
    assert "secret" not in str(caught.value)


def test_certificates_need_tls() -> None:
    """Certificates for an address without TLS are a mistake that is pointed out."""
    with pytest.raises(AddressError, match="not a rediss:// address"):
        resolve("redis://localhost", {"ssl_ca_certs": "/ca.pem"})


@pytest.mark.parametrize(
    "url", ["redis://localhost", "unix:///tmp/server.sock", "redis+sentinel://one,two:1/name/2"]
)
def test_one_server(url: str) -> None:
    """Behind such an address every key is in the same place, which cannot move."""
    topology = resolve(url)
    here = topology.link(b"key")
    assert topology.owners() is None
    assert (
        topology.moved(b"other", "elsewhere", 1) is topology.at("elsewhere", 1) is topology.link(b"x") is here
    )
    topology.refresh()


def test_cluster() -> None:
    """A cluster's keys are wherever they were last said to be, at first anywhere."""
    topology = resolve("redis+cluster://[::1],two:7000")
    assert topology.link(b"key").label == "::1:6379"
    moved = topology.moved(b"key", "three", 7001)
    assert moved is topology.link(b"key") is topology.at("three", 7001)
    assert topology.owners() == {moved}
    assert topology.link(b"{key}other") is moved
