"""Pages whose tree would be expensive are known before it is built."""

from __future__ import annotations

import pytest
from selectolax.lexbor import LexborHTMLParser

from gcs.summary import read
from gcs.summary.nesting import is_costly

URL = "http://host.test/"

COSTLY = {
    "blocks": b"<div>" * 20_000,
    "balanced blocks": b"<div>" * 20_000 + b"</div>" * 20_000,
    "end tags of others": b"<div></p>" * 20_000,
    "end tags behind a barrier": b"<div><object></div></object>" * 20_000,
    "forms that close alone": b"<form><div></form>" * 20_000,
    "depth of one kind, walks of another": b"<path>" * 20_000 + b"<div></div>" * 20_000,
    "tags that do not close themselves": b"<path/>" * 20_000,
    "tags that do not close themselves in a drawing's text": b"<svg><desc><path/>" * 20_000,
    "tags that lead out of a drawing": b"<svg><div><path/>" * 20_000,
    "formatting": b"".join(b"<p><font size=%d>x" % n for n in range(1_500)),
    "formatting closed with its block": b"".join(b"<div><font size=%d>x</div>" % n for n in range(1_500)),
    "formatting closed behind a barrier": b"".join(
        b"<p><i id=%d>x<object></i></object>" % n for n in range(1_500)
    ),
    "attributes": b"<p " + b" ".join(b"a%d=1" % n for n in range(10_000)) + b">",
    "attributes without spaces": b"<p " + b"/".join(b"a%d" % n for n in range(10_000)) + b">",
    "attributes of the root": b"".join(b"<html a%d>" % n for n in range(5_000)),
    "more than can be counted": b"<p>" * 200_000,
}

CHEAP = {
    "nothing": b"",
    "paragraphs": b"<p>text" * 20_000,
    "lists": b"<ul><li>one<li>two <b>bold</b></ul>" * 5_000,
    "tables": b"<table><tr><td>x<td>y</table>" * 5_000,
    "anchors never closed": b"".join(b"<p><a name=%d>text" % n for n in range(10_000)),
    "the same formatting never closed": b"<p><b>x" * 1_000,
    "formatting, closed": b"".join(b"<p><font size=%d>x</font>" % n for n in range(5_000)),
    "formatting with a block in it": b"".join(b"<i id=%d><div>x</div></i>" % n for n in range(5_000)),
    "wrongly nested": b"<div><b><span></b></span></div>" * 5_000,
    "drawings": b"<svg/><svg viewBox='0'><g><path d='M 0 0'/><use href=x /></g></svg>" * 5_000,
    "what is only text": b"<script>" + b"'<div>'" * 20_000 + b"</script><!--" + b"<div>" * 20_000 + b"-->",
}


@pytest.mark.parametrize("name", COSTLY)
def test_costly(name: str) -> None:
    """A page that would make the parser walk or multiply without end is read from its bytes alone."""
    assert is_costly(COSTLY[name])
    assert read(COSTLY[name] + b"<a href=/x>", url=URL, content_type="text/html").hrefs == ["/x"]


@pytest.mark.parametrize("name", CHEAP)
def test_cheap(name: str) -> None:
    """A long page, be it well-formed or merely untidy, is read with its tree, which is not larger."""
    assert not is_costly(CHEAP[name])
    root = LexborHTMLParser(CHEAP[name]).root
    assert root is not None
    assert sum(1 for _ in root.traverse()) <= CHEAP[name].count(b"<") + 3_000
