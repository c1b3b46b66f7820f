"""The helper as one file helps a crawl on a machine with nothing but Python, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from gcs.helper import pack, unpack
from tests.crawling import gcs_here, server
from tests.gatherers import gatherers
from tests.servers import redis_server
from tests.soak.progress import Progress
from tests.soak.trial import Trial


def left_behind() -> set[str]:
    places = (Path("/dev/shm"), Path(tempfile.gettempdir()))
    return {each.name for place in places for each in place.glob("gcs-helper-*")}


def test_it_helps_and_leaves_nothing(tmp_path: Path, progress: Progress) -> None:
    file = tmp_path / "gcs-helper"
    assert pack.pack(file) < 80e6
    before = left_behind()
    slow = ["fetch.concurrency=2", "helpers.sites=office", "log.format=json"]
    with (
        server(tmp_path / "web", 5, hosts=20, pages=600, latency_ms=20) as served,
        redis_server() as node,
        gatherers(node, served, tmp_path / "g", slow) as group,
    ):
        invitation = group.invite("desk")
        line = [sys._base_executable, "-I", str(file), "--invitation", str(invitation)]  # type: ignore[attr-defined] # CPython has it
        for each in ("fetch.allow=127.0.0.0/8", f"fetch.hosts={served.hosts}"):
            line += ["-s", each]
        environment = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(tmp_path)}
        with subprocess.Popen(line, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL) as child:
            trial = Trial(group, served, progress)
            trial.begin("one")
            trial.end()
            helped = sum(member.pulse.facts["helped"] for member in group.members().values())
            assert left_behind() != before
            child.send_signal(signal.SIGTERM)
            assert child.wait(60) == 0
        assert "coverage 1.0000" in trial.verdict()
    assert helped > 50
    assert left_behind() == before


def test_what_a_killed_one_left_is_removed_by_the_next(tmp_path: Path) -> None:
    file = tmp_path / "gcs-helper"
    pack.pack(file)
    line = [sys._base_executable, "-I", str(file), "--invitation", str(tmp_path / "none")]  # type: ignore[attr-defined] # CPython has it
    stale = Path("/dev/shm") / f"gcs-helper-{2**22 + 1}-x"
    stale.mkdir()
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "cannot be read" in done.stderr
    assert not stale.exists()


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    file = tmp_path / "gcs-helper"
    file.write_text("mine")
    said = gcs_here("helper", "pack", "--into", str(file))
    assert said.exit_code == 2
    assert "exists" in said.output
    assert file.read_text() == "mine"


def test_where_no_program_may_be_it_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a directory that is mounted with noexec nothing could be loaded, so it is another one."""
    found, forbidden = os.statvfs, {"/dev/shm"}

    def statvfs(path: str) -> object:
        flags = os.ST_NOEXEC if path in forbidden else found(path).f_flag & ~os.ST_NOEXEC
        return SimpleNamespace(f_flag=flags)

    monkeypatch.setattr(os, "statvfs", statvfs)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert Path(unpack._place()).parent == tmp_path
    forbidden |= {str(tmp_path), tempfile.gettempdir()}
    with pytest.raises(SystemExit, match=r"/dev/shm, .*: mounted with noexec\); set TMPDIR to one"):
        unpack._place()
