"""What a gatherer and a helper write to each other: bundles of URLs to be fetched, and answers.

    ("bundle", id, bytes)                      in URLTS: some URLs of one host
    ("answer", gatherer, id, helper, bytes)    in SummaryTS: what came of some of them

Both are sealed: they begin with a code that only who has the key can make (HMAC-SHA256). An answer names its
bundle, whose id nobody can guess and which counts once. What is inside is read with all its types and bounds
checked, so whoever reads it need not fear what a helper wrote.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, Any, Final, cast

import msgspec
from isal import isal_zlib
from msgspec import Meta, Struct

from gcs.core.traps import Fingerprint
from gcs.core.urls import MAX_LENGTH
from gcs.fetch.answer import end_of_head, parse_headers
from gcs.fetch.outcome import Elsewhere, Origin, Response
from gcs.summary.records import Document
from gcs.summary.wire import PLAIN, Wire, is_modest

VERSION: Final = 2
BUNDLE: Final = "bundle"
ANSWER: Final = "answer"
MOST_URLS: Final = 64
KEY_BYTES: Final = 32
ID_BYTES: Final = 16
"""Of the id of a bundle, which nobody must be able to guess."""
MAX_BODY_BYTES: Final = 2 << 20
"""The largest body, as sent, that a helper gives back; its gatherer fetches what is larger."""
HANDED_S: Final = 5.0
"""A bundle may have been handed over so long ago when its taker sees it: the length of its lease."""
PART_BYTES: Final = 256 << 10
"""With so many bytes of pages an answer is sent, and the next one begun."""
_MAX_SENT_BYTES: Final = 1 << 20
LONGEST_BYTES: Final = _MAX_SENT_BYTES + 1024
"""No tuple is longer that has a bundle or an answer in it, and its names: it would not be opened."""
_MAX_READ_BYTES: Final = 4 << 20
_MAX_HEAD_BYTES: Final = 64 << 10
_MAX_MEANT_BYTES: Final = 1 << 32
_SEAL_BYTES: Final = 32
_SEAL: Final = "sha256"
_TRUNCATED: Final = frozenset({"", "length", "time", "disconnect", "unspecified"})
_FIRST_STATUS, _LAST_STATUS = 200, 999
_LATEST: Final = 4e9
"""No time of a fetch is later."""
_SLACK_S: Final = 1.0
_PAGE_BYTES, _LINK_BYTES = 4096, 400
"""What a page takes beside its bodies, and a link with its texts, about."""
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
"""What no head of ours has: it would end up in logs, archives and terminals."""
_Name = Annotated[str, Meta(max_length=100, pattern=PLAIN)]
_Path = Annotated[str, Meta(min_length=1, max_length=MAX_LENGTH, pattern=r"^/[!-~]*\Z")]


class Refusal(StrEnum):
    """Why something that was written is not taken."""

    SEAL = "not sealed by who it says it is from"
    SIZE = "larger than it may be"
    FORM = "not of the form that it should have"
    UNKNOWN = "not, or no longer, asked for"
    REPEATED = "already answered"
    STRANGER = "from somebody who was not invited, or no longer is"
    UNTRUE = "at odds with itself"
    BLOCKED = "about what operators have blocked since"
    ROOM = "more than can be held until it is checked"


class Refused(ValueError):
    """It is not taken, and why."""

    def __init__(self, why: Refusal) -> None:
        super().__init__(why.value)
        self.why = why


class Bundle(Struct, array_like=True, frozen=True):
    """Some URLs of one host, to be asked for one after the other."""

    version: int
    id: _Name
    crawl: _Name
    gatherer: _Name
    """Its id: where the answers go."""
    scheme: Annotated[str, Meta(pattern=r"^https?\Z")]
    host: Annotated[str, Meta(min_length=1, max_length=255)]
    port: Annotated[int, Meta(ge=1, le=65535)]
    paths: Annotated[list[_Path], Meta(min_length=1, max_length=MOST_URLS)]
    delay_s: Annotated[float, Meta(ge=0, le=86_400)]
    """The least time from one request to the next."""
    delay_factor: Annotated[float, Meta(ge=0, le=1_000)]
    """And so many times what the last answer took, if that is more."""
    max_delay_s: Annotated[float, Meta(ge=0, le=86_400)]
    """But not more than this for that reason."""
    expected_s: Annotated[float, Meta(ge=0, le=86_400)]
    """How long all of it should take."""
    within_s: Annotated[float, Meta(gt=0, le=86_400)]
    """Nothing is asked for, or answered, later than this after the bundle was taken."""
    epoch: int
    """That of what operators had ruled."""
    agent: Annotated[str, Meta(max_length=300)]
    level: Annotated[str, Meta(pattern=r"^(full|links)\Z")]
    keep: bool
    """Whether the bodies are wanted too."""
    max_body_bytes: Annotated[int, Meta(ge=1, le=MAX_BODY_BYTES)]

    @property
    def origin(self) -> Origin:
        """Whom to ask."""
        return Origin(self.scheme, self.host, self.port)

    def sealed(self, key: bytes) -> bytes:
        """As it is written into URLTS."""
        return _sealed(key, (BUNDLE,), msgspec.msgpack.encode(self))

    @classmethod
    def opened(cls, data: bytes, key: bytes) -> Bundle:
        """The inverse of `sealed`; raises Refused."""
        bundle: Bundle = _decoded(_bundles, _unsealed(key, (BUNDLE,), data))
        if bundle.version != VERSION:
            raise Refused(Refusal.FORM)
        return bundle


class Page(Struct, array_like=True, frozen=True):
    """What came of one URL of a bundle."""

    number: Annotated[int, Meta(ge=0, lt=MOST_URLS)]
    """Which one."""
    failure: _Name = ""
    """Why there is nothing to tell; then the rest is empty, and its gatherer asks itself."""
    started: float = 0.0
    total_s: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    address: _Name = ""
    status: int = 0
    head: Annotated[bytes, Meta(max_length=_MAX_HEAD_BYTES)] = b""
    request: Annotated[bytes, Meta(max_length=_MAX_HEAD_BYTES)] = b""
    raw: Annotated[bytes, Meta(max_length=MAX_BODY_BYTES)] | None = None
    """The body as sent, if it was wanted."""
    raw_bytes: Annotated[int, Meta(ge=0, le=MAX_BODY_BYTES)] = 0
    body_bytes: Annotated[int, Meta(ge=0, le=_MAX_MEANT_BYTES)] = 0
    truncated: _Name = ""
    digest: Annotated[bytes, Meta(max_length=20)] = b""
    """SHA-1 of the body as sent."""
    exact: Annotated[int, Meta(ge=0)] = 0
    shape: Annotated[int, Meta(ge=0)] = 0
    """The two sums of its fingerprint."""
    document: Wire | None = None

    @classmethod
    def told(
        cls,
        number: int,
        response: Response,
        document: Document | None,
        fingerprint: Fingerprint | None,
        *,
        keep: bool,
    ) -> Page:
        """What a helper tells of a response."""
        return cls(
            number=number,
            started=response.started,
            total_s=response.total_s,
            address=response.address,
            status=response.status,
            head=response.head,
            request=response.request,
            raw=response.raw if keep else None,
            raw_bytes=len(response.raw),
            body_bytes=len(response.body),
            truncated=response.truncated,
            digest=response.digest(),
            exact=fingerprint.exact if fingerprint else 0,
            shape=fingerprint.shape if fingerprint else 0,
            document=None if document is None else Wire(*cast("tuple[Any, ...]", document)),
        )

    @property
    def read(self) -> Document | None:
        """What the page says."""
        return None if self.document is None else Document(*self.document)

    @property
    def weight(self) -> int:
        """About how many bytes it takes in memory."""
        document = self.document
        links = 0 if document is None else sum(map(len, document.hrefs)) + _LINK_BYTES * len(document.hrefs)
        return _PAGE_BYTES + len(self.raw or b"") + len(self.head) + len(self.request) + links

    @property
    def fingerprint(self) -> Fingerprint:
        """What tells the page from others."""
        return Fingerprint(self.exact, self.shape)

    def response(self, bundle: Bundle) -> Response:
        """The response that a page tells of; raises Refused if that cannot have been."""
        path = bundle.paths[self.number]
        netloc = bundle.origin.netloc
        asked = tuple(
            f"GET {target} HTTP/1.1\r\nHost: {netloc}\r\n".encode("ascii", "replace")
            for target in (path, f"{bundle.origin}{path}")  # the latter through a proxy
        )
        is_whole = self.raw is not None or not bundle.keep
        is_page = 200 <= self.status < 300
        if (
            not _FIRST_STATUS <= self.status <= _LAST_STATUS
            or not 0 <= self.started < _LATEST
            or not 0 <= self.total_s <= bundle.within_s + _SLACK_S
            or not _is_address(self.address)
            or not self.head.startswith(b"HTTP/1.")
            or end_of_head(bytearray(self.head), 0, len(self.head)) != len(self.head)
            or self.request.find(b"\r\n\r\n") != len(self.request) - 4
            or self.head[9:12] != b"%d" % self.status
            or not self.request.startswith(asked)
            or _CONTROLS.search(self.head) is not None
            or _CONTROLS.search(self.request) is not None
            or self.truncated not in _TRUNCATED
            or len(self.digest) != 20
            or not is_whole
            or is_page != (self.document is not None)
            or (self.document is not None and not is_modest(Document(*self.document)))
        ):
            raise Refused(Refusal.UNTRUE)
        raw = self.raw or b""
        if bundle.keep and (
            len(raw) != self.raw_bytes or hashlib.sha1(raw, usedforsecurity=False).digest() != self.digest
        ):
            raise Refused(Refusal.UNTRUE)
        return Response(
            status=self.status,
            head=self.head,
            headers=parse_headers(self.head),
            body=b"",
            raw=raw,
            truncated=self.truncated,
            request=self.request,
            address=self.address,
            started=self.started,
            connect_s=0.0,
            first_byte_s=0.0,
            total_s=self.total_s,
            reused=True,
            elsewhere=Elsewhere(self.raw_bytes, self.body_bytes, self.digest),
        )


class Answer(Struct, array_like=True, frozen=True):
    """What came of some URLs of a bundle; the last one says so, also when there are some left."""

    version: int
    part: Annotated[int, Meta(ge=0, lt=MOST_URLS + 1)]
    last: bool
    pages: Annotated[list[Page], Meta(max_length=MOST_URLS)]

    def sealed(self, key: bytes, gatherer: str, bundle: str, helper: str) -> bytes:
        """As it is written into SummaryTS; raises Refused for one that is too large."""
        packed = isal_zlib.compress(msgspec.msgpack.encode(self), 1)
        if len(packed) > _MAX_SENT_BYTES - 1024:
            raise Refused(Refusal.SIZE)
        return _sealed(key, (ANSWER, gatherer, bundle, helper), packed)

    @classmethod
    def opened(cls, data: bytes, key: bytes, gatherer: str, bundle: str, helper: str) -> Answer:
        """The inverse of `sealed`; raises Refused."""
        packed = _unsealed(key, (ANSWER, gatherer, bundle, helper), data)
        reader = isal_zlib.decompressobj()
        try:
            told = reader.decompress(packed, _MAX_READ_BYTES)
        except _InflateError:
            raise Refused(Refusal.FORM) from None
        if not reader.eof:
            raise Refused(Refusal.SIZE)
        answer: Answer = _decoded(_answers, told)
        if answer.version != VERSION:
            raise Refused(Refusal.FORM)
        return answer


_InflateError: Final = cast("type[Exception]", isal_zlib.error)
_bundles: Final = msgspec.msgpack.Decoder(Bundle)
_answers: Final = msgspec.msgpack.Decoder(Answer)


def _decoded(decoder: msgspec.msgpack.Decoder[Any], data: bytes) -> Any:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused(Refusal.FORM) from None


def _seal(key: bytes, names: Sequence[str], data: bytes) -> bytes:
    return hmac.digest(key, "\0".join((*names, "")).encode() + data, _SEAL)


def _sealed(key: bytes, names: Sequence[str], data: bytes) -> bytes:
    return _seal(key, names, data) + data


def _unsealed(key: bytes, names: Sequence[str], data: bytes) -> bytes:
    if len(data) > _MAX_SENT_BYTES:
        raise Refused(Refusal.SIZE)
    inside = data[_SEAL_BYTES:]
    if not hmac.compare_digest(_seal(key, names, inside), data[:_SEAL_BYTES]):
        raise Refused(Refusal.SEAL)
    return inside


def _is_address(text: str) -> bool:
    """Whether it is an address, or nothing; without a scope (`fe80::1%eth0`), which may be any text."""
    try:
        return not text or ("%" not in text and bool(ip_address(text)))
    except ValueError:
        return False
