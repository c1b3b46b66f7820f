"""What somebody should look at, a sentence each: what is wrong, and what to do about it.

`gcs.operate.condition` says how the crawl is as a whole; this is about single gatherers and helpers, also
while everything else goes on.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final

from gcs.board import Member
from gcs.operate.asking import counted
from gcs.operate.looking import View, fact
from gcs.settings import duration

STUCK_S: Final = 60.0
"""A gatherer with a queue, and hosts that may be asked, should get an answer within this."""
MOVING_S: Final = 120.0
"""A range should have changed hands within this."""
SLOW_S: Final = 1.0
"""Redis should take a heartbeat within this."""
_SOON_S: Final = 5.0


def alarms(view: View, *, forget_after_s: float, look_s: float = 0.0) -> list[str]:
    """All there are, the worst first; `look_s` is how long Redis took for this look."""
    return [
        *_silent(view, forget_after_s),
        *(sentence for each in view.present for sentence in _of_gatherer(view, each)),
        *_moving(view),
        *_slow(view, look_s),
        *_barred(view),
    ]


def _silent(view: View, forget_after_s: float) -> Iterator[str]:
    for each in filter(view.is_overdue, view.absent):
        name, silent_s = each.pulse.name, view.silence_s(each)
        if silent_s < forget_after_s:
            then = f"start it again, or its part is given to others after {duration(round(forget_after_s))}"
        elif view.present:
            then = "its part is given to others with the next plan"
        else:
            then = "start it again"
        yield f"{name} is silent for {duration(round(silent_s))}: {then}."


def ignoring(member: Member, names: Container[str] | None = None) -> Iterator[str]:
    """The settings that operators have set, all or some of them, and a gatherer does not follow."""
    for name, why in sorted((fact(member, "ignored") or {}).items()):
        if names is None or name in names:
            yield f"{member.pulse.name} ignores {name}: {why}."


def _of_gatherer(view: View, member: Member) -> Iterator[str]:
    name, queued = member.pulse.name, int(fact(member, "queued"))
    yield from ignoring(member)
    if fact(member, "waits_for_room"):
        yield f"{name} has no room on its disk and fetches nothing: free some, it goes on by itself."
        return
    if fact(member, "outbox_is_full"):
        to = max(member.pulse.pending, key=lambda each: member.pulse.pending[each], default="")
        yield f"{name} fetches nothing, for its outbox is full: {view.name(to) or 'nobody'} takes too little."
        return
    silent_s = float(fact(member, "unanswered_s"))
    is_able = member.pulse.standing == "crawling" and not view.rulings.is_paused(name)
    rests = fact(member, "rest_s")
    if queued and is_able and silent_s > STUCK_S and (rests is None or rests < _SOON_S):
        waits = (
            "its hosts wait for turns of other gatherers, or for names" if rests is None else "see its log"
        )
        yield f"{name} has {queued:,} queued and no answer for {duration(round(silent_s))}: {waits}."


def _moving(view: View) -> Iterator[str]:
    """Ranges that should have arrived."""
    made = view.charter.history[-1] if view.charter and view.charter.history else None
    if made is None or view.at - made.at < MOVING_S:
        return
    since = duration(round(view.at - made.at))
    for each in view.present:
        for to, count in sorted(each.pulse.leaving.items()):
            how = "see the logs of both" if to in view.living else f"{view.name(to)} is not there to take it"
            what = f"{counted(count, 'range')} from {each.pulse.name} to {view.name(to)}"
            yield f"{what} on the way for {since}: {how}."


def _slow(view: View, look_s: float) -> Iterator[str]:
    slow = {each.pulse.name: float(fact(each, "beat_s")) for each in view.present}
    slow = {name: took_s for name, took_s in slow.items() if took_s > SLOW_S}
    if slow:
        worst = max(slow, key=lambda name: slow[name])
        took = f"{slow[worst]:.1f} s for a heartbeat of {worst}"
        yield f"Redis is slow: {took}; see to its machine and network."
    elif look_s > SLOW_S:
        yield f"Redis is slow from here: {look_s:.1f} s for one look."


def _barred(view: View) -> Iterator[str]:
    where: dict[str, list[str]] = {}
    for each in view.present:
        for helper in fact(each, "barred") or ():
            where.setdefault(helper, []).append(each.pulse.name)
    for helper, names in sorted(where.items()):
        if helper in view.rulings.helpers:
            yield (
                f"helper {helper} gave wrong answers and is not asked any more by {', '.join(names)}: "
                f"`gcs helper revoke {helper}`."
            )
