"""Whether the web is really there: the canary, over real HTTP, and when it is looked at."""

from __future__ import annotations

import gzip
import ssl
from pathlib import Path

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from gcs.core.consent import Network
from gcs.fetch.names import Names
from gcs.fetch.outcome import Failure, Reason
from gcs.fetch.transport import Transport
from gcs.helper import portal
from gcs.helper.portal import AGAIN_S, FAILURES, Canary, Doubt, check, judge, network_mark
from tests.scripted import Peer, Script, ok, replies, serve, settings
from tests.test_fetch_tls import HERE, server_side

WORD = "The canary sings.\n"
HOME, CAFE = ("192.168.1.7", "wlan0 0101A8C0"), ("10.0.0.9", "wlan0 0100000A")


async def found(script: Script, *, timeout_s: float = 10.0) -> Network:
    """What looking at the canary comes to, if this answers."""
    async with serve(script) as server, Transport(portal.settings(settings())) as transport:
        canary = Canary.saying(f"{server.origin}/canary", WORD)
        return await check(transport, canary, timeout_s=timeout_s)


async def test_clear() -> None:
    """The canary as it should be means that the web is there, however it is packed."""
    assert await found(replies(ok(WORD.encode()))) is Network.CLEAR
    packed = ok(gzip.compress(WORD.encode()), b"Content-Encoding: gzip")
    assert await found(replies(packed)) is Network.CLEAR


@pytest.mark.parametrize(
    "answer",
    [
        ok(b"<html><form action=/login>Welcome to the hotel. Please log in.</form></html>"),
        b"HTTP/1.1 302 Found\r\nLocation: http://login.hotel.example/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 511 Network Authentication Required\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 18\r\n\r\n" + WORD.encode(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nConnection: close\r\n\r\n" + WORD.encode(),
        b"SSH-2.0-OpenSSH\r\n",
    ],
    ids=["login", "redirect", "511", "empty", "status", "cut off", "no HTTP"],
)
async def test_captive(answer: bytes) -> None:
    """Anything else that answers is a portal: a login page, a redirect, what is no HTTP at all."""
    assert await found(replies(answer, close=True)) is Network.CAPTIVE


async def test_offline() -> None:
    """If nothing comes, from nobody or in no time, there is no way to the web."""

    async def silent(peer: Peer) -> None:
        await peer.request()
        await peer.request()

    async def resetting(peer: Peer) -> None:
        peer.reset()

    assert await found(silent, timeout_s=0.3) is Network.OFFLINE
    assert await found(resetting) is Network.OFFLINE
    async with serve(silent) as gone:
        pass
    async with Transport(settings()) as transport:
        assert await check(transport, Canary.saying(f"{gone.origin}/", WORD)) is Network.OFFLINE


async def test_a_portal_in_the_way_of_tls() -> None:
    """A certificate that is not the canary's means that somebody else answers."""
    known = Names(hosts=HERE, lifetime_s=1.0, concurrency=1)
    secure = server_side(trustme.CA(), "site.test")
    async with (
        serve(replies(ok(WORD.encode())), tls=secure, host="site.test") as server,
        Transport(settings(), names=known, tls=ssl.create_default_context()) as transport,
    ):
        canary = Canary.saying(f"{server.origin}/", WORD)
        assert await check(transport, canary) is Network.CAPTIVE


async def test_a_portal_by_its_names() -> None:
    """A name that leads to a private address means that somebody else answers to names."""
    names = Names(hosts={"canary.example": ("10.0.0.1",)}, lifetime_s=1.0, concurrency=1)
    async with Transport(settings(allow=()), names=names) as transport:
        canary = Canary.saying("http://canary.example/", WORD)
        assert await check(transport, canary) is Network.CAPTIVE


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason(reason: Reason) -> None:
    """Whatever a failure's reason, it is either a portal's doing or there is no way to the web."""
    assert judge(Canary("http://c.example/", ""), Failure(reason, "")) in (Network.CAPTIVE, Network.OFFLINE)


def test_settings() -> None:
    """Who looks at the canary remembers neither names nor connections."""
    fetch = settings()
    looking = portal.settings(fetch)
    assert (looking.dns_lifetime_s, looking.idle_timeout_s) == (0.0, 0.0)
    assert (looking.allow, looking.agent) == (fetch.allow, fetch.agent)


def test_network_mark(tmp_path: Path) -> None:
    """The mark stays while the network does, and changes with the default gateway."""
    assert network_mark() == network_mark()
    routes = tmp_path / "route"
    head = "Iface\tDestination\tGateway \tFlags\n"
    routes.write_text(head + "wlan0\t00000000\t0101A8C0\t0003\nwlan0\t0001A8C0\t00000000\t0001\n\n")
    home = network_mark(routes)
    assert home[-1] == "wlan0 0101A8C0"
    assert len(home) == len(network_mark(tmp_path / "none")) + 1
    routes.write_text(head + "wlan0\t00000000\t0100000A\t0003\n")
    assert network_mark(routes) != home


def test_doubt() -> None:
    """The canary is looked at first, on every new network, and again and again while it was not found."""
    doubt = Doubt()
    assert doubt.network is Network.UNCHECKED
    assert doubt.is_due(HOME, 0.0)
    doubt.learn(Network.CLEAR, HOME, 0.0)
    assert not doubt.is_due(HOME, 1e6)
    assert doubt.is_due(CAFE, 1e6)
    assert doubt.network is Network.UNCHECKED
    doubt.learn(Network.CAPTIVE, CAFE, 1e6)
    assert not doubt.is_due(CAFE, 1e6 + AGAIN_S - 1)
    assert doubt.is_due(CAFE, 1e6 + AGAIN_S)
    doubt.learn(Network.CLEAR, CAFE, 1e6 + AGAIN_S)
    assert not doubt.is_due(CAFE, 2e6)


def test_doubt_of_another_network() -> None:
    """What was found out on one network says nothing about the one that came meanwhile."""
    doubt = Doubt()
    assert doubt.is_due(HOME, 0.0)
    assert doubt.is_due(CAFE, 1.0)
    doubt.learn(Network.CLEAR, HOME, 2.0)
    assert doubt.network is Network.UNCHECKED
    assert doubt.is_due(CAFE, 2.0)


@given(st.lists(st.booleans(), max_size=60))
def test_failures_make_doubt(pages: list[bool]) -> None:
    """So many failures in a row make doubt, never fewer, and never while it is in doubt already."""
    doubt, in_a_row = Doubt(), 0
    doubt.is_due(HOME, 0.0)
    doubt.learn(Network.CLEAR, HOME, 0.0)
    for fetched in pages:
        if fetched:
            doubt.succeeded()
            in_a_row = 0
        else:
            in_a_row += 1
            assert doubt.failed() == (in_a_row == FAILURES)
        if in_a_row == FAILURES:
            assert doubt.network is Network.UNCHECKED
            assert not doubt.failed()
            assert doubt.is_due(HOME, 1.0)
            doubt.learn(Network.CLEAR, HOME, 1.0)
            in_a_row = 0
