"""A process of our own beside this one, for what takes long: asked over its input, answering over its output.

Questions and answers are msgpack, one after the other. The process ends when its input does, so that it does
not outlive whoever asks; it gives way to all others on the machine.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

import msgpack
import trio

_NICE: Final = 10
_COLLECT_AFTER: Final = 50_000
_CHUNK: Final = 1 << 16
_LENGTH_BYTES: Final = 4
_ROOT: Final = Path(__file__).parent.parent


class ChildDied(Exception):
    """The process has ended, or does not answer as it should."""


class Child:
    """A process that answers one question after the other."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._turn = trio.Lock()
        self._read = bytearray()

    async def ask(self, *question: Any) -> Any:
        """The answer to a question; raises ChildDied. Who is cancelled meanwhile cannot ask again."""
        packed = msgpack.packb(question)
        async with self._turn:
            assert self._process.stdin is not None
            try:
                await self._process.stdin.send_all(len(packed).to_bytes(_LENGTH_BYTES, "big") + packed)
                length = int.from_bytes(await self._exactly(_LENGTH_BYTES), "big")
                return msgpack.unpackb(await self._exactly(length), use_list=False)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise ChildDied("it has ended") from error

    async def _exactly(self, count: int) -> bytes:
        assert self._process.stdout is not None
        while len(self._read) < count:
            some = await self._process.stdout.receive_some(_CHUNK)
            if not some:
                raise ChildDied("it has ended")
            self._read += some
        found = bytes(self._read[:count])
        del self._read[:count]
        return found


@asynccontextmanager
async def started(module: str, *arguments: str) -> AsyncIterator[Child]:
    """A process that runs a module of ours, until the end of the block."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=_ROOT,
        start_new_session=True,  # Ctrl-C is for whoever asks
    )
    try:
        yield Child(process)
    finally:
        with trio.CancelScope(shield=True):
            process.kill()
            await process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    await pipe.aclose()


def serve(answer: Callable[..., Any]) -> None:
    """Answer questions in this process, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(_NICE)
    gc.set_threshold(_COLLECT_AFTER)  # pages are many objects, and no cycles
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while (question := _frame(source)) is not None:
        packed = msgpack.packb(answer(*msgpack.unpackb(question, use_list=False)))
        try:
            sink.write(len(packed).to_bytes(_LENGTH_BYTES, "big") + packed)
            sink.flush()
        except BrokenPipeError:  # whoever asked was killed
            os._exit(0)


def _frame(source: IO[bytes]) -> bytes | None:
    length = source.read(_LENGTH_BYTES)
    if len(length) < _LENGTH_BYTES:
        return None
    count = int.from_bytes(length, "big")
    frame = source.read(count)
    return frame if len(frame) == count else None
