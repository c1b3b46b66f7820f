"""Canonical URLs and keys."""

from __future__ import annotations

import ada_url
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gcs.core import sources, urls
from gcs.core.urls import AFTER, Cleaning, Rejected, canonical, key, part, steps, surt, tokens, url

LABEL = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=8).map(lambda s: f"a{s}b")
HOST = st.one_of(
    st.lists(LABEL, min_size=1, max_size=4).map(".".join),
    st.tuples(*[st.integers(0, 255)] * 4).map(lambda t: ".".join(map(str, t))),
    st.sampled_from(["[::1]", "[2001:db8::7]", "xn--mnchen-3ya.de", "a.com.", "bücher.example"]),
)
SEGMENT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x17F), max_size=6).map(
    lambda s: s.replace("/", "").replace("?", "").replace("#", "").replace("\\", "")
)
PAGES = st.builds(
    lambda scheme, host, port, path, query: (
        f"{scheme}://{host}{port}/{'/'.join(path)}{'' if query is None else '?' + query}"
    ),
    st.sampled_from(["http", "https"]),
    HOST,
    st.sampled_from(["", ":80", ":443", ":8080", ":1"]),
    st.lists(SEGMENT, max_size=5),
    st.none()
    | st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=10).map(
        lambda s: s.replace("#", "")
    ),
)

# Names are bytes, and are written in many ways.
NAME = st.one_of(
    SEGMENT,
    st.binary(min_size=1, max_size=4).map(lambda name: "".join(f"%{byte:02x}" for byte in name)),
    st.sampled_from([".", "..", "%2e", "%2E.", "C|", "C:", "a%2fb", "%00", ""]),
)
OF_SOURCES = st.builds(
    lambda start, path, query: f"{start}/{'/'.join(path)}{query}",
    st.one_of(
        st.sampled_from(["file://", "file:", "FILE://localhost", "db://shop", "DB://Shop_2"]),
        st.builds(
            "{}://{}{}".format,
            st.sampled_from(["nntp", "nntps", "news", "snews"]),
            HOST,
            st.sampled_from(["", ":119", ":563", ":80", ":0119"]),
        ),
    ),
    st.lists(NAME, max_size=5),
    st.sampled_from(["", "?", "?x=1", "?after=", "?after=a%2fb c", "?after=%ff&x=1", "#f"]),
)
URLS = st.one_of(PAGES, PAGES, OF_SOURCES)


def accepted(text: str) -> str:
    """The canonical form, for URLs that have one."""
    try:
        return canonical(text)
    except Rejected:
        assume(False)
        raise


_HOSTS = "a.b x 0a.c a-b.c1 xn--a a.xn--b a..b a.1 1.2.3.4 a- -a.b a. A.b"
_PORTS = ["", ":1\u0661", ":80", ":443", ":8", ":8098", ":0", ":99999"]


@given(
    st.sampled_from(["http://", "https://"]),
    st.sampled_from(_HOSTS.split()),
    st.sampled_from(_PORTS),
    st.lists(st.sampled_from([*"/ab0.?%~&:@+'\"\\^|{}<>[] é#=", "..", "%2e", "/./"]), max_size=8).map(
        "".join
    ),
)
def test_what_is_told_at_a_glance_is_what_the_standard_says(
    scheme: str, host: str, port: str, rest: str
) -> None:
    """The quick way to a canonical form gives nothing else than the standard's parser does."""
    text = f"{scheme}{host}{port}/{rest}"
    try:
        found = canonical(text)
    except Rejected:
        return
    assert found == ada_url.normalize_url(text).partition("#")[0]


@given(URLS)
@example("http://a/?")
@example("http://a.com./")
@example("http://h//a//?x=/?/")
def test_a_key_gives_its_url_back(text: str) -> None:
    """The key of a canonical URL leads back to it, so keys are injective."""
    one = accepted(text)
    assert url(key(one)) == one


@given(URLS)
def test_canonical_form_is_final(text: str) -> None:
    """The canonical form of a canonical URL is itself."""
    assert canonical(accepted(text)) == accepted(text)


@given(
    st.lists(st.sampled_from(["a", "..", ".", "%2e", ";jsessionid=1", ";JSESSIONID=", ";x", "/", "/"])),
    st.lists(st.sampled_from(["a=1", "sid=2", "utm_x=3", "&", "&", "", "b"])),
)
@example(["x", "/", "..", ";jsessionid=1", "/", "y"], [])
def test_cleaned_form_is_final(path: list[str], query: list[str]) -> None:
    """A URL that was cleaned is canonical, and cleaning it again changes nothing."""
    cleaned = canonical(f"http://a.com/{''.join(path)}?{''.join(query)}", urls.TRACKING)
    assert canonical(cleaned, urls.TRACKING) == canonical(cleaned) == cleaned


@given(OF_SOURCES)
def test_the_form_of_a_source_is_that_of_the_standard(text: str) -> None:
    """What the standard's parser makes of the one form of a source's URL is that form."""
    one = accepted(text)
    assert ada_url.normalize_url(one) == one


@given(st.lists(st.binary(min_size=1, max_size=6), max_size=4), st.booleans())
def test_a_path_gives_a_canonical_url(names: list[bytes], is_directory: bool) -> None:
    """The URL that is made of a path is canonical, and says that path."""
    steps = [name for name in names if not set(b"/\0") & set(name) and name.strip(b".")]
    one = sources.file_url(b"/" + b"/".join(steps), is_directory=is_directory)
    assert canonical(one) == one
    assert [name for name in sources.names(one) if name] == steps


@given(URLS)
def test_no_control_characters(text: str) -> None:
    """A canonical URL has no character that could be taken for a separator."""
    assert min(accepted(text)) > " "


@given(st.lists(URLS, min_size=2, max_size=30))
def test_subtrees_are_contiguous(texts: list[str]) -> None:
    """For every node, the keys at or below it are neighbours in the order of keys."""
    keys = sorted({key(accepted(t)) for t in texts})
    for prefix in {"".join(steps(k)[:n]) for k in keys for n in range(len(steps(k)) + 1)}:
        low, high = urls.subtree(prefix)
        length = len(steps(prefix))
        for k in keys:
            assert (low <= k < high) == (steps(k)[:length] == steps(prefix))


@given(st.lists(URLS, min_size=3, max_size=30), st.data())
def test_intervals_of_siblings_are_contiguous(texts: list[str], data: st.DataObject) -> None:
    """For every node, the keys whose next step lies between two steps are one range of keys."""
    keys = sorted({key(accepted(t)) for t in texts})
    split = steps(data.draw(st.sampled_from(keys)))
    depth = data.draw(st.integers(0, len(split) - 1))
    prefix = "".join(split[:depth])
    below = [k for k in keys if steps(k)[:depth] == split[:depth] and len(steps(k)) > depth]
    low, high = sorted((data.draw(st.sampled_from(below)), data.draw(st.sampled_from(below))))
    first, last = steps(low)[depth], steps(high)[depth]
    inside = [k for k in keys if prefix + first <= k < prefix + last]
    assert inside == [k for k in below if first <= steps(k)[depth] < last]


@given(URLS, URLS)
def test_key_order_is_the_order_of_steps(one: str, two: str) -> None:
    """Keys compare as their lists of steps do."""
    a, b = key(accepted(one)), key(accepted(two))
    assert (a < b) == (steps(a) < steps(b))


def test_only_canonical_urls_have_keys() -> None:
    """A URL without a path is not canonical, and is refused."""
    with pytest.raises(ValueError, match="not a canonical URL"):
        key("http://ex.org")


def test_a_longer_token_does_not_fall_between() -> None:
    """`docs-old/a` does not sort between `docs` and `docs/a`, as it would with printable separators."""
    ordered = [key(f"http://h/{p}") for p in ("docs", "docs/a", "docs-old/a")]
    assert ordered == sorted(ordered)
    assert ordered[2] > key("http://h/docs") + AFTER


def test_the_papers_example() -> None:
    """The example of 003, section 4.4, gives its tokens, with the scheme between host and path."""
    found = tokens("http://gcs.almaden.ibm.com/docs/Slides/Tspaces/index.htm")
    assert found == ("com", "ibm", "almaden", "gcs", "http", "docs", "Slides", "Tspaces", "index.htm")
    assert tuple(t for t in found if t != "http") == (
        "com", "ibm", "almaden", "gcs", "docs", "Slides", "Tspaces", "index.htm",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HTTP://Ex.ORG:80/a/../b#frag", "http://ex.org/b"),
        ("https://ex.org:443", "https://ex.org/"),
        (" http://ex.org/a b\n", "http://ex.org/a%20b"),
        ("http://bücher.example/ü?ö", "http://xn--bcher-kva.example/%C3%BC?%C3%B6"),
        ("http://127.1/", "http://127.0.0.1/"),
        ("http:\\\\ex.org\\a", "http://ex.org/a"),
        ("file:/srv//docs/%61/./b?x=1#y", "file:///srv/docs/a/b"),
        ("file://localhost/srv/docs/?after=%61%2fb", "file:///srv/docs/?after=a%2Fb"),
        ("file:///srv/ü %41", "file:///srv/%C3%BC%20A"),
        ("news://News.example.org:119/comp.lang.c/7", "nntp://news.example.org/comp.lang.c/7"),
        ("nntps://[::1]:1563", "nntps://[::1]:1563/"),
        ("DB://Shop/public/orders/", "db://shop/public/orders/"),
    ],
)
def test_canonical_forms(text: str, expected: str) -> None:
    """URLs take the form that the WHATWG standard gives them."""
    assert canonical(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gopher://ex.org/", "scheme 'gopher'"),
        ("mailto:a@b", "scheme 'mailto'"),
        ("/relative", "not a valid"),
        ("http://", "not a valid"),
        ("http://user@ex.org/", "user name"),
        ("nntp://user:pw@ex.org/", "user name"),
        ("file://other/srv", "another machine"),
        ("file:///a%2Fb", "slash"),
        ("file:///a%00", "zero byte"),
        ("file:///" + "%FF" * 1000, "characters, over"),
        ("db://a.b/", "name of a database"),
        ("db:///x", "name of a database"),
        ("nntp:///group", "no host"),
        ("nntp://h:99999/", "not a valid"),
        ("news:comp.lang.c", "no host"),
        ("http://u:p@ex.org/", "user name"),
        ("http://ex.org/\x01b", "control"),
        ("http://ex.org/" + "a" * 2000, "2014 characters"),
    ],
)
def test_rejections_have_reasons(text: str, reason: str) -> None:
    """What cannot be crawled is rejected with the reason."""
    with pytest.raises(Rejected, match=reason):
        canonical(text)


@pytest.mark.parametrize(
    ("text", "cleaning", "expected"),
    [
        ("http://h/a;jsessionid=1F?b=2", Cleaning(session_ids=True), "http://h/a?b=2"),
        ("http://h/?PHPSESSID=x", Cleaning(session_ids=True), "http://h/"),
        ("http://h/?utm_source=x&a=1&fbclid=2", urls.TRACKING, "http://h/?a=1"),
        ("http://h/?b=2&a=1", Cleaning(sort_query=True), "http://h/?a=1&b=2"),
        ("http://h/?q=1&a=2", Cleaning(parameters=frozenset({"q"})), "http://h/?a=2"),
        ("http://h/?b&a", Cleaning(), "http://h/?b&a"),
        ("http://h/?", urls.TRACKING, "http://h/?"),
    ],
)
def test_cleaning(text: str, cleaning: Cleaning, expected: str) -> None:
    """What does not change the page is taken out when that is asked for, and only then."""
    assert canonical(text, cleaning) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://gcs.almaden.ibm.com/docs/index.htm", "com,ibm,almaden,gcs)/docs/index.htm"),
        ("https://ex.org:8443/?x", "org,ex:https:8443)/?x"),
        ("http://127.0.0.1/", "127,0,0,1)/"),
    ],
)
def test_surt(text: str, expected: str) -> None:
    """People see keys as SURTs."""
    assert surt(canonical(text)) == expected


def test_readable_prefixes() -> None:
    """Prefixes of keys can be shown too."""
    assert urls.readable("") == "(everything)"
    assert urls.readable(part(key("http://a.b/c"))[1]) == "after b,a)http/c"
    assert urls.readable(key("http://a.b/c?d")) == "b,a)http/c?d"
