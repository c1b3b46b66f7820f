"""Traps: told by their URLs or their pages, with large honest sites left alone."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.core import traps, urls
from gcs.core.traps import DROPPED_FROM, SLOWED_FROM, Novelty, Standing, fingerprint, subtrees, trap_in

YEAR = 2026


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://h/a/a/a/a", "'a' repeated more than 3 times"),
        ("http://h/x/a/b/a/b/a/b/a/b/y", "'a/b' repeated more than 3 times"),
        ("http://h/a/b/c/a/b/c/a/b/c/a/b/c/d", "'a/b/c' repeated more than 3 times"),
        ("http://h/" + "/".join(map(str, range(33))), "33 path segments, over 32"),
        ("http://h/" + "a" * 1100, "1109 characters, over 1024"),
        ("http://h/?" + "&".join(f"a{n}" for n in range(33)), "33 parameters, over 32"),
        ("http://h/?a=1&a=1&a=1&a=1", "'a=1' repeated more than 3 times"),
        ("http://h/calendar/2031/05", "a date in the year 2031"),
        ("http://h/calendar/2031/5/17/", "a date in the year 2031"),
        ("http://h/events?day=2100-01-31", "a date in the year 2100"),
        ("http://h/events/2030-01-31.html", "a date in the year 2030"),
        ("http://h/events?month=5&year=2044", "a date in the year 2044"),
        ("http://h/events?y=1044", "a date in the year 1044"),
        ("http://h/events?day=1700-01-31", "a date in the year 1700"),
    ],
)
def test_traps_are_told_by_their_urls(url: str, reason: str) -> None:
    """URLs that repeat themselves, grow without end or count days are traps, with the reason."""
    assert trap_in(urls.canonical(url), YEAR) == reason


@pytest.mark.parametrize(
    "url",
    [
        "http://h/",
        "http://h/a/a/a",
        "http://h/a/b/a/b/a/b",
        "http://h/a/b/a/c/a/d/a",
        "http://h/////",
        "http://h/2026/11/16/story-of-the-day.html",
        "http://h/archive/1890/05/17",
        "http://h/archive/1890-05-17",
        "http://h/2029/12",
        "http://h/parts/4010-12-3",
        "http://h/parts/4010/12",
        "http://h/tel/2099/55",
        "http://h/isbn/978-3-16-148410-0",
        "http://h/?f=1&f=2&f=3&f=4&f=5",
        "http://h/?y=5",
        "http://h/?y=2027&day=2026-11-16",
        "http://h/?a&a&a&b&b&b",
        "http://h/?n=12030-01-01",
        "http://h/?key=2099",
        "http://h/?" + "&".join(f"a{n}=x" for n in range(20)),
        "http://h/" + "a" * 900,
        "http://de.wikipedia.example/wiki/Liste_der_Kulturdenkm%C3%A4ler_in_Frankfurt-Innenstadt",
    ],
)
def test_honest_urls_are_no_traps(url: str) -> None:
    """What real sites have is let through: archives, part numbers, long names, filters."""
    assert trap_in(urls.canonical(url), YEAR) == ""


@given(st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=20))
def test_repetition_is_what_it_says(segments: list[str]) -> None:
    """A path is refused just when some run of segments comes four times in a row."""
    expected = any(
        any(run) and segments[at : at + 4 * length] == run * 4
        for length in range(1, 6)
        for at in range(len(segments) - 4 * length + 1)
        for run in [segments[at : at + length]]
    )
    assert bool(trap_in("http://h/" + "/".join(segments), YEAR)) is expected


@given(st.text(min_size=1, max_size=100))
def test_any_url_can_be_looked_at(rest: str) -> None:
    """Whatever a URL has, it gets an answer."""
    try:
        url = urls.canonical(f"http://h/{rest}")
    except urls.Rejected:
        return
    assert isinstance(trap_in(url, YEAR), str)
    assert subtrees(urls.key(url))


def test_subtrees() -> None:
    """A page belongs to its first directories and to the pages that differ in numbers and values only."""
    key = urls.key("http://h.x/a/2026/b/c/page-17.html?id=5&sort=up")
    assert [urls.readable(subtree) for subtree in subtrees(key)] == [
        "x,h)http/a/0/b/c/page-0.html?id=&sort=",
        "x,h)http/a/",
        "x,h)http/a/0/",
        "x,h)http/a/0/b/",
    ]
    assert subtrees(urls.key("http://h.x/")) == [urls.key("http://h.x/")]
    assert subtrees(urls.key("http://h/0f3a" + "9c" * 10)) == subtrees(urls.key("http://h/1" + "ab" * 12))


def test_fingerprints() -> None:
    """Equal pages have equal fingerprints, pages that differ in digits equal shapes, others nothing alike."""
    one, same = fingerprint(b"<p>May 2026, 1 2 3"), fingerprint(b"<p>May 2026, 1 2 3")
    digits, other = fingerprint(b"<p>May 2031, 4 5 6"), fingerprint(b"<p>June 2026, 1 2")
    assert one == same
    assert one.exact != digits.exact
    assert one.shape == digits.shape
    assert not {*one} & {*other}
    assert (
        len({value for n in range(4000) for value in fingerprint(b"page %b" % bytes([65 + n % 26] * n))})
        == 8_000
    )


def page(novelty: Novelty, url: str, content: str) -> Standing:
    """Let a page be seen."""
    return novelty.seen(urls.key(urls.canonical(url)), fingerprint(content.encode())).standing


def standing(novelty: Novelty, url: str) -> Standing:
    """How a URL stands."""
    return novelty.judge(urls.key(urls.canonical(url))).standing


def test_a_subtree_of_repetitions_is_slowed_and_then_dropped() -> None:
    """Pages that are all the same slow their subtree first and close it then, with a reason, and no other."""
    novelty = Novelty()
    found = [page(novelty, f"http://h/trap/x{n}", "the same again") for n in range(1100)]
    assert found.index(Standing.SLOWED) == SLOWED_FROM["exact"]
    assert found.index(Standing.DROPPED) == DROPPED_FROM["exact"]
    assert standing(novelty, "http://h/trap/other") is Standing.DROPPED
    assert standing(novelty, "http://h/trap/deep/below") is Standing.DROPPED
    assert standing(novelty, "http://h/elsewhere/other") is Standing.OPEN
    assert standing(novelty, "http://g/trap/other") is Standing.OPEN
    reasons = {reason for _, (_, reason) in novelty.closed()}
    assert (
        f"of {DROPPED_FROM['exact'] + 1} pages below h)http/trap/, all of late were the same as others"
        in reasons
    )


def test_a_calendar_is_slowed_and_then_dropped() -> None:
    """A calendar, whose pages differ in numbers and in the names of months, is a trap after some thousand."""
    novelty = Novelty()
    months = ["Jan", "Feb", "March", "April", "May", "June", "July", "Aug", "Sept", "Oct", "Nov", "Dec"]
    found = []
    for n in range(4000):
        content = f"<h1>{months[n % 12]} {1000 + n // 12}</h1>" + " ".join(map(str, range(10, 38)))
        found.append(page(novelty, f"http://h/cal?month={n % 12}&in={1000 + n // 12}", content))
    assert SLOWED_FROM["shape"] <= found.index(Standing.SLOWED) < SLOWED_FROM["shape"] + 20
    assert DROPPED_FROM["shape"] <= found.index(Standing.DROPPED) < DROPPED_FROM["shape"] + 20
    assert "but for numbers" in novelty.judge(urls.key("http://h/cal?month=1&in=5")).reason
    assert standing(novelty, "http://h/about") is Standing.OPEN


def test_a_subtree_can_recover() -> None:
    """One that is slowed is open again when it has something new; one that is dropped stays so."""
    novelty = Novelty()
    for n in range(250):
        page(novelty, f"http://h/a/{n}", "the same")
    assert standing(novelty, "http://h/a/1") is Standing.SLOWED
    assert page(novelty, "http://h/a/777", "something new") is Standing.OPEN
    assert standing(novelty, "http://h/a/1") is Standing.OPEN
    for n in range(1100):
        page(novelty, f"http://h/a/{n}", "the same")
    for n in range(50):
        assert page(novelty, f"http://h/a/{n}", f"new {'x' * n}") is Standing.DROPPED
    assert standing(novelty, "http://h/a/1") is Standing.DROPPED


@pytest.mark.parametrize(
    ("new_share", "expected"),
    [(1.0, Standing.OPEN), (0.3, Standing.OPEN), (0.1, Standing.OPEN), (0.05, Standing.SLOWED)],
)
def test_a_large_honest_site_is_not_dropped(new_share: float, expected: Standing) -> None:
    """A large site with one new page in ten is not slowed, and with one in twenty it is not dropped."""
    random = Random(11)
    novelty = Novelty()
    texts = ["".join(random.choices("abcdefghij", k=40)) for _ in range(300)]
    worst = Standing.OPEN
    for n in range(50_000 if new_share < 0.1 else 20_000):
        is_new = random.random() < new_share
        content = "".join(random.choices("klmnopqrst", k=16)) if is_new else random.choice(texts)
        key = urls.key(f"http://h/{'abc'[n % 3]}/item/{n}?page={n % 7}")
        worst = max(worst, novelty.seen(key, fingerprint(content.encode())).standing)
    assert worst is expected


def test_a_site_of_numbers_is_not_dropped_for_its_numbers_too_soon() -> None:
    """Pages of tables, which differ in numbers only, are let through for long, and slowed before dropped."""
    novelty = Novelty()
    found = [page(novelty, f"http://h/data/{n}", f"temperature {n * 7919}") for n in range(1400)]
    assert Standing.DROPPED not in found


def test_a_trap_in_a_large_site_closes_only_itself() -> None:
    """Where a trap is part of a site, its own subtree is dropped and the rest stays open."""
    random = Random(5)
    novelty = Novelty()
    for n in range(3000):
        page(novelty, f"http://h/articles/{n}", "".join(random.choices("abcdefgh", k=30)))
        page(novelty, f"http://h/session/{n:x}z/login", "please log in")
    assert standing(novelty, "http://h/session/new/login") is Standing.DROPPED
    assert standing(novelty, "http://h/articles/99999") is Standing.OPEN
    assert standing(novelty, "http://h/") is Standing.OPEN


def test_memory_is_bounded() -> None:
    """The number of subtrees is bounded, those closed too, and what is forgotten is open."""
    novelty = Novelty(fingerprints=64, subtrees=10)
    for host in range(30):
        for n in range(220):
            page(novelty, f"http://h{host}/{n}", "the same")
    assert len(novelty._tallies) == 10
    assert len(list(novelty.closed())) == 10
    assert len(novelty._hosts) == 10
    assert standing(novelty, "http://h0/1") is Standing.OPEN
    assert standing(novelty, "http://h29/1") is Standing.SLOWED


def test_a_trap_is_found_among_many_other_pages() -> None:
    """The pages that a trap repeats are remembered while many others come between two of them."""
    random = Random(2)
    novelty = Novelty(fingerprints=1 << 14)
    for n in range(1100):
        page(novelty, f"http://trap/{n}", f"page number {n % 3} of the trap")
        for _ in range(100):
            novelty._is_known(random.getrandbits(64))
    assert standing(novelty, "http://trap/5") is Standing.DROPPED


@pytest.mark.parametrize(("fingerprints", "subtrees"), [(0, 5), (12, 5), (8, 0)])
def test_there_must_be_room(fingerprints: int, subtrees: int) -> None:
    """A table without room is refused."""
    with pytest.raises(ValueError, match="cannot be made"):
        Novelty(fingerprints=fingerprints, subtrees=subtrees)


def test_it_can_be_stored() -> None:
    """What was seen survives being stored."""
    novelty = Novelty(fingerprints=1024, subtrees=50)
    for n in range(1100):
        page(novelty, f"http://h/a/{n}", "the same")
        page(novelty, f"http://h/b/{n % 90}", "x" * n)
    again = Novelty.from_bytes(novelty.to_bytes())
    assert again.to_bytes() == novelty.to_bytes()
    assert standing(again, "http://h/a/1") is Standing.DROPPED
    assert list(again.closed()) == list(novelty.closed())


@given(st.binary(max_size=40))
def test_other_bytes_are_refused(stored: bytes) -> None:
    """What are no stored fingerprints is a ValueError and nothing else."""
    for broken in (b"\x96" + stored, b"\x96\x01" + stored, Novelty(fingerprints=8).to_bytes()[:-1]):
        with pytest.raises(ValueError, match="no stored fingerprints"):
            Novelty.from_bytes(broken)


def test_a_table_of_another_size_is_refused() -> None:
    """A table that is not as large as it says is refused, and so is another version."""
    stored = Novelty(fingerprints=8).to_bytes()
    with pytest.raises(ValueError, match="missing"):
        Novelty.from_bytes(stored.replace(b"\x96\x01\x08", b"\x96\x01\x10"))
    with pytest.raises(ValueError, match="version 2"):
        Novelty.from_bytes(stored.replace(b"\x96\x01", b"\x96\x02", 1))


def test_what_another_one_saw_of_a_trap_counts() -> None:
    """A subtree is as dry as where it is drier, and closed where it would be."""
    mine, theirs = Novelty(), Novelty()
    for n in range(1100):
        page(theirs, f"http://h/a/{n}", "the same")
    for n in range(220):
        page(theirs, f"http://h/c/{n % 5}", "the same")
        page(theirs, f"http://h/b/{n}", "the same")
        page(mine, f"http://h/b/{n}", "another")
    mine.adopt(theirs.dry())
    assert standing(mine, "http://h/a/1") is Standing.DROPPED
    assert standing(mine, "http://h/b/1") is Standing.SLOWED
    assert {each.host + urls.PATH for each in mine.dry()} == {urls.key("http://h/")}
    small = Novelty(subtrees=1)
    small.adopt(theirs.dry())
    assert len(list(small.closed())) == 1
    nothing = Novelty()
    nothing.adopt(Novelty().dry())
    assert nothing.judge(urls.key("http://h/")) == (Standing.OPEN, "")
    assert traps.Novelty.from_bytes(mine.to_bytes()).to_bytes() == mine.to_bytes()
