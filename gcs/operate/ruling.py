"""`gcs pause`, `gcs resume`, `gcs block` and `gcs unblock`: rulings that all gatherers follow."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Callable
from typing import Final

import trio

from gcs.board import Board
from gcs.config import Config
from gcs.core.rulings import ALL, FOR_GOOD, Rulings
from gcs.errors import ExitCode, UsageError
from gcs.operate.asking import Answer, find
from gcs.operate.facts import RuledFacts
from gcs.operate.looking import Looker, View
from gcs.operate.parts import host_prefix, named, prefix_of
from gcs.settings import duration

CRAWL, GATHERER, HOST = "crawl", "gatherer", "host"
LONGEST_DELAY_S: Final = 86_400.0
_WITHIN_S: Final = 10.0
_POLL_S: Final = 0.2
_CLOCKS_DIFFER_S: Final = 86_400.0


def operator() -> str:
    """Who sits at this machine, for those who see what was ruled."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # an account without a name
        return socket.gethostname()


async def pause(board: Board, config: Config, *, what: str, name: str, by: str = "") -> Answer:
    """Let the crawl, a gatherer or a host wait until it is resumed; `by` is who wants that."""
    if what == HOST:
        prefix = host_prefix(name)
        return await rule(
            board, config, f"{name} is paused", lambda now, epoch: now.rest(prefix, FOR_GOOD, epoch)
        )
    who, shown = await who_is(board, config, what, name)
    at = time.time()
    return await rule(
        board, config, f"{shown} is paused", lambda now, epoch: now.pause(who, epoch, by=by, at=at)
    )


async def resume(board: Board, config: Config, *, what: str, name: str) -> Answer:
    """Let it go on; raises UsageError for what is not paused."""
    prefix = host_prefix(name) if what == HOST else ""
    who, shown = (ALL, name) if what == HOST else await who_is(board, config, what, name)

    def change(now: Rulings, epoch: int) -> Rulings:
        if what == HOST:
            if prefix not in now.in_force(time.time()).resting:
                raise UsageError(f"{name} is not paused.")
            return now.lift(prefix, epoch)
        if what == GATHERER and ALL in now.paused:
            raise UsageError("the whole crawl is paused; `gcs resume` lets all gatherers go on.")
        if (who not in now.paused) if what == GATHERER else not now.paused:
            raise UsageError(f"{shown} is not paused.")
        return now.resume(who, epoch)

    return await rule(board, config, f"{shown} goes on", change)


async def delay(board: Board, config: Config, *, host: str, delay_s: float | None) -> Answer:
    """Ask a host less often than is configured, or as often as that again; raises UsageError."""
    prefix = host_prefix(host)
    if delay_s is None:

        def change(now: Rulings, epoch: int) -> Rulings:
            if prefix not in now.delays:
                raise UsageError(f"no delay is set for {host}.")
            return now.delay(prefix, None, epoch)

        return await rule(board, config, f"{host} is asked as often as is configured", change)
    least_s = config.fetch.delay_s
    if not least_s < delay_s <= LONGEST_DELAY_S:
        longest = duration(LONGEST_DELAY_S)
        raise UsageError(
            f"the delay of a host is more than fetch.delay, {duration(least_s)}, up to {longest}."
        )
    done = f"{host} is asked at most every {duration(delay_s)}"
    return await rule(board, config, done, lambda now, epoch: now.delay(prefix, delay_s, epoch))


async def block(board: Board, config: Config, *, text: str, for_s: float | None) -> Answer:
    """Fetch nothing of a host or below a URL: for some time, in which URLs wait, or for good."""
    prefix = prefix_of(text)
    if for_s is None:
        return await rule(
            board, config, f"{named(prefix)} is blocked", lambda now, epoch: now.bar(prefix, epoch)
        )
    at = time.time()
    until = at + for_s
    done = f"{named(prefix)} is blocked until {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(until))}"
    return await rule(
        board,
        config,
        done,
        # What ended long ago, by anybody's clock, need not be remembered.
        lambda now, epoch: now.in_force(at - _CLOCKS_DIFFER_S).rest(prefix, until, epoch),
    )


async def unblock(board: Board, config: Config, *, text: str) -> Answer:
    """Fetch it again; raises UsageError for what is not blocked."""
    prefix = prefix_of(text)

    def change(now: Rulings, epoch: int) -> Rulings:
        parts = {*now.barred, *now.in_force(time.time()).resting}
        if prefix not in parts:
            blocked = ", ".join(sorted(map(named, parts)))
            raise UsageError(f"{named(prefix)} is not blocked; what is: {blocked or 'nothing'}.")
        return now.lift(prefix, epoch)

    return await rule(board, config, f"{named(prefix)} is fetched again", change)


async def who_is(board: Board, config: Config, what: str, name: str) -> tuple[str, str]:
    """Whom a ruling is about, as rulings and as people call it."""
    if what == CRAWL:
        return ALL, f"crawl {config.crawl.name}"
    view = await Looker(board, config).look()
    found = view.name(find(view, name))
    return found, f"gatherer {found}"


async def rule(
    board: Board,
    config: Config,
    done: str,
    change: Callable[[Rulings, int], Rulings],
    *,
    remarks: Callable[[View], list[str]] = lambda _: [],
) -> Answer:
    """Change the rulings, and wait until all that are there follow them; `remarks` says what came of that."""
    looker = Looker(board, config)
    await looker.look()
    rulings = await board.rule(change)
    view = await looker.look_twice()
    with trio.move_on_after(_WITHIN_S):
        while _late(view, rulings.epoch):
            await trio.sleep(_POLL_S)
            view = await looker.look()
    late = _late(view, rulings.epoch)
    silent = [each.pulse.name for each in view.absent]
    noted = remarks(view)
    facts: RuledFacts = {
        "ruling": done,
        "epoch": rulings.epoch,
        "late": late,
        "silent": silent,
        "remarks": noted,
    }
    if not view.present:
        return Answer(facts, [f"{done}. No gatherer is there; those that come will follow."])
    if late:
        names = ", ".join(late)
        sentence = f"{done}, but not yet at {names}, which does not answer."
        return Answer(facts, [sentence, *noted], ExitCode.REDIS)
    return Answer(facts, [f"{done}, at all gatherers that are there.", *noted, *_silent(silent)])


def _late(view: View, epoch: int) -> list[str]:
    return [each.pulse.name for each in view.present if each.pulse.rulings < epoch]


def _silent(names: list[str]) -> list[str]:
    return [f"{name} is silent, and will follow when it is back." for name in names]
