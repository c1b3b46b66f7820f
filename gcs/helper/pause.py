"""Pause and resume: the owner's word, at once, from the same machine.

A running helper listens on a unix socket in the user's runtime directory, which nobody else can open. A
request is one line of JSON, `{"do": "pause"}`, and so is the answer. `SIGUSR1` pauses too and `SIGUSR2`
resumes, for those who know the process. A lock beside the socket says that a helper runs: the system drops it
with the process, so what a killed helper left behind is in nobody's way. A pause is a file there: it outlives
the process, as only a resume ends it.

Windows has neither; there a helper is paused by ending it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import trio

from gcs.errors import UsageError

_NAME: Final = "gcs-helper"
_MAX_LINE: Final = 4096
_PATIENCE_S: Final = 5.0
_SERVICE: Final = Path("/run/gcs-helper")
"""Where `gcs-helper.service` listens."""


class Paused(Protocol):
    """Whom the owner's word is for."""

    def pause(self) -> None:
        """Stop working now."""

    def resume(self) -> None:
        """Work again, if nothing else speaks against it."""

    @property
    def may_work(self) -> bool:
        """Whether it works."""

    @property
    def sentence(self) -> str:
        """Why, in plain words."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a helper answers: how it stands after what was asked of it."""

    may_work: bool
    sentence: str
    pid: int


def directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the socket is: the user's runtime directory, or one of the user's own beside temporary files."""
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime)
    return Path(tempfile.gettempdir()) / f"{_NAME}-{os.getuid()}"


def places(environ: Mapping[str, str] = os.environ, *, uid: int | None = None) -> list[Path]:
    """Where to look for a helper of this user, the user's own first; root's is also the system's service."""
    is_root = (os.getuid() if uid is None else uid) == 0
    return [directory(environ), *([_SERVICE] if is_root else [])]


class Control:
    """The running helper's end."""

    def __init__(self, helper: Paused, path: Path | None = None) -> None:
        """`path` is the directory of the socket, if it is not the usual."""
        self._helper = helper
        self._path = path
        self._mark: Path | None = None

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen until cancelled; raises UsageError if another helper of this user runs."""
        if not _has_control():
            task_status.started()
            await trio.sleep_forever()
        place = directory() if self._path is None else self._path
        with _locked(place), _listening(place) as listener:
            self._mark = place / f"{_NAME}.paused"
            if self._mark.exists():
                self._helper.pause()
            async with trio.open_nursery() as nursery:
                await nursery.start(self._obey_signals)
                task_status.started()
                await trio.serve_listeners(self._answer, [trio.SocketListener(listener)])

    async def _obey_signals(self, *, task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(signal.SIGUSR1, signal.SIGUSR2) as signals:
            task_status.started()
            async for number in signals:
                self._obey("pause" if number == signal.SIGUSR1 else "resume")

    async def _answer(self, stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError), trio.move_on_after(_PATIENCE_S):
            line = await _read_line(stream)
            try:
                word = json.loads(line)["do"]
            except (ValueError, KeyError, TypeError, RecursionError):
                word = None
            answer: Mapping[str, object]
            if self._obey(word):
                answer = asdict(Said(self._helper.may_work, self._helper.sentence, os.getpid()))
            else:
                answer = {"error": "A helper is told to pause, to resume, or to say its status."}
            await stream.send_all(json.dumps(answer).encode() + b"\n")
        await stream.aclose()

    def _obey(self, word: object) -> bool:
        acts: Mapping[object, Callable[[], None]] = {"pause": self._pause, "resume": self._resume}
        if isinstance(word, str) and word in acts:
            acts[word]()
            return True
        return word == "status"

    def _pause(self) -> None:
        self._helper.pause()
        if self._mark is not None:
            with suppress(OSError):  # on a full disk it lasts for as long as the process
                self._mark.touch(mode=0o600)

    def _resume(self) -> None:
        if self._mark is not None:
            self._mark.unlink(missing_ok=True)
        self._helper.resume()


async def tell(word: str, path: Path | None = None) -> Said:
    """Tell the helper that runs on this machine to "pause" or "resume", or ask for its "status".

    Raises UsageError if there is none.
    """
    if not _has_control():
        raise UsageError("On this system a helper cannot be told anything; end it instead.")
    for place in places() if path is None else [path]:
        try:
            return await _told(word, place)
        except (OSError, trio.BrokenResourceError):
            continue
        except (trio.TooSlowError, ValueError):
            raise UsageError("The helper on this machine does not answer.") from None
    raise UsageError("No helper of yours runs on this machine.")


async def _told(word: str, place: Path) -> Said:
    with trio.fail_after(_PATIENCE_S):
        async with await trio.open_unix_socket(str(_socket_in(place))) as stream:
            await stream.send_all(json.dumps({"do": word}).encode() + b"\n")
            answer: dict[str, Any] = json.loads(await _read_line(stream))
    if "error" in answer:
        raise UsageError(str(answer["error"]))
    return Said(may_work=bool(answer["may_work"]), sentence=str(answer["sentence"]), pid=int(answer["pid"]))


def _has_control() -> bool:
    return hasattr(socket, "AF_UNIX") and hasattr(signal, "SIGUSR1")


def _socket_in(place: Path) -> Path:
    return place / f"{_NAME}.sock"


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Hold the lock that says that a helper runs."""
    import fcntl  # which Windows has not

    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if place.stat().st_uid != os.getuid():
        raise UsageError(f"{place} belongs to somebody else; set XDG_RUNTIME_DIR to a directory of yours.")
    held = os.open(place / f"{_NAME}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError("Another helper of yours runs on this machine already.") from None
        yield
    finally:
        os.close(held)


@contextmanager
def _listening(place: Path) -> Iterator[trio.socket.SocketType]:
    """A socket that only its owner can open; nobody can connect before its mode is set."""
    path = _socket_in(place)
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.settimeout(0)
        sock.bind(os.fspath(path))
        path.chmod(0o600)
        sock.listen(8)
        with trio.socket.from_stdlib_socket(sock) as listener:
            yield listener
    finally:
        sock.close()
        path.unlink(missing_ok=True)


async def _read_line(stream: trio.SocketStream) -> bytes:
    line = b""
    while b"\n" not in line and len(line) < _MAX_LINE:
        more = await stream.receive_some(_MAX_LINE)
        if not more:
            break
        line += more
    return line.partition(b"\n")[0]
