"""Recognising, expanding and summarising, with and without plug-ins."""

from __future__ import annotations

import gzip
import io
import re
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import filetype
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.core.urls import Rejected
from gcs.summary import Document, Link, Part, Plugins, load, read
from gcs.summary import records as limits
from gcs.summary.pipeline import MAX_EXPANDED_BYTES, MAX_PARTS
from gcs.summary.recognise import declared, recognise
from tests.installed import install

URL = "http://host.test/dir/page"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0" * 40
ZIP = b"PK\x03\x04\x14\0\0\0\x08\0" + b"\0" * 60


class Log:
    """A logger that remembers."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def warning(self, event: str, /, **facts: Any) -> None:
        """Remember one event."""
        self.lines.append((event, facts))


@pytest.mark.parametrize(
    ("header", "media_type", "label"),
    [
        ("", "", ""),
        ("text/html", "text/html", ""),
        ("Text/HTML; Charset=UTF-8", "text/html", "UTF-8"),
        ('text/html;charset="koi8-r"; x=y', "text/html", "koi8-r"),
        ("text/html; charset='big5'", "text/html", "big5"),
        ("text/html; charset=", "text/html", ""),
        ("text/html, text/plain", "text/html", ""),
        ("nonsense", "", ""),
        ("text/", "", ""),
        ("; charset=utf-8", "", "utf-8"),
    ],
)
def test_declared(header: str, media_type: str, label: str) -> None:
    """A Content-Type header is read as leniently as browsers read it."""
    assert declared(header) == (media_type, label)


@pytest.mark.parametrize(
    ("content_type", "url", "body", "media_type"),
    [
        ("text/html", URL, b"<!DOCTYPE html>", "text/html"),
        ("text/html", URL, b"", "text/html"),
        ("text/html", URL, b"Just words", "text/html"),
        ("text/html", URL, b"\x01\x02 <html>", "text/html"),
        ("text/html", URL, b"<\0h\0t\0m\0l\0>\0", "text/html"),
        ("text/html", URL, b"%PDF-1.4 text", "application/pdf"),
        ("text/html", URL, PNG, "image/png"),
        ("text/html", URL, bytes(range(32)) * 10, "application/octet-stream"),
        ("application/xhtml+xml", URL, b"<?xml version='1.0'?><html>", "application/xhtml+xml"),
        ("", URL, b"  <HTML>", "text/html"),
        ("", URL, b"\xef\xbb\xbf<!-- x -->", "text/html"),
        ("", URL, b"<?xml version='1.0'?><x:html>", "application/xhtml+xml"),
        ("", URL, b"<?xml version='1.0'?><!-- x --><rss>", "application/rss+xml"),
        ("", URL, b"<?xml version='1.0'?>", "application/xml"),
        ("", URL, b"<?xml version='1.0'?><other>", "application/xml"),
        ("", URL, b"words", "text/plain"),
        ("", "http://host.test/a.css", b"p {}", "text/css"),
        ("", "http://host.test/a.pdf", b"words", "text/plain"),
        ("", "http://host.test/a.pdf", b"", "application/pdf"),
        ("", "http://[host.test/a.pdf", b"", "application/pdf"),
        ("", URL, b"", "application/octet-stream"),
        ("text/xml", URL, b"<feed>", "application/atom+xml"),
        ("text/xml", URL, b"<other>", "text/xml"),
        ("text/plain", URL, b"<html>", "text/plain"),
        ("text/plain", URL, b"\x00\x01\x02\x03" * 20, "application/octet-stream"),
        ("image/png", URL, b"<html>", "text/html"),
        ("image/png", URL, b"Not found", "text/plain"),
        ("image/svg+xml", URL, b"<svg>", "image/svg+xml"),
        ("application/json", URL, b"{}", "application/json"),
        ("image/png", URL, PNG, "image/png"),
        ("image/gif", URL, PNG, "image/png"),
        ("application/epub+zip", URL, ZIP, "application/epub+zip"),
        ("", URL, ZIP, "application/zip"),
        ("application/octet-stream", "http://host.test/a.docx", ZIP,
         "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("application/x-own", URL, b"\x00\x01\x02\x03" * 20, "application/x-own"),
    ],
)  # fmt: skip
def test_recognise(content_type: str, url: str, body: bytes, media_type: str) -> None:
    """A body is what it is declared to be, unless it plainly is something else."""
    assert recognise(content_type, url, body).media_type == media_type


@given(st.binary(max_size=600), st.sampled_from([(0, b""), (128, b"DICM"), (257, b"ustar")]))
def test_a_pdf_is_told_at_once(rest: bytes, mark: tuple[int, bytes]) -> None:
    """What begins as a PDF does is known without the library, which would say the same."""
    at, written = mark
    body = bytearray(b"%PDF-1.4\0" + rest)
    body[at : at + len(written)] = written
    kind = filetype.guess(bytes(body))
    assert recognise("", URL, bytes(body)).by_content == kind.mime


@given(st.text(max_size=40), st.text(max_size=40), st.binary(max_size=600))
def test_recognise_never_raises(content_type: str, url: str, body: bytes) -> None:
    """Any body under any declaration is recognised as something."""
    assert "/" in recognise(content_type, url, body).media_type


def test_text() -> None:
    """A plain text has a title, a language and a beginning, and no links."""
    body = "\n\nA  letter\n\nAll human beings are born free and equal in dignity – and rights.".encode(
        "cp1252"
    )
    found = read(body, url=URL, content_type="text/plain; charset=windows-1252")
    assert (found.title, found.format, found.language) == ("A letter", "text/plain", "en")
    assert found.excerpt.endswith("dignity – and rights.")
    assert (found.charset, found.hrefs) == ("windows-1252", ())
    short = read(body, url=URL, content_type="text/plain; charset=windows-1252", level="links")
    assert (short.format, short.charset, short.title) == ("text/plain", "windows-1252", "")
    assert read(b"", url=URL, content_type="text/plain").title == ""


def test_anything_else() -> None:
    """Of what is not read here there is only the type, and who says so."""
    assert read(PNG, url=URL, content_type="image/png") == Document(
        format="image/png", type_declared="image/png", type_by_content="image/png"
    )
    assert read(b"", url=URL) == Document(format="application/octet-stream")


@pytest.mark.parametrize("url", ["", "nonsense", "http://127.0.0.1/", "http://[::1]:80/", "http://x.de:80/"])
def test_any_url(url: str) -> None:
    """The address of a page is a hint and needs not be a good one."""
    assert read(b"<a href=x>", url=url, content_type="text/html").hrefs == ["x"]


def _ours(part: Part) -> Document:
    return Document(format=part.media_type, title=f"ours: {part.url}")


def _fails(*_: object) -> Any:
    raise RuntimeError("broken")


def _nonsense(*_: object) -> Any:
    return 42


def test_recogniser() -> None:
    """The first recogniser that knows a body names its type."""
    plugins = Plugins(recognisers=(lambda *_: "", lambda *_: "application/x-own", _fails))
    assert read(b"<html>", url=URL, content_type="text/html", plugins=plugins).format == "application/x-own"


def test_summariser_of_a_type() -> None:
    """A summariser is asked for the pages of its type only."""
    plugins = Plugins(summarisers={"image/png": _ours})
    assert read(PNG, url=URL, plugins=plugins).title == f"ours: {URL}"
    assert read(b"<title>T</title>", url=URL, content_type="text/html", plugins=plugins).title == "T"


def test_summariser_of_a_site() -> None:
    """The summariser of the longest prefix wins, and a prefix ends where a name in the path ends."""
    plugins = Plugins(summarisers={"text/html": lambda part: Document(title="type")})
    plugins = plugins.with_site("http://host.test/", lambda part: Document(title="host"))
    plugins = plugins.with_site("http://host.test/a/b/", lambda part: Document(title="deep"))
    plugins = plugins.with_site("http://host.test/a", lambda part: Document(title="a"))
    titles = {
        url: read(b"<p>", url=url, content_type="text/html", plugins=plugins).title
        for url in (
            "http://host.test/",
            "http://host.test/x?q",
            "http://host.test/a",
            "http://host.test/a/",
            "http://host.test/ab",
            "http://host.test/a/b/c",
            "http://host.test/a/bc",
            "http://www.host.test/",
            "https://host.test/",
        )
    }
    assert list(titles.values()) == ["host", "host", "a", "a", "host", "deep", "a", "type", "type"]
    with pytest.raises(Rejected):
        plugins.with_site("gopher://host.test/", _ours)


@pytest.mark.parametrize("broken", [_fails, _nonsense])
def test_broken_plugins(broken: Callable[..., Any]) -> None:
    """A plug-in that raises or returns nonsense is logged, and the page is read without it."""
    log = Log()
    plugins = Plugins(
        recognisers=(broken,),
        expanders={"text/html": broken},
        summarisers={"text/html": broken},
        logger=log,
    )
    assert read(b"<title>T</title>", url=URL, content_type="text/html", plugins=plugins).title == "T"
    assert [facts["what"] for _, facts in log.lines] == ["recogniser", "expander of text/html", "summariser"]
    assert {facts["url"] for _, facts in log.lines} == {URL}
    quiet = Plugins(summarisers={"text/html": broken})
    assert read(b"<title>T</title>", url=URL, content_type="text/html", plugins=quiet).title == "T"


def _unzip(part: Part) -> Iterator[Part]:
    with zipfile.ZipFile(io.BytesIO(part.body)) as archive:
        for name in archive.namelist():
            yield Part(archive.read(name), f"{part.url}#{name}", "text/html", level=part.level)


def test_expander() -> None:
    """What is inside of an archive is summarised with it: the text of the longest part, the links of all."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.html", "<title>A</title><a href=/a>a</a>")
        archive.writestr("b.html", "<title>B</title><p>more words here</p><a href=/b>b</a>")
    plugins = Plugins(expanders={"application/zip": _unzip})
    found = read(stream.getvalue(), url=URL, plugins=plugins)
    assert (found.format, found.title) == ("application/zip", "B")
    assert found.links == [Link("/a", "a"), Link("/b", "b")]
    assert list(read(stream.getvalue(), url=URL, level="links", plugins=plugins).hrefs) == ["/a", "/b"]


def test_expanding_is_bounded() -> None:
    """However many parts and bytes an expander yields, only so many are read."""
    taken = 0

    def endless(part: Part) -> Iterator[Part]:
        nonlocal taken
        while True:
            taken += 1
            yield Part(b"<a href=/x>" * 200, part.url, "text/html")

    plugins = Plugins(expanders={"application/zip": endless})
    found = read(ZIP, url=URL, plugins=plugins)
    assert taken == MAX_PARTS
    assert (len(found.hrefs), found.links_cut) == (limits.MAX_LINKS, True)

    bomb = bytes(MAX_EXPANDED_BYTES // 2 + 1)
    big = Plugins(expanders={"application/gzip": lambda part: [part._replace(body=bomb)] * 3})
    assert read(gzip.compress(b"x"), url=URL, plugins=big).format == "application/gzip"


def test_no_parts() -> None:
    """An expander that yields anything but parts has failed."""
    log = Log()
    plugins = Plugins(expanders={"application/zip": lambda part: [b"no part"]}, logger=log)  # type: ignore[list-item]
    assert read(ZIP, url=URL, plugins=plugins) == Document(
        format="application/zip", type_by_content="application/zip"
    )
    assert [event for event, _ in log.lines] == ["plug-in failed"]


def test_nothing_inside() -> None:
    """An archive in which nothing is found is summarised itself."""
    plugins = Plugins(expanders={"application/zip": lambda part: []})
    assert read(ZIP, url=URL, plugins=plugins) == Document(
        format="application/zip", type_by_content="application/zip"
    )


def test_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed plug-ins are found by their entry points; what cannot be used is logged and left out."""
    code = (
        "from gcs.summary import Document\n"
        "def recognise(content_type, url, body): return 'image/x-own' if body == b'own' else ''\n"
        "def expand(part): return []\n"
        "def summarise(part): return Document(title='by type')\n"
        "def site(part): return Document(title='by site')\n"
        "number = 1\n"
    )
    named = {
        "gcs.recognisers": {"own": "recognise", "lost": "lost"},
        "gcs.expanders": {"image/x-own": "expand", "image/x-other": "number"},
        "gcs.summarisers": {
            "image/x-own": "summarise",
            "http://site.test/a": "site",
            "gopher://site.test/": "site",
        },
    }
    points = {
        group: {name: f"gcs_test_plugin:{function}" for name, function in functions.items()}
        for group, functions in named.items()
    }
    install(tmp_path, "gcs_test_plugin", code, points)
    monkeypatch.syspath_prepend(tmp_path)
    log = Log()
    plugins = load(log)
    assert read(b"own", url=URL, plugins=plugins).title == "by type"
    assert (
        read(b"<p>", url="http://site.test/a/b", content_type="text/html", plugins=plugins).title == "by site"
    )
    assert [facts["what"] for _, facts in log.lines] == [
        "gcs.recognisers lost",
        "gcs.expanders image/x-other",
        "gcs.summarisers gopher://site.test/",
    ]
    monkeypatch.delitem(sys.modules, "gcs_test_plugin")


def test_the_documented_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plug-in of docs/plugins.md, installed as it says, finds what is hard to read on a page."""
    text = (Path(__file__).parent.parent / "docs" / "plugins.md").read_text()
    code, point = (re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)[0] for kind in ("python", "toml"))
    assert len([line for line in code.splitlines() if line]) <= 16
    install(tmp_path, "accessible", code, tomllib.loads(point)["project"]["entry-points"])
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins = load(Log())
    page = b"<title>T</title><h1>A</h1><h3>B</h3><img src=x><img src=y alt=y><a href=z></a><a href=w>w</a>"
    found = read(page, url=URL, content_type="text/html", plugins=plugins)
    assert found.title == "T"
    assert {each.name: each.value for each in found.details} == {
        "images_without_alt": 1,
        "headings_skipped": 1,
        "links_without_text": 1,
        "without_language": 1,
    }
