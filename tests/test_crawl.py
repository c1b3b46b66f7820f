"""One gatherer crawls a synthetic web over real HTTP, and is judged by what the servers saw."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import trio
from warcio.archiveiterator import ArchiveIterator

from gcs.core import traps
from gcs.core.robots import MAX_REDIRECTS
from gcs.core.urls import key
from gcs.gatherer import inquiries
from gcs.gatherer.crawl import Ending, Limits
from gcs.simulate.verdict import read_log
from gcs.simulate.web import Web, judge
from gcs.simulate.webserver import serve
from gcs.store.records import State
from gcs.store.store import Store
from tests.crawling import configured, crawl, server
from tests.scripted import Peer, ok
from tests.scripted import serve as serve_script

# The kernel stamps what arrives, so that no scheduling is in it: this is for clocks that are being set.
TOLERANCE_S = 0.001
MOVED_ROBOTS = "/static/robots.txt"


async def test_a_whole_web_politely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page is fetched once, nothing that is forbidden, and no host sooner than it may be asked."""
    monkeypatch.setattr(traps, "SLOWED_FROM", {"exact": 20, "shape": 20})
    monkeypatch.setattr(traps, "DROPPED_FROM", {"exact": 40, "shape": 40})
    web = Web(3, hosts=12, pages=150, slowness=0.1)
    async with serve(web, tmp_path) as served:
        config = configured(served.hosts, fetch={"delay_s": 0.02, "delay_factor": 1.0, "max_delay_s": 0.3})
        ending = await crawl(config, served.web.seeds, tmp_path / "crawl")
        served.flush()
        verdict = judge(served.log, served.web)
    assert ending is Ending.FINISHED
    assert verdict.missing == frozenset()
    assert verdict.repeated == {}
    assert verdict.forbidden == {}
    assert verdict.unannounced == frozenset()
    assert verdict.hidden == frozenset()
    assert verdict.hurried == {}
    assert max(verdict.most_at_once.values()) == 1


@pytest.mark.alone
async def test_requests_keep_their_distance(tmp_path: Path) -> None:
    """As the servers see it, requests to a host, and to an address, start as far apart as they must."""
    with server(tmp_path, 6, hosts=6, pages=50) as served:
        config = configured(served.hosts, fetch={"delay_s": 0.1, "delay_factor": 0.0})
        assert (
            await crawl(config, served.web.seeds, tmp_path / "crawl", limits=Limits(pages=60)) is Ending.PAGES
        )
        verdict = served.judged()
    closest = min((*verdict.closest_s.values(), *verdict.closest_at_address_s.values()))
    assert closest > 0.1 - TOLERANCE_S
    assert max(verdict.most_at_once_at_address.values()) == 1


@pytest.mark.alone
async def test_several_at_a_time_keep_their_distance_too(tmp_path: Path) -> None:
    """A slow host that may have several requests under way has them, each a delay after the last one."""
    with server(tmp_path, 3, hosts=20, pages=300, plain=False, slowness=0.3) as served:
        config = configured(served.hosts, fetch={"delay_s": 0.02, "delay_factor": 0.0, "per_host": 3})
        await crawl(config, served.web.seeds, tmp_path / "crawl", limits=Limits(seconds=4))
        verdict = served.judged()
    assert 1 < max(verdict.most_at_once.values()) <= 3
    assert max(verdict.most_at_once_at_address.values()) <= config.fetch.per_address
    assert min(verdict.closest_s.values()) > 0.02 - TOLERANCE_S


@pytest.mark.alone
async def test_rules_that_others_have_are_asked_for_in_their_turns(tmp_path: Path) -> None:
    """Hosts whose robots.txt leads to another one add to its requests, and these keep their distance."""
    with server(tmp_path, 3, hosts=240, pages=1500, plain=False) as served:
        config = configured(served.hosts, fetch={"delay_s": 0.01, "delay_factor": 0.0, "concurrency": 128})
        await crawl(config, served.web.seeds, tmp_path / "crawl", limits=Limits(seconds=10))
        verdict = served.judged()
        first = served.web.hosts[0].name
        moved = [each for each in read_log(served.log) if each.target == MOVED_ROBOTS]
    assert sum(each.host == first for each in moved) > 1
    assert sum(each.host != first for each in moved) > 1
    closest = min((*verdict.closest_s.values(), *verdict.closest_at_address_s.values()))
    assert closest > 0.01 - TOLERANCE_S


REDIRECTED = 30


@pytest.mark.parametrize("delay_s", [0.0, 0.005])
async def test_rules_that_are_elsewhere(delay_s: float, tmp_path: Path) -> None:
    """Two hosts that send us to each other have no rules; one that many send us to is asked once for all.

    Nothing else is asked of a host that is only asked for others, and none waits for ever.
    """
    asked: list[tuple[str, str]] = []

    def location(host: str, target: str) -> str:
        if target != "/robots.txt" or host in ("c.example", "d.example"):
            return ""
        return {"a.example": "b.example", "b.example": "a.example"}.get(host, "c.example")

    async def script(peer: Peer) -> None:
        while request := await peer.request():
            target = request.split(b" ")[1].decode()
            host = re.findall(rb"(?i)host: ([^:\r]*)", request)[0].decode()
            asked.append((host, target))
            if to := location(host, target):
                where = f"http://{to}:{peer.server.port}/robots.txt".encode()
                answer = b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % where
            elif target == "/robots.txt":
                answer = ok(b"User-agent: *\nDisallow: /closed", b"Content-Type: text/plain")
            else:
                answer = ok(b"<title>A page</title>", b"Content-Type: text/html")
            await peer.send(answer)

    senders = [f"s{number}.example" for number in range(REDIRECTED)]
    names = ["a.example", "b.example", *senders]
    (tmp_path / "hosts").write_text("".join(f"127.0.0.1 {name}\n" for name in (*names, "c.example")))
    with trio.fail_after(60):
        async with serve_script(script) as there:
            config = configured(tmp_path / "hosts", fetch={"delay_s": delay_s, "delay_factor": 0.0})
            seeds = [f"http://{name}:{there.port}/{page}" for name in names for page in ("open", "closed")]
            assert await crawl(config, seeds, tmp_path / "crawl") is Ending.FINISHED
    pages = {each for each in asked if each[1] != "/robots.txt"}
    of_two = {(name, page) for name in ("a.example", "b.example") for page in ("/open", "/closed")}
    assert pages == of_two | {(name, "/open") for name in senders}
    robots = Counter(host for host, target in asked if target == "/robots.txt")
    assert {robots[name] for name in senders} == {1}
    assert robots["a.example"] + robots["b.example"] <= 2 * (MAX_REDIRECTS + 1)
    assert 1 <= robots["c.example"] < REDIRECTED


async def test_rules_are_not_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a host that has the rules of another rests for long, the other one is asked again later."""
    monkeypatch.setattr(inquiries, "ERRAND_S", 0.2)
    said: list[str] = []

    async def script(peer: Peer) -> None:
        while request := await peer.request():
            target = request.split(b" ")[1].decode()
            at_busy = b"busy.example" in request
            if target == "/robots.txt":
                said.append("busy" if at_busy else "sender")
            if target == "/robots.txt" and not at_busy:
                where = f"http://busy.example:{peer.server.port}/elsewhere".encode()
                await peer.send(b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % where)
            elif target == "/pause" and "pause" not in said:
                said.append("pause")
                await peer.send(b"HTTP/1.1 503 Not now\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n", b"")
            else:
                await peer.send(ok(b"User-agent: *\nDisallow: /closed", b"Content-Type: text/plain"))

    (tmp_path / "hosts").write_text("127.0.0.1 busy.example\n127.0.0.1 sender.example\n")
    with trio.fail_after(60):
        async with serve_script(script) as there:
            config = configured(tmp_path / "hosts", fetch={"max_wait_s": 1.0})
            seeds = [f"http://busy.example:{there.port}/pause", f"http://sender.example:{there.port}/open"]
            await crawl(config, seeds, tmp_path / "crawl", limits=Limits(seconds=8))
    with Store.open(tmp_path / "crawl", config.store, resume=True) as store:
        row = store.get(key(seeds[1]))
    assert row is not None
    assert row.state is State.DONE
    assert row.attempts > 1
    assert said.count("sender") > 1


async def test_everything_is_kept(tmp_path: Path) -> None:
    """Every fetch has its WARC records, its line in the log and its row; every page its summary and links."""
    web = Web(4, hosts=6, pages=60, plain=True, slowness=0)
    async with serve(web, tmp_path) as served:
        config = configured(served.hosts)
        assert await crawl(config, served.web.seeds, tmp_path / "crawl") is Ending.FINISHED
        truth = served.web.truth()
    directory = tmp_path / "crawl"
    with Store.open(directory, config.store, resume=True) as store:
        done = {key: row for key, row in store.scan("") if row.state is State.DONE}
        counts = store.counts()
    assert counts.queued == 0
    assert len(done) == counts.done
    responses = []
    for path in (directory / "warc").glob("*.warc.gz"):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, check_digests="raise"):
                record.content_stream().read()
                if record.rec_type in ("response", "revisit"):
                    responses.append(record.rec_headers.get_header("WARC-Target-URI"))
    assert len(responses) == len(set(responses)) == counts.done
    assert truth.pages <= set(responses)
    lines = (directory / "crawl.log").read_text().splitlines()
    assert len(lines) == counts.done + counts.dropped
    assert all(len(line.split()) == 12 for line in lines)
    summaries = pq.read_table(directory / "summaries")
    assert truth.pages <= set(summaries["url"].to_pylist())
    links = pq.read_table(directory / "links").to_pylist()
    assert len(links) > 1000
    visits = pq.read_table(directory / "summaries", columns=["url", "fetched_at"]).to_pylist()
    fetched = {(each["url"], round(each["fetched_at"].timestamp() * 1e6)) for each in visits}
    assert {(each["source"], each["fetched_us"]) for each in links} <= fetched
    first = [(each["source"], each["target"]) for each in links if not each["repeated"]]
    assert len(first) == len(set(first)) < len(links)
    assert set(first) == {(each["source"], each["target"]) for each in links}


async def test_limits_and_resuming(tmp_path: Path) -> None:
    """A crawl that stops at a limit goes on where it stopped, and in the end has fetched everything once."""
    web = Web(5, hosts=5, pages=60, plain=True, slowness=0)
    endings = []
    async with serve(web, tmp_path) as served:
        config = configured(served.hosts, summary={"level": "links"}, store={"pages": "none"})
        for _ in range(20):
            ending = await crawl(config, served.web.seeds, tmp_path / "crawl", limits=Limits(pages=20))
            endings.append(ending)
            if ending is Ending.FINISHED:
                break
        served.flush()
        verdict = judge(served.log, served.web)
    assert endings[0] is Ending.PAGES
    assert endings[-1] is Ending.FINISHED
    assert verdict.missing == frozenset()
    assert verdict.repeated == {}
