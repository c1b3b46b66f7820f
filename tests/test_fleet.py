"""Several gatherers on one machine: `gcs crawl -n`, as users call it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog
import trio
from click.testing import CliRunner, Result

import cli
from gcs.config import Config
from gcs.errors import ExitCode, GcsError
from gcs.gatherer import fleet, parts
from gcs.gatherer.crawl import Ending
from gcs.gatherer.fleet import Gatherers
from gcs.gatherer.parts import Fleet
from gcs.store import directory as directories
from tests.crawling import ROOT, Server, command, server
from tests.gatherers import PACE

# What a gatherer had taken when it was killed is back soon.
LEASES = ("space.lease=2s", "fetch.connect_timeout=500ms")
QUICK = [word for each in (*PACE, "store.keep_free=0B", *LEASES) for word in ("-s", each)]
LOCAL = ("-s", "fetch.allow=127.0.0.0/8")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A small web."""
    with server(tmp_path_factory.mktemp("web"), 9, hosts=6, pages=80) as small:
        yield small


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """Another one like it, and a crawl of it by two gatherers."""
    directory = tmp_path_factory.mktemp("crawls") / "done"
    with server(tmp_path_factory.mktemp("web"), 9, hosts=6, pages=80) as served:
        line = slow(served, directory, "-n", "2", *served.web.seeds)
        ran = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False)
        assert ran.returncode == 0, ran.stderr
        assert "Finished: " in ran.stderr
        assert "by language:" in ran.stderr
        yield served, directory


def slow(served: Server, directory: Path, *options: str, delay: str = "100ms") -> list[str]:
    """The command line of a crawl that takes some seconds, by gatherers that are quick to agree."""
    line = command("crawl", *options, "--into", str(directory), hosts=served.hosts)
    return [*line, *QUICK, "-s", f"fetch.delay={delay}"]


@contextmanager
def running(served: Server, directory: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A crawl at work, which has fetched something and will not end soon."""
    before = fetched(directory)
    line = slow(served, directory, *options, delay="400ms")
    with subprocess.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: fetched(directory) > before, "a page")
            yield process
        finally:
            process.kill()


def run(*arguments: str) -> Result:
    """A command that is quick, run in this process."""
    before = structlog.get_config()
    ran = CliRunner().invoke(cli.main, arguments)
    structlog.configure(**before)
    return ran


def refused(*arguments: str) -> tuple[int, str]:
    """The exit code and the only line of a command that is refused."""
    ran = run(*arguments)
    (sentence,) = ran.output.splitlines()
    return ran.exit_code, sentence


def fetched(directory: Path) -> int:
    """How many lines the gatherers' logs of fetches have."""
    return sum(len(log.read_text().splitlines()) for log in directory.glob("*/crawl.log"))


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for something."""
    deadline = time.monotonic() + 150
    while not condition():
        assert time.monotonic() < deadline, f"{what} was waited for in vain"
        time.sleep(0.05)


def pids(directory: Path) -> list[int]:
    """The gatherers' processes, or 0 for one that is about to begin."""
    return [int(lock.read_text() or 0) for lock in sorted(directory.glob("[0-9]/lock"))]


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_to_the_end(crawled: tuple[Server, Path]) -> None:
    """Two gatherers fetch everything, and nothing twice."""
    served, directory = crawled
    verdict = served.judged()
    assert (verdict.coverage, verdict.duplicates, verdict.forbidden) == (1.0, 0, {})
    assert [each.name for each in parts.parts(directory)] == ["1", "2"]
    assert not (directory / "seeds").exists()


def test_why(crawled: tuple[Server, Path]) -> None:
    """`gcs why` finds the gatherer that has a URL, not one that passed it on."""
    served, directory = crawled
    for seed in served.web.seeds:
        told = json.loads(run("why", seed, "--into", str(directory), "--json").stdout)
        assert (told["state"], told["via"]) == ("done", "seed")
    picture = json.loads(run("why", f"{seed}x.jpg", "--into", str(directory), "--json").stdout)
    assert (picture["state"], picture["rule"]) == ("unknown", "crawl.skip has jpg")


def test_export(crawled: tuple[Server, Path], tmp_path: Path) -> None:
    """What is exported is what all gatherers have kept, each page once."""
    _, directory = crawled
    out = tmp_path / "out.jsonl"
    assert run("export", "jsonl", "--into", str(directory), "-o", str(out)).exit_code == 0
    urls = [json.loads(line)["url"] for line in out.read_text().splitlines()]
    assert len(urls) == len(set(urls)) > 80
    warcs = run("export", "warc", "--into", str(directory)).stdout.splitlines()
    assert sorted(map(Path, warcs)) == sorted(directory.glob("[12]/warc/*.warc.gz"))


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["http://127.0.0.1:9/", "-n", "2"], 7, "already holds a crawl"),
        (["http://127.0.0.1:9/"], 7, "already holds a crawl"),
        (["--resume", "-n", "1"], 2, "begun with several gatherers"),
        (["--resume", "-s", "redis.url=redis://127.0.0.1:1"], 3, "leave redis.url out"),
        (["--resume", "http://93.184.215.14/"], 3, "fetch.agent must name your crawler"),
    ],
)
def test_a_directory_that_is_used(
    options: list[str], code: int, sentence: str, crawled: tuple[Server, Path]
) -> None:
    """What does not fit to the crawl in a directory is refused with one sentence."""
    ended, said = refused("crawl", *options, "--into", str(crawled[1]))
    assert (ended, sentence in said) == (code, True), said


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        ([], 2, "give at least one URL"),
        (["--resume"], 2, "give at least one URL"),
        (["gopher://a.test/"], 2, "cannot be crawled"),
        (["http://93.184.215.14/"], 3, "fetch.agent must name your crawler"),
        (["http://127.0.0.1:9/", "--scope", "-regex:("], 3, "crawl.scope"),
        (["http://127.0.0.1:9/", "--expansion", "/dev/null"], 2, "is for one gatherer"),
    ],
)
def test_what_cannot_be_begun(options: list[str], code: int, sentence: str, tmp_path: Path) -> None:
    """What is refused is refused before anything is made on disk."""
    ended, said = refused("crawl", *options, *LOCAL, "-n", "2", "--into", str(tmp_path / "c"))
    assert (ended, sentence in said) == (code, True), said
    assert not (tmp_path / "c").exists()


def test_other_directories(tmp_path: Path) -> None:
    """Neither somebody else's files nor the crawl of one gatherer become part of a crawl by several."""
    (tmp_path / "mine").write_text("")
    code, said = refused("crawl", "http://127.0.0.1:9/", *LOCAL, "-n", "2", "--into", str(tmp_path))
    assert (code, "is not empty and holds no crawl" in said) == (7, True)
    (tmp_path / "format").write_text(directories.format_line())
    code, said = refused("crawl", "--resume", "-n", "2", "--into", str(tmp_path))
    assert (code, "was begun with one gatherer" in said) == (2, True)


def test_fewer_gatherers(tmp_path: Path) -> None:
    """Gatherers that hold something cannot be left out."""
    Fleet(gatherers=3, settings=["fetch.delay=0s"], private=True, own_server=True).remember(tmp_path)
    (tmp_path / "3").mkdir()
    assert parts.number(tmp_path, 2, resume=True) == 2  # it had not even begun
    (tmp_path / "3" / "format").write_text(directories.format_line())
    with pytest.raises(GcsError, match="drain that gatherer first"):
        parts.number(tmp_path, 2, resume=True)
    assert parts.number(tmp_path, None, resume=True) == 3


@pytest.mark.parametrize("text", ["{}", "[", '{"version": 1}', '{"version": 99}'])
def test_what_cannot_be_read(text: str, tmp_path: Path) -> None:
    """What another version has written, or nobody, is refused with a sentence."""
    (tmp_path / "fleet.json").write_text(text)
    with pytest.raises(GcsError, match="choose another directory"):
        Fleet.of(tmp_path)


def test_disasters(tmp_path: Path) -> None:
    """A gatherer that is killed is started again, none outlives its parent, and no signal loses anything."""
    directory = tmp_path / "c"
    with server(tmp_path / "web", 5, hosts=8, pages=120) as served:
        with running(served, directory, "-n", "2", *served.web.seeds) as process:
            first = pids(directory)[0]
            lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids(directory)]
            assert not any(b"unix:" in line for line in lines)
            os.kill(first, signal.SIGKILL)
            until(lambda: pids(directory)[0] not in (0, first), "another process")
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=90)
            assert process.returncode == 130, said
            assert "finish what is under way" in said
            assert f"gcs crawl --resume --into {directory}" in said
            assert not any(map(is_alive, pids(directory)))
        line = slow(served, directory, "--resume")
        with subprocess.Popen(line, cwd=ROOT, stderr=subprocess.DEVNULL) as parent:
            until(lambda: all(map(is_alive, pids(directory))), "two gatherers")
            parent.kill()
        until(lambda: not any(map(is_alive, pids(directory))), "the end of all")
        line = [sys.executable, "-m", "cli", "crawl", "--resume", "-n", "3", "--into", str(directory)]
        line += ["-s", "fetch.delay=0s"]
        ended = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False)
        assert ended.returncode == 0, ended.stderr
        assert (directory / "3" / "format").exists()
        verdict = served.judged()
        assert (verdict.coverage, verdict.forbidden) == (1.0, {})


def test_stopping_at_once(served: Server, tmp_path: Path) -> None:
    """A second signal does not wait for what is under way."""
    directory = tmp_path / "c"
    with running(served, directory, "-n", "2", *served.web.seeds) as process:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=90)
        assert (process.returncode, "goes on with it" in said) == (130, True)
        until(lambda: not any(map(is_alive, pids(directory))), "the end of all")


def test_limits(served: Server, tmp_path: Path) -> None:
    """A crawl that stops at a limit says how to go on, and remembers its settings."""
    directory = tmp_path / "c"
    line = slow(served, directory, "-n", "2", "--max-pages", "5", *served.web.seeds)
    ran = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False)
    assert ran.returncode == 5, ran.stderr
    assert "The limit of pages was reached" in ran.stderr
    assert f"gcs crawl --resume --into {directory}" in ran.stderr
    remembered = Fleet.of(directory)
    assert remembered is not None
    assert (remembered.gatherers, remembered.private, remembered.own_server) == (2, True, True)
    assert {"fetch.delay=100ms", "member.heartbeat=200ms"} < set(remembered.settings)


def gathered(
    monkeypatch: pytest.MonkeyPatch, directory: Path, script: str, **options: Callable[[], bool]
) -> Gatherers:
    """Two gatherers that are only a script, after their end."""
    monkeypatch.setattr("gcs.children.PROGRAM", ("/bin/sh", "-c", script))

    async def ran() -> Gatherers:
        group = Gatherers(Config(), directory, 2, **options)
        await group.run()
        return group

    return trio.run(ran)


def starts(directory: Path) -> Sequence[int]:
    """How often each was started."""
    return [len((directory / f"{number}.log").read_text().splitlines()) for number in (1, 2)]


def test_one_that_dies_often(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A gatherer that dies again and again is given up, and the others are stopped."""
    script = f'echo x; case "$4" in {tmp_path}/1) exit 1;; esac; exec sleep 60'
    group = gathered(monkeypatch, tmp_path, script.replace("$4", "$2"))
    assert group.trouble == (
        f"The gatherer g1 cannot go on; {tmp_path / '1.log'} says why.",
        ExitCode.LIMIT,
    )
    assert starts(tmp_path) == [fleet.RESTARTS + 1, 1]


def test_one_that_cannot_begin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A gatherer whose configuration is wrong is not tried again."""
    group = gathered(monkeypatch, tmp_path, "echo x; exit 3")
    assert group.trouble is not None
    assert group.trouble[1] is ExitCode.CONFIG
    assert starts(tmp_path) == [1, 1]


def test_a_server_that_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """When the private server is gone, all stop."""
    group = gathered(monkeypatch, tmp_path, "exec sleep 60", is_served=lambda: False)
    assert group.trouble is not None
    assert group.trouble[1] is ExitCode.REDIS
    assert group.ending is Ending.INTERRUPTED
