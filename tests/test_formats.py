"""Every format is summarised, and what is broken, locked or made to harm is refused with a reason."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tracemalloc
import zipfile
import zlib
from random import Random
from typing import Any
from urllib.parse import unquote

import py7zr
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gcs.summary import Document, Part, Plugins, deep, workshop
from gcs.summary.deep import address_of
from gcs.summary.keywords import keywords
from gcs.summary.limits import Limits
from gcs.summary.members import Read
from gcs.summary.names import container_of, type_of_name
from gcs.summary.readers import pdf
from gcs.summary.reading import packed
from gcs.summary.recognise import MARKUP
from gcs.summary.registry import is_apart
from gcs.summary.wire import is_modest
from tests import corpus
from tests.corpus import LINK, NAMES, TITLE, zipped

TITLED = NAMES.keys() - {
    "py",
    "csv",
    "parquet",
    "png",
    "vtt",
    "tar.gz",
    "tar.bz2",
    "tar.xz",
    "tar.zst",
    "tar",
    "zip",
    "jar",
}
TITLED -= {"7z", "warc.gz"}
LINKING = (
    NAMES.keys() - {"doc"} - {"py", "csv", "parquet", "jpg", "png", "mp3", "flac", "mp4", "mkv", "vtt", "jar"}
)
DETAILS: dict[str, dict[str, Any]] = {
    "pdf": {"pages": 2, "author": "A. Keeper"},
    "docx": {"author": "A. Keeper"},
    "xlsx": {"sheets": ("Hives",), "columns": ("hive", "honey"), "rows": 4},
    "pptx": {"slides": 1},
    "doc": {"author": "A. Keeper"},
    "odt": {"author": "A. Keeper"},
    "rtf": {"author": "A. Keeper"},
    "epub": {"creator": ("A. Keeper",), "chapters": 1},
    "md": {"code_in": ("python",)},
    "py": {"programming_language": "Python", "defines": ("Bee", "fly"), "imports": ("hives",)},
    "csv": {"columns": ("hive: text", "honey: number", "since: date"), "rows": 2, "separator": ";"},
    "json": {"fields": ("title: text", "text: text", "see: text", "hives[].honey: integer")},
    "xml": {"root": "bees", "elements": 4},
    "yaml": {"items": 4, "kind": "mapping"},
    "parquet": {"columns": ("hive: string", "honey: double"), "rows": 2},
    "rss": {"entries": 1},
    "atom": {"entries": 1},
    "eml": {"sent": "2001-02-03T04:05:06+00:00", "attachments": ("bees.pdf",)},
    "mbox": {"messages": 2},
    "ics": {"events": 1, "first": "20010203T040506Z", "places": ("The hive",)},
    "jpg": {"width": 320, "height": 200, "made_by": "Apiary Lens 1", "latitude": 47.5, "longitude": -8.25},
    "png": {"width": 320, "height": 200, "kind": "PNG"},
    "svg": {"width": 30, "height": 20, "colours": ("#fc2",)},
    "mp3": {"audio": ("mp3 44100 Hz 2 channels",), "artist": "A. Keeper"},
    "flac": {"audio": ("flac 44100 Hz 2 channels",)},
    "mp4": {"duration_s": 1, "video": ("mpeg4 64×48 10/s",), "width": 64},
    "mkv": {"video": ("mpeg4 64×48 10/s",), "subtitles": ("subrip eng",)},
    "vtt": {"cues": 1, "duration_s": 4.5},
    "ttf": {"family": "Bee Sans", "glyphs": 2, "weight": 500},
    "woff2": {"family": "Bee Sans", "packing": "woff2"},
    "jar": {"names": ("META-INF/MANIFEST.MF", "bees/Bee.class")},
    "warc.gz": {"names": ("http://old.test/page",)},
}
PICTURED = {"pdf", "docx", "pptx", "epub", "jpg", "png", "mp3"}
INSIDE = [("docs/bees.pdf", TITLE), ("docs/bees.docx", TITLE), ("docs/bees.png", ""), ("page.html", TITLE)]


def read(body: bytes, name: str = "bees", content_type: str = "", **options: Any) -> Read:
    """What is said of a body, and that it can be sent and kept."""
    found = deep.read(body, url=f"http://host.test/{name}", content_type=content_type, **options)
    reply = workshop._replies.decode(packed(found, lasts=True))
    assert is_modest(Document(*reply.document))
    assert all(is_modest(Document(*member.document)) for member in reply.members)
    return found


def said(document: Document) -> dict[str, Any]:
    """The details of a document by name."""
    return {each.name: each.value for each in document.details}


@pytest.mark.parametrize("ending", NAMES)
def test_formats(ending: str) -> None:
    """Of every format the type, title, language, links, details and a picture are found."""
    found, called = (
        read(corpus.files()[ending], f"bees.{ending}"),
        type_of_name(f"http://host.test/bees.{ending}"),
    )
    document = found.document
    assert (document.format, document.refused) == (NAMES[ending], "")
    assert (document.title == TITLE) == (ending in TITLED), document.title
    assert (LINK in document.hrefs) == (ending in LINKING)
    assert said(document).items() >= DETAILS.get(ending, {}).items()
    assert document.thumbnail.startswith("data:image/webp;base64,") == (ending in PICTURED)
    assert (document.type_declared, document.type_by_name) == ("", called)
    if ending == "pdf":
        assert [each.text for each in document.headings] == ["Chapter 1", "Chapter 2"]
    if document.excerpt.startswith("The honey bee"):
        assert document.language == "en"
        assert "pollen" in document.keywords or ending in {"docx", "py"}


@pytest.mark.parametrize("ending", ["zip", "tar", "tar.gz", "tar.bz2", "tar.xz", "tar.zst", "7z"])
def test_members(ending: str) -> None:
    """What is in an archive has addresses and summaries of its own; its links are the archive's."""
    found = read(corpus.files()[ending], f"bees.{ending}")
    container = f"http://host.test/bees.{ending}"
    assert [(each.url, each.document.title) for each in found.members] == [
        (f"{container}!/{name}", title) for name, title in INSIDE
    ]
    assert {each.parent for each in found.members} == {container}
    assert said(found.document)["members"] == 4
    assert {container_of(each.url) for each in found.members} == {container}


def test_members_of_members() -> None:
    """A box of messages has their attachments as members of members."""
    found = read(corpus.files()["mbox"], "in.mbox")
    members = {each.url.removeprefix("http://host.test/"): each for each in found.members}
    assert members.keys() == {
        "in.mbox!/1.eml",
        "in.mbox!/2.eml",
        "in.mbox!/1.eml!/bees.pdf",
        "in.mbox!/2.eml!/bees.pdf",
    }
    inner = members["in.mbox!/1.eml!/bees.pdf"]
    assert (inner.parent, inner.document.title) == ("http://host.test/in.mbox!/1.eml", TITLE)


def test_three_types() -> None:
    """What server, name and content say is kept beside the verdict; content that is sure of itself wins."""
    found = read(corpus.files()["png"], "bees.pdf", "text/html").document
    assert (found.type_declared, found.type_by_name, found.type_by_content) == (
        *("text/html", "application/pdf"),
        "image/png",
    )
    assert found.format == "image/png"


def test_pages_are_read_in_place() -> None:
    """HTML, XHTML and plain text go to no other process, whatever XML and texts do."""
    assert not any(map(is_apart, (*MARKUP, "text/plain", "application/octet-stream", "application/x-own")))
    assert all(map(is_apart, ("application/atom+xml", "application/ld+json", "text/x-rust", *NAMES.values())))


def test_feeds_in_any_charset() -> None:
    """A feed is read also in a character set that XML parsers do not know."""
    text = "<?xml version='1.0' encoding='gbk'?><rss><channel><title>蜜蜂与花朵的故事</title></channel></rss>"
    document = read(text.encode("gbk"), "bees.rss").document
    assert (document.title, document.charset, document.refused) == ("蜜蜂与花朵的故事", "gbk", "")


def test_addresses() -> None:
    """Addresses of members have no way out of their archive, and no two are the same."""
    at = "http://host.test/a.zip"
    assert address_of(at, "../../etc/x") == f"{at}!/etc/x"
    assert address_of(at, "a!/b c?d#e") == f"{at}!/a%21/b%20c%3Fd%23e"
    assert address_of(at, "x", [f"{at}!/x", f"{at}!/x~2"]) == f"{at}!/x~3"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("x.txt", "one")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("x.txt", "two")
    assert [each.url for each in read(stream.getvalue()).members] == [
        "http://host.test/bees!/x.txt",
        "http://host.test/bees!/x.txt~2",
    ]


def test_reasons_can_be_shown() -> None:
    """A reason has no control characters, whatever it quotes."""

    def fails(part: Part) -> Document:
        raise ValueError("\x1b[31m\x07bees")

    assert deep.reason("x/y", ValueError("a")) == "not readable as x/y: a"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pdf, "read", lambda part, _: fails(part))
        assert read(b"%PDF-1.4", "a.pdf").document.refused == "not readable as application/pdf: [31mbees"


def test_relative_links_of_members() -> None:
    """A member's relative links lead nowhere, unless it says or was archived with where it came from."""
    page = b"<a href='b.html'>b</a><a href='http://x.test/'>x</a>"
    assert list(read(zipped({"a.html": page}), "a.zip").document.hrefs) == ["http://x.test/"]
    based = zipped({"a.html": b"<base href='http://y.test/d/'>" + page})
    assert list(read(based, "a.zip").document.hrefs) == ["http://y.test/d/b.html", "http://x.test/"]
    assert read(corpus.files()["warc.gz"]).document.hrefs == (LINK,)


def test_archived_answers() -> None:
    """What a WARC file has as it was sent, in chunks and compressed, is read as it was meant."""
    sent = gzip.compress(corpus.HTML)
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(sent), sent)
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n" + chunks
    head = b"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: http://old.test/a\r\n"
    head += b"Content-Type: application/http"
    body = b"%s\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n" % (head, len(answer), answer)
    for each in (body, zstandard.compress(body)):
        (member,) = read(each, "a.warc", "application/warc").members
        assert (member.url, member.document.title) == ("http://host.test/a.warc!/http://old.test/a", TITLE)


def test_requests_of_members() -> None:
    """What pages in archives ask of crawlers is obeyed: not to be indexed, and not to be followed."""
    page = b"<meta name=robots content=%s><a href='http://x.test/'>x</a>"
    found = read(zipped({"a.html": page % b"noindex", "b.html": page % b"nofollow"}), "a.zip")
    assert [each.url[-6:] for each in found.members] == ["b.html"]
    assert len(found.document.hrefs) == 1


LAUGHS = b"<!DOCTYPE x [<!ENTITY a 'ha'>" + b"".join(
    b"<!ENTITY %c '%s'>" % (98 + n, (b"&%c;" % (97 + n)) * 60) for n in range(8)
)


def _huge_image() -> bytes:
    stream = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(stream, "PNG")
    return stream.getvalue()


def _huge_docx() -> bytes:
    return zipped({"[Content_Types].xml": b"", "word/document.xml": bytes(64 << 20)})


def _with_other_name() -> bytes:
    made = zipped({"innocent.txt": b"x"})
    return made.replace(b"innocent.txt", b"criminal.txt", 1)


@pytest.mark.parametrize(
    ("name", "body", "why"),
    [
        ("a.zip", corpus.bomb, "a bomb: it expands to more than 200 times its size"),
        ("a.gz", lambda: gzip.compress(bytes(64 << 20)), "a bomb: it expands to more than 200 times"),
        ("a.docx", _huge_docx, "a bomb"),
        ("a.zip", corpus.overlapping, "a bomb: members lie on top of each other"),
        ("a.png", _huge_image, "a bomb: an image of 20,000 × 20,000 pixels"),
        ("a.xml", lambda: b"<?xml version='1.0'?>" + LAUGHS + b"]><x>&i;</x>", "amplification"),
        ("a.pdf", lambda: corpus.pdf(user_password="secret"), "encrypted"),
        ("a.7z", lambda: corpus.sevenzipped({"a": b"x"}, password="secret"), "encrypted"),
        ("a.docx", lambda: corpus.compound({"EncryptedPackage": b""}), "encrypted"),
        ("a.gif", corpus.gif_and_zip, "a polyglot: it is image/gif and also application/zip"),
        ("a.pdf", lambda: corpus.pdf() + zipped({"a": b"x"}), "a polyglot: it is application/pdf and also"),
        ("a.zip", lambda: corpus.files()["zip"][:-100], "not readable as application/zip: File is not a zip"),
        ("a.tar", lambda: corpus.files()["tar"][:2000], "truncated"),
        ("a.tar", lambda: corpus.tarred({"a": b"", "b": b""}).replace(b"b\0", b"c\0", 1), "damaged: no file"),
        ("a.tgz", lambda: corpus.files()["tar.gz"][:3000], "truncated"),
        ("a.bz2", lambda: corpus.files()["tar.bz2"][:3000], "truncated"),
        ("a.xz", lambda: corpus.files()["tar.xz"][:3000], "truncated"),
        ("a.zst", lambda: corpus.files()["tar.zst"][:3000], "truncated"),
        ("a.7z", lambda: corpus.files()["7z"][:3000], "truncated"),
        ("a.warc.gz", lambda: corpus.files()["warc.gz"][:-100], "truncated"),
        ("a.warc", lambda: b"WARC/1.0\r\n" + b"a: b\r\n" * 20_000, "damaged: headers without end"),
        ("a.png", lambda: corpus.files()["png"][:300], "truncated"),
        ("a.rtf", lambda: corpus.files()["rtf"][:300], "truncated"),
        ("a.ics", lambda: corpus.files()["ics"][:300], "truncated"),
        ("a.json", lambda: corpus.files()["json"][:100], "truncated"),
        ("a.json", lambda: b"[" * 100_000, "nested too deep"),
        ("a.rtf", lambda: b"{\\rtf1" + b"{" * 20_000, "nested too deep"),
        ("a.yaml", lambda: b"[" * 100_000, "nested too deep"),
        ("a.yaml", lambda: b"- " * 100_000, "nested too deep"),
        ("a.heic", lambda: b"\0\0\0\x18ftypheic" + bytes(100), "damaged, or in a format that is not known"),
        ("a.rss", lambda: corpus.files()["rss"][:-20], "damaged: unclosed token"),
        ("a.ttf", lambda: corpus.files()["ttf"][:200], "damaged"),
        ("a.mp4", lambda: b"\0\0\0\x18ftypmp42" + b"\0" * 100, "not readable as video/mp4"),
    ],
)  # fmt: skip
def test_refused(name: str, body: Any, why: str) -> None:
    """What is a bomb, two formats at a time, encrypted, cut off or too deep is refused, with the reason."""
    document = read(body(), name).document
    assert why in document.refused
    assert document.format != "application/octet-stream"


def test_refused_members() -> None:
    """A member that cannot be read, or is not what its archive says, does not cost the others."""
    limits = Limits(member_bytes=1000)
    found = read(zipped({"large": b"x" * 2000, "small.txt": b"x"}), limits=limits).members
    assert [each.document.refused for each in found] == ["larger than a member may be", ""]
    assert [each.document.refused for each in read(corpus.locked_zip()).members] == ["encrypted"]
    (other,) = read(_with_other_name()).members
    assert other.document.refused.startswith("ambiguous")
    deeper = read(corpus.nested(4), limits=Limits(depth=2))
    assert [each.document.refused for each in deeper.members] == ["nested more than 2 deep", ""]
    many = read(zipped({str(number): b"x" for number in range(20)}), limits=Limits(members=5))
    assert (len(many.members), many.document.refused) == (5, "more than 5 members")
    whole = read(zipped({"a": b"x" * 900, "b": b"x" * 900}), limits=Limits(expanded_bytes=1500))
    assert whole.document.refused == "it expands to more than 1500B"


def test_members_that_are_damaged() -> None:
    """Members without their checksums, and sparse ones, are refused, and those beside them are read."""
    copied = corpus.sevenzipped({"a.txt": b"bees", "b.txt": b"honey"}, filters=[{"id": py7zr.FILTER_COPY}])
    found = read(copied.replace(b"bees", b"wasp"), "a.7z").members
    assert [each.document.refused for each in found] == ["damaged: its checksum is another", ""]
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        whole = zipped({"a.txt": b"bees", "b.txt": b"honey"}, method=method)
        assert [each.document.excerpt for each in read(whole).members] == ["bees", "honey"]
        found = read(whole.replace(struct.pack("<I", zlib.crc32(b"bees")), b"wasp")).members
        assert [each.document.refused for each in found] == ["damaged: its checksum is another", ""]
    found = read(corpus.sparse_tar(), "a.tar").members
    assert [each.document.refused for each in found] == ["a sparse file", ""]


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_bomb_of_any_method_takes_no_memory(method: int) -> None:
    """Of a ZIP that is packed by bzip2 or LZMA no more comes out at once than by any other method."""
    body = zipped({"a.txt": bytes(128 << 20)}, method=method)
    body = body.replace(struct.pack("<I", 128 << 20), struct.pack("<I", 1 << 20))  # it says that it is small
    tracemalloc.start()
    try:
        (member,) = read(body, "a.zip").members
        most_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert member.document.refused == "damaged: its checksum is another"
    assert most_bytes < 32 << 20


def test_archived_answers_are_counted() -> None:
    """What comes out of the codings in a WARC file counts like what comes out of other archives."""
    sent = gzip.compress(Random(1).randbytes(600) + bytes(100_000))
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + sent
    head = b"WARC/1.1\r\nWARC-Type: response\r\nContent-Type: application/http\r\nContent-Length: %d\r\n\r\n"
    body = (head % len(answer) + answer + b"\r\n\r\n") * 20
    found = read(body, "a.warc", limits=Limits(expanded_bytes=1 << 20))
    assert found.document.refused == "it expands to more than 1MiB"
    assert len(found.members) == 10


def test_names_of_members_of_what_was_asked_for() -> None:
    """What a container was asked for by does not name its members, and long names leave them apart."""
    found = read(zipped({"a.csv": b"x,y\n1,2\n", "b": b"x"}), "get.php?file=a.zip").members
    assert [(each.url[16:], each.document.type_by_name) for each in found] == [
        ("/get.php?file=a.zip!/a.csv", "text/csv"),
        ("/get.php?file=a.zip!/b", ""),
    ]
    inner = zipped({"é" * 3000: b"x", "é" * 2999: b"y"})
    found = read(zipped({"z" * 3000: inner}), "a" * 1950).members
    assert len({each.url for each in found}) == len(found) == 3
    assert len({each.parent for each in found}) == 2
    assert all(unquote(each.url).isprintable() and len(each.url) < 4_000 for each in found)
    deeper = read(corpus.nested(16, name="n" * 600), "a" * 1900, limits=Limits(depth=16)).members
    assert "the addresses of its members would be too long" in {each.document.refused for each in deeper}


def test_what_looks_like_wide_text() -> None:
    """Every second byte of a packed file may be zero, and still it is no text in UTF-16; a text is one."""
    body = zstandard.compress(bytes(64 << 20))
    assert read(body, "a.zst").document.format == "application/zstd"
    assert read("Bees, all of them, and honey.".encode("utf-16-le"), "a").document.format == "text/plain"
    warc = b"WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: 4\r\n\r\n\0\1\2\3\r\n\r\n"
    assert read(warc, "a.warc.gz").document.format == "application/warc"


def test_frames_of_zstd() -> None:
    """All frames of zstd count, also empty ones and those to be skipped, and one cut off is noticed."""
    noise = Random(1).randbytes(400_000)
    several = zstandard.compress(b"") + b"\x50\x2a\x4d\x18\x02\0\0\0ab" + zstandard.compress(noise)
    (member,) = read(several, "a.bin.zst").members
    assert member.bytes == len(noise)
    for end in (len(several) - 1, len(several) - 200_000, len(several) - len(noise)):
        assert read(several[:end], "a.bin.zst").document.refused == "truncated"
    assert read(zstandard.compress(b""), "a.txt.zst").document.refused == ""


def test_yaml_is_looked_at_as_far_as_is_needed() -> None:
    """YAML that refers to itself, has mappings for names, or is long, has its first fields said."""
    found = read(b"a: &a [*a, {? [x, y] : honey bees, b: *a}]", "a.yaml").document
    assert (found.refused, said(found)["fields"]) == ("", ("a[]: text", "a[].: text", "a[].b: text"))
    long = b"".join(b"- {name: n%d, value: %d}\n" % (number, number) for number in range(30_000))
    document = read(long, "a.yaml").document
    assert said(document) == {"kind": "list", "fields": ("[].name: text", "[].value: text")}
    assert said(read(b"- honey\n" * 100, "a.yaml").document)["items"] == 100


def test_names_are_not_repeated_at_length() -> None:
    """A long name does not come again in memory with everything that is below it."""
    data = json.dumps({"k" * 500_000: {str(number): number for number in range(2_000)}}).encode()
    tags = b"".join(b"<%s%d>" % (b"n" * 20_000, number) for number in range(32))
    tags += b"".join(b"<x%d/>" % number for number in range(2_000))
    tags += b"".join(b"</%s%d>" % (b"n" * 20_000, number) for number in reversed(range(32)))
    for name, body in (("a.json", data), ("a.xml", b"<?xml version='1.0'?>" + tags)):
        tracemalloc.start()
        try:
            assert read(body, name).document.refused == ""
            most_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert most_bytes < 64 << 20


def test_headers_of_mail_without_end() -> None:
    """Of a header without end the beginning is read, and attachments have the character set they declare."""
    to = b",".join(b'"a%d" <a%d@bees.test>' % (number, number) for number in range(20_000))
    body = b"Received: here\nTo: " + to + b"\nSubject: " + b"=?utf-8?q?a?= " * 20_000 + b"\n\nhoney"
    document = read(body, "a.eml").document
    assert (document.title[:3], document.excerpt) == ("aaa", "honey")
    assert str(said(document)["to"]).startswith("a0 <a0@bees.test>")
    message = corpus.message()
    kind: dict[str, Any] = {"maintype": "text", "subtype": "plain", "params": {"charset": "iso-8859-2"}}
    message.add_attachment("Zażółć gęślą jaźń".encode("iso-8859-2"), **kind)
    (_, text) = read(b"Received: here\n" + message.as_bytes(), "a.eml").members
    assert (text.document.excerpt, text.document.charset_declared) == ("Zażółć gęślą jaźń", "iso-8859-2")


def test_rtf_in_other_scripts() -> None:
    """Codes of two bytes are one character, and so are two halves; what stands in for them is left out."""
    codes = "".join(rf"\'{each:02x}" for each in "蜂蜜".encode("cp932"))
    halves = r"\uc2\u-10179\'81\'48\u-9187\'81\'48\u12354\'82\'a0.\u-10179 "
    body = rf"{{\rtf1\ansi\ansicpg932 {codes} {halves}}}".encode()
    assert read(body, "a.rtf").document.excerpt == "蜂蜜 🐝あ.\ufffd"


def test_comments_of_images() -> None:
    """A comment in an image is its description, as it was written."""
    for kind in ("GIF", "JPEG"):
        assert read(corpus.picture(kind, comment=b"Many bees")).document.description == "Many bees"


def test_a_long_calendar() -> None:
    """A calendar of several megabytes is read to its end."""
    event = b"BEGIN:VEVENT\r\nDTSTART:20010203\r\nSUMMARY:Honey\r\nEND:VEVENT\r\n"
    body = b"BEGIN:VCALENDAR\r\n" + event * 20_000 + b"END:VCALENDAR\r\n"
    document = read(body, "a.ics").document
    assert (document.refused, said(document)["events"]) == ("", 20_000)


@pytest.mark.parametrize("ending", NAMES)
def test_truncated_and_damaged(ending: str) -> None:
    """Half of a file, or one with bytes changed here and there, is summarised or refused; no more."""
    body = corpus.files()[ending]
    read(body[: len(body) // 2], f"half.{ending}")
    changed = bytearray(body)
    changed[7::97] = bytes(len(changed[7::97]))
    read(bytes(changed), f"changed.{ending}")


SMALL = {
    "zip": zipped({"a/b.txt": b"bees", "c.zip": zipped({"d": b"honey"})}),
    "tar": corpus.tarred({"a/b.txt": b"bees"})[:2048],
    "7z": corpus.sevenzipped({"a.txt": b"bees " * 20}),
    "warc": b"WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: http://x.test/\r\n"
    b"Content-Length: 4\r\n\r\nbees\r\n\r\n",
    "mbox": b"From a@bees.test Sat Feb  3 04:05:06 2001\nSubject: bees\n\nhoney\n" * 2,
}


@settings(max_examples=60)
@given(st.sampled_from(sorted(SMALL)), st.data())
def test_fuzzed_archives(kind: str, data: st.DataObject) -> None:
    """Archives with a few bytes changed, cut out or put in are expanded or refused, within their limits."""
    body = bytearray(SMALL[kind])
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    found = read(bytes(body), f"a.{kind}", limits=Limits(members=20, expanded_bytes=1 << 20, depth=2))
    assert len(found.members) <= 20


def test_a_bomb_takes_no_memory() -> None:
    """Of a bomb no more is in memory than may be expanded, and little more than a member."""
    body = corpus.bomb(256 << 20)
    tracemalloc.start()
    try:
        document = read(body, "a.zip", limits=Limits(expanded_bytes=32 << 20, ratio=100_000)).document
        most_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert document.refused == "it expands to more than 32MiB"
    assert most_bytes < 80 << 20


def test_plugins_for_formats() -> None:
    """A plug-in's summariser or expander goes before ours for its format, also inside of archives."""
    plugins = Plugins(summarisers={"application/pdf": lambda part: Document(title=f"mine: {part.url[-8:]}")})
    found = read(corpus.files()["zip"], plugins=plugins)
    assert found.members[0].document.title == "mine: bees.pdf"
    assert read(corpus.pdf(), plugins=plugins).document.title.startswith("mine")
    expanding = Plugins(
        expanders={"application/zip": lambda part: [Part(corpus.HTML, part.url, "text/html")]}
    )
    found = read(corpus.files()["zip"], plugins=expanding)
    assert (found.document.title, found.document.format, found.members) == (TITLE, "application/zip", [])


def _written(common: list[str], topics: list[str]) -> str:
    """A text in which some words come evenly, and others in the parts that are about them."""
    parts = []
    for topic in topics:
        for number in range(12):
            parts += common
            parts += [topic] if number % 3 else [topic, topic]
    return " ".join(parts)


@pytest.mark.parametrize(
    ("common", "topics"),
    [
        (["the", "house", "of", "which", "there", "was"], ["beehive", "orchard", "winter"]),
        (["und", "welche", "nicht", "auch", "einer"], ["bienenstock", "obstgarten", "winterzeit"]),
        (["который", "потому", "очень", "также"], ["пчеловод", "варенье", "медовуха"]),
        (["και", "όμως", "επειδή", "ήταν"], ["μέλισσα", "χειμώνας", "κυψέλη"]),
        (["الذي", "كانت", "لكن", "حيث"], ["النحلة", "العسل", "الشتاء"]),
    ],
)
def test_keywords(common: list[str], topics: list[str]) -> None:
    """In any alphabet the words that come in clusters go before those that come evenly."""
    assert set(keywords(_written(common, topics))[:3]) == set(topics)


def test_keywords_without_spaces() -> None:
    """In scripts without spaces runs of characters that come again are found, and not their pieces."""
    text = "蜜蜂が花から花へ花粉を運ぶ。蜜蜂は女王蜂のために働く。養蜂家は蜜蜂を飼う。女王蜂は巣にいる。"
    found = keywords(text)
    assert {"蜜蜂", "女王蜂"} <= set(found)
    assert "女王" not in found
    assert keywords("") == keywords("one two three") == ()


def test_links_only() -> None:
    """At level "links" a format has its links, and no pictures or keywords are made."""
    document = read(corpus.files()["pdf"], "bees.pdf", level="links").document
    assert (LINK in document.hrefs, document.thumbnail, document.keywords) == (True, "", ())
    assert Part(b"", "", "").level == "full"
