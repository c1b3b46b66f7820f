"""Processes in which risky formats are read, and what becomes of those that hang, crash or grow.

A process is started when there is something for it, used again, and ended with the workshop. It is given one
body at a time. One that takes too long is killed, one that has died is replaced, and the body it had is
refused with the reason; so what a body can do is to lose its own summary. What comes back is read with all
its types and bounds checked: what a process can say, even one that was taken over, is lies about its body.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Annotated, Final

import msgpack
import msgspec
import structlog
import trio
from msgspec import Meta, Struct

from gcs.settings import duration
from gcs.summary.limits import Limits
from gcs.summary.members import Member, Read
from gcs.summary.names import SEPARATOR
from gcs.summary.pipeline import with_types
from gcs.summary.recognise import recognise
from gcs.summary.records import MAX_HREF, MAX_LINKS, Document
from gcs.summary.wire import FRAME, READY, Wire, is_modest

_START_S: Final = 60.0
_MOST_BYTES: Final = 256 << 20
"""No answer is longer."""
_ENDED_S: Final = 5.0
# Libraries would begin a thread, or a pool of memory, for each processor.
_ENVIRONMENT: Final = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
}

_SECRETS: Final = ("GCS_", "CREDENTIALS_DIRECTORY")


_Address = Annotated[str, Meta(max_length=MAX_HREF, pattern=r"^[!-~]+\Z")]


class _Member(Struct, array_like=True, frozen=True):
    url: _Address
    parent: _Address
    bytes: Annotated[int, Meta(ge=0, le=1 << 40)]
    digest: Annotated[str, Meta(max_length=60, pattern=r"^[!-~]*\Z")]
    links: Annotated[int, Meta(ge=0, le=MAX_LINKS)]
    document: Wire


class _Reply(Struct, array_like=True, frozen=True):
    lasts: bool
    document: Wire
    members: Annotated[list[_Member], Meta(max_length=100_000)]


_replies = msgspec.msgpack.Decoder(_Reply)


class _Lost(Exception):
    """A process has ended, or has to be, and why."""


class Workshop:
    """Some processes that read; any number of tasks may use it at a time."""

    def __init__(self, limits: Limits, *, processes: int, timeout_s: float, memory_bytes: int) -> None:
        self._limits, self._timeout_s, self._memory_bytes = limits, timeout_s, memory_bytes
        self._idle: list[trio.Process] = []
        self._room = trio.CapacityLimiter(processes)
        self._log = structlog.get_logger()
        self.processes = processes
        self.started = 0
        """Processes that were started, the first ones included."""
        self.lost = 0
        """Those that hung, crashed, or ran out of memory."""

    async def read(self, body: bytes, *, url: str, content_type: str = "", level: str = "full") -> Read:
        """What a body says; refused with a reason if no process could say that."""
        async with self._room:
            process = self._idle.pop() if self._idle else None
            try:
                if process is None:
                    process = await self._started()
                reply = await self._asked(process, msgpack.packb((url, content_type, level, body)))
                if not all(_is_in(each, url) for each in reply.members):
                    raise _Lost("its reader spoke of something else")
                if reply.lasts:
                    self._idle.append(process)
                else:
                    self.lost += bool(reply.document.refused)
                    await _ended(process)
            except BaseException as error:
                if process is not None:
                    await _ended(process)
                if not isinstance(error, _Lost):
                    raise
                self.lost += 1
                self._log.warning("reading failed", url=url, why=str(error))
                return Read(_refused(body, url, content_type, str(error)))
        members = tuple(
            Member(each.url, each.parent, each.bytes, each.digest, each.links, Document(*each.document))
            for each in reply.members
        )
        return Read(Document(*reply.document), members)

    async def aclose(self) -> None:
        """End all processes."""
        idle, self._idle = self._idle, []
        for process in idle:
            await _ended(process)

    async def _started(self) -> trio.Process:
        self.started += 1
        limits = [self._memory_bytes, math.ceil(self._timeout_s), *self._limits]
        try:
            process = await trio.lowlevel.open_process(
                [sys.executable, "-m", "gcs.summary.reading", *map(str, limits)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                start_new_session=True,  # Ctrl-C is not meant for it
            )
        except OSError as error:
            raise _Lost(f"no process could be started to read it: {error.strerror}") from None
        try:
            with trio.move_on_after(_START_S):
                assert process.stdout is not None
                if await process.stdout.receive_some(1) == READY:
                    return process
        except BaseException:
            await _ended(process)
            raise
        await _ended(process)
        raise _Lost("no process could be started to read it")

    async def _asked(self, process: trio.Process, request: bytes) -> _Reply:
        assert process.stdin is not None
        with trio.move_on_after(self._timeout_s):
            try:
                await process.stdin.send_all(FRAME.pack(len(request)) + request)
                (length,) = FRAME.unpack(await _received(process, FRAME.size))
                if length > _MOST_BYTES:
                    raise _Lost("its reader said too much")
                reply = _replies.decode(await _received(process, length))
            except (trio.BrokenResourceError, EOFError):
                raise _Lost(await self._death(process)) from None
            except msgspec.MsgspecError:
                raise _Lost("its reader said nonsense") from None
            if not all(
                is_modest(Document(*each)) for each in (reply.document, *(m.document for m in reply.members))
            ):
                raise _Lost("its reader said more than there can be")
            return reply
        raise _Lost(f"reading it takes longer than {duration(self._timeout_s)}")

    async def _death(self, process: trio.Process) -> str:
        """What ended a process."""
        with trio.move_on_after(_ENDED_S):
            await process.wait()
        code = process.returncode
        if code == -signal.SIGXCPU:
            return f"reading it takes more than {duration(self._timeout_s)} of processor time"
        if code is not None and code < 0:
            return f"its reader crashed ({_signal(-code)})"
        return "its reader crashed"


def _signal(number: int) -> str:
    """The name of a signal; those of real time have none."""
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _is_in(member: _Member, url: str) -> bool:
    """Whether a member is what it is a member of, and nothing elsewhere."""
    within = f"{url}{SEPARATOR}"
    return member.url.startswith(within) and (member.parent == url or member.parent.startswith(within))


def _environment() -> dict[str, str]:
    """That of this process, without what only a gatherer has to know."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_SECRETS)}
    return kept | _ENVIRONMENT


async def _received(process: trio.Process, count: int) -> bytes:
    """So many bytes; raises EOFError when there are no more."""
    assert process.stdout is not None
    parts: list[bytes | bytearray] = []
    while count:
        part = await process.stdout.receive_some(min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


async def _ended(process: trio.Process) -> None:
    """Kill a process, and wait for it; also when cancelled."""
    with trio.CancelScope(shield=True):
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                await stream.aclose()


def _refused(body: bytes, url: str, content_type: str, why: str) -> Document:
    found = recognise(content_type, url, body)
    return with_types(Document(format=found.media_type, refused=why), found)
