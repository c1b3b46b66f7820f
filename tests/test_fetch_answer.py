"""Answers as they come in, without sockets."""

from __future__ import annotations

import gc
import weakref
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gcs.fetch.answer import Answer, parse_headers
from gcs.fetch.outcome import Reason

OK = b"HTTP/1.1 200 OK\r\n"
MAX_HEADER, MAX_BODY = 1000, 200


def taken(*pieces: bytes, bodiless: bool = False, closed: bool = True) -> Answer:
    """An answer that came in these pieces, after which the server closed."""
    answer = Answer(MAX_HEADER)
    answer.begin(MAX_BODY, bodiless=bodiless)
    for piece in pieces:
        if piece and answer.feed(bytearray(piece), len(piece)):
            return answer
    if closed:
        answer.end()
    return answer


def seen(answer: Answer) -> tuple[object, ...]:
    """All that matters of an answer."""
    if answer.reason is not None:
        return (answer.reason,)
    return answer.status, answer.head, answer.headers, answer.body, answer.truncated


@pytest.mark.parametrize(
    ("data", "body", "truncated", "keep_alive"),
    [
        (OK + b"Content-Length: 3\r\n\r\nabc", b"abc", "", True),
        (OK + b"Content-Length: 0\r\n\r\n", b"", "", True),
        (OK + b"Content-Length: 3\r\n\r\nab", b"ab", "disconnect", False),
        (OK + b"Content-Length: 3\r\n\r\n", b"", "disconnect", False),
        (OK + b"Content-Length: 3\r\n\r\nabcd", b"abc", "", False),
        (OK + b"Content-Length: 3\r\n\r\nabc" + OK + b"Content-Length: 3\r\n\r\nxyz", b"abc", "", False),
        (OK + b"Content-Length: 3\r\nConnection: close\r\n\r\nabc", b"abc", "", False),
        (OK + b"Content-Length: 3\r\nConnection: close\r\n\r\nabcd", b"abc", "", False),
        (OK + b"Content-Length: 3\r\nConnection: Keep-Alive\r\n\r\nabc", b"abc", "", True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"abc", "", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\nabc", b"abc", "", True),
        (b"HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nabc", b"abc", "", True),
        (OK + b"\r\nuntil the end", b"until the end", "", False),
        (OK + b"Transfer-Encoding: identity\r\n\r\nabc", b"abc", "", False),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", b"abcde", "", True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n3  \r\nabc\r\n0\r\nA: b\r\nC: d\r\n\r\n", b"abc", "", True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n", b"abc", "disconnect", False),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc", b"abc", "disconnect", False),
        (OK + b"Content-Length: 500\r\n\r\n" + b"x" * 500, b"x" * 200, "length", False),
        (OK + b"Content-Length: 200\r\n\r\n" + b"x" * 200, b"x" * 200, "", True),
        (b"HTTP/1.1 204 None\r\n\r\n", b"", "", True),
        (b"HTTP/1.1 204 None\r\n\r\nabc", b"", "", False),
        (b"HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n", b"", "", True),
        (b"HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", b"abc", "", True),
        (OK + b"X: \xff\x01\r\nContent-Length: 3\r\n\r\nabc", b"abc", "", True),
        (OK + b"Upgrade: h2\r\nConnection: Upgrade\r\nContent-Length: 3\r\n\r\nabc", b"abc", "", True),
    ],
)
def test_answers(data: bytes, body: bytes, truncated: str, keep_alive: bool) -> None:
    """Each way to end a body is understood, and says whether the connection can be used again."""
    answer = taken(data)
    assert answer.reason is None
    assert (answer.body, answer.truncated, answer.keep_alive) == (body, truncated, keep_alive)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", Reason.DISCONNECTED),
        (b"HTTP/1.1 200 OK\r\nContent-", Reason.DISCONNECTED),
        (b"SSH-2.0-OpenSSH_9.2\r\n", Reason.PROTOCOL),
        (b"-ERR unknown command\r\n", Reason.PROTOCOL),
        (b"<html>ninety</html>", Reason.PROTOCOL),
        (b"HTTP/banana\r\n\r\n", Reason.PROTOCOL),
        (b"HTTP/2 200 OK\r\n\r\n", Reason.PROTOCOL),
        (b"HTTP/1.1 2000 OK\r\n\r\n", Reason.PROTOCOL),
        (b"HTTP/1.1 000 OK\r\n\r\n", Reason.PROTOCOL),
        (b"HTTP/1.1 -1 OK\r\n\r\n", Reason.PROTOCOL),
        (b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", Reason.PROTOCOL),
        (b"HTTP/1.1 101 Switching\r\n\r\n", Reason.PROTOCOL),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 11, Reason.PROTOCOL),
        (OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", Reason.PROTOCOL),
        (OK + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc", Reason.PROTOCOL),
        (OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", Reason.PROTOCOL),
        (OK + b"Content-Length: -3\r\n\r\nabc", Reason.PROTOCOL),
        (OK + b"Content-Length: 99999999999999999999999\r\n\r\nabc", Reason.PROTOCOL),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nbanana\r\n", Reason.PROTOCOL),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffffffff\r\n", Reason.PROTOCOL),
        (OK + b"X: " + b"x" * 1000, Reason.HEADERS),
        (OK + b"X: " + b"x" * 1000 + b"\r\n\r\n", Reason.HEADERS),
        (OK + b"X: y\r\n" * 200 + b"\r\n", Reason.HEADERS),
    ],
)
def test_what_is_no_answer(data: bytes, reason: Reason) -> None:
    """What is not HTTP, contradicts itself or has too large a head ends with its reason."""
    answer = taken(data)
    assert answer.reason is reason
    assert answer.detail.endswith(".")
    assert not answer.keep_alive


def test_interim_answers_are_skipped() -> None:
    """Interim answers are passed over, and the head is that of the answer proper, to the byte."""
    head = b"HTTP/1.1 200 Very  OK\r\nContent-LENGTH:3\r\nX-A: 1 \r\nx-a:\t2\r\n\r\n"
    answer = taken(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: </x>\r\n\r\n" + head + b"abc")
    assert answer.head == head
    assert answer.headers == {"content-length": "3", "x-a": "1, 2"}
    assert answer.keep_alive


def test_heads_that_browsers_would_read() -> None:
    """Folded lines, lines that are no headers and a length said twice do not spoil an answer."""
    head = (
        OK
        + b"A: b\r\n  c\r\nNot A Header: x\r\nrubbish\r\nX : y\r\n"
        + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\n"
    )
    answer = taken(head + b"abc")
    assert answer.head == head
    assert answer.headers == {"a": "b c", "x": "y", "content-length": "3"}
    assert answer.body == b"abc"
    assert not answer.keep_alive


def test_answers_without_a_body() -> None:
    """An answer to HEAD has no body, whatever its head says, and the next answer is read as ever."""
    answer = taken(OK + b"Content-Length: 500\r\n\r\n", bodiless=True)
    assert (answer.status, answer.body, answer.truncated, answer.keep_alive) == (200, b"", "", True)
    answer.begin(MAX_BODY)
    data = bytearray(OK + b"Content-Length: 3\r\n\r\nabc")
    assert answer.feed(data, len(data))
    assert answer.body == b"abc"
    assert answer.alone


def test_an_unclean_end_is_a_cut() -> None:
    """A body until the end of the connection is whole only if the connection ended properly."""
    answer = taken(OK + b"\r\nabc", closed=False)
    answer.end(clean=False)
    assert answer.truncated == "disconnect"
    answer.end()
    assert answer.truncated == "disconnect"


def test_an_end_after_the_end() -> None:
    """That the server closes after a whole answer changes nothing."""
    answer = taken(OK + b"Content-Length: 3\r\n\r\nabc")
    answer.end(clean=False)
    assert (answer.body, answer.truncated, answer.keep_alive) == (b"abc", "", True)


def test_the_rest_of_the_buffer_is_not_looked_at() -> None:
    """Only as many bytes count as were received; the buffer may hold others from before."""
    answer = Answer(MAX_HEADER)
    answer.begin(MAX_BODY)
    data = bytearray(OK + b"Content-Length: 3\r\n\r\nabcOLD BYTES")
    assert answer.feed(data, len(data) - 9)
    assert answer.body == b"abc"
    assert answer.keep_alive


def test_nothing_waits_for_the_garbage_collector() -> None:
    """An answer is gone with its last reference: its parser does not hold it."""

    class Traced(Answer):
        __slots__ = ("__weakref__",)

    gc.disable()
    try:
        answer = Traced(MAX_HEADER)
        answer.begin(MAX_BODY)
        data = bytearray(OK + b"Content-Length: 3\r\n\r\nabc")
        answer.feed(data, len(data))
        events = answer._events
        gone = weakref.ref(answer)
        del answer
        assert gone() is None
        assert len(gc.get_referrers(events)) <= 1
    finally:
        gc.enable()


def test_header_names_and_values() -> None:
    """Names are lower case, values are trimmed, bytes beyond ASCII are kept."""
    assert parse_headers(b"HTTP/1.1 200 OK\nA:\t b\xe9 \nEmpty:\n\n") == {"a": "bé", "empty": ""}


HEADS = st.sampled_from(
    [
        OK + b"Content-Length: 12\r\n\r\n",
        OK + b"\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.0 200 OK\nX: y\n\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 5\r\n\r\n",
        b"HTTP/1.1 204 OK\r\n\r\n",
        OK + b"no header\r\nA: b\r\n folded\r\nContent-Length: 4\r\n\r\n",
        OK + b"X: " + b"y" * 970 + b"\r\n\r\n",
        OK + b"X: " + b"y" * 990 + b"\r\n\r\n",
    ]
)
BODIES = st.one_of(
    st.binary(max_size=300),
    st.lists(st.binary(min_size=1, max_size=90), max_size=5).map(
        lambda chunks: b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in chunks) + b"0\r\nT: x\r\n\r\n"
    ),
)


@given(HEADS, BODIES, st.integers(0, 1500), st.lists(st.integers(0, 1500), max_size=8))
@example(OK + b"\r\n", b"", 10**6, list(range(20)))
def test_pieces_do_not_matter(head: bytes, body: bytes, cut: int, at: list[int]) -> None:
    """An answer cut off at any byte, and sent in any pieces, is the same as when it comes at once."""
    data = (head + body)[:cut]
    places = sorted({0, *(min(place, len(data)) for place in at), len(data)})
    pieces = [data[a:b] for a, b in pairwise(places)]
    assert seen(taken(*pieces)) == seen(taken(data))
    assert seen(taken(*(data[n : n + 1] for n in range(len(data))))) == seen(taken(data))


@given(
    st.binary(max_size=400),
    st.sampled_from([b"", b"HTTP/1.1 ", OK, OK + b"Transfer-Encoding: chunked\r\n\r\n"]),
)
def test_any_bytes_end_in_a_value(data: bytes, before: bytes) -> None:
    """Arbitrary bytes are an answer within the limits, or have a reason."""
    answer = taken(before + data)
    assert answer.reason is not None or (200 <= answer.status <= 999 and len(answer.body) <= MAX_BODY)
