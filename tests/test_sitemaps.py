"""Sitemaps: all forms, broken ones too, within bounds."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.core import sitemaps
from gcs.core.sitemaps import Sitemap, parse

URL = "http://h.example/sitemaps/sitemap.xml"
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


RSS = """<rss version='2.0'><channel><link>http://h.example/</link><atom:link href='/self'/>
<item><title>x</title><link>http://h.example/1</link><pubDate>Mon, 16 Nov 2026</pubDate></item>
<item><link><![CDATA[http://h.example/2?a&b]]></link></item></channel></rss>"""
ATOM = """<feed xmlns='http://www.w3.org/2005/Atom'><link href='http://h.example/'/>
<entry><link rel='edit' href='/e'/><link rel="alternate" href="/1?a=1&amp;b"/><updated>2026</updated></entry>
<entry><link href='/2'/></entry><entry></entry></feed>"""
RDF = """<rdf:RDF xmlns:rdf='x'><channel><link>http://h.example/</link></channel>
<item><link>http://h.example/1</link></item><item><link>http://h.example/2</link>"""


def parsed(text: str | bytes) -> Sitemap:
    """What a sitemap lists."""
    return parse(text.encode() if isinstance(text, str) else text, URL)


def locations(text: str | bytes) -> list[str]:
    """The pages that a sitemap lists."""
    return [url for url, _ in parsed(text).urls]


def test_a_sitemap() -> None:
    """The example of the sitemaps protocol: pages, some with the date of their last change."""
    text = f"""{HEAD}<urlset {NAMESPACE}>
      <url><loc>http://h.example/</loc><lastmod>2005-01-01</lastmod><changefreq>monthly</changefreq></url>
      <url> <loc> http://h.example/catalog?item=12&amp;desc=vacation_hawaii </loc> </url>
      <url><lastmod>2004-12-23T18:00:15+00:00</lastmod><loc>http://h.example/b&#x26;c&#39;</loc></url>
    </urlset>"""
    assert parsed(text) == Sitemap(
        [
            ("http://h.example/", "2005-01-01"),
            ("http://h.example/catalog?item=12&desc=vacation_hawaii", None),
            ("http://h.example/b&c'", "2004-12-23T18:00:15+00:00"),
        ],
        [],
    )


def test_an_index() -> None:
    """The example of an index: further sitemaps, no pages."""
    text = f"""{HEAD}<sitemapindex {NAMESPACE}>
      <sitemap><loc>http://h.example/sitemap1.xml.gz</loc><lastmod>2004-10-01</lastmod></sitemap>
      <sitemap><loc>sitemap2.xml</loc></sitemap>
    </sitemapindex>"""
    assert parsed(text) == Sitemap(
        [], ["http://h.example/sitemap1.xml.gz", "http://h.example/sitemaps/sitemap2.xml"]
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://h.example/a\r\n\nHTTPS://h.example/b \nnonsense\n", ["http://h.example/a", "HTTPS://h.example/b"]),
        ("\ufeffhttp://h.example/a", ["http://h.example/a"]),
        (
            RSS,
            ["http://h.example/1", "http://h.example/2?a&b"],
        ),
        (
            ATOM,
            ["http://h.example/1?a=1&b", "http://h.example/2"],
        ),
        (
            RDF,
            ["http://h.example/1", "http://h.example/2"],
        ),
        (
            "<sm:urlset xmlns:sm='x'><sm:url><sm:loc>/a</sm:loc><loc>/no</loc></sm:url></sm:urlset>",
            ["http://h.example/a"],
        ),
        (
            "<urlset><url><loc>/a</loc><image:image><image:loc>/a.png</image:loc></image:image></url></urlset>",
            ["http://h.example/a"],
        ),
        ("<urlset><url><loc><![CDATA[ /a?b&c ]]></loc></url></urlset>", ["http://h.example/a?b&c"]),
        ("<urlset><!-- <url><loc>/no</loc></url> --><url><loc>/a</loc></url><!-- ", ["http://h.example/a"]),
        # Broken in one way or another.
        ("<urlset><url><loc>/a</loc><url><loc>/b<loc>/c</url>", ["http://h.example/a", "http://h.example/b", "http://h.example/c"]),
        ("<urlset><loc>/a</loc><loc>/b</loc>", ["http://h.example/a", "http://h.example/b"]),
        ("<urlset><url><loc>/a</loc></url><url><loc>/b", ["http://h.example/a", "http://h.example/b"]),
        ("<loc>/a</loc> & < <url <loc", ["http://h.example/a"]),
        ("<urlset><url><loc></loc></url><url><loc>/a</loc></url><url><loc>/a</loc></url>", ["http://h.example/a"]),
        ("<urlset><url><loc>mailto:x@y</loc></url><url><loc>http://[</loc></url>", ["http://["]),
        ("<urlset><url><loc>//[</loc></url>", []),
        ("<urlset><url><loc>/a?x=1&copy=2&unknown;&#0;&#xD800;</loc></url>", ["http://h.example/a?x=1&copy=2&unknown;"]),
        ("<html><body>not found</body></html>", []),
        ("", []),
    ],
)  # fmt: skip
def test_forms(text: str, expected: list[str]) -> None:
    """Every form is read, and of a broken one what can be read."""
    assert locations(text) == expected


def test_dates() -> None:
    """Dates of feeds are kept as they are written, if they are of a sensible length."""
    text = "<feed><entry><link href='/1'/><updated>2026-11-16T00:00:00Z</updated></entry></feed>"
    assert parsed(text).urls == [("http://h.example/1", "2026-11-16T00:00:00Z")]
    text = f"<urlset><url><loc>/1</loc><lastmod> </lastmod><url><loc>/2</loc><lastmod>{'9' * 99}</lastmod>"
    assert [changed for _, changed in parsed(text).urls] == [None, "9" * 40]


@pytest.mark.parametrize(
    ("declared", "real"),
    [
        ("UTF-8", "utf-8"),
        ("utf-8", "utf-8-sig"),
        ("utf-16", "utf-16"),
        ("iso-8859-1", "iso-8859-1"),
        ("no-such", "iso-8859-1"),
        ("punycode", "iso-8859-1"),
        ("utf-16", "utf-8"),
    ],
)
def test_encodings(declared: str, real: str) -> None:
    """The declared encoding is used, or the one that the first bytes give away, or else latin-1."""
    text = f"<?xml version='1.0' encoding='{declared}'?><urlset><url><loc>/ü</loc></url></urlset>"
    assert locations(text.encode(real)) == ["http://h.example/%C3%BC"]


def test_gzip() -> None:
    """What begins like gzip is unpacked, whatever its name, in several parts too; damage ends it."""
    first, second = b"<urlset><url><loc>/a</loc></url>", b"<url><loc>/b</loc></url></urlset>"
    whole = gzip.compress(first) + gzip.compress(second)
    assert parsed(whole) == parsed(first + second)
    torn = parsed(gzip.compress(first + second)[:-20])
    assert torn.cut_off == "damaged"
    assert parsed(b"\x1f\x8bnonsense") == Sitemap([], [], "damaged")
    assert locations(gzip.compress(first) + b"\x1f\x8bnonsense") == ["http://h.example/a"]


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than so many entries and so many bytes are read, and it is said which of the two it was."""
    many = "<urlset>" + "".join(f"<url><loc>/{n}</loc></url>" for n in range(100))
    monkeypatch.setattr(sitemaps, "MAX_ENTRIES", 10)
    found = parsed(many)
    assert (len(found.urls), found.cut_off) == (10, "number")
    monkeypatch.setattr(sitemaps, "MAX_ENTRIES", 1000)
    assert parsed(many).cut_off == ""
    monkeypatch.setattr(sitemaps, "MAX_BYTES", 1000)
    for body in (many.encode(), gzip.compress(many.encode())):
        found = parsed(body)
        assert found.cut_off == "size"
        assert 0 < len(found.urls) < 100


def test_a_bomb_is_not_unpacked() -> None:
    """Of a sitemap that unpacks to gigabytes only the first 50 MiB are."""
    bomb = gzip.compress(b"<urlset><url><loc>/a</loc></url>" + b" " * (60 << 20))
    found = parse(bomb, URL)
    assert found == Sitemap([("http://h.example/a", None)], [], "size")


def test_entities_are_not_expanded() -> None:
    """A document type with entities that multiply, or read files, is so much text."""
    text = (
        '<!DOCTYPE x [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>'
        "<urlset><url><loc>/&b;&f;</loc></url></urlset>"
    )
    assert locations(text) == ["http://h.example/&b;&f;"]


@pytest.mark.parametrize(
    "text",
    [
        "<loc" * 200_000,
        "<!--" * 200_000,
        "<loc>" * 200_000,
        "<link a='" * 100_000,
        "<entry><link " + "a" * 10**6 + ">",
        "<urlset " + "<" * 10**6,
    ],
)
def test_what_is_made_to_be_slow_is_not(text: str) -> None:
    """Text made against scanners takes time in proportion to its length, or this would not end."""
    assert len(parsed(text).urls) <= 1
    assert len(parsed("<feed>" + text).urls) <= 1


@given(st.one_of(st.binary(max_size=200), st.text("<>/urlsetocmap:!-[]CDAT& ", max_size=200).map(str.encode)))
def test_anything_can_be_parsed(body: bytes) -> None:
    """Whatever comes, what is found are URLs, and nothing is raised."""
    found = parse(body, URL)
    assert all(url.lower().startswith(("http://", "https://")) for url, _ in found.urls)
    assert all(url.lower().startswith(("http://", "https://")) for url in found.sitemaps)
