"""What becomes of loans when helpers, sites, operators or the gatherer itself do something else meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgpack
import pytest
import trio

import tuplespace
from gcs.config import Config
from gcs.core.locality import PAGES_EACH, TRIES_EACH, Locality
from gcs.core.rulings import Invited, Rulings
from gcs.core.trust import NEW
from gcs.core.urls import key
from gcs.gatherer.crawl import Ending
from gcs.helper import intake, lender
from gcs.helper.desks import AMONG_GATHERERS, Desk, Presence, of_gatherer
from gcs.helper.lender import TRUST
from gcs.helper.papers import ANSWER, BUNDLE, VERSION, Answer, Bundle
from gcs.helper.worker import Badge, Worker
from gcs.operate.helping import helpers
from gcs.simulate.web import Web, judge
from gcs.simulate.webserver import serve
from gcs.store.records import Batch, Committed, host_of
from gcs.store.store import Store
from tests import servers
from tests.crawling import configured
from tests.lending import ME, Scene, scene, soon
from tuplespace import memory

FEW = {"concurrency": 1, "per_host": 1}
SMALL = Web(3, hosts=10, pages=120, plain=True, slowness=0.0)


async def next_bundle(made: Scene, helper: str) -> Bundle:
    """Take a bundle, as a helper does."""
    found = await made.desk(helper).urls.in_(BUNDLE, str, bytes)
    assert isinstance(found[2], bytes)
    return Bundle.opened(found[2], made.badge(helper).bundles_key)


async def test_a_desk_that_hangs_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of one helper is silent; others are asked all the same."""
    honest = Desk.present

    async def present(desk: Desk, name: str = "") -> list[Presence]:
        if desk.name.endswith("/away"):
            await trio.sleep_forever()
        return await honest(desk, name)

    monkeypatch.setattr(Desk, "present", present)
    async with serve(SMALL, tmp_path, latency_s=0.01) as served:
        config = configured(served.hosts, fetch=FEW, helpers={"bundle": 4})
        async with scene(config, tmp_path / "store", site="world:open") as made:
            async with trio.open_nursery() as nursery:
                made.invite("away", "one")
                nursery.start_soon(made.help, "one")
                assert await made.run(served.web.seeds) is Ending.FINISHED
                nursery.cancel_scope.cancel()
            assert made.lender.account.returned > 10


async def test_who_is_stopped_does_not_wait_for_helpers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is lent is left after a moment, and is queued on disk."""
    monkeypatch.setattr(lender, "PARTING_S", 0.5)
    async with serve(SMALL, tmp_path, latency_s=0.01) as served:
        config = configured(served.hosts, fetch=FEW)
        async with scene(config, tmp_path / "store") as made:
            made.invite("ghost")
            stopped: list[float] = []

            async def haunt() -> None:
                await made.say("ghost")
                await next_bundle(made, "ghost")
                made.crawl.stop()
                stopped.append(trio.current_time())

            async with trio.open_nursery() as nursery:
                nursery.start_soon(haunt)
                assert await made.run(served.web.seeds) is Ending.INTERRUPTED
                took_s = trio.current_time() - stopped[0]
            assert took_s < lender.LONGEST_S / 2
            assert made.crawl.loans.lent == 0
            assert made.store.counts().queued > 0
        async with scene(config, tmp_path / "store") as made:
            assert await made.run(()) is Ending.FINISHED
        served.flush()
        assert judge(served.log, served.web).missing == frozenset()


async def test_new_settings_reach_helpers_at_once(tmp_path: Path) -> None:
    """What is lent after a reload is lent with the delays of the new configuration."""
    async with serve(SMALL, tmp_path, latency_s=0.01) as served:
        config = configured(served.hosts, fetch={**FEW, "delay_s": 0.01})
        async with scene(config, tmp_path / "store") as made, trio.open_nursery() as nursery:
            made.invite("one")
            await made.say("one")
            nursery.start_soon(made.run, served.web.seeds)
            assert (await next_bundle(made, "one")).max_delay_s == config.fetch.max_delay_s
            made.config = replace(config, fetch=replace(config.fetch, max_delay_s=7.0))
            while (await next_bundle(made, "one")).max_delay_s != 7.0:
                pass  # those that lay there already
            nursery.cancel_scope.cancel()


async def test_what_is_blocked_is_not_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators block a host whose URLs a helper has: what it says of them is refused."""
    soon(monkeypatch, slack_s=2.0)
    async with serve(SMALL, tmp_path, latency_s=0.01) as served:
        config = configured(served.hosts, fetch=FEW, helpers={"bundle": 4})
        async with scene(config, tmp_path / "store") as made:
            made.invite("one")
            blocked: list[str] = []

            async def help_late() -> None:
                await made.say("one")
                bundle = await next_bundle(made, "one")
                worker, badge = made.worker("one"), made.badge("one")
                pages = []
                for number, path in enumerate(bundle.paths):
                    outcome = await made.transport.fetch(bundle.origin, path)
                    pages.append(worker._told(bundle, number, outcome))  # type: ignore[arg-type] # it answers
                blocked.append(bundle.host)
                part = key(f"{bundle.origin}/")
                made.rulings = made.rulings.bar(part, made.rulings.epoch + 1)
                sealed = Answer(VERSION, 0, True, pages).sealed(badge.key, ME, bundle.id, "one")
                await made.desk().summaries.out(ANSWER, ME, bundle.id, "one", sealed)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(help_late)
                assert await made.run(served.web.seeds) is Ending.FINISHED
                nursery.cancel_scope.cancel()
            assert made.lender.account.refused.keys() & {"blocked", "unknown"}
            log = (tmp_path / "store" / "crawl.log").read_text().splitlines()
            assert blocked
            assert not [row for row in log if "helper:one" in row and f"//{blocked[0]}:" in row]


async def test_who_finds_no_room_for_a_part_is_still_asking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is lent until the last part has come, and nobody is blamed for having said nothing."""
    monkeypatch.setattr(intake, "HELD_BYTES", 10)
    async with serve(SMALL, tmp_path, latency_s=0.01) as served:
        config = configured(served.hosts, fetch=FEW, helpers={"bundle": 4})
        async with (
            scene(config, tmp_path / "store", site="world:open") as made,
            trio.open_nursery() as nursery,
        ):
            made.invite("one")
            await made.say("one")
            nursery.start_soon(made.run, served.web.seeds)
            while len((bundle := await next_bundle(made, "one")).paths) < 2:
                pass
            worker, badge, refused = made.worker("one"), made.badge("one"), made.lender.account.refused
            outcome = await made.transport.fetch(bundle.origin, bundle.paths[0])
            page = worker._told(bundle, 0, outcome)  # type: ignore[arg-type] # it answers
            for number, last in enumerate((False, True)):
                sealed = Answer(VERSION, number, last, [page]).sealed(badge.key, ME, bundle.id, "one")
                await made.desk("one").summaries.out(ANSWER, ME, bundle.id, "one", sealed)
                with trio.fail_after(60):
                    while refused["room"] == number:  # noqa: ASYNC110 - nobody tells of it
                        await trio.sleep(0.01)
                assert (bundle.id in made.lender._out) is not last
            assert made.lender._clerks["world/one"]._tried == 0
            nursery.cancel_scope.cancel()


async def test_an_offer_that_nobody_takes_is_nobodys_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken back before its time is over, and who did not see it is asked again."""
    monkeypatch.setattr(lender, "OFFERED_S", 1.0)
    async with serve(SMALL, tmp_path, latency_s=0.01) as served:
        config = configured(served.hosts, fetch=FEW, helpers={"bundle": 4})
        async with scene(config, tmp_path / "store", site="world:open") as made:
            made.invite("one")
            await made.say("one", slots=64)
            began = trio.current_time()
            assert await made.run(served.web.seeds) is Ending.FINISHED
            assert made.lender.account.lent > 3
            assert made.lender._clerks["world/one"]._shunned_until < began


async def test_who_is_revoked_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it said since its last good check is fetched again; invited again, it begins anew."""
    soon(monkeypatch, slack_s=2.0)
    async with serve(SMALL, tmp_path, latency_s=0.01) as served:
        config = configured(served.hosts, fetch=FEW, helpers={"bundle": 2})
        async with scene(config, tmp_path / "store", site="world:open") as made:
            made.invite("one")
            record, trust = made.record("one"), made.lender.scrutiny.trust
            for _ in range(1000):
                trust.passed(record, 0)
            unchecked: list[str] = []

            async def revoke() -> None:
                while not (said := trust.record(record).unchecked.keys):  # noqa: ASYNC110 - nothing tells
                    await trio.sleep(0.01)
                unchecked.extend(said)
                made.rulings = made.rulings.revoke("one", made.rulings.epoch + 1)
                made.invite("one", key=b"another")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(made.help, "one")
                nursery.start_soon(revoke)
                assert await made.run(served.web.seeds) is Ending.FINISHED
                nursery.cancel_scope.cancel()
            assert unchecked
            assert set(unchecked) <= set(made.again)
            assert record not in trust.helpers()
            assert trust.is_new(made.record("one"))


async def test_who_is_believed_is_kept_with_what_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No page that counts unchecked is on disk without its key in the record of who said it."""
    kept: list[set[str]] = [set()]
    commit = Store.commit
    scenes: list[Scene] = []
    seen = 0

    def committed(store: Store, batch: Batch, **options: bool) -> Committed:
        nonlocal seen
        if TRUST in batch.meta:
            (records, _) = msgpack.unpackb(batch.meta[TRUST])
            kept.append({each for *_, keys, _ in records.values() for each in keys})
        for helper in scenes[0].lender.scrutiny.trust.helpers():
            said = set(scenes[0].lender.scrutiny.trust.record(helper).unchecked.keys)
            written = said & {each.key for each in batch.finished}
            seen += len(written)
            # What was cleared meanwhile, in the event loop, was in it when the batch was made.
            assert written <= set().union(*kept[-3:])
        return commit(store, batch, **options)

    monkeypatch.setattr(Store, "commit", committed)
    async with serve(SMALL, tmp_path, latency_s=0.01) as served:
        config = configured(served.hosts, fetch=FEW, helpers={"bundle": 2})
        async with scene(config, tmp_path / "store", site="world:open") as made:
            scenes.append(made)
            made.invite("one")
            for _ in range(1000):
                made.lender.scrutiny.trust.passed(made.record("one"), 0)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(made.help, "one")
                assert await made.run(served.web.seeds) is Ending.FINISHED
                nursery.cancel_scope.cancel()
    assert seen > 0


@pytest.mark.virtual_time
async def test_a_site_that_is_away_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wants to see all helpers does not wait for each of a site whose server does not answer."""

    async def present(desk: Desk, name: str = "") -> list[Presence]:
        if desk.name.startswith("away/"):
            await trio.sleep_forever()
        return [Presence(name, 1)]

    monkeypatch.setattr(Desk, "present", present)
    config = Config()
    config = replace(config, helpers=replace(config.helpers, sites=("away:open", "here:open")))
    rulings = Rulings(
        helpers={f"{site}{n}": Invited(site, b"k" * 32) for site in ("away", "here") for n in range(20)}
    )
    async with memory.connect() as client:
        began = trio.current_time()
        found = await helpers(config, rulings, lambda name: Desk(client, config, name))
        assert trio.current_time() - began < 10
    assert {each["present"] for each in found if each["site"] == "away"} == {False}
    assert all("cannot be asked" in each["says"] for each in found if each["site"] == "away")
    assert {each["present"] for each in found if each["site"] == "here"} == {True}


async def test_a_page_that_cannot_be_lent_yet_is_still_to_be_tried(
    tmp_path: Path, redis_node: servers.Node
) -> None:
    """Until it is on disk how long others may ask nothing is lent, and no probe is used up by that."""
    web = Web(3, hosts=5, pages=60, plain=True, slowness=0.0)
    async with serve(web, tmp_path, latency_s=0.01) as served:
        config = configured(
            served.hosts,
            fetch={**FEW, "delay_s": 0.01},
            helpers={"sites": ("office",)},
            crawl={"name": "try"},
        )
        probes = Locality(2.0)
        probes.begin([(host_of(key(served.web.seeds[0])), "peer")], ME)
        async with scene(config, tmp_path / "store", redis=redis_node.url, probing=probes) as made:
            asked = 0
            covers = made.crawl.loans.horizon.covers

            def late(until: float) -> bool:
                """The disk is slow."""
                nonlocal asked
                asked += 1
                return covers(until) and asked > 2 * TRIES_EACH

            made.crawl.loans.horizon.covers = late  # type: ignore[method-assign]
            peer = Desk(made.client, config, of_gatherer("peer"))
            answers = Desk(made.client, config, of_gatherer(ME)).summaries
            badge = Badge("peer", AMONG_GATHERERS, AMONG_GATHERERS)
            worker = Worker(made.transport, peer.urls, lambda _: answers, badge, slots=2, follows=False)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(worker.run)
                assert await made.run(served.web.seeds) is Ending.FINISHED
                nursery.cancel_scope.cancel()
            assert made.lender.account.returned >= PAGES_EACH
        served.flush()
        assert judge(served.log, served.web).missing == frozenset()


async def test_answers_are_read_whatever_may_be_written_here(redis_node: servers.Node) -> None:
    """A desk gives out the longest answer that can be opened, and drops and counts what is longer."""
    config = Config()
    modest, generous = (
        replace(config, space=replace(config.space, max_tuple_bytes=size)) for size in (1 << 10, 8 << 20)
    )
    async with tuplespace.connect(redis_node.url) as client, tuplespace.connect(redis_node.url) as other:
        here, theirs = Desk(client, modest, "long").summaries, Desk(other, generous, "long").summaries
        await theirs.out(ANSWER, ME, "b" * 100, "h" * 100, bytes(2 << 20))
        longest = (ANSWER, ME, "b" * 100, "h" * 100, bytes(1 << 20))
        await theirs.out(*longest)
        assert await here.inp(ANSWER, ME, str, str, bytes) == longest
        assert here.unreadable == 1


async def busy(stream: trio.SocketStream, asked: list[str]) -> None:
    """A server of which one host says that it is busy; the others are slow. Who asks may go at any time."""
    with suppress(trio.BrokenResourceError):
        await _busy(stream, asked)


async def _busy(stream: trio.SocketStream, asked: list[str]) -> None:
    data = b""
    while more := await stream.receive_some(65536):
        data += more
        while b"\r\n\r\n" in data:
            head, _, data = data.partition(b"\r\n\r\n")
            if b" /robots.txt " in head:
                reply = b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"
            elif b"Host: busy.test" in head:
                asked.append(head.split()[1].decode())
                reply = b"HTTP/1.1 429 Slow\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n"
            else:
                await trio.sleep(0.05)
                reply = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nok"
            await stream.send_all(reply)


@pytest.mark.parametrize("site", ["world:open", "office"])
async def test_a_host_that_asks_for_a_rest_gets_it(tmp_path: Path, site: str) -> None:
    """Who helps is told 429 and Retry-After; nobody asks again until that is over."""
    asked: list[str] = []
    async with trio.open_nursery() as nursery:
        listeners: Sequence[trio.SocketListener] = await nursery.start(
            partial(trio.serve_tcp, partial(busy, asked=asked), 0, host="127.0.0.1")
        )
        port = listeners[0].socket.getsockname()[1]
        names = [*(f"h{number}.test" for number in range(20)), "busy.test"]
        hosts = tmp_path / "hosts"
        hosts.write_text("".join(f"127.0.0.1 {name}\n" for name in names))
        config = configured(
            hosts,
            fetch={"concurrency": 1, "per_host": 1, "per_address": 64, "max_wait_s": 600.0},
            helpers={"bundle": 4},
        )
        async with scene(config, tmp_path / "store", site=site) as made:
            made.invite("one")
            for _ in range(NEW):
                made.lender.scrutiny.trust.passed(made.record("one") or "nobody", 0)
            nursery.start_soon(made.help, "one")
            seeds = [f"http://{name}:{port}/{number}" for name in names for number in range(20)]
            with trio.move_on_after(8):
                await made.run(seeds)
            assert made.crawl.tally.helped > 10
            nursery.cancel_scope.cancel()
    # Once by whoever is asked first, and in that turn no more; a bundle is ended by the first such answer.
    assert 1 <= len(asked) <= 2


async def test_a_stranger_fills_nothing_but_its_own_time(tmp_path: Path) -> None:
    """However often a stranger says that it is there, one tuple is read of it."""
    config = configured(tmp_path / "hosts")
    (tmp_path / "hosts").touch()
    async with scene(config, tmp_path / "store", site="world:open") as made:
        desk = made.desk("one")
        good = msgpack.packb([1, 1, "x"])
        await desk.summaries.out_many([("helper", "one", good)] * 3000)
        read = 0
        page = type(desk.summaries.backend).page

        async def counted(*arguments: object) -> object:
            nonlocal read
            read += 1
            return await page(*arguments)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(desk.summaries.backend), "page", counted)
            assert await desk.present("one") == [Presence("one", 1, 1, "x")]
            assert read == 0
