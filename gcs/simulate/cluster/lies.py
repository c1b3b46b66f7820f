"""What gatherers were told that is not so, and take for true: only that may be missing from a crawl.

Who is known to a gatherer is checked from time to time, so it can deceive it for a while. But when it is
found out, all that it said since it was last found consistent has to be fetched again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from gcs.simulate.web import Answer
from gcs.summary.records import Document

_TITLE: Final = "Nothing to see"
LIE: Final = Answer(200, (("Content-Type", "text/html"),), f"<title>{_TITLE}</title><p>Go home.</p>".encode())
"""What a liar tells of every page: that it leads nowhere."""


class Lies:
    """Those of one run, by the keys of the pages that they are about."""

    def __init__(self) -> None:
        self.believed: set[str] = set()
        self._taken: defaultdict[str, set[str]] = defaultdict(set)

    def took(self, gatherer: str, key: str, told: Document | None) -> None:
        """A gatherer takes for true what it was told of a page."""
        if told is not None and told.title == _TITLE:
            self.believed.add(key)
            self._taken[gatherer].add(key)

    def doubted(self, keys: Iterable[str]) -> None:
        """A gatherer knows that these have to be fetched again."""
        self.believed.difference_update(keys)

    def crashed(self, gatherer: str) -> None:
        """A gatherer may have forgotten what it knew last, such as who has lied."""
        self.believed |= self._taken[gatherer]
