"""A hostile web on loopback: one host per nastiness, with what is to end it, and one good site beside them.

    async with serve(tmp_path) as hostile:
        hostile.nasty_seeds()      # URL -> Case: how asking for it may end, how often it may be asked for
        hostile.good_pages         # all of which must be fetched all the same
        hostile.hosts              # a file for the setting fetch.hosts; allow NETWORK and nothing else
        hostile.requests           # host -> targets that were asked for
        hostile.trespasses         # connections to where nobody is allowed; must stay 0

How a case may end is said with the reasons of `gcs.fetch.outcome`, and else "page" (fetched like any other),
"truncated" (fetched in part, and marked), "status" (answered with an odd status and no page), "redirects" (a
chain or circle that is not followed for ever), "trap" (recognised, or ended by a budget), "rejected" (a link
or redirect that is no URL to ask for), "forbidden" (robots.txt could not be read, so nothing is fetched).
"""

from __future__ import annotations

import errno
import hashlib
import html
import socket
import struct
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

import brotli
import trio

from gcs.fetch.names import Names

NETWORK: Final = IPv4Network("127.66.0.0/16")
DOMAIN: Final = "hostile.test"
BOMB_BYTES: Final = 10 << 30
GOOD_PAGES: Final = 40
_ZEROS = bytes(1 << 20)
_CHUNK = 1 << 16
_MAX_HEAD = 64 << 10


def reply(body: bytes, *headers: str, status: str = "200 OK", kind: str = "text/html") -> bytes:
    """A sound answer, after which the connection closes."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + body


def head(*headers: str, status: str = "200 OK", kind: str = "text/html") -> bytes:
    """The head of an answer whose body follows somehow."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", *headers, "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1")


def page(*hrefs: str, title: str = "A page") -> bytes:
    """A small page with links."""
    links = "".join(f'<a href="{html.escape(href)}">on</a>\n' for href in hrefs)
    return f"<!DOCTYPE html><title>{title}</title><h1>{title}</h1>\n{links}".encode()


@dataclass(eq=False)
class Talk:
    """One request, and the connection to answer it on."""

    stream: trio.SocketStream
    target: str
    port: int
    fortress: int
    """The port at 127.0.0.1 where nobody is allowed."""
    at: str
    """This host, as URLs name it, with the port."""

    async def send(self, data: bytes) -> None:
        """Send it all."""
        await self.stream.send_all(data)

    async def send_for_ever(self, pieces: Iterator[bytes]) -> None:
        """Send until the client has had enough."""
        for piece in pieces:
            await self.stream.send_all(piece)

    async def drip(self, data: bytes) -> None:
        """Send one byte a second."""
        for byte in data:
            await self.stream.send_all(bytes([byte]))
            await trio.sleep(1)

    def reset(self) -> None:
        """End the connection with a reset when it closes."""
        self.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


Handler = Callable[[Talk], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Case:
    """One nastiness: the ways in which asking for it may end, and what the host does."""

    name: str
    ends: frozenset[str]
    handler: Handler
    path: str = "/"
    own_robots: bool = False
    most_requests: int | None = None
    """How often a crawler with no budget for a host may ask this one, robots.txt included; None: no limit."""

    @property
    def host(self) -> str:
        """The host that is this case."""
        return f"{self.name}.{DOMAIN}"


CASES: Final[dict[str, Case]] = {}


def case(
    name: str,
    *ends: str,
    path: str = "/",
    own_robots: bool = False,
    most_requests: int | None = None,
) -> Callable[[Handler], Handler]:
    """Make a function the handler of a case."""

    def register(handler: Handler) -> Handler:
        assert name not in CASES
        CASES[name] = Case(name, frozenset(ends), handler, path, own_robots, most_requests)
        return handler

    return register


def sends(name: str, *ends: str, data: bytes) -> None:
    """A case that answers with these bytes, and closes."""

    async def handler(talk: Talk) -> None:
        await talk.send(data)

    case(name, *ends)(handler)


def redirects(name: str, *ends: str, to: str, most_requests: int | None = None) -> None:
    """A case that redirects; `{port}` and `{fortress}` are filled in."""

    async def handler(talk: Talk) -> None:
        where = to.format(port=talk.port, fortress=talk.fortress)
        await talk.send(reply(b"", f"Location: {where}", status="302 Found"))

    case(name, *ends, most_requests=most_requests)(handler)


# Redirects.


@case("endless-redirects", "redirects", "trap")
async def endless_redirects(talk: Talk) -> None:
    """Every page is at the next number."""
    number = int(talk.target.strip("/") or 0)
    await talk.send(reply(b"", f"Location: /{number + 1}", status="302 Found"))


@case("redirect-circle", "redirects", path="/a", most_requests=5)
async def redirect_circle(talk: Talk) -> None:
    """Three redirects in a circle."""
    following = {"/a": "/b", "/b": "/c"}.get(talk.target, "/a")
    await talk.send(reply(b"", f"Location: {following}", status="301 Moved Permanently"))


@case("growing-redirects", "redirects", "trap", "rejected")
async def growing_redirects(talk: Talk) -> None:
    """Every redirect makes the path longer."""
    await talk.send(
        reply(b"", f"Location: {talk.target.rstrip('/')}/deeper/", status="307 Temporary Redirect")
    )


redirects("redirect-to-itself", "redirects", to="/", most_requests=3)
redirects("redirect-to-loopback", "address", "port", to="http://127.0.0.1:{fortress}/")
redirects("redirect-to-localhost", "address", "port", to="http://localhost:{fortress}/")
redirects("redirect-to-redis", "address", "port", to="http://127.0.0.1:6379/")
redirects("redirect-to-redis-by-name", "port", to=f"http://good.{DOMAIN}:6379/")
redirects("redirect-to-smtp", "port", to=f"http://good.{DOMAIN}:25/")
redirects("redirect-to-decimal", "address", "port", to="http://2130706433:{fortress}/")
redirects("redirect-to-hexadecimal", "address", "port", to="http://0x7f.1:{fortress}/")
redirects("redirect-to-octal", "address", "port", to="http://0177.0.0.01:{fortress}/")
redirects("redirect-to-zero", "address", "port", to="http://0:{fortress}/")
redirects("redirect-to-ipv6", "address", "port", to="http://[::1]:{fortress}/")
redirects("redirect-to-mapped", "address", "port", to="http://[::ffff:127.0.0.1]:{fortress}/")
redirects("redirect-to-nat64", "address", "port", to="http://[64:ff9b::7f00:1]:{fortress}/")
redirects("redirect-to-metadata", "address", to="http://169.254.169.254/latest/meta-data/")
redirects("redirect-to-private", "address", to="http://10.0.0.1/")
redirects("redirect-inside", "address", "port", to=f"http://inside.{DOMAIN}:{{fortress}}/")
redirects("redirect-to-file", "rejected", to="file:///etc/passwd", most_requests=2)
redirects("redirect-to-ftp", "rejected", to="ftp://127.0.0.1/x", most_requests=2)
redirects("redirect-to-javascript", "rejected", to="javascript:alert(1)", most_requests=2)
redirects("redirect-to-data", "rejected", to="data:text/html,<a href=/>x</a>", most_requests=2)
redirects("redirect-to-gopher", "rejected", to="gopher://127.0.0.1:6379/_FLUSHALL", most_requests=2)
redirects(
    "redirect-with-userinfo", "rejected", to=f"http://user:secret@good.{DOMAIN}:{{port}}/", most_requests=2
)
redirects("redirect-to-nothing", "rejected", "redirects", "status", to="")
redirects("redirect-to-nonsense", "rejected", "page", to="http://[half:open/")
redirects("redirect-far-too-long", "rejected", to="/" + "a" * 8000, most_requests=2)
redirects(
    "redirect-with-quoted-crlf",
    "page",
    "status",
    "rejected",
    "redirects",
    to="/%0d%0aX-Injected:%20yes%0d%0a",
)
sends(
    "redirect-with-bare-cr",
    "protocol",
    "rejected",
    "status",
    data=b"HTTP/1.1 302 Found\r\nLocation: /a\rX-Injected: yes\r\nContent-Length: 0\r\n\r\n",
)
sends(
    "redirect-with-bare-lf",
    "protocol",
    "rejected",
    "status",
    "redirects",
    data=b"HTTP/1.1 302 Found\r\nLocation: /a\nX-Injected: yes\r\nContent-Length: 0\r\n\r\n",
)
sends(
    "redirect-with-nul",
    "protocol",
    "rejected",
    "redirects",
    data=b"HTTP/1.1 302 Found\r\nLocation: /a\x00b\r\nContent-Length: 0\r\n\r\n",
)
sends(
    "redirect-not-utf-8",
    "protocol",
    "rejected",
    "redirects",
    "page",
    data=b"HTTP/1.1 302 Found\r\nLocation: /\xff\xfe\xc0\x80\r\nContent-Length: 0\r\n\r\n",
)
sends("redirect-without-location", "status", data=b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n")
sends(
    "redirect-with-two-locations",
    "rejected",
    "redirects",
    "status",
    data=b"HTTP/1.1 302 Found\r\nLocation: /a\r\nLocation: file:///b\r\nContent-Length: 0\r\n\r\n",
)


# Endless sites.


@case("endless-pages", "trap")
async def endless_pages(talk: Talk) -> None:
    """Every page leads to ten that nobody has seen."""
    seed = hashlib.sha256(talk.target.encode()).hexdigest()
    await talk.send(reply(page(*[f"/{seed[n : n + 12]}.html" for n in range(10)], title=seed)))


@case("calendar", "trap", path="/calendar/2024/05/")
async def calendar(talk: Talk) -> None:
    """Every month has one before and one after it."""
    parts = [int(part) for part in talk.target.split("/") if part.isdigit()]
    month = parts[0] * 12 + parts[1] - 1 if len(parts) > 1 else 24_000
    near = [f"/calendar/{m // 12:04d}/{m % 12 + 1:02d}/" for m in (month - 1, month + 1)]
    await talk.send(reply(page(*near, title=f"Month {month}")))


@case("calendar-by-query", "trap", path="/events?day=2024-05-01")
async def calendar_by_query(talk: Talk) -> None:
    """The same with the day in the query, and further parameters that change nothing."""
    number = int.from_bytes(hashlib.sha256(talk.target.encode()).digest()[:2])
    days = [f"/events?day={2000 + number % 999}-{m:02d}-{d:02d}&view=week" for m in (1, 7) for d in (1, 15)]
    await talk.send(reply(page(*days, title=talk.target)))


@case("growing-paths", "trap", path="/a/")
async def growing_paths(talk: Talk) -> None:
    """Relative links that make the path ever longer, and repeat its parts."""
    await talk.send(reply(page("a/", "b/", "../a/b/", title=talk.target)))


@case("sessions", "trap", path="/shop")
async def sessions(talk: Talk) -> None:
    """The same page under ever new session ids."""
    fresh = hashlib.sha256(talk.target.encode()).hexdigest()[:20]
    await talk.send(reply(page(f"/shop?sid={fresh}", f"/shop;jsessionid={fresh}", title="Goods")))


@case("mirror", "trap")
async def mirror(talk: Talk) -> None:
    """Any path gives the same page, with links to deeper paths."""
    deeper = talk.target.partition("?")[0].rstrip("/")
    await talk.send(reply(page(f"{deeper}/one/", f"{deeper}/two/", title="Always the same")))


# Time.


@case("one-byte-a-second", "slow", "timeout", "truncated")
async def one_byte_a_second(talk: Talk) -> None:
    """The body comes one byte a second."""
    await talk.send(head("Content-Length: 100000"))
    await talk.drip(bytes(100_000))


@case("slow-header", "slow", "timeout")
async def slow_header(talk: Talk) -> None:
    """The header comes one byte a second."""
    await talk.drip(b"HTTP/1.1 200 OK\r\n" + b"X-Slow: yes\r\n" * 10_000)


@case("slow-chunks", "slow", "timeout", "truncated")
async def slow_chunks(talk: Talk) -> None:
    """Chunks of one byte, one a second."""
    await talk.send(head("Transfer-Encoding: chunked"))
    for _ in range(100_000):
        await talk.send(b"1\r\nx\r\n")
        await trio.sleep(1)


@case("never-answers", "timeout", "slow")
async def never_answers(talk: Talk) -> None:
    """Nothing comes, and the connection stays."""
    await trio.sleep_forever()


@case("stops-in-the-middle", "timeout", "slow", "truncated")
async def stops_in_the_middle(talk: Talk) -> None:
    """Half of the body comes, and the connection stays."""
    await talk.send(head("Content-Length: 1000") + b"half" * 125)
    await trio.sleep_forever()


@case("endless-continue", "protocol", "timeout", "headers", "slow")
async def endless_continue(talk: Talk) -> None:
    """An interim answer follows the other."""
    while True:
        await talk.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        await trio.sleep(0.05)


# Ends.


@case("closes-at-once", "disconnected", "protocol")
async def closes_at_once(talk: Talk) -> None:
    """The connection closes without an answer."""


@case("resets-at-once", "disconnected")
async def resets_at_once(talk: Talk) -> None:
    """The connection is reset without an answer."""
    talk.reset()


@case("resets-in-header", "disconnected", "protocol")
async def resets_in_header(talk: Talk) -> None:
    """The connection is reset within the header."""
    await talk.send(b"HTTP/1.1 200 OK\r\nContent-Le")
    await trio.sleep(0.05)
    talk.reset()


@case("resets-in-body", "disconnected", "truncated")
async def resets_in_body(talk: Talk) -> None:
    """The connection is reset within the body."""
    await talk.send(head("Content-Length: 100000") + b"x" * 50_000)
    await trio.sleep(0.05)
    talk.reset()


sends("closes-in-header", "disconnected", "protocol", data=b"HTTP/1.1 200 OK\r\nContent-Type: text")


# Bombs and bodies without end.


def gzip_bomb(total: int = BOMB_BYTES, *, wrapper: int = 31) -> Iterator[bytes]:
    """A gzip (or, with wrapper 15, zlib) stream of zeros, made of one piece that repeats."""
    coder = zlib.compressobj(9, zlib.DEFLATED, wrapper)
    yield coder.compress(b"") + coder.flush(zlib.Z_FULL_FLUSH)
    pure = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = pure.compress(_ZEROS * 8) + pure.flush(zlib.Z_FULL_FLUSH)
    for _ in range(total // (8 << 20)):
        yield piece


def brotli_bomb(total: int = BOMB_BYTES) -> Iterator[bytes]:
    """A brotli stream of zeros; from the third mebibyte on each is written like the one before."""
    coder = brotli.Compressor(quality=1)
    piece = b""
    for number in range(total >> 20):
        if number < 4:
            piece = coder.process(_ZEROS) + coder.flush()
        yield piece
    yield b"\x03"  # the last block, which is empty


def zstd_bomb(total: int = BOMB_BYTES) -> Iterator[bytes]:
    """A zstd frame of zeros: blocks of 128 KiB that say which byte to repeat, with a window of 2 MiB."""
    yield b"\x28\xb5\x2f\xfd\x00\x58"
    block = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    for _ in range(total >> 20):
        yield block * 8
    yield b"\x01\x00\x00"


def _nested_bomb() -> Iterator[bytes]:
    coder = zlib.compressobj(1, zlib.DEFLATED, 31)
    for piece in gzip_bomb():
        yield coder.compress(piece) + coder.flush(zlib.Z_SYNC_FLUSH)


_BOMBS: Mapping[str, Callable[[], Iterator[bytes]]] = {
    "gzip": gzip_bomb,
    "deflate": lambda: gzip_bomb(wrapper=15),
    "br": brotli_bomb,
    "zstd": zstd_bomb,
    "gzip, gzip": _nested_bomb,
}


def _register_bombs() -> None:
    for coding, made in _BOMBS.items():

        async def handler(
            talk: Talk, coding: str = coding, made: Callable[[], Iterator[bytes]] = made
        ) -> None:
            await talk.send(head(f"Content-Encoding: {coding}"))
            await talk.send_for_ever(made())

        name = coding.replace(", ", "-in-")
        case(f"bomb-{name}", "ratio", "truncated", *(["coding"] if "," in coding else []))(handler)


_register_bombs()
sends("coding-broken", "coding", "truncated", data=reply(b"this is not gzip" * 50, "Content-Encoding: gzip"))
sends("coding-unknown", "coding", "page", data=reply(page("/"), "Content-Encoding: rot13"))
sends(
    "coding-cut",
    "coding",
    "truncated",
    data=reply(zlib.compress(bytes(range(256)) * 90, wbits=31)[:200], "Content-Encoding: gzip"),
)
sends(
    "coding-a-thousand",
    "coding",
    "protocol",
    "page",
    data=reply(page("/"), "Content-Encoding: " + "gzip, " * 1000),
)


@case("endless-body", "truncated", "slow", "timeout")
async def endless_body(talk: Talk) -> None:
    """A page that does not end."""
    await talk.send(head())
    while True:
        await talk.send(b"<p>And so on. " * 5000)


@case("huge-length", "truncated", "timeout")
async def huge_length(talk: Talk) -> None:
    """A page that says it has 10 GB, and has."""
    await talk.send(head(f"Content-Length: {BOMB_BYTES}"))
    for _ in range(BOMB_BYTES // len(_ZEROS)):
        await talk.send(_ZEROS)


@case("endless-chunks", "truncated", "slow", "timeout")
async def endless_chunks(talk: Talk) -> None:
    """Chunks of one byte without end."""
    await talk.send(head("Transfer-Encoding: chunked"))
    while True:
        await talk.send(b"1\r\nx\r\n" * 5000)


# Chunks and lengths.

_CHUNKED = head("Transfer-Encoding: chunked")
sends("chunk-size-broken", "protocol", "truncated", data=_CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n")
sends("chunk-size-negative", "protocol", "truncated", data=_CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n")
sends("chunk-size-huge", "protocol", "truncated", "disconnected", data=_CHUNKED + b"f" * 40 + b"\r\nhello")
sends("chunk-too-long", "protocol", "truncated", data=_CHUNKED + b"3\r\nhello\r\n0\r\n\r\n")
sends("chunk-cut", "truncated", "disconnected", "protocol", data=_CHUNKED + b"64\r\nhello")
sends("chunk-without-last", "truncated", "disconnected", "protocol", data=_CHUNKED + b"5\r\nhello\r\n")
sends(
    "chunk-extension-huge",
    "headers",
    "protocol",
    "page",
    data=_CHUNKED + b"5;" + b"x" * 1_000_000 + b"\r\nhello\r\n0\r\n\r\n",
)


@case("endless-trailer", "headers", "protocol", "truncated", "timeout", "slow")
async def endless_trailer(talk: Talk) -> None:
    """Headers after the last chunk, without end."""
    await talk.send(_CHUNKED + b"5\r\nhello\r\n0\r\n")
    while True:
        await talk.send(b"X-More: and more\r\n" * 500)


sends("length-too-long", "truncated", "disconnected", data=head("Content-Length: 5000") + page("/"))
sends("length-too-short", "page", data=head("Content-Length: 10") + page("/") + b"HTTP/1.1 200 OK\r\n\r\n")
sends("length-negative", "protocol", data=head("Content-Length: -5") + page("/"))
sends("length-no-number", "protocol", data=head("Content-Length: many") + page("/"))
sends("length-enormous", "protocol", "truncated", data=head(f"Content-Length: {'9' * 40}") + page("/"))
sends(
    "lengths-in-conflict",
    "protocol",
    "page",
    "truncated",
    data=head("Content-Length: 5", "Content-Length: 9") + page("/"),
)
sends(
    "length-and-chunks",
    "protocol",
    "page",
    data=head("Content-Length: 5", "Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n",
)
sends("length-missing", "page", data=head() + page("/"))


# Heads.

sends("header-64k", "headers", data=head("X-Long: " + "x" * 65_536, "Content-Length: 2") + b"ok")
sends("headers-by-the-thousand", "headers", data=head(*[f"X-{n}: {n}" for n in range(10_000)]) + page("/"))
sends("reason-64k", "headers", "protocol", data=head(status="200 " + "OK" * 32_768) + page("/"))


@case("header-without-end", "headers")
async def header_without_end(talk: Talk) -> None:
    """One header line that goes on for ever."""
    await talk.send(b"HTTP/1.1 200 OK\r\nX-Endless: ")
    while True:
        await talk.send(b"x" * 10_000)


@case("status-without-end", "headers", "protocol")
async def status_without_end(talk: Talk) -> None:
    """A status line that goes on for ever."""
    await talk.send(b"HTTP/1.1 200 ")
    while True:
        await talk.send(b"x" * 10_000)


_OK_BODY = b"Content-Length: 2\r\n\r\nok"
sends("status-garbage", "protocol", data=b"HTTP/1.1 banana split\r\n" + _OK_BODY)
sends("status-missing", "protocol", data=b"HTTP/1.1\r\n" + _OK_BODY)
sends("status-999", "protocol", "status", data=b"HTTP/1.1 999 Whatever\r\n" + _OK_BODY)
sends("status-12345", "protocol", "status", data=b"HTTP/1.1 12345 Whatever\r\n" + _OK_BODY)
sends(
    "status-101",
    "protocol",
    "status",
    "disconnected",
    data=b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nzzz",
)
sends("status-204-with-body", "status", "protocol", "page", data=b"HTTP/1.1 204 No Content\r\n" + _OK_BODY)
sends("status-304-unasked", "status", data=b"HTTP/1.1 304 Not Modified\r\n\r\n")
sends("version-0.9", "protocol", data=b"<html><body>There was no header then.</body></html>")
sends("version-9.9", "protocol", "page", data=b"HTTP/9.9 200 OK\r\n" + _OK_BODY)
sends("version-2", "protocol", data=b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + bytes(18))
sends("ssh", "protocol", data=b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")
sends("tls-alert", "protocol", data=b"\x15\x03\x01\x00\x02\x02\x28")
sends("nothing-but-zeros", "protocol", data=bytes(100_000))
sends("header-without-colon", "protocol", "page", data=b"HTTP/1.1 200 OK\r\nnonsense\r\n" + _OK_BODY)
sends("header-with-nul", "protocol", "page", data=b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n" + _OK_BODY)
sends("header-folded", "protocol", "page", data=b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n" + _OK_BODY)
sends(
    "header-not-utf-8",
    "page",
    "protocol",
    data=b"HTTP/1.1 200 OK\r\nX-\xe9: \xff\xfe\xc3\r\nServer: \xff\r\n" + _OK_BODY,
)
sends("header-name-empty", "protocol", "page", data=b"HTTP/1.1 200 OK\r\n: empty\r\n" + _OK_BODY)
sends("lines-end-in-lf", "protocol", "page", data=b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok")
sends("type-nonsense", "page", data=reply(page("/"), kind=';;;="\x7f charset='))


# Contents.

_DEEP = 100_000
MALFORMED: Final[tuple[bytes, ...]] = (
    b"",
    b" \r\n\t",
    b"<",
    b"<!",
    b"</",
    b"<a href",
    b"<a href=",
    b'<a href="/x',
    b"<a href='/x\">x</a>",
    b"<a href=/x>x<a href=/y>y<a href=/z>",
    b"<a href=/x href=/y>two</a>",
    b"<A HREF = /X >shouting</A>",
    b'<a\x00href="/x">nul</a>\x00<b\x00>',
    b"<title>never closed <a href=/x>x</a>",
    b"<script>never closed <a href=/x>x</a>",
    b"<!-- never closed <a href=/x>x</a>",
    b"<!-->--><a href=/x>x</a><!--->",
    b"<style><a href=/x>x</a></style</style >",
    b"<textarea><a href=/x></textarea><plaintext><a href=/y>",
    b"<table><a href=/x><tr><td><table><td></table></a></div></span></p>",
    b"<p><b><i></p></b></i><a href=/x>misnested</a></html><a href=/y>after the end</a>",
    b"<frameset><frame src=/x><noframes><a href=/y>y</a></frameset>",
    b"<base href='javascript:1'><base href=':::'><base href='//[bad'><a href=x>x</a>",
    b"<base href='http://'><a href='x'>x</a>",
    b"<meta http-equiv=refresh content='0;url=/'><meta http-equiv=refresh content=';;;'>",
    b"<meta charset=no-such-charset><meta charset=utf-7>+ADw-a href=/x+AD4-",
    b"<meta charset=utf-16><a href=/x>not utf-16</a>",
    b"\xff\xfe<\x00a\x00>\x00",
    b"\xfe\xff\x00<\x00a",
    b"\xef\xbb\xbf<a href=/x>bom</a>\xef\xbb\xbf",
    b"<title>\xff\xfe\xc0\x80\xed\xa0\x80\xf5\x80\x80\x80</title><a href='/\xff\xfe'>\xc3</a>",
    b"<a href='/\xed\xa0\x80'>a lone surrogate</a>",
    b"<a href='http://\xff\xfe/'>x</a><a href='http://a b/'>x</a><a href='http://%00/'>x</a>",
    b"<a href='http://user:secret@good.hostile.test/'>x</a><a href='file:///etc/passwd'>x</a>",
    b"<a href='http:good'>x</a><a href='http:///x'>x</a><a href='\\\\\\\\x\\\\y'>x</a><a href='?'>x</a>",
    b"<a href='http://good.hostile.test:99999/'>x</a><a href='http://good.hostile.test:-1/'>x</a>",
    b"<a href='/a\r\nb\tc'>line ends</a><a href='/%'>%</a><a href='/%zz%2'>%zz</a>",
    b"<a href='/%2e%2e/%2E'>dots</a>",
    b"<a href='" + b"/x" * 60_000 + b"'>long</a>",
    b"<a href='" + b"../" * 40_000 + b"x'>up</a>",
    b"<a " + b"x=1 " * 50_000 + b"href=/x>many attributes</a>",
    b"<" + b"a" * 200_000 + b">",
    b"&" + b"a" * 200_000 + b";&#99999999999;&#xD800;&#0;&amp" * 50,
    b"<div>" * _DEEP + b"<a href=/x>deep</a>",
    b"<b><a href=/x>" * 20_000,
    b"<table><tr><td>" * 20_000,
    b"<svg><math><svg><a xlink:href=/x></svg><![CDATA[<a href=/y>]]></math>",
    b"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'b'><!ENTITY c SYSTEM 'file:///etc/passwd'>]><x>&a;&c;</x>",
    b"<template><a href=/x>x</a></template><noscript><a href=/y>y</a></noscript>",
    b"<select><option><a href=/x>x</select><button><button><form><form>",
    b"%PDF-1.4\n<a href=/x>not a pdf</a>",
    bytes(range(256)) * 100,
    b"\x89PNG\r\n\x1a\n" + bytes(5000),
)


@case("malformed", "page")
async def malformed(talk: Talk) -> None:
    """HTML in every way that is wrong; all of it is answered with 200."""
    number = talk.target.strip("/")
    if talk.target == "/":
        await talk.send(reply(page(*[f"/{n}" for n in range(len(MALFORMED))])))
    elif number.isdigit() and int(number) < len(MALFORMED):
        await talk.send(reply(MALFORMED[int(number)]))
    else:
        await talk.send(reply(b"", status="404 Not Found"))


sends(
    "body-not-utf-8", "page", data=reply(b"\xff\xc0\x80\xed\xa0\x80" * 500, kind="text/html; charset=utf-8")
)
sends(
    "charset-wrong",
    "page",
    data=reply("Größe 日本".encode("shift_jis", "replace"), kind="text/html; charset=koi8-r"),
)
sends("charset-unknown", "page", data=reply(page("/"), kind="text/html; charset=klingon"))
sends("charset-not-for-text", "page", data=reply(page("/"), kind="text/html; charset=base64"))
sends("deep-nesting", "page", "truncated", data=reply(b"<div>" * 500_000))
sends(
    "xml-bomb",
    "page",
    data=reply(
        b"<?xml version='1.0'?><!DOCTYPE l [<!ENTITY a0 'ha'>"
        + b"".join(b"<!ENTITY a%d '%b'>" % (n, b"&a%d;" % (n - 1) * 10) for n in range(1, 12))
        + b"]><l>&a11;</l>",
        kind="application/xml",
    ),
)


@case("links-by-the-hundred-thousand", "page", "truncated", "trap")
async def many_links(talk: Talk) -> None:
    """One page with 200,000 links, all of them to nothing."""
    if talk.target != "/":
        await talk.send(reply(b"", status="404 Not Found"))
        return
    await talk.send(reply(b"".join(b"<a href=/%d>x</a>" % n for n in range(200_000))))


# robots.txt and sitemaps.


def _robots(name: str, *ends: str) -> Callable[[Handler], Handler]:
    """A case whose robots.txt is nasty; the site itself is one page."""

    def register(handler: Handler) -> Handler:
        async def both(talk: Talk) -> None:
            if talk.target == "/":
                await talk.send(reply(page()))
            else:
                await handler(talk)

        return case(f"robots-{name}", *ends, own_robots=True)(both)

    return register


@_robots("bomb", "page", "forbidden")
async def robots_bomb(talk: Talk) -> None:
    """robots.txt is a gzip bomb."""
    await talk.send(head("Content-Encoding: gzip", kind="text/plain"))
    await talk.send_for_ever(gzip_bomb())


@_robots("endless", "page", "forbidden")
async def robots_endless(talk: Talk) -> None:
    """robots.txt does not end; what is in its first half mebibyte lets the page through."""
    await talk.send(head(kind="text/plain") + b"User-agent: *\nAllow: /\n")
    while True:
        await talk.send(b"# and so on and on and on\n" * 1000)


@_robots("one-line", "page", "forbidden")
async def robots_one_line(talk: Talk) -> None:
    """robots.txt is one line of a megabyte."""
    await talk.send(reply(b"User-agent: *\nDisallow: /" + b"x" * 1_000_000, kind="text/plain"))


@_robots("circle", "page", "forbidden")
async def robots_circle(talk: Talk) -> None:
    """robots.txt redirects in a circle."""
    to = "/robots.txt" if talk.target == "/other.txt" else "/other.txt"
    await talk.send(reply(b"", f"Location: {to}", status="302 Found"))


@_robots("endless-redirects", "page", "forbidden")
async def robots_endless_redirects(talk: Talk) -> None:
    """robots.txt is always one further."""
    await talk.send(reply(b"", f"Location: {talk.target}x", status="302 Found"))


@_robots("inside", "page", "forbidden")
async def robots_inside(talk: Talk) -> None:
    """robots.txt redirects to where nobody is allowed."""
    await talk.send(reply(b"", f"Location: http://127.0.0.1:{talk.fortress}/", status="302 Found"))


@_robots("slow", "forbidden", "page")
async def robots_slow(talk: Talk) -> None:
    """robots.txt comes one byte a second."""
    await talk.send(head("Content-Length: 100000", kind="text/plain"))
    await talk.drip(b"User-agent: *\nDisallow: /x\n" * 4000)


@_robots("never", "forbidden", "page")
async def robots_never(talk: Talk) -> None:
    """robots.txt is never answered."""
    await trio.sleep_forever()


@_robots("binary", "page", "forbidden")
async def robots_binary(talk: Talk) -> None:
    """robots.txt is noise."""
    await talk.send(reply(bytes(range(256)) * 1000, kind="application/octet-stream"))


@_robots("wildcards", "page", "forbidden")
async def robots_wildcards(talk: Talk) -> None:
    """robots.txt has patterns that cost a backtracking matcher for ever."""
    pattern = b"Disallow: /" + b"*a" * 200 + b"b$\n"
    await talk.send(reply(b"User-agent: *\n" + pattern * 50, kind="text/plain"))


@_robots("crawl-delay-of-years", "page", "forbidden")
async def robots_crawl_delay(talk: Talk) -> None:
    """robots.txt asks for delays that are no numbers, or are years."""
    lines = b"User-agent: *\nCrawl-delay: 99999999\nCrawl-delay: -1\nCrawl-delay: NaN\nCrawl-delay: inf\n"
    await talk.send(reply(lines, kind="text/plain"))


def _sitemap(name: str) -> Callable[[Handler], Handler]:
    """A case whose sitemap is nasty; the site itself is one page and is fetched."""

    def register(handler: Handler) -> Handler:
        async def all_three(talk: Talk) -> None:
            if talk.target == "/":
                await talk.send(reply(page()))
            elif talk.target == "/robots.txt":
                await talk.send(reply(f"Sitemap: http://{talk.at}/map.xml\n".encode(), kind="text/plain"))
            else:
                await handler(talk)

        return case(f"sitemap-{name}", "page", own_robots=True)(all_three)

    return register


def _urlset(*locations: str) -> bytes:
    entries = "".join(f"<url><loc>{html.escape(location)}</loc></url>" for location in locations)
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'.encode()


@_sitemap("bomb")
async def sitemap_bomb(talk: Talk) -> None:
    """The sitemap is a gzip file of 10 GB."""
    await talk.send(head(kind="application/gzip"))
    await talk.send_for_ever(gzip_bomb())


@_sitemap("endless")
async def sitemap_endless(talk: Talk) -> None:
    """The sitemap names pages without end."""
    await talk.send(head(kind="application/xml") + b"<urlset>")
    number = 0
    while True:
        entries = (f"<url><loc>http://{talk.at}/{n}</loc></url>" for n in range(number, number + 500))
        await talk.send("".join(entries).encode())
        number += 500


@_sitemap("circle")
async def sitemap_circle(talk: Talk) -> None:
    """A sitemap index names itself, and ever new ones."""
    fresh = hashlib.sha256(talk.target.encode()).hexdigest()[:12]
    parts = [f"<sitemap><loc>http://{talk.at}/{name}.xml</loc></sitemap>" for name in ("map", fresh)]
    await talk.send(reply(f"<sitemapindex>{''.join(parts)}</sitemapindex>".encode(), kind="application/xml"))


@_sitemap("elsewhere")
async def sitemap_elsewhere(talk: Talk) -> None:
    """The sitemap names what nobody may ask for."""
    inside = f"http://127.0.0.1:{talk.fortress}/"
    await talk.send(
        reply(
            _urlset(inside, "file:///etc/passwd", "javascript:1", "", "//", "http://u:p@h/"),
            kind="application/xml",
        )
    )


@_sitemap("entities")
async def sitemap_entities(talk: Talk) -> None:
    """The sitemap has entities that grow, and one that reads a file."""
    grows = b"".join(b"<!ENTITY a%d '%b'>" % (n, b"&a%d;" % (n - 1) * 10) for n in range(1, 12))
    doctype = b"<!DOCTYPE u [<!ENTITY a0 'ha'>" + grows + b"<!ENTITY f SYSTEM 'file:///etc/passwd'>]>"
    body = b"<?xml version='1.0'?>" + doctype + b"<urlset><url><loc>http://x/&a11;&f;</loc></url></urlset>"
    await talk.send(reply(body, kind="application/xml"))


@_sitemap("broken")
async def sitemap_broken(talk: Talk) -> None:
    """The sitemap is cut off and not UTF-8."""
    await talk.send(reply(b"\xff\xfe<urlset><url><loc>http://\xff\xc0/x</loc", kind="application/xml"))


# The good site, and what serves all of this.


def _good(target: str) -> bytes:
    """The good site's answer: a small tree of pages, kept alive."""
    if target == "/robots.txt":
        return _kept(b"User-agent: *\nDisallow: /never/\n", "text/plain")
    number = 0 if target == "/" else int(target[2:-5]) if target.endswith(".html") else GOOD_PAGES
    if number >= GOOD_PAGES:
        return _kept(b"", status="404 Not Found")
    links = [f"/p{n}.html" for n in range(3 * number + 1, 3 * number + 4) if n < GOOD_PAGES]
    return _kept(page(*links, "/", "/never/x.html", title=f"Good page {number}"), "text/html; charset=utf-8")


def _kept(body: bytes, kind: str = "text/html", *, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@dataclass(eq=False)
class Hostile:
    """The hostile web as it is served."""

    port: int
    fortress: int
    hosts: Path
    trespasses: int = 0
    requests: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def nasty_seeds(self) -> dict[str, Case]:
        """A URL for each case."""
        return nasty_seeds(self.port)

    @property
    def good_seed(self) -> str:
        """Where the good site begins."""
        return f"http://good.{DOMAIN}:{self.port}/"

    @property
    def good_pages(self) -> frozenset[str]:
        """Every page of the good site."""
        return frozenset({self.good_seed, *(f"{self.good_seed}p{n}.html" for n in range(1, GOOD_PAGES))})


def nasty_seeds(port: int) -> dict[str, Case]:
    """A URL for each case, with how asking for it may end."""
    return {f"http://{each.host}:{port}{each.path}": each for each in CASES.values()}


def addresses() -> dict[str, str]:
    """The address of each host; `inside` is where nobody is allowed."""
    names = [f"good.{DOMAIN}", *(each.host for each in CASES.values())]
    found = {name: str(NETWORK[n]) for n, name in enumerate(names, start=1)}
    return found | {f"inside.{DOMAIN}": "127.0.0.1"}


class Rebinding(Names):
    """Names whose address is harmless at first, and where nobody is allowed from the second question on."""

    def __init__(self, first: str, later: str = "127.0.0.1") -> None:
        super().__init__(lifetime_s=0.0, concurrency=1)
        self._answers = [first, later]

    async def ask(self, host: str) -> tuple[str, ...]:
        """The next answer."""
        await trio.lowlevel.checkpoint()
        return (self._answers.pop(0) if len(self._answers) > 1 else self._answers[0],)


@asynccontextmanager
async def serve(into: Path) -> AsyncIterator[Hostile]:
    """Serve the hostile web until the block is left; `into` gets the hosts file."""
    listeners = await _listeners()
    fortress = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    hosts = into / "hosts"
    hosts.write_text("".join(f"{address} {name}\n" for name, address in addresses().items()))
    hostile = Hostile(_port(listeners[0]), _port(fortress), hosts)
    async with trio.open_nursery() as nursery:

        async def trespass(stream: trio.SocketStream) -> None:
            hostile.trespasses += 1
            await stream.aclose()

        async def converse(stream: trio.SocketStream) -> None:
            await _converse(hostile, stream)

        nursery.start_soon(trio.serve_listeners, trespass, [fortress])
        nursery.start_soon(trio.serve_listeners, converse, listeners)
        yield hostile
        nursery.cancel_scope.cancel()


def _port(listener: trio.SocketListener) -> int:
    port: int = listener.socket.getsockname()[1]
    return port


async def _listeners() -> list[trio.SocketListener]:
    """A listener for each host, all at the same port."""
    while True:
        made: list[trio.SocketListener] = []
        try:
            for address in addresses().values():
                if address != "127.0.0.1":
                    port = _port(made[0]) if made else 0
                    made += await trio.open_tcp_listeners(port, host=address)
        except OSError as error:
            for listener in made:
                await listener.aclose()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return made


async def _converse(hostile: Hostile, stream: trio.SocketStream) -> None:
    async with stream:
        try:
            rest = b""
            while request := await _request(stream, rest):
                target, host, rest = request
                name = host.partition(":")[0].removesuffix(f".{DOMAIN}")
                hostile.requests[f"{name}.{DOMAIN}"].append(target)
                if name == "good":
                    await stream.send_all(_good(target))
                    continue
                await _nasty(
                    hostile, CASES.get(name), Talk(stream, target, hostile.port, hostile.fortress, host)
                )
                return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return


async def _nasty(hostile: Hostile, of: Case | None, talk: Talk) -> None:
    if of is None or (talk.target == "/robots.txt" and not of.own_robots):
        await talk.send(reply(b"", status="404 Not Found"))
    else:
        await of.handler(talk)


async def _request(stream: trio.SocketStream, received: bytes) -> tuple[str, str, bytes] | None:
    """The target and Host header of the next request, and what came after it; None when there is none."""
    while b"\r\n\r\n" not in received:
        more = await stream.receive_some(_CHUNK)
        if not more or len(received) > _MAX_HEAD:
            return None
        received += more
    asked, _, rest = received.partition(b"\r\n\r\n")
    first, *lines = asked.decode("latin-1").split("\r\n")
    hosts = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("host:")]
    return [*first.split(" "), ""][1], hosts[0] if hosts else "", rest
