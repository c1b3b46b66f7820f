"""Summaries survive every format they are written in."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from gcs.summary import Detail, Document, Edge, Heading, Summary, formats, sml
from gcs.summary.records import VERSION, Fetched, NewerRecord, details, instant
from gcs.summary.schema import SCHEMA

TEXTS = st.text(max_size=40) | st.text("\x00\x01\x1f\r\n\t\\&<>\"'; ]uaé\ufffe\uffff𝄞", max_size=12)
TIMES = st.integers(0, 4 * 10**15).map(lambda microseconds: microseconds / 1e6)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)
DETAILS = st.dictionaries(TEXTS, TEXTS | NUMBERS | st.lists(TEXTS, min_size=1, max_size=3), max_size=3).map(
    lambda facts: tuple(Detail.of(*fact) for fact in facts.items())
)
SUMMARIES = st.builds(
    Summary,
    url=TEXTS,
    key=TEXTS,
    parent=TEXTS,
    via=TEXTS,
    depth=st.integers(0, 1000),
    status=st.integers(-1, 999),
    media_type=TEXTS,
    fetched_at=TIMES,
    fetch_s=st.floats(0, 1e4),
    bytes=st.integers(0, 2**40),
    truncated=TEXTS,
    digest=TEXTS,
    etag=TEXTS,
    last_modified=TEXTS,
    epoch=st.integers(0, 2**60),
    title=TEXTS,
    description=TEXTS,
    keywords=st.lists(TEXTS, max_size=3).map(tuple),
    headings=st.lists(st.builds(Heading, st.integers(1, 6), TEXTS), max_size=3).map(tuple),
    excerpt=TEXTS,
    language=TEXTS,
    language_confidence=st.floats(0, 1),
    charset=TEXTS,
    charset_declared=TEXTS,
    charset_detected=TEXTS,
    links_out=st.integers(0, 10_000),
    canonical=TEXTS,
    noindex=st.booleans(),
    nofollow=st.booleans(),
    type_declared=TEXTS,
    type_by_name=TEXTS,
    type_by_content=TEXTS,
    details=DETAILS,
    thumbnail=TEXTS,
    refused=TEXTS,
)
EDGES = st.builds(Edge, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, st.integers(-(2**63), 2**63 - 1), st.booleans())


def _sml(entries: list[sml.Entry]) -> bytes:
    stream = io.BytesIO()
    sml.write(entries, stream)
    return stream.getvalue()


@given(SUMMARIES)
def test_rows(summary: Summary) -> None:
    """A row gives the summary back, also after msgpack, and has exactly the columns of the schema."""
    row = summary.to_row()
    assert list(row) == SCHEMA["summaries"].names
    assert Summary.from_row(row) == summary
    assert Summary.from_row(msgpack.unpackb(msgpack.packb(row))) == summary


@given(st.lists(SUMMARIES, max_size=3))
def test_json_lines(summaries: list[Summary]) -> None:
    """JSON lines give the same summaries back, one line each."""
    stream = io.StringIO()
    formats.write_json_lines(summaries, stream)
    lines = stream.getvalue().split("\n")
    assert len(lines) == len(summaries) + 1
    assert list(formats.read_json_lines(lines)) == summaries


@given(st.lists(SUMMARIES, max_size=3))
def test_parquet(summaries: list[Summary]) -> None:
    """Parquet gives the same summaries back, and the file names its version."""
    stream = io.BytesIO()
    table = formats.summaries_table(summaries)
    assert table.schema.metadata[b"gcs.version"] == str(VERSION).encode()
    formats.write_parquet(table, stream)
    assert list(formats.read_parquet(stream)) == summaries


@given(st.lists(EDGES, max_size=5))
def test_parquet_links(edges: list[Edge]) -> None:
    """Parquet gives the same links back."""
    stream = io.BytesIO()
    formats.write_parquet(formats.links_table(edges), stream)
    assert list(formats.read_parquet_links(stream)) == edges


@given(st.lists(st.tuples(SUMMARIES, st.lists(EDGES, max_size=3)), max_size=3))
def test_sml(found: list[tuple[Summary, list[Edge]]]) -> None:
    """SML gives summaries and links back, whatever characters are in them."""
    entries = [
        sml.Entry(summary, tuple(edge._replace(source=summary.url) for edge in edges))
        for summary, edges in found
    ]
    written = _sml(entries)
    assert list(sml.read(io.BytesIO(written))) == entries
    assert_valid(written)


def assert_valid(written: bytes) -> None:
    """What is written is valid by the published schema."""
    _schema().assertValid(etree.fromstring(written))


@cache
def _schema() -> Any:
    return etree.XMLSchema(etree.fromstring(Path(sml.__file__).with_name("sml.xsd").read_bytes()))


@pytest.mark.parametrize("name", ["colour", "heading"])
def test_what_the_schema_does_not_know(name: str) -> None:
    """An element that is not in the schema, or lacks what it must say, is not valid."""
    written = f"<sml version='2'><summary url='u'><version>2</version><{name}>x</{name}></summary></sml>"
    with pytest.raises(etree.DocumentInvalid):
        assert_valid(written.encode())


def test_details_are_bounded() -> None:
    """Details are cut to their bounds, and what says nothing is left out."""
    facts = {
        "a": "x" * 1000,
        "b": float("nan"),
        "c": "",
        "d": None,
        "e": True,
        "f": range(100),
        "g": "\ud800",
        "h": [],
    }
    made = {each.name: each.value for each in details(facts)}
    assert made == {"a": "x" * 300, "e": 1, "f": tuple(map(str, range(32))), "g": "?"}
    assert len(details({str(number): number for number in range(100)})) == 48
    summary = Summary(url="u", details=details(facts))
    assert (summary.detail("e"), summary.detail("b")) == (1, None)


def test_sml_for_people() -> None:
    """SML says what a summary says in elements named after its fields."""
    summary = Summary(
        url="http://a.test/?x=1&y=2",
        status=200,
        fetched_at=1_000_000_000.25,
        title="Tom & Jerry <3",
        keywords=("cat",),
        headings=(Heading(2, "Chase"),),
        noindex=True,
    )
    written = _sml(
        [sml.Entry(summary, (Edge(summary.url, "http://b.test/", "next", "nofollow", "a"),))]
    ).decode()
    assert '<summary url="http://a.test/?x=1&amp;y=2">' in written
    assert "<title>Tom &amp; Jerry &lt;3</title>" in written
    assert "<fetched_at>2001-09-09T01:46:40.250000+00:00</fetched_at>" in written
    assert "<noindex>yes</noindex>" in written
    assert '<heading level="2">Chase</heading>' in written
    assert '<link to="http://b.test/" rel="nofollow" kind="a">next</link>' in written
    assert "nofollow>" not in written


def test_sml_is_read_in_pieces() -> None:
    """A document much larger than the reader's buffer comes out whole."""
    entries = [sml.Entry(Summary(url=f"http://a.test/{n}", excerpt="word " * 50)) for n in range(1000)]
    assert list(sml.read(io.BytesIO(_sml(entries)))) == entries


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"no xml",
        b"<rss/>",
        b"<sml/>",
        b"<sml version='1'><summary/></sml>",
        b"<sml version='1'><summary url='u'><status>many</status></summary></sml>",
        b"<sml version='1'><summary url='u'><status>200</status>",
        b"<sml version='1'><summary url='u'><link>x</link></summary></sml>",
        b"<sml version='1'><entry/></sml>",
        b"<!DOCTYPE sml [<!ENTITY a 'aaaaaaaaaa'>]><sml version='1'>&a;</sml>",
    ],
)
def test_no_sml(document: bytes) -> None:
    """What is no SML is refused with BadSml, a document type above all."""
    with pytest.raises(sml.BadSml):
        list(sml.read(io.BytesIO(document)))


def test_unknown_elements() -> None:
    """An element that a later release of the same version may add is left out."""
    document = b"<sml version='1'><summary url='u'><colour>red</colour><status>200</status></summary></sml>"
    assert [entry.summary for entry in sml.read(io.BytesIO(document))] == [Summary(url="u", status=200)]


@given(st.binary(max_size=200))
def test_any_bytes_for_sml(document: bytes) -> None:
    """Bytes at random are refused with BadSml and nothing else."""
    with pytest.raises(sml.BadSml):
        list(sml.read(io.BytesIO(document)))


@pytest.mark.parametrize(
    "read",
    [
        lambda: Summary.from_row(Summary(url="u", version=VERSION + 1).to_row()),
        lambda: formats.from_json(formats.to_json(Summary(url="u", version=VERSION + 1))),
        lambda: list(sml.read(io.BytesIO(_sml([sml.Entry(Summary(url="u", version=VERSION + 1))])))),
        lambda: list(sml.read(io.BytesIO(b"<sml version='99'/>"))),
    ],
)
def test_newer(read: Callable[[], Any]) -> None:
    """A record of a newer version is refused, in every format."""
    with pytest.raises(NewerRecord):
        read()


@pytest.mark.parametrize("line", ["{}", "[]", "null", "{", '{"version":1,"fetched_at":0}', '"text"'])
def test_no_json(line: str) -> None:
    """A line that is no summary is refused with a ValueError."""
    with pytest.raises(ValueError, match=r"."):
        formats.from_json(line)


@given(SUMMARIES)
def test_a_row_needs_no_summary(summary: Summary) -> None:
    """The row of a document and its fetch is that of the summary which has the same facts."""
    row = summary.to_row()
    shared = {name: row[name] for name in row.keys() & set(Document._fields)}
    hrefs = ["x"] * (summary.links_out % 10)
    document = Document(format=summary.media_type, hrefs=hrefs, **shared)
    fetched = Fetched(**{name: row[name] for name in Fetched._fields})
    expected = row | {"links_out": len(hrefs), "version": VERSION}
    assert Summary.row(document, fetched) == tuple(expected.values())


def test_instant() -> None:
    """Times are kept to the microsecond, in UTC."""
    assert instant(0.123_456_4).isoformat() == "1970-01-01T00:00:00.123456+00:00"
