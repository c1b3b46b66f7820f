"""A crawl that is killed at any moment loses nothing, and tears nothing."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import pyarrow.parquet as pq
from warcio.archiveiterator import ArchiveIterator

from tests.crawling import ROOT, command, server

KILLS = 6
"""The soak does more of them."""
IN_FLIGHT = 16
BATCH = 320
"""What was fetched and not committed: two batches at most, and what workers were at."""


def warc_uris(directory: Path) -> list[str]:
    """Every response that was kept, with digests checked."""
    found = []
    for path in sorted((directory / "warc").glob("*.warc.gz")):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, check_digests="raise"):
                record.content_stream().read()
                if record.rec_type in ("response", "revisit"):
                    found.append(str(record.rec_headers.get_header("WARC-Target-URI")))
    return found


def test_killed_and_resumed(tmp_path: Path) -> None:
    """Killed again and again and resumed each time, a crawl ends complete, with every record whole."""
    chance = random.Random(1)
    directory = tmp_path / "crawl"
    with server(tmp_path / "web", 8, hosts=20, pages=900) as served:
        crawl = ["crawl", *served.web.seeds, "--into", str(directory), "--resume"]
        line = command(*crawl, "-s", f"fetch.concurrency={IN_FLIGHT}", hosts=served.hosts)
        kills = 0
        for _ in range(KILLS):
            with subprocess.Popen(line, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
                time.sleep(1.0 + chance.random())
                process.send_signal(signal.SIGKILL)
                kills += process.wait() == -signal.SIGKILL
            warc_uris(directory)
        last = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
        verdict = served.judged()
    assert last.returncode == 0, last.stderr
    assert kills > 1
    assert verdict.missing == frozenset()
    assert verdict.duplicates <= kills * (IN_FLIGHT + BATCH)
    kept = warc_uris(directory)
    assert len(kept) == len(set(kept))
    summaries = pq.read_table(directory / "summaries")["url"].to_pylist()
    assert len(summaries) == len(set(summaries))
    assert served.web.truth().pages <= set(summaries)
