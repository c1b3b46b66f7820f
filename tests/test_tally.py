"""What a crawl counts and shows of itself."""

from __future__ import annotations

import pytest

from gcs.core.estimate import halfway
from gcs.gatherer.console import far_along
from gcs.gatherer.tally import Pace, Tally, most, size
from gcs.store.records import Counts


def test_a_tally_survives_being_stored() -> None:
    """Everything that was counted is there again, and counting goes on."""
    tally = Tally()
    for n in range(1000):
        tally.answered(f"h{n % 7}", 200 if n % 10 else 404, "text/html", "en" if n % 2 else "", 100)
        tally.failed("robots")
        tally.grown(n + 1, 2 * n + 5)
    again = Tally.from_bytes(tally.to_bytes())
    assert again == tally
    assert (again.pages, again.size_bytes, again.statuses[404]) == (1000, 100_000, 100)
    assert again.languages == {"en": 500}
    assert len(again.history) <= 400
    assert again.history[0] == (1, 5)


def test_a_tally_of_another_version() -> None:
    """What another version kept is not misread; counting begins anew."""
    stored = bytearray(Tally(pages=5).to_bytes())
    stored[1] += 1
    assert Tally.from_bytes(bytes(stored)) == Tally()


def test_progress_begins_with_the_first_page() -> None:
    """Before anything was fetched nothing can be said; afterwards there is an answer."""
    tally = Tally()
    assert tally.progress() is None
    tally.grown(1, 1)
    found = tally.progress()
    assert found is not None
    assert found.share == 1.0


def test_pace() -> None:
    """The pace of late is that of the last ten seconds, the other that of all."""
    pace = Pace(0.0)
    assert (pace.recent, pace.overall) == (0.0, 0.0)
    for second in range(1, 101):
        pace.note(float(second), second * (1 if second <= 80 else 3) + (0 if second <= 80 else -160))
    assert pace.recent == pytest.approx(3.0)
    assert pace.overall == pytest.approx(1.4)


def test_most() -> None:
    """The largest come first, equal ones by name, and no more than asked for."""
    assert most({"b": 2, "a": 2, "c": 9, "d": 1}, 3) == [("c", 9), ("a", 2), ("b", 2)]


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (78_000_000, "78 MB"), (5e15, "5,000.0 TB")],
)
def test_sizes(number: float, shown: str) -> None:
    """Sizes have the unit that people would use."""
    assert size(int(number)) == shown


def test_how_far_along() -> None:
    """How far along a crawl is, is a range, or nothing while it cannot be said."""
    assert far_along(None, Counts()) == ""
    assert far_along(halfway([(5, 5)]), Counts(done=5)) == "100% done (100%–100%)"
    endless = halfway([(n, 10 * n + 1) for n in range(1, 4000, 10)])
    assert far_along(endless, Counts(queued=20_000)) == "no end in sight"
    assert far_along(endless, Counts(queued=20)) == ""


def test_tallies_add_up() -> None:
    """What several gatherers have counted is what one that had done it all would have."""
    one, other, all_of_it = Tally(), Tally(), Tally()
    for n in range(100):
        for tally in (one if n % 3 else other, all_of_it):
            tally.answered(f"h{n % 7}", 200 if n % 10 else 404, "text/html", "en" if n % 2 else "fi", n)
            tally.failed("robots")
    merged = Tally()
    merged.merge(one, other)
    assert merged == all_of_it
    assert other.pages == 34


def test_only_languages_are_counted_as_languages() -> None:
    """What others say a language is called, without end, takes no room."""
    tally = Tally()
    for n in range(1000):
        tally.answered("h", 200, "text/html", f"x-{n}", 1)
    tally.answered("h", 200, "text/html", "de", 1)
    assert tally.languages == {"de": 1}
