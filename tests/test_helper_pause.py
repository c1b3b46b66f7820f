"""Pause and resume, over a real socket and with real signals."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from gcs.errors import UsageError
from gcs.helper import pause
from gcs.helper.pause import Control, Said, tell


class Helper:
    """Somebody who can be paused."""

    def __init__(self) -> None:
        """It works."""
        self.may_work = True
        self.told = trio.Event()

    @property
    def sentence(self) -> str:
        """Why."""
        return "It may work at any time." if self.may_work else "The owner has paused it."

    def pause(self) -> None:
        """Stop."""
        self.may_work = False
        self.told.set()

    def resume(self) -> None:
        """Go on."""
        self.may_work = True
        self.told.set()


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Helper]:
    """A helper that listens."""
    helper = Helper()
    async with trio.open_nursery() as nursery:
        await nursery.start(Control(helper, directory).serve)
        yield helper
        nursery.cancel_scope.cancel()


async def test_pause_and_resume(tmp_path: Path) -> None:
    """What the owner says counts at once, and the answer says how things stand after it."""
    async with running(tmp_path) as helper:
        assert await tell("status", tmp_path) == Said(True, "It may work at any time.", os.getpid())
        assert await tell("pause", tmp_path) == Said(False, "The owner has paused it.", os.getpid())
        assert not helper.may_work
        assert (await tell("pause", tmp_path)).may_work is False
        assert (await tell("resume", tmp_path)).may_work is True
        assert helper.may_work


async def test_a_pause_outlives_the_process(tmp_path: Path) -> None:
    """A helper that is started again is paused if the one before it was; after a resume it is not."""
    async with running(tmp_path):
        await tell("pause", tmp_path)
    async with running(tmp_path) as again:
        assert not again.may_work
        await tell("resume", tmp_path)
    async with running(tmp_path) as again:
        assert again.may_work


async def test_signals(tmp_path: Path) -> None:
    """SIGUSR1 pauses, SIGUSR2 resumes."""
    async with running(tmp_path) as helper:
        for number, may_work in ((signal.SIGUSR1, False), (signal.SIGUSR2, True)):
            helper.told = trio.Event()
            os.kill(os.getpid(), number)
            await helper.told.wait()
            assert helper.may_work is may_work


async def test_only_the_owner_can_ask(tmp_path: Path) -> None:
    """The socket is its owner's alone, and is gone when the helper is."""
    place = tmp_path / "run"
    async with running(place):
        mode = stat.S_IMODE((place / "gcs-helper.sock").stat().st_mode)
        assert mode == 0o600
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert not (place / "gcs-helper.sock").exists()


async def test_no_helper(tmp_path: Path) -> None:
    """Without a helper, that is what one is told."""
    with pytest.raises(UsageError, match="No helper of yours runs"):
        await tell("pause", tmp_path)
    async with running(tmp_path):
        pass
    with pytest.raises(UsageError, match="No helper of yours runs"):
        await tell("status", tmp_path)


async def test_another_helper(tmp_path: Path) -> None:
    """A second helper of the same user is refused, and the first does not notice."""
    async with running(tmp_path):
        with pytest.raises(UsageError, match="Another helper of yours runs"):
            await Control(Helper(), tmp_path).serve()
        assert (await tell("status", tmp_path)).may_work
    async with running(tmp_path):
        assert (await tell("status", tmp_path)).may_work


async def test_what_a_killed_helper_left_behind(tmp_path: Path) -> None:
    """A helper that was killed leaves its socket behind, which is in nobody's way."""
    program = f"""
import os, signal, sys, trio
from pathlib import Path
from gcs.helper.pause import Control
class Helper:
    may_work, sentence = True, ""
    def pause(self): os.kill(os.getpid(), signal.SIGKILL)
    def resume(self): ...
async def main():
    async with trio.open_nursery() as nursery:
        await nursery.start(Control(Helper(), Path({os.fspath(tmp_path)!r})).serve)
        print("ready", flush=True)
trio.run(main)
"""
    process = await trio.lowlevel.open_process([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert (await process.stdout.receive_some(100)).startswith(b"ready")
    with pytest.raises(UsageError, match=r"does not answer|No helper"):
        await tell("pause", tmp_path)
    assert await process.wait() == -signal.SIGKILL
    assert (tmp_path / "gcs-helper.sock").exists()
    with pytest.raises(UsageError, match="No helper of yours runs"):
        await tell("status", tmp_path)
    async with running(tmp_path):
        assert (await tell("status", tmp_path)).may_work


@pytest.mark.parametrize(
    "line",
    [b"nonsense", b"[]", b"{}", b'{"do": 7}', b'{"do": ["pause"]}', b'{"do": "jump"}', b"x" * 4000, b""],
)
async def test_what_is_no_request(tmp_path: Path, line: bytes) -> None:
    """Whatever else is said on the socket is answered with what could have been, and changes nothing."""
    async with running(tmp_path) as helper:
        async with await trio.open_unix_socket(str(tmp_path / "gcs-helper.sock")) as stream:
            await stream.send_all(line + b"\n")
            answer = b""
            while more := await stream.receive_some(1000):
                answer += more
        assert "told to pause" in json.loads(answer)["error"]
        assert not helper.told.is_set()
        with pytest.raises(UsageError, match="told to pause"):
            await tell("jump", tmp_path)


async def test_who_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who connects and says nothing is sent away, and keeps nobody else from asking."""
    monkeypatch.setattr(pause, "_PATIENCE_S", 0.5)
    async with (
        running(tmp_path),
        await trio.open_unix_socket(str(tmp_path / "gcs-helper.sock")) as stream,
    ):
        assert (await tell("status", tmp_path)).may_work
        assert await stream.receive_some(1000) == b""


def test_the_directory(tmp_path: Path) -> None:
    """The socket is in the user's runtime directory, or in one of the user's own."""
    assert pause.directory({"XDG_RUNTIME_DIR": "/run/user/7"}) == Path("/run/user/7")
    assert pause.directory({}).name == f"gcs-helper-{os.getuid()}"


def test_the_places() -> None:
    """Root's commands are also for the helper that is a service of the system, others' are not."""
    own = {"XDG_RUNTIME_DIR": "/run/user/7"}
    assert pause.places(own, uid=0) == [Path("/run/user/7"), Path("/run/gcs-helper")]
    assert pause.places(own, uid=7) == [Path("/run/user/7")]


async def test_the_helper_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the user's own is not there, the next place is asked."""
    monkeypatch.setattr(pause, "places", lambda: [tmp_path / "own", tmp_path])
    async with running(tmp_path):
        assert (await tell("pause")).may_work is False


async def test_a_system_without_control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are no such sockets and signals a helper runs all the same, and says how to stop it."""
    monkeypatch.delattr(signal, "SIGUSR1")
    async with running(tmp_path):
        assert os.listdir(tmp_path) == []  # noqa: PTH208 (the other way is refused in async code)
        with pytest.raises(UsageError, match="end it instead"):
            await tell("pause", tmp_path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
async def test_a_directory_of_somebody_else(tmp_path: Path) -> None:
    """What somebody else has prepared is not used."""
    os.chown(tmp_path, 12345, -1)
    with pytest.raises(UsageError, match="belongs to somebody else"):
        await Control(Helper(), tmp_path).serve()
