"""Whether another gatherer reaches a site much faster."""

from __future__ import annotations

from gcs.core.locality import PAGES_EACH, TRIES_EACH, Locality


def tried(own_s: float, other_s: float, pages: int = PAGES_EACH, factor: float = 2.0) -> Locality:
    locality = Locality(factor)
    locality.begin([("site", "b"), ("site", "a")], "a")
    for _ in range(pages):
        locality.took("site", own_s)
        locality.tried("site", "b", other_s)
    return locality


def given(locality: Locality, site: str) -> list[str]:
    """Who is given pages of a site for as long as somebody should try one."""
    gatherers: list[str] = []
    while (gatherer := locality.wanted(site)) is not None:
        gatherers.append(gatherer)
        locality.given(site, gatherer)
    return gatherers


def test_each_site_is_tried_some_times_by_each_that_the_plan_names() -> None:
    locality = Locality(2.0)
    locality.begin([("x", "b"), ("x", "c"), ("y", "b"), ("y", "me")], "me")
    assert sorted(given(locality, "x")) == ["b"] * TRIES_EACH + ["c"] * TRIES_EACH
    assert given(locality, "y") == ["b"] * TRIES_EACH
    assert given(locality, "z") == []


def test_what_nobody_was_given_is_still_to_be_tried() -> None:
    """To ask who should try a page uses up nothing."""
    locality = Locality(2.0)
    locality.begin([("x", "b")], "me")
    assert {locality.wanted("x") for _ in range(2 * TRIES_EACH)} == {"b"}
    assert given(locality, "x") == ["b"] * TRIES_EACH
    locality.given("x", "b")
    locality.given("x", "c")
    assert locality.wanted("x") is None


def test_who_has_answered_often_enough_is_asked_no_more() -> None:
    """More pages are given than have to be answered, so that one without an answer spoils nothing."""
    locality = Locality(2.0)
    locality.begin([("x", "b")], "me")
    for _ in range(PAGES_EACH):
        assert locality.wanted("x") == "b"
        locality.given("x", "b")
        locality.tried("x", "b", 0.1)
    assert locality.wanted("x") is None


def test_who_is_much_faster_is_a_reason() -> None:
    assert tried(0.5, 0.1).far() == ["site"]
    assert tried(0.15, 0.1).far() == []
    assert tried(0.1, 0.5).far() == []


def test_a_few_milliseconds_are_none() -> None:
    assert tried(0.01, 0.001).far() == []


def test_neither_is_chance() -> None:
    assert tried(0.5, 0.1, pages=PAGES_EACH - 1).far() == []


def test_a_new_plan_begins_anew() -> None:
    locality = tried(0.5, 0.1)
    locality.begin([], "a")
    assert locality.far() == []
    assert not locality.is_curious
    locality.took("site", 1.0)
    locality.tried("site", "b", 0.1)
    assert locality.far() == []
