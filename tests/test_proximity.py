"""Proximity: domains are announced, measured by all, decided by one, and never forgotten."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgpack
import pytest
import trio

from gcs.board import Board
from gcs.config import Config
from gcs.core.holdings import Charter
from gcs.core.placement import Plan, Sites, nearest
from gcs.core.urls import key
from gcs.domains import registered_domain
from gcs.fetch.outcome import Failure, Origin
from gcs.fetch.transport import Transport
from gcs.gatherer import proximity
from gcs.gatherer.proximity import DECIDE_WITHIN_S, META, OPEN, REASON, Proximity, delay_to
from gcs.store.records import Batch, host_of
from gcs.store.store import Store
from gcs.store.view import View
from gcs.traffic import Traffic
from tests.crawling import configured, server
from tests.gatherers import gatherers
from tests.servers import redis_server, until
from tuplespace import Space, Spaces, memory

SITES = Sites(registered_domain)
AGAIN_S = 50.0
DOMAIN = ("domain", str, str, str, float, int)


def host(name: str) -> str:
    """The host of a name, as keys have it."""
    return host_of(key(f"http://{name}/"))


def site(name: str) -> str:
    """The domain of a name."""
    return SITES.of(host(name))


def owners(one: Proximity) -> dict[str, str]:
    """Whose domains are, as a gatherer knows it."""
    return {site: decision.owner for site, decision in one.table.items()}


@dataclass
class Crew:
    """Some gatherers that differ in how far they are from everything; a silent one never answers."""

    server: memory.Server
    distances: Mapping[str, Mapping[str, float]]
    nursery: trio.Nursery
    client: Spaces
    members: dict[str, Proximity] = field(default_factory=dict)
    disks: dict[str, dict[str, bytes]] = field(default_factory=dict)
    measured: list[tuple[float, str, str]] = field(default_factory=list)
    alive: list[str] = field(default_factory=list)
    charter: Charter | None = None
    scopes: dict[str, trio.CancelScope] = field(default_factory=dict)

    @property
    def space(self) -> Space:
        return Board(self.client, Config()).domains

    async def start(self, name: str) -> Proximity:
        """Start a gatherer, or start it again on its disk."""
        disk = self.disks.setdefault(name, {})

        async def measure(origin: Origin) -> float:
            self.measured.append((trio.current_time(), name, origin.host))
            await trio.sleep(0.01)
            return self.distances[name].get(origin.host, 1.0)

        async def keep(values: Mapping[str, bytes]) -> None:
            disk.update(values)

        made = self.members[name] = Proximity(
            self.space,
            name,
            alive=lambda: self.alive,
            charter=lambda: self.charter,
            measure=measure,
            keep=keep,
            stored=[(each.removeprefix(META), value) for each, value in disk.items()],
            again_after_s=AGAIN_S,
            clock=trio.current_time,
        )
        self.scopes[name] = trio.CancelScope()

        async def run() -> None:
            with self.scopes[name]:
                await made.run()

        self.nursery.start_soon(run)
        return made

    def stop(self, name: str) -> None:
        self.scopes[name].cancel()

    async def domains(self) -> list[tuple[str, str]]:
        """The decisions as the space has them."""
        return sorted([(str(each[1]), str(each[2])) async for each in self.space.scan(*DOMAIN)])

    async def rest(self) -> int:
        """How many other tuples there are."""
        space = self.space
        return await space.count("announce", str, str, str) + await space.count("delay", str, str, float)


@asynccontextmanager
async def crew(
    distances: Mapping[str, Mapping[str, float]], *, silent: Sequence[str] = ()
) -> AsyncIterator[Crew]:
    """Gatherers on one space in memory."""
    shared = memory.Server()
    async with memory.connect(shared) as client, trio.open_nursery() as nursery:
        made = Crew(shared, distances, nursery, client, alive=sorted(distances))
        for name in distances:
            if name not in silent:
                await made.start(name)
        await trio.sleep(0.1)
        yield made
        nursery.cancel_scope.cancel()


def test_the_smallest_delay_wins_and_the_announcer_if_equal() -> None:
    """Nobody is nearer than the chosen; equal ones lose to the announcer, and then by name."""
    assert nearest({"a": 0.3, "b": 0.1, "c": 0.2}, "a") == "b"
    assert nearest({"a": 0.1, "b": 0.1, "c": 0.1}, "b") == "b"
    assert nearest({"a": math.inf, "b": math.inf}, "c") == "a"


@pytest.mark.virtual_time
async def test_a_new_domain_goes_to_the_nearest() -> None:
    """All measure it, once; the announcer decides as soon as all have; everyone knows it, on disk too."""
    async with crew({"a": {"x.test": 0.3}, "b": {"x.test": 0.1}, "c": {"x.test": 0.2}}) as group:
        group.members["a"].noticed([host("x.test")])
        group.members["a"].noticed([host("x.test")])
        await trio.sleep(1)
        assert [owners(each) for each in group.members.values()] == [{site("x.test"): "b"}] * 3
        assert sorted(name for _, name, _ in group.measured) == ["a", "b", "c"]
        assert await group.domains() == [(site("x.test"), "b")]
        assert await group.rest() == 0
        await trio.sleep(1)
        kept = [disk[META + site("x.test")] for disk in group.disks.values()]
        decision = ["b", "http://x.test", 0.1, 0]
        assert [msgpack.unpackb(each)[:2] for each in kept] == [
            [decision, delay] for delay in (0.3, 0.1, 0.2)
        ]
        assert group.members["c"].delays() == {site("x.test"): 0.2}


@pytest.mark.virtual_time
async def test_hosts_of_one_domain_are_one() -> None:
    """Only the first host of a registered domain is announced, and what another announced is not again."""
    async with crew({"a": {}, "b": {}}) as group:
        group.members["a"].noticed([host("www.example.org"), host("example.org"), host("m.example.org")])
        await trio.sleep(1)
        group.members["b"].noticed([host("ftp.example.org")])
        await trio.sleep(5)
        assert {name for _, _, name in group.measured} == {"www.example.org"}
        assert await group.domains() == [(site("example.org"), "a")]


@pytest.mark.virtual_time
async def test_of_several_announcers_the_oldest_decides() -> None:
    """Where all are equally far, the owner is whose announcement is the oldest, and there is one decision."""
    async with crew({"a": {}, "b": {}, "c": {}}) as group:
        for name in "bca":
            group.members[name].noticed([host("x.test")])
        announced = [e async for e in group.space.scan("announce", str, str, str)]
        while not announced:
            await trio.sleep(0.001)
            announced = [e async for e in group.space.scan("announce", str, str, str)]
        await trio.sleep(DECIDE_WITHIN_S + 5)
        assert await group.domains() == [(site("x.test"), str(announced[0][3]))]
        assert {each.table[site("x.test")].owner for each in group.members.values()} == {announced[0][3]}


@pytest.mark.virtual_time
async def test_two_decisions() -> None:
    """Of two decisions about one domain all follow the older, and the younger is removed."""
    async with crew({"a": {"x.test": 0.1}, "b": {"x.test": 0.1}}) as group:
        for owner in "ba":
            await group.space.out("domain", site("x.test"), owner, "http://x.test", 0.1, 0)
        await trio.sleep(12)
        assert await group.domains() == [(site("x.test"), "b")]
        assert [owners(each) for each in group.members.values()] == [{site("x.test"): "b"}] * 2


@pytest.mark.virtual_time
async def test_a_silent_member() -> None:
    """A member that does not answer holds a decision up for ten seconds, not longer."""
    distances = {"a": {"x.test": 0.3}, "b": {"x.test": 0.2}, "c": {"x.test": 0.1}}
    async with crew(distances, silent="c") as group:
        group.members["a"].noticed([host("x.test")])
        await trio.sleep(DECIDE_WITHIN_S - 1)
        assert not group.members["a"].table
        await trio.sleep(2)
        assert {each.table[site("x.test")].owner for each in group.members.values()} == {"b"}


@pytest.mark.virtual_time
async def test_an_announcer_that_dies() -> None:
    """When the announcer is gone the first of the others decides, and does not choose it."""
    async with crew({"a": {}, "b": {}, "c": {"x.test": 0.1}}, silent="c") as group:
        await group.space.out("announce", site("x.test"), "http://x.test", "c")
        await trio.sleep(2)
        assert not group.members["a"].table
        group.alive = ["a", "b"]
        await trio.sleep(12)
        assert await group.domains() == [(site("x.test"), "a")]
        assert owners(group.members["b"]) == {site("x.test"): "a"}


@pytest.mark.virtual_time
async def test_nobody_can_connect() -> None:
    """A domain that nobody reaches stays with its announcer."""
    async with crew({"a": {"x.test": math.inf}, "b": {"x.test": math.inf}}) as group:
        group.members["b"].noticed([host("x.test")])
        await trio.sleep(2)
        assert await group.domains() == [(site("x.test"), "b")]


@pytest.mark.virtual_time
async def test_redis_lost_the_table() -> None:
    """What was decided is put up again, once, also by gatherers that were started again."""
    async with crew({"a": {"x.test": 0.1}, "b": {"y.test": 0.1}}) as group:
        group.members["a"].noticed([host("x.test"), host("y.test")])
        await trio.sleep(8)
        before = await group.domains()
        assert before == [(site("x.test"), "a"), (site("y.test"), "b")]
        for name in "ab":
            group.stop(name)
        while await group.space.inp(*DOMAIN) is not None:
            pass
        for name in "ab":
            await group.start(name)
        await trio.sleep(12)
        assert await group.domains() == before
        assert [owners(each) for each in group.members.values()] == [dict(before)] * 2
        # And what was measured before is still reported.
        assert group.members["a"].delays()[site("x.test")] == 0.1


@pytest.mark.virtual_time
async def test_redis_lost_an_announcement() -> None:
    """The announcer decides all the same, by the answers it has."""
    async with crew({"a": {"x.test": 0.2}, "b": {"x.test": 0.1}, "c": {}}, silent="c") as group:
        group.members["a"].noticed([host("x.test")])
        await trio.sleep(1)
        assert await group.space.inp("announce", str, str, str) is not None
        while await group.space.inp("delay", str, str, float) is not None:
            pass
        await trio.sleep(DECIDE_WITHIN_S)
        assert await group.domains() == [(site("x.test"), "b")]


@pytest.mark.virtual_time
async def test_who_joins_late_learns_the_table() -> None:
    """A gatherer that comes later gets every decision, and measures nothing while it may own nothing."""
    async with crew({"a": {}, "b": {}}, silent="b") as group:
        group.alive = ["a"]
        group.members["a"].noticed([host("x.test"), host("y.test")])
        await trio.sleep(2)
        late = await group.start("b")
        await trio.sleep(1)
        assert owners(late) == {site("x.test"): "a", site("y.test"): "a"}
        assert {name for _, name, _ in group.measured} == {"a"}


@pytest.mark.virtual_time
async def test_who_joins_takes_over_what_is_clearly_nearer() -> None:
    """It measures what is known, some domains a second; all follow it, also who is started again."""
    near = {"x.test": 0.3, "y.test": 0.99, "z.test": 0.1}
    async with crew({"a": {"z.test": 0.102}, "b": near}, silent="b") as group:
        group.alive = ["a"]
        others = [f"d{number}.test" for number in range(60)]
        group.members["a"].noticed([host(name) for name in (*near, *others)])
        await trio.sleep(60)
        group.alive = ["a", "b"]
        group.charter = charter(1, "a")
        late = await group.start("b")
        await trio.sleep(30)
        expected = dict.fromkeys([site(name) for name in (*near, *others)], "a") | {site("x.test"): "b"}
        assert owners(late) == owners(group.members["a"]) == expected == dict(await group.domains())
        assert late.reason() == group.members["a"].reason() == REASON
        assert late.delays()[site("z.test")] == 0.1
        at = [when for when, who, _ in group.measured if who == "b"]
        assert len(at) == len(expected)
        assert max(sum(t <= u < t + 1 for u in at) for t in at) <= 11
        group.stop("a")
        await trio.sleep(2)
        assert owners(await group.start("a")) == expected


@pytest.mark.virtual_time
async def test_the_network_changes() -> None:
    """Old delays are measured again; a domain goes to who is clearly nearer by then, and else stays."""
    distances: dict[str, dict[str, float]] = {
        "a": {"x.test": 0.1, "y.test": 0.1},
        "b": {"x.test": 0.2, "y.test": 0.11},
    }
    async with crew(distances) as group:
        group.members["a"].noticed([host("x.test"), host("y.test")])
        await trio.sleep(5)
        assert await group.domains() == [(site("x.test"), "a"), (site("y.test"), "a")]
        distances["a"] = {"x.test": 0.5, "y.test": 0.12}
        await trio.sleep(AGAIN_S / 2)
        assert len(group.measured) == 4
        await trio.sleep(AGAIN_S)
        assert len(group.measured) == 8
        assert await group.domains() == [(site("x.test"), "b"), (site("y.test"), "a")]
        assert group.members["a"].table == group.members["b"].table
        assert group.members["a"].table[site("x.test")].seconds == 0.2


@pytest.mark.virtual_time
async def test_redis_has_an_older_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decided anew is put up again when Redis has lost that."""
    monkeypatch.setattr(proximity, "LOOK_OVER_EVERY_S", 20.0)
    async with crew({"a": {"x.test": 0.1}, "b": {}}) as group:
        group.members["a"].noticed([host("x.test")])
        await trio.sleep(3)
        newer = group.members["a"].table[site("x.test")]._replace(owner="b", version=3)
        for each in group.members.values():
            each._told(site("x.test"), newer)
        await trio.sleep(30)
        assert await group.domains() == [(site("x.test"), "b")]


@pytest.mark.virtual_time
async def test_many_domains_at_once() -> None:
    """At most ten domains a second are measured, few are open at a time, and all are decided by all."""
    async with crew({"a": {}, "b": {}}) as group:
        names = [f"d{n}.test" for n in range(200)]
        group.members["a"].noticed([host(name) for name in names[:120]])
        group.members["b"].noticed([host(name) for name in names[80:]])
        most = 0
        for _ in range(400):
            await trio.sleep(0.1)
            most = max(most, await group.space.count("announce", str, str, str))
        assert most <= OPEN
        assert len(await group.domains()) == len(names)
        for name in "ab":
            at = [when for when, who, _ in group.measured if who == name]
            assert len(at) == len(names)
            assert max(sum(t <= u < t + 1 for u in at) for t in at) <= 11


@pytest.mark.virtual_time
async def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """More domains than a plan keeps are not announced."""
    monkeypatch.setattr(proximity, "MOST", 3)
    async with crew({"a": {}}) as group:
        group.members["a"].noticed([host(f"d{n}.test") for n in range(5)])
        await trio.sleep(3)
        assert len(await group.domains()) == 3


@pytest.mark.virtual_time
async def test_a_decision_is_a_reason_for_two_plans_at_most() -> None:
    """A plan that gives a domain to another is to be made anew; who was told twice has decided."""
    async with crew({"a": {"x.test": 0.3}, "b": {"x.test": 0.1}}) as group:
        one = group.members["a"]
        assert one.reason() == ""
        group.charter = charter(1, "a")
        assert one.reason() == ""
        one.noticed([host("x.test")])
        await trio.sleep(2)
        assert one.reason() == REASON
        group.charter = charter(2, "a")
        assert one.reason() == REASON, "that plan was made without being told"
        one.delays()
        group.charter = charter(3, "a")
        assert one.reason() == REASON
        one.delays()
        group.charter = charter(4, "a")
        assert one.reason() == ""
        other = group.members["b"]
        assert other.reason() == REASON
        group.charter = charter(5, "b")
        assert other.reason() == ""


def charter(epoch: int, owner: str) -> Charter:
    """A plan that gives everything to one of two."""
    whole = Plan.of([("", owner)])
    return Charter(epoch=epoch, owners=whole, sources=whole, members={"a": "a", "b": "b"})


# Measuring


async def test_the_delay_of_a_connection(tmp_path: Path) -> None:
    """A delay is measured without any request; what the guard refuses and what is not there has none."""
    with server(tmp_path / "web", 5, hosts=3, pages=10) as served:
        origin = Origin.split(served.web.seeds[0])[0]
        async with Transport(configured(served.hosts).fetch) as transport:
            assert 0 <= await delay_to(transport, origin) < 1
            assert isinstance(await transport.delay(Origin("http", "127.0.0.1", 22)), Failure)
            assert await delay_to(transport, Origin("http", "127.0.0.1", 1)) == math.inf
            assert transport.statistics().open == 0
            assert transport.statistics().sites == 0
        async with Transport(configured(served.hosts, fetch={"allow": ()}).fetch) as transport:
            assert await delay_to(transport, origin) == math.inf
        assert served.judged().coverage == 0


@asynccontextmanager
async def tunnels(answer: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A proxy that answers whatever it is asked first."""
    asked: list[bytes] = []

    async def serve(stream: trio.SocketStream) -> None:
        asked.append(bytes(await stream.receive_some()))
        await stream.send_all(answer)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        yield listeners[0].socket.getsockname()[1], asked
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_delay_through_a_proxy(allowed: bool, tmp_path: Path) -> None:
    """Behind a proxy the tunnel is measured, for http too; without a tunnel there is no delay."""
    said = b"HTTP/1.1 200 OK\r\n\r\n" if allowed else b"HTTP/1.1 403 No\r\n\r\n"
    (tmp_path / "hosts").write_text("")
    async with tunnels(said) as (port, asked):
        config = configured(tmp_path / "hosts", fetch={"proxy": f"http://127.0.0.1:{port}"})
        async with Transport(config.fetch) as transport:
            delay = await delay_to(transport, Origin("http", "far.test", 80))
    assert math.isfinite(delay) == allowed
    assert len(asked) == (3 if allowed else 1)
    assert all(each.startswith(b"CONNECT far.test:80 HTTP/1.1\r\n") for each in asked)


# The overhead


def test_the_overhead_is_the_share_of_coordination() -> None:
    """C is o / (o + f) · 100, and nothing while nothing was sent."""
    traffic = Traffic()
    assert traffic.overhead_percent(0) == 0
    traffic.wrote("member", "id", 1, b"12345", 1.0)
    traffic.read("now", b"123")
    assert (traffic.sent_bytes, traffic.received_bytes) == (29, 6)
    assert traffic.overhead_percent(65) == 35.0
    assert traffic.overhead_percent(0) == 100.0


# On real gatherers


def test_values_by_prefix(tmp_path: Path) -> None:
    """All values of a prefix are found, in order, and no others."""
    with Store.open(tmp_path / "s", Config().store, resume=False) as store:
        values = {"domain \x02b": b"2", "domain \x02a": b"1", "domaim": b"-", "domaio": b"-", "domain": b"-"}
        store.commit(Batch(meta=values))
        assert list(store.metas(META)) == [("\x02a", b"1"), ("\x02b", b"2")]


def test_gatherers_decide_about_domains(tmp_path: Path) -> None:
    """Two real gatherers decide about the domains that they crawl, remember it, and cover the web."""
    settings = ["placement.strategy=proximity", "member.leave_when_finished=false"]

    async def domains(board: Board) -> dict[str, str]:
        return {str(each[1]): str(each[2]) async for each in board.domains.scan(*DOMAIN)}

    def on_disk(name: str, decided: dict[str, str]) -> dict[str, str]:
        with View(tmp_path / "g" / name) as view:
            kept = {each: view.get_meta(META + each) for each in decided}
        return {each: msgpack.unpackb(value)[0][0] for each, value in kept.items() if value}

    with server(tmp_path / "web", 6, hosts=12, pages=600) as served, redis_server() as redis:
        with gatherers(redis, served, tmp_path / "g", settings) as group:
            group.start("one")
            group.start("two")
            group.seed(served.web.seeds)
            group.until(
                lambda members: (
                    members and all(each.pulse.standing == "finished" for each in members.values())
                ),
                "the end",
            )
            until(
                lambda: (
                    len(decided := group.ask(domains)) > 6
                    and all(on_disk(name, decided) == decided for name in ("one", "two"))
                ),
                "all to remember what was decided",
                timeout_s=60,
            )
            members = group.members().values()
            overhead = [each.pulse.facts["overhead_percent"] for each in members]
            decided = group.ask(domains)
        seen = served.judged()
    assert (seen.coverage, seen.duplicates) == (1.0, 0)
    assert {*decided.values()} <= {member.id for member in members}
    assert all(0 < each <= 100 for each in overhead)
