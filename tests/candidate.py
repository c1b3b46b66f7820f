"""A process that stands for election and writes under its token until its input ends; a test may pause it.

    python -m tests.candidate URL SPACE NAME...

Prints, at the end, how often it was elected, refused as stale, and told that its lease was over.
"""

from __future__ import annotations

import sys
from collections import Counter

import trio

import tuplespace

LEASE_S = 0.2


async def stand(space: tuplespace.Space, name: str, tally: Counter[str]) -> None:
    """Be elected again and again; write with a token that was asked for once, as somebody careless would."""
    while True:
        try:
            async with tuplespace.election(space, name, lease=LEASE_S) as term:
                tally["elected"] += 1
                fence = term.fence
                for _ in range(20):
                    await space.out("log", name, fence.token, fence=fence)
                    await trio.sleep(0.005)
        except tuplespace.Fenced:
            tally["fenced"] += 1
        except tuplespace.LeadershipLost:
            tally["lost"] += 1
        await trio.sleep(0.005)


async def main(url: str, name: str, elections: list[str]) -> None:
    """Run until standard input is closed."""
    tally: Counter[str] = Counter(elected=0, fenced=0, lost=0)
    async with tuplespace.connect(url) as client, trio.open_nursery() as nursery:
        for election in elections:
            nursery.start_soon(stand, client.space(name, index={"log": (1,)}), election, tally)
        await trio.lowlevel.wait_readable(sys.stdin)
        nursery.cancel_scope.cancel()
    print(tally["elected"], tally["fenced"], tally["lost"])


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], sys.argv[3:])
