"""Whether a crawl is finished, caught up, crawling, paused, waiting or stuck, and why, in one sentence.

*Finished* was proven by the gatherers; if they visit pages again by a policy, the same proof says only that
the crawl has *caught up*. *Waiting* goes on by itself. *Stuck* does not, or not soon: somebody has to do
something, such as start a gatherer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from gcs.board import Member
from gcs.core.dates import for_people
from gcs.core.rulings import ALL
from gcs.operate.asking import counted
from gcs.operate.looking import View, fact
from gcs.settings import duration


class State(StrEnum):
    """How a crawl is."""

    FINISHED = "finished"
    CAUGHT_UP = "caught up"
    CRAWLING = "crawling"
    PAUSED = "paused"
    WAITING = "waiting"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True)
class Condition:
    """How a crawl is, and why."""

    state: State
    why: str

    def __str__(self) -> str:
        return f"{self.state.value}{',' if self.state is State.CAUGHT_UP else ':'} {self.why}"


def condition(view: View, *, forget_after_s: float) -> Condition:
    """How a crawl is; `forget_after_s` is when a silent gatherer is given up, as the configuration says."""
    if view.finished and not view.seeds_wait and not any(fact(each, "queued") for each in view.present):
        if not view.returns:
            return Condition(State.FINISHED, "nothing is queued, under way or on its way at any gatherer")
        if view.present and all(each.pulse.quiet for each in view.present):
            return Condition(State.CAUGHT_UP, "; ".join([_next_due(view), *_absences(view)]))
    if not view.present:
        return Condition(State.STUCK, _nobody(view))
    if ALL in view.rulings.paused:
        by, _ = view.rulings.paused_by.get(ALL, ("an operator", 0.0))
        return Condition(State.PAUSED, f"paused by {by}; `gcs resume` goes on")
    if view.charter is None:
        return Condition(State.WAITING, "the first plan is being made")
    return _at_work(view) or _held_up(view, forget_after_s)


def _next_due(view: View) -> str:
    at = view.next_visit_at
    if at is None:
        return "no page is to be visited again"
    return f"next page due at {for_people(at)}"


def _nobody(view: View) -> str:
    if not view.absent:
        return "no gatherer is there" + ("; seeds wait for one" if view.seeds_wait else "")
    return f"no gatherer is there; {_last_heard(view, view.absent)}"


def _at_work(view: View) -> Condition | None:
    """What the crawl does, if there is anything to fetch."""
    able = [each for each in view.present if not view.rulings.is_paused(each.pulse.name)]
    queued, under_way = _total(able, "queued"), _total(able, "under_way")
    is_due = any(_has_due(each, view.at) for each in able)
    if not queued and not under_way and not is_due:
        return None
    asides = [*_absences(view), *_moves(view), *_pauses(view)]
    known = f"{queued:,} queued" + (", and pages due again" if is_due else "")
    if under_way or view.is_busy:
        return Condition(State.CRAWLING, "; ".join([known, *asides]))
    why = f"{known}, and no host may be asked now: they rest between requests, or before a retry"
    if view.rulings.resting:
        why += ", or are paused by an operator"
    return Condition(State.WAITING, "; ".join([why, *asides]))


def _has_due(member: Member, at: float) -> bool:
    """Whether a gatherer has pages that are to be visited again now."""
    next_at = fact(member, "next_visit_at") if fact(member, "returns") else None
    return next_at is not None and next_at <= at and not member.pulse.quiet


def _held_up(view: View, forget_after_s: float) -> Condition:
    """What a crawl waits for when nothing can be fetched."""
    paused = [each for each in view.present if view.rulings.is_paused(each.pulse.name)]
    if _total(paused, "queued"):
        return Condition(State.PAUSED, "; ".join([*_pauses(view), *_absences(view)]))
    if absences := _absences(view):
        after = f"after {duration(forget_after_s)} of silence its part of the web is given to others"
        return Condition(State.STUCK, f"{'; '.join(absences)}; {after}")
    assert view.charter is not None
    for each in view.present:
        if each.pulse.epoch < view.charter.epoch:
            return Condition(State.WAITING, f"gatherer {each.pulse.name} has not adopted the newest plan yet")
    if moves := _moves(view):
        return Condition(State.WAITING, "; ".join(moves))
    for each in view.present:
        for to, count in sorted(each.pulse.pending.items()):
            way = f"from {each.pulse.name} to {view.name(to)}"
            return Condition(State.WAITING, f"{counted(count, 'URL is', 'URLs are')} on their way {way}")
    if view.seeds_wait:
        return Condition(State.WAITING, "seeds wait to be taken")
    return Condition(State.WAITING, "all gatherers are quiet, and see whether that is the end")


def _absences(view: View) -> list[str]:
    if not view.absent:
        return []
    kind = "gatherer" if len(view.absent) == 1 else "gatherers"
    return [f"waiting for {kind} {_last_heard(view, view.absent)}"]


def _last_heard(view: View, members: Iterable[Member]) -> str:
    return ", ".join(
        f"{each.pulse.name} (last heard of {duration(round(view.silence_s(each)))} ago)" for each in members
    )


def _moves(view: View) -> list[str]:
    return [
        f"{_ranges(count)} on {'its' if count == 1 else 'their'} way "
        f"from {each.pulse.name} to {view.name(to)}"
        for each in view.present
        for to, count in sorted(each.pulse.leaving.items())
    ]


def _ranges(count: int) -> str:
    return "a range is" if count == 1 else f"{count:,} ranges are"


def _pauses(view: View) -> list[str]:
    names = [each.pulse.name for each in view.present if view.rulings.is_paused(each.pulse.name)]
    if not names:
        return []
    return [f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} paused by an operator"]


def _total(members: Iterable[Member], name: str) -> int:
    return sum(int(fact(each, name)) for each in members)
