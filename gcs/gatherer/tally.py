"""What a crawl has done so far: counted as it goes, kept with every batch, shown at the end.

The counts are those of the whole crawl, over all its runs. Values that a web can invent without end (hosts,
media types) are counted in tables of bounded size.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgpack

from gcs.core.sampling import Frequent
from gcs.summary.language import is_code

if TYPE_CHECKING:
    from gcs.core.estimate import Progress

VERSION: Final = 3
_TABLE: Final = 500
_HISTORY: Final = 400
_RECENT_S: Final = 10.0


@dataclass(slots=True)
class Tally:
    """Counts by status, type, language, host and reason, and how the crawl has grown."""

    pages: int = 0
    size_bytes: int = 0
    helped: int = 0
    """Those of the pages that helpers have fetched."""
    visits: Counter[str] = field(default_factory=Counter)
    """Visits to pages that were fetched before, by what they have found."""
    statuses: Counter[int] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    types: Frequent = field(default_factory=lambda: Frequent(_TABLE))
    hosts: Frequent = field(default_factory=lambda: Frequent(_TABLE))
    history: list[tuple[int, int]] = field(default_factory=list)
    _every: int = 1

    def answered(self, host: str, status: int, media_type: str, language: str, size: int) -> None:
        """Count an answer of a server."""
        self.pages += 1
        self.size_bytes += size
        self.statuses[status] += 1
        self.types.add_repeated(media_type or "unknown", 1)
        self.hosts.add_repeated(host, 1)
        if is_code(language):
            self.languages[language] += 1

    def visited_again(self, seen: str) -> None:
        """Count another visit to a page."""
        self.visits[str(seen)] += 1

    def failed(self, reason: str) -> None:
        """Count a URL that got no answer, or was given up."""
        self.reasons[reason] += 1

    def grown(self, done: int, accepted: int) -> None:
        """Note how far the crawl has come; as it grows long, every second point is left out."""
        if not self.history or done >= self.history[-1][0] + self._every:
            self.history.append((done, accepted))
        if len(self.history) > _HISTORY:
            self.history = self.history[::2]
            self._every *= 2

    def merge(self, *others: Tally) -> None:
        """Take in what other gatherers of the crawl have counted; how each has grown does not add up."""
        for other in others:
            self.pages += other.pages
            self.size_bytes += other.size_bytes
            self.helped += other.helped
            self.visits += other.visits
            self.statuses += other.statuses
            self.languages += other.languages
            self.reasons += other.reasons
            self.types.merge(other.types)
            self.hosts.merge(other.hosts)

    def progress(self) -> Progress | None:
        """How far along it is, as far as can be said; None before the first page."""
        # Not before it is asked for: it takes NumPy.
        from gcs.core import estimate

        return estimate.halfway(self.history) if self.history else None

    def to_bytes(self) -> bytes:
        """Everything, to be kept with a batch."""
        state = [
            VERSION,
            self.pages,
            self.size_bytes,
            dict(self.statuses),
            dict(self.languages),
            dict(self.reasons),
            *[(table.counts, table.total, table.error) for table in (self.types, self.hosts)],
            self.history,
            self._every,
            self.helped,
            dict(self.visits),
        ]
        packed: bytes = msgpack.packb(state)
        return packed

    @classmethod
    def from_bytes(cls, data: bytes) -> Tally:
        """What `to_bytes` gave; a tally of another version begins anew."""
        state: list[Any] = msgpack.unpackb(data, strict_map_key=False)
        if state[0] != VERSION:
            return cls()
        types, hosts = (Frequent(_TABLE, dict(counts), total, error) for counts, total, error in state[6:8])
        return cls(
            pages=state[1],
            size_bytes=state[2],
            statuses=Counter(state[3]),
            languages=Counter(state[4]),
            reasons=Counter(state[5]),
            types=types,
            hosts=hosts,
            history=[(done, accepted) for done, accepted in state[8]],
            _every=state[9],
            helped=state[10],
            visits=Counter(state[11]),
        )


class Pace:
    """Pages per second, of late and on the whole."""

    def __init__(self, now: float) -> None:
        self._started = now
        self._points: deque[tuple[float, int]] = deque([(now, 0)])

    def note(self, now: float, pages: int) -> None:
        """So many pages have been fetched since the beginning."""
        self._points.append((now, pages))
        while len(self._points) > 2 and self._points[1][0] < now - _RECENT_S:
            self._points.popleft()

    @property
    def is_known(self) -> bool:
        """Whether some time has passed."""
        return self._points[-1][0] > self._points[0][0]

    @property
    def recent(self) -> float:
        """Over the last ten seconds."""
        (then, before), (now, pages) = self._points[0], self._points[-1]
        return (pages - before) / (now - then) if now > then else 0.0

    @property
    def overall(self) -> float:
        """Since the beginning."""
        now, pages = self._points[-1]
        return pages / (now - self._started) if now > self._started else 0.0


def most(counts: Counter[str] | dict[str, int], limit: int) -> Sequence[tuple[str, int]]:
    """The largest counts first, equal ones by name."""
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:limit]


def size(number_bytes: int) -> str:
    """A number of bytes for people."""
    number = float(number_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}" if unit != "B" else f"{number:.0f} B"
        number /= 1000
    return f"{number:,.1f} TB"
