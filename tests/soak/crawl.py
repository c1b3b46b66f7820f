"""The act `crawl`: a crawl that is killed at random moments and resumed each time loses and tears nothing."""

from __future__ import annotations

import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from warcio.archiveiterator import ArchiveIterator

from gcs.gatherer.crawl import READ_AT_ONCE, UNREAD
from gcs.gatherer.writer import BATCH
from tests.crawling import ROOT, Server, command, server
from tests.soak import Failed
from tests.soak.progress import Progress

CONCURRENCY: Final = 16
AGAIN: Final = CONCURRENCY + UNREAD + 2 * (BATCH + READ_AT_ONCE)
"""Pages that one kill may have fetched again: what was under way or not read yet, a batch that was being
filled and one that was being written."""
PAGES_PER_KILL: Final = 250


def kill_crawl(kills: int, rng: random.Random, progress: Progress) -> str:
    """Kill a crawl again and again; gives the verdict or raises Failed."""
    with tempfile.TemporaryDirectory() as place:
        pages = PAGES_PER_KILL * (kills + 1)
        with server(Path(place, "web"), rng.randrange(1000), hosts=20, pages=pages) as served:
            return _rage(Path(place, "crawl"), served, kills, rng, progress)


def _rage(directory: Path, served: Server, kills: int, rng: random.Random, progress: Progress) -> str:
    crawl = ["crawl", *served.web.seeds, "--into", str(directory), "--resume"]
    line = command(*crawl, "-s", f"fetch.concurrency={CONCURRENCY}", hosts=served.hosts)
    killed = 0
    for number in range(kills):
        progress.show(f"crawl: kill {number + 1} of {kills}", time.monotonic())
        with subprocess.Popen(line, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
            enough = _fetched(served) + rng.randrange(PAGES_PER_KILL // 2)
            while process.poll() is None and _fetched(served) <= enough:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
        pages_kept(directory)
    last = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    if last.returncode:
        raise Failed(f"the last run ended with {last.returncode}: {last.stderr[-500:]}")
    return _verdict(directory, served, killed)


def _fetched(served: Server) -> int:
    """Requests that were answered so far."""
    return served.log.read_bytes().count(b"\n")


def _verdict(directory: Path, served: Server, killed: int) -> str:
    seen = served.judged()
    kept = pages_kept(directory)
    summaries = pq.read_table(directory / "summaries")["url"].to_pylist()
    problems = [
        f"{len(seen.missing)} pages missing" if seen.missing else "",
        f"{seen.duplicates} pages fetched again" if seen.duplicates > killed * AGAIN else "",
        "pages kept twice" if len(kept) > len(set(kept)) else "",
        "summaries kept twice" if len(summaries) > len(set(summaries)) else "",
        "summaries missing" if not served.web.truth().pages <= set(summaries) else "",
        "it was hardly ever killed" if killed < 2 else "",
    ]
    if any(problems):
        raise Failed(", ".join(filter(None, problems)))
    each = seen.duplicates / killed
    return (
        f"{killed} kills, {seen.pages:,} pages, coverage {seen.coverage:.4f}, "
        f"{seen.duplicates} fetched again ({each:.0f} a kill, at most {AGAIN} may be), every record whole"
    )


def pages_kept(directory: Path) -> list[str]:
    """Every response that was kept, all digests checked."""
    found = []
    for path in sorted((directory / "warc").glob("*.warc.gz")):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, check_digests="raise"):
                record.content_stream().read()
                if record.rec_type in ("response", "revisit"):
                    found.append(str(record.rec_headers.get_header("WARC-Target-URI")))
    return found
