"""WARC records, as another implementation reads them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from gcs.store.appending import Archive, Position
from gcs.store.warc import Builder, Dates, Exchange, Original, base32, digest_of, digits_of_now

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
PAGE = Exchange(
    url="http://example.org/a?b=c",
    at=1_700_000_000.25,
    request=b"GET /a?b=c HTTP/1.1\r\nHost: example.org\r\n\r\n",
    head=HEAD,
    payload=b"<p>hello</p>" * 100,
    address="192.0.2.7",
    metadata={"via": "http://example.org/", "fetchTimeMs": "12"},
)


def plain(data: bytes, pages: str) -> bytes:
    """What is compressed in some records."""
    if pages == "warc.gz":
        return gzip.decompress(data)
    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True) as stream:
        return stream.read()


def records(data: bytes, pages: str = "warc.gz") -> list[tuple[Any, bytes]]:
    """The headers and blocks of some records, with every digest checked."""
    if pages == "warc.zst":
        data = plain(data, pages)
    read = []
    for record in ArchiveIterator(io.BytesIO(data), check_digests="raise"):
        content = record.content_stream().read()
        read.append((record, content))
        assert record.digest_checker.passed is not False
    return read


@pytest.mark.parametrize("pages", ["warc.gz", "warc.zst"])
def test_a_page_is_read_back(pages: str) -> None:
    """Another reader finds response, request and metadata of a page, linked to each other, digests right."""
    data = b"".join(Builder(pages).page(PAGE))
    (response, body), (request, _), (metadata, fields) = records(data, pages)
    assert [each.rec_type for each in (response, request, metadata)] == ["response", "request", "metadata"]
    assert body == PAGE.payload
    assert response.http_headers.get_statuscode() == "200"
    headers = response.rec_headers
    assert headers.get_header("WARC-Target-URI") == PAGE.url
    assert headers.get_header("WARC-Date") == "2023-11-14T22:13:20.250000Z"
    assert headers.get_header("WARC-IP-Address") == "192.0.2.7"
    assert headers.get_header("WARC-Truncated") is None
    identity = headers.get_header("WARC-Record-ID")
    assert request.rec_headers.get_header("WARC-Concurrent-To") == identity
    assert metadata.rec_headers.get_header("WARC-Concurrent-To") == identity
    assert fields == b"via: http://example.org/\r\nfetchTimeMs: 12\r\n"


@pytest.mark.parametrize("pages", ["warc.gz", "warc.zst"])
def test_each_record_is_compressed_alone(pages: str) -> None:
    """A record can be read from its offset without what comes before it."""
    for record in Builder(pages).page(PAGE):
        assert plain(record, pages).startswith(b"WARC/1.1\r\n")
        assert plain(record, pages).endswith(b"\r\n\r\n")


def test_identities_differ() -> None:
    """Every record has an identity of its own, a random UUID."""
    builder = Builder("warc.gz")
    data = b"".join([record for _ in range(50) for record in builder.page(PAGE)])
    identities = {record.rec_headers.get_header("WARC-Record-ID") for record, _ in records(data)}
    assert len(identities) == 150
    assert all(each.startswith("<urn:uuid:") and each[24] == "4" for each in identities)


def test_a_revisit_names_its_original() -> None:
    """A payload that was kept before is not kept again: the record says where it is, and its digest."""
    original = Original("http://example.org/first", 1_600_000_000.0)
    revisit = Builder("warc.gz").page(PAGE._replace(original=original, metadata=None))
    (record, content), _ = records(b"".join(revisit))
    headers = record.rec_headers
    assert record.rec_type == "revisit"
    assert content == b""
    assert headers.get_header("WARC-Refers-To-Target-URI") == original.url
    assert headers.get_header("WARC-Refers-To-Date") == "2020-09-13T12:26:40.000000Z"
    assert headers.get_header("WARC-Profile").endswith("/revisit/identical-payload-digest")
    sha1 = base64.b32encode(hashlib.sha1(PAGE.payload, usedforsecurity=False).digest()).decode()
    assert headers.get_header("WARC-Payload-Digest") == f"sha1:{sha1}"


def test_a_truncated_body_is_marked() -> None:
    """A record of a body that is not whole says why."""
    (record, _), *_ = records(b"".join(Builder("warc.gz").page(PAGE._replace(truncated="length"))))
    assert record.rec_headers.get_header("WARC-Truncated") == "length"


@pytest.mark.parametrize("name", [b"Transfer-Encoding", b"transfer-encoding", b"TRANSFER-ENCODING"])
def test_a_reader_does_not_remove_chunks_that_are_gone(name: bytes) -> None:
    """A body that begins like a chunk comes back whole from a response that was sent in chunks."""
    payload = b"5\r\nhello\r\n0\r\n\r\nand more"
    head = HEAD.replace(b"\r\n\r\n", b"\r\n" + name + b": chunked\r\n\r\n")
    (record, content), *_ = records(
        b"".join(Builder("warc.gz").page(PAGE._replace(head=head, payload=payload)))
    )
    assert content == payload
    assert record.http_headers.get_header("X-Archive-Orig-Transfer-Encoding") == "chunked"


def test_content_coding_is_kept() -> None:
    """A body that was sent compressed is kept so, and a reader decodes it."""
    head = HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")
    page = PAGE._replace(head=head, payload=gzip.compress(b"text"))
    (_, content), *_ = records(b"".join(Builder("warc.gz").page(page)))
    assert content == b"text"


@given(
    payload=st.binary(max_size=300),
    values=st.dictionaries(st.sampled_from(["via", "error"]), st.text(max_size=30)),
)
def test_any_bytes_are_kept(payload: bytes, values: dict[str, str]) -> None:
    """Whatever was received is read back unchanged, and whatever is said about it is one line."""
    page = PAGE._replace(payload=payload, metadata=values)
    (_, body), _, *rest = records(b"".join(Builder("warc.gz").page(page)))
    assert body == payload
    for _, fields in rest:
        assert fields.count(b"\n") == len(values)


def test_a_known_digest_is_used() -> None:
    """A digest that the caller has already is not computed again."""
    digest = digest_of(hashlib.sha1(PAGE.payload, usedforsecurity=False).digest())
    (record, _), *_ = records(b"".join(Builder("warc.gz").page(PAGE._replace(digest=digest, address=""))))
    assert record.rec_headers.get_header("WARC-Payload-Digest") == digest
    assert record.rec_headers.get_header("WARC-IP-Address") is None


@given(st.binary(min_size=20, max_size=20))
def test_base32(digest: bytes) -> None:
    """The fast way to write a digest gives what the standard library gives."""
    assert base32(digest) == base64.b32encode(digest).decode()


@given(st.integers(0, 4 * 10**15))
def test_dates(microseconds: int) -> None:
    """Times are written as the standard library writes them, cut to the digits that are wanted."""
    at = microseconds / 1e6
    expected = datetime.fromtimestamp(at, UTC)
    assert Dates("%Y-%m-%dT%H:%M:%S.", 6, "Z")(at) == expected.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert Dates("%Y%m%d%H%M%S", 3)(at) == expected.strftime("%Y%m%d%H%M%S%f")[:17]


def archive(place: Path, *, max_bytes: int = 2_000, suffix: str = ".warc.gz") -> Archive:
    """Small files."""
    builder = Builder("warc.gz", {"software": "gcs"})
    return Archive(
        place, prefix="t", suffix=suffix, max_bytes=max_bytes, head=builder.warcinfo, clock=digits_of_now
    )


def test_files_are_rotated_by_size(tmp_path: Path) -> None:
    """A file that has reached its size is followed by the next; each begins with a record about itself."""
    files = archive(tmp_path / "warc")
    files.restore(Position())
    builder = Builder("warc.gz")
    for _ in range(4):
        files.append([builder.page(PAGE) for _ in range(6)])
    position = files.append([builder.page(PAGE) for _ in range(6)])
    files.close()
    paths = sorted((tmp_path / "warc").iterdir())
    assert len(paths) == position.serial > 5
    assert paths[-1].name == position.name
    assert paths[-1].stat().st_size == position.length
    kinds = []
    for path in paths:
        found = records(path.read_bytes())
        assert found[0][0].rec_headers.get_header("WARC-Filename") == path.name
        assert b"software: gcs\r\n" in found[0][1]
        kinds += [record.rec_type for record, _ in found[1:]]
    assert kinds == ["response", "request", "metadata"] * 30


def test_what_was_not_recorded_is_cut(tmp_path: Path) -> None:
    """An archive goes back to a recorded position: its file is cut, later files are removed, others stay."""
    files = archive(tmp_path)
    files.restore(Position())
    page = Builder("warc.gz").page(PAGE)
    recorded = files.append([page])
    files.append([page] * 30)
    (tmp_path / "notes.txt").write_text("mine")
    files.restore(recorded)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["notes.txt", recorded.name]
    assert len(records((tmp_path / recorded.name).read_bytes())) == 4
    files.append([page])
    files.close()
    assert len(records((tmp_path / recorded.name).read_bytes())) == 7


def test_another_compression_begins_a_file(tmp_path: Path) -> None:
    """A file is not continued in another compression than it was begun in."""
    files = archive(tmp_path)
    files.restore(Position())
    recorded = files.append([Builder("warc.gz").page(PAGE)])
    files.close()
    other = archive(tmp_path, suffix=".warc.zst")
    other.restore(recorded)
    position = other.append([Builder("warc.zst").page(PAGE)])
    other.close()
    assert position.serial == recorded.serial + 1
    assert position.name.endswith(".warc.zst")
    assert (tmp_path / recorded.name).stat().st_size == recorded.length
