"""`gcs profile`: saved queries, where their matches go, and how that goes."""

from __future__ import annotations

import time

from gcs.board import Board
from gcs.config import Config
from gcs.errors import UsageError
from gcs.index.results import understood
from gcs.operate.asking import Answer, counted, table
from gcs.operate.facts import ProfileFacts
from gcs.profiles.book import Book
from gcs.profiles.records import NAME, Profile, State
from gcs.profiles.targets import refusal
from gcs.settings import duration
from gcs.summary.records import instant


def _book(board: Board, config: Config) -> Book:
    return Book(board.client, config)


async def _known(book: Book, name: str) -> Profile:
    profile = await book.profile(name)
    if profile is None:
        names = ", ".join(await book.profiles())
        raise UsageError(f"no profile is named {name}; there are: {names or 'none'}.")
    return profile


async def add(board: Board, config: Config, *, name: str, query: str, kind: str, target: str) -> Answer:
    """Save a query, and say where its matches go; raises UsageError."""
    understood(query)
    if NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name} is no name for a profile: at most 64 letters, digits, dots, dashes and underscores."
        )
    if wrong := refusal(kind, target):
        raise UsageError(wrong)
    book = _book(board, config)
    is_new = await book.profile(name) is None
    await book.add(Profile(name=name, query=query, kind=kind, target=target, added=time.time()))
    if not is_new:  # it may go elsewhere now
        await book.set_state(name, (await book.state(name)).afresh())
    said = "is matched from now on" if is_new else "is another one from now on"
    return Answer({"profile": name, "is_new": is_new}, [f"{name} {said}."])


async def remove(board: Board, config: Config, *, name: str) -> Answer:
    """Let a profile go, with what waits for it; raises UsageError."""
    book = _book(board, config)
    await _known(book, name)
    await book.remove(name)
    return Answer({"removed": name}, [f"{name} is not matched any more."])


async def retry(board: Board, config: Config, *, name: str) -> Answer:
    """Let deliveries be tried again at once, also those that were set aside; raises UsageError."""
    book = _book(board, config)
    await _known(book, name)
    state = await book.state(name)
    await book.set_state(name, state.afresh())
    waiting = await book.waiting(name)
    return Answer(
        {"profile": name, "waiting": waiting}, [f"{counted(waiting, 'match', 'matches')} tried again."]
    )


async def show(board: Board, config: Config, *, name: str) -> Answer:
    """All about one profile; raises UsageError."""
    book = _book(board, config)
    facts = await _facts(book, await _known(book, name))
    lines = [
        f"{key.replace('_', ' ') + ':':<15} {'-' if value in (None, '') else value}"
        for key, value in facts.items()
    ]
    return Answer(facts, lines)


async def listed(board: Board, config: Config) -> Answer:
    """All profiles, and how their deliveries go."""
    book = _book(board, config)
    every = [await _facts(book, profile) for profile in (await book.profiles()).values()]
    rows = [
        [each["profile"], each["to"], each["delivered"], each["waiting"], each["state"], each["query"]]
        for each in every
    ]
    head = ["profile", "to", "delivered", "waiting", "state", "query"]
    return Answer({"profiles": every}, table(head, rows) if rows else ["There are no profiles."])


async def _facts(book: Book, profile: Profile) -> ProfileFacts:
    state, waiting = await book.state(profile.name), await book.waiting(profile.name)
    return {
        "profile": profile.name,
        "query": profile.query,
        "to": profile.kind,
        "target": profile.target,
        "added": _moment(profile.added),
        "state": _standing(state, waiting),
        "delivered": state.delivered,
        "waiting": waiting,
        "left_out": state.left_out,
        "last_delivered": _moment(state.last),
        "failures": state.failures,
        "why": state.why,
    }


def _moment(at: float) -> str | None:
    return instant(at).isoformat(timespec="seconds") if at else None


def _standing(state: State, waiting: int) -> str:
    if state.aside:
        return "set aside"
    if state.failures:
        rest_s = max(0.0, state.not_before - time.time())
        return (
            f"failing, tried again in {duration(round(rest_s))}"
            if rest_s >= 1
            else "failing, tried again now"
        )
    return "delivering" if waiting else "well"
