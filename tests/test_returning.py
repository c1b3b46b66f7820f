"""New pages and old ones in the proportion α, as the frontier hands them out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from gcs import config
from gcs.core.politeness import Workbench
from gcs.core.revisits.course import Seen
from gcs.core.revisits.memory import Look, Memory, first
from gcs.core.revisits.rates import observed
from gcs.core.revisits.standing import APPOINTED, Standing
from gcs.core.revisits.timetable import Policy
from gcs.core.urls import key
from gcs.gatherer.frontier import LOOKS, Frontier
from gcs.gatherer.returning import DROPPED_S, LOOK_EVERY_S, READ_AT_ONCE, Returning
from gcs.gatherer.revisiting import Revisiting, _spread
from gcs.gatherer.territory import Alone
from gcs.gatherer.upkeep import Upkeep
from gcs.store.records import Batch, Committed, Finished, Found, Remembered, State, host_of
from gcs.store.store import Store
from gcs.world import REAL
from tests.test_fetch import until

NOW = 1_700_000_000.0
HOUR_S = 3_600.0
WEEK_S = 7 * 86_400.0


def founds(host: str, kind: str, count: int) -> list[Found]:
    """URLs of a host."""
    return [Found(key(f"http://{host}.test/{kind}/{number}")) for number in range(count)]


def fill(store: Store, revisiting: Revisiting, hosts: dict[str, tuple[int, int]]) -> None:
    """Give each host so many new pages, and so many that were fetched two weeks ago."""
    for host, (new, old) in hosts.items():
        before = founds(host, "old", old)
        store.commit(Batch(found=before))
        finished = [
            Finished(key=each.key, state=State.DONE, status=200, at=NOW - 2 * WEEK_S, attempts=1)
            for each in before
        ]
        remembered = []
        for each in before:
            begun = revisiting.courses.begin(revisiting.groups(each.key), 1.0, NOW - 2 * WEEK_S)
            memory = first(Look(NOW - 2 * WEEK_S), begun.course, begun.standing, 1.0)
            remembered.append((each.key, Remembered(memory.to_bytes(), memory.standing)))
        store.commit(Batch(finished=finished, remembered=remembered))
        store.commit(Batch(found=founds(host, "new", new)))


def made(
    tmp_path: Path, hosts: dict[str, tuple[int, int]], settings: config.Revisit
) -> tuple[Store, Frontier]:
    """A store with pages, and a frontier over it, for hosts that need no rest."""
    store = Store.open(tmp_path / "store", config.Store(keep_free_bytes=0), resume=False)
    revisiting = Revisiting(settings, store, superpage=lambda _: "", clock=lambda: NOW)
    fill(store, revisiting, hosts)
    bench = Workbench(1, 1, 0.0, 0.0, 0.0)
    frontier = Frontier(store, bench, returning=Returning(revisiting))
    return store, frontier


def handed_out(frontier: Frontier, bench: Workbench, now: float, most: int) -> Iterator[bool]:
    """Whether each URL that the frontier hands out is new, until it has none."""
    frontier.wake_due(now)
    for number in range(most):
        if number % 50 == 0:
            frontier.wake_due(now + number / 50 * LOOK_EVERY_S)
        taken = frontier.take(now)
        while (found := frontier.unlocated()) is not None:
            frontier.located(found, (), now)
        taken = taken or frontier.take(now)
        if taken is None:
            return
        turn, site = taken
        job = frontier.next_job(site, now)
        if job is None:
            bench.give_back(turn, now)
            continue
        frontier.began(job)
        bench.done(turn, now)
        yield job.again is None


@pytest.mark.parametrize(
    "hosts",
    [
        {f"h{n}": (600, 80) for n in range(20)},
        {f"h{n}": (600, 0) for n in range(19)} | {"only": (0, 1500)},
        {f"h{n}": (280, 0) for n in range(40)} | {f"o{n}": (0, 4) for n in range(400)},
    ],
    ids=["both everywhere", "old ones at one host", "old ones elsewhere"],
)
def test_alpha_is_honoured(tmp_path: Path, hosts: dict[str, tuple[int, int]]) -> None:
    """Of 10,000 fetches while both kinds are due, 90% are of new pages, to within 1%."""
    settings = config.Revisit(policy="uniform", every_s=WEEK_S)
    store, frontier = made(tmp_path, hosts, settings)
    with store:
        taken = list(handed_out(frontier, frontier._bench, NOW, 10_000))
    assert len(taken) == 10_000
    assert sum(taken) / len(taken) == pytest.approx(0.9, abs=0.01)
    for start in range(0, 9_000, 500):
        assert sum(taken[start : start + 1000]) == pytest.approx(900, abs=45)


def test_old_pages_alone(tmp_path: Path) -> None:
    """Where nothing is new all that is due is visited, each page once."""
    store, frontier = made(
        tmp_path, {"a": (0, 30), "b": (5, 30)}, config.Revisit(policy="uniform", every_s=WEEK_S)
    )
    with store:
        taken = list(handed_out(frontier, frontier._bench, NOW, 1_000))
    assert taken.count(False) == 60
    assert taken.count(True) == 5


def visits_in(frontier: Frontier, bench: Workbench, seconds: float) -> int:
    """How many pages are asked for in a time, if answers take none."""
    count = 0
    for step in range(round(seconds * 20)):
        now = NOW + step / 20
        frontier.wake_due(now)
        for _ in range(2):
            while (taken := frontier.take(now)) is not None:
                turn, site = taken
                if (job := frontier.next_job(site, now)) is None:
                    bench.give_back(turn, now)
                    continue
                frontier.began(job)
                bench.done(turn, now)
                count += 1
            while (found := frontier.unlocated()) is not None:
                frontier.located(found, (found.host,), now)
    return count


@pytest.mark.parametrize("slow", [0, 1])
def test_old_pages_have_the_pace_of_new_ones(tmp_path: Path, slow: int) -> None:
    """Neither hosts that only rest nor a new page far off keep others from being asked for old pages."""
    settings = config.Revisit(policy="uniform", every_s=WEEK_S)
    hosts = {f"h{n}": (0, 10) for n in range(40)} | {"slow": (9 * slow, 0)}
    store, _ = made(tmp_path, hosts, settings)
    with store:
        revisiting = Revisiting(settings, store, superpage=lambda _: "", clock=lambda: NOW)
        bench = Workbench(1, 1, 1.0, 0.0, 60.0)
        bench.set_crawl_delay(host_of(key("http://slow.test/")), 25.0)
        frontier = Frontier(store, bench, returning=Returning(revisiting))
        assert 40 * 7 <= visits_in(frontier, bench, 8.0) <= 40 * 8 + slow


class Resting(Alone):
    """A territory in which one host may not be asked for now."""

    rests = host_of(key("http://rests.test/"))

    def may_fetch(self, key: str) -> bool:
        """All but that one."""
        return host_of(key) != self.rests


def test_what_may_not_be_fetched_now_is_not_forgotten(tmp_path: Path) -> None:
    """Pages of a host that rests are passed over, stay to be visited, and are when that is over."""
    settings = config.Revisit(once=True)
    store, _ = made(tmp_path, {"rests": (0, LOOKS * READ_AT_ONCE + 1), "b": (0, 5)}, settings)
    with store:
        revisiting = Revisiting(settings, store, superpage=lambda _: "", clock=lambda: NOW)
        revisiting.may_begin = True
        bench, territory = Workbench(1, 1, 0.0, 0.0, 0.0), Resting()
        frontier = Frontier(store, bench, territory=territory, returning=Returning(revisiting))
        frontier.wake_due(NOW)
        assert len(list(handed_out(frontier, bench, NOW, 100))) == 5
        assert not frontier.old
        assert frontier.has_old
        territory.rests = ""
        frontier.release([("", None)])
        taken = len(list(handed_out(frontier, bench, NOW + 1.0, 10_000)))
        assert taken == LOOKS * READ_AT_ONCE + 1
        assert not frontier.has_old


def test_a_host_has_its_bound(tmp_path: Path) -> None:
    """Of one host no more pages are visited again in an hour than it may have."""
    settings = config.Revisit(policy="uniform", every_s=WEEK_S, per_host=10)
    store, frontier = made(tmp_path, {"a": (0, 50), "b": (0, 50)}, settings)
    with store:
        taken = sum(
            len(list(handed_out(frontier, frontier._bench, NOW + minute * 60, 50))) for minute in range(60)
        )
    assert 18 <= taken <= 22


def test_a_host_that_had_no_pages_after_its_rest_is_called_once(tmp_path: Path) -> None:
    """When pages of it are due later, one is visited, and then it rests again."""
    settings = config.Revisit(policy="uniform", every_s=WEEK_S, per_host=1)
    store, frontier = made(tmp_path, {"a": (0, 6)}, settings)
    returning = frontier.returning
    assert returning is not None
    with store:
        first, *others = returning.look(NOW)
        for now, pages in ((NOW, [first]), (NOW + HOUR_S, others)):
            returning.rouse(now)
            returning.add(pages)
            host = returning.call(owed=False)
            assert host is not None
            assert returning.next_of(host, now) is not None
            assert returning.call(owed=False) is None


def test_a_page_that_is_queued_again_is_not_visited(tmp_path: Path) -> None:
    """A page that is queued while it waits to be visited again is fetched once, as a new one."""
    store, frontier = made(tmp_path, {"a": (0, 3)}, config.Revisit(policy="uniform", every_s=WEEK_S))
    with store:
        frontier.wake_due(NOW)
        assert frontier.old == 3
        committed = store.commit(Batch(again=[key("http://a.test/old/1")]))
        frontier.wake(committed.hosts, NOW)
        taken = list(handed_out(frontier, frontier._bench, NOW, 100))
    assert sorted(taken) == [False, False, True]


def test_a_host_with_very_many_old_pages_keeps_no_other_waiting(tmp_path: Path) -> None:
    """Pages of other hosts are visited though one has more before them than there is room for in memory."""
    settings = config.Revisit(policy="uniform", every_s=WEEK_S, per_host=60)
    hosts = {"big": (0, 2500)} | {f"h{n}": (0, 3) for n in range(20)}
    store, frontier = made(tmp_path, hosts, settings)
    with store:
        taken = sum(
            len(list(handed_out(frontier, frontier._bench, NOW + minute * 61, 50))) for minute in range(5)
        )
    assert taken == 5 + 20 * 3


def test_a_host_whose_pages_were_dropped_is_not_read_at_once(tmp_path: Path) -> None:
    """What is due at a host that was set aside stays due, and is read again after a while."""
    settings = config.Revisit(policy="uniform", every_s=WEEK_S)
    store, frontier = made(tmp_path, {"big": (0, 2500), "a": (0, 5)}, settings)
    returning = frontier.returning
    assert returning is not None
    with store:
        frontier.wake_due(NOW)
        big = host_of(key("http://big.test/"))
        store.put_back_visits(each.queued.key for each in returning.drop(big))
        read = [host_of(each.queued.key) for s in range(1, 10) for each in returning.look(NOW + s)]
        assert big not in read
        assert returning.revisiting.next_at() < NOW
        assert {host_of(each.queued.key) for each in returning.look(NOW + DROPPED_S + 1)} == {big}


def hinted(store: Store, revisiting: Revisiting, changed_at: float, count: int) -> list[Standing | None]:
    """Where pages stand of which somebody says that they changed at a time."""
    hints = [(each.key, changed_at) for each in founds("a", "old", count)]
    known = store.all_remembered([key for key, _ in hints])
    revised = revisiting.hinted(hints, known)
    store.commit(Batch(revised=revised))
    return [each.after.standing for each in revised]


@pytest.mark.parametrize(("changed_at", "is_soon"), [(-60.0, True), (80_000.0, True), (WEEK_S, False)])
def test_dates_of_sitemaps(tmp_path: Path, changed_at: float, is_soon: bool) -> None:
    """A page that changed since its visit, perhaps today, is visited soon; a later date says nothing."""
    settings = config.Revisit(policy="uniform", every_s=4 * WEEK_S)
    store, frontier = made(tmp_path, {"a": (0, 1)}, settings)
    assert frontier.returning is not None
    with store:
        soon = hinted(store, frontier.returning.revisiting, NOW + changed_at, 1)
        assert soon == ([Standing(APPOINTED, NOW)] if is_soon else [])


def test_dates_of_sitemaps_keep_to_the_budget(tmp_path: Path) -> None:
    """A sitemap that says every day of all pages that they have changed does not make more visits of it."""
    every_s, count, now = 4 * WEEK_S, 280, NOW
    settings = config.Revisit(policy="uniform", every_s=every_s, most_s=100 * WEEK_S)
    store, _ = made(tmp_path, {"a": (0, count)}, settings)
    with store:
        revisiting = Revisiting(settings, store, superpage=lambda _: "", clock=lambda: now)
        revisiting.courses.timetable.restore(store.grades().items())
        visits: list[float] = []
        for day in range(84):
            now = NOW + day * 86_400.0
            hinted(store, revisiting, now, count)
            for each in revisiting.due(now, count, lambda _: True, lambda _: True):
                visits.append(now)
                was = Memory.from_bytes(each.memory)
                after = replace(was, visited_at=now, standing=Standing(was.course.grade, now))
                finished = Finished(
                    key=each.queued.key, state=State.DONE, status=200, at=now, attempts=1, is_revisit=True
                )
                remembered = [(each.queued.key, Remembered(after.to_bytes(), after.standing))]
                store.commit(Batch(finished=[finished], remembered=remembered))
    # In eight weeks, after the four in which all come to be visited for the first time.
    later = sum(at > NOW + every_s for at in visits)
    assert 0.85 * 2 * count < later < 1.1 * 2 * count


@pytest.mark.parametrize("policy", ["uniform", "anansi", "adaptive"])
def test_no_policy_visits_many_pages_at_once(tmp_path: Path, policy: Policy) -> None:
    """Pages that never change are visited evenly, though much is learnt of all by their first visits."""
    every_s, count, now = 4 * WEEK_S, 280, NOW
    settings = config.Revisit(policy=policy, every_s=every_s, most_s=100 * WEEK_S)
    store, _ = made(tmp_path, {"a": (0, count)}, settings)
    visits, early = [0] * 12, list[tuple[str, Remembered]]()
    with store:
        revisiting = Revisiting(
            settings,
            store,
            superpage=lambda _: "",
            clock=lambda: now,
            remember=lambda *told: early.append(told),
        )
        for found in founds("a", "old", count):
            groups = revisiting.groups(found.key)
            begun = revisiting.courses.begin(groups, 1.0, NOW, spread=_spread(found.key))
            memory = first(Look(NOW), begun.course, begun.standing, 1.0)
            store.commit(Batch(remembered=[(found.key, Remembered(memory.to_bytes(), memory.standing))]))
        revisiting.graded = policy
        for week in range(len(visits)):
            for part in range(56):
                now = NOW + (week + part / 56) * WEEK_S
                for each in revisiting.due(now, count, lambda _: True, lambda _: True):
                    visits[week] += 1
                    was = Memory.from_bytes(each.memory)
                    groups = revisiting.groups(each.queued.key)
                    waited_s = now - was.visited_at
                    course, standing = revisiting.courses.visited(
                        was.course, groups, Seen.UNCHANGED, waited_s, now, degree=1.0
                    )
                    after = replace(was, visited_at=now, course=course, standing=standing)
                    finished = Finished(
                        key=each.queued.key, state=State.DONE, status=200, at=now, attempts=1, is_revisit=True
                    )
                    remembered = [(each.queued.key, Remembered(after.to_bytes(), after.standing))]
                    store.commit(Batch(finished=[finished], remembered=remembered))
                store.commit(Batch(remembered=early))
                revisiting.written([key for key, _ in early])
                early.clear()
    assert max(visits) <= 1.4 * count / 4
    assert sum(visits) >= 0.85 * count * len(visits) / 4


def test_a_hint_does_not_undo_a_visit(tmp_path: Path) -> None:
    """What was decided by what a page was like before a visit is not written after it."""
    store, frontier = made(tmp_path, {"a": (0, 1)}, config.Revisit(policy="uniform", every_s=4 * WEEK_S))
    assert frontier.returning is not None
    with store:
        (page,) = (each.key for each in founds("a", "old", 1))
        known = store.remembered(page)
        assert known is not None
        revised = frontier.returning.revisiting.hinted([(page, NOW)], [known])
        visited = Remembered(replace(Memory.from_bytes(known.memory), etag="new").to_bytes(), known.standing)
        store.commit(Batch(revised=revised, remembered=[(page, visited)]))
        assert store.remembered(page) == visited
        store.commit(Batch(revised=revised))
        assert store.remembered(page) == visited
        assert store.visits == 1


async def kept_up(
    revisiting: Revisiting, store: Store, commit: Callable[[Batch], Awaitable[Committed]] | None = None
) -> None:
    """Let the timetable be put in order."""

    async def committed(batch: Batch) -> Committed:
        return store.commit(batch)

    upkeep = Upkeep(revisiting, store, commit or committed, REAL)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(upkeep.run)
        await until(lambda: upkeep.is_settled)
        nursery.cancel_scope.cancel()


async def test_another_policy(tmp_path: Path) -> None:
    """With another policy all pages stand in the lines of that one, and what was remembered of them stays."""
    settings = config.Revisit(policy="anansi", every_s=WEEK_S)
    store, frontier = made(tmp_path, {"a": (0, 700), "b": (0, 3)}, settings)
    assert frontier.returning is not None
    with store:
        revisiting = frontier.returning.revisiting
        assert 0 not in store.grades()
        await kept_up(revisiting, store)
        assert 0 not in store.grades()
        before = store.remembered(key("http://b.test/old/1"))
        revisiting.change(replace(settings, policy="uniform"))
        await kept_up(revisiting, store)
        assert store.grades() == {0: 703}
        assert revisiting.courses.timetable.pages == 703
        after = store.remembered(key("http://b.test/old/1"))
        assert before is not None
        assert after is not None
        was, is_ = (Memory.from_bytes(each.memory) for each in (before, after))
        assert is_ == replace(was, course=was.course._replace(grade=0), standing=is_.standing)
        assert is_.standing == Standing(0, NOW - 2 * WEEK_S)
        assert len(revisiting.due(NOW, 1000, lambda _: True, lambda _: True)) == 703


def visited_often(store: Store, pages: Sequence[Found], history: bytes) -> None:
    """Let pages have a history of visits, the last half a week ago."""
    remembered = []
    for each in pages:
        known = store.remembered(each.key)
        assert known is not None
        was = Memory.from_bytes(known.memory)
        at = NOW - WEEK_S / 2
        since = Standing(was.course.grade, at)
        after = replace(was, course=was.course._replace(history=history), standing=since, visited_at=at)
        remembered.append((each.key, Remembered(after.to_bytes(), since)))
    store.commit(Batch(remembered=remembered))


async def test_a_policy_that_goes_by_history(tmp_path: Path) -> None:
    """Adaptive goes by what was found while another policy was in force, as soon as pages are graded."""
    settings = config.Revisit(policy="uniform", every_s=WEEK_S)
    store, frontier = made(tmp_path, {"a": (0, 300), "b": (0, 300)}, settings)
    assert frontier.returning is not None
    with store:
        revisiting = frontier.returning.revisiting
        await kept_up(revisiting, store)
        often, never = founds("a", "old", 300), founds("b", "old", 300)
        changed, same = (observed(WEEK_S, changed=changed) for changed in (True, False))
        visited_often(store, often, changed + 3 * same + changed)
        visited_often(store, never, 5 * same)
        revisiting.change(replace(settings, policy="adaptive"))
        await kept_up(revisiting, store)
        table = revisiting.courses.timetable
        some = [store.remembered(each.key) for each in (often[7], never[7])]
        sooner, later = (table.interval(each.standing.grade) for each in some if each and each.standing)
    assert sooner < WEEK_S < later
    assert 300 / sooner + 300 / later == pytest.approx(600 / WEEK_S, rel=0.05)


@pytest.mark.parametrize(("before", "after"), [("anansi", "uniform"), ("uniform", "anansi")])
async def test_nobody_is_visited_too_soon_by_a_mixture(tmp_path: Path, before: Policy, after: Policy) -> None:
    """While pages are graded anew none is visited that neither policy would have visited by then."""
    settings = config.Revisit(policy=before, every_s=WEEK_S)
    store, frontier = made(tmp_path, {"a": (0, 1700)}, settings)
    assert frontier.returning is not None
    handed_out: list[str] = []
    with store:
        revisiting = frontier.returning.revisiting
        await kept_up(revisiting, store)
        visited_often(store, founds("a", "old", 1700), 5 * observed(WEEK_S, changed=True))
        revisiting.change(replace(settings, policy=after))

        async def commit(batch: Batch) -> Committed:
            committed = store.commit(batch)
            due = revisiting.due(NOW, 200, lambda _: True, lambda _: True)
            handed_out.extend(each.queued.key for each in due)
            return committed

        await kept_up(revisiting, store, commit)
    assert handed_out == []


async def test_a_round_leaves_out_nobody_who_was_told_a_date(tmp_path: Path) -> None:
    """A round visits pages with a date ahead, and those that got theirs in it not once more."""
    settings = config.Revisit(once=True)
    store, frontier = made(tmp_path, {"a": (0, 2)}, settings)
    assert frontier.returning is not None
    with store:
        revisiting = frontier.returning.revisiting
        keys = [key(f"http://a.test/old/{number}") for number in range(2)]
        later = Standing(APPOINTED, NOW + WEEK_S)
        for each, visited_at in zip(keys, (NOW - WEEK_S, NOW + 1.0), strict=True):
            known = store.remembered(each)
            assert known is not None
            memory = replace(Memory.from_bytes(known.memory), visited_at=visited_at, standing=later)
            store.commit(Batch(remembered=[(each, Remembered(memory.to_bytes(), later))]))
        assert revisiting.due(NOW + 2.0, 10, lambda _: True, lambda _: True) == []
        await kept_up(revisiting, store)
        due = revisiting.due(NOW + 2.0, 10, lambda _: True, lambda _: True)
        assert [each.queued.key for each in due] == keys[:1]
