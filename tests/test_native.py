"""What is compiled gives the same as its reference in Python, whatever strangers send."""

from __future__ import annotations

import ast
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gcs import doctor, native
from gcs.core import profiles, traps
from gcs.gatherer import links
from gcs.native import compiled, is_compiled
from gcs.store import parquet
from gcs.store.columns import pack_columns, pack_columns_expressed, repeated_expressed
from gcs.summary import charsets, excerpt, page, scan
from gcs.summary.head import Head

pytestmark = pytest.mark.skipif(
    not is_compiled, reason="nothing is compiled: there was no compiler, or GCS_COMPILED=no"
)

# What tags are made of, whole and in pieces, so that pages are nearly right as well as wrong.
PIECES = (
    *(b"<", b">", b"</", b"/>", b"<!", b"<?", b"<!--", b"-->", b"--!>", b"-", b"!", b"/", b"="),
    *(b'"', b"'", b" ", b"  ", b"\n", b"\t", b"\x0c", b"\r", b"\x00", b"a", b"word", b"\xc3\xa9"),
    *(b"\xc2\xa0", b"\xe3\x80\x80", b"\xff", b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90", b"&"),
    *(b"&amp;", b"&#1;", b"&#x41;", b"&lt", b"&eacute;", b"<a ", b"<A\n", b"href", b"HREF="),
    *(b'<a href="x">', b"<a href='/y'>", b"<a href=z#f>", b"</a>", b"</A >"),
    *(b'<a class="c" href="u" rel="nofollow" title="t">', b" rel=x"),
    *(b"<area href=m alt='t<b>&amp;'>", b"<area ", b"<script>", b"</script", b"<STYLE "),
    *(b"</style>", b"<textarea>", b"</textarea>", b"<xmp", b"<noembed>", b"<noframes", b"<title>"),
    *(b"</title>", b"<iframe src=i>", b"</iframe>", b"<frame src=f", b"<meta "),
    *(b"name=robots content=nofollow", b"http-equiv=refresh content='0;url=r'", b"<base href=/b/>"),
    *(b"<link rel=canonical href=c>", b"<h1>", b"</h1>", b"<h6 class=x", b"<H2", b"<html lang=en>"),
    *(b"<html", b"<p>", b"</p>", b"<P ", b"<div>", b"<main>", b"</main>", b"<article"),
    *(b"</article>", b"<nav>", b"</nav>", b"<svg>", b"</svg>", b"<button/>", b"</button>"),
    *(b"<noscript>", b"</noscript>", b"<b>", b"</b>"),
    b"A sentence that is long enough to be a paragraph of its own. ",
)
pages = st.lists(st.sampled_from(PIECES) | st.binary(max_size=6), max_size=60).map(b"".join)


def test_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that was compiled before something was added to it is not used at all."""
    described = Path(native.__file__).with_name("_compiled.pyi").read_text(encoding="utf-8")
    made = [each for each in ast.parse(described).body if isinstance(each, ast.FunctionDef | ast.ClassDef)]
    assert {each.name for each in made} == native.NAMES
    assert native.loaded() is compiled
    for name in native.NAMES:
        with monkeypatch.context() as patch:
            patch.delattr(compiled, name)
            assert native.loaded() is None


def said(head: Head) -> list[object]:
    return [getattr(head, name) for name in Head.__slots__]


@given(body=pages)
@example(body=b"<<b>a href=x>")
def test_links(body: bytes) -> None:
    """The links of a page, and what its head says, are the same."""
    one, other = scan.scan_compiled(body), scan.scan_expressed(body)
    assert one.hrefs == other.hrefs
    assert said(one.head) == said(other.head)


@given(body=pages)
@example(body=b"<a href=x>" + b" y" * 500 + b"</a><h1>" + b"<b>z</b>\n" * 300)
def test_tags(body: bytes) -> None:
    """All that the tags of a page say is the same, and both levels have the same links."""
    one, other = page.look_compiled(body), page.look_expressed(body)
    assert said(one.head) == said(other.head)
    assert one[1:] == other[1:]
    assert one.hrefs == scan.scan_compiled(body).hrefs


@pytest.mark.parametrize(
    "tag",
    [b"<a href=x>y ", b'<h1><area href="x" alt="y">', b"<a href=", b"<!-- <a href=x> -->", b"<", b"<a "],
)
def test_huge_pages(tag: bytes) -> None:
    """Huge pages are read as far by both, and what is repeated a hundred thousand times takes no longer."""
    body = tag * (1_200_000 // len(tag))
    one, other = page.look_compiled(body), page.look_expressed(body)
    assert (one[1:], one.hrefs) == (other[1:], other.hrefs)
    assert scan.scan_compiled(body).hrefs == scan.scan_expressed(body).hrefs


@given(body=pages)
@example(body=b"<main><p>" + b"<button>x</button>A sentence of some length, again. " * 40 + b"</main>")
def test_paragraphs(body: bytes) -> None:
    """The beginning of a page's text is the same."""
    one, other = (excerpt.beginning(body, main) for main in (excerpt.CompiledMain, excerpt.ExpressedMain))
    assert one == other


@given(
    body=st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace")[:-1])
)
@example(body=b"\xe0\x80")
@example(body=b"ascii that is longer than a word \xf0\x9f\x98")
def test_utf8(body: bytes) -> None:
    """Where UTF-8 ends is found at the same place."""
    assert compiled.utf8_end(body) == charsets.utf8_end_expressed(body)


@given(body=pages, path=st.sampled_from([b"", b"/", b"a", b"word", b"ff", b'hrhref="ef=']))
@example(body=b'hrefhref="x"="y" href=\'1', path=b"")
def test_shapes(body: bytes, path: bytes) -> None:
    """What a page has in common with others of its template is the same."""
    assert compiled.shape_of(body, path) == traps.shape_of_expressed(body, path)


@contextmanager
def in_python() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links, "is_compiled", False)
        yield


PLACES = st.sampled_from(
    ["http://a.example/", "http://a.example/d/e/f.html?q", "https://b.example:8080/x//y/"]
)
HREFS = st.lists(
    st.sampled_from(
        ["/", "/x", "x", "../x", "./x", "../../../x", "..", ".x", "//c.example/", "http://a.example/x"]
    )
    | st.sampled_from(
        ["#f", "/x#é", "x#\u20ac", "é", "\u20ac", "../\u20ac", "mailto:x", "?q", " x", "\\x", "h", ""]
    )
    | st.sampled_from(["https://", "http:/x", "h", "", "a:b", "/a\tb", "x" * 3000, "http://a.example/x"])
    | st.text("./#?:aé\u20ac \\h", max_size=8),
    max_size=30,
)


@given(visits=st.lists(st.tuples(PLACES, HREFS, st.booleans()), max_size=6))
def test_resolving(visits: list[tuple[str, list[str], bool]]) -> None:
    """Links mean the same, also those that were met before, and are settled at the same moment."""
    one = links.Targets(remembered=20)
    with in_python():
        other = links.Targets(remembered=20)
    for place, hrefs, unsettled in visits:
        found = one.resolve(place, hrefs, unsettled=unsettled)
        with in_python():
            expected = other.resolve(place, hrefs, unsettled=unsettled)
        assert [each and (each.url, each.settled) for each in found] == [
            each and (each.url, each.settled) for each in expected
        ]
        assert one.remembered == other.remembered
        if unsettled:
            links.unsettled(found[::2])
            links.unsettled(expected[::2])


@given(
    steps=st.lists(st.tuples(st.text(max_size=3), st.integers()), max_size=300),
    asked=st.lists(st.text(max_size=3)),
)
def test_memos(steps: list[tuple[str, int]], asked: list[str]) -> None:
    """A memo answers as a dictionary does, and lets go of what it held."""
    memo, model = compiled.Memo(bytes(16)), dict[str, int]()
    for name, value in steps:
        memo[name] = model[name] = value
    assert len(memo) == len(model)
    for name in [*asked, *model]:
        assert memo.get(name, None) == model.get(name)
    held = object()
    before = sys.getrefcount(held)
    for number in range(100):
        memo[str(number % 50)] = held
    assert sys.getrefcount(held) == before + 50
    del memo
    assert sys.getrefcount(held) == before


SIGNS = ("", "a", "b", "c", "é", "\u20ac", "\U0001f600", "lang en")
NAMED = st.sampled_from(SIGNS[1:])
# The last two have the same bytes, of which one character has one or two.
CUT = st.lists(st.sampled_from([*SIGNS[1:], "axe", "bee", "x", "ab", "\u6261"]) | st.text(max_size=3))


def first(word: str) -> str:
    return word[:1] or "nothing"


@given(
    queries=st.lists(st.tuples(st.lists(NAMED).map(tuple), st.dictionaries(NAMED, NAMED)), max_size=8),
    pages=st.lists(
        st.tuples(st.lists(CUT, max_size=4).map(tuple), st.lists(NAMED | st.just("lang xx"), max_size=3)),
        max_size=6,
    ),
    most=st.sampled_from([1, 3, 1000]),
)
@example(
    queries=[((), dict.fromkeys(SIGNS[1:], "a"))] * 200,
    pages=[((["a", *map(str, range(500))],), ["lang en"])] * 2,
    most=400,
)
def test_lookups(
    queries: list[tuple[tuple[str, ...], dict[str, str]]],
    pages: list[tuple[tuple[list[str], ...], list[str]]],
    most: int,
) -> None:
    """Words become the same signs and the same queries are found, however few words are remembered."""
    asked: tuple[list[str], list[str]] = ([], [])

    def noting(into: list[str], word: str) -> str:
        into.append(word)
        return first(word)

    one = compiled.Lookup(bytes(16), SIGNS, partial(noting, asked[0]), most)
    other = profiles.ExpressedLookup(bytes(16), SIGNS, partial(noting, asked[1]), most)
    for needed, anchors in queries:
        one.add(needed, anchors)
        other.add(needed, anchors)
    for fields, signs in pages:
        assert one.look(fields, signs) == other.look(fields, signs)
    assert asked[0] == asked[1]


def test_stems_that_go_wrong() -> None:
    """Who makes stems may fail, look something up, or change the words, and nothing is lost or kept of it."""
    words = [f"a{number}" for number in range(1000)]

    def stem(word: str) -> str:
        if word == "again":
            assert lookup.look((["b"],), []) == ([["b"]], [])
            lookup.add(("c",), {"c": "c"})
        elif word == "fewer":
            words.clear()
        elif word == "no":
            raise LookupError(word)
        elif word == "none":
            return None  # type: ignore[return-value] # that is the point
        return first(word)

    lookup = compiled.Lookup(bytes(16), SIGNS, stem, 1_000_000)
    lookup.add(("a",), {"a": "a"})
    assert lookup.look((["x", "again", "c"],), []) == ([["", "a", "c"]], [0, 1])
    words.insert(500, "fewer")
    assert lookup.look((words, ["b"]), []) == ([["a"] * 500 + [""] + ["a"] * 500, ["b"]], [0])
    for word, error in (("no", LookupError), ("none", TypeError)):
        with pytest.raises(error):
            lookup.look((["b"], ["a", word, "a"]), [])
    for wrong in (("x",), ("",)):
        with pytest.raises(ValueError, match="none of the signs"):
            lookup.add(wrong, {"a": "a"})
    with pytest.raises(ValueError, match="none of the signs"):
        lookup.add(("a",), {"a": "a", "b": "x"})
    assert lookup.look((["a", "b"],), []) == ([["a", "b"]], [0])
    before = sys.getrefcount(first)
    for _ in range(10):
        compiled.Lookup(bytes(16), SIGNS, first, 10).look((["a"],), [])
    assert sys.getrefcount(first) == before


TEXTS = st.sampled_from(
    ["", "a", "b", "\0", "a\0b", "é", "\u20ac\0", "x" * 31, "y" * 300, "\ud800"]
) | st.text(max_size=4)


@st.composite
def columns(draw: st.DrawFn) -> list[str | list[str] | tuple[str, ...]]:
    rows = draw(st.sampled_from([0, 1, 2, 3, 127, 128]))
    repeated = st.lists(TEXTS, min_size=1, max_size=3).map(lambda some: (some * rows)[:rows])
    column = TEXTS | repeated | repeated.map(tuple) | TEXTS.map(lambda text: [text] * rows)
    return draw(st.lists(column | st.lists(TEXTS, max_size=2), max_size=5))


@given(given=columns())
@example(given=[["x" * 9_999] * 7, ["y"] * 7])
@example(given=["x"] * 15)
@example(given=["x"] * 16)
@example(given=["p", [f"{n}" for n in range(300)]])
@example(given=["p", [f"{n}" * 40 for n in range(70_000)]])
def test_columns(given: list[str | list[str] | tuple[str, ...]]) -> None:
    """Columns are packed to the same bytes, and those that do not fit together are refused alike."""
    lengths = {len(each) for each in given if not isinstance(each, str)}
    if len(lengths) > 1:
        for pack in (pack_columns, pack_columns_expressed):
            with pytest.raises(ValueError, match="no common length"):
                pack(given)
    else:
        assert pack_columns(given) == pack_columns_expressed(given)


@given(texts=st.lists(TEXTS))
@example(texts=[f"{number % 700}" for number in range(1_000)])
def test_repeated_texts(texts: list[str]) -> None:
    """The same texts are found to have been there before."""
    assert compiled.repeated_in(texts) == repeated_expressed(texts)
    apart = ["".join(list(text)) for text in texts]  # equal, and not the same objects
    assert compiled.repeated_in(texts + apart) == repeated_expressed(texts + apart)


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4).map(str.encode)


@given(
    st.lists(st.tuples(st.integers(1, 4), st.lists(WORDS, min_size=4, max_size=4), st.booleans()), min_size=1)
)
@example([(300, [b"x"] * 4, True), (2, [b"", b"", b"", b""], False), (1, [b""] * 4, True)])
def test_spread_columns(pages: list[tuple[int, list[bytes], bool]]) -> None:
    """The texts of a column are found again, whether each has its own or a page has one for all its rows."""
    rows = tuple(count for count, _, _ in pages)
    joined = tuple(texts[0] if is_one else b"\0".join(texts[:count]) for count, texts, is_one in pages)
    expected = [
        text
        for (count, texts, is_one), whole in zip(pages, joined, strict=True)
        # All of one page that are empty are packed as one.
        for text in ([texts[0]] * count if is_one else whole.split(b"\0"))
    ]
    spread = compiled.spread_texts(joined, rows)
    assert spread is not None
    count, offsets, data = spread
    ends = struct.unpack(f"={count + 1}i", offsets)
    assert [data[begin:end] for begin, end in pairwise(ends)] == expected
    assert [text.encode() for text in parquet.column_expressed(joined, rows).to_pylist()] == expected
    assert compiled.spread_texts((*joined, b"a\0b"), (*rows, 3)) is None


def test_what_cannot_be_spread() -> None:
    """What is no column, or too much for one, is left to Python."""
    assert compiled.spread_texts((), ()) == (0, bytes(4), b"")
    for joined, rows in (
        ((b"x",), ()),
        ((b"x",), (0,)),
        ((b"x",), (-1,)),
        ((b"x",), (1 << 70,)),
        ((b"xx",), (1 << 30,)),
    ):
        assert compiled.spread_texts(joined, rows) is None
    assert compiled.spread_texts(("x",), (1,)) is None  # type: ignore[arg-type]
    assert compiled.spread_texts((b"x",), ("1",)) is None  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        compiled.spread_texts([b"x"], [1])  # type: ignore[arg-type]


def test_what_is_no_page_is_refused() -> None:
    """Arguments of other kinds are errors of Python, and nothing is read."""
    with pytest.raises(TypeError):
        compiled.links_in("text", 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="16 bytes"):
        compiled.Memo(b"short")
    for key, signs, most in (
        (b"short", ("",), 1),
        (bytes(16), ("",), 0),
        (bytes(16), (), 1),
        (bytes(16), ("a",), 1),
    ):
        with pytest.raises(ValueError, match=r"16 bytes|signs"):
            compiled.Lookup(key, signs, str, most)
    lookup = compiled.Lookup(bytes(16), ("", "a"), str, 1)
    with pytest.raises(TypeError, match="a word is a str"):
        lookup.look(([b"x"],), [])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="words are a list"):
        lookup.look(("x",), [])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a sign is a str"):
        lookup.look((), [b"x"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="a sign is a str"):
        lookup.add((b"a",), {})  # type: ignore[arg-type]
    memo = compiled.Memo(bytes(16))
    with pytest.raises(TypeError, match="a link is a str"):
        compiled.resolve_links([b"x"], "/", memo, memo, None, str, print, print, "settled", False)  # type: ignore[list-item]
    with pytest.raises(TypeError, match="columns are a tuple"):
        compiled.pack_columns(["x"])  # type: ignore[arg-type]
    assert compiled.pack_columns(([1],)) is None  # type: ignore[list-item]
    with pytest.raises(TypeError, match="a text is a str"):
        compiled.repeated_in([b"x"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="begins with a slash"):
        compiled.resolve_links([], "", memo, memo, None, str, print, print, "settled", False)


def test_without_it() -> None:
    """Without the compiled part a page is read just the same, and `gcs doctor` says which of both it is."""
    words = b"Words of a page, some more of them. " * 9
    body = b"<title>T &amp; U</title><h1>H</h1><p>" + words + b"<a href=/x>y</a>"
    code = f"from gcs.summary import read; print(read({body!r}, url='http://a.example/'))"
    told = "import gcs.doctor; print(gcs.doctor.compiled_part().sentence)"
    printed = {
        which: subprocess.run(
            [sys.executable, "-c", f"{code}\n{told}"],
            env={**os.environ, "GCS_COMPILED": which},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        for which in ("yes", "no")
    }
    assert printed["yes"][0] == printed["no"][0]
    assert "hrefs=['/x']" in printed["no"][0]
    assert printed["yes"][1] == doctor.compiled_part().sentence
    assert "not in use" in printed["no"][1]
