"""HTML: what is found in pages, and that no page can do harm."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gcs.summary import Document, Heading, Level, Link, read
from gcs.summary import records as limits
from gcs.summary.directives import Directives, is_followed, of_header, of_meta, refresh_target
from gcs.summary.hypertext import read_full, read_links
from tests.effort import examples

URL = "http://host.test/dir/page"
PAGE = b"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title> The
 title &amp; more </title>
<base href="/base/"><base href="/second/">
<meta name="description" content="What this is  about">
<meta name="Keywords" content="one, two ,, one; three">
<meta name="robots" content="noindex">
<meta http-equiv="Refresh" content="5; URL='/later'">
<link rel="stylesheet" href="/style.css"><link rel="alternate stylesheet" href="/other.css">
<link rel="Canonical" href="/canonical"><link rel="next" href="/next">
<link rel="alternate" hreflang="de" href="/de">
<style>p { color: red } /* <a href="/in-style"> */</style></head>
<body><nav><a href="/nav">Navigation that is long enough to be taken for a paragraph of text</a>
<p>Navigation that is long enough to be taken for a paragraph, but is none of the main text.</p></nav>
<!-- <a href="/in-comment">no</a> -->
<script>document.write('<a href="/in-script">no</a>')</script>
<main><h1>First</h1><h2>Sec<b>ond</b></h2>
<p>Short.</p>
<p>The quick brown fox jumps over the lazy dog, and all the others look at it with <a href="a?x=1&amp;y=2"
 rel="nofollow">great   interest</a> and some amazement.</p>
<p>Then they went home, where a dinner was waiting for them that nobody had expected to be so good.</p></main>
<map><area href="/area" alt="An area"></map>
<A HREF='single'>1</A><a name=x href=unquoted>2</a><a href="">empty</a><a>none</a>
<iframe src="/iframe"><a href="/in-iframe">no</a></iframe>
<textarea><a href="/in-textarea"></textarea>
<a data-href="/data" href = "/spaced" >3</a><a href="/cut
</body>"""
HREFS = [
    "/later", "/canonical", "/next", "/de", "/nav", "a?x=1&y=2", "/area", "single", "unquoted", "/iframe",
    "/spaced",
]  # fmt: skip


def test_full() -> None:
    """Everything that a page says is found at level "full"."""
    found = read(PAGE, url=URL, content_type="text/html")
    assert found.title == "The title & more"
    assert found.description == "What this is about"
    assert found.keywords == ("one", "two", "three")
    assert found.headings == (Heading(1, "First"), Heading(2, "Second"))
    assert found.excerpt.startswith("The quick brown fox jumps over the lazy dog")
    assert found.excerpt.endswith("so good.")
    assert (found.language, found.format) == ("en", "text/html")
    assert found.language_confidence > 0.9
    assert (found.charset, found.charset_declared, found.charset_detected) == ("utf-8", "utf-8", "us-ascii")
    assert (found.base, found.canonical, found.refresh) == ("/base/", "/canonical", "/later")
    assert (found.noindex, found.nofollow) == (True, False)
    assert list(found.hrefs) == HREFS
    assert found.links[5] == Link("a?x=1&y=2", "great interest", "nofollow", "a")
    assert found.links[6] == Link("/area", "An area", "", "area")
    assert [link.kind for link in found.links] == [
        "meta-refresh",
        *["link"] * 3,
        "a",
        "a",
        "area",
        "a",
        "a",
        "iframe",
        "a",
    ]


def test_links() -> None:
    """Level "links" finds the same links, base and requests as level "full"."""
    full = read(PAGE, url=URL, content_type="text/html")
    found = read(PAGE, url=URL, content_type="text/html", level="links")
    assert list(found.hrefs) == HREFS
    assert found.links == [Link(href) for href in HREFS]
    same = ("base", "canonical", "refresh", "noindex", "nofollow", "charset", "format", "links_cut")
    assert [getattr(found, name) for name in same] == [getattr(full, name) for name in same]


def test_frames() -> None:
    """Frames are links."""
    page = b"<frameset cols=1,2><frame src=/left><frame src='/right'></frameset>"
    assert list(read_links(page).hrefs) == list(read_full(page).hrefs) == ["/left", "/right"]


@pytest.mark.parametrize(
    ("page", "hrefs"),
    [
        (b"", []),
        (b"<a href=x>", ["x"]),
        (b"<a href=x", []),
        (b"<a href='x", []),
        (b"<a href=x/>", ["x/"]),
        (b'<a\nhref\t=\r\n"x">', ["x"]),
        (b"<a/href=x>", ["x"]),
        (b"<a href=x href=y>", ["x"]),
        (b"<a hrefs=x>", []),
        (b"<a title='>' href=x>", ["x"]),
        (b'<a title="a\'b" href=x>', ["x"]),
        (b'<a title=a"b href=x>', ["x"]),
        (b'<a "href=x>', []),
        (b"<a =href=x href=y>", ["y"]),
        (b"<a href=>y</a>", []),
        (b"<abbr href=x><article href=y>", []),
        (b"< a href=x>", []),
        (b"</a href=x>", []),
        (b"<!--><a href=x>-->", ["x"]),
        (b"<!--a--!><a href=x>", ["x"]),
        (b"<!-- <a href=x> -- > -", []),
        (b"<!a href=x><a href=y>", ["y"]),
        (b"</ <a href=x><!<a href=x><?<a href=x><a href=y>", ["y"]),
        (b"<script><a href=x></scriptx><a href=y></script ><a href=z>", ["z"]),
        (b"<SCRIPT><a href=x>", []),
        (b"<title><a href=x></title><a href=y>", ["y"]),
        (b"<iframe><a href=x></iframe><a href=y>", ["y"]),
        (b"<noscript><a href=x></noscript>", ["x"]),
        (b"<a href='&lt;&#65;&#x42;&amp;&copy;'>", ["<AB&©"]),
        (b"<a href='?a=1&copy=2&not=3&notit;&amp'>", ["?a=1&copy=2&not=3&notit;&"]),
        (b"<a href='a\0b&#0;c'>", ["a\ufffdb\ufffdc"]),
        (b"<a href='\xff\xfe'>", ["\ufffd\ufffd"]),
        (b"<link rel=next><meta http-equiv=refresh><meta http-equiv=refresh content=5><base>", []),
    ],
)
def test_tags(page: bytes, hrefs: list[str]) -> None:
    """Tags are read as the HTML standard reads them, at both levels alike."""
    assert list(read_links(page).hrefs) == hrefs
    assert list(read_full(page).hrefs) == hrefs


TEXT = st.text("ab &;#x1\t\n\"'=/-!", max_size=8)
VALUES = st.builds(
    "{0}{1}{0}".format, st.just('"'), TEXT.map(lambda text: text.replace('"', ""))
) | st.builds("{0}{1}{0}".format, st.just("'"), TEXT.map(lambda text: text.replace("'", "")))
ATTRIBUTES = st.builds(
    "{}={}".format, st.sampled_from(["href", "HREF", "src", "rel", "title", "name", "content"]), VALUES
)
NAMES = st.sampled_from(
    ["a", "A", "area", "div", "p", "b", "i", "td", "ul", "li", "base", "link", "meta", "span", "abbr"]
)
TAGS = st.builds(
    lambda name, attributes: f"<{name} {' '.join(attributes)}>", NAMES, st.lists(ATTRIBUTES, max_size=3)
)
PIECES = st.one_of(
    TAGS,
    TAGS,
    NAMES.map("</{}>".format),
    TEXT,
    st.builds("<!--{}{}-->".format, TEXT, TAGS),
    st.builds(
        "<{0}>{1}</{0}>".format, st.sampled_from(["script", "STYLE", "textarea", "iframe", "title"]), TAGS
    ),
    st.sampled_from(["<!--", "-->", "<br/>", "<a href=x>", "<a\nhref", "<!", "<?x>", "="]),
)


@settings(max_examples=examples(100))
@given(st.lists(PIECES, max_size=12).map("".join))
@example('<h1 title="<a href=x>">')
@example("<h1\n<A href=z</script> class='c' <svg")
@example("<html a='<a href=x>'><base href=y>")
@example("<a href='&#1;'>x</a><a href=\"&#1;\">y</a>")
def test_agreement(page: str) -> None:
    """Both levels find the same links in the same order, whatever the page looks like."""
    body = page.encode()
    links, full = read_links(body), read_full(body)
    assert list(links.hrefs) == list(full.hrefs)
    same = ("base", "canonical", "refresh", "noindex", "nofollow", "description", "keywords")
    assert [getattr(links, name) for name in same] == [getattr(full, name) for name in same]


MARKUP = st.lists(
    st.sampled_from(
        [
            *(b"<%s>" % tag for tag in b"a p div table tr td b i nav main article svg math template".split()),
            *(b"</%s>" % tag for tag in b"a p div table b nav main script template title svg html".split()),
            *b"<a href=x>|<h1>|</h1>|<title>|<script>|<!--|-->|<aside>|<frameset>|<select>".split(b"|"),
            *b"<noscript>|<button>|<style>|\0|\xff|\xc3|&#0;|&#xd800;|&#x110000;|<frame src=y>".split(b"|"),
            *b"<![CDATA[|<meta name=robots content=none>|<meta charset=|utf-16>|<html lang=x>".split(b"|"),
            *(b"<base href=z>", b"<footer>", b"</body>", b"]]>", b"text", b"<p>" + b"word " * 20),
        ]
    ),
    max_size=40,
).map(b"".join)  # fmt: skip


def _check(found: Document) -> None:
    for text in (found.title, found.description, found.excerpt, *found.keywords, *found.hrefs):
        text.encode()
    assert len(found.title) <= limits.MAX_TITLE
    assert len(found.excerpt) <= limits.MAX_EXCERPT
    assert 0 <= found.language_confidence <= 1
    assert not found.links or [link.href for link in found.links] == list(found.hrefs)
    assert len(found.headings) <= limits.MAX_HEADINGS


@settings(max_examples=examples(100))
@given(
    MARKUP | st.binary(max_size=300),
    st.sampled_from(["text/html", "text/html; charset=big5", "", "text/plain"]),
)
@example(b"\xff\xfe<\0a\0", "text/html")
@example(b"\x1b$B<a href=x>", "text/html")
def test_never_raises(body: bytes, content_type: str) -> None:
    """Whatever the bytes are, both levels give a document within its bounds."""
    _check(read(body, url=URL, content_type=content_type))
    _check(read(body, url=URL, content_type=content_type, level="links"))


@pytest.mark.uncounted
@pytest.mark.parametrize(
    "unit",
    [
        *b"<div>|<a href=x>|<b>|<table><tr><td>|<i><a href=x>|<nobr><b><i><u><s>|<li><ul>".split(b"|"),
        *b"<svg><desc>|<template>|<p><b>|<nav>|<h1>|<font><p>|<button>|<a href=x><table>".split(b"|"),
        *b"<!--|<a |<a href='|<a \"|<script>|&|<|<a href=x <|</p>|<iframe>|<title>|<!|<meta |=".split(b"|"),
        *b"a=1 |<!-- -|</script|<li>|<p>|<option>|<dd>|<tr>|<nav></footer>|<aside><nav></aside>".split(b"|"),
        *b'<a href="x|<a href="x">|<a href="x"><b>|<a class="|<p class="|<h1><h2>|&#|&amp'.split(b"|"),
        *b'<h1 class="|<main class="|</main a="|<p><button>|<p><svg a="|<nav class="|<main></main>'.split(
            b"|"
        ),
    ],
)
def test_repetition(unit: bytes) -> None:
    """A hundred thousand times the same tag, opened and never closed, is read like any other page."""
    body = b"<html>" + unit * 100_000
    levels: tuple[Level, ...] = ("full", "links")
    for level in levels:
        found = read(body, url=URL, content_type="text/html", level=level)
        assert len(found.hrefs) <= limits.MAX_LINKS


@pytest.mark.parametrize("digits", [b"9" * 5000, b"0" * 5000 + b"65", b"x" + b"0" * 5000])
def test_endless_references(digits: bytes) -> None:
    """A reference with more digits than can be read is no character, and its page is read all the same."""
    body = b"<title>&#%b;</title><p>&#%b words <a href='/x&#%b;'>x</a>" % (digits, digits, digits)
    assert read(body, url=URL, content_type="text/html").excerpt.endswith("words x")
    assert len(read(body, url=URL, content_type="text/html", level="links").hrefs) == 1


def test_links_of_a_page_that_is_not_the_utf8_it_claims_to_be() -> None:
    """At level "links" UTF-8 is believed, but not when the links themselves are something else."""
    text = "<p>Die größte Straße der Stadt ist schöner als früher, sagen die Bürger, und größer.</p>"
    body = f'<meta charset=utf-8>{text}<a href="/größe">x</a><a href="/y">y</a>'.encode("windows-1252")
    levels: list[Level] = ["links", "full"]
    for level in levels:
        found = read(body, url=URL, content_type="text/html; charset=utf-8", level=level)
        assert (found.hrefs, found.charset) == (["/größe", "/y"], "windows-1252")
    believed = read(body.replace(b"/gr\xf6\xdfe", b"/x"), url=URL, content_type="text/html", level="links")
    assert (believed.hrefs, believed.charset) == (["/x", "/y"], "utf-8")


def test_areas() -> None:
    """The text of an area is its alternative, however many there are and whatever follows."""
    found = read_full(b"<area href=x alt=y> text" * 50_000)
    assert (found.links[0], len(found.hrefs)) == (Link("x", "y", "", "area"), limits.MAX_LINKS)


def test_unclosed_buttons() -> None:
    """A paragraph ends where a button in it is never closed, and that takes no time."""
    body = b"<p>Words " + (b"<p>" + b"<svg " * 1590) * 200
    assert read_full(body).excerpt.startswith("Words")


def test_nesting() -> None:
    """Depth makes no difference: a page nested a thousandfold is read like any other."""
    body = b"<title>Deep</title><meta name=description content=d>" + b"<div>" * 5000
    body += b"<p>Some words in the depth. <a href=/x>X</a><iframe src=/y></iframe>" + b"</div>" * 5000
    found = read(body, url=URL, content_type="text/html")
    assert (found.title, found.description) == ("Deep", "d")
    assert found.excerpt == "Some words in the depth. X"
    assert list(found.links) == [Link("/x", "X"), Link("/y", kind="iframe")]


def test_many_tags() -> None:
    """Behind very many other tags links, their texts and requests are found too."""
    body = b"<p>A paragraph <b>with</b> some words.</p>" * 50_000 + b"<a href=/x rel=next>text</a>"
    assert read(body, url=URL, content_type="text/html").links == [Link("/x", "text", "next")]
    late = read(b"<b>" * 100_000 + b"<meta name=robots content=none>", url=URL, content_type="text/html")
    assert (late.noindex, late.nofollow) == (True, True)


@pytest.mark.parametrize("level", ["full", "links"])
def test_many_links(level: Level) -> None:
    """Of a page with a million links the first ten thousand are kept, and the document says so."""
    body = b"<a href=/x>" * 1_000_000
    found = read(body, url=URL, content_type="text/html", level=level)
    assert (len(found.hrefs), found.links_cut) == (limits.MAX_LINKS, True)


@pytest.mark.parametrize("level", ["full", "links"])
def test_huge_attributes(level: Level) -> None:
    """A link that is too long for any URL is left out, and others stay."""
    long = b"x" * 1_000_000
    body = b"<a href=" + long + b"><a href=/y rel=" + long + b" title='" + long + b"'>" + long + b"</a>"
    found = read(body, url=URL, content_type="text/html", level=level)
    assert list(found.hrefs) == ["/y"]
    if level == "full":
        assert (len(found.rels[0]), len(found.texts[0])) == (limits.MAX_REL, limits.MAX_LINE)


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        (b"<a href=x><b>bold</b> <img alt=no src=y> and  <!-- no -->more</a> not", ["bold and more"]),
        (b'<a href="x">\n one <i>&amp;</i>\ttwo&nbsp;\n</a><a href="y"> \n</a>', ["one & two", ""]),
        (b'<a href="x">unclosed <a href="y">also <A HREF=z>last</a> not', ["unclosed", "also", "last"]),
        (b'<a href="x">not closed <a name=y>not in it</a>', ["not closed"]),
        (b'<h2><a href="x">in a heading</a></h2><a href="y"><h3>around one</h3></a>',
         ["in a heading", "around one"]),
        (b'<a class="c" id="i" href="x" title="t">usual</a><a title=">" href=\'y\'>unusual</a>',
         ["usual", "unusual"]),
        (b'<a href="x"><script>no</script>yes</a>', ["yes"]),
        (b'<a href="x">' + b"long " * 100 + b'</a><a href="y">short</a>', ["long " * 39 + "long", "short"]),
        (b"<a href=x>" + b"<table><tr><td><a href=y>" * 300 + b"words", [""] * 300 + ["words"]),
    ],
)  # fmt: skip
def test_anchor_texts(page: bytes, texts: list[str]) -> None:
    """The text of a link is what stands in it, without tags, up to its end or to the next link."""
    assert [link.text for link in read_full(page).links] == texts


def test_rel() -> None:
    """The rel of a link is found wherever it stands among its attributes."""
    page = b"""<a href="1" rel="nofollow">1</a><a href="2">2</a><a rel="a&amp;b" href="3">3</a>
    <a href="4" title="t" rel="ugc" id="i">4</a><a href=5 rel='x'>5</a><a class="rel=no" href="6">6</a>"""
    assert [link.rel for link in read_full(page).links] == ["nofollow", "", "a&b", "ugc", "x", ""]


def test_headings() -> None:
    """Headings have their level and their text without tags; the first of them are kept."""
    page = b"<h1> One <a href=x>linked</a></h1><H2 class=c>Two<h3></h3><h6>Six &lt;"
    assert read_full(page).headings == (Heading(1, "One linked"), Heading(2, "Two"), Heading(6, "Six <"))
    assert len(read_full(b"<h2>more</h2>" * 100).headings) == limits.MAX_HEADINGS


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (b"<nav>no <nav>no</nav> no</nav> yes <footer>no</footer> yes", 2),
        (b"<nav>yes <p>yes", 2),
        (b"<nav>yes <main>yes </main>" + b"yes " * 50, 52),
        (b"<nav>yes <aside>no</aside> yes", 2),
        (b"<nav>no <aside>no</nav> yes </aside> yes", 2),
        (b"</nav> yes <NAV>no</Nav> <svg/> yes <select><option>no</select> <button>no</button> yes", 3),
        (b"<nav>no <svg/>no</svg> <button>no</button>no</nav> yes <main>yes</main> yes", 3),
        (b"<noscript>no</noscript><template>no</template><script>no</script><style>no</style> yes", 1),
    ],
)
def test_asides(page: bytes, words: int) -> None:
    """What stands in navigation and the like is no text, unless it is never closed."""
    assert read_full(page).excerpt.split() == ["yes"] * words


def test_many_attributes() -> None:
    """A tag with a hundred thousand attributes is one tag."""
    body = b"<a " + b" ".join(b"a%d=1" % n for n in range(100_000)) + b" href=/x>"
    assert list(read_links(body).hrefs) == ["/x"]


def test_title_from_heading() -> None:
    """A page without a title is called after its first heading."""
    assert read_full(b"<h3></h3><h2>Two</h2>").title == "Two"
    assert read_full(b"<p>nothing").title == ""


def test_main_text() -> None:
    """The main text is that of `<main>` or of the only `<article>`, unless there is next to nothing in it."""
    text = b"<p>" + b"Sentences make up the text of this page. " * 5
    assert read_full(b"<header>Menu Home</header><main>" + text).excerpt.startswith("Sentences")
    assert len(read_full(b"<header>Menu Home</header><main>" + text).excerpt.split()) == 40
    assert "make up" in read_full(b"<main>None</main><div>" + text).excerpt
    assert read_full(b"<div>Only a few words</div>").excerpt == "Only a few words"
    assert len(read_full(b"<div>Menu</div><article>" + text + b"</article>").excerpt.split()) == 40
    assert len(read_full((b"<article>" + text + b"</article>") * 2).excerpt.split()) == 80
    assert len(read_full(text * 5).excerpt) > 450
    assert len(read_full(b"<main>" + text + b"<nav>no</nav></main>" + text).excerpt.split()) == 40
    assert len(read_full(b"<main>" + text + b"<main>" + text).excerpt.split()) == 80
    with_button = b"<p>Some words before a button <button>no</button> and quite a number of words behind it. "
    assert "before a button and quite" in read_full(with_button * 2).excerpt


def test_open_graph() -> None:
    """A description that is only there for social networks is one as well."""
    assert read_full(b'<meta property="og:description" content="D">').description == "D"


@pytest.mark.parametrize(
    ("content", "asked"),
    [
        ("", (False, False)),
        ("index, follow", (False, False)),
        ("NoIndex", (True, False)),
        ("nofollow,noarchive", (False, True)),
        ("none", (True, True)),
        (" noindex\tnofollow ", (True, True)),
    ],
)
def test_robots(content: str, asked: tuple[bool, bool]) -> None:
    """The words of the robots tag are read without regard to case, order and spacing."""
    page = f'<meta name=ROBOTS content="{content}">'.encode()
    for found in (read_links(page), read_full(page)):
        assert (found.noindex, found.nofollow) == asked
    assert of_meta(content) == asked


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        ("", (False, False)),
        ("noindex, nofollow", (True, True)),
        ("other: noindex, nofollow", (False, False)),
        ("other: none, gcs: nofollow", (False, True)),
        ("*: noindex", (True, False)),
        ("unavailable_after: 25 Jun 2010 15:00:00 PST, noindex", (True, False)),
    ],
)
def test_robots_header(value: str, asked: tuple[bool, bool]) -> None:
    """In the header a name before a colon says which crawler the words after it are for."""
    assert of_header(value, "GCS") == asked
    assert of_header(value, "GCS") | Directives(nofollow=True) == (asked[0], True)


def test_directives_are_only_joined_with_directives() -> None:
    """What a page asks can be joined with nothing else."""
    with pytest.raises(TypeError):
        _ = Directives() | 1


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0;url=/x", "/x"),
        ("5; URL = '/a b' trailing", "/a b"),
        ('0,"/x"', "/x"),
        ("3 /x", "/x"),
        ("1.5; /x?a=b;c=d", "/x?a=b;c=d"),
        ("5", ""),
        ("", ""),
        ("url=/x", ""),
        ("5; url=", ""),
    ],
)
def test_refresh(content: str, target: str) -> None:
    """The target of a refresh is read as browsers read it."""
    assert refresh_target(content) == target


def test_nofollow_on_one_link() -> None:
    """Of a link's rel only the word nofollow speaks against following it."""
    assert all(map(is_followed, ("", "noopener external", "nofollowers")))
    assert not is_followed("external NoFollow")


def test_first_title() -> None:
    """Of several titles the first that says something is the title."""
    page = b"<title></title><title>One &amp; <b>only</title><title>Two</title>"
    assert read_full(page).title == "One & <b>only"
