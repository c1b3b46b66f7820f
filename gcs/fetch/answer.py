"""One answer of a server, as it comes in: bytes are fed, and it says when it has enough. No I/O.

llhttp decides where an answer ends; this module finds the end of the head before llhttp sees it, so that
`head` is exactly what was received, holds the limits, skips interim answers, and turns what is wrong into a
reason. However the bytes are cut into pieces, the result is the same. An Answer belongs to one connection and
is begun anew for each request on it; its parser holds no reference back, so nothing waits for the garbage
collector.
"""

from __future__ import annotations

import re
from typing import Final

import httptools

from gcs.fetch.outcome import Reason

_MAX_INTERIM: Final = 10
_START: Final = b"HTTP/"
_FOLD = re.compile(rb"\r?\n[ \t]+")
_HEADER = re.compile(r"\n([^:\n]++):([^\n]*+)").findall
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_LENIENT: Final = {
    # Old servers end lines with LF alone, pad chunk sizes with blanks, put control characters into values.
    "lenient_headers": True,
    "lenient_optional_cr_before_lf": True,
    "lenient_spaces_after_chunk_size": True,
}


class _Events:
    """What llhttp has seen since the answer began."""

    __slots__ = ("complete", "extra", "headers_complete", "pieces", "size")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.headers_complete = self.complete = self.extra = False
        self.pieces: list[bytes] = []
        self.size = 0

    def on_message_begin(self) -> None:
        if self.complete:
            self.extra = True

    def on_headers_complete(self) -> None:
        self.headers_complete = True

    def on_body(self, data: bytes) -> None:
        if not self.extra:
            self.pieces.append(data)
            self.size += len(data)

    def on_message_complete(self) -> None:
        self.complete = True


class Answer:
    """What has come of an answer. After `begin`: `feed` until it says that it has enough, or `end`."""

    __slots__ = (
        "_bodiless",
        "_events",
        "_interim",
        "_max_body",
        "_max_header",
        "_mended",
        "_parser",
        "_pending",
        "_until_close",
        "detail",
        "head",
        "headers",
        "reason",
        "received",
        "status",
        "truncated",
    )

    def __init__(self, max_header_bytes: int) -> None:
        """Make the parser, for all answers on one connection."""
        self._max_header = max_header_bytes
        self._events = _Events()
        self._parser: httptools.HttpResponseParser | None = None
        self.begin(0)

    def begin(self, max_body_bytes: int, *, bodiless: bool = False) -> None:
        """Expect the next answer; `bodiless` if it has none whatever its head says (HEAD, CONNECT)."""
        self._max_body = max_body_bytes
        self._bodiless = bodiless
        self._events.clear()
        self._pending = bytearray()
        self._interim = 0
        self._until_close = self._mended = False
        self.received = self.status = 0
        self.head = b""
        self.headers: dict[str, str] = {}
        self.reason: Reason | None = None
        self.detail = ""
        self.truncated = ""

    def forget(self) -> None:
        """Let go of what came; an idle connection must not hold its last page."""
        self._events.pieces = []
        self._pending = bytearray()
        self.head, self.headers = b"", {}

    @property
    def body(self) -> bytes:
        """The body as sent, without chunking, cut at the limit."""
        pieces = self._events.pieces
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return body if len(body) <= self._max_body else body[: self._max_body]

    @property
    def keep_alive(self) -> bool:
        """Whether another request may follow: the answer is whole, and nothing came after it."""
        if not self.alone or self.truncated or self.reason or self._until_close or self._mended:
            return False
        connection = self.headers.get("connection")
        if connection is None:
            return self.head.startswith(b"HTTP/1.1")
        tokens = connection.lower()
        return "close" not in tokens and ("keep-alive" in tokens or self.head.startswith(b"HTTP/1.1"))

    @property
    def alone(self) -> bool:
        """Whether the answer is whole and nothing came after it."""
        return self._events.complete and not self._events.extra

    def feed(self, data: bytearray, size: int) -> bool:
        """Take the first `size` bytes of `data`; True once the answer has ended or no more is wanted."""
        self.received += size
        if self.status:
            return self._feed_body(memoryview(data)[:size])
        if self._pending:
            # What a head's end may have begun with is searched once more, the rest is not.
            searched = max(0, len(self._pending) - 2)
            self._pending += memoryview(data)[:size]
            return self._feed_head(self._pending, len(self._pending), searched)
        return self._feed_head(data, size, 0)

    def end(self, *, clean: bool = True) -> None:
        """No more comes: the server has closed, `clean` unless the connection broke."""
        if self.reason or self._events.complete:
            return
        if not self.status:
            self._fail(
                Reason.DISCONNECTED, "The server closed the connection before its answer was complete."
            )
        elif self._until_close and clean:
            self._events.complete = True
        else:
            self.truncated = self.truncated or "disconnect"

    def _feed_head(self, data: bytearray, size: int, searched: int) -> bool:
        start = 0
        while True:
            if not _START.startswith(data[start : min(size, start + 5)]):
                return self._fail(Reason.PROTOCOL, "What came is not an answer in HTTP.")
            end = end_of_head(data, searched, size)
            if (end if end >= 0 else size) - start > self._max_header:
                return self._fail(Reason.HEADERS, f"The head is longer than {self._max_header} bytes.")
            if end < 0:
                self._pending = data[start:size]
                return False
            if self._take_head(bytes(memoryview(data)[start:end])):
                break
            if self.reason:
                return True
            start = searched = end
        if end == size or self._events.complete:
            self._events.extra |= end < size
            return self._events.complete
        return self._feed_body(memoryview(data)[end:size])

    def _take_head(self, head: bytes) -> bool:
        """Whether this is the head of the answer proper; False for an interim one, and on failure."""
        events = self._events
        readable = head
        if not self._parse(head):
            readable = _mended(head)
            if not self._parse(readable, again=True):
                return False
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 200:
            self._interim += 1
            if status < 100 or self._interim > _MAX_INTERIM or not events.complete:
                self._fail(Reason.PROTOCOL, "No answer came but interim ones.")
            events.clear()
            return False
        self.status, self.head = status, head
        self.headers = headers = parse_headers(readable)
        if self._bodiless:
            # llhttp cannot be told that no body comes; it would wait for one.
            self._parser = None
            events.complete = True
        elif not events.complete and "content-length" not in headers:
            codings = headers.get("transfer-encoding", "")
            self._until_close = codings.rpartition(",")[2].strip().lower() != "chunked"
        return True

    def _parse(self, head: bytes, *, again: bool = False) -> bool:
        """Whether llhttp takes this for a head; `again` begins anew, with a parser for this answer only."""
        if self._parser is None or again:
            self._events.clear()
            self._parser = httptools.HttpResponseParser(self._events)
            self._parser.set_dangerous_leniencies(**_LENIENT)
            self._mended |= again
        detail = ""
        try:
            self._parser.feed_data(head)
        except httptools.HttpParserError as error:
            detail = f": {error}"
        except httptools.HttpParserUpgrade:
            detail = ": it changes to another protocol"
        if self._events.headers_complete and not detail:
            self.reason = None
            return True
        self._fail(Reason.PROTOCOL, f"The head of the answer is malformed{detail}.")
        return False

    def _feed_body(self, data: memoryview) -> bool:
        events = self._events
        assert self._parser is not None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if events.complete:
                events.extra = True
            elif not events.size:
                self._fail(Reason.PROTOCOL, f"The body of the answer is malformed: {error}.")
            else:
                self.truncated = "disconnect"
        if events.size > self._max_body:
            self.truncated = "length"
        return events.complete or bool(self.truncated) or self.reason is not None

    def _fail(self, reason: Reason, detail: str) -> bool:
        self.reason, self.detail = reason, detail
        return True


def end_of_head(data: bytearray, start: int, size: int) -> int:
    """Where the first empty line ends, or -1."""
    usual = data.find(b"\n\r\n", start, size)
    bare = data.find(b"\n\n", start, size if usual < 0 else usual)
    if bare >= 0:
        return bare + 2
    return usual + 3 if usual >= 0 else -1


def _mended(head: bytes) -> bytes:
    """A head as browsers would read it: folded lines unfolded, and without lines that are no headers.

    A length that is said twice is one length; two lengths stay an error.
    """
    first, *lines = _FOLD.sub(b" ", head).split(b"\n")
    kept = [first]
    for line in lines:
        name, colon, value = line.partition(b":")
        line = name.rstrip(b" \t") + colon + value  # noqa: PLW2901 (as it should be)
        if line in (b"", b"\r") or (_NAME(name.rstrip(b" \t")) and colon):
            repeated = name.strip().lower() == b"content-length" and line in kept
            kept += [] if repeated else [line]
    return b"\n".join(kept)


def parse_headers(head: bytes) -> dict[str, str]:
    """The headers of a head: lower-case names, repeated ones joined with ", "."""
    pairs = _HEADER(head.decode("latin-1"))
    headers = {name.lower(): value.strip(" \t\r") for name, value in pairs}
    if len(headers) < len(pairs):
        headers.clear()
        for name, value in pairs:
            before = headers.get(name.lower())
            value = value.strip(" \t\r")  # noqa: PLW2901 - as it was meant
            headers[name.lower()] = value if before is None else f"{before}, {value}"
    return headers
