"""Operators' commands: what they make of what gatherers say, and the commands themselves on a real crawl."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
import trio
from click.testing import CliRunner

import cli
from gcs.board import Board, Member, Pulse, Wish
from gcs.config import Config
from gcs.core.holdings import Charter
from gcs.core.placement import Plan
from gcs.core.rulings import ALL, FOR_GOOD, Rulings
from gcs.core.urls import canonical, key, part
from gcs.errors import ConfigError, ExitCode, UsageError
from gcs.gatherer.orders import Orders
from gcs.leader.leader import _reason
from gcs.operate import asking, ruling
from gcs.operate.asking import Answers, find, table
from gcs.operate.condition import State, condition
from gcs.operate.ledger import Verdict, add_up, judge
from gcs.operate.looking import Looker, View
from gcs.operate.parts import host_prefix, named, prefix_of
from gcs.operate.status import queues_of
from gcs.operate.work import statuses, takers
from tests import servers
from tests.crawling import gcs, server
from tests.gatherers import gatherers
from tuplespace import memory


def member(name: str, *, at: float = 100.0, epoch: int = 7, **said: Any) -> Member:
    """A gatherer whose id is its name in small letters, and some of what it says."""
    names = ("queued", "under_way", "pages", "returns", "next_visit_at")
    facts: dict[str, Any] = {each: said.pop(each) for each in names if each in said}
    pulse = Pulse(name, "x", epoch=epoch, standing=said.pop("standing", "crawling"), facts=facts, **said)
    return Member(name.lower(), 1, pulse, at)


def view(*members: Member, silent: str = "", **seen: Any) -> View:
    """A crawl with these gatherers; those named in `silent` are not heard of."""
    ids = [each.id for each in members]
    charter = Charter(7, Plan.of([("", "a")]), Plan.of([("", "a")]), {each: each.upper() for each in ids})
    seen = {"charter": charter, "at": 140.0, **seen}
    living = frozenset(each for each in ids if each not in silent)
    return View(members={each.id: each for each in members}, living=living, **seen)


def how(seen: View) -> tuple[State, str]:
    """The condition of a crawl."""
    found = condition(seen, forget_after_s=600.0)
    return found.state, found.why


class TestCondition:
    """The one sentence that says how a crawl is."""

    def test_crawling(self) -> None:
        """With something under way it is crawling, and the sentence says how much is queued."""
        seen = view(member("A", queued=5000, under_way=3), member("B", queued=312))
        assert how(seen) == (State.CRAWLING, "5,312 queued")

    def test_finished(self) -> None:
        """The end counts only while no seed waits, and also when all gatherers have gone."""
        assert how(view(member("A"), finished=True))[0] is State.FINISHED
        assert how(view(finished=True))[0] is State.FINISHED
        assert how(view(member("A"), finished=True, seeds_wait=True)) == (
            State.WAITING,
            "seeds wait to be taken",
        )

    def test_caught_up(self) -> None:
        """With a policy of visits the end is only that nothing is due, until something is."""
        waiting = partial(member, quiet=True, returns=True)
        seen = view(
            waiting("A", next_visit_at=86_400.0), waiting("B", next_visit_at=3_600.5), finished=True, at=140.0
        )
        assert str(condition(seen, forget_after_s=600.0)) == (
            "caught up, next page due at 1970-01-01 01:00:00 UTC"
        )
        assert how(view(waiting("A", next_visit_at=None), finished=True)) == (
            State.CAUGHT_UP,
            "no page is to be visited again",
        )
        due = partial(member, returns=True, next_visit_at=139.0)
        assert how(view(due("A", under_way=1), waiting("B", next_visit_at=3_600.0), finished=True)) == (
            State.CRAWLING,
            "0 queued, and pages due again",
        )
        state, why = how(view(due("A")))
        assert (state, why.partition(":")[0]) == (
            State.WAITING,
            "0 queued, and pages due again, and no host may be asked now",
        )
        assert how(view(waiting("A", next_visit_at=3_600.0), silent="a", finished=True))[0] is State.STUCK

    def test_nobody(self) -> None:
        """Without gatherers it is stuck, and says who was last heard of."""
        assert how(view(charter=None)) == (State.STUCK, "no gatherer is there")
        assert how(view(seeds_wait=True)) == (State.STUCK, "no gatherer is there; seeds wait for one")
        seen = view(member("A", queued=9), silent="a")
        assert how(seen) == (State.STUCK, "no gatherer is there; A (last heard of 40s ago)")

    def test_silent(self) -> None:
        """A silent gatherer is named, with how long; if the others have nothing to do, the crawl is stuck."""
        idle = view(member("A"), member("B", queued=9), silent="b")
        state, why = how(idle)
        first, _, after = why.partition("; ")
        assert (state, first) == (State.STUCK, "waiting for gatherer B (last heard of 40s ago)")
        assert after == "after 10m of silence its part of the web is given to others"
        busy = view(member("A", queued=2, under_way=1), member("B", queued=9), silent="b")
        assert how(busy) == (State.CRAWLING, "2 queued; waiting for gatherer B (last heard of 40s ago)")

    def test_departed(self) -> None:
        """A gatherer that was given up, or has left, is not waited for."""
        seen = view(member("A"), member("B"), member("C", standing="left"), silent="bc")
        assert seen.charter is not None
        seen = replace(seen, charter=replace(seen.charter, departed=["b"]))
        assert how(seen)[1] == "all gatherers are quiet, and see whether that is the end"
        assert [seen.standing(seen.members[each]) for each in "abc"] == ["crawling", "lost", "left"]

    def test_paused(self) -> None:
        """An operator's pause is said, of the crawl or of those gatherers that have something to do."""
        whole = view(member("A", queued=1), rulings=Rulings(paused=frozenset({ALL})))
        assert how(whole) == (State.PAUSED, "paused by an operator; `gcs resume` goes on")
        one = view(member("A"), member("B", queued=1), rulings=Rulings(paused=frozenset({"B"})))
        assert how(one) == (State.PAUSED, "B is paused by an operator")

    def test_waiting(self) -> None:
        """What it waits for is said: resting hosts, a plan, a range, URLs under way, the proof of the end."""
        resting = "4 queued, and no host may be asked now: they rest between requests, or before a retry"
        rulings = Rulings(resting={prefix_of("a.org"): FOR_GOOD})
        waits = {
            resting: view(member("A", queued=4)),
            f"{resting}, or are paused by an operator": view(member("A", queued=4), rulings=rulings),
            "the first plan is being made": view(member("A", epoch=0), charter=None),
            "gatherer B has not adopted the newest plan yet": view(member("A"), member("B", epoch=3)),
            "a range is on its way from A to B": view(member("A", leaving={"b": 1}), member("B")),
            "2 URLs are on their way from B to A": view(member("A"), member("B", pending={"a": 2})),
            "all gatherers are quiet, and see whether that is the end": view(member("A"), member("B")),
        }
        assert {why: how(seen) for why, seen in waits.items()} == {why: (State.WAITING, why) for why in waits}


def book(**said: Any) -> dict[str, Any]:
    """A ledger, with nothing in what is not given."""
    names = ["accepted", "moved_in", "moved_out", "erased", "queued", "in_flight", "done", "dropped"]
    return (
        dict.fromkeys(names, 0)
        | {"sent": {}, "received": {}, "outboxes": {}, "withdrawn": {}, "reasons": {}}
        | said
    )


class TestLedger:
    """The adding-up of ledgers."""

    BOOKS: Mapping[str, Mapping[str, Any]] = {
        "a": book(accepted=10, moved_out=4, done=5, queued=1, sent={"b": 7, "gone": 3}, reasons={"dns": 1}),
        "b": book(accepted=5, moved_in=4, erased=1, dropped=8, received={"a": 7}, reasons={"dns": 2}),
    }

    def test_balanced(self) -> None:
        """What came stands somewhere, what was sent was received, and those that are gone do not count."""
        audit = add_up(self.BOOKS)
        assert audit.is_balanced
        assert [(side.came, side.stands) for side in audit.sides] == [(6, 6), (8, 8)]
        assert [(pair.sender, pair.receiver, pair.missing) for pair in audit.pairs] == [("a", "b", 0)]
        assert (audit.totals["accepted"], audit.totals["done"], audit.failures) == (15, 5, {"dns": 3})
        assert judge(audit, is_stable=False, is_complete=True) is Verdict.BALANCED
        assert judge(audit, is_stable=True, is_complete=False) is Verdict.INCOMPLETE

    def test_on_the_way(self) -> None:
        """What is in an outbox is not missing; sides that differ are moving until they stand still."""
        books = {**self.BOOKS, "a": {**self.BOOKS["a"], "sent": {"b": 9}, "outboxes": {"b": 2}}}
        assert add_up(books).is_balanced
        assert add_up(books).totals["in_outboxes"] == 2
        books["b"] = {**self.BOOKS["b"], "received": {"a": 8}}
        audit = add_up(books)
        assert [pair.missing for pair in audit.pairs] == [-1]
        assert judge(audit, is_stable=False, is_complete=True) is Verdict.MOVING
        assert judge(audit, is_stable=True, is_complete=True) is Verdict.UNBALANCED

    def test_withdrawn(self) -> None:
        """What was withdrawn from one that was thought gone may have been received; nothing else may be."""
        for received, missing in ((8, -1), (7, 0), (5, 0), (4, 1)):
            books = {
                "a": {**self.BOOKS["a"], "withdrawn": {"b": 2}},
                "b": {**self.BOOKS["b"], "received": {"a": received}},
            }
            assert [pair.missing for pair in add_up(books).pairs] == [missing]

    def test_own_side(self) -> None:
        """A ledger that does not add up by itself is wrong, whatever moves."""
        audit = add_up({"a": {**self.BOOKS["a"], "done": 4}})
        assert [side.missing for side in audit.sides] == [1]
        assert judge(audit, is_stable=False, is_complete=False) is Verdict.UNBALANCED


class TestParts:
    """Parts of the web, as operators name them."""

    @pytest.mark.parametrize(
        ("name", "inside", "outside"),
        [
            (
                "example.org",
                ["http://example.org/", "https://example.org:8443/a?b"],
                ["http://www.example.org/", "http://example.organic/"],
            ),
            (
                "http://example.org/docs",
                ["http://example.org/docs", "http://example.org/docs/a", "http://example.org/docs?b"],
                ["http://example.org/docs-old", "https://example.org/docs", "http://example.org/"],
            ),
            ("http://example.org", ["http://example.org/", "http://example.org/a"], ["https://example.org/"]),
            ("10.0.0.1:81", ["http://10.0.0.1:81/x"], ["http://10.0.0.1/x"]),
        ],
    )
    def test_what_is_inside(self, name: str, inside: list[str], outside: list[str]) -> None:
        """A host has all its schemes and ports, a URL what is below it in the tree, and nothing else."""
        prefix = prefix_of(name)
        low, high = part(prefix)
        rulings = Rulings().bar(prefix, 1).rest(prefix, FOR_GOOD, 2)
        for url, is_inside in [*((each, True) for each in inside), *((each, False) for each in outside)]:
            place = key(canonical(url))
            assert (low <= place < high) is is_inside
            assert (rulings.is_barred(place), rulings.rests(place, 0.0)) == (is_inside, is_inside)
        assert prefix_of(named(prefix)) == prefix

    def test_refused(self) -> None:
        """What is no host or URL is refused in one sentence."""
        with pytest.raises(UsageError, match="neither a host nor a URL"):
            prefix_of("gopher://example.org/")
        with pytest.raises(UsageError, match="not the name of a host"):
            host_prefix("http://example.org/a")

    @pytest.mark.parametrize("text", ["example.org/", "example.org/a", "example.org?a", "10.0.0.1:81/x"])
    def test_without_a_scheme(self, text: str) -> None:
        """A path alone is refused: to block it over http would leave it as it is over https."""
        with pytest.raises(UsageError, match="neither http:// nor https://"):
            prefix_of(text)


def test_takers() -> None:
    """What one gives away that leaves is taken by those that are there and stay."""
    seen = view(member("A"), member("B", standing="draining"), member("C"), silent="c")
    assert not takers(seen, "a")
    assert [each.id for each in takers(seen, "b")] == ["a"]


def test_statuses() -> None:
    """A status is a number, or a hundred of them."""
    assert [statuses(each) for each in ("404", "5xx", "-5001")] == [(404, 404), (500, 599), (-5001, -5001)]
    with pytest.raises(UsageError):
        statuses("5x")


def test_tables() -> None:
    """Numbers stand on the right, and what is missing is a dash."""
    assert table(["name", "n"], [["a", 1234], ["bcdef", None]]) == [
        "name       n",
        "a      1,234",
        "bcdef      -",
    ]


def test_names() -> None:
    """A gatherer is found by name or id, one that is there before one that is not."""
    seen = view(member("A"), replace(member("A"), id="old"), silent="old")
    assert [find(seen, "A"), find(seen, "old")] == ["a", "old"]
    with pytest.raises(UsageError, match="no gatherer is named C; there are: A, A"):
        find(seen, "C")


def test_who_is_missing() -> None:
    """Those that failed or were silent are named, and the exit code says that not all have answered."""
    answers = Answers({}, {"B": "it could not audit: no"}, ["C"])
    assert answers.complaints == ["B: it could not audit: no.", "C has not answered."]
    assert (answers.code, Answers({}).code) == (ExitCode.REDIS, ExitCode.OK)


def test_reason_of_a_plan() -> None:
    """What an operator says is kept with the plan."""
    assert _reason([Wish("operator", "new disks", "II"), Wish("join", "A")]) == "join, operator: new disks"


def test_no_redis() -> None:
    """Without a Redis there is nobody to ask, which is one sentence."""
    with pytest.raises(ConfigError, match=r"redis\.url must name"):
        asking.ask(Config(), lambda *_: pytest.fail("asked"))


@pytest.mark.virtual_time
async def test_liveness() -> None:
    """A gatherer is there if its counter grows between two looks; a look never takes a heartbeat away."""
    async with memory.connect(memory.Server()) as client:
        config = Config()
        board = Board(client, config)
        await board.beat("b", 1, Pulse("B", "x"))

        async def go_on() -> None:
            for beat in range(1, 100):
                await board.beat("a", beat, Pulse("A", "x"))
                await trio.sleep(config.member.heartbeat_s)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(go_on)
            await trio.sleep(0.1)
            seen = await Looker(board, config).look_twice()
            nursery.cancel_scope.cancel()
        assert [each.id for each in seen.present] == ["a"]
        assert [each.id for each in seen.absent] == ["b"]


@pytest.mark.virtual_time
async def test_two_operators() -> None:
    """Two operators who rule at the same time both get their way."""
    async with memory.connect(memory.Server()) as client:
        board = Board(client, Config())

        async def pause(name: str) -> None:
            await board.rule(lambda now, epoch: now.pause(name, epoch))

        async with trio.open_nursery() as nursery:
            for name in ("A", "B", "C"):
                nursery.start_soon(pause, name)
        found = Rulings.from_bytes((await board.now())["rulings"][1])
        assert found.paused == {"A", "B", "C"}


@pytest.mark.virtual_time
async def test_a_block_that_is_over() -> None:
    """It is neither shown nor lifted, and when it is long over the next block lets it be forgotten."""
    async with memory.connect(memory.Server()) as client:
        board, config = Board(client, Config()), Config()
        old = prefix_of("old.example")
        await board.rule(lambda now, epoch: now.rest(old, time.time() - 1e6, epoch))
        await ruling.block(board, config, text="a.example", for_s=0.0)
        await ruling.block(board, config, text="b.example", for_s=60.0)
        assert old not in Rulings.from_bytes((await board.now())["rulings"][1]).resting
        seen = await Looker(board, config).look()
        assert [named(each) for each in seen.rulings.resting] == ["b.example"]
        with pytest.raises(UsageError, match=r"a\.example is not blocked; what is: b\.example"):
            await ruling.unblock(board, config, text="a.example")
        with pytest.raises(UsageError, match=r"a\.example is not paused"):
            await ruling.resume(board, config, what=ruling.HOST, name="a.example")
        assert queues_of(seen).lines == ["no gatherer is there"]


@pytest.mark.virtual_time
async def test_orders() -> None:
    """An order that fails is answered with the reason, and one that takes long holds up no other."""
    async with memory.connect(memory.Server()) as client:
        board = Board(client, Config())
        node: Any = SimpleNamespace(
            id="a", name="A", log=structlog.get_logger(), store=None, crawl=None, taking_in=0
        )

        async def lead(_: object, *, dry: bool) -> None:
            assert dry
            await trio.sleep(20)

        orders = Orders(node, board, None, SimpleNamespace(lead=lead), None)  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(orders.obey)
            for kind in ("plan", "audit", "dance"):
                await board.order("a", kind, kind, {"method": ""}, within_s=60)
            answers = {kind: await board.answers(kind, ["a"], 10) for kind in ("plan", "audit", "dance")}
            assert answers["plan"] == {}
            assert answers["audit"]["a"]["error"].startswith("it could not audit: 'NoneType'")
            assert answers["dance"]["a"] == {"name": "A", "error": "it does not know how to dance"}
            later = await board.answers("plan", ["a"], 30)
            assert later["a"]["error"] == "it has not adopted the newest plan yet; ask again"
            nursery.cancel_scope.cancel()


@pytest.fixture
def _logs_as_before() -> Iterator[None]:
    """The commands that run in this process configure logging."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def until(condition: Callable[[], bool], timeout_s: float = 90.0) -> None:
    """Wait for something."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.usefixtures("_logs_as_before")
def test_commands(tmp_path: Path) -> None:
    """Operators watch, pause, block, rebalance, retry, audit and drain a crawl of two gatherers."""
    settings = ["member.leave_when_finished=false", "fetch.delay=10ms", "rebalance.cooldown=1m"]
    with (
        servers.redis_server("redis") as redis,
        server(tmp_path / "web", 5, 5, 80) as served,
        gatherers(redis, served, tmp_path / "gatherers", settings) as group,
    ):
        options = ["-s", f"redis.url={redis.url}", "-s", "member.heartbeat=200ms"]
        host = "h000.test"

        def run(*arguments: str, code: int = 0) -> Any:
            """In this process, which saves the start."""
            result = CliRunner().invoke(cli.main, [*arguments, "--json", *options])
            assert result.exit_code == code, (arguments, result.output)
            return json.loads(result.stdout) if not result.stderr else result.stderr

        as_users = partial(gcs, timeout=90)

        assert run("status")["why"] == "no gatherer is there"
        assert "no gatherer is there" in run("audit", code=2)
        more = tmp_path / "seeds.txt"
        more.write_text(f"# more\n\n{served.web.seeds[0]}more\n")
        given = as_users("seed", "add", *served.web.seeds, "-f", str(more), *options)
        assert given.stdout == "2 seeds given to crawl crawl.\n"
        assert run("seed", "list")["waiting"] == [*served.web.seeds, f"{served.web.seeds[0]}more"]
        assert "with -f" in run("seed", "add", code=2)
        group.start("A")
        group.start("B")
        group.until(lambda seen: len(seen) == 2 and all(m.pulse.epoch for m in seen.values()), "two")
        until(lambda: {each["standing"] for each in run("nodes")["gatherers"]} == {"crawling"})

        assert run("pause")["late"] == []
        assert run("status")["state"] in ("paused", "finished")
        audit = run("audit", "--reasons")
        assert audit["verdict"] == "balanced"
        assert sum(audit["dropped_by_reason"].values()) == audit["totals"]["dropped"]
        assert "is paused" in run("resume", "gatherer", "A", code=2)
        run("resume")
        run("pause", "host", host)
        run("resume", "host", host)
        run("block", f"http://{host}/nowhere", "--for", "2d")
        assert list(run("status")["rulings"]["resting"]) == [f"http://{host}/nowhere"]
        run("unblock", f"http://{host}/nowhere")

        until(lambda: run("status")["state"] == "finished")
        shown = as_users("status", *options)
        assert shown.stdout.startswith("crawl crawl\nfinished: nothing is queued")
        known = run("host", host)
        assert len(known["owners"]) == 1
        assert sum(each["done"] for each in known["known"]) > 0
        assert {each["name"] for each in run("queues")["queues"]} == {"A", "B"}

        foreseen = run("rebalance", "--dry-run", "--partition", "I")
        assert (set(foreseen["remaining_s"]), foreseen["method"]) == ({"A", "B"}, "I")
        planned = run("rebalance", "--reason", "a test")
        assert (planned["adopted"], planned["reason"]) == (True, "operator: a test")
        assert run("superpages", "--top", "3")["superpages_in_all"] > 3

        gone = run("retry", "--status", "404")
        assert gone["queued"] > 0
        forgotten = run("forget", host)
        assert forgotten["forgotten"] > 0
        audit = run("audit")
        assert (audit["verdict"], audit["totals"]["erased"] > 0) == ("balanced", True)

        assert run("seed", "list") == {"waiting": [], "being_taken": 0}
        assert "give --wait too" in run("drain", "B", "--timeout", "1s", code=2)
        assert run("drain", "X", code=2) == "gcs: no gatherer is named X; there are: A, B.\n"
        assert run("drain", "B", "--wait", "--timeout", "0s", code=4)["left"] is False
        assert run("drain", "B", "--wait", "--timeout", "1m")["left"] is True
        assert {each["name"]: each["standing"] for each in run("nodes")["gatherers"]}["B"] == "left"
