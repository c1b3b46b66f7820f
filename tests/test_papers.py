"""What gatherers and helpers write to each other: sealed, bounded, and checked field by field."""

from __future__ import annotations

import zlib
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.core.traps import Fingerprint
from gcs.fetch.outcome import Response
from gcs.helper import papers
from gcs.helper.papers import Answer, Bundle, Page, Refusal, Refused
from gcs.summary import records
from gcs.summary.records import Document, Heading
from gcs.summary.wire import Wire

KEY, OTHER = b"k" * 32, b"o" * 32
NAMES = ("gatherer", "id", "helper")


def bundle(**changes: Any) -> Bundle:
    """A bundle of two URLs."""
    said: dict[str, Any] = {
        "version": papers.VERSION,
        "id": "f" * 32,
        "crawl": "crawl",
        "gatherer": "gatherer",
        "scheme": "http",
        "host": "example.org",
        "port": 80,
        "paths": ["/", "/a?b"],
        "delay_s": 1.0,
        "delay_factor": 3.0,
        "max_delay_s": 60.0,
        "expected_s": 3.0,
        "within_s": 10.0,
        "epoch": 7,
        "agent": "gcs (mail@example.org)",
        "level": "full",
        "keep": True,
        "max_body_bytes": 1000,
    }
    return Bundle(**said | changes)


def response(status: int = 200, raw: bytes = b"<p>", path: str = "/") -> Response:
    """What a server said."""
    request = f"GET {path} HTTP/1.1\r\nHost: example.org\r\n\r\n".encode()
    head = b"HTTP/1.1 %d OK\r\nContent-Type: text/html\r\n\r\n" % status
    headers = {"content-type": "text/html"}
    return Response(status, head, headers, raw, raw, "", request, "192.0.2.1", 5.0, 0.0, 0.1, 0.2, False)


def told(number: int = 0, **changes: Any) -> Page:
    """What a helper says of a page."""
    document = Document(format="text/html", title="A title", hrefs=["/x"], texts=["x"])
    page = Page.told(number, response(), document, Fingerprint(1, 2), keep=True)
    other = changes.get("document")
    if isinstance(other, Document):
        changes["document"] = Wire(*cast("tuple[Any, ...]", other))
    return Page(**{name: getattr(page, name) for name in page.__struct_fields__} | changes)


class TestBundle:
    def test_what_is_sealed_is_opened(self) -> None:
        made = bundle()
        assert Bundle.opened(made.sealed(KEY), KEY) == made

    def test_another_key_does_not_open_it(self) -> None:
        with pytest.raises(Refused) as refused:
            Bundle.opened(bundle().sealed(KEY), OTHER)
        assert refused.value.why is Refusal.SEAL

    @pytest.mark.parametrize(
        "changes",
        [
            {"scheme": "file"},
            {"port": 0},
            {"paths": []},
            {"paths": ["no slash"]},
            {"paths": ["/a b"]},
            {"paths": ["/a\r\nX: y"]},
            {"paths": ["/"] * 65},
            {"delay_s": -1.0},
            {"within_s": 0.0},
            {"level": "all"},
            {"max_body_bytes": 1 << 40},
            {"version": papers.VERSION + 1},
        ],
    )
    def test_what_makes_no_sense_is_refused(self, changes: dict[str, Any]) -> None:
        with pytest.raises(Refused) as refused:
            Bundle.opened(bundle(**changes).sealed(KEY), KEY)
        assert refused.value.why is Refusal.FORM

    @given(st.binary(max_size=200))
    def test_no_bytes_do_harm(self, data: bytes) -> None:
        with pytest.raises(Refused):
            Bundle.opened(data, KEY)
        with pytest.raises(Refused):
            Bundle.opened(papers._sealed(KEY, (papers.BUNDLE,), data), KEY)


class TestAnswer:
    def test_what_is_sealed_is_opened(self) -> None:
        answer = Answer(papers.VERSION, 3, True, [told(0), Page(1, failure="dns")])
        assert Answer.opened(answer.sealed(KEY, *NAMES), KEY, *NAMES) == answer

    @pytest.mark.parametrize("names", [("x", "id", "helper"), ("gatherer", "x", "helper"), (*NAMES[:2], "x")])
    def test_it_counts_for_one_gatherer_bundle_and_helper(self, names: tuple[str, str, str]) -> None:
        sealed = Answer(papers.VERSION, 0, True, []).sealed(KEY, *NAMES)
        with pytest.raises(Refused) as refused:
            Answer.opened(sealed, KEY, *names)
        assert refused.value.why is Refusal.SEAL

    def test_a_bomb_is_refused(self) -> None:
        bomb = papers._sealed(KEY, (papers.ANSWER, *NAMES), zlib.compress(bytes(64 << 20), 9))
        with pytest.raises(Refused) as refused:
            Answer.opened(bomb, KEY, *NAMES)
        assert refused.value.why is Refusal.SIZE

    def test_what_is_too_large_is_not_even_sealed(self) -> None:
        noise = b"".join(n.to_bytes(4, "big") * 3 for n in range(1 << 18))
        pages = [told(number, raw=noise[:: number + 1][: papers.MAX_BODY_BYTES]) for number in range(3)]
        with pytest.raises(Refused) as refused:
            Answer(papers.VERSION, 0, True, pages).sealed(KEY, *NAMES)
        assert refused.value.why is Refusal.SIZE

    @given(st.binary(max_size=200), st.booleans())
    def test_no_bytes_do_harm(self, data: bytes, packed: bool) -> None:
        inside = zlib.compress(data) if packed else data
        with pytest.raises(Refused):
            Answer.opened(papers._sealed(KEY, (papers.ANSWER, *NAMES), inside), KEY, *NAMES)


class TestText:
    @pytest.mark.parametrize(
        "document",
        [
            Document(format="a\x1b[2J"),
            Document(language="a\x1b[2J"),
            Document(charset="a\n"),
            Document(charset_declared="a\x00"),
            Document(charset_detected="a\x9b"),
        ],
    )
    def test_what_is_shown_has_no_control_characters(self, document: Document) -> None:
        page = told(document=document)
        sealed = Answer(papers.VERSION, 0, True, [page]).sealed(KEY, *NAMES)
        with pytest.raises(Refused) as refused:
            Answer.opened(sealed, KEY, *NAMES)
        assert refused.value.why is Refusal.FORM

    def test_nor_has_the_reason_of_a_failure(self) -> None:
        sealed = Answer(papers.VERSION, 0, True, [Page(0, failure="dns\n")]).sealed(KEY, *NAMES)
        with pytest.raises(Refused):
            Answer.opened(sealed, KEY, *NAMES)


class TestPage:
    def test_it_tells_of_the_response(self) -> None:
        found = told().response(bundle())
        assert (found.status, found.raw, found.total_s) == (200, b"<p>", 0.2)
        assert found.headers == {"content-type": "text/html"}
        assert found.digest() == response().digest()
        assert (found.raw_bytes, found.body_bytes) == (3, 3)

    def test_without_a_body_its_size_and_digest_are_told(self) -> None:
        page = Page.told(0, response(), Document(), None, keep=False)
        found = page.response(bundle(keep=False))
        assert (found.raw, found.raw_bytes, found.digest()) == (b"", 3, response().digest())

    @pytest.mark.parametrize(
        "changes",
        [
            {"status": 404},
            {"status": 99},
            {"head": b"junk"},
            {"request": b"GET /other HTTP/1.1\r\nHost: example.org\r\n\r\n"},
            {"request": b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"},
            {"truncated": "by magic"},
            {"digest": b"x" * 20},
            {"started": float("inf")},
            {"started": float("nan")},
            {"started": -1.0},
            {"started": 1e300},
            {"total_s": 11.5},
            {"total_s": float("nan")},
            {"address": "192.0.2.1\r\nX: y"},
            {"address": "fe80::1%x\r\nWARC-Type: response"},
            {"address": "fe80::1%eth0"},
            {"head": b"HTTP/1.1 200 OK\r\nX: \x1b[2J\r\n\r\n"},
            {"head": b"HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n"},
            {"request": b"GET / HTTP/1.1\r\nHost: example.org\r\nX: \x00\r\n\r\n"},
            {"document": Document(language="x-pills")},
            {"head": b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"},
            {"head": b"HTTP/1.1 200 OK\r\n"},
            {"request": b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\nGET / HTTP/1.1\r\n\r\n"},
            {"digest": b""},
            {"raw": None},
            {"raw": b"another"},
            {"raw_bytes": 4},
            {"document": None},
            {"document": Document(title="x" * (records.MAX_TITLE + 1))},
            {"document": Document(hrefs=["x" * (records.MAX_HREF + 1)])},
            {"document": Document(hrefs=["x"] * (records.MAX_LINKS + 1))},
            {"document": Document(hrefs=["x"], texts=["x" * (records.MAX_LINE + 1)])},
            {"document": Document(headings=(Heading(7, "x"),))},
            {"document": Document(language_confidence=2.0)},
            {"document": Document(base="x" * (records.MAX_HREF + 1))},
        ],
    )
    def test_what_cannot_have_been_is_refused(self, changes: dict[str, Any]) -> None:
        with pytest.raises(Refused) as refused:
            told(**changes).response(bundle())
        assert refused.value.why is Refusal.UNTRUE
