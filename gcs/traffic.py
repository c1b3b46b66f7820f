"""What coordination costs: bytes of tuples that this process has written and read. (002, equation 1.)

Counted are the fields of tuples about who fetches what: heartbeats, charters, calls, reports, wishes, batches
of URLs and rows, and domains. Not counted is what the tuple space adds to them, and turns, which politeness
needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_NUMBER_BYTES: Final = 8


@dataclass(slots=True)
class Traffic:
    """How much one process has sent and received so far."""

    sent_bytes: int = 0
    received_bytes: int = 0

    def wrote(self, *fields: object) -> None:
        """A tuple was sent."""
        self.sent_bytes += size_of(fields)

    def read(self, *fields: object) -> None:
        """A tuple was received."""
        self.received_bytes += size_of(fields)

    def overhead_percent(self, fetched_bytes: int) -> float:
        """C = o / (o + f) · 100, with o the bytes of coordination and f those of fetched pages."""
        coordination = self.sent_bytes + self.received_bytes
        whole = coordination + fetched_bytes
        return 100.0 * coordination / whole if whole else 0.0


def size_of(fields: tuple[object, ...]) -> int:
    """The bytes of a tuple's values: texts and bytes by their length, numbers as eight."""
    return sum([len(each) if isinstance(each, str | bytes) else _NUMBER_BYTES for each in fields])
