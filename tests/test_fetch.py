"""The transport over real sockets, against a server that says anything."""

from __future__ import annotations

import base64
import contextlib
import gzip
import random
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial
from ipaddress import ip_network
from itertools import pairwise
from pathlib import Path
from typing import Any

import brotli
import pytest
import trio
import trio.testing
import zstandard
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import gcs
from gcs.errors import ConfigError
from gcs.fetch import connection, transport
from gcs.fetch.names import Names
from gcs.fetch.outcome import Failure, Origin, Outcome, Reason, Response
from gcs.fetch.transport import Transport
from tests.scripted import Peer, Script, asked, ok, replies, serve, settings

OK = b"HTTP/1.1 200 OK\r\n"


def response(outcome: Outcome) -> Response:
    """The outcome, which is a response."""
    assert isinstance(outcome, Response), outcome
    return outcome


def failure(outcome: object) -> Failure:
    """The outcome, which is a failure with a sentence."""
    assert isinstance(outcome, Failure), outcome
    assert outcome.detail.endswith(".")
    return outcome


class Changing(Names):
    """Names whose answers change with every question."""

    def __init__(self, *answers: tuple[str, ...] | Failure) -> None:
        """These are given one after the other, the last for ever; nothing is remembered."""
        super().__init__(lifetime_s=0.0, concurrency=1)
        self.answers = list(answers)

    async def ask(self, host: str) -> tuple[str, ...] | Failure:
        """The next answer."""
        await trio.lowlevel.checkpoint()
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def sockets() -> int:
    """How many sockets this process has open."""
    found = 0
    for fd in Path("/proc/self/fd").iterdir():
        # The one that lists them is gone by now.
        with contextlib.suppress(OSError):
            found += str(fd.readlink()).startswith("socket:")
    return found


async def until(true: Callable[[], bool]) -> None:
    """Wait for what must come."""
    with trio.fail_after(60):
        while not true():  # noqa: ASYNC110 (nobody tells when a socket is gone)
            await trio.sleep(0.01)


async def test_a_page() -> None:
    """A page comes with its head to the byte, the request as sent, and its times."""
    head = b"HTTP/1.1 200 Fine\r\nContent-Type: text/html\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 5\r\n\r\n"
    async with asked(replies(head + b"hello")) as (server, transport):
        before = time.time()
        page = response(await transport.fetch(server.origin, "/a?b=c"))
    assert (page.status, page.head, page.body, page.truncated) == (200, head, b"hello", "")
    assert page.raw is page.body
    assert page.headers == {"content-type": "text/html", "x-a": "1, 2", "content-length": "5"}
    assert page.address == "127.0.0.1"
    assert before <= page.started <= time.time()
    assert page.total_s >= page.connect_s + page.first_byte_s > 0
    assert not page.reused
    assert server.requests == [page.request]


async def test_the_request() -> None:
    """A request says who asks, for what, what it accepts, and what the caller adds."""
    async with asked(replies(ok()), agent="robot/1 (me@example.org)") as (server, transport):
        page = response(await transport.fetch(server.origin, "/x", headers=b'If-None-Match: "1"\r\n'))
    line, *headers = page.request.decode().split("\r\n")
    assert line == "GET /x HTTP/1.1"
    assert headers[0] == f"Host: 127.0.0.1:{server.port}"
    assert "User-Agent: robot/1 (me@example.org)" in headers
    assert "Accept-Encoding: gzip, br, zstd" in headers
    assert "Connection: keep-alive" in headers
    assert headers[-3:] == ['If-None-Match: "1"', "", ""]


async def test_the_agent_by_default() -> None:
    """Without a name of one's own, the program's name and version are sent."""
    async with asked(replies(ok())) as (server, transport):
        page = response(await transport.fetch(server.origin, "/"))
    assert f"User-Agent: gcs/{gcs.__version__}\r\n".encode() in page.request


async def test_keep_alive() -> None:
    """One request after the other goes over one connection, whatever ends their bodies."""
    answers = [
        ok(b"one"),
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\nX: y\r\n\r\n",
        b"HTTP/1.1 204 None\r\n\r\n",
        b"HTTP/1.1 304 Same\r\nContent-Length: 7\r\n\r\n",
        ok(b""),
        ok(b"six"),
    ]
    async with asked(replies(*answers)) as (server, transport):
        pages = [response(await transport.fetch(server.origin, "/")) for _ in answers]
        statistics = transport.statistics()
    assert [page.body for page in pages] == [b"one", b"two", b"", b"", b"", b"six"]
    assert [page.reused for page in pages] == [False, True, True, True, True, True]
    assert [page.connect_s > 0 for page in pages] == [True, False, False, False, False, False]
    assert server.connections == 1
    assert (statistics.open, statistics.idle, statistics.active) == (1, 1, 0)
    assert (statistics.made, statistics.reused, statistics.sites) == (1, 5, 1)
    assert statistics.bytes_in == sum(map(len, answers))
    assert statistics.bytes_out == sum(map(len, server.requests))


@pytest.mark.parametrize(
    "answer",
    [
        ok(b"hello", b"Connection: close"),
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        ok(b"hello") + b"more",
        ok(b"hello") + ok(b"poison"),
        b"HTTP/1.1 204 None\r\n\r\nbody",
    ],
)
async def test_connections_that_are_not_used_again(answer: bytes) -> None:
    """After "close", HTTP/1.0 or bytes that nobody asked for, the next request has another connection."""
    async with asked(replies(answer)) as (server, transport):
        for _ in range(2):
            page = response(await transport.fetch(server.origin, "/"))
            assert page.body in (b"hello", b"")
            assert not page.reused
        assert transport.statistics().open == 0
        assert transport.statistics().sites == 0
    assert server.connections == 2


async def test_idle_connections_hold_no_pages() -> None:
    """What a page holds is gone with the page, though its connection stays."""
    async with asked(replies(ok(b"x" * 100_000))) as (server, transport):
        response(await transport.fetch(server.origin, "/"))
        (idle,) = transport._idle
    answer = idle._answer
    assert (answer.body, answer.head, answer.headers) == (b"", b"", {})


async def test_bytes_that_come_while_idle() -> None:
    """What comes on an idle connection is never taken for the answer to the next request."""
    later = trio.Event()
    poisoned = trio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ok(b"first"))
        if peer.number == 0:
            await later.wait()
            await peer.send(ok(b"poison"))
            poisoned.set()
        await peer.request()

    async with asked(script) as (server, transport):
        assert response(await transport.fetch(server.origin, "/")).body == b"first"
        later.set()
        await poisoned.wait()
        assert response(await transport.fetch(server.origin, "/")).body == b"first"
    assert server.connections == 2


async def test_a_stale_connection_is_retried_once() -> None:
    """A kept connection that the server closes on the next request is replaced, and the request repeated."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ok(b"%d" % peer.number))
        await peer.request()

    async with asked(script) as (server, transport):
        assert response(await transport.fetch(server.origin, "/")).body == b"0"
        page = response(await transport.fetch(server.origin, "/"))
        assert (page.body, page.reused) == (b"1", False)
        assert transport.statistics().retried == 1
    assert server.connections == 2
    assert len(server.requests) == 3


async def test_a_connection_closed_while_idle_is_not_used() -> None:
    """A kept connection that the server has closed meanwhile is seen to be so before anything is sent."""
    async with asked(replies(ok(), close=True)) as (server, transport):
        response(await transport.fetch(server.origin, "/"))
        await trio.sleep(0.05)
        response(await transport.fetch(server.origin, "/"))
        assert transport.statistics().retried == 0
    assert len(server.requests) == 2


async def test_no_retry_once_a_byte_has_come() -> None:
    """If the answer had begun, the request is not sent again; nor if the connection was new."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ok())
        await peer.request()
        await peer.send(b"HTTP/1.1 2")

    async with asked(script) as (server, transport):
        response(await transport.fetch(server.origin, "/"))
        assert failure(await transport.fetch(server.origin, "/")).reason is Reason.DISCONNECTED
    assert len(server.requests) == 2

    async with asked(replies(b"", close=True)) as (server, transport):
        assert failure(await transport.fetch(server.origin, "/")).reason is Reason.DISCONNECTED
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("coding", "encode"),
    [
        ("gzip", partial(gzip.compress, mtime=0)),
        ("br", partial(brotli.compress, quality=4)),
        ("zstd", zstandard.compress),
    ],
)
async def test_codings(coding: str, encode: Callable[[bytes], bytes]) -> None:
    """A body comes as meant and as sent; a bomb is given up, and the connection is still good."""
    page, bomb = b"word " * 1000, encode(bytes(32 << 20))
    line = b"Content-Encoding: " + coding.encode()
    answers = replies(ok(encode(page), line), ok(bomb, line), ok(b"rubbish", line), ok(b"", line))
    async with asked(answers) as (server, transport):
        first = response(await transport.fetch(server.origin, "/"))
        assert (first.body, first.raw) == (page, encode(page))
        assert failure(await transport.fetch(server.origin, "/")).reason is Reason.RATIO
        assert failure(await transport.fetch(server.origin, "/")).reason is Reason.CODING
        assert response(await transport.fetch(server.origin, "/")).body == b""
    assert server.connections == 1


async def test_a_body_cut_off_and_encoded() -> None:
    """Of an encoded body that ends early, what can be decoded is kept and marked."""
    text = random.Random(1).randbytes(100_000).hex().encode()
    raw = gzip.compress(text)
    async with asked(replies(ok(raw, b"Content-Encoding: gzip")[:-5000], close=True)) as (server, transport):
        page = response(await transport.fetch(server.origin, "/"))
    assert page.truncated == "disconnect"
    assert text.startswith(page.body)
    assert len(page.body) > 100_000
    async with asked(replies(OK + b"Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\nab", close=True)) as (
        server,
        transport,
    ):
        page = response(await transport.fetch(server.origin, "/"))
    assert (page.body, page.raw, page.truncated) == (b"", b"ab", "disconnect")


async def test_a_body_over_the_limit() -> None:
    """A body is cut at the limit of the settings or of the call, and its connection closed."""
    endless = OK + b"\r\n" + b"x" * 100_000
    async with asked(replies(endless), max_body_bytes=5000) as (server, transport):
        page = response(await transport.fetch(server.origin, "/"))
        assert (page.body, page.truncated) == (b"x" * 5000, "length")
        page = response(await transport.fetch(server.origin, "/", max_body_bytes=7))
        assert (page.body, page.truncated) == (b"x" * 7, "length")
        assert transport.statistics().open == 0


async def test_a_large_body() -> None:
    """A body of many pieces comes whole."""
    body = random.Random(1).randbytes(3_000_000)
    async with asked(replies(ok(body))) as (server, transport):
        assert response(await transport.fetch(server.origin, "/")).body == body


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"220 mail.example.org ESMTP\r\n", Reason.PROTOCOL),
        (b"-ERR unknown command 'GET'\r\n", Reason.PROTOCOL),
        (b"HTTP/1.1 banana\r\n\r\n", Reason.PROTOCOL),
        (OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", Reason.PROTOCOL),
        (OK + b"X: " + b"y" * 70_000 + b"\r\n\r\n", Reason.HEADERS),
        (OK + b"X: y\r\n" * 10_000 + b"\r\n", Reason.HEADERS),
        (b"", Reason.DISCONNECTED),
    ],
)
async def test_bad_answers(answer: bytes, reason: Reason) -> None:
    """What is no answer ends with its reason, and leaves nothing open."""
    async with asked(replies(answer, close=True)) as (server, transport):
        found = failure(await transport.fetch(server.origin, "/"))
        assert found.reason is reason
        assert (found.address, found.started > 0, found.total_s > 0) == ("127.0.0.1", True, True)
        assert transport.statistics().open == 0


async def test_a_reset() -> None:
    """A reset before the head is a failure; within the body it is a cut."""

    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.number:
            await peer.send(OK + b"Content-Length: 100\r\n\r\nabc")
            await trio.sleep(0.05)
        peer.reset()

    async with asked(script) as (server, transport):
        assert failure(await transport.fetch(server.origin, "/")).reason is Reason.DISCONNECTED
        page = response(await transport.fetch(server.origin, "/"))
        assert (page.body, page.truncated) == (b"abc", "disconnect")


async def drip(peer: Peer) -> None:
    """A byte now and then, for ever."""
    await peer.request()
    await peer.send(OK + b"Content-Length: 100000\r\n\r\n")
    while True:
        await peer.send(b"x")
        await trio.sleep(0.02)


async def silence(peer: Peer) -> None:
    """No answer at all."""
    await peer.request()
    await trio.sleep_forever()


async def half_a_head(peer: Peer) -> None:
    """The beginning of a head, and then nothing."""
    await peer.request()
    await peer.send(OK + b"Content-Le")
    await trio.sleep_forever()


async def test_total_time() -> None:
    """An answer that takes too long is given up, or kept as far as it came."""
    async with asked(drip, timeout_s=0.3, min_rate_bytes=0) as (server, transport):
        page = response(await transport.fetch(server.origin, "/"))
        assert page.truncated == "time"
        assert set(page.body) == set(b"x")
        assert transport.statistics().open == 0
    for script in (silence, half_a_head):
        async with asked(script) as (server, transport):
            found = failure(await transport.fetch(server.origin, "/", timeout_s=0.2))
            assert found.reason is Reason.TIMEOUT
            assert transport.statistics().open == 0


async def test_no_retry_of_what_took_too_long() -> None:
    """A kept connection on which no answer comes in time is no reason to ask again."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ok())
        await silence(peer)

    async with asked(script) as (server, transport):
        response(await transport.fetch(server.origin, "/"))
        assert failure(await transport.fetch(server.origin, "/", timeout_s=0.2)).reason is Reason.TIMEOUT
    assert server.connections == 1


async def test_minimum_rate() -> None:
    """An answer that comes too slowly over a whole window is given up; a server may think for longer."""
    async with (
        serve(drip) as server,
        Transport(settings(min_rate_bytes=1000), slow_window_s=0.4) as transport,
    ):
        assert failure(await transport.fetch(server.origin, "/")).reason is Reason.SLOW

    async def thinks(peer: Peer) -> None:
        await peer.request()
        await trio.sleep(1.0)
        await peer.send(ok())

    async with (
        serve(thinks) as server,
        Transport(settings(min_rate_bytes=1000), slow_window_s=0.4) as transport,
    ):
        response(await transport.fetch(server.origin, "/"))


async def test_slow_but_not_too_slow() -> None:
    """An answer above the rate may take many windows, and so may the next one on the same connection."""

    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(OK + b"Content-Length: 10000\r\n\r\n")
            for _ in range(50):
                await peer.send(b"x" * 200)
                await trio.sleep(0.02)

    async with (
        serve(script) as server,
        Transport(settings(min_rate_bytes=100), slow_window_s=0.3) as transport,
    ):
        for reused in (False, True):
            page = response(await transport.fetch(server.origin, "/"))
            assert (len(page.body), page.reused) == (10000, reused)


async def test_a_large_request_to_a_server_that_does_not_read() -> None:
    """Sending, too, ends in time."""

    async def script(peer: Peer) -> None:
        await trio.sleep_forever()

    async with asked(script) as (server, transport):
        sent = transport.request("POST", server.origin, "/", headers=b"", body=bytes(20 << 20), timeout_s=0.3)
        assert failure(await sent).reason is Reason.TIMEOUT


async def test_a_large_request() -> None:
    """A request that does not fit into the socket at once is sent whole."""
    body = random.Random(1).randbytes(5_000_000)
    received = b""

    async def script(peer: Peer) -> None:
        nonlocal received
        await peer.request()
        await trio.sleep(0.05)
        received = await peer.body(len(body))
        await peer.send(ok())

    async with asked(script) as (server, transport):
        response(await transport.request("PUT", server.origin, "/", headers=b"", body=body))
    assert received == body
    assert b"Content-Length: 5000000\r\n" in server.requests[0]


async def test_connection_refused() -> None:
    """Where nobody listens there is no connection."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with Transport(settings()) as transport:
            found = failure(await transport.fetch(Origin("http", "127.0.0.1", unused.getsockname()[1]), "/"))
    assert found.reason is Reason.CONNECT
    assert found.address == "127.0.0.1"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [({"connect_timeout_s": 0.1}, Reason.CONNECT), ({"timeout_s": 0.1}, Reason.TIMEOUT)],
)
async def test_connecting_takes_too_long(changed: dict[str, Any], reason: Reason) -> None:
    """A server that does not accept is given up after the time for connecting, or the total one."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        async with Transport(settings(**changed)) as transport:
            found = failure(await transport.fetch(Origin("http", "127.0.0.1", port), "/"))
            assert found.reason is reason
            assert transport.statistics().open == 0
        for filler in fillers:
            filler.close()


async def test_addresses_are_tried_in_turn() -> None:
    """If the first address of a name does not answer, the next is asked."""
    async with serve(replies(ok())) as server:
        names = Changing(("127.0.0.2", "::1", "127.0.0.1"))
        async with Transport(settings(), names=names) as transport:
            page = response(await transport.fetch(Origin("http", "a.test", server.port), "/"))
    assert page.address == "127.0.0.1"
    assert f"Host: a.test:{server.port}\r\n".encode() in page.request


async def test_ipv6() -> None:
    """A server is reached over IPv6, by its address in brackets."""
    async with serve(replies(ok()), address="::1") as server, Transport(settings()) as transport:
        page = response(await transport.fetch(server.origin, "/"))
    assert page.address == "::1"
    assert f"Host: [::1]:{server.port}\r\n".encode() in page.request


async def test_names_that_do_not_exist() -> None:
    """A name without an address is a failure of DNS, for the transport and for who only wants addresses."""
    names = Changing(Failure(Reason.DNS, "There is no such host."))
    async with Transport(settings(), names=names) as transport:
        assert failure(await transport.fetch(Origin("http", "no.test", 80), "/")).reason is Reason.DNS
        assert failure(await transport.addresses("no.test")).reason is Reason.DNS


async def test_addresses_of_a_host() -> None:
    """Who only wants addresses gets those that the guard lets through."""
    names = Changing(("10.0.0.1", "127.0.0.7", "127.0.0.8"))
    async with Transport(settings(), names=names) as transport:
        assert await transport.addresses("a.test") == ("127.0.0.7", "127.0.0.8")
        assert failure(await transport.addresses("10.0.0.1")).reason is Reason.ADDRESS


async def test_a_resolver_that_does_not_answer() -> None:
    """A question to DNS that takes too long is given up."""

    class Never(Names):
        async def ask(self, host: str) -> tuple[str, ...] | Failure:
            await trio.sleep_forever()
            raise AssertionError

    names = Never(lifetime_s=1.0, concurrency=1)
    async with Transport(settings(connect_timeout_s=0.1), names=names) as transport:
        assert failure(await transport.addresses("a.test")).reason is Reason.DNS
        assert failure(await transport.fetch(Origin("http", "a.test", 80), "/")).reason is Reason.DNS


async def test_the_hosts_file(tmp_path: Path) -> None:
    """Names of `fetch.hosts` are found without DNS."""
    file = tmp_path / "hosts"
    file.write_text("127.0.0.1 site.test\n")
    async with serve(replies(ok())) as server, Transport(settings(hosts=file)) as transport:
        response(await transport.fetch(Origin("http", "site.test", server.port), "/"))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "::1", "::ffff:127.0.0.1", "127.1", "0x7f000001", "2130706433", "localhost", "0.0.0.0"],
)
async def test_the_guard(host: str) -> None:
    """Without being allowed, loopback is not asked, however it is written, and no connection is made."""
    async with serve(replies(ok())) as server, Transport(settings(allow=())) as transport:
        found = failure(await transport.fetch(Origin("http", host, server.port), "/"))
        assert found.reason is Reason.ADDRESS
        assert "fetch.allow" in found.detail
    assert server.connections == 0


async def test_rebinding() -> None:
    """A name that changes from a harmless address to a forbidden one gains nothing by it."""
    async with serve(replies(ok(b"secret"))) as server:
        names = Changing(("127.0.0.1",), ("127.0.0.2",))
        only = settings(allow=(ip_network("127.0.0.1/32"),), idle_timeout_s=0.0)
        async with Transport(only, names=names) as transport:
            origin = Origin("http", "rebind.test", server.port)
            response(await transport.fetch(origin, "/"))
            assert failure(await transport.fetch(origin, "/")).reason is Reason.ADDRESS
    assert server.connections == 1


async def test_the_address_judged_is_the_address_asked() -> None:
    """Between the judgement and the connection no name is looked up again."""
    async with serve(replies(ok())) as server:
        names = Changing(("127.0.0.1",), ("10.0.0.1",))
        async with Transport(settings(), names=names) as transport:
            page = response(await transport.fetch(Origin("http", "a.test", server.port), "/"))
    assert page.address == "127.0.0.1"
    assert len(names.answers) == 1


@pytest.mark.parametrize("port", [0, 22, 25, 6379, 11211, 65536])
async def test_refused_ports(port: int) -> None:
    """Ports of other services are refused, even where the address is allowed."""
    async with Transport(settings()) as transport:
        assert failure(await transport.fetch(Origin("http", "127.0.0.1", port), "/")).reason is Reason.PORT


@pytest.mark.parametrize(
    ("origin", "target", "headers"),
    [
        (Origin("http", "a.test\r\nX: y", 80), "/", b""),
        (Origin("http", "user@a.test", 80), "/", b""),
        (Origin("http", "a b", 80), "/", b""),
        (Origin("http", "", 80), "/", b""),
        (Origin("http", "fe80::1%eth0", 80), "/", b""),
        (Origin("ftp", "a.test", 80), "/", b""),
        (Origin("http", "a.test", 80), "/ HTTP/1.1\r\nX: y", b""),
        (Origin("http", "a.test", 80), "/a b", b""),
        (Origin("http", "a.test", 80), "/\x7f", b""),
        (Origin("http", "a.test", 80), "/é", b""),
        (Origin("http", "a.test", 80), "http://b.test/", b""),
        (Origin("http", "a.test", 80), "", b""),
        (Origin("http", "a.test", 80), "/", b"X: y"),
        (Origin("http", "a.test", 80), "/", b"X: y\r\n\r\nGET / HTTP/1.1\r\n"),
        (Origin("http", "a.test", 80), "/", b"X: \x00\r\n"),
        (Origin("http", "a.test", 80), "/", b"X: y\r\nhOst: b.test\r\n"),
        (Origin("http", "a.test", 80), "/", b"Transfer-Encoding: chunked\r\n"),
    ],
)
async def test_unfit_requests(origin: Origin, target: str, headers: bytes) -> None:
    """Control characters, user names and headers that frame the message are not sent."""
    async with Transport(settings()) as transport:
        assert failure(await transport.fetch(origin, target, headers=headers)).reason is Reason.REQUEST
        outcome = await transport.request("GET", origin, target, headers=headers)
        assert failure(outcome).reason is Reason.REQUEST
        assert transport.statistics().sites == 0


@pytest.mark.parametrize("method", ["CONNECT", "get", "GET /x", ""])
async def test_unfit_methods(method: str) -> None:
    """A method is a word in capitals, and not the proxies' own."""
    async with Transport(settings()) as transport:
        found = failure(await transport.request(method, Origin("http", "127.0.0.1", 80), "/", headers=b""))
    assert found.reason is Reason.REQUEST


async def test_limits_per_host_and_in_all() -> None:
    """No more requests are under way than allowed, per host and in all; the rest wait in line."""
    now = {"a.test": 0, "b.test": 0}
    most = {"a.test": 0, "b.test": 0, "all": 0}

    async def script(peer: Peer) -> None:
        while request := await peer.request():
            host = request.split(b"Host: ")[1].split(b":")[0].decode()
            now[host] += 1
            most[host] = max(most[host], now[host])
            most["all"] = max(most["all"], sum(now.values()))
            await trio.sleep(0.01)
            now[host] -= 1
            await peer.send(ok())

    names = Changing(("127.0.0.1",))
    async with (
        serve(script) as server,
        Transport(settings(concurrency=3, per_host=2), names=names) as transport,
        trio.open_nursery() as nursery,
    ):
        for number in range(20):
            nursery.start_soon(
                transport.fetch, Origin("http", ("a.test", "b.test")[number % 2], server.port), "/"
            )
    assert most == {"a.test": 2, "b.test": 2, "all": 3}


async def test_no_place_in_time() -> None:
    """Who waits too long for a place is told so, at the host's limit and at the limit of all."""
    names = Changing(("127.0.0.1",))
    for changed in ({"per_host": 1}, {"per_host": 2, "concurrency": 1}):
        async with (
            serve(silence) as server,
            Transport(settings(**changed), names=names) as transport,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(transport.fetch, server.origin, "/")
            await trio.sleep(0.05)
            found = failure(await transport.fetch(server.origin, "/", timeout_s=0.1))
            assert found.reason is Reason.TIMEOUT
            assert "place" in found.detail
            nursery.cancel_scope.cancel()


async def test_idle_connections_are_closed() -> None:
    """A connection without a request is closed after its time, and with the transport at the latest."""
    async with asked(replies(ok()), idle_timeout_s=0.1) as (server, transport):
        response(await transport.fetch(server.origin, "/"))
        assert transport.statistics().idle == 1
        await until(lambda: transport.statistics().idle == 0)
        assert transport.statistics().sites == 0
        assert transport.statistics().evicted == 1
    async with asked(replies(ok())) as (server, transport):
        response(await transport.fetch(server.origin, "/"))
    assert transport.statistics().open == 0


async def test_idle_connections_are_kept() -> None:
    """Before its time is over, an idle connection is there for the next request."""
    async with asked(replies(ok())) as (server, transport):
        response(await transport.fetch(server.origin, "/"))
        await trio.sleep(0.6)
        assert response(await transport.fetch(server.origin, "/")).reused


async def test_too_many_idle_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many idle connections the longest unused is closed."""
    monkeypatch.setattr(transport, "_IDLE_PER_ACTIVE", 1)
    names = Changing(("127.0.0.1",))
    async with serve(replies(ok())) as server, Transport(settings(concurrency=2), names=names) as asking:
        origins = [Origin("http", f"{name}.test", server.port) for name in "abc"]
        for origin in origins:
            response(await asking.fetch(origin, "/"))
        assert asking.statistics().idle == 2
        assert response(await asking.fetch(origins[2], "/")).reused
        assert response(await asking.fetch(origins[1], "/")).reused
        assert not response(await asking.fetch(origins[0], "/")).reused


async def test_use_outside_of_the_context() -> None:
    """A transport that was not entered is a bug of the caller."""
    with pytest.raises(RuntimeError, match="async with"):
        await Transport(settings()).fetch(Origin("http", "127.0.0.1", 80), "/")


async def test_leaving_while_requests_are_under_way() -> None:
    """Leaving the transport ends what is under way, and nothing stays open."""
    outcomes: list[Outcome] = []
    async with serve(silence) as server:

        async def ask(transport: Transport) -> None:
            outcomes.append(await transport.fetch(server.origin, "/"))

        async with trio.open_nursery() as nursery, Transport(settings()) as transport:
            nursery.start_soon(ask, transport)
            await trio.sleep(0.05)
    assert failure(outcomes[0]).reason is Reason.TIMEOUT
    assert transport.statistics().open == 0


async def test_errors_inside_the_context() -> None:
    """An error of the caller comes out as it is, and a cancellation ends the transport as well."""
    async with serve(silence) as server:
        with pytest.raises(ZeroDivisionError):
            async with Transport(settings()):
                raise ZeroDivisionError
        with trio.move_on_after(0.05) as scope:
            async with Transport(settings()) as transport:
                await transport.fetch(server.origin, "/")
        assert scope.cancelled_caught
        assert transport.statistics().open == 0
        with trio.move_on_after(0.05) as scope:
            async with Transport(settings(per_host=2)) as transport, trio.open_nursery() as nursery:
                nursery.start_soon(transport.fetch, server.origin, "/")
                nursery.start_soon(transport.fetch, server.origin, "/")
        assert scope.cancelled_caught
        assert transport.statistics().open == 0


async def mixed(peer: Peer) -> None:
    """Answers of all kinds, some slow."""
    while request := await peer.request():
        await trio.sleep(random.random() * 0.01)
        await peer.send(ok(b"x" * 5000)[:2000])
        await trio.sleep(random.random() * 0.01)
        await peer.send(ok(b"x" * 5000)[2000:])
        if b"/close" in request:
            return


async def test_cancelling_leaves_nothing_behind() -> None:
    """Cancelled at any moment, a request closes its socket and gives its places back."""
    async with serve(mixed) as server:
        before = sockets()
        names = Changing(("127.0.0.1",))
        async with Transport(
            settings(concurrency=8, per_host=3, idle_timeout_s=0.0), names=names
        ) as transport:

            async def ask(number: int) -> None:
                origin = Origin("http", f"{number % 4}.test", server.port)
                with trio.move_on_after(random.random() * 0.03):
                    await transport.fetch(origin, "/close" if number % 3 else "/")

            for _ in range(10):
                async with trio.open_nursery() as nursery:
                    for number in range(30):
                        nursery.start_soon(ask, number)
            assert transport.statistics().open == transport.statistics().sites == 0
            # All places are free again: as many as allowed can be taken at once.
            async with trio.open_nursery() as nursery:
                for number in range(8):
                    nursery.start_soon(transport.fetch, Origin("http", f"{number}.test", server.port), "/")
        await until(lambda: sockets() <= before)


async def test_cancelling_while_waiting_for_a_place() -> None:
    """Who is cancelled in line, for the host or for all, holds no place afterwards."""
    limits: list[dict[str, Any]] = [{"per_host": 1}, {"per_host": 2, "concurrency": 1}]
    for changed in limits:
        async with asked(mixed, **changed) as (server, transport):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(transport.fetch, server.origin, "/")
                with trio.move_on_after(0.001):
                    await transport.fetch(server.origin, "/")
            response(await transport.fetch(server.origin, "/", timeout_s=5))


def through(server: Origin, **changed: Any) -> Transport:
    """A transport behind a proxy, which may ask for nothing but what is public."""
    account = changed.pop("account", "")
    return Transport(settings(proxy=f"http://{account}127.0.0.1:{server.port}", allow=(), **changed))


async def test_a_proxy_for_http() -> None:
    """Through a proxy, http is asked for by the whole URL, over connections that all sites share."""
    async with serve(replies(ok())) as server, through(server.origin, account="me:p%40ss@") as transport:
        for host in ("a.test", "b.test"):
            response(await transport.fetch(Origin("http", host, 8080), "/x?y"))
        assert transport.statistics().sites == 0
    assert server.connections == 1
    lines = server.requests[0].decode().split("\r\n")
    assert lines[:2] == ["GET http://a.test:8080/x?y HTTP/1.1", "Host: a.test:8080"]
    assert f"Proxy-Authorization: Basic {base64.b64encode(b'me:p@ss').decode()}" in lines


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "10.0.0.1", "127.1", "::ffff:10.0.0.1", "localhost", "a.localhost."]
)
async def test_behind_a_proxy_addresses_are_judged(host: str) -> None:
    """The proxy itself is the user's choice; addresses that are to be asked through it are judged."""
    async with serve(replies(ok())) as server, through(server.origin) as transport:
        assert failure(await transport.fetch(Origin("http", host, 8080), "/")).reason is Reason.ADDRESS
        assert failure(await transport.addresses(host)).reason is Reason.ADDRESS
        assert await transport.addresses("a.test") == ()
    assert server.requests == []


async def test_a_proxy_that_refuses() -> None:
    """A proxy that wants a password, gives no tunnel or is not there is a failure of the proxy."""
    wants = b"HTTP/1.1 407 Auth\r\nContent-Length: 0\r\n\r\n"
    async with serve(replies(wants)) as server, through(server.origin) as transport:
        for scheme in ("http", "https"):
            assert failure(await transport.fetch(Origin(scheme, "a.test", 8080), "/")).reason is Reason.PROXY
        assert transport.statistics().open <= 1
    for answer in (b"rubbish", b"", OK + b"\r\nextra"):
        async with serve(replies(answer, close=True)) as server, through(server.origin) as transport:
            assert failure(await transport.fetch(Origin("https", "a.test", 443), "/")).reason is Reason.PROXY
            assert transport.statistics().open == 0
    async with through(server.origin) as transport:
        assert failure(await transport.fetch(Origin("http", "a.test", 80), "/")).reason is Reason.PROXY
    names = Changing(Failure(Reason.DNS, "There is no such host."))
    async with Transport(settings(proxy="http://p.test:3128"), names=names) as transport:
        assert failure(await transport.fetch(Origin("http", "a.test", 80), "/")).reason is Reason.PROXY


async def test_a_proxy_that_does_not_answer() -> None:
    """A proxy that gives neither tunnel nor refusal is given up after the time for connecting."""
    async with serve(silence) as server, through(server.origin, connect_timeout_s=0.1) as transport:
        assert failure(await transport.fetch(Origin("https", "a.test", 443), "/")).reason is Reason.PROXY
        assert transport.statistics().open == 0


async def test_an_address_that_does_not_answer() -> None:
    """The first of two addresses may use up only its share of the time for connecting."""
    with socket.socket() as full, contextlib.ExitStack() as stack:
        full.bind(("127.0.0.2", 0))
        full.listen(0)
        port = full.getsockname()[1]
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.2", port))
        other = stack.enter_context(socket.socket())
        other.bind(("127.0.0.1", port))
        names = Changing(("127.0.0.2", "127.0.0.1"))
        async with Transport(settings(connect_timeout_s=0.4), names=names) as transport:
            found = failure(await transport.fetch(Origin("http", "a.test", port), "/"))
    assert (found.reason, found.address) == (Reason.CONNECT, "127.0.0.1")
    assert "refused" in found.detail


async def test_a_proxy_that_resets() -> None:
    """A proxy that breaks the connection while a tunnel is asked for is a failure of the proxy."""

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.reset()

    async with serve(script) as server, through(server.origin) as transport:
        assert failure(await transport.fetch(Origin("https", "a.test", 443), "/")).reason is Reason.PROXY


@pytest.mark.parametrize("url", ["http://:3128", "http://a:banana"])
def test_a_proxy_that_makes_no_sense(url: str) -> None:
    """A proxy's address without a host or with a wrong port is an error of the configuration."""
    with pytest.raises(ConfigError, match=r"fetch\.proxy"):
        Transport(settings(proxy=url))


def run(script: Script, act: Callable[[Transport, Origin], Awaitable[None]], **changed: Any) -> None:
    """One test in a loop of its own, for Hypothesis."""

    async def main() -> None:
        with trio.fail_after(60):
            async with asked(script, **changed) as (server, transport):
                await act(transport, server.origin)

    trio.run(main)


FUZZ = hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@FUZZ
@given(
    st.binary(max_size=600),
    st.sampled_from([b"", b"HTTP/1.1 ", OK, ok(b"x" * 50, b"Content-Encoding: gzip")]),
)
def test_any_bytes_end_in_a_value(data: bytes, before: bytes) -> None:
    """Whatever a server sends, the outcome is a value within the limits."""

    async def act(transport: Transport, origin: Origin) -> None:
        outcome = await transport.fetch(origin, "/")
        assert isinstance(outcome, Failure) or len(outcome.body) <= 2000
        assert transport.statistics().active == 0

    run(replies(before + data, close=True), act, max_body_bytes=2000)


@FUZZ
@given(
    st.sampled_from(
        [
            ok(b"some words " * 20),
            ok(gzip.compress(b"some words " * 20), b"Content-Encoding: gzip"),
            b"HTTP/1.1 100 Continue\r\n\r\n"
            + OK
            + b"Transfer-Encoding: chunked\r\n\r\n5\r\nwords\r\n0\r\n\r\n",
            OK + b"\r\nuntil the end",
        ]
    ),
    st.integers(0, 300),
    st.lists(st.integers(0, 300), max_size=5),
)
@example(ok(b"x"), 300, [])
def test_pieces_do_not_matter(whole: bytes, cut: int, at: list[int]) -> None:
    """An answer that is cut off at any byte and sent in any pieces is the same as when it comes at once."""
    data = whole[:cut]
    places = sorted({0, *(min(place, len(data)) for place in at), len(data)})
    pieces = [data[a:b] for a, b in pairwise(places)]

    async def script(peer: Peer) -> None:
        await peer.request()
        for piece in pieces if peer.number else [data]:
            await peer.send(piece)
            await trio.testing.wait_all_tasks_blocked()

    async def act(transport: Transport, origin: Origin) -> None:
        seen: list[tuple[object, ...]] = []
        for _ in range(2):
            outcome = await transport.fetch(origin, "/")
            if isinstance(outcome, Failure):
                seen.append((outcome.reason, outcome.detail))
            else:
                seen.append((outcome.head, outcome.headers, outcome.body, outcome.raw, outcome.truncated))
        assert seen[0] == seen[1]

    run(script, act, idle_timeout_s=0.0)


def test_nothing_is_decoded_twice() -> None:
    """The module that decodes is asked only where there is a coding."""
    limits = connection.Limits(0.0, 100, 10)
    assert connection._decoded(b"x", {"transfer-encoding": "chunked"}, limits) == (b"x", "")
