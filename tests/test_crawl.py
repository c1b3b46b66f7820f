"""One gatherer crawls a synthetic web over real HTTP, and is judged by what the servers saw."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from warcio.archiveiterator import ArchiveIterator

from gcs.core import traps
from gcs.gatherer.crawl import Ending, Limits
from gcs.simulate.verdict import read_log
from gcs.simulate.web import Web, judge
from gcs.simulate.webserver import serve
from gcs.store.records import State
from gcs.store.store import Store
from tests.crawling import configured, crawl, server

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
        # To where the robots.txt of another host is moved, a request goes outside of the host's turns, for
        # which a moment is reserved. On a busy machine it is not sent at that moment.
        in_turns = [request for request in read_log(served.log) if request.target != MOVED_ROBOTS]
    assert 1 < max(verdict.most_at_once.values()) <= 3
    assert max(verdict.most_at_once_at_address.values()) <= config.fetch.per_address
    assert min(judge(in_turns, served.web).closest_s.values()) > 0.02 - TOLERANCE_S


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
    assert pq.read_table(directory / "links").num_rows > 1000


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
