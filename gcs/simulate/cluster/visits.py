"""Whether visits to pages that were fetched before went right, seen from the end of a run.

- No page is visited again before `revisit.least`, and with the policy `uniform` none before `revisit.every`
  but for the first time; all visits together stay within their budget. In a round every page that was there
  is visited, and once.
- What is remembered of a page is where its row is, and nowhere else; each stands in one line, once.
- No page is forgotten that is due. What is kept of a page is what was last answered, and so is its
  validator, whoever has the page by then.

Each second request that `promises` excuses may be one that is too soon here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha1
from itertools import pairwise
from typing import Final

import trio

from gcs.core.revisits.memory import Memory
from gcs.core.revisits.pace import FASTER
from gcs.core.revisits.standing import APPOINTED
from gcs.core.revisits.timetable import Timetable
from gcs.core.urls import key
from gcs.gatherer.revisiting import Revisiting
from gcs.simulate.cluster.faults import FAILING_S
from gcs.simulate.cluster.fetching import Server
from gcs.simulate.cluster.habits import LEAST_S, Habit
from gcs.simulate.cluster.machines import DRIFT, OFFSET_S, GathererMachine
from gcs.simulate.verdict import UNANSWERED
from gcs.simulate.webhosts import Robots
from gcs.store.database import DUE, VISITS
from gcs.store.encoding import since_of, visit_place
from gcs.store.records import Row, State, host_of

_SHOWN: Final = 3
LATE_S: Final = 40.0
"""A page that is due may wait for so long though nobody asks its host."""
_IDLE_S: Final = 15.0
_BUDGETS: Final = 2
"""While little is known of pages visits may be more by this factor, and each page have one more."""


def is_page(row: Row) -> bool:
    """Whether a row is of something that is visited again."""
    return row.state is State.DONE and 200 <= row.status < 400


@dataclass(slots=True)
class Round:
    """When every page was to be visited once more, and which there were."""

    began: float
    keys: set[str] = field(default_factory=set)


def broken(
    habit: Habit,
    server: Server,
    gatherers: Sequence[GathererMachine],
    excuses: Mapping[str, int],
    given: Mapping[str, int],
    believed: Collection[str],
    round_: Round | None,
) -> list[str]:
    """The promises about visits that were not kept, in sentences.

    Of the `excuses`, those that are `given` say nothing of whether a page was asked for and the answer lost.
    """
    asked = _answered(server)
    found: list[str] = []
    if habit.is_standing:
        found += _too_soon(habit, asked, excuses)
        found += _too_many(habit, asked, excuses)
    if round_ is not None:
        found += _not_once(round_, asked, excuses)
        found += _left_out(round_, server)
    uncertain = {each for each, times in excuses.items() if times > given.get(each, 0)} | set(believed)
    # Before, nobody thought of coming back, and pages change hands without their validators.
    since = round_.began if round_ is not None and not habit.remembers else 0.0
    for machine in gatherers:
        if machine.starts and not machine.is_lost:
            found += _misremembered(machine)
            found += _outdated(machine, server, uncertain, since)
    return found


def _revisiting(machine: GathererMachine) -> Revisiting | None:
    """What decides at a gatherer about visits, while it lives."""
    is_alive = machine.is_running and machine.world.is_alive
    return machine.gatherer.crawl.revisiting if is_alive and machine.gatherer is not None else None


def has_visits(machine: GathererMachine) -> bool:
    """Whether a gatherer may visit a page now."""
    revisiting = _revisiting(machine)
    return revisiting is not None and revisiting.next_at() <= machine.world.now()


def is_in_round(machine: GathererMachine) -> bool:
    """Whether a gatherer visits every page once more."""
    revisiting = _revisiting(machine)
    return revisiting is not None and revisiting.settings.once


def overdue(machine: GathererMachine, levels: Sequence[tuple[float, float]], late_s: float) -> list[str]:
    """Pages that a gatherer should have visited long ago; in a round, that it has not visited.

    `levels` are those of its timetable, each with its time. When a level falls all intervals get shorter,
    and pages are long due that were not before; what counts is for how long one was, by all levels since.
    """
    revisiting = _revisiting(machine)
    if revisiting is None or not has_visits(machine):
        return []
    table, now, lines = revisiting.courses.timetable, machine.world.now(), machine.disk.tables[DUE]
    if revisiting.settings.once:
        late = [place for place in lines if since_of(place) < revisiting.started]
    else:
        waiting = sum(_due_at(table, place, table.level()) < now for place in lines) if table.is_paced else 0
        late_s += _caught_up_s(table, waiting)
        since = trio.current_time() - late_s
        level = max((table.level(), *(level for at, level in levels if at > since)))
        late = [place for place in lines if _due_at(table, place, level) < now - late_s]
    return [place[_PREFIX:].decode() for place in late]


def _due_at(table: Timetable, place: bytes, level: float) -> float:
    """When the page that stands at a place is due, at a level; some have a date."""
    return since_of(place) + (0.0 if place[0] == APPOINTED else table.interval_at(place[0], level))


def level_of(machine: GathererMachine) -> float | None:
    """The level of a gatherer's timetable, if it goes by one."""
    revisiting = _revisiting(machine)
    return revisiting.courses.timetable.level() if revisiting is not None and revisiting.is_endless else None


def _caught_up_s(table: Timetable, waiting: int) -> float:
    """How long it takes until so many pages that are due have been visited beside those that come to be."""
    return waiting * table.every_s / ((FASTER - 1) * max(1, table.pages))


def idle(keys: Sequence[str], server: Server) -> list[str]:
    """Those of some pages whose hosts nobody asks, nor others that have their addresses."""
    since = trio.current_time() - _IDLE_S
    asked = {each.host for each in server.log if each.start > since}
    busy = {address for host in asked for address in server.addresses.get(host, ())}
    resting = {
        host_of(key(server.web.url(host, "/")))
        for host, addresses in server.addresses.items()
        if host not in asked and busy.isdisjoint(addresses)
    }
    return [each for each in keys if host_of(each) in resting]


_PREFIX: Final = 9
"""Bytes of a place before the key."""


def _answered(server: Server) -> dict[str, list[float]]:
    """By URL: when it was asked for and answered for good."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for request in server.log:
        if request.status not in UNANSWERED and not request.target.endswith("/robots.txt"):
            found[server.web.url(request.host, request.target)].append(request.start)
    return {url: sorted(times) for url, times in sorted(found.items())}


def _too_soon(habit: Habit, asked: Mapping[str, list[float]], excuses: Mapping[str, int]) -> list[str]:
    found = []
    for url, times in asked.items():
        least_s = [_least(LEAST_S), *[_least(_usual(habit))] * len(times)]
        soon = sum(later - earlier < s for (earlier, later), s in zip(pairwise(times), least_s, strict=False))
        excused = excuses.get(key(url), 0)
        # Each may be too soon after the one before it, and have the next one too soon after it.
        if soon > 2 * excused:
            at = ", ".join(f"{each:.1f}" for each in times)
            found.append(f"{url} was visited too soon {soon} times, at {at}, and {excused} are excused")
    return found[:_SHOWN]


def _usual(habit: Habit) -> float:
    return habit.every_s if habit.policy == "uniform" else LEAST_S


def _least(seconds: float) -> float:
    """By clocks that are wrong: who visits a page need not be who visited it last."""
    return seconds * (1 - 2 * DRIFT) - 2 * OFFSET_S


def _too_many(habit: Habit, asked: Mapping[str, list[float]], excuses: Mapping[str, int]) -> list[str]:
    last = max((times[-1] for times in asked.values()), default=0.0)
    count = sum(len(times) - 1 for times in asked.values())
    budget = sum((last - times[0]) / habit.every_s for times in asked.values())
    excused = sum(excuses.get(key(url), 0) for url in asked)
    if count <= _BUDGETS * budget + len(asked) + excused:
        return []
    return [f"pages were visited again {count} times, of which {excused} are excused; {budget:.0f} were due"]


def _not_once(round_: Round, asked: Mapping[str, list[float]], excuses: Mapping[str, int]) -> list[str]:
    found = []
    for url, times in asked.items():
        before = sum(each < round_.began for each in times)
        again = max(0, before - 1) + max(0, len(times) - before - 1)
        if again > excuses.get(key(url), 0):
            at = ", ".join(f"{each:.1f}" for each in times)
            found.append(
                f"{url} was asked for at {at}, once too often, in a round from {round_.began:.1f} on"
            )
    return found[:_SHOWN]


def _left_out(round_: Round, server: Server) -> list[str]:
    visited = {
        key(server.web.url(each.host, each.target)) for each in server.log if each.start >= round_.began
    }
    web, failed = server.web, server.have_failed
    is_far = failed.get(web.hosts[0].name, -math.inf) > round_.began - FAILING_S
    far = {each.name for each in web.hosts if each.robots is Robots.FAR and is_far}
    silent = {host_of(key(web.url(host, "/"))) for host in failed.keys() | far}
    left = [each for each in sorted(round_.keys - visited) if host_of(each) not in silent]
    return [f"{len(left)} pages were left out of a round, such as {left[:2]}"] if left else []


def _misremembered(machine: GathererMachine) -> Iterator[str]:
    """What is remembered and should not be, what is not and should be, and what stands in a wrong line."""
    visits, lines = machine.disk.tables[VISITS], machine.disk.tables[DUE]
    with machine.opened() as store:
        rows = dict(store.scan("", None))
    done = {each for each, row in rows.items() if row.state is State.DONE}
    wanted = {each for each in done if is_page(rows[each])}
    remembered = {name.decode() for name in visits}
    if lost := wanted - remembered:
        yield f"{machine.name} has {len(lost)} pages of which nothing is remembered, as {sorted(lost)[:2]}"
    if others := remembered - done:
        yield f"{machine.name} remembers {len(others)} pages that it has not, such as {sorted(others)[:2]}"
    places = {place for name, packed in visits.items() if (place := visit_place(packed, name)) is not None}
    if places != set(lines):
        yield f"{machine.name} has {len(places ^ set(lines))} pages that do not stand where they should"


def _outdated(
    machine: GathererMachine, server: Server, uncertain: Collection[str], since: float
) -> list[str]:
    """Pages of which something else is kept, or since a time remembered, than what was last answered."""
    found = []
    with machine.opened() as store:
        for each, row in store.scan("", None):
            if row.state is not State.DONE or each in uncertain:
                continue
            body, (etag, at) = server.told.get(each), server.etags.get(each, ("", 0.0))
            if body is not None and not sha1(body, usedforsecurity=False).digest().startswith(row.digest):
                found.append(f"{machine.name} has an old {each}")
            remembered = store.remembered(each) if etag and at >= since else None
            if remembered is not None and Memory.from_bytes(remembered.memory).etag != etag:
                found.append(f"{machine.name} has another validator of {each}")
    return found[:_SHOWN]
