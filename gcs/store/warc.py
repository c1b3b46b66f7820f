"""WARC 1.1: the records of a page, each a gzip member or zstd frame of its own.

A page has up to three records: the response (or, where the same payload was kept before, a revisit: the
server says so, or the payload does), the request, and metadata. Payload digests cover the body without the
HTTP header. Block digests, which are optional, are left out: what no payload digest covers, the checksum of
its member or frame guards as well.

A response is kept as it was received, less the chunking: readers take it from `Transfer-Encoding` that
there is some to remove, and would misread a body that happens to begin like a chunk, so that header is kept
under the name `X-Archive-Orig-Transfer-Encoding`.

What was not fetched over HTTP, such as a file, is a resource: its record has the payload and nothing else.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import zstandard
from isal import isal_zlib

_GZIP = 31
"""The window of 32 KiB, in the gzip container."""
_LEVEL = 1
_SMALL = 640
"""Bytes up to which a record is compressed in the quickest way: the better way would save 3% of an archive
with the records of requests and metadata, and take a quarter as long as compressing the page."""
_END = b"\r\n\r\n"
_CHUNKED = re.compile(rb"(?im)^(transfer-encoding[ \t]*:)")
_KEPT_NAME = rb"X-Archive-Orig-\1"
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]+")

_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".ljust(256)
_HALVES: Final = tuple(
    (bits, sum(((1 << bits) - 1) << at for at in range(0, 256, 16 * bits // 5)))
    for bits in (80, 40, 20, 10, 5)
)
_SPREAD: Final = tuple((lower, lower << bits, 8 * bits // 5 - bits) for bits, lower in _HALVES)
"""For each step of `base32`: the lower and the upper halves of all fields, and how far the upper move."""


class Original(NamedTuple):
    """The page whose record has the payload that a revisit does not repeat."""

    url: str
    at: float


class Exchange(NamedTuple):
    """A request and what came back, as they are kept."""

    url: str
    at: float
    """Unix time."""
    request: bytes
    """Empty for what was not fetched over HTTP."""
    head: bytes
    """The status line and headers of the response, with the empty line."""
    payload: bytes
    """The body as sent, less chunking."""
    address: str = ""
    truncated: str = ""
    """Why the body is not whole: "length", "time", "disconnect", "unspecified"; empty if it is."""
    digest: str = ""
    """Of the payload, as `digest_of` gives it, if it is known already."""
    metadata: Mapping[str, str] | None = None
    original: Original | None = None
    content_type: str = ""
    """That of a resource."""


class Builder:
    """Makes records in one of the two compressions."""

    def __init__(self, pages: str, about: Mapping[str, str] | None = None) -> None:
        """For `store.pages`, and what the first record of each file says, such as software and operator."""
        self._about = dict(about or {})
        self._compress = _gzip if pages != "warc.zst" else _zstd()
        self._date = Dates("%Y-%m-%dT%H:%M:%S.", 6, "Z")

    def warcinfo(self, filename: str) -> bytes:
        """The record that a file begins with."""
        fields = {"format": "WARC File Format 1.1", **self._about}
        block = _fields(fields)
        header = (
            f"WARC-Type: warcinfo\r\nWARC-Record-ID: <urn:uuid:{_ids()[0]}>\r\nWARC-Filename: {filename}\r\n"
            f"WARC-Date: {self._date(time.time())}\r\nContent-Type: application/warc-fields\r\n"
        )
        return self._record(header, block)

    def page(self, exchange: Exchange) -> list[bytes]:
        """The records of one page: response or revisit and request, or the resource; and any metadata."""
        one, two, three = _ids()
        common = f"WARC-Target-URI: {exchange.url}\r\nWARC-Date: {self._date(exchange.at)}\r\n"
        concurrent = f"{common}WARC-Concurrent-To: <urn:uuid:{one}>\r\n"
        at_address = f"WARC-IP-Address: {exchange.address}\r\n" if exchange.address else ""
        if exchange.request:
            records = [
                self._response(one, common + at_address, exchange),
                self._record(
                    f"WARC-Type: request\r\nWARC-Record-ID: <urn:uuid:{two}>\r\n{concurrent}{at_address}"
                    "Content-Type: application/http; msgtype=request\r\n",
                    exchange.request,
                ),
            ]
        else:
            records = [self._resource(one, common, exchange)]
        if exchange.metadata:
            header = (
                f"WARC-Type: metadata\r\nWARC-Record-ID: <urn:uuid:{three}>\r\n{concurrent}"
                "Content-Type: application/warc-fields\r\n"
            )
            records.append(self._record(header, _fields(exchange.metadata)))
        return records

    def _response(self, record_id: str, common: str, exchange: Exchange) -> bytes:
        head, payload, original = exchange.head, exchange.payload, exchange.original
        # Looking for part of a word is far cheaper than the regular expression, and most responses lack it.
        if b"hunked" in head or b"HUNKED" in head:
            head = _CHUNKED.sub(_KEPT_NAME, head)
        digest = exchange.digest or digest_of(hashlib.sha1(payload, usedforsecurity=False).digest())
        cut = f"WARC-Truncated: {exchange.truncated}\r\n" if exchange.truncated else ""
        kind = "response"
        if original is not None:
            kind, payload, cut = "revisit", b"", self._refers_to(original, head)
        # Of a payload that was not sent nobody knows the digest.
        payload_digest = f"WARC-Payload-Digest: {digest}\r\n" if not _is_not_modified(head) else ""
        header = (
            f"WARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{record_id}>\r\n{common}{cut}{payload_digest}"
            "Content-Type: application/http; msgtype=response\r\n"
        )
        return self._record(header, head, payload)

    def _resource(self, record_id: str, common: str, exchange: Exchange) -> bytes:
        cut = f"WARC-Truncated: {exchange.truncated}\r\n" if exchange.truncated else ""
        header = (
            f"WARC-Type: resource\r\nWARC-Record-ID: <urn:uuid:{record_id}>\r\n{common}{cut}"
            f"WARC-Payload-Digest: {exchange.digest}\r\n"
            f"Content-Type: {exchange.content_type or 'application/octet-stream'}\r\n"
        )
        return self._record(header, exchange.payload)

    def _refers_to(self, original: Original, head: bytes) -> str:
        profile = "server-not-modified" if _is_not_modified(head) else "identical-payload-digest"
        return (
            f"WARC-Profile: http://netpreserve.org/warc/1.1/revisit/{profile}\r\n"
            f"WARC-Refers-To-Target-URI: {original.url}\r\nWARC-Refers-To-Date: {self._date(original.at)}\r\n"
        )

    def _record(self, header: str, block: bytes, payload: bytes = b"") -> bytes:
        head = f"WARC/1.1\r\n{header}Content-Length: {len(block) + len(payload)}\r\n\r\n".encode()
        return self._compress(b"".join((head, block, payload, _END)))


def _is_not_modified(head: bytes) -> bool:
    return head[8:13] == b" 304 "


def digest_of(sha1: bytes) -> str:
    """A digest as WARC and the crawl log have it."""
    return f"sha1:{base32(sha1)}"


def base32(digest: bytes) -> str:
    """A digest of 20 bytes in base 32, as WARC has it; the standard library takes twice as long.

    All of it is one number, whose 160 bits are halved into fields that move apart, until there are 32 fields
    of five bits, each in a byte.
    """
    number = int.from_bytes(digest, "big")
    for lower, upper, gap in _SPREAD:
        number = number & lower | (number & upper) << gap
    return number.to_bytes(32, "big").translate(_ALPHABET).decode("ascii")


def digits_of_now() -> str:
    """The 14 digits of the time that name a file."""
    return time.strftime("%Y%m%d%H%M%S", time.gmtime())


class Dates:
    """Writes times; those of one second share most of their text."""

    def __init__(self, pattern: str, digits: int, end: str = "") -> None:
        """The pattern is for `time.strftime`; so many digits of the fraction follow, and an end."""
        self._pattern, self._digits, self._end = pattern, digits, end
        self._unit = 10 ** (6 - digits)
        self._second = -1
        self._text = ""

    def __call__(self, at: float) -> str:
        """A Unix time in UTC."""
        second, micros = divmod(round(at * 1e6), 1_000_000)
        if second != self._second:
            self._text = time.strftime(self._pattern, time.gmtime(second))
            self._second = second
        return f"{self._text}{micros // self._unit:0{self._digits}}{self._end}"


def _ids() -> tuple[str, str, str]:
    """Three new random identities (RFC 9562, version 4), which differ in one digit."""
    d = os.urandom(16).hex()
    rest = f"-{d[8:12]}-4{d[13:16]}-a{d[17:20]}-{d[20:]}"
    return f"{d[:7]}1{rest}", f"{d[:7]}2{rest}", f"{d[:7]}3{rest}"


def _fields(fields: Mapping[str, str]) -> bytes:
    """Named fields, one to a line; a control character within one becomes a space."""
    if not "".join(fields.values()).isprintable():
        fields = {name: _UNPRINTABLE.sub(" ", value) for name, value in fields.items()}
    return "".join([f"{name}: {value}\r\n" for name, value in fields.items()]).encode("utf-8", "replace")


def _gzip(data: bytes) -> bytes:
    return isal_zlib.compress(data, _LEVEL if len(data) > _SMALL else 0, _GZIP)


def _zstd() -> Callable[[bytes], bytes]:
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress
