"""Saved queries: that many are matched as each by itself would be, and that matches reach their receivers."""

from __future__ import annotations

import json
import random
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from email import message_from_bytes
from email.policy import default
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from gcs import config
from gcs.board import Board
from gcs.config import Config
from gcs.core import profiles as core_profiles
from gcs.core.profiles import Profiles
from gcs.core.query import BadQuery, Query, parse
from gcs.core.words import Words
from gcs.fetch.client import unguarded
from gcs.fetch.transport import Transport
from gcs.index.feed import journalled
from gcs.index.records import Position
from gcs.native import is_compiled
from gcs.operate import profiles as operate
from gcs.profiles import book as books
from gcs.profiles.book import Book
from gcs.profiles.courier import Courier, failed
from gcs.profiles.records import Match, Profile, State
from gcs.profiles.targets import Targets, add_to_feed, append_line, refusal
from gcs.profiles.worker import Matching
from gcs.store.records import SUMMARIES
from gcs.store.segments import covered
from tests.receivers import hook, mail_server
from tests.searching import entry, keep, opened
from tests.soak.profiles import deliver_through_disasters
from tests.soak.progress import Progress
from tests.test_index import LANGUAGES, QUERIES, TEXTS
from tuplespace import memory

T = TypeVar("T")


@given(
    texts=st.lists(QUERIES, min_size=1, max_size=12),
    pages=st.lists(st.tuples(LANGUAGES, TEXTS, TEXTS), min_size=1, max_size=12),
    enough=st.sampled_from([1, 3, 500]),
    in_c=st.sampled_from([is_compiled, False]),
)
def test_profiles_match_as_each_query_by_itself(
    texts: list[str], pages: list[tuple[str, str, str]], enough: int, *, in_c: bool
) -> None:
    """Whichever signs they are looked up by, those profiles match whose queries hold of a page."""
    words, queries = Words(), dict[str, Query]()
    for number, text in enumerate(texts):
        try:
            queries[str(number)] = parse(text)
        except BadQuery:
            continue
    many = Profiles(queries, words, key=bytes(16), sampled=1, enough=enough)
    for number, (language, title, text) in enumerate(pages):
        page = entry(f"http://h{number % 3}.example/p{number}", language, title, text)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(core_profiles, "is_compiled", in_c)
            found = many.matches(page.paper(words))
        assert found == [name for name, query in queries.items() if query.holds(page.paper(words))]


PROFILE = Profile(name="trains", query="railway", kind="webhook", target="http://127.0.0.1/", added=1.0)


def _match(number: int, gatherer: str = "g1", title: str = "A title") -> Match:
    return Match(
        gatherer=gatherer,
        number=number,
        url=f"http://a.example/{number}",
        title=title,
        text="Text <of> & it\x07",
        language="en",
        media_type="text/html",
        fetched_us=1_700_000_000_000_000 + number,
    )


@asynccontextmanager
async def _booked(*profiles: Profile) -> AsyncIterator[Book]:
    async with memory.connect(memory.Server()) as client:
        book = Book(client, Config())
        for each in profiles:
            await book.add(each)
        yield book


async def _settled(courier: Courier, book: Book) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(courier.run)
        while await book.bells():  # noqa: ASYNC110 - as another process would look
            await trio.sleep(0.1)
        nursery.cancel_scope.cancel()


def test_matches_are_delivered_in_order_and_once() -> None:
    """What a gatherer has put up again after a crash is not delivered again; its order is kept."""
    got: list[tuple[str, int]] = []

    async def deliver(_: Profile, match: Match) -> str | None:
        got.append((match.gatherer, match.number))
        await trio.sleep(0.1)
        return None

    async def delivered() -> State:
        async with _booked(PROFILE) as book:
            await book.found([("trains", _match(n)) for n in (1, 2)])
            await book.found([("trains", _match(n)) for n in (2, 3)])
            await book.found([("trains", _match(1, "g2"))])
            await _settled(Courier(book, deliver, 60), book)
            await book.found([("trains", _match(n)) for n in (3, 4)])
            await _settled(Courier(book, deliver, 60), book)
            assert await book.waiting("trains") == 0
            return await book.state("trains")

    state = _run(delivered)
    assert got == [("g1", 1), ("g1", 2), ("g1", 3), ("g2", 1), ("g1", 4)]
    assert (state.delivered, state.failures) == (5, 0)


def _run(work: Callable[[], Awaitable[T]]) -> T:
    return trio.run(work, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_receiver_that_is_down_is_retried_and_set_aside() -> None:
    """What fails is tried again after longer and longer rests; after too long it is set aside, until told."""
    tried: list[float] = []
    is_up = False

    async def deliver(_: Profile, match: Match) -> str | None:
        tried.append(trio.current_time())
        return None if is_up else "it answered 503"

    async def delivered() -> tuple[State, State]:
        nonlocal is_up
        async with _booked(PROFILE, replace(PROFILE, name="other")) as book:
            courier = Courier(book, deliver, 60, now=lambda: 1e9 + trio.current_time())
            await book.found([("trains", _match(n)) for n in (1, 2)])
            async with trio.open_nursery() as nursery:
                nursery.start_soon(courier.run)
                while not (down := await book.state("trains")).aside:  # noqa: ASYNC110 - as others look
                    await trio.sleep(0.5)
                count = len(tried)
                await trio.sleep(1000)
                assert len(tried) == count
                is_up = True
                await book.found([("other", _match(7))])
                while not (await book.state("other")).delivered:  # noqa: ASYNC110 - as others look
                    await trio.sleep(0.5)
                assert await book.waiting("trains") == 2
                await book.set_state("trains", replace(down, aside=False, not_before=0.0))
                while await book.waiting("trains"):  # noqa: ASYNC110 - the same
                    await trio.sleep(0.5)
                nursery.cancel_scope.cancel()
            return down, await book.state("trains")

    down, up = _run(delivered)
    assert (down.failures, down.why) == (7, "it answered 503")
    rests = [after - before for before, after in pairwise(tried[:7])]
    assert rests == sorted(rests)
    assert (up.delivered, up.failures, up.aside) == (2, 0, False)


def test_what_is_known_of_deliveries_is_not_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a look at all takes, what fails or comes meanwhile is tried no sooner, and counted."""
    tried: list[float] = []
    usual = Book.states

    async def slow(book: Book) -> dict[str, State]:
        found = await usual(book)
        await trio.sleep(0.3)
        return found

    async def deliver(_: Profile, match: Match) -> str | None:
        tried.append(trio.current_time())
        await trio.sleep(2.8)  # until there is another look
        return None if len(tried) > 5 else "it answered 503"

    async def delivered() -> State:
        async with _booked(PROFILE) as book:
            await book.found([("trains", _match(n)) for n in range(3)])
            await _settled(Courier(book, deliver, 1000, now=lambda: 1e9 + trio.current_time()), book)
            return await book.state("trains")

    monkeypatch.setattr(Book, "states", slow)
    state = _run(delivered)
    assert state.delivered == 3
    rests = [after - before for before, after in pairwise(tried[:6])]
    assert all(rest >= 2.8 + 2**number for number, rest in enumerate(rests))


def test_a_profile_that_is_to_be_tried_again_during_a_delivery() -> None:
    """Who says that deliveries are to be tried again is heard, even if one is under way that fails then."""
    patience_s = 60.0

    async def deliver(_: Profile, match: Match) -> str | None:
        await trio.sleep(30)
        return "it does not answer"

    async def retried() -> State:
        async with _booked(PROFILE) as book:
            await book.found([("trains", _match(1))])
            now = 1e9 + trio.current_time()
            long = State(failures=5, failing_since=now - patience_s, left_out=3, delivered=7)
            await book.set_state("trains", long)
            async with trio.open_nursery() as nursery:
                courier = Courier(book, deliver, patience_s, now=lambda: 1e9 + trio.current_time())
                nursery.start_soon(courier.run)
                await trio.sleep(15)
                await book.set_state("trains", (await book.state("trains")).afresh())
                await trio.sleep(16)
                nursery.cancel_scope.cancel()
            return await book.state("trains")

    state = _run(retried)
    assert (state.failures, state.aside, state.delivered, state.left_out) == (1, False, 7, 3)


@given(st.integers(0, 200), st.floats(1, 1e6))
def test_rests_grow_to_a_bound(failures: int, patience_s: float) -> None:
    """However often a delivery has failed, the next try is not later than five minutes on."""
    state = failed(State(failures=failures, failing_since=5.0), "why", 10.0, patience_s)
    assert 10 < state.not_before <= 310
    assert state.aside == (patience_s <= 5)


def test_too_many_matches_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that is away for long fills nothing without bound: what has no place is counted."""
    monkeypatch.setattr(books, "MOST_WAITING", 5)

    async def found() -> tuple[int, State]:
        async with _booked(PROFILE) as book:
            for at in (0, 3, 6):
                await book.found([("trains", _match(at + n)) for n in range(3)])
            waiting = await book.waiting("trains")
            state = await book.state("trains")
            assert await book.remove("trains")
            assert not await book.remove("trains")
            assert not await book.bells()
            return waiting, state

    waiting, state = _run(found)
    assert (waiting, state.left_out) == (5, 4)


def test_every_kind_of_target(tmp_path: Path) -> None:
    """Web hook, lines, feed and mail get all that is said of a page, with the id of the delivery."""

    async def delivered(receiver: str, server: str) -> list[str | None]:
        settings = config.Profiles(smtp=server, sender="gcs@tests.example")
        async with Transport(unguarded(config.Fetch())) as transport:
            targets = Targets(settings, transport)
            said: list[str | None] = []
            for kind, target in (
                ("webhook", receiver),
                ("jsonl", f"{tmp_path}/a/lines.jsonl"),
                ("atom", f"{tmp_path}/a/feed.xml"),
                ("email", "reader@tests.example"),
            ):
                profile = replace(PROFILE, kind=kind, target=target)
                assert not refusal(kind, target)
                matches = [_match(number, title="Línea 1\nzwei") for number in (1, 2, 2)]
                said += [await targets.deliver(profile, each) for each in matches]
            (tmp_path / "a" / "feed.xml").write_text("no feed")
            said.append(
                await targets.deliver(
                    replace(PROFILE, kind="atom", target=f"{tmp_path}/a/feed.xml"), _match(3)
                )
            )
            return said

    with hook() as receiver, mail_server() as server:
        feed = tmp_path / "a" / "feed.xml"
        said = trio.run(delivered, receiver.url, server.url)
        letters = [message_from_bytes(each, policy=default) for each in server.letters]
    assert said[:-1] == [None] * 12
    assert "ParseError" in str(said[-1])
    assert feed.read_text() == "no feed"
    assert receiver.ids == ["trains-g1-1", "trains-g1-2"]
    assert receiver.got[0]["url"] == "http://a.example/1"
    lines = [json.loads(line) for line in (tmp_path / "a" / "lines.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == receiver.ids
    assert letters[0]["Subject"] == "[trains] Línea 1 zwei"
    assert [each["Gcs-Delivery"] for each in letters] == ["trains-g1-1", "trains-g1-2", "trains-g1-2"]


def test_a_feed_is_valid_and_has_each_match_once(tmp_path: Path) -> None:
    """A feed has its newest matches first, each once, and nothing that XML cannot say."""
    profile = replace(PROFILE, kind="atom", target=str(tmp_path / "feed.xml"))
    for number in (1, 2, 1):
        add_to_feed(profile, _match(number))
    root = ET.parse(tmp_path / "feed.xml").getroot()  # noqa: S314 - our own file
    atom = "{http://www.w3.org/2005/Atom}"
    ids = [each.findtext(f"{atom}id") for each in root.findall(f"{atom}entry")]
    assert ids == ["urn:gcs:trains-g1-2", "urn:gcs:trains-g1-1"]
    assert root.find(f"{atom}entry/{atom}summary").text == "Text <of> & it "  # type: ignore[union-attr] # it is there


def test_a_line_that_was_cut_is_left_behind(tmp_path: Path) -> None:
    """Who was killed within a line leaves a line that is none, and the match comes again as a whole."""
    profile = replace(PROFILE, kind="jsonl", target=str(tmp_path / "lines"))
    append_line(profile, _match(1))
    whole = (tmp_path / "lines").read_bytes()
    (tmp_path / "lines").write_bytes(whole + whole[:30])
    append_line(profile, _match(2))
    lines = (tmp_path / "lines").read_text().splitlines()
    assert [json.loads(lines[at])["id"] for at in (0, 2)] == ["trains-g1-1", "trains-g1-2"]


def test_pages_from_before_a_profile_are_passed_over(tmp_path: Path) -> None:
    """Only pages that were fetched since a profile was added are matched; all keep their numbers."""
    new_us = 2_000_000_000_000_000
    with opened(tmp_path / "s", segment_rows=100) as store:
        for at_us in (1, 2, new_us):
            keep(
                store,
                [entry(f"http://a.example/{at_us}/{n}", "en", "t", "railway", at_us=at_us) for n in range(5)],
            )
            store.flush_segments(everything=True)
        keep(store, [entry("http://a.example/last", "en", "t", "railways", at_us=new_us)])
        matching = Matching(store.directory)
        matching.answer("profiles", [("early", "railway", 0.0), ("late", "railway", 1_900_000_000.0)])
        numbers: dict[str, list[int]] = {"early": [], "late": []}
        while matching.at().entry < store.journal(SUMMARIES).tail:
            packed = journalled(store, matching.at().entry)
            head = store.journal(SUMMARIES).head
            asked = ("files", head) if packed is None else ("rows", matching.at().entry, packed)
            for number, names, _ in matching.answer(*asked)[1]:
                for name in names:
                    numbers[name].append(number)
        assert numbers == {"early": list(range(16)), "late": list(range(10, 16))}
        passing = Matching(store.directory)
        passing.answer("profiles", [("late", "railway", 1_900_000_000.0)])
        assert passing.answer("files", 0) == (Position(covered(store.segments(SUMMARIES)[0]).tail, 5), [])


def test_a_profile_that_is_another_one_is_tried_at_once() -> None:
    """Who names another target for a profile that was set aside need not say that it is to be tried again."""

    async def replaced() -> tuple[State, State]:
        async with memory.connect(memory.Server()) as client:
            board, said = Board(client, Config()), {"name": "trains", "query": "railway", "kind": "webhook"}
            book = Book(client, Config())
            await operate.add(board, Config(), **said, target="http://a.example/")
            await book.set_state("trains", State(delivered=3, failures=9, why="it is down", aside=True))
            before = await book.state("trains")
            await operate.add(board, Config(), **said, target="http://b.example/")
            return before, await book.state("trains")

    before, after = _run(replaced)
    assert before.aside
    assert after == State(delivered=3)


async def test_a_server_for_mail_that_cannot_be_is_a_failure_like_others() -> None:
    """A server for mail whose port is no number is told of, and nothing else fails."""
    profile = replace(PROFILE, kind="email", target="reader@b.example")
    settings = config.Profiles(smtp="smtp://127.0.0.1:port", sender="gcs@a.example")
    async with Transport(unguarded(Config().fetch)) as transport:
        assert "ValueError" in (await Targets(settings, transport).deliver(profile, _match(1)) or "")


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("webhook", "ftp://x/"),
        ("webhook", "x"),
        ("webhook", "http://[::1"),
        ("webhook", "http://a.example:port/"),
        ("webhook", "http://name:word@a.example/"),
        ("email", "nobody"),
        ("jsonl", "here.jsonl"),
        ("atom", ""),
        ("atom", "/"),
    ],
)
def test_targets_that_cannot_be(kind: str, target: str) -> None:
    """What could never be delivered to is refused at once."""
    assert refusal(kind, target)


def test_deliveries_through_disasters(progress: Progress) -> None:
    """Each match is delivered, though the receiver fails at random and gatherers are killed."""
    assert "refused" in deliver_through_disasters(90, 3, random.Random(4), progress, failing=0.15)
