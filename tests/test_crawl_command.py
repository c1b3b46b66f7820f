"""`gcs crawl` and the commands around it, as users call them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crawling import ROOT, Server, command, gcs, gcs_here, server


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A small web that the tests of this module share."""
    with server(tmp_path_factory.mktemp("web"), 9, hosts=5, pages=80) as running:
        yield running


@pytest.fixture(scope="module")
def crawled(served: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl of it."""
    directory = tmp_path_factory.mktemp("crawls") / "done"
    ran = gcs("crawl", *served.web.seeds, "--into", str(directory), hosts=served.hosts)
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"Finished: \d+ pages", ran.stderr)
    assert "by language:" in ran.stderr
    return directory


def test_a_directory_that_is_used(crawled: Path, served: Server) -> None:
    """A directory with a crawl in it is refused with one sentence, unless it is to be resumed."""
    refused = gcs("crawl", *served.web.seeds, "--into", str(crawled), hosts=served.hosts)
    assert refused.returncode == 7
    assert len(refused.stderr.splitlines()) == 1
    assert "already holds a crawl" in refused.stderr
    again = gcs("crawl", "--into", str(crawled), "--resume", hosts=served.hosts)
    assert again.returncode == 0
    assert " 0 queued" in again.stderr


def test_limits(served: Server, tmp_path: Path) -> None:
    """A crawl that stops at a limit says how to go on, with an exit code of its own."""
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("# where to begin\n\n" + "\n".join(served.web.seeds))
    ran = gcs(
        "crawl", "--seeds", str(seeds), "--max-pages", "10", "--into", str(tmp_path / "c"), hosts=served.hosts
    )
    assert ran.returncode == 5
    assert "The limit of pages was reached" in ran.stderr
    assert f"gcs crawl --resume --into {tmp_path / 'c'}" in ran.stderr
    timed = gcs("crawl", "--into", str(tmp_path / "c"), "--resume", "--max-time", "1ms", hosts=served.hosts)
    assert timed.returncode in (0, 5)


def test_a_resumed_crawl_keeps_its_settings(served: Server, tmp_path: Path) -> None:
    """What was said when a crawl began holds when it goes on, unless something else is said then."""
    seed, into = served.web.seeds[0], ("--into", str(tmp_path / "c"))
    host = seed.removeprefix("http://").partition(":")[0]
    begun = gcs("crawl", seed, "--max-pages", "3", "--scope", f"+host:{host}", *into, hosts=served.hosts)
    assert begun.returncode == 5
    assert "Finished" not in begun.stderr
    line = [sys.executable, "-m", "cli", "crawl", "--resume", *into]
    resumed = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert resumed.returncode == 0, resumed.stderr
    (hosts,) = re.findall("by host: +(.*)", resumed.stderr)
    assert hosts.split()[0].startswith(host)
    assert len(hosts.split()) == 2
    other = next(each.name for each in served.web.hosts if each.name != host)
    told = json.loads(gcs_here("why", f"http://{other}:{served.web.port}/", *into, "--json").stdout)
    assert told["rule"] == "no rule takes it in"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ([], 2, "give at least one URL"),
        (["gopher://a.test/"], 2, "cannot be crawled"),
        (["htp:/x"], 2, "the scheme 'htp' is none of http, https, file, nntp, nntps, ftp, sftp, s3, db"),
        (["http://93.184.215.14/"], 3, "fetch.agent must name your crawler"),
        (["--seeds", "/missing/file"], 2, "cannot be read"),
        (["http://127.0.0.1:9/", "--scope", "nonsense"], 3, "crawl.scope"),
        (["http://127.0.0.1:9/", "--scope", "-regex:("], 3, "crawl.scope"),
        (["http://127.0.0.1:9/", "--expansion", "/missing/file"], 2, "expansion cannot be read"),
        (["http://127.0.0.1:9/", "--max-time", "soon"], 2, "not a duration"),
    ],
)
def test_what_cannot_be_begun(arguments: list[str], code: int, sentence: str, tmp_path: Path) -> None:
    """What is wrong with the command line or the configuration is one sentence."""
    ran = gcs_here("crawl", *arguments, "--into", str(tmp_path / "c"))
    assert ran.exit_code == code
    assert sentence in ran.stderr
    assert isinstance(ran.exception, SystemExit)
    # The next try, with what was missing, is not refused for what this one left behind.
    assert not (tmp_path / "c").exists()


def test_no_seed_answers(tmp_path: Path) -> None:
    """When not one seed can be fetched, that has an exit code of its own."""
    ran = gcs("crawl", "http://127.0.0.1:9/", "--into", str(tmp_path / "c"))
    assert ran.returncode == 6
    assert "No seed could be fetched" in ran.stderr


def test_interrupting(served: Server, tmp_path: Path) -> None:
    """Ctrl-C drains and says how to go on; what is there then can be resumed to the end."""
    slow = command("crawl", *served.web.seeds, "--into", str(tmp_path / "c"), hosts=served.hosts)
    slow += ["-s", "fetch.delay=300ms"]
    with subprocess.Popen(slow, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        log = tmp_path / "c" / "crawl.log"
        while not log.exists() or not log.stat().st_size:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=90)
    assert process.returncode == 130
    assert "--resume" in said
    resumed = gcs("crawl", "--resume", "--into", str(tmp_path / "c"), hosts=served.hosts)
    assert resumed.returncode == 0


def test_stopping_at_once(served: Server, tmp_path: Path) -> None:
    """A second Ctrl-C does not wait for what is under way."""
    listener = ["-s", "fetch.delay=300ms"]
    line = command("crawl", *served.web.seeds, "--into", str(tmp_path / "c"), hosts=served.hosts) + listener
    with subprocess.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        log = tmp_path / "c" / "crawl.log"
        while not log.exists() or not log.stat().st_size:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=90)
    assert process.returncode == 130


def test_why(crawled: Path, served: Server) -> None:
    """`gcs why` says where a URL stands, how it was found, or which rule keeps it out."""
    seed = served.web.seeds[0]
    ran = gcs_here("why", seed, "--into", str(crawled), "--json")
    assert ran.exit_code == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert (told["state"], told["status"], told["via"]) == ("done", 200, "seed")
    picture = json.loads(gcs_here("why", f"{seed}x.jpg", "--into", str(crawled), "--json").stdout)
    assert (picture["state"], picture["rule"]) == ("unknown", "crawl.skip has jpg")
    nowhere = gcs_here("why", seed, "--into", str(crawled.parent / "nothing"))
    assert nowhere.exit_code == 2
    assert "holds no crawl" in nowhere.stderr


@pytest.mark.parametrize("kind", ["jsonl", "sml", "parquet", "csv", "warc"])
def test_export(crawled: Path, kind: str, tmp_path: Path) -> None:
    """Whatever was kept can be written in every format, to a file or to standard output."""
    output = tmp_path / "out"
    ran = gcs_here("export", kind, "--into", str(crawled), "-o", str(output))
    assert ran.exit_code == 0, ran.stderr
    count = int(ran.stderr.split()[0].replace(",", ""))
    assert count > 0
    content = output.read_bytes()
    starts = {"jsonl": b'{"url"', "sml": b"<?xml", "parquet": b"PAR1", "csv": b"source,", "warc": b"/"}
    assert content.startswith(starts[kind])
    if kind == "jsonl":
        assert len([json.loads(line) for line in content.splitlines()]) == count


def test_checks(served: Server) -> None:
    """`gcs check` says what would be made of a URL."""
    told = json.loads(gcs_here("check", "url", "HTTP://www.Example.org:80/a/../b#c", "--json").stdout)
    assert told["url"] == "http://www.example.org/b"
    assert told["surt"] == "org,example,www)/b"
    scope = gcs_here("check", "scope", "http://a.test/login", "-s", "crawl.scope=-regex:login")
    assert "in scope:      no" in scope.stdout
    seed = served.web.seeds[0]
    robots = json.loads(gcs_here("check", "robots", seed, "--json", hosts=served.hosts).stdout)
    assert robots["allowed"] is True
    assert gcs_here("check", "url", "http://[nonsense").exit_code == 2


def test_doctor(tmp_path: Path) -> None:
    """`gcs doctor` looks at everything, and its exit code says whether something is wrong."""
    well = gcs_here("doctor", "--into", str(tmp_path))
    assert well.exit_code == 0
    assert "open files" in well.stdout
    assert "DNS" in well.stdout
    ill = gcs_here("doctor", "--into", str(tmp_path), "--json", "-s", "redis.url=redis://127.0.0.1:1/0")
    assert ill.exit_code == 4
    assert {finding["what"]: finding["grade"] for finding in json.loads(ill.stdout)}["Redis"] == "error"
    full = gcs_here("doctor", "--into", str(tmp_path), "-s", "store.keep_free=1000000GiB")
    assert full.exit_code == 7
    nameless = gcs_here("doctor", "--into", str(tmp_path), "--host", "no-such-host.invalid")
    assert nameless.exit_code == 5
    assert os.sep in full.stdout
