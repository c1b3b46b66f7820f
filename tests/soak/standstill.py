"""The acts `standstill` and `returned`: gatherers are stopped with SIGSTOP, and go on when others have.

Of three, one is stopped, and so is whoever leads a round of planning then, in the middle of it. The third has
to make the plan. When the two go on, the plan of the first leader counts for nothing; the turns that they had
at hosts and addresses are others', so no host is asked too soon, but for what was just being sent.

Or one is stopped for so long that it is thought lost: others take over what it had, and fetch that again. It
goes on, and hands over what it has.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gcs import board as boards
from gcs.simulate.verdict import Request, read_log
from tests.crawling import server
from tests.gatherers import Gatherers, gatherers
from tests.servers import redis_server
from tests.soak import Failed
from tests.soak.progress import Progress
from tests.soak.trial import SETTINGS, Trial

NAMES: Final = ("one", "two", "three")
DELAY_S: Final = 0.05
TOLERANCE_S: Final = 0.005
_POLITE: Final = (
    f"fetch.delay={DELAY_S * 1000:.0f}ms",
    "fetch.delay_factor=0",
    "fetch.connect_timeout=100ms",
    "placement.split_hosts=true",
    "partition.worth=0",
    # Only joining, and an operator, are reasons for a new plan.
    "rebalance.cooldown=1h",
    # So that there is time to stop a leader while it waits for the report of one that stands still.
    "member.heartbeat=1s",
    "rebalance.deadline=10s",
)
_TRIES: Final = 8
_HANDED_S: Final = 5.0
"""Sooner than who stands still is seen to: until then its report is waited for."""
LEASES_S: Final = 23.0
"""Longer than leases with these settings: 10 s for who leads, 22.2 s for a turn (`gcs.gatherer.turns`)."""


@dataclass(frozen=True, slots=True)
class Halt:
    """That a gatherer stood still, and when it went on, in Unix time."""

    name: str
    ended: float


def stand_still(
    pages: int, hosts: int, rng: random.Random, progress: Progress, *, for_s: float, times: int = 1
) -> str:
    """Stop one and the leader, past their leases; gives the verdict or raises Failed."""
    with (
        tempfile.TemporaryDirectory() as place,
        server(
            Path(place, "web"), rng.randrange(1000), hosts=hosts, pages=pages, hosts_per_address=2
        ) as served,
        redis_server("redis") as redis,
        gatherers(redis, served, Path(place, "gatherers"), [*SETTINGS, *_POLITE]) as group,
    ):
        trial = Trial(group, served, progress)
        for name in NAMES:
            trial.start(name)
        group.until(lambda members: members.keys() == set(NAMES), "three members")
        group.seed(served.web.seeds)
        halts: list[Halt] = []
        replaced: set[int] = set()
        trial.at(0.1, "the work is shared out", trial.leading)
        for number in range(times):
            share = 0.2 + 0.6 * number / times
            trial.at(share, "the leader stands still", lambda: replaced.add(_round(trial, for_s, halts)))
        trial.end()
        verdict = trial.verdict(*_too_late(trial, replaced), *_too_soon(trial, halts))
        return f"{len(halts)} stood still for {for_s:.0f} s, half of them while they led; {verdict}"


def _too_late(trial: Trial, replaced: set[int]) -> Iterator[str]:
    """Plans that were published by leaders who were leaders no more."""
    for plan in trial.plans():
        if plan["epoch"] in replaced:
            yield f"{plan['gatherer']} was replaced as the leader, and published the plan {plan['epoch']}"


def _too_soon(trial: Trial, halts: Sequence[Halt]) -> Iterator[str]:
    """Hosts and addresses that were asked again too soon."""
    requests = sorted(read_log(trial.served.log), key=lambda request: request.start)
    addresses = {host.name: host.address for host in trial.served.web.hosts}
    yield from hurried(requests, lambda request: request.host, halts)
    yield from hurried(requests, lambda request: addresses[request.host], halts)


def _round(trial: Trial, for_s: float, halts: list[Halt]) -> int:
    """Stop one and the leader, until a third has made a plan; the token of the leader that was stopped."""
    first, leader = _halted(trial)
    began = time.monotonic()
    token = int(trial.said(leader, "leads a round")[-1]["token"])
    (third,) = set(NAMES) - {first, leader}
    made = len(trial.said(third, "published a plan"))
    trial.until(lambda: len(trial.said(third, "published a plan")) > made, "a plan of the third")
    trial.until(lambda: time.monotonic() > began + for_s, "the leases to end")
    for name in (first, leader):
        halts.append(Halt(name, time.time()))
        trial.go_on(name)
    return token


def _halted(trial: Trial) -> tuple[str, str]:
    """Stop one, and whoever leads a round then and waits for its report.

    Who has led just now is stopped first: it is the last in line for the next wish.
    """
    for _ in range(_TRIES):
        _until_calm(trial)
        first = trial.leading()
        _until_calm(trial)
        trial.halt(first)
        try:
            leader = trial.leading(timeout_s=_HANDED_S)
        except TimeoutError:  # the wish was handed to the one that stands still
            trial.go_on(first)
            continue
        trial.halt(leader)
        return first, leader
    raise Failed("nobody but the one that stood still has led")


def _until_calm(trial: Trial) -> None:
    trial.until(lambda: _is_calm(trial.group), "all ranges to be held, and no plan to be wanted")


def _is_calm(group: Gatherers) -> bool:
    """Whether nobody wants a new plan or makes one, and all follow the last one and hold all ranges.

    Asked in this order: pulses are as old as the last heartbeats, and may not know of a plan yet.
    """
    wishes = group.ask(lambda board: board.space.count("rebalance", str, str, str))
    if wishes or group.ask(lambda board: board.space.statistics()).leased:
        return False
    epoch, _ = group.ask(lambda board: board.now())[boards.CHARTER]
    pulses = [member.pulse for member in group.members().values()]
    return all(pulse.epoch == epoch and not (pulse.leaving or pulse.coming) for pulse in pulses)


def hurried(
    requests: Sequence[Request], place: Callable[[Request], str], halts: Sequence[Halt]
) -> Iterator[str]:
    """Requests at one place that came sooner after another than they may.

    One of each gatherer that stood still is excused at each place, the first after that: it may have been
    about to be sent.
    """
    late = {id(request) for halt in halts for request in _first_after(requests, place, halt)}
    last: dict[str, Request] = {}
    for request in requests:
        at = place(request)
        before, last[at] = last.get(at), request
        if before is None or request.start - before.start >= DELAY_S - TOLERANCE_S:
            continue
        if id(request) not in late and id(before) not in late:
            yield (
                f"{at} was asked by {request.agent} {request.start - before.start:.3f} s after {before.agent}"
            )


def _first_after(
    requests: Sequence[Request], place: Callable[[Request], str], halt: Halt
) -> Iterator[Request]:
    seen: set[str] = set()
    for request in requests:
        if request.agent == halt.name and request.start >= halt.ended and place(request) not in seen:
            seen.add(place(request))
            yield request


def be_thought_lost(
    pages: int, hosts: int, rng: random.Random, progress: Progress, *, forget_after_s: float
) -> str:
    """Stop one for so long that it is thought lost; gives the verdict or raises Failed."""
    settings = [*SETTINGS, f"member.forget_after={forget_after_s:.1f}s"]
    with (
        tempfile.TemporaryDirectory() as place,
        server(Path(place, "web"), rng.randrange(1000), hosts=hosts, pages=pages, latency_ms=20) as served,
        redis_server("redis") as redis,
        gatherers(redis, served, Path(place, "gatherers"), settings) as group,
    ):
        trial = Trial(group, served, progress)
        trial.begin(*NAMES)
        group.until(lambda members: members.keys() == set(NAMES), "three members")
        name = rng.choice(NAMES)
        trial.at(0.4, f"{name} stands still, and is thought lost", lambda: _outlast(trial, name))
        trial.end()
        return f"one stood still, was thought lost, and went on; {trial.verdict()}"


def _outlast(trial: Trial, name: str) -> None:
    halted_at = time.time()
    trial.halt(name)
    trial.until_missed([name])
    trial.excuse_loss([name], halted_at)
    trial.go_on(name)
