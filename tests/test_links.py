"""From links as pages write them to targets."""

from __future__ import annotations

import ada_url
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.core.urls import TRACKING, Rejected, canonical
from gcs.gatherer.links import Targets, unsettled

PAGE = "http://www.example.org/docs/guide/page.html?x=1"
NAMES = st.sampled_from(["a", "b.html", "..", ".", "", "%7e", "ü", "a b", "x;y=1", "c:d"])
PATHS = st.lists(NAMES, max_size=4).map("/".join)
HREFS = st.one_of(
    PATHS,
    PATHS.map("/{}".format),
    PATHS.map("http://www.example.org/{}".format),
    PATHS.map("https://other.example:8080/{}".format),
    PATHS.map("//cdn.example/{}".format),
    PATHS.map("?q={}".format),
    PATHS.map("#{}".format),
    PATHS.map("\\{}".format),
    PATHS.map(" \t{} ".format),
    st.sampled_from(["mailto:a@b", "javascript:void(0)", "HTTP://WWW.EXAMPLE.ORG:80/x", "http:/x", "http:y"]),
    st.text(st.characters(exclude_categories=["Cc", "Cs"]) | st.sampled_from("/\\?#:.\t\n"), max_size=20),
)


def expected(page: str, href: str) -> str | None:
    """What the standard makes of it."""
    try:
        url = canonical(ada_url.join_url(page, href))
        return url if url.startswith("http") else None
    except (ValueError, Rejected):
        return None


@given(st.lists(HREFS, max_size=20), st.sampled_from([PAGE, "http://h.test/", "https://h.test:8443/a/b/"]))
def test_every_spelling_means_what_the_standard_says(hrefs: list[str], page: str) -> None:
    """However a link is written, and met once or again, it means what a browser would make of it."""
    targets = Targets()
    for _ in range(2):
        for href, target in zip(hrefs, targets.resolve(page, hrefs), strict=True):
            if href and not href.startswith("#"):
                assert (target.url if target else None) == expected(page, href)
            else:
                assert target is None


def test_one_target_for_one_url() -> None:
    """All spellings of a URL are one target, so what is settled for one is settled for all."""
    targets = Targets()
    spellings = ["page.html", "/docs/guide/page.html", "http://WWW.example.org:80/docs/guide/page.html#top"]
    found = targets.resolve("http://www.example.org/docs/guide/", spellings)
    assert len({id(target) for target in found}) == 1
    assert [t.url for t in unsettled(found)] == ["http://www.example.org/docs/guide/page.html"]
    assert unsettled(targets.resolve("http://www.example.org/docs/guide/", spellings)) == []


def test_base() -> None:
    """A page may say from where its links are to be read; nonsense there is passed over."""
    targets = Targets()
    for base, meant in [("/other/", "http://www.example.org/other/x"), ("ftp:x", None), ("http://[", None)]:
        (target,) = targets.resolve(PAGE, ["x"], base)
        assert target
        assert target.url == (meant or "http://www.example.org/docs/guide/x")


def test_memory_is_bounded_and_loses_nothing_that_is_used() -> None:
    """What is asked for stays the same target through all generations; the rest is forgotten."""
    targets = Targets(remembered=50)
    (first,) = targets.resolve(PAGE, ["/kept"])
    for n in range(400):
        targets.resolve(PAGE, [f"/{n}", f"http://h{n}.test/", f"r{n}"])
        assert targets.resolve(PAGE, ["/kept"]) == [first]
        assert targets.of("http://www.example.org/kept") is first
    assert targets.remembered < 250
    (again,) = targets.resolve(PAGE, ["/0"])
    assert again
    assert not again.settled


def test_cleaning_and_rejections() -> None:
    """What is noise in a URL is taken out, and what cannot be crawled says why."""
    targets = Targets(TRACKING)
    assert targets.of("http://a.test/?utm_source=x&b=1").url == "http://a.test/?b=1"
    with pytest.raises(Rejected, match="none of http, https"):
        targets.of("gopher://a.test/")
    assert repr(targets.of("http://a.test/")) == "Target('http://a.test/')"


@given(st.lists(st.lists(HREFS, max_size=8), max_size=6), st.integers(1, 30))
def test_only_what_is_unsettled(pages: list[list[str]], remembered: int) -> None:
    """Who wants no others gets each target until it is settled; and whoever asks for all, all."""
    targets, settled = Targets(remembered=remembered), set[str]()
    for hrefs in pages * 3:
        found = unsettled(targets.resolve(PAGE, hrefs, unsettled=True))
        meant = {url for href in hrefs if href and href[0] != "#" and (url := expected(PAGE, href))}
        assert meant - settled <= {target.url for target in found} <= meant
        settled |= meant
        for href, target in zip(hrefs, targets.resolve(PAGE, hrefs), strict=True):
            wanted = expected(PAGE, href) if href and href[0] != "#" else None
            assert (target.url if target else None) == wanted


def test_a_target_can_be_opened_again() -> None:
    """What was settled too early, as too deep, is given again, though pages have named it in between."""
    targets = Targets()
    for _ in range(3):
        (found,) = unsettled(targets.resolve(PAGE, ["/deep", "/deep"], unsettled=True))
        found.settled = False
    (found,) = unsettled(targets.resolve(PAGE, ["/deep"], unsettled=True))
    assert unsettled(targets.resolve(PAGE, ["/deep"], unsettled=True)) == []
