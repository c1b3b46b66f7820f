"""Kill workers and servers for a long time, and account for every tuple: `make soak`.

    python -m tests.soak --act workers --act server --act cancels --seed 7 --server redis

Acts, each with a verdict of one line:

- `workers`: jobs go through worker processes that are killed with SIGKILL at random moments.
- `server`: the server is killed with SIGKILL and started again, under producers and consumers.
- `cancels`: takes are cancelled within a millisecond of the matching `out`, before and after it.
- `crawl`: a crawl is killed with SIGKILL and resumed, again and again.
- `gatherers`, `loss`: gatherers that crawl together, their leader and Redis are killed; a disk is lost.
- `standstill`, `returned`: gatherers and the leader are stopped with SIGSTOP and go on later.
- `network`: connections to Redis are cut, delayed and refused, and replies are lost.
- `partition`: groups of gatherers are cut off from Redis, and so from each other.
- `full`: a gatherer's disk is full for a while.
- `failover`: Sentinel makes a replica the master that has missed something.
- `helpers`: helpers come, go and are killed.
- `simulation`: whole clusters in one process.

What an act needs and is not there, such as the rights to make a network, makes it say that it was skipped.

What this does not test is power loss. SIGKILL ends a process, but what it has written is in the page
cache of the operating system and reaches the disk all the same. That `appendfsync always` also
survives a power cut is the word of the server, the file system and the disk.

Every decision depends on the seed; how the processes interleave does not.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from typing import Final

import trio

from tuplespace import Field, Tuple

SPACE: Final = "soak"
# Without any progress for this long, an act ends and fails.
STALL_S: Final = 60.0


class Failed(Exception):
    """Something was lost, done twice or left over, or nothing moves any more."""


class Skipped(Exception):
    """This machine, or who runs this, cannot do what the act needs; the message says why."""


class News:
    """Wakes whoever waits for a condition whenever something has happened that may make it true."""

    def __init__(self) -> None:
        self._happened = trio.Event()

    def tell(self) -> None:
        """Something has happened."""
        self._happened.set()
        self._happened = trio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition; raises Failed when nothing happens for too long."""
        while not condition():
            with trio.move_on_after(STALL_S):
                await self._happened.wait()
                continue
            raise Failed(f"nothing has happened for {STALL_S:.0f} s")


def packed(tuples: Iterable[Tuple]) -> bytes:
    """The ids of tuples (tag, id) in one field."""
    return array("I", [n for _, n in tuples if isinstance(n, int)]).tobytes()


def unpacked(ids: Field) -> array[int]:
    """The ids again."""
    assert isinstance(ids, bytes)
    numbers = array("I")
    numbers.frombytes(ids)
    return numbers
