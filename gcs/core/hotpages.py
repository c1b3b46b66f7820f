"""Hot pages: a small table of the URLs that come again and again. (003, section 6.)

A page with M links to it shows up M times, and is queued or sent to its owner as often, unless one remembers.
There is no room in memory to remember all, but most repetitions are of few pages, those with a large
in-degree.

The table owns at most `capacity` URLs that were *passed on*, queued or sent. Promise: it never claims
falsely. When it says that a URL was passed on, it was; it may forget, and then a URL is passed on once more,
which costs a little and loses nothing. Who is hot is found out as one goes: half of the table are newcomers
in the order of their last coming; one that comes again while it is there moves to the other half, of those
that proved hot, and pushes out the one of them that did not come for longest. So a flood of pages that come
once passes through the first half and leaves the second alone.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a table was asked, and how often it knew."""

    asked: int
    known: int
    size: int
    hot: int


class HotPages:
    """A bounded table of URLs that were passed on."""

    def __init__(self, capacity: int, *, newcomers: float = 0.5) -> None:
        """Room for so many URLs, a share of it for newcomers; 0 remembers nothing."""
        if capacity < 0 or not 0 < newcomers < 1:
            raise ValueError(
                f"a table has room for 0 URLs or more and a share of newcomers, not {capacity}, {newcomers}"
            )
        self._new_room = min(capacity, max(1, round(newcomers * capacity)))
        self._hot_room = capacity - self._new_room
        self._new: OrderedDict[str, None] = OrderedDict()
        self._hot: OrderedDict[str, None] = OrderedDict()
        self._asked = self._known = 0

    def passed_on(self, key: str) -> bool:
        """Whether a URL is known to have been passed on; from now on it is, for the caller does so if not."""
        self._asked += 1
        if key in self._hot:
            self._hot.move_to_end(key)
        elif key in self._new:
            self._promote(key)
        else:
            self._admit(key)
            return False
        self._known += 1
        return True

    def forget(self, key: str) -> None:
        """A URL has to be passed on again, if it comes again."""
        self._new.pop(key, None)
        self._hot.pop(key, None)

    def clear(self) -> None:
        """Forget everything: after a plan in which owners have changed, say."""
        self._new.clear()
        self._hot.clear()

    def statistics(self) -> Statistics:
        """What it was asked so far."""
        return Statistics(self._asked, self._known, len(self), len(self._hot))

    def __len__(self) -> int:
        return len(self._new) + len(self._hot)

    def __contains__(self, key: str) -> bool:
        return key in self._hot or key in self._new

    def _promote(self, key: str) -> None:
        if not self._hot_room:
            self._new.move_to_end(key)
            return
        del self._new[key]
        self._hot[key] = None
        if len(self._hot) > self._hot_room:
            cooled, _ = self._hot.popitem(last=False)
            self._admit(cooled)

    def _admit(self, key: str) -> None:
        if self._new_room:
            self._new[key] = None
            if len(self._new) > self._new_room:
                self._new.popitem(last=False)
