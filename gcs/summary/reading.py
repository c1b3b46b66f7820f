"""The process that reads what is risky to read: `python -m gcs.summary.reading`, started by a `Workshop`.

It takes one body after the other from its standard input, each with a length before it, and writes what it
found to its standard output in the same way. Its address space is limited from the beginning, its processor
time anew for each body; it writes no files and dumps no core. When memory ran out it says so, and ends: what
is left of it after that is in no state to go on. How long it may take is for the workshop to watch.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from typing import IO, Final

import msgpack

from gcs.settings import size
from gcs.summary.deep import read
from gcs.summary.limits import Limits
from gcs.summary.members import Read
from gcs.summary.pipeline import with_types
from gcs.summary.plugins import Plugins, load
from gcs.summary.recognise import recognise
from gcs.summary.records import Document
from gcs.summary.wire import FRAME, READY

_LASTS: Final = 2_000
"""Bodies after which it is replaced, whatever leaks."""
_FILES: Final = 64
_NICENESS: Final = 5


class _Silent:
    """Nobody listens: what a plug-in did wrong is seen by what is missing."""

    def warning(self, event: str, /, **facts: object) -> None:
        """Nothing."""


def limit(memory_bytes: int) -> None:
    """Bound what this process can do to the machine."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))


def _limit_processor(seconds: int) -> None:
    """Let the system end this process when it has computed for so long from now on."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + seconds + 1
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (most, hard))


def serve(
    requests: IO[bytes], replies: IO[bytes], limits: Limits, plugins: Plugins, processor_s: int
) -> None:
    """Read bodies until there are no more, or memory has run out."""
    replies.write(READY)
    replies.flush()
    for served in range(1, _LASTS + 1):
        head = requests.read(FRAME.size)
        if len(head) < FRAME.size:
            return
        url, content_type, level, body = msgpack.unpackb(requests.read(FRAME.unpack(head)[0]))
        _limit_processor(processor_s)
        lasts = served < _LASTS
        try:
            found = read(
                body, url=url, content_type=content_type, level=level, plugins=plugins, limits=limits
            )
            reply = packed(found, lasts=lasts)
        except MemoryError:
            lasts = False
            most = resource.getrlimit(resource.RLIMIT_AS)[0]
            why = f"reading it takes more than {size(most)} of memory"
            kind = recognise(content_type, url, body)
            reply = packed(Read(with_types(Document(format=kind.media_type, refused=why), kind)), lasts=lasts)
        replies.write(FRAME.pack(len(reply)) + reply)
        replies.flush()
        if not lasts:
            return


def packed(found: Read, *, lasts: bool) -> bytes:
    """What was found, for the way back."""
    data: bytes = msgpack.packb((lasts, *found), unicode_errors="replace")
    return data


def main() -> None:
    """Limits as arguments, in the order of `Limits`, after those of memory and processor time."""
    memory_bytes, processor_s, *bounds = map(int, sys.argv[1:])
    requests = sys.stdin.buffer
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # libraries that print would be read as an answer
    plugins = load(_Silent())
    with suppress(OSError):
        os.nice(_NICENESS)  # fetching and pages go first
    limit(memory_bytes)
    serve(requests, replies, Limits(*bounds), plugins, processor_s)


if __name__ == "__main__":
    main()
