"""`gcs seed`, `gcs forget`, `gcs retry` and `gcs drain`: work for gatherers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

import trio

from gcs.board import Board, Member
from gcs.config import Config
from gcs.errors import ExitCode, UsageError
from gcs.gatherer.seeds import seed_url, targets_of
from gcs.operate.asking import Answer, Answers, Tell, counted, find, order, require_living
from gcs.operate.facts import DrainFacts, SeededFacts, SeedsFacts
from gcs.operate.looking import Looker, View, fact
from gcs.operate.parts import host_prefix, named, prefix_of

_POLL_S: Final = 0.5
_STATUS: Final = re.compile(r"([1-9])xx|(-?[0-9]{1,5})", re.IGNORECASE)


async def seed(board: Board, config: Config, *, urls: Sequence[str]) -> Answer:
    """Give the crawl more URLs to begin with; raises UsageError for one that cannot be crawled."""
    targets = targets_of(config)
    chosen = list(dict.fromkeys(seed_url(targets, each) for each in urls))
    if not chosen:
        raise UsageError("give at least one URL, or a file of them with -f.")
    count = await board.seed(chosen)
    facts: SeededFacts = {"seeds": count}
    return Answer(facts, [f"{counted(count, 'seed')} given to crawl {config.crawl.name}."])


async def seeds(board: Board, _: Config) -> Answer:
    """The seeds that no gatherer has taken yet."""
    waiting, taken = await board.waiting_seeds()
    facts: SeedsFacts = {"waiting": waiting, "being_taken": taken}
    lines = list(waiting)
    if taken:
        lines.append(f"{counted(taken, 'bundle')} of more seeds {'is' if taken == 1 else 'are'} being taken.")
    return Answer(facts, lines or ["No seed waits; `gcs seed add` gives the crawl more."])


async def forget(board: Board, config: Config, *, text: str, within_s: float) -> Answer:
    """Let all gatherers forget a host, or a URL and what is below."""
    prefix = prefix_of(text)
    view = await _there(board, config)
    answers = await order(board, view, "forget", {"prefix": prefix}, within_s=within_s)
    return _summed(view, answers, "forgotten", f"of {named(prefix)} forgotten, passed on or not")


async def retry(board: Board, config: Config, *, status: str, host: str, within_s: float) -> Answer:
    """Let all gatherers queue again what was answered with some status."""
    low, high = statuses(status)
    arguments = {"low": low, "high": high, "prefix": host_prefix(host) if host else ""}
    view = await _there(board, config)
    answers = await order(board, view, "retry", arguments, within_s=within_s)
    return _summed(view, answers, "queued", f"with status {status} queued again")


def statuses(text: str) -> tuple[int, int]:
    """The lowest and highest status of `404` or `5xx`; raises UsageError."""
    match = _STATUS.fullmatch(text)
    if match is None:
        raise UsageError(f"{text} is no status such as 404, 5xx or -5001.")
    if match[1]:
        return int(match[1]) * 100, int(match[1]) * 100 + 99
    return int(match[2]), int(match[2])


async def _there(board: Board, config: Config) -> View:
    view = await Looker(board, config).look_twice()
    require_living(view)
    return view


def _summed(view: View, answers: Answers, count: str, done: str) -> Answer:
    by_gatherer = {view.name(each): answer[count] for each, answer in answers.given.items()}
    total = sum(by_gatherer.values())
    facts = {count: total, "gatherers": by_gatherer, **answers.facts}
    return Answer(facts, [f"{counted(total, 'URL')} {done}.", *answers.complaints], answers.code)


def _kept(member: Member) -> int:
    """URLs that a gatherer still has."""
    return sum(int(fact(member, state)) for state in ("queued", "done", "dropped"))


def takers(view: View, gatherer: str) -> list[Member]:
    """Who is there and could take what a gatherer has: those that are leaving themselves cannot."""
    return [each for each in view.present if each.id != gatherer and each.pulse.standing != "draining"]


async def drain(
    board: Board, config: Config, *, name: str, wait: bool, within_s: float | None, tell: Tell
) -> Answer:
    """Let a gatherer give everything to others, and leave; waits for that, no longer than `within_s`."""
    looker = Looker(board, config)
    view = await looker.look_twice()
    gatherer = find(view, name)
    shown = view.name(gatherer)
    answers = await order(board, view, "drain", {}, to=[gatherer])
    if answers.complaints:
        return Answer({"drained": shown, **answers.facts}, answers.complaints, answers.code)
    staying: DrainFacts = {"drained": shown, "left": False}
    if not takers(view, gatherer):
        sentence = f"no other gatherer that is there stays: {shown} leaves when another one has come."
        return Answer(staying, [sentence])
    if not wait:
        sentence = f"{shown} gives its part of the web to others, and leaves then."
        return Answer(staying, [sentence])
    rest = ""
    with trio.move_on_after(math.inf if within_s is None else within_s):
        while gatherer in view.living:
            rest = counted(_kept(view.members[gatherer]), "URL")
            tell(f"{shown} has {rest} to give away")
            await trio.sleep(_POLL_S)
            view = await looker.look()
    left = gatherer not in view.members or view.members[gatherer].pulse.standing == "left"
    if left:
        gone: DrainFacts = {"drained": shown, "left": True}
        return Answer(gone, [f"{shown} has left."])
    if gatherer in view.living:
        sentence = f"{shown} has {rest} to give away still, and goes on with that; `gcs nodes` shows it."
        return Answer(staying, [sentence], ExitCode.REDIS)
    sentence = f"{shown} is silent; when it is started again it goes on with leaving."
    return Answer(staying, [sentence], ExitCode.REDIS)
