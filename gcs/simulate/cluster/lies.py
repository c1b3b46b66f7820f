"""What gatherers were told that is not so, and take for true: only that may be missing from a crawl.

Who is known to a gatherer is checked from time to time, so it can deceive it for a while. But when it is
found out, all that it said since it was last found consistent has to be fetched again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from hashlib import sha1
from typing import Final

from gcs.simulate.web import Answer

LIE: Final = Answer(200, (("Content-Type", "text/html"),), b"<title>Nothing to see</title><p>Go home.</p>")
"""What a liar tells of every page: that it leads nowhere."""
_DIGEST: Final = sha1(LIE.body, usedforsecurity=False).digest()


def is_lie(digest: bytes) -> bool:
    """Whether something with a digest that begins so is what liars tell."""
    return bool(digest) and _DIGEST.startswith(digest)


class Lies:
    """Those of one run, by the keys of the pages that they are about."""

    def __init__(self) -> None:
        self.believed: set[str] = set()
        self._taken: defaultdict[str, set[str]] = defaultdict(set)

    def took(self, gatherer: str, key: str, digest: bytes) -> None:
        """A gatherer takes for true what it was told of a page."""
        if is_lie(digest):
            self.believed.add(key)
            self._taken[gatherer].add(key)

    def doubted(self, keys: Iterable[str]) -> None:
        """A gatherer knows that these have to be fetched again."""
        self.believed.difference_update(keys)

    def crashed(self, gatherer: str) -> None:
        """A gatherer may have forgotten what it knew last, such as who has lied."""
        self.believed |= self._taken[gatherer]
