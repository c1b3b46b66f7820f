"""The horizon of loans: until when others may ask hosts in this gatherer's place, whatever becomes of it.

A helper goes on when the gatherer that lent to it has died, and the next process of that gatherer knows
nothing of the loan. So before anything is lent it is on disk until when helpers may ask. Who finds such a
time at its start asks nobody before it is over. It moves by steps, and is written with batches that are
written anyway; a gatherer that ends when nothing is lent wipes it out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgpack

LENT: Final = "lent"
"""The name under which it is kept: when it was written, and until when others may ask."""
SPARE_S: Final = 5.0
"""An offer may come to lie where helpers see it so much later than it was made."""
STEP_S: Final = 2.0
"""So much further ahead than needed it is written."""


class Horizon:
    """Until when others may ask: what is on disk of it, and what was found there."""

    def __init__(self, kept: bytes | None, now: float, *, counts: bool) -> None:
        """`kept` is what the process before has left; it `counts` if helpers may come, and hosts rest."""
        self._counts = counts
        self._on_disk = self._wanted = -math.inf
        self.quiet_until = -math.inf
        """Nobody is asked before."""
        if kept:
            at, until = msgpack.unpackb(kept)
            # Who finds a clock that went back cannot know how much of it has passed.
            self.quiet_until = until if now >= at else now + until - at

    def covers(self, until: float) -> bool:
        """Whether it is on disk that others may ask until then; if not, it will be with the next batch."""
        if not self._counts:
            return True
        until += SPARE_S
        if until + STEP_S / 2 > self._on_disk:
            self._wanted = until + STEP_S
        return until <= self._on_disk

    def changed(self, now: float) -> dict[str, bytes]:
        """What is to be written with a batch."""
        return {LENT: msgpack.packb((now, self._wanted))} if self._wanted > self._on_disk else {}

    def written(self, meta: Mapping[str, bytes]) -> None:
        """These named values are on disk."""
        if LENT in meta:
            self._on_disk = msgpack.unpackb(meta[LENT])[1]

    def ended(self) -> dict[str, bytes]:
        """What is to be written when nothing is lent any more, and nothing will be."""
        return {} if self._on_disk == -math.inf else {LENT: b""}
