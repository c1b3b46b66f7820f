"""httpx over the transport."""

from __future__ import annotations

import gzip
from ipaddress import ip_network

import httpx
import pytest

import gcs
from gcs.fetch import client
from gcs.fetch.client import HttpxTransport, Unanswered
from gcs.fetch.outcome import Reason, Response
from gcs.fetch.transport import Transport
from tests.scripted import Peer, asked, ok, replies, serve, settings
from tests.test_fetch import silence


def asking(transport: Transport, *, follow_redirects: bool = False) -> httpx.AsyncClient:
    """A client over the transport."""
    return httpx.AsyncClient(transport=HttpxTransport(transport), follow_redirects=follow_redirects)


async def test_a_page() -> None:
    """A page comes through httpx, decoded once, with its headers, and the connection is kept."""
    body = gzip.compress(b"some words")
    answer = ok(body, b"Content-Encoding: gzip", b"Set-Cookie: a=1", b"Set-Cookie: b=2", b"ETag: x")
    async with asked(replies(answer)) as (server, transport), asking(transport) as web:
        for _ in range(2):
            page = await web.get(f"{server.origin}/x?y=z", headers={"X-Mine": "1"})
            assert (page.status_code, page.reason_phrase, page.http_version) == (200, "OK", "HTTP/1.1")
            assert page.content == b"some words"
            assert page.headers.get_list("set-cookie") == ["a=1", "b=2"]
            assert page.headers["content-length"] == "10"
            assert "content-encoding" not in page.headers
            outcome = page.extensions["outcome"]
            assert isinstance(outcome, Response)
            assert outcome.raw == body
    assert server.connections == 1
    request = server.requests[0].decode()
    assert request.startswith(f"GET /x?y=z HTTP/1.1\r\nHost: {server.origin.netloc}\r\n")
    assert f"User-Agent: gcs/{gcs.__version__}\r\n" in request
    assert "x-mine: 1\r\n" in request.lower()
    assert request.lower().count("accept-encoding") == request.lower().count("host:") == 1


async def test_an_agent_of_ones_own() -> None:
    """A name that the caller gives is sent as it is."""
    async with asked(replies(ok())) as (server, transport), asking(transport) as web:
        await web.get(f"{server.origin}/", headers={"User-Agent": "mine/1"})
    assert b"mine/1\r\n" in server.requests[0]
    assert b"gcs/" not in server.requests[0]


async def test_methods_and_bodies() -> None:
    """Any method can be used, with a body; an answer to HEAD has none, and keeps its length."""
    bodies: list[bytes] = []

    async def script(peer: Peer) -> None:
        while request := await peer.request():
            if request.startswith(b"POST"):
                bodies.append(await peer.body(9))
            await peer.send(ok()[:-5] if request.startswith(b"HEAD") else ok())

    async with asked(script) as (server, transport), asking(transport) as web:
        assert (await web.post(f"{server.origin}/", content=b"some body")).content == b"hello"
        head = await web.head(f"{server.origin}/")
        assert (head.content, head.headers["content-length"]) == (b"", "5")
        assert (await web.post(f"{server.origin}/", data={"form": "data"})).content == b"hello"
        assert (await web.delete(f"{server.origin}/")).content == b"hello"
    assert bodies == [b"some body", b"form=data"]
    assert server.connections == 1


async def test_a_post_is_not_repeated() -> None:
    """What may change something is not sent again by itself, even where the connection was stale."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ok())
        await peer.request()

    async with asked(script) as (server, transport), asking(transport) as web:
        await web.get(f"{server.origin}/")
        with pytest.raises(httpx.RemoteProtocolError):
            await web.post(f"{server.origin}/", content=b"")
        assert transport.statistics().retried == 0


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("http://127.0.0.2:{port}/", Reason.ADDRESS),
        ("http://[::ffff:127.0.0.2]:{port}/", Reason.ADDRESS),
        ("http://2130706434:{port}/", Reason.ADDRESS),
        ("http://169.254.169.254/latest/meta-data", Reason.ADDRESS),
        ("http://127.0.0.1:6379/", Reason.PORT),
        ("http://u:p@127.0.0.1:{port}/", Reason.REQUEST),
    ],
)
async def test_redirects_are_judged(target: str, reason: Reason) -> None:
    """Each hop of a redirect goes through the guard like any other request."""

    async def script(peer: Peer) -> None:
        while await peer.request():
            location = target.format(port=peer.server.port).encode()
            await peer.send(b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % location)

    only = settings(allow=(ip_network("127.0.0.1/32"),))
    async with (
        serve(script) as server,
        Transport(only) as transport,
        asking(transport, follow_redirects=True) as web,
    ):
        with pytest.raises(httpx.RequestError) as caught:
            await web.get(f"{server.origin}/")
    assert isinstance(caught.value.__cause__, Unanswered)
    assert caught.value.__cause__.failure.reason is reason
    assert len(server.requests) == 1


async def test_a_redirect_that_is_followed() -> None:
    """A redirect within what is allowed is followed."""
    found = b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"
    async with (
        asked(replies(found, ok())) as (server, transport),
        asking(transport, follow_redirects=True) as web,
    ):
        assert (await web.get(f"{server.origin}/")).content == b"hello"
    assert server.requests[1].startswith(b"GET /there ")


async def test_timeouts() -> None:
    """httpx's timeout bounds the whole request; without one the setting does."""
    async with asked(silence, timeout_s=0.2) as (server, transport), asking(transport) as web:
        for timeout in (0.1, None):
            with pytest.raises(httpx.ReadTimeout):
                await web.get(f"{server.origin}/", timeout=timeout)


async def test_what_was_cut_off() -> None:
    """A body over the limit is cut, which the outcome tells."""
    async with asked(replies(ok(b"x" * 5000))) as (server, transport):
        web = httpx.AsyncClient(transport=HttpxTransport(transport, max_body_bytes=100))
        page = await web.get(f"{server.origin}/")
        await web.aclose()
    assert page.content == b"x" * 100
    assert page.extensions["outcome"].truncated == "length"


async def test_other_schemes() -> None:
    """Only http and https are spoken."""
    async with Transport(settings()) as transport, asking(transport) as web:
        for url in ("ftp://a.test/", "nothing"):
            with pytest.raises(httpx.UnsupportedProtocol):
                await web.get(url)


def test_every_reason_has_its_exception() -> None:
    """No failure comes without an exception of httpx."""
    assert set(client._ERRORS) == set(Reason)
