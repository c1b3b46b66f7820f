"""The transport over TLS."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme

from gcs.errors import ConfigError
from gcs.fetch.names import Names
from gcs.fetch.outcome import Failure, Origin, Reason
from gcs.fetch.transport import Transport
from tests.scripted import Peer, Script, Server, ok, replies, serve, settings
from tests.test_fetch import drip, failure, response, silence, sockets, until

OK = b"HTTP/1.1 200 OK\r\n"
HERE = {"site.test": ("127.0.0.1",), "other.test": ("127.0.0.1",)}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Who signs the servers' certificates."""
    return trustme.CA()


def server_side(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    """What a server of these names needs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def client_side(authority: trustme.CA) -> ssl.SSLContext:
    """Trust in the authority."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@asynccontextmanager
async def secured(
    authority: trustme.CA, script: Script, *names: str, version: ssl.TLSVersion | None = None, **changed: Any
) -> AsyncIterator[tuple[Server, Transport]]:
    """A secure server of these names, and a transport that trusts its authority."""
    context = server_side(authority, *(names or ("site.test",)))
    if version is not None:
        context.maximum_version = version
    known = Names(hosts=HERE, lifetime_s=1.0, concurrency=1)
    async with (
        serve(script, tls=context, host="site.test") as server,
        Transport(settings(**changed), names=known, tls=client_side(authority)) as transport,
    ):
        yield server, transport


async def test_a_page(authority: trustme.CA) -> None:
    """A page comes over TLS, and the next one over the same connection."""
    body = bytes(range(256)) * 400
    async with secured(authority, replies(ok(body))) as (server, transport):
        for reused in (False, True, True):
            page = response(await transport.fetch(server.origin, "/"))
            assert (page.body, page.reused) == (body, reused)
    assert server.connections == 1


async def test_by_address(authority: trustme.CA) -> None:
    """A certificate for an address is good for that address."""
    async with secured(authority, replies(ok()), "127.0.0.1") as (server, transport):
        response(await transport.fetch(Origin("https", "127.0.0.1", server.port), "/"))


async def test_the_wrong_host(authority: trustme.CA) -> None:
    """A certificate for another name is refused before anything is sent."""
    async with secured(authority, replies(ok()), "site.test") as (server, transport):
        found = failure(await transport.fetch(Origin("https", "other.test", server.port), "/"))
        assert found.reason is Reason.TLS
        assert "other.test" in found.detail
        assert transport.statistics().open == 0
    assert server.requests == []


async def test_an_unknown_authority(authority: trustme.CA) -> None:
    """A certificate of an authority that is not trusted is refused."""
    async with secured(trustme.CA(), replies(ok())) as (server, _):
        known = Names(hosts=HERE, lifetime_s=1.0, concurrency=1)
        async with Transport(settings(), names=known, tls=client_side(authority)) as transport:
            assert failure(await transport.fetch(server.origin, "/")).reason is Reason.TLS
        async with Transport(settings(), names=known) as transport:
            assert failure(await transport.fetch(server.origin, "/")).reason is Reason.TLS
    assert server.requests == []


async def test_the_authority_of_the_settings(authority: trustme.CA, tmp_path: Path) -> None:
    """`fetch.tls_ca` says whom to trust; a file that is none is an error of the configuration."""
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    known = Names(hosts=HERE, lifetime_s=1.0, concurrency=1)
    async with secured(authority, replies(ok())) as (server, _):
        async with Transport(settings(tls_ca=file), names=known) as transport:
            response(await transport.fetch(server.origin, "/"))
        file.write_text("rubbish")
    for wrong in (file, tmp_path / "nothing"):
        with pytest.raises(ConfigError, match=r"fetch\.tls_ca"):
            Transport(settings(tls_ca=wrong), names=known)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_sessions_are_resumed(authority: trustme.CA, version: ssl.TLSVersion) -> None:
    """A second connection to an origin resumes the session of the first; another origin does not."""
    script = replies(ok(b"x", b"Connection: close"), close=True)
    async with secured(authority, script, "site.test", "other.test", version=version) as (server, transport):
        for resumed in (0, 1, 2):
            response(await transport.fetch(server.origin, "/"))
            assert transport.statistics().resumed == resumed
        response(await transport.fetch(Origin("https", "other.test", server.port), "/"))
        assert transport.statistics().resumed == 2


async def test_few_sessions_are_kept(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many sessions the longest unused is forgotten."""
    monkeypatch.setattr("gcs.fetch.connector._MAX_SESSIONS", 1)
    script = replies(ok(b"x", b"Connection: close"), close=True)
    async with secured(authority, script, "site.test", "other.test") as (server, transport):
        for host in ("site.test", "other.test", "site.test"):
            response(await transport.fetch(Origin("https", host, server.port), "/"))
        assert transport.statistics().resumed == 0


async def test_a_body_until_the_end(authority: trustme.CA) -> None:
    """Without a length, a body is whole only if TLS was ended properly: nobody can cut it off unseen."""

    async def script(peer: Peer) -> None:
        request = await peer.request()
        await peer.send(OK + b"\r\nabc")
        if b"/cut" in request:
            await peer.tcp.aclose()

    async with secured(authority, script) as (server, transport):
        page = response(await transport.fetch(server.origin, "/"))
        assert (page.body, page.truncated) == (b"abc", "")
        page = response(await transport.fetch(server.origin, "/cut"))
        assert (page.body, page.truncated) == (b"abc", "disconnect")


async def test_bytes_that_come_while_idle(authority: trustme.CA) -> None:
    """What comes on an idle secure connection is never an answer, whether it was read along or came later."""
    later, poisoned = trio.Event(), trio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.number == 0:
            await peer.send(ok(b"first"))
            await later.wait()
            await peer.send(ok(b"poison"))
            poisoned.set()
        else:
            await peer.send(ok(b"second"), ok(b"poison"))
        await peer.request()

    async with secured(authority, script) as (server, transport):
        assert response(await transport.fetch(server.origin, "/")).body == b"first"
        later.set()
        await poisoned.wait()
        for _ in range(3):
            page = response(await transport.fetch(server.origin, "/"))
            assert (page.body, page.reused) == (b"second", False)
            await trio.sleep(0.02)


async def test_bytes_that_were_read_along(authority: trustme.CA) -> None:
    """A second answer that came along with the first, in a record of its own, is not used either."""

    async def script(peer: Peer) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = server_side(authority, "127.0.0.1").wrap_bio(incoming, outgoing, server_side=True)
        request = b""
        while not request:
            incoming.write(await peer.stream.receive_some(65536))
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                request = tls.read()
            if outgoing.pending:
                await peer.send(outgoing.read())
        tls.write(ok(b"answer %d" % peer.number))
        tls.write(ok(b"poison"))
        await peer.send(outgoing.read())
        await peer.stream.receive_some(1)

    async with serve(script) as server, Transport(settings(), tls=client_side(authority)) as transport:
        for number in range(2):
            page = response(await transport.fetch(Origin("https", "127.0.0.1", server.port), "/"))
            assert (page.body, page.reused) == (b"answer %d" % number, False)


async def test_closed_while_idle(authority: trustme.CA) -> None:
    """A secure connection that was closed meanwhile, properly or not, is replaced."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ok())
        if peer.number % 2:
            await peer.tcp.aclose()

    async with secured(authority, script) as (server, transport):
        for _ in range(4):
            assert not response(await transport.fetch(server.origin, "/")).reused
            await trio.sleep(0.05)


async def test_no_tls_at_all(authority: trustme.CA) -> None:
    """A server that does not speak TLS, or closes in the middle of it, is a failure of TLS."""

    async def closes(peer: Peer) -> None:
        await peer.stream.receive_some(1)

    async def talks(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await peer.request()

    for script in (closes, talks):
        async with serve(script) as server, Transport(settings(), tls=client_side(authority)) as transport:
            found = failure(await transport.fetch(Origin("https", "127.0.0.1", server.port), "/"))
            assert found.reason is Reason.TLS
            assert transport.statistics().open == 0


async def test_a_handshake_that_takes_too_long(authority: trustme.CA) -> None:
    """TLS is part of connecting, and ends in its time."""

    async def script(peer: Peer) -> None:
        await trio.sleep_forever()

    async with (
        serve(script) as server,
        Transport(settings(connect_timeout_s=0.1), tls=client_side(authority)) as transport,
    ):
        found = failure(await transport.fetch(Origin("https", "127.0.0.1", server.port), "/"))
        assert found.reason is Reason.CONNECT
        assert transport.statistics().open == 0


async def test_a_host_that_no_certificate_has(authority: trustme.CA) -> None:
    """A name that TLS cannot send is a failure, not an exception."""
    known = Names(hosts={".bad": ("127.0.0.1",), "a..b": ("127.0.0.1",)}, lifetime_s=1.0, concurrency=1)
    async with (
        serve(silence) as server,
        Transport(settings(), names=known, tls=client_side(authority)) as transport,
    ):
        for host in (".bad", "a..b"):
            assert (
                failure(await transport.fetch(Origin("https", host, server.port), "/")).reason is Reason.TLS
            )


async def test_time_limits(authority: trustme.CA) -> None:
    """The watch sees secure connections too."""
    async with secured(authority, drip, min_rate_bytes=0) as (server, transport):
        page = response(await transport.fetch(server.origin, "/", timeout_s=0.3))
        assert page.truncated == "time"
    async with secured(authority, silence) as (server, transport):
        assert failure(await transport.fetch(server.origin, "/", timeout_s=0.3)).reason is Reason.TIMEOUT


async def test_cancelling_leaves_nothing_open(authority: trustme.CA) -> None:
    """Cancelled at any moment, a secure connection is closed."""
    async with secured(authority, replies(ok()), idle_timeout_s=0.0, per_host=30) as (server, transport):
        before = sockets()

        async def ask(after_s: float) -> None:
            with trio.move_on_after(after_s):
                await transport.fetch(server.origin, "/")

        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(ask, number * 0.001)
        assert transport.statistics().open == transport.statistics().sites == 0
        await until(lambda: sockets() <= before)


async def test_through_a_proxy(authority: trustme.CA) -> None:
    """https goes through a tunnel, which the proxy knows only the name of; each origin has its own."""
    async with secured(authority, replies(ok(b"inside"))) as (server, _):

        async def tunnel(peer: Peer) -> None:
            await peer.request()
            upstream = await trio.open_tcp_stream("127.0.0.1", server.port)
            await peer.send(b"HTTP/1.1 200 Connected\r\n\r\n")

            async def pipe(source: trio.abc.Stream, sink: trio.abc.Stream) -> None:
                async for data in source:
                    await sink.send_all(data)
                await sink.aclose()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(pipe, peer.stream, upstream)
                nursery.start_soon(pipe, upstream, peer.stream)

        async with (
            serve(tunnel) as proxy,
            Transport(
                settings(proxy=f"http://me:x@127.0.0.1:{proxy.port}", allow=()), tls=client_side(authority)
            ) as transport,
        ):
            for reused in (False, True):
                page = response(await transport.fetch(Origin("https", "site.test", 8443), "/x"))
                assert (page.body, page.reused) == (b"inside", reused)
            found = await transport.fetch(Origin("https", "::1", 8443), "/x")
            assert isinstance(found, Failure)
            assert found.reason is Reason.ADDRESS
            await transport.fetch(Origin("https", "2606:4700::1", 8443), "/x")
    assert server.requests[0].startswith(b"GET /x HTTP/1.1\r\nHost: site.test:8443\r\n")
    assert b"Proxy-Authorization" not in server.requests[0]
    assert proxy.requests[0].startswith(
        b"CONNECT site.test:8443 HTTP/1.1\r\nHost: site.test:8443\r\nProxy-Auth"
    )
    assert proxy.requests[1].startswith(b"CONNECT [2606:4700::1]:8443 HTTP/1.1\r\n")
