"""When pages are visited again: freshness, rates of change, timetables, likeness, and α."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gcs.core.revisits import likeness, memory
from gcs.core.revisits.course import GONE_AFTER, Course, Courses, Next, Seen
from gcs.core.revisits.freshness import best_intervals, freshness, interval_for, worth
from gcs.core.revisits.pace import FASTER, Pace
from gcs.core.revisits.rates import Populations, observed, remembered, typical
from gcs.core.revisits.share import Share
from gcs.core.revisits.standing import APPOINTED, Standing
from gcs.core.revisits.timetable import POLICIES, Once, Policy, timetable

DAY_S = 86_400.0
HOUR_S = 3600.0
RATES = st.floats(1e-8, 1e-2)


# Freshness


@given(rate=RATES, share=st.floats(1e-6, 0.999))
def test_a_visit_is_worth_its_price_at_its_interval(rate: float, share: float) -> None:
    """The interval for a price is the one at which a visit is worth it."""
    price = share / rate
    assert worth(rate, interval_for(rate, price)) == pytest.approx(price, rel=1e-3)


def test_what_is_never_worth_it_is_not_visited() -> None:
    """A page that changes all the time gets no visit, and neither does one that never changes."""
    assert interval_for(1.0, 2.0) == math.inf
    assert interval_for(0.0, 2.0) == math.inf
    assert freshness(1.0, math.inf) == 0.0
    assert freshness(0.0, 1.0) == 1.0


@given(rates=st.lists(RATES, min_size=2, max_size=30), every_s=st.floats(60, 1e6))
def test_best_intervals(rates: list[float], every_s: float) -> None:
    """The best intervals keep to the budget, and no page gains more by a visit than another would lose."""
    assume(max(rates) * every_s < 20)
    budget = len(rates) / every_s
    intervals = best_intervals(rates, budget)
    visits = sum(1 / each for each in intervals)
    assert visits <= 1.02 * budget
    # A page is visited once in thirty changes or not at all: so much the last one left out leaves over.
    left = min((rate for rate, each in zip(rates, intervals, strict=True) if math.isinf(each)), default=0.0)
    assert visits + rates.count(left) * left / 30 >= 0.98 * budget
    best = sum(map(freshness, rates, intervals))
    assert best >= sum(freshness(rate, every_s) for rate in rates) * 0.999


# Rates


def _visits(rate: float, interval_s: float, count: int, seed: int) -> bytes:
    chance = random.Random(seed)
    history = b""
    for _ in range(count):
        changed = chance.random() < -math.expm1(-rate * interval_s)
        history = remembered(history, observed(interval_s, changed=changed))
    return history


@pytest.mark.parametrize("rate", [1 / (2 * HOUR_S), 1 / (2 * DAY_S), 1 / (60 * DAY_S)])
def test_many_visits_tell_the_rate(rate: float) -> None:
    """Sixteen visits of a page tell how often it changes, to within a factor of three."""
    found = [typical(Populations().rates((), _visits(rate, 0.7 / rate, 16, seed))) for seed in range(40)]
    assert rate / 3 < sorted(found)[20] < rate * 3


def test_a_page_is_judged_by_its_superpage() -> None:
    """What is expected of a page without visits is what others of its superpage do, until a visit."""
    learnt, chance = Populations(), random.Random(1)
    for name, rate in (("news", 1 / (4 * HOUR_S)), ("archive", 1 / (300 * DAY_S))):
        for page in range(40):
            history = b""
            for more in _visits(rate, DAY_S * chance.uniform(0.5, 2), 3, page):
                learnt.learn(("", name), history, bytes((more,)))
                history = remembered(history, bytes((more,)))
    news, archive = (typical(learnt.rates(("", name), b"")) for name in ("news", "archive"))
    assert news > 20 * archive
    stranger = typical(learnt.rates(("", "elsewhere"), b""))
    assert archive < stranger < news
    quiet = observed(20 * DAY_S, changed=False)
    assert typical(learnt.rates(("", "news"), quiet)) < news / 5


def test_a_page_that_says_when_it_changed() -> None:
    """Changes of which the last was long ago say that a page changes less often than it may seem."""
    unknown = observed(DAY_S, changed=True)
    long_ago = observed(DAY_S, changed=True, changed_ago_s=0.9 * DAY_S)
    assert len(long_ago) == 2
    seems, is_ = (typical(Populations().rates((), each * 2)) for each in (unknown, long_ago))
    assert is_ < seems / 2
    assert observed(DAY_S, changed=True, changed_ago_s=2 * DAY_S) == unknown


def test_a_page_counts_once_however_often_it_is_visited() -> None:
    """One page that is visited a hundred times weighs no more in its group than one visited three times."""
    learnt = Populations()
    history = b""
    for _ in range(100):
        more = observed(HOUR_S, changed=True)
        learnt.learn(("",), history, more)
        history = remembered(history, more)
    ((_, counts),) = learnt.to_state()[1]
    assert sum(counts) == pytest.approx(1.0, abs=0.3)


def test_groups_are_bounded_and_kept() -> None:
    """The groups that were not heard of for longest are forgotten, and the others come back from bytes."""
    learnt = Populations(room=3)
    for number in range(6):
        learnt.learn((f"host {number}",), b"", observed(DAY_S, changed=number % 2 == 0))
    again = Populations.from_state(learnt.to_state())
    assert again.expected(("host 0",)) == Populations().expected(())
    assert again.expected(("host 5",)) == learnt.expected(("host 5",))
    with pytest.raises(ValueError, match="levels"):
        Populations.from_state([3, [("x", [1.0])]])


# Timetables


@pytest.mark.parametrize("policy", POLICIES)
def test_visits_come_to_the_budget(policy: Policy) -> None:
    """Whatever pages there are, their visits come to one in `every` for each, within its bounds."""
    table, chance = timetable(policy, 7 * DAY_S, HOUR_S, 90 * DAY_S), random.Random(3)
    learnt = Populations()
    grades = []
    for _ in range(500):
        rate = math.exp(chance.uniform(math.log(1e-7), math.log(1e-4)))
        history = _visits(rate, DAY_S, 8, chance.randrange(10**6))
        grade = table.grade(learnt.rates((), history), chance.lognormvariate(3, 1))
        table.enter(grade)
        grades.append(grade)
    visits = sum(DAY_S / table.interval(grade) for grade in grades)
    assert visits == pytest.approx(500 / 7, rel=0.05)
    assert all(HOUR_S <= table.interval(grade) <= 90 * DAY_S for grade in grades)


def test_who_is_due_first() -> None:
    """Of those that are due the one is first whose interval was over most often; a date is before all."""
    table = timetable("anansi", DAY_S, 60.0, 100 * DAY_S)
    often, seldom = table.grade((), 100.0), table.grade((), 1.0)
    for grade in (often, seldom):
        table.enter(grade)
    short, long = table.interval(often), table.interval(seldom)
    assert short < long
    now = 100 * DAY_S
    assert table.first({often: now - 2 * short, seldom: now - 1.5 * long}, now) == often
    assert table.first({often: now - 1.1 * short, seldom: now - 1.5 * long}, now) == seldom
    assert table.first({often: now - 0.9 * short, APPOINTED: now - 1}, now) == APPOINTED
    assert table.first({often: now - 0.9 * short, APPOINTED: now + 1}, now) is None
    assert table.next_at({often: now, APPOINTED: now + 1}) == now + 1
    assert table.next_at({}) == math.inf


def test_what_did_not_change_is_not_forgotten() -> None:
    """By P_old alone a page that was unchanged would never be due; with a floor for C it is, but later."""
    courses = Courses(timetable("anansi", DAY_S, 60.0, 1e6 * DAY_S))

    def grade(change: float) -> int:
        began = courses.begin(("host",), 10.0, 0.0).course
        seen = Seen.CHANGED if change else Seen.UNCHANGED
        standing = courses.visited(began, ("host",), seen, DAY_S, DAY_S, degree=10.0, change=change).standing
        assert standing is not None
        return standing.grade

    changed, unchanged = grade(0.9), grade(0.0)
    assert courses.timetable.interval(changed) < courses.timetable.interval(unchanged)
    assert unchanged == grade(0.01)


def test_bounds_without_room() -> None:
    """An average outside of its bounds is refused."""
    with pytest.raises(ValueError, match="on average"):
        timetable("uniform", 10.0, 20.0, 30.0)


def test_a_pace_keeps_to_the_budget() -> None:
    """No more visits are begun than a little above the budget; what is put off can be begun again."""
    table = timetable("anansi", 100.0, 1.0, 1000.0)
    pace = Pace(table, 0, 0.0)
    assert pace.next_at(0, 0.0) == 0.0
    assert pace.next_at(1, 0.0) == 0.0  # of a web without pages nothing can be said
    table.restore([(7, 6_400)])
    begun = 1
    for second in range(1, 101):
        room = pace.room(begun, float(second))
        assert pace.room(begun + room, float(second)) == 0
        assert pace.next_at(begun + room, float(second)) > second
        begun += room
    assert begun == pytest.approx(FASTER * 6_400, rel=0.01)
    assert pace.room(begun - 5, 100.0) == 5
    saved = pace.room(begun, 1e6)
    assert saved == pace.room(begun, 2e6)
    assert saved < 6_400


# Courses


def _courses(policy: Policy = "adaptive") -> Courses:
    return Courses(timetable(policy, 7 * DAY_S, HOUR_S, 90 * DAY_S))


def _due(courses: Courses, after: Next) -> float:
    assert after.standing is not None
    return courses.timetable.due_at(after.standing)


def test_a_page_that_is_missing_again_and_again_is_gone() -> None:
    """A page that is not there is looked for again soon, and after three times never."""
    courses = _courses()
    after = courses.begin((), 10.0, 0.0)
    for number in range(GONE_AFTER - 1):
        after = courses.visited(after.course, (), Seen.MISSING, DAY_S, number * DAY_S, degree=10.0)
        assert _due(courses, after) <= (number + 1) * DAY_S
    gone = courses.visited(after.course, (), Seen.MISSING, DAY_S, 9 * DAY_S, degree=10.0)
    assert gone.standing is None
    assert gone.course.is_gone
    assert courses.timetable.pages == 0


@pytest.mark.parametrize("is_round", [False, True])
def test_a_page_is_not_gone_before_its_time(is_round: bool) -> None:
    """However often a page is missing within an hour, that counts once; and once more a day later."""
    courses = _courses()
    if is_round:
        courses.timetable = Once(courses.timetable, 0.0)
    after = courses.begin((), 10.0, 0.0)
    counts = []
    for hour in (1.0, 1.2, 1.4, 2.0, 26.0, 27.0, 40.0, 50.0):
        after = courses.visited(after.course, (), Seen.MISSING, HOUR_S, hour * HOUR_S, degree=10.0)
        counts.append(after.course.missing)
    assert counts == [1, 1, 1, 1, 2, 2, 2, 3]
    assert after.course.is_gone


def test_a_page_that_comes_back_is_not_gone() -> None:
    """One visit that finds a page again ends the count of those that did not."""
    courses = _courses()
    after = courses.begin((), 10.0, 0.0)
    for seen in (Seen.MISSING, Seen.MISSING, Seen.UNCHANGED, Seen.MISSING):
        after = courses.visited(after.course, (), seen, DAY_S, DAY_S, degree=10.0)
    assert after.course.missing == 1
    assert after.standing is not None


def test_failures_are_tried_again_ever_later() -> None:
    """A visit that failed says nothing of the page, and is repeated after a while that doubles."""
    courses = _courses()
    begun = courses.begin((), 10.0, 0.0)
    once = courses.visited(begun.course, (), Seen.FAILED, DAY_S, 0.0, degree=10.0)
    twice = courses.visited(once.course, (), Seen.FAILED, DAY_S, 0.0, degree=10.0)
    assert once.course.history == b""
    assert _due(courses, once) == HOUR_S
    assert _due(courses, twice) == 2 * HOUR_S
    well = courses.visited(twice.course, (), Seen.UNCHANGED, DAY_S, 0.0, degree=10.0)
    assert well.course.failed == 0


def test_pages_found_together_are_not_due_together() -> None:
    """The first visit of a page comes within its interval, wherever its spread says, but never too soon."""
    courses = _courses("uniform")
    least_s, usual_s = courses.timetable.least_s, courses.timetable.every_s
    for spread in (0.0, 0.25, 1.0):
        due = _due(courses, courses.begin((), 1.0, 0.0, spread=spread))
        assert due == pytest.approx(least_s + spread * (usual_s - least_s))


def test_intervals_that_become_shorter_make_no_page_due_that_is_new() -> None:
    """However many pages come, and of whichever grades, none of them is visited before it should be."""
    courses = _courses("anansi")
    chance = random.Random(1)
    spreads = [chance.random() for _ in range(400)]
    pages = [
        courses.begin((), 1000.0 if number < 200 else 1.0, 0.0, spread=spread)
        for number, spread in enumerate(spreads)
    ]
    moved = 0
    for (course, standing), spread in zip(pages, spreads, strict=True):
        assert standing is not None
        least_s, usual_s = courses.timetable.least_s, courses.timetable.interval(course.grade)
        right = least_s + spread * (usual_s - least_s)
        rather = courses.rather(course, standing, 0.0, max(0.0, right - 1), spread=spread)
        assert rather is not None
        assert courses.timetable.due_at(rather) == pytest.approx(right)
        assert courses.rather(course, standing, 0.0, right + 1, spread=spread) is None
        moved += courses.timetable.due_at(standing) < right - 1
    assert moved > 20


def test_a_date_is_not_before_a_page_may_be_visited() -> None:
    """A page that was visited before, or was told a date, waits for as long as any page has to."""
    courses = _courses()
    known = courses.visited(Course(), (), Seen.UNCHANGED, DAY_S, 0.0, degree=1.0)
    for standing in (known.standing, Standing(APPOINTED, 0.0)):
        assert standing is not None
        rather = courses.rather(known.course, standing, 0.0, HOUR_S - 1, spread=0.0)
        assert rather == Standing(APPOINTED, HOUR_S)
        assert courses.rather(known.course, standing, 0.0, HOUR_S, spread=0.0) is None


def test_what_was_learnt_is_kept() -> None:
    """Courses come back from bytes, also for another policy; anything else is refused."""
    courses = _courses()
    begun = courses.begin(("", "a"), 10.0, 0.0)
    courses.visited(begun.course, ("", "a"), Seen.CHANGED, DAY_S, DAY_S, degree=10.0)
    again = Courses.from_bytes(timetable("adaptive", 7 * DAY_S, HOUR_S, 90 * DAY_S), courses.to_bytes())
    assert again.timetable.pages == 1
    assert again.rate(Course(), ("", "a")) == courses.rate(Course(), ("", "a"))
    with pytest.raises(ValueError, match="learnt"):
        Courses.from_bytes(again.timetable, b"nonsense")


# Likeness

_TEXT = " ".join(f"word{number * 7919 % 4001}" for number in range(1500))


def test_another_advertisement_is_the_same_page() -> None:
    """A page with other scripts, attributes and advertisements is alike; another text is not."""
    page = f"<html><script>t=1</script><p class=a>{_TEXT}</p><div>buy this now</div></html>".encode()
    other = f"<html><script>t=2;u=3</script><p class=b>{_TEXT}</p><div>try that today</div></html>".encode()
    third = f"<html><p>{_TEXT[::-1]}</p></html>".encode()
    assert likeness.are_alike(likeness.words_of(page), likeness.words_of(other))
    assert not likeness.are_alike(likeness.words_of(page), likeness.words_of(third))


def test_pages_without_words_are_not_alike() -> None:
    """Of pages without words nothing is known."""
    assert likeness.words_of(b"<html><script>all of it</script></html>") == 0
    assert not likeness.are_alike(0, 0)


def test_change_of_few_links_is_exact() -> None:
    """Up to 32 links, C is that of 004; two pages without links count as changed, as in the paper."""
    before = [f"http://a.test/{number}" for number in range(8)]
    after = [*before[:6], "http://a.test/new"]
    assert likeness.change(likeness.links_of(before), likeness.links_of(after)) == pytest.approx(1 - 6 / 9)
    assert likeness.change(b"", b"") == 1.0


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.9, 1.0])
def test_change_of_many_links_is_estimated(kept: float) -> None:
    """Of many links a sample tells C, to within a quarter."""
    before = [f"http://a.test/{number}" for number in range(400)]
    stays = round(400 * kept)
    after = [*before[:stays], *(f"http://b.test/{number}" for number in range(400 - stays))]
    found = likeness.change(likeness.links_of(before), likeness.links_of(after))
    assert found == pytest.approx(1 - stays / (800 - stays), abs=0.25)


# Memory


def _memory(**changes: object) -> memory.Memory:
    look = memory.Look(100.0, etag='"a"', modified="Mon, 01 Jan 2024 00:00:00 GMT", words=5, links=b"abc")
    found = memory.first(look, Course(b"\x05", 0.5, 7), Standing(7, 100.0), 12.0)
    return memory.Memory.from_bytes(found.to_bytes())


def test_memories_are_kept() -> None:
    """What is remembered comes back from bytes; anything else is refused."""
    found = _memory()
    assert found.etag == '"a"'
    assert found.standing == Standing(7, 100.0)
    with pytest.raises(ValueError, match="remembered"):
        memory.Memory.from_bytes(b"nonsense")


def test_conditions() -> None:
    """A page is asked for by its validators, and by none that could break the request."""
    assert _memory().conditions() == (
        b'If-None-Match: "a"\r\nIf-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT\r\n'
    )
    assert memory.validator('"a"\r\nCookie: b') == ""
    assert memory.validator("x" * 1000) == ""


@pytest.mark.parametrize(
    ("status", "words", "same", "found"),
    [
        (304, 0, False, Seen.UNCHANGED),
        (200, 9, True, Seen.UNCHANGED),
        (200, 4, False, Seen.TOUCHED),
        (200, (1 << 64) - 1, False, Seen.CHANGED),
        (301, 0, False, Seen.CHANGED),
        (404, 0, False, Seen.MISSING),
        (410, 0, False, Seen.MISSING),
        (403, 0, False, Seen.FAILED),
        (503, 0, False, Seen.FAILED),
    ],
)
def test_what_an_answer_says(status: int, words: int, same: bool, found: Seen) -> None:
    """An answer says whether a page has changed, was only touched, is missing, or that nothing is known."""
    assert memory.seen(_memory(), status, memory.Look(1.0, words=words), same_bytes=same)[0] is found


def test_after_a_visit() -> None:
    """An unchanged page keeps the date of its record; a changed one has another."""
    before, look = _memory(), memory.Look(200.0, words=1 << 60, links=b"xyz")
    course, standing = Course(), Standing(1, 200.0)
    unchanged = memory.after(before, Seen.UNCHANGED, look, course, standing)
    assert (unchanged.visited_at, unchanged.kept_at, unchanged.etag) == (200.0, 100.0, '"a"')
    changed = memory.after(before, Seen.CHANGED, look, course, standing)
    assert (changed.visited_at, changed.kept_at, changed.etag) == (200.0, 200.0, "")
    failed = memory.after(before, Seen.FAILED, look, course, standing)
    assert failed.visited_at == 100.0


# α


@given(alpha=st.sampled_from([0.5, 0.9, 0.99, 1.0]), idle=st.lists(st.booleans(), max_size=300))
def test_the_share_of_new_pages_is_alpha(alpha: float, idle: list[bool]) -> None:
    """Of any 10,000 fetches while both kinds are due, α are new, to within 1%, whatever was before."""
    share = Share(alpha)
    for old in idle:
        (share.took_old if old else share.took_new)()
    taken = []
    for _ in range(10_000):
        old = share.owed > 0
        (share.took_old if old else share.took_new)()
        taken.append(not old)
    assert sum(taken) / 10_000 == pytest.approx(alpha, abs=0.01)


def test_a_share_that_is_none() -> None:
    """With α = 0 only old pages are fetched while there are any; a share beyond 1 is refused."""
    assert Share(0.0).owed > 0
    with pytest.raises(ValueError, match="between 0 and 1"):
        Share(1.5)
