"""`gcs crawl --monitor`: the page of one crawl, with nothing to set up."""

from __future__ import annotations

import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from gcs.errors import ExitCode
from gcs.gatherer import parts, session
from gcs.gatherer.crawl import FINDINGS
from gcs.gatherer.findings import Findings
from gcs.store.view import View as StoreView
from tests.crawling import ROOT, command, gcs, server
from tests.monitors import PATIENCE_S, until


def found_in(directory: Path) -> int:
    """Answers by place, as the gatherers have kept them."""
    total = 0
    for each in parts.parts(directory):
        with StoreView(each) as view:
            kept = view.get_meta(FINDINGS)
            total += Findings.from_bytes(kept).places.total() if kept else 0
    return total


def pages_of(directory: Path) -> int:
    """All answers."""
    return sum(session.tally_of(each).pages for each in parts.parts(directory))


@pytest.mark.parametrize("gatherers", ["1", "2"])
def test_a_crawl_with_its_page(tmp_path: Path, gatherers: str) -> None:
    """The page is there while it crawls, and until Ctrl-C; all that was found is kept for the next time."""
    into = str(tmp_path / "crawl")
    with server(tmp_path / "web", 5, 5, 40) as served:
        line = command("crawl", *served.web.seeds, "--into", into, "-n", gatherers, hosts=served.hosts)
        for each in ("monitor.listen=127.0.0.1:0", "member.heartbeat=200ms", "store.keep_free=0B"):
            line += ["-s", each]
        line += ["--monitor", "--stay"]
        with (
            subprocess.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, text=True) as child,
            ExitStack() as stack,
        ):
            # It stays when something here fails.
            stack.callback(child.kill)
            assert child.stderr is not None
            said: list[str] = []
            while not (said and said[-1].startswith("To look only: ")):
                said.append(child.stderr.readline())
                assert said[-1], said
            url, _, token = said[-2].split()[1].partition("#token=")
            with httpx.Client(base_url=f"{url}api/", headers={"authorization": f"Bearer {token}"}) as client:
                until(lambda: client.get("overview").json()["state"] == "finished")
                until(lambda: client.get("languages").json()["pages"] > 0)
                assert client.get("overview").json()["gatherers"]["present"] in (0, int(gatherers))
            while "stays until Ctrl-C" not in child.stderr.readline():
                pass
            child.send_signal(signal.SIGINT)
            assert child.wait(PATIENCE_S) == ExitCode.OK
        assert found_in(tmp_path / "crawl") == pages_of(tmp_path / "crawl") > 40
        again = gcs("crawl", "--resume", "--into", into, "-s", "store.keep_free=0B", hosts=served.hosts)
        assert again.returncode == ExitCode.OK, again.stderr


def test_one_that_was_begun_without(tmp_path: Path) -> None:
    """A crawl of one gatherer alone cannot have a page later, and says so."""
    into = str(tmp_path / "crawl")
    with server(tmp_path / "web", 5, 3, 10) as served:
        settings = ["-s", "store.keep_free=0B", "--into", into]
        assert gcs("crawl", *served.web.seeds, *settings, hosts=served.hosts).returncode == ExitCode.OK
        refused = gcs("crawl", "--resume", "--monitor", *settings, hosts=served.hosts)
        assert (refused.returncode, "was begun by one gatherer alone" in refused.stderr) == (
            ExitCode.USAGE,
            True,
        )
    assert gcs("crawl", "http://x.test/", "--stay").returncode == ExitCode.USAGE
